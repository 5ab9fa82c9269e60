//! Feasibility (RFC 8966 §3.2.5, §3.5.1): the best distance ever announced to each source, which no route may exceed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::seqno::is_newer;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::RouterId;

/// The pair that feasibility compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distance {
    pub(super) seqno: u16,
    pub(super) metric: u16,
}

impl Distance {
    fn is_better_than(self, other: Distance) -> bool {
        is_newer(self.seqno, other.seqno) || (self.seqno == other.seqno && self.metric < other.metric)
    }
}

#[derive(Default)]
pub(super) struct Sources {
    table: BTreeMap<(Prefix, RouterId), Source>,
}

struct Source {
    best: Distance,
    expires: Time,
}

impl Sources {
    /// RFC 8966 §3.5.1, for a route as it was received; retractions are always feasible and not asked about here.
    pub(super) fn is_feasible(&self, prefix: Prefix, router_id: RouterId, received: Distance) -> bool {
        self.table.get(&(prefix, router_id)).is_none_or(|source| received.is_better_than(source.best))
    }

    /// Whether [`Sources::announced`] can remember this: what it cannot remember must not be announced.
    pub(super) fn has_room_for(&self, prefix: Prefix, router_id: RouterId) -> bool {
        self.table.len() < MAX_SOURCES || self.table.contains_key(&(prefix, router_id))
    }

    /// A finite update goes out with this distance (RFC 8966 §3.7.3).
    pub(super) fn announced(&mut self, now: Time, prefix: Prefix, router_id: RouterId, sent: Distance) {
        let expires = now + GARBAGE_COLLECTION;
        let source = self.table.entry((prefix, router_id)).or_insert(Source { best: sent, expires });
        source.expires = expires;
        if sent.is_better_than(source.best) {
            source.best = sent;
        }
    }

    /// The seqno that makes any route to this source feasible again; `None` if every route already is.
    pub(super) fn seqno_to_ask(&self, prefix: Prefix, router_id: RouterId) -> Option<u16> {
        self.table.get(&(prefix, router_id)).map(|source| source.best.seqno.wrapping_add(1))
    }

    /// The lowest seqno with which a route of this metric becomes feasible: where it only lags behind, nobody needs to raise
    /// anything, or neighbours that wait for each other's updates would raise it for ever.
    pub(super) fn seqno_for(&self, prefix: Prefix, router_id: RouterId, metric: u16) -> Option<u16> {
        let best = self.table.get(&(prefix, router_id))?.best;
        Some(if metric < best.metric { best.seqno } else { best.seqno.wrapping_add(1) })
    }

    pub(super) fn collect_garbage(&mut self, now: Time) {
        self.table.retain(|_, source| source.expires > now);
    }
}

/// RFC 8966 §3.2.5 and appendix B.
pub(super) const GARBAGE_COLLECTION: Duration = Duration::from_secs(180);
const MAX_SOURCES: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> Prefix {
        Prefix::to("10.0.0.0/8".parse().unwrap())
    }

    fn at(seqno: u16, metric: u16) -> Distance {
        Distance { seqno, metric }
    }

    #[test]
    fn strictly_better_only() {
        let mut sources = Sources::default();
        let id = [1; 8];
        assert!(sources.is_feasible(prefix(), id, at(0, 0xfffe)));
        sources.announced(Time::ZERO, prefix(), id, at(7, 100));
        assert!(sources.is_feasible(prefix(), id, at(7, 99)));
        assert!(!sources.is_feasible(prefix(), id, at(7, 100)));
        assert!(!sources.is_feasible(prefix(), id, at(6, 1)));
        assert!(sources.is_feasible(prefix(), id, at(8, 0xfffe)));
        assert!(sources.is_feasible(prefix(), [2; 8], at(0, 0xfffe)), "another router-id is another source");
        sources.announced(Time::ZERO, prefix(), id, at(7, 300));
        assert!(!sources.is_feasible(prefix(), id, at(7, 200)), "a worse announcement does not raise the bar");
        assert_eq!(sources.seqno_to_ask(prefix(), id), Some(8));
        assert_eq!(sources.seqno_for(prefix(), id, 99), Some(7));
        assert_eq!(sources.seqno_for(prefix(), id, 100), Some(8));
    }

    #[test]
    fn forgets_after_three_minutes_without_announcement() {
        let mut sources = Sources::default();
        sources.announced(Time::ZERO, prefix(), [1; 8], at(7, 100));
        sources.announced(Time::from_micros(100_000_000), prefix(), [1; 8], at(7, 100));
        sources.collect_garbage(Time::from_micros(279_999_999));
        assert!(!sources.is_feasible(prefix(), [1; 8], at(7, 100)));
        sources.collect_garbage(Time::from_micros(280_000_000));
        assert!(sources.is_feasible(prefix(), [1; 8], at(7, 100)));
    }
}
