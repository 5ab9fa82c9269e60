//! The machine that we run on, as the first lines of the log tell it: what helps whoever reads them from far away.
//!
//! As process 1 of a container nobody else sets its namespace up: forwarding is ours to turn on then. On a machine with an
//! administrator we only say what is off.

use std::fs;
use std::io;

use super::sys;

/// One line about the machine; what it does not tell is left out.
pub fn about() -> String {
    let mut parts = vec![std::env::consts::ARCH.to_owned()];
    if let Some(release) = read("/proc/sys/kernel/osrelease") {
        parts.push(format!("Linux {release}"));
    }
    if let Some(size) = sys::page_size() {
        parts.push(format!("pages of {} KiB", size / 1024));
    }
    if let Ok(count) = std::thread::available_parallelism() {
        parts.push(format!("{count} {}", if count.get() == 1 { "CPU" } else { "CPUs" }));
    }
    if let Some((free, total)) = memory() {
        parts.push(format!("{free} of {total} MB of memory free"));
    }
    parts.push(format!("process {}", std::process::id()));
    parts.join(", ")
}

/// Megabytes of memory that are free and that there are.
pub fn memory() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some((megabytes(&text, "MemAvailable:")?, megabytes(&text, "MemTotal:")?))
}

/// The interface that the default route of a family leaves by; the kernel's best one.
pub fn uplink(ipv6: bool) -> Option<String> {
    let file = if ipv6 { "/proc/net/ipv6_route" } else { "/proc/net/route" };
    default_route(&fs::read_to_string(file).ok()?, ipv6)
}

/// Whether this system forwards packets of a family between its interfaces.
pub fn forwards(ipv6: bool) -> bool {
    // A system that does not tell gets the benefit of the doubt.
    fs::read_to_string(forwarding(ipv6)).map_or(true, |text| text.trim() != "0")
}

/// Makes it forward packets of a family.
///
/// # Errors
/// The settings are read-only here, as in most containers of other engines.
pub fn forward(ipv6: bool) -> io::Result<()> {
    fs::write(forwarding(ipv6), "1")
}

/// Lets interfaces that listen to routers go on when this system is a router itself (`accept_ra` 2): with 1 the kernel drops
/// advertisements, and its default route with them, as soon as it forwards.
pub fn keep_router_advertisements() {
    let Ok(folders) = fs::read_dir("/proc/sys/net/ipv6/conf") else { return };
    for file in folders.flatten().map(|folder| folder.path().join("accept_ra")) {
        if fs::read_to_string(&file).is_ok_and(|text| text.trim() == "1") {
            // What may not be written stays as it is, and then forwarding cannot be turned on either.
            let _ = fs::write(&file, "2");
        }
    }
}

/// The setting that turns forwarding on.
pub fn forwarding_key(ipv6: bool) -> &'static str {
    if ipv6 { "net.ipv6.conf.all.forwarding" } else { "net.ipv4.ip_forward" }
}

fn forwarding(ipv6: bool) -> &'static str {
    if ipv6 { "/proc/sys/net/ipv6/conf/all/forwarding" } else { "/proc/sys/net/ipv4/ip_forward" }
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// A value of `/proc/meminfo`, which counts in KiB.
fn megabytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

/// The tables of `/proc/net`, in hexadecimal. IPv4: interface, destination, gateway, flags, …, metric (7th), mask (8th).
/// IPv6: destination, its length, source, its length, next hop, metric, …, flags (9th), interface.
fn default_route(table: &str, ipv6: bool) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize, radix| fields.get(at).and_then(|text| u32::from_str_radix(text, radix).ok());
        let (device, metric, flags, to_all) = if ipv6 {
            let zero = |at: usize| fields.get(at).is_some_and(|text| text.bytes().all(|octet| octet == b'0'));
            (fields.get(9)?, number(5, 16)?, number(8, 16)?, zero(0) && zero(1) && zero(3))
        } else {
            (fields.first()?, number(6, 10)?, number(3, 16)?, number(1, 16)? == 0 && number(7, 16)? == 0)
        };
        (to_all && flags & RTF_UP != 0 && flags & RTF_REJECT == 0).then(|| (metric, (*device).to_owned()))
    });
    routes.min().map(|(_, device)| device)
}

const RTF_UP: u32 = 0x0001;
const RTF_REJECT: u32 = 0x0200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_in_one_line() {
        let line = about();
        assert!(line.contains("Linux ") && line.contains("pages of ") && line.contains("MB"), "{line}");
        assert!(line.len() <= 150, "{line}");
        let (free, total) = memory().unwrap();
        assert!(free > 0 && free <= total);
    }

    #[test]
    fn the_best_default_route_is_found() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                  veth-wattle\t00000000\t01FF1FAC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  veth-wattle\t00FF1FAC\t00000000\t0001\t0\t0\t0\tFCFFFFFF\t0\t0\t0\n\
                  wg0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";
        assert_eq!(default_route(v4, false).as_deref(), Some("veth-wattle"));
        let zeros = "0".repeat(32);
        let line = |to: &str, length, metric, flags, device| {
            format!("{to} {length} {zeros} 00 {zeros} {metric} 00000001 00000000 {flags} {device}\n")
        };
        // As Linux shows a system without a default route: only the one that refuses.
        let none = line(&zeros, "00", "ffffffff", "00200200", "      lo")
            + &line("fd000000000000000000000000000000", "40", "00000100", "00000001", "eth0");
        assert_eq!(default_route(&none, true), None);
        let one = none.clone() + &line(&zeros, "00", "00000400", "00450003", "eth0");
        assert_eq!(default_route(&one, true).as_deref(), Some("eth0"));
        for text in ["", "\n\n", "eth0", "eth0 0 0 0 0 0 0 0", "x y z 1 2 3 4 5 6 7 8 9 10"] {
            assert_eq!((default_route(text, false), default_route(text, true)), (None, None), "{text}");
        }
    }
}
