//! The routes to one prefix, and which of them is chosen (RFC 8966 §3.2.6, §3.6, appendix A.3).

use std::time::Duration;

use super::neighbour::NeighbourId;
use super::smooth::{Smoothed, UNIT};
use super::source::Distance;
use crate::path::LinkId;
use crate::time::Time;
use crate::wire::babel::{INFINITY, RouterId};

/// Why a prefix is announced by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Own {
    Local,
    /// It lies behind this link's peer, which speaks no Babel.
    Static(LinkId),
}

impl Own {
    pub(super) fn metric(self) -> u16 {
        match self {
            Own::Local => 0,
            Own::Static(_) => STATIC_METRIC,
        }
    }
}

/// A route that a neighbour announced; its metric is finite as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) neighbour: NeighbourId,
    pub(super) router_id: RouterId,
    pub(super) received: Distance,
    pub(super) expires: Time,
    /// When to ask for it again if no update has come; once.
    pub(super) refresh: Option<Time>,
    metric: u16,
    smoothed: Smoothed,
}

impl Candidate {
    pub(super) fn new(now: Time, neighbour: NeighbourId, router_id: RouterId, received: Distance) -> Candidate {
        let smoothed = Smoothed::new(now, 0);
        Candidate { neighbour, router_id, received, expires: now, refresh: None, metric: INFINITY, smoothed }
    }

    pub(super) fn metric(&self) -> u16 {
        self.metric
    }

    /// The route's metric over a link of this cost (RFC 8966 §3.5.2: strictly larger than received, capped).
    pub(super) fn set_cost(&mut self, now: Time, cost: u16, half_life: Duration) {
        let metric = self.received.metric.saturating_add(cost);
        let double = Smoothed::new(now, u32::from(metric) * 2);
        if self.metric == INFINITY {
            // A route that was not there has to prove itself: it counts double at first, so that one which comes and goes
            // does not pull the traffic after it.
            self.smoothed = double;
        } else {
            self.smoothed.follow(now, self.metric, half_life);
            // But it counts no more than double, so that one which is twice as good wins at once.
            self.smoothed = self.smoothed.min(double);
        }
        self.metric = metric;
    }

    fn smoothed(&self, now: Time, half_life: Duration) -> u32 {
        self.smoothed.value(now, self.metric, half_life)
    }
}

/// What a prefix is forwarded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Own(Own),
    Neighbour(NeighbourId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) via: Via,
    pub(super) router_id: RouterId,
}

/// RFC 8966 §3.5.4: the prefix stays unreachable, so that no covering route takes its packets in a circle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) until: Time,
    pub(super) router_id: RouterId,
}

/// Everything about one prefix.
#[derive(Default)]
pub(super) struct Destination {
    pub(super) own: Option<Own>,
    pub(super) candidates: Vec<Candidate>,
    /// What the last decision was.
    pub(super) chosen: Option<Choice>,
    pub(super) hold: Option<Hold>,
    /// When the next hop last changed.
    pub(super) changed_at: Time,
    /// The metric last sent to anyone.
    pub(super) sent_metric: Option<u16>,
    damping: Damping,
}

