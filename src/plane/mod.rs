//! The data path: inner packets to ESP datagrams and back, by batches, without a clock, a lock or an allocation a packet.

pub mod egress;

use std::sync::Arc;

use crate::fib::Fib;
use crate::ike::endpoint::Child;
use crate::path::{LinkId, Path};
use crate::time::Time;
pub use egress::{Control, Egress, Train};

/// What a link has carried, of authenticated packets (inner octets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCount {
    pub packets_in: u64,
    pub octets_in: u64,
    pub packets_out: u64,
    pub octets_out: u64,
    /// When the last packet that verified came in; `None` before the first one.
    pub heard: Option<Time>,
    /// When the last one went out.
    pub sent: Option<Time>,
}

pub struct Plane {}

impl Plane {
    /// `mtu`: the largest inner packet, in octets.
    pub fn new(mtu: u16) -> Plane {
        let _ = mtu;
        todo!()
    }

    /// The addresses of this node, best first: sources of its ICMP errors.
    pub fn set_addresses(&mut self, addresses: Vec<std::net::IpAddr>) {
        let _ = addresses;
        todo!()
    }

    pub fn set_fib(&mut self, fib: Arc<Fib>) {
        let _ = fib;
        todo!()
    }

    /// Installs both directions of a Child SA on a link: inbound beside what is there, outbound instead of it.
    pub fn install(&mut self, link: LinkId, path: Path, child: &Child) {
        let _ = (link, path, child);
        todo!()
    }

    /// Removes an inbound SA, and the outbound one that came with it if it is still in use.
    pub fn remove(&mut self, link: LinkId, spi_in: u32) {
        let _ = (link, spi_in);
        todo!()
    }

    /// Forgets the link and everything on it.
    pub fn remove_link(&mut self, link: LinkId) {
        let _ = link;
        todo!()
    }

    /// Where the link's ESP goes from now on.
    pub fn set_path(&mut self, link: LinkId, path: Path) {
        let _ = (link, path);
        todo!()
    }

    pub fn link(&self, link: LinkId) -> Option<LinkCount> {
        let _ = link;
        todo!()
    }

    /// A packet from the TUN device: steer, look up, seal into `out`.
    pub fn outbound(&mut self, now: Time, packet: &[u8], out: &mut Egress) {
        let _ = (now, packet, out);
        todo!()
    }

    /// An ESP datagram (not a keepalive, not IKE): open in place, then deliver to the TUN, forward, or hand to control.
    pub fn inbound(&mut self, now: Time, path: Path, datagram: &mut [u8], out: &mut Egress) {
        let _ = (now, path, datagram, out);
        todo!()
    }

    /// A packet of our own (Babel) over one link, whatever the Fib says. `false` if the link has no SA.
    pub fn send(&mut self, now: Time, link: LinkId, packet: &[u8], out: &mut Egress) -> bool {
        let _ = (now, link, packet, out);
        todo!()
    }

    /// Counts a drop that happened outside the plane, so that all are in one place.
    pub fn count(&mut self, reason: &'static str) {
        let _ = reason;
        todo!()
    }

    /// Drops since the start, by reason; reasons that never happened are left out.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        std::iter::empty()
    }
}
