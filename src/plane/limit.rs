//! A limit on ICMP errors (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)): one in 10 ms to a receiver, give or take receivers that
//! share a place.

use std::net::IpAddr;
use std::time::Duration;

use crate::time::Time;

#[derive(Debug)]
pub(super) struct Limit {
    next: [Time; PLACES],
}

impl Limit {
    /// Whether an error may go to `receiver` now; if so, it is counted.
    pub(super) fn allows(&mut self, now: Time, receiver: IpAddr) -> bool {
        let next = &mut self.next[place(receiver)];
        let allowed = now >= *next;
        if allowed {
            *next = now + INTERVAL;
        }
        allowed
    }
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { next: [Time::ZERO; PLACES] }
    }
}

fn place(receiver: IpAddr) -> usize {
    let sum = match receiver {
        IpAddr::V4(address) => address.octets().iter().fold(0, mix),
        IpAddr::V6(address) => address.octets().iter().fold(0, mix),
    };
    usize::from(sum) % PLACES
}

fn mix(sum: u8, octet: &u8) -> u8 {
    sum.wrapping_mul(31).wrapping_add(*octet)
}

/// In all, never more than `PLACES` in one interval.
const PLACES: usize = 16;
const INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_milliseconds_to_each() {
        let mut limit = Limit::default();
        let (a, b) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let allowed = |limit: &mut Limit, micros, to| limit.allows(Time::from_micros(micros), to);
        assert!(allowed(&mut limit, 0, a));
        assert!(!allowed(&mut limit, 9_999, a));
        assert!(allowed(&mut limit, 9_999, b), "a flood to one does not silence those to another");
        assert!(allowed(&mut limit, 10_000, a));
        assert!(!allowed(&mut limit, 10_001, a));
    }

    #[test]
    fn a_bound_for_all_together() {
        let mut limit = Limit::default();
        let sent = (0..10_000_u32).filter(|&i| limit.allows(Time::ZERO, IpAddr::V4(i.into()))).count();
        assert_eq!(sent, PLACES);
    }
}
