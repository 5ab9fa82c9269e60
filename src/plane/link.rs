//! One tunnel as the data path sees it: where it goes, what seals it, what it has carried.

use std::net::Ipv6Addr;

use super::LinkCount;
use super::count::DropReason;
use super::egress::{Control, Egress};
use crate::esp::OutSa;
use crate::path::{LinkId, Path};
use crate::time::Time;
use crate::wire::esp;
use crate::wire::ip::Header;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) path: Path,
    /// Our own address on this link.
    pub(super) link_local: Option<Ipv6Addr>,
    /// The last one is sent on; the others are what remains if it goes, or wait for their turn.
    pub(super) out: Vec<Outbound>,
    pub(super) count: LinkCount,
}

#[derive(Debug)]
pub(super) struct Outbound {
    /// Boxed, so that moving a link leaves no copy of the key behind.
    pub(super) sa: Box<OutSa>,
    /// Names the inbound SA of the same Child SA.
    spi_in: u32,
    /// Inner octets that it has sealed.
    octets: u64,
}

impl Link {
    pub(super) fn new(path: Path) -> Link {
        Link { path, link_local: None, out: Vec::new(), count: LinkCount::default() }
    }

    pub(super) fn install(&mut self, path: Path, sa: OutSa, spi_in: u32) {
        self.path = path;
        self.out.push(Outbound { sa: Box::new(sa), spi_in, octets: 0 });
    }

    /// In use only once there is no other, or from [`use_now`](Self::use_now) on.
    pub(super) fn stand_by(&mut self, sa: OutSa, spi_in: u32) {
        self.out.insert(0, Outbound { sa: Box::new(sa), spi_in, octets: 0 });
    }

    pub(super) fn use_now(&mut self, spi_in: u32) {
        if let Some(at) = self.out.iter().position(|out| out.spi_in == spi_in) {
            let out = self.out.remove(at);
            self.out.push(out);
        }
    }

    pub(super) fn limit(&mut self, spi_in: u32, octets: u64) {
        self.out.iter_mut().filter(|out| out.spi_in == spi_in).for_each(|out| out.sa.limit(octets));
    }

    pub(super) fn remove(&mut self, spi_in: u32) {
        self.out.retain(|out| out.spi_in != spi_in);
    }

    /// Packets and octets sealed by the outbound SA that came with this inbound one.
    pub(super) fn sealed(&self, spi_in: u32) -> (u64, u64) {
        let found = self.out.iter().find(|out| out.spi_in == spi_in);
        found.map_or((0, 0), |out| (out.sa.sent().into(), out.octets))
    }

    /// Whether a datagram over `path` shows the peer somewhere else than where we send.
    pub(super) fn is_elsewhere(&self, path: Path) -> bool {
        // What one side does not know cannot contradict the other.
        let local_differs = self.path.local.is_some() && path.local.is_some() && self.path.local != path.local;
        self.path.remote != path.remote || self.path.socket != path.socket || local_differs
    }

    /// Seals a packet.
    pub(super) fn seal(
        &mut self,
        now: Time,
        id: LinkId,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        self.seal_parts(now, id, header, [packet, &[]], out)
    }

    /// Seals a packet, of which head and payload stand in two places, into its train. DSCP and ECN of the outer header are the
    /// inner ones (RFC 4301 §5.1.2.1, RFC 6040 §4.1).
    pub(super) fn seal_parts(
        &mut self,
        now: Time,
        id: LinkId,
        header: &Header,
        [head, payload]: [&[u8]; 2],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let outbound = self.out.last_mut().ok_or(DropReason::NoSa)?;
        let length = head.len() + payload.len();
        let spent = outbound.sa.spend(length);
        let sealer = outbound.sa.number().ok_or(DropReason::SaWornOut)?;
        if spent || sealer.is_half_way() {
            out.control.push(Control::Worn { link: id });
        }
        let train = out.train(self.path, header.tos, esp::sealed_len(length));
        sealer.seal_parts(head, payload, header.next_header(), train);
        outbound.octets += length as u64;
        self.count.packets_out += 1;
        self.count.octets_out += length as u64;
        self.count.sent = Some(now);
        Ok(())
    }
}
