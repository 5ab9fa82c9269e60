//! Message IDs and retransmission (RFC 7296 §2.1 to §2.3), with a window of one: nobody offers more.
//!
//! A request is repeated by the very octets first sent, and so is a response: neither is sealed twice. A repeated request is
//! known by its octets, so that no key is needed to answer it, also across the key changes of IKE_INTERMEDIATE.

use std::time::Duration;

use super::fragment::Reassembly;
use crate::crypto::digest::sha256;
use crate::crypto::rng::Rng;
use crate::time::Time;
use crate::wire::ike::Exchange;

/// How a request is repeated: each wait is `percent` of the one before, jittered by a tenth, and no longer than `cap`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    first: Duration,
    percent: u32,
    cap: Duration,
    /// How often the request is sent in all.
    tries: u32,
}

/// IKE_SA_INIT: about 100 s.
pub(super) const FIRST: Pace =
    Pace { first: Duration::from_secs(1), percent: 180, cap: Duration::from_secs(30), tries: 8 };
/// Everything after it: about 30 s, which is how long a responder keeps a half-open SA.
pub(super) const LATER: Pace =
    Pace { first: Duration::from_secs(1), percent: 180, cap: Duration::from_secs(5), tries: 8 };
/// A sign of life: about 4 s, so that a dead peer is known 15 s after its last word.
pub(super) const PROBE: Pace =
    Pace { first: Duration::from_millis(450), percent: 130, cap: Duration::from_secs(5), tries: 5 };
/// A DELETE: about 8 s.
pub(super) const LEAVING: Pace =
    Pace { first: Duration::from_secs(1), percent: 150, cap: Duration::from_secs(5), tries: 4 };

/// What tells the peer of a new address: about 40 s, and quickly at first, for all traffic waits for it.
pub(super) const MOVING: Pace =
    Pace { first: Duration::from_millis(500), percent: 150, cap: Duration::from_secs(5), tries: 12 };

/// What became of a timer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Resend,
    Exhausted { exchange: Exchange, tries: u32 },
}

/// What a request's ID and octets say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Fresh,
    /// The last one once more: the stored response answers it.
    Repeated,
    /// Neither: dropped (RFC 7296 §2.3).
    Stale,
}

#[derive(Default)]
pub(super) struct Window {
    /// ID of our next request.
    next: u32,
    pending: Option<Pending>,
    /// ID of the peer's next request.
    expected: u32,
    /// Of the request being collected: its octets, or those of its first fragment (RFC 7383 §2.6.1).
    arriving: Option<[u8; 32]>,
    stored: Option<Stored>,
    pub(super) requests: Reassembly,
    pub(super) responses: Reassembly,
}

struct Pending {
    id: u32,
    exchange: Exchange,
    datagrams: Vec<Vec<u8>>,
    pace: Pace,
    tries: u32,
    wait: Duration,
    due: Time,
    /// Given up at this time, whatever tries are left.
    deadline: Option<Time>,
}

struct Stored {
    id: u32,
    request: [u8; 32],
    datagrams: Vec<Vec<u8>>,
}

impl Window {
    /// ID of our next request; `None` once they are used up (RFC 7296 §2.2).
    pub(super) fn next_id(&self) -> Option<u32> {
        (self.next < u32::MAX).then_some(self.next)
    }

    /// A request of ours has not been answered yet.
    pub(super) fn busy(&self) -> bool {
        self.pending.is_some()
    }

    /// The request under way and how often it was sent.
    pub(super) fn under_way(&self) -> Option<(Exchange, u32)> {
        self.pending.as_ref().map(|pending| (pending.exchange, pending.tries))
    }

    /// Takes over a request that goes out now under [`next_id`](Self::next_id).
    pub(super) fn start(
        &mut self,
        now: Time,
        exchange: Exchange,
        datagrams: Vec<Vec<u8>>,
        pace: Pace,
        rng: &mut Rng,
    ) -> &[Vec<u8>] {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.responses.clear();
        let due = now + jitter(pace.first, rng);
        let pending = Pending { id, exchange, datagrams, pace, tries: 1, wait: pace.first, due, deadline: None };
        &self.pending.insert(pending).datagrams
    }

    /// Other octets under the same ID, counted from the start: IKE_SA_INIT with a cookie or another key exchange.
    pub(super) fn restart(&mut self, now: Time, datagrams: Vec<Vec<u8>>, rng: &mut Rng) -> &[Vec<u8>] {
        if let Some(pending) = &mut self.pending {
            pending.datagrams = datagrams;
        }
        self.afresh(now, rng);
        self.datagrams()
    }

    /// The request under way, which is sent over another path now, has all its time before it.
    pub(super) fn afresh(&mut self, now: Time, rng: &mut Rng) {
        let Some(pending) = &mut self.pending else { return };
        pending.tries = 1;
        pending.wait = pending.pace.first;
        pending.due = now + jitter(pending.wait, rng);
        pending.deadline = None;
    }

    /// Gives the request under way no more than `rest` from now on.
    pub(super) fn hurry(&mut self, now: Time, rest: Duration) {
        if let Some(pending) = &mut self.pending {
            let limit = now + rest;
            pending.deadline = Some(pending.deadline.map_or(limit, |deadline| deadline.min(limit)));
        }
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.pending.as_ref().map(|pending| pending.deadline.map_or(pending.due, |deadline| deadline.min(pending.due)))
    }

    pub(super) fn on_timer(&mut self, now: Time, rng: &mut Rng) -> Due {
        let Some(pending) = &mut self.pending else { return Due::Nothing };
        let overdue = pending.deadline.is_some_and(|deadline| deadline <= now);
        if !overdue && pending.due > now {
            return Due::Nothing;
        }
        if overdue || pending.tries >= pending.pace.tries {
            return Due::Exhausted { exchange: pending.exchange, tries: pending.tries };
        }
        pending.tries += 1;
        pending.wait = (pending.wait * pending.pace.percent / 100).min(pending.pace.cap);
        pending.due = now + jitter(pending.wait, rng);
        Due::Resend
    }

