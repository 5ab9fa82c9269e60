//! What the file means: every problem at once, and the [`Plan`] if there is none that matters.
//!
//! Pure: files have been read by `load`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

use super::file::{At, File, Node};
use super::json::quoted;
use super::plan::{Babel, Kernel, Plan, Rekey, Terms, Tun};
use super::report::{Place, Report};
use super::suggest::did_you_mean;
use crate::crypto::sign::PrivateKey;
use crate::offload::{Offload, Switch};
use crate::prefix::Prefix;

mod babel;
mod nodes;
mod prefixes;
mod steer;
pub mod suites;

pub struct Input {
    /// The configuration as a whole.
    pub place: Place,
    pub file: File,
    /// `None` if it could not be read, which has been reported.
    pub key: Option<PrivateKey>,
    /// The registry's nodes; `None` without a registry.
    pub registry: Option<Vec<Node>>,
    /// Where relative paths start.
    pub folder: PathBuf,
    pub hardware_aes: bool,
}

/// `None` if anything is wrong, here or before.
pub fn check(input: Input, report: &mut Report) -> Option<Plan> {
    let Input { place, file, key, registry, folder, hardware_aes } = input;
    let name = file.name.as_ref().filter(|name| nodes::name_is_fine(name, report));
    let listen = listen(file.listen.as_ref(), report);
    let (tun, addresses) = tun(file.tun.as_ref(), report);
    let announce = prefixes::prefixes(&file.announce, report);
    let behind = announce.first().map(|at| &at.place).or(file.from_kernel.first().map(|text| &text.table.place));
    if tun.is_none()
        && let Some(place) = behind
    {
        let message = "a node without a TUN device only relays: nothing can be reached behind it";
        report.error(place, message);
    }
    for prefix in &announce {
        if let Some(own) = addresses.iter().find(|own| Prefix::to(own.value) == prefix.value) {
            report.warning(&prefix.place, format!("announced anyway, because it is {}", own.place.path));
        }
    }
    let locator = file.locator.as_ref().and_then(|text| prefixes::locator(text, report));
    if let Some(net) = locator
        && let Some(own) = addresses
            .iter()
            .zip(tun.iter().flat_map(|tun| &tun.addresses))
            .find(|(_, address)| matches!(address, IpNet::V6(address) if net.contains(&address.addr())))
    {
        let message = format!("{} lies in our locator {net}, whose addresses are SIDs: take another one", own.1.addr());
        report.error(&own.0.place, message);
    }
    let level = suites::Level::read(&file.suites, None, report);
    let own = nodes::Own {
        suites: &level,
        hardware_aes,
        name: name.map(|name| name.value.as_str()),
        key: key.as_ref().map(PrivateKey::public),
        addresses: &addresses,
        announce: &announce,
        locator: locator.zip(file.locator.as_ref().map(|text| &text.place)),
        terms: babel::terms(&file.babel, &Terms::default(), report),
    };
    let peers = nodes::peers(file.nodes.as_deref().unwrap_or_default(), registry.as_deref(), &own, report);
    let steering = steer::steering(
        &file,
        &steer::Known { name: own.name, locator, peers: &peers, mtu: tun.as_ref().map(|tun| tun.mtu) },
        report,
    );
    let suites = level.suites(None, hardware_aes);
    let hello = file.babel.hello_ms.as_ref();
    let babel = hello.map_or(Babel::default(), |at| Babel { hello_interval: babel::hello(at, report) });
    let rekey = rekey(&file);
    let kernel = kernel(&file, report);
    let from_kernel = babel::from_kernel(&file.from_kernel, kernel.table, report);
    let offload = Offload {
        tun: switch(file.offload.tun.as_ref(), report),
        udp_gso: switch(file.offload.udp_gso.as_ref(), report),
        udp_gro: switch(file.offload.udp_gro.as_ref(), report),
    };
    let control = control(file.control.as_ref(), &folder, report);
    if let Some(log) = &file.log
        && let Some(message) = log_problem(&log.value)
    {
        report.error(&log.place, message);
    }
    if !report.errors.is_empty() {
        return None;
    }
    if tun.as_ref().is_some_and(|tun| tun.addresses.is_empty()) && behind.is_none() {
        report.warning(&place, "no tun.addresses and nothing to announce: nobody can reach this node");
    }
    if peers.is_empty() {
        report.warning(&place, "no nodes: there is nobody to connect to");
    }
    Some(Plan {
        name: name?.value.clone(),
        private_key: key?,
        listen,
        tun,
        announce: announce.into_iter().map(|at| at.value).collect(),
        from_kernel,
        locator,
        steering,
        peers,
        suites,
        rekey,
        babel,
        kernel,
        offload,
        control,
        log: file.log.map(|log| log.value),
    })
}

/// What is wrong with a filter of log levels such as `info,wattle::ike=debug`.
pub fn log_problem(filter: &str) -> Option<String> {
    for part in filter.split(',') {
        let level = part.split_once('=').map_or(part, |(_, level)| level).trim();
        if !LEVELS.contains(&level) {
            let hint = did_you_mean(level, LEVELS.iter().copied());
            return Some(format!("log levels are {}; not {}{hint}", LEVELS.join(", "), quoted(level)));
        }
    }
    None
}

