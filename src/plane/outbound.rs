//! From the TUN device to the wire. The kernel has routed the packet here and taken one off its TTL, if it forwarded it.

use super::forward::{Origin, Scope, scope};
use super::{DropReason, Egress, Plane, mss};
use crate::fib::Target;
use crate::time::Time;
use crate::wire::ip::Header;

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
}