impl Destination {
    pub(super) fn candidate(&self, neighbour: NeighbourId) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.neighbour == neighbour)
    }

    pub(super) fn selected(&self) -> Option<&Candidate> {
        match self.chosen?.via {
            Via::Own(_) => None,
            Via::Neighbour(neighbour) => self.candidate(neighbour),
        }
    }

    pub(super) fn is_selected(&self, neighbour: NeighbourId) -> bool {
        self.chosen.is_some_and(|choice| choice.via == Via::Neighbour(neighbour))
    }

    pub(super) fn metric(&self) -> Option<u16> {
        match self.chosen?.via {
            Via::Own(own) => Some(own.metric()),
            Via::Neighbour(neighbour) => self.candidate(neighbour).map(Candidate::metric),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own.is_none() && self.candidates.is_empty() && self.hold.is_none()
    }

    /// RFC 8966 §3.6: never an infinite metric, never an unfeasible route, never by seqno. Appendix A.3: what is chosen stays
    /// until another route is better both now and on average.
    pub(super) fn choose(
        &mut self,
        now: Time,
        hello: Duration,
        feasible: impl Fn(&Candidate) -> bool,
    ) -> Option<Choice> {
        if let Some(own) = self.own {
            return Some(Choice { via: Via::Own(own), router_id: OURS });
        }
        let half_life = half_life(hello);
        let choice = |c: &Candidate| Choice { via: Via::Neighbour(c.neighbour), router_id: c.router_id };
        let usable = |candidate: &&Candidate| candidate.metric < INFINITY && feasible(candidate);
        let Some(current) = self.selected().filter(usable) else {
            (self.damping.better_since, self.damping.fair_since) = (None, None);
            return self.candidates.iter().filter(usable).min_by_key(|c| (c.metric, c.neighbour)).map(choice);
        };
        let average = current.smoothed(now, half_life);
        let challenger = self
            .candidates
            .iter()
            .filter(usable)
            .filter(|c| c.metric.saturating_add(NOISE) < current.metric && c.smoothed(now, half_life) < average)
            .min_by_key(|c| (c.smoothed(now, half_life), c.neighbour));
        let gain = challenger.map(|c| {
            let clear = c.metric < current.metric - current.metric / 8;
            if clear && c.smoothed(now, half_life) < average - average / 8 {
                Gain::Clear
            } else if current.metric - c.metric >= NOTICEABLE
                && average - c.smoothed(now, half_life) >= u32::from(NOTICEABLE) * UNIT
            {
                Gain::Fair
            } else {
                Gain::Slight
            }
        });
        let (current, challenger) = (choice(current), challenger.map(choice));
        if self.damping.permits(now, hello, gain) { challenger } else { Some(current) }
    }

    /// The best route that feasibility forbids, if it would be better than the chosen one by more than noise, now and on
    /// average: a seqno request can free it (RFC 8966 §3.8.2.2).
    pub(super) fn forbidden_gain(
        &self,
        now: Time,
        hello: Duration,
        feasible: impl Fn(&Candidate) -> bool,
    ) -> Option<&Candidate> {
        let current = self.selected()?;
        let (metric, half_life) = (current.metric - current.metric / 16, half_life(hello));
        let average = current.smoothed(now, half_life);
        self.candidates
            .iter()
            .filter(|c| c.metric < metric && c.smoothed(now, half_life) < average && !feasible(c))
            .min_by_key(|c| (c.metric, c.neighbour))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gain {
    /// More than an eighth.
    Clear,
    /// A few milliseconds, which count once they have lasted.
    Fair,
    /// Nothing that a user would notice, so there is time.
    Slight,
}

/// Switches between routes that are all usable: the first is free if it is worth much, then each needs a better route for
/// longer, or two paths that slow down under load would pass the load between them for ever.
#[derive(Default)]
struct Damping {
    better_since: Option<Time>,
    /// The same, but noticeably so.
    fair_since: Option<Time>,
    switched_at: Time,
    switches: u32,
}

impl Damping {
    /// Called at every decision; the answer yes is taken.
    fn permits(&mut self, now: Time, hello: Duration, gain: Option<Gain>) -> bool {
        let Some(gain) = gain else {
            (self.better_since, self.fair_since) = (None, None);
            return false;
        };
        if gain == Gain::Slight {
            self.fair_since = None;
        }
        let calm = now.since(self.switched_at).as_micros() / (hello * CALM_HELLOS).as_micros().max(1);
        let recent = self.switches.saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX)).min(3);
        let wait = WAITS.get(usize::try_from(recent).unwrap_or(usize::MAX)).copied().unwrap_or(LONGEST_WAIT);
        let wait = match gain {
            Gain::Clear => hello * wait,
            Gain::Fair => (hello * wait).max(FAIR_WAIT),
            Gain::Slight => (hello * wait).max(SLIGHT_WAIT),
        };
        let better = *self.better_since.get_or_insert(now);
        let since = match gain {
            // However long it was better by a little before.
            Gain::Fair => *self.fair_since.get_or_insert(now),
            Gain::Clear | Gain::Slight => better,
        };
        if now.since(since) < wait {
            return false;
        }
        *self = Damping { switched_at: now, switches: recent + 1, ..Damping::default() };
        true
    }
}

