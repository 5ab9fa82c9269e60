//! What this node originates: its own addresses and SIDs, the prefixes behind it, and the kernel routes that it was told to
//! follow.

use std::collections::BTreeSet;

use super::Node;
use crate::prefix::Prefix;
use crate::time::Time;

impl Node {
    /// The kernel's tables whose routes [`Node::handle_kernel_routes`] wants to know.
    pub fn followed_tables(&self) -> impl Iterator<Item = u32> + '_ {
        self.plan.from_kernel.iter().map(|follow| follow.table)
    }

    /// All routes that others have put into those tables, each with its table.
    pub fn handle_kernel_routes(&mut self, now: Time, routes: Vec<(u32, Prefix)>) {
        if self.foreign_routes != routes {
            self.foreign_routes = routes;
            self.announce(now);
            self.settle(now);
        }
    }

    pub(super) fn announce(&mut self, now: Time) {
        let addresses = self.plan.tun.iter().flat_map(|tun| &tun.addresses).map(ipnet::IpNet::addr);
        let wanted = |(table, prefix): &&(u32, Prefix)| {
            self.plan.from_kernel.iter().any(|follow| follow.table == *table && follow.filter.permits(prefix))
        };
        let followed = self.foreign_routes.iter().filter(wanted).map(|(_, prefix)| *prefix);
        let locator = self.plan.locator.map(|net| Prefix::to(net.into()));
        let prefixes: BTreeSet<Prefix> = addresses
            .map(Prefix::host)
            .chain(self.plan.announce.iter().copied())
            .chain(locator)
            .chain(followed)
            .collect();
        self.babel.announce(now, prefixes.into_iter().collect());
    }
}
