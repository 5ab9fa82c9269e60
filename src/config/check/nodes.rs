//! Nodes, from the configuration and the registry: names, keys, endpoints, and that no two claim the same.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

use super::prefixes;
use super::suites::Level;
use crate::config::file::{At, Node};
use crate::config::json::quoted;
use crate::config::plan::{Endpoint, Host, Peer};
use crate::config::report::{Place, Report};
use crate::config::suggest::nearest;
use crate::crypto::keyfile;
use crate::crypto::sign::PublicKey;
use crate::identity::{self, Identity};
use crate::prefix::Prefix;

/// This node, as the others must fit to it; what is wrong is `None`.
pub(super) struct Own<'a> {
    pub name: Option<&'a str>,
    pub key: Option<PublicKey>,
    /// The networks of the TUN device.
    pub addresses: &'a [At<IpNet>],
    pub announce: &'a [At<Prefix>],
    pub locator: Option<(Ipv6Net, &'a Place)>,
    pub suites: &'a Level,
    pub hardware_aes: bool,
}

/// Everybody but ourselves.
pub(super) fn peers(inline: &[Node], registry: Option<&[Node]>, own: &Own<'_>, report: &mut Report) -> Vec<Peer> {
    let mut seen = Seen::default();
    for prefix in own.announce {
        seen.routes.insert(prefix.value, prefix.place.clone());
    }
    let mut peers = Vec::new();
    let mut found_ourselves = false;
    for (node, inline) in
        inline.iter().map(|n| (n, true)).chain(registry.unwrap_or_default().iter().map(|n| (n, false)))
    {
        let ourselves = own.name.is_some() && node.name.as_ref().map(|name| name.value.as_str()) == own.name;
        found_ourselves |= ourselves;
        let peer = seen.node(node, own, ourselves, inline, report);
        peers.extend(peer.filter(|_| !ourselves));
    }
    seen.finish(own, report);
    if let (Some(registry), Some(name), false) = (registry, own.name, found_ourselves)
        && let Some(first) = registry.first()
    {
        let names = registry.iter().filter_map(|node| node.name.as_ref());
        let near = nearest(name, names.map(|name| name.value.as_str()));
        let hint = near.map_or(String::new(), |near| format!("; did you mean {}?", quoted(near)));
        let place = Place { path: "nodes".to_owned(), position: None, ..first.place.clone() };
        report.warning(&place, format!("we are not in the registry by our name {}{hint}", quoted(name)));
    }
    peers
}

pub(super) fn name_is_fine(name: &At<String>, report: &mut Report) -> bool {
    let text = name.value.as_str();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let message = if text.is_empty() {
        "the name is empty".to_owned()
    } else if text.len() > MAX_NAME {
        format!("the name is {} octets long; at most {MAX_NAME} are allowed", text.len())
    } else if !text.contains(|c: char| c.is_ascii_alphanumeric()) || !text.chars().all(fits) {
        let better: String = text.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        format!("names are made of the letters a to z, digits and - . _: write e.g. {}", quoted(&better))
    } else if RESERVED.contains(&text) {
        format!("\"wattle routes\" has another meaning for {}: choose another name", quoted(text))
    } else {
        return true;
    };
    report.error(&name.place, message);
    false
}

/// Calls back for each prefix that lies in another one of the list: its place, itself, and the other's.
pub(super) fn overlaps<'p>(
    mut nets: Vec<(IpNet, &'p Place)>,
    mut overlap: impl FnMut(&'p Place, IpNet, &'p Place, IpNet),
) {
    // Prefixes nest or are disjoint: in this order whatever covers one is the last that was not covered itself.
    nets.sort_by_key(|(net, _)| *net);
    let mut cover: Option<(IpNet, &Place)> = None;
    for (net, place) in nets {
        match cover {
            Some((wide, first)) if wide.contains(&net) => {
                if place.position < first.position && place.file == first.file {
                    overlap(first, wide, place, net);
                } else {
                    overlap(place, net, first, wide);
                }
            }
            _ => cover = Some((net, place)),
        }
    }
}

/// What has been claimed, and where.
#[derive(Default)]
struct Seen {
    names: BTreeMap<String, Place>,
    keys: BTreeMap<PublicKey, Place>,
    identities: BTreeMap<identity::Key, Place>,
    endpoints: BTreeMap<Endpoint, Place>,
    routes: BTreeMap<Prefix, Place>,
    locators: Vec<(Ipv6Net, Place)>,
}

