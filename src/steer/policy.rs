//! Policies: which packets of the local network take which path, and whether that path is there.
//!
//! Of the policies that match a packet the one with the longest destination prefix wins, then the longest source prefix (as
//! with routes, RFC 9079 §4), then the one with more conditions, then the first one in the file.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::Domain;
use super::headend::Encapsulation;
use crate::fib::{Fib, Target};
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::ip::{self, Header};

/// What a packet must be beyond its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    pub protocol: Option<u8>,
    /// Destination ports of TCP, UDP, SCTP and DCCP.
    pub ports: Option<RangeInclusive<u16>>,
    pub dscp: Option<u8>,
}

/// A policy, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub prefix: Prefix,
    pub conditions: Conditions,
    /// Waypoints and, last, the exit; none: what matches is *not* steered.
    pub segments: Vec<Ipv6Addr>,
    pub reduced: bool,
    /// What does not find its way is routed as if there were no policy, instead of dropped.
    pub route_if_unreachable: bool,
}

/// What has gone through a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    /// Of the inner packets.
    pub octets: u64,
}

/// A policy at work.
#[derive(Debug)]
pub struct Active {
    pub policy: Policy,
    pub encapsulation: Option<Encapsulation>,
    /// Where the first segment is.
    pub way: Option<Target>,
    /// The first segment without a route.
    pub missing: Option<Ipv6Addr>,
    pub count: Count,
    /// Octets of the largest inner packet, while a router on the way says so.
    learnt: Option<(u16, Time)>,
}

/// The decision by addresses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is steered.
    Plain,
    /// To a SID of ours.
    OurSid,
    /// To a SID of the domain.
    Sid,
    Policy(u16),
    /// It depends on more than addresses: ask for each packet.
    Conditional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWay;

/// All policies, the most specific first.
#[derive(Debug, Default)]
pub struct Policies {
    list: Vec<Active>,
    /// Place in `list` of each policy as configured.
    places: Vec<usize>,
}

impl Policies {
    pub fn new(policies: Vec<Policy>, domain: &Domain) -> Policies {
        let mut order: Vec<(usize, Policy)> = policies.into_iter().enumerate().collect();
        order.sort_by_key(|(_, policy)| {
            let (to, from) = (policy.prefix.destination().prefix_len(), policy.prefix.source().prefix_len());
            std::cmp::Reverse((to, from, policy.conditions.count()))
        });
        let mut places = vec![0; order.len()];
        for (place, (index, _)) in order.iter().enumerate() {
            places[*index] = place;
        }
        let active = |(_, policy): (usize, Policy)| Active {
            encapsulation: domain
                .source()
                .filter(|_| !policy.segments.is_empty())
                .map(|source| Encapsulation::new(source, &policy.segments, policy.reduced)),
            policy,
            way: None,
            missing: None,
            count: Count::default(),
            learnt: None,
        };
        Policies { list: order.into_iter().map(active).collect(), places }
    }

    /// Looks up the ways anew. A segment is reachable by a route of its own; a default route is none.
    pub fn resolve(&mut self, fib: &Fib, domain: &Domain) {
        let Some(source) = domain.source() else { return };
        let reach = |segment: Ipv6Addr| match fib.lookup(segment.into(), source.into()) {
            Some((prefix, target @ (Target::Local | Target::Link(_)))) if !prefix.is_default() => Some(target),
            Some(_) | None => None,
        };
        for active in &mut self.list {
            active.missing = active.policy.segments.iter().copied().find(|segment| reach(*segment).is_none());
            active.way = active.policy.segments.first().copied().and_then(reach);
        }
    }

    pub fn verdict(&self, domain: &Domain, destination: IpAddr, source: IpAddr) -> Verdict {
        if let IpAddr::V6(destination) = destination {
            if domain.is_ours(destination) {
                return Verdict::OurSid;
            }
            if domain.is_sid(destination) {
                return Verdict::Sid;
            }
        }
        let mut matching = self.list.iter().zip(0_u16..).filter(|(a, _)| a.policy.prefix.matches(destination, source));
        match matching.next() {
            None => Verdict::Plain,
            Some((first, place)) if first.policy.conditions.count() == 0 => Verdict::Policy(place),
            Some(_) => Verdict::Conditional,
        }
    }

    /// The policy of a packet, where addresses alone do not decide.
    pub fn classify(&self, header: &Header, packet: &[u8]) -> Option<u16> {
        let transport = ip::transport(header, packet);
        let matches = |active: &Active| {
            let Policy { prefix, conditions, .. } = &active.policy;
            prefix.matches(header.destination, header.source) && conditions.hold(header, transport)
        };
        self.list.iter().zip(0..).find(|(active, _)| matches(active)).map(|(_, place)| place)
    }

