//! From the TUN device to the wire. The kernel has routed the packet here and taken one off its TTL, if it forwarded it.

use super::forward::{Origin, Scope, scope};
use super::seg::{self, Cut};
use super::{DropReason, Egress, Plane, mss};
use crate::fib::Target;
use crate::time::Time;
use crate::wire::ip::Header;
use crate::wire::vnet::Vnet;

impl Plane {
    pub(super) fn try_outbound(&mut self, now: Time, packet: &[u8], out: &mut Egress) -> Result<(), DropReason> {
        let header = Header::parse(packet)?;
        let packet = &packet[..header.length];
        if scope(&header)? == Scope::OnLink {
            // Kernels send router solicitations and reports of their groups into every device.
            let group = header.destination.is_multicast();
            return Err(if group { DropReason::Multicast } else { DropReason::LinkLocal });
        }
        let carried = match self.flows.lookup(&self.fib, header.destination, header.source) {
            Some(Target::Link(link)) => match mss::clamped(&header, packet, self.mtu) {
                Some(syn) => self.carry(now, link, &header, &syn, out),
                None => self.carry(now, link, &header, packet, out),
            },
            Some(Target::Local) => Err(DropReason::LocalLoop),
            Some(Target::Unreachable) => Err(DropReason::Unreachable),
            None => Err(DropReason::NoRoute),
        };
        if let Err(reason) = carried {
            self.report(now, reason, Origin::Tun, &header, packet, out);
        }
        carried
    }

    pub(super) fn try_outbound_super(
        &mut self,
        now: Time,
        vnet: &Vnet,
        packet: &mut [u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let header = Header::parse(packet)?;
        if vnet.segments.is_none() {
            if !seg::finish_checksum(vnet, &header, packet) {
                return Err(DropReason::Malformed);
            }
            return self.try_outbound(now, packet, out);
        }
        let packet = &packet[..header.length];
        let mut cut = Cut::new(vnet, &header, packet).ok_or(DropReason::Malformed)?;
        // One look at the addresses and the table serves all of them. What is out of the ordinary goes one by one.
        let ordinary = cut.largest() <= usize::from(self.mtu) && scope(&header)? == Scope::Routed;
        if ordinary
            && let Some(Target::Link(id)) = self.flows.lookup(&self.fib, header.destination, header.source)
            && let Some(link) = self.links.get_mut(&id).filter(|link| !link.out.is_empty())
        {
            while let Some((head, payload)) = cut.next() {
                link.seal_parts(now, id, &header, [head, payload], out)?;
            }
            return Ok(());
        }
        let mut single = Vec::with_capacity(cut.largest());
        while let Some((head, payload)) = cut.next() {
            single.clear();
            single.extend_from_slice(head);
            single.extend_from_slice(payload);
            self.outbound(now, &single, out);
        }
        Ok(())
    }
}
