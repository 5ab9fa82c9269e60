//! `steer`, `segment_sources`: names become SIDs, and paths must be such that packets can take them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv6Net};

use super::prefixes;
use crate::config::file::{self, At, File};
use crate::config::json::quoted;
use crate::config::plan::{Peer, Policy, Segment, Steering};
use crate::config::report::{Place, Report};
use crate::config::suggest::did_you_mean;
use crate::prefix::Prefix;
use crate::wire::srv6;

/// What policies refer to.
pub(super) struct Known<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) locator: Option<Ipv6Net>,
    pub(super) peers: &'a [Peer],
    /// Of the TUN device, if there is one.
    pub(super) mtu: Option<u16>,
}

pub(super) fn steering(file: &File, known: &Known<'_>, report: &mut Report) -> Steering {
    let sources = file.segment_sources.iter().filter_map(|text| source(text, report)).collect();
    if let Some(first) = file.steer.first() {
        if known.locator.is_none() && file.locator.is_none() {
            report.error(&first.place, "steering needs a \"locator\" of our own: encapsulated packets come from it");
        }
        if known.mtu.is_none() {
            report.error(&first.place, "a node without a TUN device only relays: no packets begin a path here");
        }
    }
    if file.steer.len() > MAX_POLICIES
        && let Some(policy) = file.steer.get(MAX_POLICIES)
    {
        report.error(&policy.place, format!("{} policies; {MAX_POLICIES} are the most", file.steer.len()));
    }
    let mut names: BTreeMap<&str, &Place> = BTreeMap::new();
    let mut policies: Vec<(Policy, &Place)> = Vec::new();
    for entry in &file.steer {
        if let Some(name) = &entry.name {
            if let Some(first) = names.insert(&name.value, &name.place) {
                let message = format!("a second policy of the name {}, first in", quoted(&name.value));
                report.error(&name.place, format!("{message} {}", first.seen_from(&name.place)));
            }
            if name.value.is_empty() || name.value.chars().count() > MAX_NAME || name.value.contains(char::is_control) {
                report.error(&name.place, format!("names of policies have 1 to {MAX_NAME} printable characters"));
            }
        }
        let Some(policy) = policy(entry, known, report) else { continue };
        let same = |other: &Policy| {
            (other.prefix, other.protocol, &other.ports, other.dscp)
                == (policy.prefix, policy.protocol, &policy.ports, policy.dscp)
        };
        if let Some((_, first)) = policies.iter().find(|(other, _)| same(other)) {
            let message = format!("matches the same packets as {}, which comes first", first.seen_from(&entry.place));
            report.error(&entry.place, message);
        }
        policies.push((policy, &entry.place));
    }
    Steering { policies: policies.into_iter().map(|(policy, _)| policy).collect(), sources, exit: file.exit }
}

fn source(text: &At<String>, report: &mut Report) -> Option<Ipv6Net> {
    match prefixes::prefix(text, report)? {
        IpNet::V6(net) => Some(net),
        IpNet::V4(net) => {
            report.error(&text.place, format!("{net}: SIDs are used from IPv6 addresses only"));
            None
        }
    }
}

fn policy(entry: &file::Policy, known: &Known<'_>, report: &mut Report) -> Option<Policy> {
    let prefix = matched(entry, report);
    let protocol = entry.protocol.as_ref().map(|text| protocol(text, report));
    let ports = entry.port.as_ref().map(|text| ports(text, report));
    if let (Some(port), Some(Some(protocol))) = (&entry.port, protocol)
        && !HAVE_PORTS.contains(&protocol)
    {
        report.error(&port.place, format!("protocol {protocol} has no ports"));
    }
    if entry.via.len() > srv6::MAX_SEGMENTS - 1
        && let Some(text) = entry.via.get(srv6::MAX_SEGMENTS - 1)
    {
        let message = format!("{} waypoints; {} are the most", entry.via.len(), srv6::MAX_SEGMENTS - 1);
        report.error(&text.place, message);
    }
    let via = entry.via.iter().map(|text| segment(text, srv6::END, known, report)).collect::<Vec<_>>();
    let exit = entry.exit.as_ref().map(|text| segment(text, srv6::END_DT46, known, report));
    if exit.is_none()
        && let Some(first) = entry.via.first()
    {
        report
            .error(&first.place, "\"exit\" is missing: the node where the path ends, and the packet goes on by itself");
    }
    if let Some(exit) = &entry.exit
        && entry.via.is_empty()
        && Some(exit.value.as_str()) == known.name
    {
        report.error(&exit.place, "this is ourselves: a path leads somewhere else");
    }
    let word = |text: Option<&At<String>>, words: [&'static str; 2], report: &mut Report| {
        let Some(text) = text else { return false };
        if !words.contains(&text.value.as_str()) {
            let hint = did_you_mean(&text.value, words);
            let message = format!("expected \"{}\" or \"{}\", found {}{hint}", words[0], words[1], quoted(&text.value));
            report.error(&text.place, message);
        }
        text.value == words[1]
    };
    let reduced = !word(entry.srh.as_ref(), ["reduced", "full"], report);
    let route_if_unreachable = word(entry.if_unreachable.as_ref(), ["drop", "route"], report);
    let path = via.into_iter().chain(exit).collect::<Option<Vec<Segment>>>()?;
    let prefix = prefix?;
    // RFC 2473 §7.1: below 1280 octets IPv6 does not work, and what it sends may not be cut.
    if let Some(mtu) = known.mtu.filter(|_| !prefix.is_ipv4() && !path.is_empty())
        && usize::from(mtu) < srv6::overhead(path.len(), reduced) + MIN_MTU6
    {
        let overhead = srv6::overhead(path.len(), reduced);
        let message = format!(
            "{} segments leave {} octets of tun.mtu {mtu}, and IPv6 needs {MIN_MTU6}: fewer waypoints, or tun.mtu {}",
            path.len(),
            usize::from(mtu).saturating_sub(overhead),
            overhead + MIN_MTU6
        );
        report.error(&entry.place, message);
    }
    Some(Policy {
        name: entry.name.as_ref()?.value.clone(),
        prefix,
        protocol: protocol.map_or(Some(None), |found| found.map(Some))?,
        ports: ports.map_or(Some(None), |found| found.map(Some))?,
        dscp: entry.dscp.as_ref().and_then(|at| u8::try_from(at.value).ok()),
        path,
        reduced,
        route_if_unreachable,
    })
}

