//! Prefixes, addresses and locators: what may be announced, and what belongs to nobody.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv6Net};

use crate::config::file::{At, PrefixText};
use crate::config::json::quoted;
use crate::config::report::{Place, Report};
use crate::prefix::Prefix;

pub(super) fn prefixes(texts: &[At<PrefixText>], report: &mut Report) -> Vec<At<Prefix>> {
    let mut seen: BTreeMap<Prefix, Place> = BTreeMap::new();
    let mut result = Vec::new();
    for At { value: text, place } in texts {
        // Both are looked at before either is given up.
        let from = text.from.as_ref().map(|from| prefix(from, report));
        let Some(to) = prefix(&text.to, report) else { continue };
        let value = match from {
            None => Prefix::to(to),
            Some(None) => continue,
            Some(Some(from)) => match Prefix::new(to, from) {
                Some(value) => value,
                None => {
                    report.error(place, "\"to\" and \"from\" must both be IPv4 or both be IPv6");
                    continue;
                }
            },
        };
        if let Some(first) = seen.get(&value) {
            report.error(place, format!("{value} is listed twice, first as {}", first.seen_from(place)));
        } else {
            seen.insert(value, place.clone());
            result.push(At { value, place: place.clone() });
        }
    }
    result
}

/// A prefix with no host bits set.
pub(super) fn prefix(text: &At<String>, report: &mut Report) -> Option<IpNet> {
    let net = covering(text, report)?;
    if net.prefix_len() > 0
        && let Some(what) = never_routed(net.addr())
    {
        report.error(&text.place, format!("{net} cannot be routed: {what}"));
        return None;
    }
    Some(net)
}

/// A prefix with no host bits set that others are compared with: any address may lie in it.
pub(super) fn covering(text: &At<String>, report: &mut Report) -> Option<IpNet> {
    let net = net(text, report)?;
    if net != net.trunc() {
        let message = format!("{} has bits set beyond its length: write {}", quoted(&text.value), net.trunc());
        report.error(&text.place, message);
        return None;
    }
    Some(net)
}

/// An address of the TUN device, with the length of its network.
pub(super) fn interface_address(text: &At<String>, report: &mut Report) -> Option<IpNet> {
    let net = net(text, report)?;
    if let Some(what) = never_routed(net.addr()) {
        report.error(&text.place, format!("{} cannot be an address of a node: {what}", net.addr()));
        return None;
    }
    let single = matches!(net, IpNet::V4(net) if net.prefix_len() >= 31)
        || matches!(net, IpNet::V6(net) if net.prefix_len() >= 127);
    if !single && net.addr() == net.network() {
        report.error(&text.place, format!("{net} is a network: give this node an address in it"));
        return None;
    }
    if !single && matches!(net, IpNet::V4(_)) && net.addr() == net.broadcast() {
        report.error(&text.place, format!("{} is the broadcast address of its network", net.addr()));
        return None;
    }
    Some(net)
}

pub(super) fn locator(text: &At<String>, report: &mut Report) -> Option<Ipv6Net> {
    match prefix(text, report)? {
        IpNet::V6(net) if (16..=112).contains(&net.prefix_len()) => Some(net),
        IpNet::V6(net) => {
            report.error(&text.place, format!("a locator is /16 to /112, not /{}", net.prefix_len()));
            None
        }
        IpNet::V4(_) => {
            report.error(&text.place, "a locator is an IPv6 prefix, such as \"fd66:0:0:3::/64\"");
            None
        }
    }
}

fn net(text: &At<String>, report: &mut Report) -> Option<IpNet> {
    if let Ok(net) = text.value.parse::<IpNet>() {
        return Some(net);
    }
    let shown = quoted(&text.value);
    let message = if let Ok(address) = text.value.parse::<IpAddr>() {
        format!("{shown} has no length: write \"{}\"", IpNet::from(address))
    } else {
        match text.value.split_once('/') {
            Some((address, length)) if address.parse::<IpAddr>().is_ok() => {
                let max = if address.contains(':') { 128 } else { 32 };
                format!("{}: the length after / is a number from 0 to {max}", quoted(&format!("{address}/{length}")))
            }
            _ => format!("{shown} is not a prefix such as \"192.168.88.0/24\" or \"2001:db8:88::/48\""),
        }
    };
    report.error(&text.place, message);
    None
}

/// Why no packet to this address may cross the mesh.
fn never_routed(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_multicast() => Some("it is multicast"),
        _ if address.is_loopback() => Some("it is loopback"),
        _ if address.is_unspecified() => Some("it is the unspecified address"),
        IpAddr::V4(address) if address.is_link_local() => Some("it is link-local"),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some("it is broadcast"),
        IpAddr::V6(address) if address.is_unicast_link_local() => Some("it is link-local"),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}
