//! The first lines of the log: what runs on what, and what the system does not do for it, one line each with the cure.
//!
//! None of it keeps the daemon from running.

use crate::config::plan::Plan;
use crate::crypto::aead;
use crate::os::tun::Tun;
use crate::os::udp::Udp;
use crate::os::{host, words};

/// What can be said before anything has been opened.
pub(super) fn machine() {
    log::info!("wattle {} on {}", env!("CARGO_PKG_VERSION"), host::about());
    if let Some((free, _)) = host::memory()
        && free < LEAST_MEMORY
    {
        log::warn!("only {free} MB of memory are free: the system may end this process under load");
    }
}

/// What it runs as, and what the system lacks.
pub(super) fn system(plan: &Plan, tun: Option<&Tun>, udp: &Udp) {
    let ports: Vec<String> = plan.listen.iter().map(u16::to_string).collect();
    let device = tun.map_or("relay only".to_owned(), |tun| format!("device {}", tun.name()));
    log::info!("runs as {}: UDP {}, {device}", plan.name, ports.join(", "));
    let ciphers = aead::engines().map(|(cipher, engine)| format!("{} ({})", cipher.name(), engine.name()));
    log::info!("ciphers: {}", ciphers.join(", "));
    bulk(plan, tun, udp);
    uplinks();
    if let Some(octets) = udp.short_buffer() {
        let kib = octets / 1024;
        log::info!(
            "receive buffer of {kib} KiB, a burst more is lost: raise net.core.rmem_max (RouterOS 7.24: privileged=yes)"
        );
    }
    // Nobody else sets up a container's namespace.
    if is_init() {
        host::keep_router_advertisements();
    }
    for (ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
        let announced = plan.announce.iter().any(|prefix| prefix.is_ipv4() != ipv6);
        if tun.is_some() && announced && !host::forwards(ipv6) {
            forwarding(ipv6, family);
        }
    }
}

fn is_init() -> bool {
    std::process::id() == 1
}

/// One line about what the kernel does with whole trains of packets, and what it leaves to be done packet by packet.
fn bulk(plan: &Plan, tun: Option<&Tun>, udp: &Udp) {
    let offload = plan.offload;
    let (tcp, datagrams) = tun.map_or((true, true), Tun::merges);
    let (out, inn) = udp.trains();
    let parts = [
        ("TCP of the TUN device", offload.tun, tun.is_some(), tcp),
        ("UDP of the TUN device", offload.tun, tun.is_some(), datagrams),
        ("sending (UDP_SEGMENT)", offload.udp_gso, true, out),
        ("receiving (UDP_GRO)", offload.udp_gro, true, inn),
    ];
    let wanted = parts.into_iter().filter(|(_, switch, there, _)| *there && switch.is_wanted());
    let (lost, works): (Vec<_>, Vec<_>) = wanted.partition(|(.., works)| !works);
    let names = |parts: &[(&'static str, _, _, _)]| parts.iter().map(|part| part.0).collect::<Vec<_>>().join(", ");
    if lost.is_empty() {
        log::info!("in bulk: {}", if works.is_empty() { "nothing".to_owned() } else { names(&works) });
    } else {
        let level = lost.iter().map(|(_, switch, ..)| switch.level()).min().unwrap_or(log::Level::Info);
        log::log!(level, "this kernel does not do in bulk: {}; slower, nothing else", names(&lost));
    }
}

/// The interfaces are found by route: RouterOS gives them other names with each version.
fn uplinks() {
    match [false, true].map(host::uplink) {
        [None, None] if is_init() => {
            log::warn!("no default route: peers beyond this network are not reached (RouterOS: the veth's gateway)");
        }
        [None, None] => log::info!("no default route yet: peers beyond the networks here are not reached"),
        [v4, v6] => {
            let by = |device: Option<String>| device.unwrap_or_else(|| "none".to_owned());
            log::info!("default route: IPv4 by {}, IPv6 by {}", by(v4), by(v6));
        }
    }
}

fn forwarding(ipv6: bool, family: &str) {
    let key = host::forwarding_key(ipv6);
    if is_init() {
        match host::forward(ipv6) {
            Ok(()) => return log::info!("{family} forwarding is turned on"),
            Err(error) => log::debug!("{key}: {}", words(&error)),
        }
    }
    log::warn!("this system forwards no {family} packets: the networks behind it stay cut off (sysctl -w {key}=1)");
}

/// Megabytes.
const LEAST_MEMORY: u64 = 24;