/// The prefix pair; what is left out is everything of the other's family.
fn matched(entry: &file::Policy, report: &mut Report) -> Option<Prefix> {
    let to = entry.to.as_ref().map(|text| prefixes::prefix(text, report));
    let from = entry.from.as_ref().map(|text| prefixes::prefix(text, report));
    let everything = |like: &IpNet| match like {
        IpNet::V4(_) => IpNet::new_assert(IpAddr::from([0; 4]), 0),
        IpNet::V6(_) => IpNet::new_assert(IpAddr::from([0; 16]), 0),
    };
    match (to, from) {
        (None, None) => {
            report.error(
                &entry.place,
                "neither \"to\" nor \"from\": say which packets, for instance \"to\": \"0.0.0.0/0\"",
            );
            None
        }
        (Some(to), None) => Some(Prefix::to(to?)),
        (None, Some(from)) => from.and_then(|from| Prefix::new(everything(&from), from)),
        (Some(to), Some(from)) => {
            let (to, from) = (to?, from?);
            let prefix = Prefix::new(to, from);
            if prefix.is_none() {
                report.error(&entry.place, "\"to\" and \"from\" must both be IPv4 or both be IPv6");
            }
            prefix
        }
    }
}

/// A node by its name, or a SID as it stands on the wire.
fn segment(text: &At<String>, function: u16, known: &Known<'_>, report: &mut Report) -> Option<Segment> {
    let name = &text.value;
    if let Ok(address) = name.parse::<IpAddr>() {
        return literal(text, address, known, report);
    }
    let locator = match known.peers.iter().find(|peer| peer.name == *name) {
        Some(peer) => peer.locator,
        None if known.name == Some(name) => known.locator,
        None => {
            let names = known.peers.iter().map(|peer| peer.name.as_str());
            let hint = did_you_mean(name, names);
            report.error(&text.place, format!("{} is neither a node that we know nor a SID{hint}", quoted(name)));
            return None;
        }
    };
    let Some(locator) = locator else {
        let message = format!("{} has no locator: give it one where it is listed, and in its own file", quoted(name));
        report.error(&text.place, message);
        return None;
    };
    Some(Segment { name: name.clone(), sid: srv6::sid(locator, function) })
}

fn literal(text: &At<String>, address: IpAddr, known: &Known<'_>, report: &mut Report) -> Option<Segment> {
    let IpAddr::V6(sid) = address else {
        report.error(&text.place, format!("{address}: SIDs are IPv6 addresses"));
        return None;
    };
    if sid.is_multicast() || sid.is_loopback() || sid.is_unspecified() || sid.is_unicast_link_local() {
        report.error(&text.place, format!("{sid} cannot be a SID: it is not routed"));
        return None;
    }
    let named = known.peers.iter().filter_map(|peer| Some((peer.name.as_str(), peer.locator?)));
    let all = named.chain(known.name.zip(known.locator));
    if let Some((name, locator)) = all.into_iter().find(|(_, net)| net.contains(&sid))
        && srv6::function(locator, sid).and_then(srv6::behaviour).is_none()
    {
        let message = format!("{sid} is no SID of {}: write its name, or one of docs/steering.md", quoted(name));
        report.error(&text.place, message);
        return None;
    }
    Some(Segment { name: text.value.clone(), sid: Ipv6Addr::from(sid.octets()) })
}

fn protocol(text: &At<String>, report: &mut Report) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == text.value).map(|(_, number)| *number);
    let found = named.or_else(|| text.value.parse().ok());
    if found.is_none() {
        let hint = did_you_mean(&text.value, PROTOCOLS.iter().map(|(name, _)| *name));
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        let message = format!("expected {} or a number up to 255, found {}", names.join(", "), quoted(&text.value));
        report.error(&text.place, message + &hint);
    }
    found
}

fn ports(text: &At<String>, report: &mut Report) -> Option<RangeInclusive<u16>> {
    let (low, high) = text.value.split_once('-').unwrap_or((&text.value, &text.value));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let range = port(low).zip(port(high)).filter(|(low, high)| low <= high);
    if range.is_none() {
        let shown = quoted(&text.value);
        report.error(&text.place, format!("expected a port such as 443, or ports such as \"443-500\", found {shown}"));
    }
    range.map(|(low, high)| low..=high)
}

const MAX_POLICIES: usize = 256;
const MAX_NAME: usize = 32;
const MIN_MTU6: usize = 1280;
const PROTOCOLS: &[(&str, u8)] = &[("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("sctp", 132)];
/// TCP, UDP, DCCP, SCTP, UDP-Lite.
const HAVE_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
