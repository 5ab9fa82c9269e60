//! Limits that hold against strangers: the count of half-open SAs by source, and a token bucket for what is said to them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::time::Time;

/// Half-open SAs as responder, in all and by source.
#[derive(Default)]
pub(super) struct HalfOpen {
    total: usize,
    by_source: BTreeMap<IpAddr, usize>,
}

/// What counts as one source: an IPv4 address, or an IPv6 /64, which one host may fill as it likes.
pub(super) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl HalfOpen {
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn from(&self, address: IpAddr) -> usize {
        self.by_source.get(&source(address)).copied().unwrap_or(0)
    }

    /// Counts one in; the source it returns is to be given back to [`leave`](Self::leave).
    pub(super) fn enter(&mut self, address: IpAddr) -> IpAddr {
        let source = source(address);
        self.total += 1;
        *self.by_source.entry(source).or_default() += 1;
        source
    }

    pub(super) fn leave(&mut self, source: IpAddr) {
        if let Some(count) = self.by_source.get_mut(&source) {
            self.total = self.total.saturating_sub(1);
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

/// A token bucket.
pub(super) struct Bucket {
    tokens: u32,
    burst: u32,
    every: Duration,
    filled: Time,
}

impl Bucket {
    /// `burst` at once, then one each `every`.
    pub(super) fn new(burst: u32, every: Duration, now: Time) -> Bucket {
        Bucket { tokens: burst, burst, every, filled: now }
    }

    pub(super) fn take(&mut self, now: Time) -> bool {
        let new = now.since(self.filled).as_micros() / self.every.as_micros().max(1);
        if let Ok(new) = u32::try_from(new)
            && new < self.burst - self.tokens
        {
            self.tokens += new;
            self.filled += self.every * new;
        } else {
            self.tokens = self.burst;
            self.filled = now;
        }
        let some = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ipv6_prefix_is_one_source() {
        let mut half_open = HalfOpen::default();
        let first = half_open.enter("2001:db8:1:2::5".parse().unwrap());
        half_open.enter("2001:db8:1:2:ffff::6".parse().unwrap());
        half_open.enter("2001:db8:1:3::5".parse().unwrap());
        half_open.enter("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(half_open.from("2001:db8:1:2::".parse().unwrap()), 2);
        assert_eq!(half_open.from("192.0.2.1".parse().unwrap()), 1);
        assert_eq!(half_open.from("192.0.2.2".parse().unwrap()), 0);
        assert_eq!(half_open.total(), 4);
        half_open.leave(first);
        half_open.leave(first);
        half_open.leave(first);
        assert_eq!(half_open.from("2001:db8:1:2::".parse().unwrap()), 0);
        assert_eq!(half_open.total(), 2);
    }

    #[test]
    fn the_bucket_fills_at_its_rate_and_not_above_its_burst() {
        let second = Duration::from_secs(1);
        let mut bucket = Bucket::new(3, second, Time::ZERO);
        let taken = |bucket: &mut Bucket, now| (0..10).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, Time::ZERO), 3);
        assert_eq!(taken(&mut bucket, Time::ZERO + second / 2), 0);
        assert_eq!(taken(&mut bucket, Time::ZERO + second), 1);
        assert_eq!(taken(&mut bucket, Time::ZERO + second * 3), 2);
        assert_eq!(taken(&mut bucket, Time::ZERO + second * 100_000), 3);
    }
}