/// Appendix A.3 averages over three Hellos; that is two by the half.
pub(super) fn half_life(hello: Duration) -> Duration {
    hello * 2
}

/// Stands for our own router-id, which is no neighbour's.
pub(super) const OURS: RouterId = [0; 8];
const STATIC_METRIC: u16 = 96;
/// How long a route has to be better, in Hello intervals by the number of recent switches, and at least if it is not by much.
const WAITS: [u32; 3] = [0, 2, 8];
const SLIGHT_WAIT: Duration = Duration::from_secs(30);
const FAIR_WAIT: Duration = Duration::from_secs(5);
/// What 1 ms costs: to gain less is to gain nothing.
const NOISE: u16 = 4;
/// What 5 ms cost.
const NOTICEABLE: u16 = 20;
const LONGEST_WAIT: u32 = 16;
/// After so many Hello intervals without a switch one switch is forgotten.
const CALM_HELLOS: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Duration = Duration::from_secs(4);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn candidate(now: Time, neighbour: u32, metric: u16) -> Candidate {
        let received = Distance { seqno: 1, metric: metric - 16 };
        let mut candidate = Candidate::new(now, NeighbourId(neighbour), [1; 8], received);
        candidate.set_cost(now, 16, half_life(HELLO));
        candidate
    }

    fn decide(destination: &mut Destination, now: Time) -> Option<u32> {
        destination.chosen = destination.choose(now, HELLO, |_| true);
        destination.selected().map(|c| c.neighbour.0)
    }

    #[test]
    fn nothing_selected_takes_the_smallest_at_once() {
        let mut destination =
            Destination { candidates: vec![candidate(at(0), 1, 300), candidate(at(0), 2, 200)], ..Default::default() };
        assert_eq!(decide(&mut destination, at(0)), Some(2));
        destination.candidates.remove(1);
        assert_eq!(decide(&mut destination, at(0)), Some(1));
        assert_eq!(destination.choose(at(0), HELLO, |_| false), None, "unfeasible");
    }

    #[test]
    fn a_slightly_better_route_waits_and_a_much_better_one_does_not() {
        let mut destination = Destination { candidates: vec![candidate(at(0), 1, 264)], ..Default::default() };
        decide(&mut destination, at(0));
        destination.candidates.push(candidate(at(100), 2, 252));
        let switched = (100..300).step_by(4).find(|second| decide(&mut destination, at(*second)) == Some(2));
        assert!(switched.is_some_and(|second| (160..=180).contains(&second)), "{switched:?}");
        destination.candidates.push(candidate(at(300), 3, 100));
        assert_eq!(decide(&mut destination, at(300)), Some(3));
    }

    #[test]
    fn switching_back_and_forth_gets_slower() {
        let mut destination =
            Destination { candidates: vec![candidate(at(0), 1, 400), candidate(at(0), 2, 800)], ..Default::default() };
        let mut last = decide(&mut destination, at(0));
        let mut switches = Vec::new();
        // Whichever is used becomes the worse one, as if the load did it.
        for second in (2..900).step_by(2) {
            for candidate in &mut destination.candidates {
                let loaded = Some(candidate.neighbour.0) == last;
                candidate.received.metric = if loaded { 800 } else { 400 };
                candidate.set_cost(at(second), 16, half_life(HELLO));
            }
            let now = decide(&mut destination, at(second));
            if now != last {
                switches.push(second);
                last = now;
            }
        }
        assert!(switches.len() > 4, "{switches:?}");
        assert!(switches[3..].windows(2).all(|pair| pair[1] - pair[0] >= 60), "once a minute: {switches:?}");
    }

    #[test]
    fn own_comes_first() {
        let mut destination = Destination {
            own: Some(Own::Static(LinkId(3))),
            candidates: vec![candidate(at(0), 1, 20)],
            ..Default::default()
        };
        destination.chosen = destination.choose(at(0), HELLO, |_| true);
        assert_eq!(destination.metric(), Some(96));
    }
}
