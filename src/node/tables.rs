//! From Babel's selected routes to the forwarding table and to the kernel's.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Node, Output};
use crate::babel::speaker::NextHop;
use crate::fib::{Fib, Target};
use crate::prefix::Prefix;

impl Node {
    /// Builds the Fib anew and asks the daemon for the difference in kernel routes.
    ///
    /// A prefix held unreachable stays in the kernel too: packets for it come to us and are answered, instead of leaving by
    /// a shorter route of the underlay (RFC 8966 §3.5.4).
    pub(super) fn rebuild_tables(&mut self) {
        let mut kernel = BTreeSet::new();
        let mut entries = Vec::new();
        for route in self.babel.selected() {
            let target = match route.next_hop {
                NextHop::Local => Target::Local,
                NextHop::Link(link) | NextHop::Static(link) => Target::Link(link),
                NextHop::Unreachable => Target::Unreachable,
            };
            if target != Target::Local && self.plan.tun.is_some() {
                kernel.insert(route.prefix);
            }
            entries.push((route.prefix, target));
        }
        self.tables_built = self.tables_built.wrapping_add(1);
        self.plane.set_fib(Arc::new(Fib::new(entries)));
        if self.plan.tun.is_some() {
            kernel.extend(self.policy_prefixes());
        }
        self.change_kernel(kernel);
    }

    fn change_kernel(&mut self, wanted: BTreeSet<Prefix>) {
        // What is new comes first: no moment without a route that one of them covers.
        let add = wanted.difference(&self.kernel_routes).map(|prefix| Output::AddRoute { prefix: *prefix });
        let delete = self.kernel_routes.difference(&wanted).map(|prefix| Output::DeleteRoute { prefix: *prefix });
        self.outputs.extend(add.chain(delete));
        self.kernel_routes = wanted;
    }
}
