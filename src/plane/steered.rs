//! Segment routing in the data path: packets that a policy sends on a path, and packets to SIDs of ours.

use std::net::IpAddr;

use super::egress::Control;
use super::forward::{Origin, Scope, scope};
use super::seg::Cut;
use super::{DropReason, Egress, Plane, Tables, ecn};
use crate::fib::Target;
use crate::steer::endpoint::{self, Refusal, Step};
use crate::steer::headend::flow_label;
use crate::steer::policy::Verdict;
use crate::time::Time;
use crate::wire::icmp::{self, Problem};
use crate::wire::ip::{self, Header, fragment};
use crate::wire::srv6;

/// Whether a packet brings a segment list.
pub(super) fn has_segments(header: &Header, packet: &[u8]) -> bool {
    // Most packets have no extension header and are not looked at.
    !header.is_ipv4()
        && matches!(header.protocol, ip::ROUTING | ip::HOP_BY_HOP | ip::DESTINATION_OPTIONS | ip::FRAGMENT)
        && srv6::has_segments(header, packet)
}

impl Plane {
    /// Sends a packet on a policy's path, in fragments if it is too big and may be cut.
    pub(super) fn steer(
        &mut self,
        now: Time,
        place: u16,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let active = self.tables.policies.at(place).ok_or(DropReason::PolicyUnreachable)?;
        let mtu = usize::from(active.mtu(now, self.mtu));
        let label = flow_label(header, packet);
        if packet.len() <= mtu {
            return self.steer_parts(now, place, header, label, [&[], packet], out);
        }
        if !header.is_ipv4() || fragment::field(packet) & fragment::DONT_FRAGMENT != 0 {
            return Err(DropReason::TooBig);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let cut = fragment::cut(packet, mtu, &mut scratch, |piece| {
            self.steer_parts(now, place, header, label, [&[], piece], out)
        });
        self.scratch = scratch;
        cut
    }

    /// Whether the first tunnel of a policy's path has an SA. Where it has none, each packet is told so by itself.
    pub(super) fn can_steer(&mut self, place: u16) -> bool {
        match self.tables.policies.at(place).and_then(|active| active.way) {
            Some(Target::Link(id)) => self.links.get(&id).is_some_and(|link| !link.out.is_empty()),
            _ => true,
        }
    }

    /// The same for all packets of a super-packet; each fits.
    pub(super) fn steer_super(
        &mut self,
        now: Time,
        place: u16,
        header: &Header,
        packet: &[u8],
        cut: &mut Cut<'_>,
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let label = flow_label(header, packet);
        while let Some((head, payload)) = cut.next() {
            self.steer_parts(now, place, header, label, [head, payload], out)?;
        }
        Ok(())
    }

    /// Puts the outer headers before a packet, of which head and payload stand in two places, and sends it.
    fn steer_parts(
        &mut self,
        now: Time,
        place: u16,
        header: &Header,
        label: u32,
        [head, payload]: [&[u8]; 2],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let active = self.tables.policies.at(place).ok_or(DropReason::PolicyUnreachable)?;
        let encapsulation = active.encapsulation.as_ref().ok_or(DropReason::PolicyUnreachable)?;
        let length = head.len() + payload.len();
        let outer = encapsulation.begin(header, length, label, &mut self.head).ok_or(DropReason::TooBig)?;
        self.head.extend_from_slice(head);
        match active.way {
            Some(Target::Link(id)) => {
                let link = self.links.get_mut(&id).ok_or(DropReason::NoSa)?;
                link.seal_parts(now, id, &outer, [&self.head, payload], out)?;
            }
            Some(Target::Local) => {
                let mut packet = [&self.head[..], payload].concat();
                if matches!(outer.destination, IpAddr::V6(first) if self.tables.domain.is_ours(first)) {
                    // Errors about it would go to ourselves: they are only counted.
                    self.endpoint(now, Origin::Mesh, outer, &mut packet, out)?;
                } else if self.has_tun {
                    out.push_inner(&packet);
                } else {
                    return Err(DropReason::NoTun);
                }
            }
            Some(Target::Unreachable) | None => return Err(DropReason::PolicyUnreachable),
        }
        if let Some(active) = self.tables.policies.at(place) {
            active.count.packets += 1;
            active.count.octets += length as u64;
        }
        Ok(())
    }

    /// A packet to a SID of ours. What is wrong with it is told to its source.
    pub(super) fn endpoint(
        &mut self,
        now: Time,
        origin: Origin,
        mut header: Header,
        mut packet: &mut [u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        // Pings and errors come from anywhere; whatever else happens here is for the domain (RFC 8754 §5.1).
        if header.protocol != ip::ICMPV6 && !self.tables.domain.is_member(header.source) {
            return Err(DropReason::SidFromOutside);
        }
        let mut nested = 0;
        // Each turn uses up a segment or an outer header; nobody needs more than a full list in each of a few headers.
        for _ in 0..MAX_STEPS {
            let behaviour = match header.destination {
                IpAddr::V6(sid) => self.tables.domain.behaviour(sid),
                IpAddr::V4(_) => None,
            };
            #[cfg(test)]
            if let (Some(_), IpAddr::V6(sid)) = (behaviour, header.destination) {
                self.visited.push((now, sid));
            }
            let step = behaviour.map(|behaviour| endpoint::step(behaviour, &header, packet));
            let result = match step {
                None => Err(DropReason::UnknownSid),
                Some(Err(refusal)) => Err(self.refuse(now, refusal, origin, &header, packet, out)),
                Some(Ok(Step::Message { at })) => self.message(now, Header { header: at, ..header }, packet, out),
                Some(Ok(Step::Onward { start })) => {
                    packet = &mut packet[start..];
                    header = Header::parse(packet)?;
                    if scope(&header)? != Scope::Routed {
                        return Err(DropReason::LinkLocal);
                    }
                    if self.is_our_sid(header.destination) {
                        continue;
                    }
                    self.send_on(now, &header, packet, out)
                }
                Some(Ok(Step::Inner { at, ipv4 })) => {
                    nested += 1;
                    if nested > MAX_NESTED {
                        return Err(DropReason::NestedTooDeep);
                    }
                    let outer = header;
                    packet = &mut packet[at..outer.length];
                    header = Header::parse(packet)?;
                    packet = &mut packet[..header.length];
                    if header.is_ipv4() != ipv4 {
                        return Err(DropReason::Malformed);
                    }
                    let mark = ecn::combine(header.tos, outer.tos).ok_or(DropReason::EcnCe)?;
                    ip::set_ecn(packet, mark);
                    header.tos = header.tos & !ecn::MASK | mark;
                    if scope(&header)? != Scope::Routed {
                        return Err(DropReason::LinkLocal);
                    }
                    if self.is_our_sid(header.destination) && self.tables.domain.is_member(header.source) {
                        continue;
                    }
                    self.deliver(now, &header, packet, out)
                }
            };
            if let Err(reason) = result {
                self.report(now, reason, self.mtu, origin, &header, packet, out);
            }
            return result;
        }
        Err(DropReason::TooManySegments)
    }

    /// To the next segment, the hop limit having been counted.
    fn send_on(&mut self, now: Time, header: &Header, packet: &[u8], out: &mut Egress) -> Result<(), DropReason> {
        match self.decide(header.destination, header.source).target {
            Some(Target::Link(link)) => self.carry(now, link, header, packet, out),
            // As everywhere: the kernel would believe it.
            Some(Target::Local) if self.addresses.contains(&header.source) => Err(DropReason::Martian),
            Some(Target::Local) if self.has_tun => {
                out.push_inner(packet);
                Ok(())
            }
            Some(Target::Local) => Err(DropReason::NoTun),
            Some(Target::Unreachable) => Err(DropReason::Unreachable),
            None => Err(DropReason::NoRoute),
        }
    }

    /// The inner packet at the end of a path: by our table, or out through the kernel's default route.
    fn deliver(&mut self, now: Time, header: &Header, packet: &mut [u8], out: &mut Egress) -> Result<(), DropReason> {
        let decision = self.decide(header.destination, header.source);
        if self.is_our_sid(header.destination) {
            return Err(DropReason::SidFromOutside);
        }
        self.clamp(now, header, packet);
        let outwards = decision.target.is_none() || decision.by_default;
        let target = if self.exit && outwards { Some(Target::Local) } else { decision.target };
        self.forward(now, target, header, packet, out)
    }

    /// An ICMPv6 message to our End SID: answered, or learnt from.
    fn message(&mut self, now: Time, header: Header, packet: &[u8], out: &mut Egress) -> Result<(), DropReason> {
        let header = Header { protocol: ip::ICMPV6, ..header };
        if let Some(reply) = icmp::echo_reply(header.destination, &header, packet) {
            self.originate(now, &reply, out);
            return Ok(());
        }
        let message = icmp::message6(&header, packet).ok_or(DropReason::Malformed)?;
        let IpAddr::V6(from) = header.source else { return Err(DropReason::Malformed) };
        if let Some((mtu, quoted)) = icmp::too_big6(message)
            && let Some((IpAddr::V6(source), IpAddr::V6(segment))) = ip::addresses(quoted)
            && self.tables.domain.source() == Some(source)
            && self.tables.domain.is_member(header.source)
        {
            self.tables.policies.learn(now, segment, mtu);
        }
        if self.probing && out.control.len() < MOST_NEWS {
            out.control.push(Control::Message { from, message: message.to_vec() });
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        now: Time,
        refusal: Refusal,
        origin: Origin,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) -> DropReason {
        let (reason, parameter) = match refusal {
            Refusal::Malformed => (DropReason::Malformed, None),
            Refusal::HopLimit => (DropReason::HopLimit, None),
            Refusal::List { pointer } => (DropReason::BadSegmentList, Some((ERRONEOUS_FIELD, pointer))),
            Refusal::TooManySegments => (DropReason::TooManySegments, None),
            Refusal::NotLast { pointer } => (DropReason::SegmentsLeft, Some((ERRONEOUS_FIELD, pointer))),
            Refusal::UpperLayer { pointer } => (DropReason::SidUpperLayer, Some((SR_UPPER_LAYER, pointer))),
            Refusal::Nothing => (DropReason::Dummy, None),
        };
        if let Some((code, pointer)) = parameter {
            self.tell(now, Problem::Parameter { code, pointer }, origin, header, packet, out);
        }
        reason
    }

    /// The policy, as configured, of packets between two hosts that meet no conditions beyond that.
    pub fn policy_of(&self, destination: IpAddr, source: IpAddr) -> Option<usize> {
        let protocol = ip::NO_NEXT_HEADER;
        let header = Header { source, destination, tos: 0, hops: 64, length: 0, header: 0, protocol };
        let Tables { domain, policies, .. } = &self.tables;
        let place = match policies.verdict(domain, destination, source) {
            Verdict::Plain | Verdict::OurSid | Verdict::Sid => None,
            Verdict::Policy(place) => Some(place),
            Verdict::Conditional => policies.classify(&header, &[]),
        };
        policies.index_of(place?)
    }

    pub(super) fn is_our_sid(&self, destination: IpAddr) -> bool {
        matches!(destination, IpAddr::V6(sid) if self.tables.domain.is_ours(sid))
    }
}

/// Own segments one after the other, in a few headers.
const MAX_STEPS: usize = 2 * srv6::MAX_SEGMENTS;
const MAX_NESTED: usize = 3;
/// Of messages to our End SID in one batch.
const MOST_NEWS: usize = 64;
/// Codes of ICMPv6 parameter problems (RFC 4443 §3.4, RFC 8986 §10.3).
const ERRONEOUS_FIELD: u8 = 0;
const SR_UPPER_LAYER: u8 = 4;
