//! The forwarding table: built whole from the selected routes, then only read.

mod lengths;

use std::net::IpAddr;

use ipnet::IpNet;

use crate::path::LinkId;
use crate::prefix::Prefix;
use lengths::{Bits, Lengths};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Ours: to the TUN device.
    Local,
    Link(LinkId),
    Unreachable,
}

/// Longest destination prefix first, then longest source prefix (RFC 9079 §4). Immutable once built, swapped whole.
///
/// A destination whose source prefixes all do not match is passed over: a shorter destination that matches both is taken.
#[derive(Debug, Default)]
pub struct Fib {
    v4: Table<u32>,
    v6: Table<u128>,
}

impl Fib {
    /// Of several routes with the same prefix pair the last one counts.
    pub fn new(routes: impl IntoIterator<Item = (Prefix, Target)>) -> Fib {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for (prefix, target) in routes {
            match (prefix.destination(), prefix.source()) {
                (IpNet::V4(to), IpNet::V4(from)) => v4.push((
                    (to.prefix_len(), to.network().to_bits()),
                    (from.prefix_len(), from.network().to_bits()),
                    (prefix, target),
                )),
                (IpNet::V6(to), IpNet::V6(from)) => v6.push((
                    (to.prefix_len(), to.network().to_bits()),
                    (from.prefix_len(), from.network().to_bits()),
                    (prefix, target),
                )),
                // `Prefix` does not mix families.
                (IpNet::V4(_), IpNet::V6(_)) | (IpNet::V6(_), IpNet::V4(_)) => {}
            }
        }
        Fib { v4: compile(v4), v6: compile(v6) }
    }

    /// The most specific entry, with its prefix pair; `None` without any route.
    pub fn lookup(&self, destination: IpAddr, source: IpAddr) -> Option<(Prefix, Target)> {
        match (destination, source) {
            (IpAddr::V4(to), IpAddr::V4(from)) => search(&self.v4, to.to_bits(), from.to_bits()),
            (IpAddr::V6(to), IpAddr::V6(from)) => search(&self.v6, to.to_bits(), from.to_bits()),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    /// Whether an address is reached through the mesh by something better than a default route, for whatever source.
    ///
    /// Prefixes of less than 8 bits count as default routes: 0.0.0.0/1 and 2000::/3 are used as such. IPv4-mapped addresses
    /// count as IPv4.
    pub fn is_in_mesh(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(to) => covers(&self.v4, to.to_bits()),
            IpAddr::V6(to) => covers(&self.v6, to.to_bits()),
        }
    }
}

/// Destination prefix → source prefix → entry.
type Table<B> = Lengths<B, Lengths<B, (Prefix, Target)>>;

/// A prefix by length and bits.
type Key<B> = (u8, B);

/// A route: destination, source, and the entry.
type Keyed<B> = (Key<B>, Key<B>, (Prefix, Target));

fn compile<B: Bits>(mut routes: Vec<Keyed<B>>) -> Table<B> {
    routes.sort_by_key(|&(to, _, _)| to);
    let by_destination = routes.chunk_by(|(a, _, _), (b, _, _)| a == b).filter_map(|group| {
        let &(to, _, _) = group.first()?;
        Some((to, Lengths::new(group.iter().map(|&(_, from, entry)| (from, entry)).collect())))
    });
    Lengths::new(by_destination.collect())
}

fn search<B: Bits>(table: &Table<B>, to: B, from: B) -> Option<(Prefix, Target)> {
    table.matches(to).find_map(|(_, sources)| sources.matches(from).next().map(|(_, entry)| *entry))
}

fn covers<B: Bits>(table: &Table<B>, to: B) -> bool {
    table.matches(to).next().is_some_and(|(_, sources)| {
        let specific = |(prefix, target): &(Prefix, Target)| !prefix.is_default() && matches!(target, Target::Link(_));
        sources.values().any(specific)
    })
}

#[cfg(test)]
mod tests;