impl Seen {
    fn node(&mut self, node: &Node, own: &Own<'_>, ourselves: bool, inline: bool, report: &mut Report) -> Option<Peer> {
        let name = node.name.as_ref().filter(|name| name_is_fine(name, report));
        if let Some(name) = name {
            self.name(name, own, ourselves, report);
        }
        let public_key = node.public_key.as_ref().and_then(|text| self.key(text, own, ourselves, inline, report));
        let endpoints = node.endpoints.iter().filter_map(|text| self.endpoint(text, report)).collect::<Vec<_>>();
        if node.pin_port && node.endpoints.is_empty() {
            report.warning(&node.place, "pin_port is of no use without endpoints: this node dials us");
        }
        let routes = prefixes::prefixes(&node.routes, report);
        for route in &routes {
            if ourselves {
                continue;
            }
            if let Some(first) = self.routes.get(&route.value) {
                let message = format!("{} belongs to {} already", route.value, first.seen_from(&route.place));
                report.error(&route.place, message);
            } else {
                self.routes.insert(route.value, route.place.clone());
            }
        }
        let locator = node.locator.as_ref().and_then(|text| {
            let net = prefixes::locator(text, report)?;
            match own.locator {
                Some((ours, place)) if ourselves && ours != net => {
                    let message = format!("{net} is not our locator, which {} says is {ours}", place.path);
                    report.error(&text.place, message);
                }
                _ if ourselves => {}
                _ => self.locators.push((net, text.place.clone())),
            }
            Some(net)
        });
        let suites = Level::read(&node.suites, Some(own.suites), report);
        let remote_id = match (&node.remote_id, name) {
            (Some(text), _) => identity(text, report),
            (None, name) => name.map(|name| Identity::fqdn(&name.value)),
        };
        let local_id = match (&node.local_id, own.name) {
            (Some(text), _) => identity(text, report),
            (None, name) => name.map(Identity::fqdn),
        };
        if let Some(remote) = remote_id.as_ref().filter(|_| !ourselves)
            && let Some(place) = node.remote_id.as_ref().or(name).map(|text| &text.place)
        {
            let written = node.remote_id.is_some() || node.local_id.is_some();
            self.identity(remote, place, local_id.as_ref().filter(|_| written), report);
        }
        Some(Peer {
            name: name?.value.clone(),
            public_key: public_key?,
            endpoints,
            locator,
            routes: routes.into_iter().map(|at| at.value).collect(),
            pin_port: node.pin_port,
            remote_id: remote_id?,
            // Without a name of our own there is no plan, which has been said.
            local_id: local_id.unwrap_or_else(|| Identity::fqdn("")),
            suites: own.suites.suites(Some(&suites), own.hardware_aes),
        })
    }

    /// Whoever calls is known by it.
    fn identity(&mut self, remote: &Identity, place: &Place, local: Option<&Identity>, report: &mut Report) {
        if local.is_some_and(|local| local.key() == remote.key()) {
            report.error(place, format!("{} is our own identity", quoted(&remote.to_string())));
        }
        match self.identities.get(&remote.key()) {
            // Two of the same name have been told already.
            Some(first) if place.path.ends_with("remote_id") || first.path.ends_with("remote_id") => {
                let first = first.seen_from(place);
                report.error(place, format!("{} is the identity of {first} already", quoted(&remote.to_string())));
            }
            Some(_) => {}
            None => drop(self.identities.insert(remote.key(), place.clone())),
        }
    }

    fn name(&mut self, name: &At<String>, own: &Own<'_>, ourselves: bool, report: &mut Report) {
        let folded = name.value.to_ascii_lowercase();
        if let Some(first) = self.names.get(&folded) {
            let message =
                format!("a second node of the name {}, first in {}", quoted(&name.value), first.seen_from(&name.place));
            report.error(&name.place, message);
            return;
        }
        if !ourselves && own.name.is_some_and(|own| own.eq_ignore_ascii_case(&name.value)) {
            report.error(&name.place, "differs from our own name only in small and capital letters");
        }
        self.names.insert(folded, name.place.clone());
    }

    fn key(
        &mut self,
        text: &At<String>,
        own: &Own<'_>,
        ourselves: bool,
        inline: bool,
        report: &mut Report,
    ) -> Option<PublicKey> {
        let Ok(key) = keyfile::parse_public(&text.value) else {
            let message = if keyfile::parse_private(text.value.as_bytes()).is_ok() {
                "this is a private key: nobody else may have it; make a new one, and put its public key here"
            } else if text.value.is_empty() {
                "the key is empty: run \"wattle pubkey FILE\" on that node and put the output here"
            } else {
                "not an Ed25519 public key: run \"wattle pubkey FILE\" on that node and put the output here"
            };
            report.error(&text.place, message);
            return None;
        };
        let is_ours = own.key == Some(key);
        if ourselves && own.key.is_some() && !is_ours {
            let ours = own.key.map_or(String::new(), |key| key.fingerprint());
            let here = if inline { "this node has our name but" } else { "the registry has for us" };
            report.error(&text.place, format!("{here} the key {}, ours is {ours}", key.fingerprint()));
        } else if is_ours && !ourselves {
            let name = own.name.map_or("ours".to_owned(), quoted);
            report
                .error(&text.place, format!("this is our own key: if the node is ourselves, its name must be {name}"));
        }
        if let Some(first) = self.keys.get(&key) {
            report.error(&text.place, format!("the same key as {}", first.seen_from(&text.place)));
        } else {
            self.keys.insert(key, text.place.clone());
        }
        Some(key)
    }

