//! The forwarding table: built whole from the selected routes, then only read.

use std::net::IpAddr;

use crate::path::LinkId;
use crate::prefix::Prefix;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Ours: to the TUN device.
    Local,
    Link(LinkId),
    Unreachable,
}

/// Longest destination prefix first, then longest source prefix (RFC 9079 §4). Immutable once built, swapped whole.
pub struct Fib {}

impl Fib {
    pub fn new(routes: impl IntoIterator<Item = (Prefix, Target)>) -> Fib {
        let _ = routes.into_iter();
        todo!()
    }

    /// The most specific entry, with its prefix pair; `None` without any route.
    pub fn lookup(&self, destination: IpAddr, source: IpAddr) -> Option<(Prefix, Target)> {
        let _ = (destination, source);
        todo!()
    }
}
