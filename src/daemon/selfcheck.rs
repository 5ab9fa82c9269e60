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
    if let Some(tun) = tun.filter(|_| plan.steering.exit) {
        exit(tun.name());
    }
    // Nobody else sets up a container's namespace.
    if is_init() {
        host::keep_router_advertisements();
    }
    for (ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
        let announced = plan.announce.iter().any(|prefix| prefix.is_ipv4() != ipv6);
        let forwards = announced || !plan.from_kernel.is_empty() || plan.steering.exit;
        if tun.is_some() && forwards && !host::forwards(ipv6) {
            forwarding(ipv6, family);
        }
    }
}

/// Said, not done: images have no nft, and on routers the firewall's manager owns the rules (docs/steering.md).
fn exit(device: &str) {
    log::info!(
        "exit: nft 'add table ip wattle; add chain ip wattle nat {{ type nat hook postrouting priority 100; }}'"
    );
    log::info!("exit: nft 'add rule ip wattle nat iifname \"{device}\" oifname != \"{device}\" masquerade'");
}

fn is_init() -> bool {
    std::process::id() == 1
}

/// What the kernel may do with whole trains of packets at once: its name, how loudly its lack is told, whether it does it.
type Bulk = (&'static str, log::Level, bool);

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
    let (level, line) =
        in_bulk(&wanted.map(|(name, switch, _, works)| (name, switch.level(), works)).collect::<Vec<_>>());
    log::log!(level, "{line}");
}

/// One line: what is done in bulk, or, if anything is not, what that is.
fn in_bulk(wanted: &[Bulk]) -> (log::Level, String) {
    let names = |works| {
        let chosen = wanted.iter().filter(|part| part.2 == works).map(|part| part.0);
        chosen.collect::<Vec<_>>().join(", ")
    };
    match wanted.iter().filter(|part| !part.2).map(|part| part.1).min() {
        Some(level) => (level, format!("this kernel does not do in bulk: {}; slower, nothing else", names(false))),
        None if wanted.is_empty() => (log::Level::Info, "in bulk: nothing".to_owned()),
        None => (log::Level::Info, format!("in bulk: {}", names(true))),
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

#[cfg(test)]
mod tests {
    use log::Level;

    use super::*;

    #[test]
    fn what_a_kernel_does_not_do_in_bulk_is_named_in_one_line() {
        assert_eq!(in_bulk(&[]), (Level::Info, "in bulk: nothing".to_owned()));
        let old = [
            ("TCP of the TUN device", Level::Info, true),
            ("UDP of the TUN device", Level::Info, false),
            ("sending (UDP_SEGMENT)", Level::Info, true),
            ("receiving (UDP_GRO)", Level::Warn, false),
        ];
        let line = "this kernel does not do in bulk: UDP of the TUN device, receiving (UDP_GRO); slower, nothing else";
        assert_eq!(in_bulk(&old), (Level::Warn, line.to_owned()));
        assert_eq!(in_bulk(&old[..2]).0, Level::Info);
        assert_eq!(in_bulk(&old[..1]).1, "in bulk: TCP of the TUN device");
        assert!(in_bulk(&old.map(|(name, level, _)| (name, level, false))).1.len() <= 150);
    }
}