fn listen(list: Option<&At<Vec<At<u16>>>>, report: &mut Report) -> Vec<u16> {
    let Some(list) = list else { return vec![DEFAULT_PORT] };
    if list.value.is_empty() {
        report.error(&list.place, "at least one UDP port is needed; leave the field out for [4500]");
    }
    if list.value.len() > MAX_PORTS {
        report.error(&list.place, format!("{} ports; {MAX_PORTS} are the most", list.value.len()));
        return Vec::new();
    }
    let mut ports = Vec::new();
    for port in &list.value {
        if ports.contains(&port.value) {
            report.error(&port.place, format!("port {} is listed twice", port.value));
        } else {
            ports.push(port.value);
        }
    }
    if ports == [IKE_PORT] {
        report.error(
            &list.place,
            "port 500 is only for the first messages of peers; add one for all the rest: [4500, 500]",
        );
    }
    ports
}

fn tun(section: Option<&At<Option<super::file::Tun>>>, report: &mut Report) -> (Option<Tun>, Vec<At<IpNet>>) {
    let mut tun = Tun { name: DEFAULT_TUN.to_owned(), mtu: DEFAULT_MTU, addresses: Vec::new() };
    let section = match section {
        None => return (Some(tun), Vec::new()),
        Some(At { value: None, .. }) => return (None, Vec::new()),
        Some(At { value: Some(section), .. }) => section,
    };
    if let Some(name) = &section.name {
        if let Some(message) = interface_problem(&name.value) {
            report.error(&name.place, message);
        }
        tun.name.clone_from(&name.value);
    }
    if let Some(mtu) = section.mtu.as_ref().and_then(|mtu| u16::try_from(mtu.value).ok()) {
        tun.mtu = mtu;
    }
    let mut addresses: Vec<At<IpNet>> = section
        .addresses
        .iter()
        .filter_map(|text| {
            let value = prefixes::interface_address(text, report)?;
            Some(At { value, place: text.place.clone() })
        })
        .collect();
    tun.addresses = addresses.iter().map(|at| at.value).collect();
    addresses.iter_mut().for_each(|at| at.value = at.value.trunc());
    let nets = addresses.iter().map(|at| (at.value, &at.place));
    nodes::overlaps(nets.collect(), |place, net, first, other| {
        let message = format!("the network {net} overlaps {other} of {}", first.seen_from(place));
        report.error(place, message);
    });
    (Some(tun), addresses)
}

/// The kernel's rule for names of interfaces, and `%`, which it would replace by a number.
fn interface_problem(name: &str) -> Option<&'static str> {
    let odd = |c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c.is_control();
    match name {
        "" => Some("the name of the TUN device is empty"),
        "." | ".." | "lo" | "all" | "default" => Some("this name is taken by the system"),
        _ if name.len() > 15 => Some("names of interfaces have at most 15 characters"),
        _ if name.contains(odd) => Some("names of interfaces have no blanks and none of / : %"),
        _ => None,
    }
}

fn rekey(file: &File) -> Rekey {
    let life = |at: Option<&At<u64>>, default| at.map(|at| Duration::from_secs(at.value)).or(default);
    let default = Rekey::default();
    Rekey {
        child: life(file.child_s.as_ref(), default.child),
        ike: life(file.ike_s.as_ref(), default.ike),
        octets: file.child_mb.as_ref().map(|at| at.value * 1_000_000).or(default.octets),
    }
}

fn kernel(file: &File, report: &mut Report) -> Kernel {
    let number = |at: Option<&At<u64>>, default| at.and_then(|at| u32::try_from(at.value).ok()).unwrap_or(default);
    let default = Kernel::default();
    if let Some(table) = &file.table
        && (253..=255).contains(&table.value)
    {
        let message = format!("table {} is the system's own; wattle empties its table: choose another", table.value);
        report.error(&table.place, message);
    }
    Kernel {
        table: number(file.table.as_ref(), default.table),
        mark: number(file.mark.as_ref(), default.mark),
        rule: number(file.rule.as_ref(), default.rule),
    }
}

fn switch(text: Option<&At<String>>, report: &mut Report) -> Switch {
    let Some(text) = text else { return Switch::Auto };
    match text.value.as_str() {
        "auto" => Switch::Auto,
        "on" => Switch::On,
        "off" => Switch::Off,
        other => {
            let hint = did_you_mean(other, SWITCHES.iter().copied());
            let message = format!("expected \"auto\", \"on\" or \"off\", found {}{hint}", quoted(other));
            report.error(&text.place, message);
            Switch::Auto
        }
    }
}

fn control(text: Option<&At<String>>, folder: &Path, report: &mut Report) -> PathBuf {
    let Some(text) = text else { return PathBuf::from(DEFAULT_CONTROL) };
    let path = folder.join(&text.value);
    if text.value.is_empty() || text.value.ends_with('/') {
        report.error(&text.place, "expected the name of a file for the unix socket");
    } else if path.as_os_str().len() > MAX_SOCKET_PATH {
        let message = format!("the path of a unix socket has at most {MAX_SOCKET_PATH} octets");
        report.error(&text.place, message);
    }
    path
}

/// Where `wattle status` asks unless told otherwise.
pub const DEFAULT_CONTROL: &str = "/run/wattle.sock";
const DEFAULT_PORT: u16 = 4500;
const IKE_PORT: u16 = 500;
const DEFAULT_TUN: &str = "wattle0";
const DEFAULT_MTU: u16 = 1400;
const MAX_PORTS: usize = 64;
/// `sun_path` without its final zero.
const MAX_SOCKET_PATH: usize = 107;
const SWITCHES: &[&str] = &["auto", "on", "off"];
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