    /// The datagrams of the request under way.
    pub(super) fn datagrams(&self) -> &[Vec<u8>] {
        self.pending.as_ref().map_or(&[], |pending| &pending.datagrams)
    }

    /// Whether a response with this ID answers the request under way.
    pub(super) fn awaits(&self, id: u32, exchange: Exchange) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.id == id && pending.exchange == exchange)
    }

    /// The response has come and verified.
    pub(super) fn answered(&mut self) {
        self.pending = None;
        self.responses.clear();
    }

    /// Judges a request by its ID; `octets` are those of the datagram if it was whole or the first fragment.
    pub(super) fn arrival(&self, id: u32, octets: Option<&[u8]>) -> Arrival {
        if id == self.expected {
            return Arrival::Fresh;
        }
        match (&self.stored, octets) {
            (Some(stored), Some(octets)) if stored.id == id && stored.request == sha256(&[octets]) => Arrival::Repeated,
            _ => Arrival::Stale,
        }
    }

    /// A whole request, or its first fragment, has verified.
    pub(super) fn noted(&mut self, octets: &[u8]) {
        self.arriving = Some(sha256(&[octets]));
    }

    /// Stores the response to the request that was expected, and expects the next one.
    pub(super) fn respond(&mut self, datagrams: Vec<Vec<u8>>) -> &[Vec<u8>] {
        let request = self.arriving.take().unwrap_or_default();
        let stored = Stored { id: self.expected, request, datagrams };
        self.expected = self.expected.wrapping_add(1);
        self.requests.clear();
        &self.stored.insert(stored).datagrams
    }

    /// What [`Arrival::Repeated`] is answered with.
    pub(super) fn stored(&self) -> &[Vec<u8>] {
        self.stored.as_ref().map_or(&[], |stored| &stored.datagrams)
    }
}

/// Plus or minus a tenth, so that the peers of a mesh do not speak at the same instant.
pub(super) fn jitter(wait: Duration, rng: &mut Rng) -> Duration {
    wait * (900 + rng.below(201)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_times(pace: Pace, seed: u64) -> (Vec<Duration>, Duration) {
        let mut rng = Rng::from_number(seed);
        let mut window = Window::default();
        window.start(Time::ZERO, Exchange::INFORMATIONAL, vec![vec![1]], pace, &mut rng);
        let mut times = vec![Duration::ZERO];
        loop {
            let due = window.due().unwrap();
            assert_eq!(window.on_timer(Time::from_micros(due.micros() - 1), &mut rng), Due::Nothing);
            match window.on_timer(due, &mut rng) {
                Due::Nothing => panic!("due and nothing to do"),
                Due::Resend => times.push(due.since(Time::ZERO)),
                Due::Exhausted { tries, .. } => {
                    assert_eq!(tries as usize, times.len());
                    return (times, due.since(Time::ZERO));
                }
            }
        }
    }

    #[test]
    fn retransmissions_keep_the_pace() {
        for seed in 0..50 {
            let (times, end) = send_times(FIRST, seed);
            assert_eq!(times.len(), 8);
            let waits: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
            for (wait, exact) in waits.iter().zip([1.0, 1.8, 3.24, 5.832, 10.4976, 18.8957, 30.0]) {
                assert!((exact * 0.9 - 1e-3..=exact * 1.1 + 1e-3).contains(wait), "{wait} for {exact}");
            }
            assert!((Duration::from_secs(85)..Duration::from_secs(115)).contains(&end));

            let (times, end) = send_times(PROBE, seed);
            assert_eq!(times.len(), 5);
            assert!((Duration::from_millis(3600)..Duration::from_millis(4500)).contains(&end), "{end:?}");
            let (times, end) = send_times(LEAVING, seed);
            assert_eq!(times.len(), 4);
            assert!((Duration::from_secs(7)..Duration::from_secs(9)).contains(&end), "{end:?}");
        }
    }

    #[test]
    fn a_hurried_request_ends_earlier_and_not_later() {
        let mut rng = Rng::from_number(1);
        let mut window = Window::default();
        window.start(Time::ZERO, Exchange::CREATE_CHILD_SA, vec![vec![1]], LATER, &mut rng);
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        window.hurry(Time::ZERO, Duration::from_secs(8));
        window.hurry(at(3), Duration::from_secs(8));
        let mut last = Time::ZERO;
        while let Due::Resend | Due::Nothing = window.on_timer(last, &mut rng) {
            last = window.due().unwrap();
        }
        assert_eq!(last, at(8));
    }

    #[test]
    fn only_the_last_request_is_answered_again() {
        let mut window = Window::default();
        assert_eq!(window.arrival(0, Some(b"zero")), Arrival::Fresh);
        window.noted(b"zero");
        window.respond(vec![b"answer".to_vec()]);
        assert_eq!(window.arrival(0, Some(b"zero")), Arrival::Repeated);
        assert_eq!(window.arrival(0, Some(b"other")), Arrival::Stale);
        assert_eq!(window.arrival(0, None), Arrival::Stale);
        assert_eq!(window.stored(), [b"answer".to_vec()]);
        assert_eq!(window.arrival(1, None), Arrival::Fresh);
        assert_eq!(window.arrival(2, Some(b"two")), Arrival::Stale);
        window.noted(b"one");
        window.respond(Vec::new());
        assert_eq!(window.arrival(0, Some(b"zero")), Arrival::Stale);
    }
}
