//! A NAT in front of one host: mappings independent of the destination, as RFC 4787 asks for.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

pub(crate) struct Nat {
    pub(crate) public: IpAddr,
    next_port: u16,
    /// From the host's own port to the public one.
    out: BTreeMap<u16, u16>,
}

impl Nat {
    pub(crate) fn new(public: IpAddr) -> Nat {
        Nat { public, next_port: 20000, out: BTreeMap::new() }
    }

    /// The source that the world sees.
    pub(crate) fn translate(&mut self, port: u16) -> SocketAddr {
        let next = &mut self.next_port;
        let mapped = *self.out.entry(port).or_insert_with(|| {
            *next += 1;
            *next
        });
        SocketAddr::new(self.public, mapped)
    }

    /// The host's port behind a public one, if a mapping stands.
    pub(crate) fn back(&self, public_port: u16) -> Option<u16> {
        self.out.iter().find(|(_, mapped)| **mapped == public_port).map(|(port, _)| *port)
    }

    /// The NAT forgets everything, and may have got another address.
    pub(crate) fn rebind(&mut self, public: IpAddr) {
        self.public = public;
        self.next_port += 1000;
        self.out.clear();
    }
}
