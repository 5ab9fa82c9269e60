//! From the wire to the TUN device, to control, or on to the next link, in the order of RFC 4303 §3.4.

use std::net::{IpAddr, Ipv6Addr};

use super::egress::Control;
use super::forward::{Origin, Scope, scope};
use super::{DropReason, Egress, Plane, ecn, mss};
use crate::esp::replay::Replay;
use crate::esp::{Refusal, inn::Content};
use crate::fib::Target;
use crate::path::{LinkId, Path};
use crate::steer::policy::Verdict;
use crate::time::Time;
use crate::wire::ip::{self, Header};
use crate::wire::{esp, icmp};

impl Plane {
    pub(super) fn try_inbound(
        &mut self,
        now: Time,
        path: Path,
        tos: u8,
        datagram: &mut [u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let spi = esp::spi(datagram).ok_or(DropReason::EspRunt)?;
        let (id, sa) = self.sad.lookup(spi).ok_or(DropReason::UnknownSpi)?;
        let link = self.links.get_mut(&id).ok_or(DropReason::UnknownSpi)?;
        // Before the ICV, for it changes nothing: a copy that went through the mesh must not use up the number of the
        // original, nor move the peer to an address that needs the peer to be reached.
        if path.remote.ip() != link.path.remote.ip() && self.tables.fib.is_in_mesh(path.remote.ip()) {
            return Err(DropReason::UnderlayInMesh);
        }
        let opened = sa.open(datagram)?;
        link.count.packets_in += 1;
        link.count.heard = Some(now);
        if opened.newest && link.is_elsewhere(path) {
            // Once for a batch is enough; `set_path` ends it.
            let moved = Control::Moved { link: id, path };
            if !out.control.contains(&moved) {
                out.control.push(moved);
            }
        }
        if opened.spent {
            out.control.push(Control::Worn { link: id });
        }
        let Content { next_header, payload } = opened.content.ok_or(DropReason::BadPadding)?;
        match next_header {
            ip::IN_IPV4 | ip::IN_IPV6 => {}
            ip::NO_NEXT_HEADER => return Err(DropReason::Dummy),
            _ => return Err(DropReason::BadNextHeader),
        }
        let mut header = Header::parse(payload)?;
        if header.next_header() != next_header {
            return Err(DropReason::Malformed);
        }
        // What is behind the inner packet is TFC padding (RFC 4303 §2.7).
        let packet = &mut payload[..header.length];
        link.count.octets_in += packet.len() as u64;
        let mark = ecn::combine(header.tos, tos).ok_or(DropReason::EcnCe)?;
        if mark != header.tos & ecn::MASK {
            ip::set_ecn(packet, mark);
            header.tos = (header.tos & !ecn::MASK) | mark;
        }
        match scope(&header)? {
            Scope::OnLink => self.receive_on_link(now, id, &header, packet, out),
            Scope::Routed => {
                let decision = self.decide(header.destination, header.source);
                if decision.verdict == Verdict::OurSid {
                    return self.endpoint(now, Origin::Mesh, header, packet, out);
                }
                self.clamp(now, &header, packet);
                let forwarded = self.forward(now, decision.target, &header, packet, out);
                if let Err(reason) = forwarded {
                    self.report(now, reason, self.mtu, Origin::Mesh, &header, packet, out);
                }
                forwarded
            }
        }
    }

    /// Lowers the MSS of a SYN to what tunnels carry, and policies on the way back.
    pub(super) fn clamp(&self, now: Time, header: &Header, packet: &mut [u8]) {
        let policies = &self.tables.policies;
        let mtu = if policies.is_empty() || !mss::is_syn(header, packet) {
            self.mtu
        } else {
            policies.narrowest(now, self.mtu, header.source, header.destination)
        };
        mss::clamp(header, packet, mtu);
    }

    pub(super) fn forward(
        &mut self,
        now: Time,
        target: Option<Target>,
        header: &Header,
        packet: &mut [u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        match target {
            // The kernel believes what the device says about our own addresses (our ICMP errors come from there).
            Some(Target::Local) if self.addresses.contains(&header.source) => Err(DropReason::Martian),
            Some(Target::Local) if self.has_tun => {
                out.push_inner(packet);
                Ok(())
            }
            Some(Target::Local) => self.answer(now, header, packet, out),
            // A packet may leave by the link it came over: the next node may know better, and its hop limit ends it.
            Some(Target::Link(link)) => {
                if !ip::decrement_hops(packet) {
                    return Err(DropReason::HopLimit);
                }
                self.carry(now, link, header, packet, out)
            }
            Some(Target::Unreachable) => Err(DropReason::Unreachable),
            None => Err(DropReason::NoRoute),
        }
    }

    /// A node without a TUN device answers echo requests to itself, so that it can be pinged.
    fn answer(&mut self, now: Time, header: &Header, packet: &[u8], out: &mut Egress) -> Result<(), DropReason> {
        if !self.addresses.contains(&header.destination) {
            return Err(DropReason::NoTun);
        }
        let reply = icmp::echo_reply(header.destination, header, packet).ok_or(DropReason::NoTun)?;
        self.originate(now, &reply, out);
        Ok(())
    }

    /// IPv6 to a group or between link-local addresses: Babel, echo requests, or nothing of ours.
    fn receive_on_link(
        &mut self,
        now: Time,
        id: LinkId,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let (IpAddr::V6(from), IpAddr::V6(to)) = (header.source, header.destination) else {
            return Err(DropReason::LinkLocal);
        };
        let ours = self.links.get(&id).and_then(|link| link.link_local);
        let not_for_us = if to.is_multicast() { DropReason::Multicast } else { DropReason::LinkLocal };
        // Before our address is known, what comes over a link between two is for us.
        let to_us = to.is_unicast_link_local() && ours.is_none_or(|ours| ours == to);
        if header.protocol == ip::UDP && from.is_unicast_link_local() && (to_us || to == BABEL_GROUP) {
            let udp = ip::parse_udp6(header, packet).map_err(|_| DropReason::BadUdp)?;
            if (udp.source_port, udp.destination_port) != (BABEL_PORT, BABEL_PORT) {
                return Err(not_for_us);
            }
            out.control.push(Control::Babel { link: id, from, to, payload: udp.payload.to_vec() });
            return Ok(());
        }
        let ours = ours.filter(|&ours| ours == to || to == ALL_NODES).ok_or(not_for_us)?;
        let reply = icmp::echo_reply(ours.into(), header, packet).ok_or(not_for_us)?;
        self.try_send(now, id, &reply, out)
    }
}

impl From<Refusal> for DropReason {
    fn from(refusal: Refusal) -> DropReason {
        match refusal {
            Refusal::Runt => DropReason::EspRunt,
            Refusal::Replay(Replay::Zero) => DropReason::SequenceZero,
            Refusal::Replay(Replay::Old) => DropReason::ReplayOld,
            Refusal::Replay(Replay::Seen) => DropReason::ReplaySeen,
            Refusal::Forged => DropReason::Forged,
        }
    }
}

/// RFC 8966 §4.
const BABEL_PORT: u16 = 6696;
const BABEL_GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 6);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