    fn endpoint(&mut self, text: &At<String>, report: &mut Report) -> Option<Endpoint> {
        let endpoint = match endpoint(&text.value) {
            Ok(endpoint) => endpoint,
            Err(message) => {
                report.error(&text.place, message);
                return None;
            }
        };
        if let Some(first) = self.endpoints.get(&endpoint) {
            report.error(&text.place, format!("{endpoint} is {} already", first.seen_from(&text.place)));
        } else {
            self.endpoints.insert(endpoint.clone(), text.place.clone());
        }
        Some(endpoint)
    }

    /// What can only be said when everything has been seen.
    fn finish(&self, own: &Own<'_>, report: &mut Report) {
        for (endpoint, place) in &self.endpoints {
            let Host::Address(address) = endpoint.host else { continue };
            if let Some(net) = own.addresses.iter().find(|net| net.value.contains(&address)) {
                let message = format!(
                    "{address} lies in {} of {}: an endpoint is outside of the mesh",
                    net.value, net.place.path
                );
                report.error(place, message);
            }
            let all = if address.is_ipv4() { 32 } else { 128 };
            let covering = (1..=all).filter_map(|length| IpNet::new(address, length).ok()).map(Prefix::to);
            for (prefix, by) in covering.filter_map(|prefix| self.routes.get_key_value(&prefix)) {
                if !own.announce.iter().any(|ours| ours.value == *prefix) {
                    let message =
                        format!("{address} lies in {prefix}, which {} leads into the mesh", by.seen_from(place));
                    report.warning(place, message);
                }
            }
        }
        let ours = own.locator.map(|(net, place)| (IpNet::V6(net), place));
        let locators = self.locators.iter().map(|(net, place)| (IpNet::V6(*net), place)).chain(ours).collect();
        overlaps(locators, |place, net, first, other| {
            report.error(place, format!("the locator {net} overlaps {other} of {}", first.seen_from(place)));
        });
    }
}

fn identity(text: &At<String>, report: &mut Report) -> Option<Identity> {
    match text.value.parse() {
        Ok(identity) => Some(identity),
        Err(message) => {
            report.error(&text.place, format!("{}: {message}", quoted(&text.value)));
            None
        }
    }
}

/// `203.0.113.7:4500`, `[2001:db8::7]:4500`, `vpn.example:4500`; the port may be left out.
fn endpoint(text: &str) -> Result<Endpoint, String> {
    let shown = quoted(text);
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or(format!("{shown}: ] is missing after the IPv6 address"))?;
        let address: Ipv6Addr =
            address.parse().map_err(|_| format!("{shown}: {} is not an IPv6 address", quoted(address)))?;
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            None => return Err(format!("{shown}: expected : and the port after ]")),
            Some(port) => Some(port),
        };
        (Host::Address(address.into()), port)
    } else if text.contains("://") || text.contains('/') {
        return Err(format!("{shown}: expected only host:port, such as \"203.0.113.7:4500\""));
    } else if text.matches(':').count() > 1 {
        let address = if text.parse::<Ipv6Addr>().is_ok() { text } else { "2001:db8::7" };
        return Err(format!("{shown}: an IPv6 address stands in brackets: write \"[{address}]:{DEFAULT_PORT}\""));
    } else {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        (host_name(host).map_err(|why| format!("{shown}: {why}"))?, port)
    };
    let port = match port {
        None => DEFAULT_PORT,
        Some(text) => match text.parse() {
            Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => port,
            _ => return Err(format!("{shown}: the port is a number from 1 to 65535, not {}", quoted(text))),
        },
    };
    if let Host::Address(address) = host
        && let Some(why) = no_endpoint(address)
    {
        return Err(format!("{shown}: {why}"));
    }
    Ok(Endpoint { host, port })
}

fn host_name(host: &str) -> Result<Host, &'static str> {
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    // RFC 1123 §2.1: whatever ends in a number is meant to be an address.
    let bare = host.strip_suffix('.').unwrap_or(host);
    if bare.rsplit('.').next().is_some_and(|label| !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit())) {
        return Err("not an IPv4 address");
    }
    let label_is_fine = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match bare {
        "" => Err("the host is missing"),
        _ if bare.len() > 253 || !bare.split('.').all(label_is_fine) => Err("not an address, and not a host name"),
        _ => Ok(Host::Name(host.to_ascii_lowercase())),
    }
}

fn no_endpoint(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_unspecified() => Some("the unspecified address cannot be dialled"),
        _ if address.is_multicast() => Some("a multicast address cannot be dialled"),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some("the broadcast address cannot be dialled"),
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            Some("a link-local address is not enough: use one that is valid beyond its link")
        }
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => Some("write the IPv4 address itself"),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

const DEFAULT_PORT: u16 = 4500;
/// As a label of the DNS: the name is our ID_FQDN.
const MAX_NAME: usize = 63;
/// Words that stand beside names of nodes in what `wattle status` shows.
const RESERVED: &[&str] = &["local", "unreachable"];
