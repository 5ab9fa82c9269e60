//! Choosing routes, and telling the neighbours what changed (RFC 8966 §3.6, §3.7.2).

use std::time::Duration;

use super::link::Link;
use super::neighbour::NeighbourId;
use super::route::{Choice, Hold, Via, half_life};
use super::source::Sources;
use super::speaker::{Intervals, Speaker};
use crate::crypto::rng::Rng;
use crate::path::LinkId;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::{INFINITY, Tlv};

/// How soon the neighbours have to know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// RFC 8966 §3.7.2: within 0.2 s, and again, for nothing else repeats it soon.
    Urgent,
    /// Once, gathered with what else changes.
    Normal,
    /// An answer to one neighbour, who asks again if it is lost.
    Answer,
}

impl Speaker {
    /// Decides anew about a prefix, and acts on the outcome.
    pub(super) fn reselect(&mut self, now: Time, prefix: Prefix) {
        let Some(destination) = self.table.get_mut(&prefix) else { return };
        let before = destination.chosen;
        let sources = &self.sources;
        let after = destination.choose(now, self.intervals.hello, |candidate| {
            sources.is_feasible(prefix, candidate.router_id, candidate.received)
        });
        destination.chosen = after;
        let metric = destination.metric();
        let sent = destination.sent_metric;
        if before.map(|choice| choice.via) != after.map(|choice| choice.via) {
            destination.changed_at = now;
            self.changed = true;
        }
        match (before, after) {
            (None, None) => {
                if destination.is_empty() {
                    self.table.remove(&prefix);
                } else {
                    self.ask_for_lost(now, prefix);
                }
            }
            (Some(before), None) => {
                destination.sent_metric = None;
                let until = now + self.intervals.hold();
                destination.hold = Some(Hold { until, router_id: before.router_id });
                self.trigger(now, prefix, Urgency::Urgent, None);
                self.ask_for_lost(now, prefix);
            }
            (before, Some(after)) => {
                destination.hold = None;
                self.trigger_change(now, prefix, before, after, (sent, metric));
            }
        }
    }

    /// A neighbour's link cost as of now; small changes wait for the periodic work.
    pub(super) fn settle(&mut self, now: Time, id: NeighbourId) {
        let Some(peer) = self.neighbours.get_mut(&id) else { return };
        let cost = peer.cost_now(now);
        let small = cost != INFINITY && peer.cost != INFINITY && cost.abs_diff(peer.cost) <= peer.cost / 16;
        if small || cost == peer.cost {
            return;
        }
        if (cost == INFINITY) != (peer.cost == INFINITY) {
            let state = if cost == INFINITY { "lost" } else { "usable" };
            log::info!("babel: neighbour {} on link {} is {state}", peer.address, peer.link.0);
        }
        // RFC 8966 §3.8.2: what it said before may be lost, and what it said before an outage may be over.
        let ask = peer.cost == INFINITY && (peer.routes == 0 || std::mem::replace(&mut peer.used, true));
        if peer.cost == INFINITY {
            peer.unanswered = 0;
        }
        peer.cost = cost;
        let routes = peer.routes;
        if ask {
            self.tell(id, Tlv::RouteRequest { prefix: None });
        }
        if routes == 0 {
            return;
        }
        let mut cursor = None;
        while let Some(prefix) = self.prefix_after(cursor) {
            cursor = Some(prefix);
            let half_life = half_life(self.intervals.hello);
            let candidates = self.table.get_mut(&prefix).map(|destination| &mut destination.candidates);
            if let Some(candidate) = candidates.into_iter().flatten().find(|candidate| candidate.neighbour == id) {
                candidate.set_cost(now, cost, half_life);
                self.reselect(now, prefix);
            }
        }
    }

    /// Drops the routes of some neighbours: they are gone, or retracted everything.
    pub(super) fn retract_all(&mut self, now: Time, whose: impl Fn(NeighbourId) -> bool) {
        let mut cursor = None;
        while let Some(prefix) = self.prefix_after(cursor) {
            cursor = Some(prefix);
            self.retract(now, prefix, &whose);
        }
    }

    pub(super) fn retract(&mut self, now: Time, prefix: Prefix, whose: impl Fn(NeighbourId) -> bool) {
        let Some(destination) = self.table.get_mut(&prefix) else { return };
        let mut any = false;
        destination.candidates.retain(|candidate| {
            let dropped = whose(candidate.neighbour);
            if dropped {
                any = true;
                self.routes = self.routes.saturating_sub(1);
                if let Some(peer) = self.neighbours.get_mut(&candidate.neighbour) {
                    peer.routes = peer.routes.saturating_sub(1);
                }
            }
            !dropped
        });
        if any {
            self.reselect(now, prefix);
        }
    }

    /// Queues an update for a prefix on one link, or on all.
    pub(super) fn trigger(&mut self, now: Time, prefix: Prefix, urgency: Urgency, only: Option<LinkId>) {
        let Speaker { links, rng, intervals, .. } = self;
        match only {
            Some(link) => {
                if let Some(link) = links.get_mut(&link) {
                    queue(link, rng, *intervals, now, prefix, urgency);
                }
            }
            None => links.values_mut().for_each(|link| queue(link, rng, *intervals, now, prefix, urgency)),
        }
    }

    fn trigger_change(
        &mut self,
        now: Time,
        prefix: Prefix,
        before: Option<Choice>,
        after: Choice,
        (sent, metric): (Option<u16>, Option<u16>),
    ) {
        if before.map(|choice| choice.router_id) != Some(after.router_id) {
            self.trigger(now, prefix, Urgency::Urgent, None);
        } else if before.map(|choice| choice.via) != Some(after.via) {
            self.trigger(now, prefix, Urgency::Normal, None);
            // Split horizon: over the link that the route now takes, what we announced before has to be taken back.
            if let Via::Neighbour(id) = after.via
                && let Some(link) = self.neighbours.get(&id).map(|peer| peer.link)
            {
                self.trigger(now, prefix, Urgency::Urgent, Some(link));
            }
        } else if let (Some(sent), Some(metric)) = (sent, metric)
            && sent.abs_diff(metric) > (sent / 4).max(SMALL)
        {
            self.trigger(now, prefix, Urgency::Normal, None);
        }
    }

    pub(super) fn is_feasible(&self, prefix: Prefix, candidate: &super::route::Candidate) -> bool {
        Sources::is_feasible(&self.sources, prefix, candidate.router_id, candidate.received)
    }
}

fn queue(link: &mut Link, rng: &mut Rng, intervals: Intervals, now: Time, prefix: Prefix, urgency: Urgency) {
    if link.neighbours.is_empty() {
        return;
    }
    let (within, copies) = match urgency {
        Urgency::Urgent => (URGENT, COPIES),
        Urgency::Normal => (intervals.dump_gap().min(NORMAL), 1),
        Urgency::Answer => (ANSWER, 1),
    };
    let jitter = u32::try_from(within.as_micros() / 2).unwrap_or(0);
    let at = now + within / 2 + Duration::from_micros(u64::from(rng.below(jitter)));
    if !link.triggered.add(at, prefix, copies) {
        link.triggered.clear();
        link.dump.want(now, Duration::ZERO);
    }
}

/// Metric changes up to this, or a quarter of what was sent, wait for the periodic update (RFC 8966 §3.7.2).
const SMALL: u16 = 32;
const URGENT: Duration = Duration::from_millis(150);
const NORMAL: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(40);
/// RFC 8966 §3.7.2 allows five, of which acknowledgements spare all but the first.
const COPIES: u8 = 5;
