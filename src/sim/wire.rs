//! The way from one host to another, in one direction.

use std::time::Duration;

use crate::crypto::rng::Rng;
use crate::time::Time;

/// What a datagram looks like to a middle box.
pub(crate) struct Seen<'a> {
    pub(crate) payload: &'a [u8],
}

type Filter = Box<dyn FnMut(&Seen<'_>) -> bool>;

/// Conditions of one direction. Probabilities in percent.
pub(crate) struct Wire {
    pub(crate) up: bool,
    pub(crate) delay: Duration,
    /// Added at random, from zero to this.
    pub(crate) jitter: Duration,
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    /// Share of datagrams held back by `held`.
    pub(crate) reorder: u32,
    pub(crate) held: Duration,
    /// Datagrams larger than this (UDP payload) vanish.
    pub(crate) largest: usize,
    /// Says which datagrams pass.
    pub(crate) filter: Option<Filter>,
    pub(crate) carried: u64,
}

impl Wire {
    pub(crate) fn new(delay_ms: u64) -> Wire {
        Wire {
            up: true,
            delay: Duration::from_millis(delay_ms),
            jitter: Duration::ZERO,
            loss: 0,
            duplicate: 0,
            reorder: 0,
            held: Duration::ZERO,
            largest: 1472,
            filter: None,
            carried: 0,
        }
    }

    /// When the copies of a datagram that is sent now arrive: none, one or two.
    pub(crate) fn arrivals(&mut self, now: Time, payload: &[u8], rng: &mut Rng) -> Vec<Time> {
        let passes = self.filter.as_mut().is_none_or(|filter| filter(&Seen { payload }));
        if !self.up || !passes || payload.len() > self.largest || rng.below(100) < self.loss {
            return Vec::new();
        }
        self.carried += 1;
        let copies = if rng.below(100) < self.duplicate { 2 } else { 1 };
        let mut arrival = || {
            let jitter = u32::try_from(self.jitter.as_micros()).unwrap_or(u32::MAX);
            let held = if rng.below(100) < self.reorder { self.held } else { Duration::ZERO };
            now + self.delay + Duration::from_micros(u64::from(rng.below(jitter.saturating_add(1)))) + held
        };
        (0..copies).map(|_| arrival()).collect()
    }
}
