//! From the TUN device to the wire. The kernel has routed the packet here and taken one off its TTL, if it forwarded it.

use super::forward::{Origin, Scope, scope};
use super::seg::{self, Cut};
use super::{DropReason, Egress, Plane, mss, steered};
use crate::fib::Target;
use crate::steer::policy::{NoWay, Verdict};
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
        let decision = self.decide(header.destination, header.source);
        let domain = &self.tables.domain;
        if matches!(decision.verdict, Verdict::OurSid | Verdict::Sid) && !domain.lets_in(header.source) {
            return Err(DropReason::SidFromOutside);
        }
        if steered::has_segments(&header, packet) && !domain.lets_in(header.source) {
            return Err(DropReason::SrhFromOutside);
        }
        if decision.verdict == Verdict::OurSid {
            return self.endpoint(now, Origin::Tun, header, &mut packet.to_vec(), out);
        }
        let place = self.tables.policies.choose(decision.verdict, &header, packet);
        let mtu = self.mtu_by(now, place);
        let clamped = mss::clamped(&header, packet, mtu);
        let sent = clamped.as_deref().unwrap_or(packet);
        let carried = match (place, decision.target) {
            (Ok(Some(place)), _) => self.steer(now, place, &header, sent, out),
            (Err(NoWay), _) => Err(DropReason::PolicyUnreachable),
            (Ok(None), Some(Target::Link(link))) => self.carry(now, link, &header, sent, out),
            (Ok(None), Some(Target::Local)) => Err(DropReason::LocalLoop),
            (Ok(None), Some(Target::Unreachable)) => Err(DropReason::Unreachable),
            (Ok(None), None) => Err(DropReason::NoRoute),
        };
        if let Err(reason) = carried {
            self.report(now, reason, mtu, Origin::Tun, &header, packet, out);
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
        // One look at the addresses and the tables serves all of them. What is out of the ordinary goes one by one.
        if scope(&header)? == Scope::Routed && !steered::has_segments(&header, packet) {
            let decision = self.decide(header.destination, header.source);
            let place = self.tables.policies.choose(decision.verdict, &header, packet);
            let fits = cut.largest() <= usize::from(self.mtu_by(now, place));
            match (place, decision.target) {
                (Ok(Some(place)), _) if fits && self.can_steer(place) => {
                    return self.steer_super(now, place, &header, packet, &mut cut, out);
                }
                (Ok(None), Some(Target::Link(id)))
                    if fits && !matches!(decision.verdict, Verdict::OurSid | Verdict::Sid) =>
                {
                    if let Some(link) = self.links.get_mut(&id).filter(|link| !link.out.is_empty()) {
                        while let Some((head, payload)) = cut.next() {
                            link.seal_parts(now, id, &header, [head, payload], out)?;
                        }
                        return Ok(());
                    }
                }
                (Ok(_) | Err(NoWay), _) => {}
            }
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

    /// Octets of the largest packet by this policy, or by none.
    fn mtu_by(&mut self, now: Time, place: Result<Option<u16>, NoWay>) -> u16 {
        let active = place.ok().flatten().and_then(|place| self.tables.policies.at(place));
        active.map_or(self.mtu, |active| active.mtu(now, self.mtu))
    }
}
