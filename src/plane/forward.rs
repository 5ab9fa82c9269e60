//! What packets of every origin share: which addresses are forwarded, the way over a link, and the ICMP error if there is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{DropReason, Egress, Plane};
use crate::fib::Target;
use crate::path::LinkId;
use crate::time::Time;
use crate::wire::icmp::{self, Problem};
use crate::wire::ip::{self, Header, fragment};

/// How far a packet may travel by its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Routed,
    /// IPv6 between neighbours only: never forwarded (RFC 4291 §2.5.6).
    OnLink,
}

/// Where a packet came from: where an error about it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Tun,
    Mesh,
}

pub(super) fn scope(header: &Header) -> Result<Scope, DropReason> {
    match (header.source, header.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => scope4(source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => scope6(source, destination),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => Err(DropReason::Malformed),
    }
}

impl Plane {
    /// [`Plane::send`], with the reason.
    pub(super) fn try_send(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &[u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let header = Header::parse(packet)?;
        self.carry(now, link, &header, &packet[..header.length], out)
    }

    /// Seals a packet for a link, in fragments if it is too big and may be cut (RFC 4301 §8.2: before encryption).
    ///
    /// `packet` is as long as its header says.
    pub(super) fn carry(
        &mut self,
        now: Time,
        id: LinkId,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) -> Result<(), DropReason> {
        let link = self.links.get_mut(&id).ok_or(DropReason::NoSa)?;
        let mtu = usize::from(self.mtu);
        if packet.len() <= mtu {
            return link.seal(now, id, header, packet, out);
        }
        if !header.is_ipv4() || fragment::field(packet) & fragment::DONT_FRAGMENT != 0 {
            return Err(DropReason::TooBig);
        }
        fragment::cut(packet, mtu, &mut self.scratch, |piece| link.seal(now, id, header, piece, out))
    }

    /// Tells the sender of a packet why it was dropped, where there is a word for it and the limit allows. `mtu` octets would
    /// have passed.
    #[expect(clippy::too_many_arguments, reason = "a packet, what became of it, and where that goes")]
    pub(super) fn report(
        &mut self,
        now: Time,
        reason: DropReason,
        mtu: u16,
        origin: Origin,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) {
        if let Some(problem) = problem(reason, mtu) {
            self.tell(now, problem, origin, header, packet, out);
        }
    }

    /// The ICMP error itself.
    pub(super) fn tell(
        &mut self,
        now: Time,
        problem: Problem,
        origin: Origin,
        header: &Header,
        packet: &[u8],
        out: &mut Egress,
    ) {
        let Some(address) = self.address_like(header.source) else { return };
        if !icmp::may_report(header, packet) || !self.limit.allows(now, header.source) {
            return;
        }
        let Some(error) = icmp::error(problem, address, header, packet) else { return };
        match origin {
            Origin::Tun => out.push_inner(&error),
            Origin::Mesh => self.originate(now, &error, out),
        }
    }

    /// A packet of the node's own, by the Fib. Nobody hears if it fails, for it answers something; it is only counted.
    pub(super) fn originate(&mut self, now: Time, packet: &[u8], out: &mut Egress) {
        if let Err(reason) = self.try_originate(now, packet, out) {
            self.counts.add(reason);
        }
    }

    fn try_originate(&mut self, now: Time, packet: &[u8], out: &mut Egress) -> Result<(), DropReason> {
        let header = Header::parse(packet)?;
        match self.decide(header.destination, header.source).target {
            Some(Target::Local) if self.is_our_sid(header.destination) => {
                self.endpoint(now, Origin::Mesh, header, &mut packet.to_vec(), out)
            }
            Some(Target::Local) if self.has_tun => {
                out.push_inner(packet);
                Ok(())
            }
            Some(Target::Local) => Err(DropReason::NoTun),
            Some(Target::Link(link)) => self.carry(now, link, &header, packet, out),
            Some(Target::Unreachable) => Err(DropReason::Unreachable),
            None => Err(DropReason::NoRoute),
        }
    }

    /// Our best address of the family of `like`: for a SID our own one, which its node believes.
    fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        let sid = self.tables.domain.source().map(IpAddr::V6).filter(|_| like.is_ipv6());
        if self.tables.domain.is_member(like) && sid.is_some() {
            return sid;
        }
        let ours = self.addresses.iter().copied().find(|address| address.is_ipv4() == like.is_ipv4());
        ours.or(sid).or_else(|| like.is_ipv4().then_some(IpAddr::V4(DUMMY4)))
    }
}

fn problem(reason: DropReason, mtu: u16) -> Option<Problem> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other drop is silent")]
    match reason {
        DropReason::NoRoute | DropReason::UnknownSid => Some(Problem::NoRoute),
        DropReason::TooBig => Some(Problem::TooBig { mtu }),
        DropReason::HopLimit => Some(Problem::TimeExceeded),
        DropReason::Unreachable
        | DropReason::NoSa
        | DropReason::SaWornOut
        | DropReason::LocalLoop
        | DropReason::PolicyUnreachable
        | DropReason::NoTun => Some(Problem::Unreachable),
        _ => None,
    }
}

impl From<ip::Malformed> for DropReason {
    fn from(_: ip::Malformed) -> DropReason {
        DropReason::Malformed
    }
}

fn scope4(source: Ipv4Addr, destination: Ipv4Addr) -> Result<Scope, DropReason> {
    if destination.is_multicast() || destination.is_broadcast() {
        Err(DropReason::Multicast)
    } else if is_martian4(source) || is_martian4(destination) || source.is_multicast() || source.is_broadcast() {
        Err(DropReason::Martian)
    } else if source.is_link_local() || destination.is_link_local() {
        Err(DropReason::LinkLocal)
    } else {
        Ok(Scope::Routed)
    }
}

fn scope6(source: Ipv6Addr, destination: Ipv6Addr) -> Result<Scope, DropReason> {
    if destination.is_multicast() || source.is_unicast_link_local() || destination.is_unicast_link_local() {
        Ok(Scope::OnLink)
    } else if is_martian6(source) || is_martian6(destination) || source.is_multicast() {
        Err(DropReason::Martian)
    } else {
        Ok(Scope::Routed)
    }
}

/// "This network" and loopback (RFC 1122 §3.2.1.3).
fn is_martian4(address: Ipv4Addr) -> bool {
    address.octets().first() == Some(&0) || address.is_loopback()
}

fn is_martian6(address: Ipv6Addr) -> bool {
    address.is_unspecified() || address.is_loopback()
}

/// Source of errors of a node without an IPv4 address (RFC 7600 §4.8).
const DUMMY4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
