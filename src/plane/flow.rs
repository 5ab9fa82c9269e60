//! The flow cache: the last decision for an address pair, route and steering, valid while table and policies stay the same.
//!
//! Each pair has one place; another pair with the same place evicts it. A peer that aims at one place costs lookups, nothing
//! more.

use std::net::IpAddr;
use std::sync::Arc;

use crate::fib::{Fib, Target};
use crate::steer::Domain;
use crate::steer::policy::{Policies, Verdict};

pub(super) struct FlowCache {
    /// Of the table; entries of an older one do not count.
    generation: u32,
    flows: Box<[Option<Flow>; PLACES]>,
}

#[derive(Clone, Copy)]
struct Flow {
    generation: u32,
    destination: IpAddr,
    source: IpAddr,
    decision: Decision,
}

/// What is known of a packet by its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) target: Option<Target>,
    /// The route is a default route.
    pub(super) by_default: bool,
    pub(super) verdict: Verdict,
}

/// What decisions are made from.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) fib: Arc<Fib>,
    pub(super) domain: Domain,
    pub(super) policies: Policies,
}

impl Tables {
    fn decide(&self, destination: IpAddr, source: IpAddr) -> Decision {
        let found = self.fib.lookup(destination, source);
        Decision {
            target: found.map(|(_, target)| target),
            by_default: found.is_some_and(|(prefix, _)| prefix.is_default()),
            verdict: self.policies.verdict(&self.domain, destination, source),
        }
    }
}

impl FlowCache {
    /// Forgets everything: the table has changed.
    pub(super) fn invalidate(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        // Once in 2³² changes an old entry could look new.
        if self.generation == 0 {
            self.flows.fill(None);
        }
    }

    pub(super) fn lookup(&mut self, tables: &Tables, destination: IpAddr, source: IpAddr) -> Decision {
        let place = &mut self.flows[place(destination, source)];
        if let Some(flow) = place
            && flow.generation == self.generation
            && flow.destination == destination
            && flow.source == source
        {
            return flow.decision;
        }
        let decision = tables.decide(destination, source);
        *place = Some(Flow { generation: self.generation, destination, source, decision });
        decision
    }
}

impl Default for FlowCache {
    fn default() -> FlowCache {
        FlowCache { generation: 0, flows: Box::new([None; PLACES]) }
    }
}

/// Multiplicative hashing (Knuth): cheap, and spreads addresses that differ in any bit.
fn place(destination: IpAddr, source: IpAddr) -> usize {
    let mixed = fold(destination).wrapping_mul(0x9e37_79b1) ^ fold(source).wrapping_mul(0x85eb_ca6b);
    (mixed.wrapping_mul(0xc2b2_ae35) >> (32 - PLACES.ilog2())) as usize
}

fn fold(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let octets = address.octets();
            octets.as_chunks().0.iter().fold(0, |sum: u32, &word| sum.rotate_left(9) ^ u32::from_be_bytes(word))
        }
    }
}

const PLACES: usize = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::path::LinkId;
    use crate::prefix::Prefix;

    fn tables(routes: impl IntoIterator<Item = (Prefix, Target)>) -> Tables {
        Tables { fib: Arc::new(Fib::new(routes)), ..Tables::default() }
    }

    fn table(link: u32) -> Tables {
        tables(["0.0.0.0/0", "::/0"].map(|to| (Prefix::to(to.parse().unwrap()), Target::Link(LinkId(link)))))
    }

    #[test]
    fn says_what_the_table_says_for_more_pairs_than_it_holds() {
        let (old, new) = (table(1), table(2));
        let mut cache = FlowCache::default();
        let pairs: Vec<(IpAddr, IpAddr)> = (0..1000_u32)
            .map(|i| (IpAddr::V4((0x0a00_0000 + i * 7).into()), IpAddr::V4((0xc0a8_0000 + i).into())))
            .collect();
        for _ in 0..2 {
            for &(to, from) in &pairs {
                assert_eq!(cache.lookup(&old, to, from).target, Some(Target::Link(LinkId(1))));
            }
        }
        cache.invalidate();
        for &(to, from) in &pairs {
            assert_eq!(cache.lookup(&new, to, from).target, Some(Target::Link(LinkId(2))));
        }
        let mixed = (pairs[0].0, IpAddr::from([0; 16]));
        assert_eq!(cache.lookup(&new, mixed.0, mixed.1).target, None);
        assert_eq!(cache.lookup(&new, mixed.0, mixed.1).target, None, "having no route is remembered, too");
    }

    #[test]
    fn a_hit_does_not_ask_the_table() {
        let mut cache = FlowCache::default();
        let (to, from) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!(cache.lookup(&table(1), to, from).target, Some(Target::Link(LinkId(1))));
        assert_eq!(cache.lookup(&table(2), to, from).target, Some(Target::Link(LinkId(1))));
    }

    /// Two pairs with the same place that differ in one address only.
    #[test]
    fn both_addresses_count() {
        let fib = |target| tables([(Prefix::to("0.0.0.0/0".parse().unwrap()), target)]);
        let host = |i: u32| IpAddr::V4((0x0a00_0000 + i).into());
        let one = host(0);
        let same_place = |pair: fn(IpAddr, IpAddr) -> (IpAddr, IpAddr)| {
            let (to, from) = pair(one, one);
            (1..).map(|i| pair(one, host(i))).find(|&(a, b)| place(a, b) == place(to, from)).unwrap()
        };
        for (to, from) in [same_place(|fixed, free| (fixed, free)), same_place(|fixed, free| (free, fixed))] {
            let mut cache = FlowCache::default();
            assert_eq!(cache.lookup(&fib(Target::Local), one, one).target, Some(Target::Local));
            assert_eq!(cache.lookup(&fib(Target::Unreachable), to, from).target, Some(Target::Unreachable));
        }
    }

    #[test]
    fn neighbours_are_spread() {
        let host = |i: u16| IpAddr::from([0xfd66, 0, 0, 0, 0, 0, 0, i]);
        let places: BTreeSet<usize> = (0..64).map(|i| place(host(i), host(1000))).collect();
        assert!(places.len() > 40, "{} places for 64 flows", places.len());
    }
}