    /// The policy that steers a packet; the error: it has one, but no way.
    pub fn choose(&self, verdict: Verdict, header: &Header, packet: &[u8]) -> Result<Option<u16>, NoWay> {
        let place = match verdict {
            Verdict::Plain | Verdict::OurSid | Verdict::Sid => return Ok(None),
            Verdict::Policy(place) => Some(place),
            Verdict::Conditional => self.classify(header, packet),
        };
        let Some((place, active)) = place.and_then(|place| Some((place, self.list.get(usize::from(place))?))) else {
            return Ok(None);
        };
        match active.is_reachable() {
            _ if active.policy.segments.is_empty() => Ok(None),
            true => Ok(Some(place)),
            false if active.policy.route_if_unreachable => Ok(None),
            false => Err(NoWay),
        }
    }

    /// The least of what the policies between two hosts carry: what both ends of a connection should be told.
    pub fn narrowest(&self, now: Time, mtu: u16, destination: IpAddr, source: IpAddr) -> u16 {
        let matching = self.list.iter().filter(|active| active.policy.prefix.matches(destination, source));
        matching.map(|active| active.mtu(now, mtu)).min().unwrap_or(mtu)
    }

    pub fn at(&mut self, place: u16) -> Option<&mut Active> {
        self.list.get_mut(usize::from(place))
    }

    /// Which one as configured stands at a place.
    pub fn index_of(&self, place: u16) -> Option<usize> {
        self.places.iter().position(|&at| at == usize::from(place))
    }

    /// In the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Active> {
        self.places.iter().filter_map(|&place| self.list.get(place))
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes over what the same policies have counted and learnt.
    pub fn inherit(&mut self, old: &Policies) {
        for active in &mut self.list {
            if let Some(before) = old.list.iter().find(|before| before.policy == active.policy) {
                (active.count, active.learnt) = (before.count, before.learnt);
            }
        }
    }

    /// A router on the way to `segment` says that outer packets have at most `mtu` octets.
    pub fn learn(&mut self, now: Time, segment: Ipv6Addr, mtu: u16) {
        // RFC 8201 §4: no IPv6 link has less, and whoever says so is not to be believed.
        if usize::from(mtu) < LEAST6 {
            return;
        }
        for active in self.list.iter_mut().filter(|active| active.policy.segments.contains(&segment)) {
            let Some(overhead) = active.encapsulation.as_ref().map(Encapsulation::overhead) else { continue };
            let least = if active.policy.prefix.is_ipv4() { LEAST } else { LEAST6 };
            let room = u16::try_from(usize::from(mtu).saturating_sub(overhead).max(least)).unwrap_or(u16::MAX);
            // Such a message never raises what is known.
            if active.learnt.is_none_or(|(learnt, since)| room < learnt || now.since(since) >= FORGET) {
                active.learnt = Some((room, now));
            }
        }
    }
}

impl Active {
    /// Octets of the largest inner packet, where the tunnels take `mtu`.
    pub fn mtu(&self, now: Time, mtu: u16) -> u16 {
        let overhead = self.encapsulation.as_ref().map_or(0, Encapsulation::overhead);
        let room = mtu.saturating_sub(u16::try_from(overhead).unwrap_or(u16::MAX));
        match self.learnt {
            // RFC 8201 §4: a larger one is tried again after ten minutes.
            Some((learnt, since)) if now.since(since) < FORGET => room.min(learnt),
            Some(_) | None => room,
        }
    }

    /// Whether packets can go its way.
    pub fn is_reachable(&self) -> bool {
        self.missing.is_none() && self.encapsulation.is_some()
    }
}

impl Conditions {
    pub fn count(&self) -> usize {
        usize::from(self.protocol.is_some()) + usize::from(self.ports.is_some()) + usize::from(self.dscp.is_some())
    }

    fn hold(&self, header: &Header, transport: Option<(u8, &[u8])>) -> bool {
        let port = transport
            .filter(|(protocol, _)| HAVE_PORTS.contains(protocol))
            .and_then(|(_, segment)| segment.get(2..4)?.first_chunk().map(|octets| u16::from_be_bytes(*octets)));
        // IPv4 says the protocol in every fragment.
        let protocol = if header.is_ipv4() { Some(header.protocol) } else { transport.map(|(protocol, _)| protocol) };
        self.dscp.is_none_or(|dscp| header.tos >> 2 == dscp)
            && self.protocol.is_none_or(|wanted| protocol == Some(wanted))
            && self.ports.as_ref().is_none_or(|ports| port.is_some_and(|port| ports.contains(&port)))
    }
}

/// What every IPv4 link takes, more or less (RFC 791 §3.1); a lower word would be a lie.
const LEAST: usize = 576;
const LEAST6: usize = 1280;
const FORGET: std::time::Duration = std::time::Duration::from_secs(600);
/// TCP, UDP, DCCP, SCTP, UDP-Lite.
const HAVE_PORTS: [u8; 5] = [ip::TCP, ip::UDP, 33, 132, 136];
