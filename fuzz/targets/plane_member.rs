//! The data path with a hostile member at the other end of a tunnel: anything may be inside a datagram that verifies. Packets and
//! super-packets of the site, too.
//!
//! Always: no panic, no sequence number twice, nothing larger than the mesh carries, nothing for the site under one of our own
//! addresses as source, and no input makes more than it is worth.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use wattle::child_sa::ChildSa;
use wattle::crypto::aead::Cipher;
use wattle::crypto::secret::Secret;
use wattle::esp::OutSa;
use wattle::fib::{Fib, Target};
use wattle::path::{LinkId, Path, SocketId};
use wattle::plane::{Control, Egress, Plane};
use wattle::prefix::Prefix;
use wattle::steer::Domain;
use wattle::steer::policy::{Conditions, Policy};
use wattle::time::Time;
use wattle::wire::ip::{Header, Sum};
use wattle::wire::srv6;
use wattle::wire::vnet::Vnet;

use super::input::Input;

const MTU: u16 = 1280;
const CIPHERS: [Cipher; 3] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm];
const OPERATIONS: usize = 200;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let settings = input.u8();
    let cipher = CIPHERS[usize::from(settings & 3).min(2)];
    let mut plane = Plane::new(MTU);
    plane.set_addresses(vec![ours(false), ours(true)]);
    plane.set_tun(settings & 4 == 0);
    let routes = [("10.1.0.0/16", None), ("fd01::/16", None), ("10.2.0.0/16", Some(2)), ("fd02::/16", Some(2))];
    let routes = routes.into_iter().chain([("10.3.0.0/16", Some(3)), ("fd03::/16", Some(3)), ("10.3.9.0/24", Some(9))]);
    let sids = [("fd77:0:0:1::/64", None), ("fd77:0:0:2::/64", Some(2)), ("fd77:0:0:3::/64", Some(3))];
    let routes = routes.chain(sids);
    plane.set_fib(Arc::new(Fib::new(routes.map(|(to, link)| {
        let target = link.map_or(Target::Local, |link| Target::Link(LinkId(link)));
        (Prefix::to(to.parse().expect("a prefix")), target)
    }))));
    if settings & 8 != 0 {
        steer(&mut plane, settings & 16 != 0);
    }
    let mut members = Vec::new();
    for link in [2, 3] {
        let key = |direction: u8| Secret::new(vec![direction; cipher.keymat_len()]);
        let number = u8::try_from(link).unwrap();
        let child = ChildSa {
            cipher,
            exchanges: Vec::new(),
            spi_in: 1000 + link,
            spi_out: 2000 + link,
            key_in: key(number),
            key_out: key(0x80 | number),
        };
        plane.install(LinkId(link), path(number), &child, false);
        plane.set_link_local(LinkId(link), "fe80::1".parse().expect("an address"));
        members.push(OutSa::new(cipher, child.spi_in, &child.key_in).expect("a key"));
    }
    let mut now = Time::from_micros(1_000_000);
    let mut sent = BTreeSet::new();
    let mut out = Egress::default();
    let mut last = Vec::new();
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        let [operation, argument] = input.array();
        let member = usize::from(argument & 1);
        let from = path(u8::try_from(member).unwrap() + 2);
        let mut packet = packet(&mut input, operation >> 3);
        let length = packet.len();
        match operation & 7 {
            0..=2 => {
                let next_header = match argument >> 1 & 7 {
                    0 => 59,
                    1 => argument,
                    _ if packet.first().is_some_and(|first| first >> 4 == 6) => 41,
                    _ => 4,
                };
                last.clear();
                members[member].number().expect("a number").seal(&packet, next_header, &mut last);
                plane.inbound(now, from, argument >> 4, &mut last.clone(), &mut out);
            }
            3 => {
                // Once more, or spoilt.
                let mut datagram = last.clone();
                if argument & 2 != 0 {
                    input.damage(&mut datagram);
                }
                plane.inbound(now, from, argument >> 4, &mut datagram, &mut out);
            }
            4 => plane.inbound(now, from, 0, &mut packet, &mut out),
            5 => plane.outbound(now, &packet, &mut out),
            6 => {
                let [kind, size, start, offset] = input.array();
                let mut header =
                    [argument & 1, [0, 1, 4, 5][usize::from(kind & 3)], 0, 0, size, kind >> 4, start, 0, offset, 0];
                if argument & 2 != 0 {
                    header = input.array();
                }
                if let Some(vnet) = Vnet::parse(header) {
                    plane.outbound_super(now, &vnet, &mut packet, &mut out);
                }
            }
            _ => {
                now += std::time::Duration::from_millis(u64::from(argument));
                plane.send(now, LinkId(2), &packet, &mut out);
            }
        }
        check(&mut out, length, &mut sent);
    }
}

/// Two paths, one of them back through ourselves; the first for some packets only.
fn steer(plane: &mut Plane, exit: bool) {
    let locator = |number: u16| srv6_locator(number).parse().expect("a locator");
    let domain = Domain { locator: Some(locator(1)), locators: vec![locator(2), locator(3)], sources: Vec::new() };
    let policy = |to: &str, ports, segments: [(u16, u16); 3]| Policy {
        prefix: Prefix::to(to.parse().expect("a prefix")),
        conditions: Conditions { protocol: None, ports, dscp: None },
        segments: segments.map(|(node, function)| srv6::sid(locator(node), function)).to_vec(),
        reduced: true,
        route_if_unreachable: false,
    };
    let some = policy("10.2.0.0/16", Some(0..=0x7fff), [(2, 1), (3, 2), (3, 20)]);
    let all = policy("fd03::/16", None, [(1, 1), (2, 1), (3, 20)]);
    plane.set_steering(domain, vec![some, all], exit);
}

fn srv6_locator(number: u16) -> String {
    format!("fd77:0:0:{number}::/64")
}

fn check(out: &mut Egress, length: usize, sent: &mut BTreeSet<[u8; 8]>) {
    let (mut datagrams, mut octets) = (0, 0);
    for train in &out.trains {
        for datagram in train.datagrams() {
            (datagrams, octets) = (datagrams + 1, octets + datagram.len());
            // What was sealed is padded to four octets, with header, IV, trailer and ICV around it.
            assert!(datagram.len() <= usize::from(MTU) + 8 + 8 + 2 + 3 + 16, "{} octets", datagram.len());
            let head: &[u8; 8] = datagram.first_chunk().expect("ESP");
            assert!(sent.insert(*head), "a sequence number is used twice");
        }
    }
    // A super-packet of single octets is the worst: a head for each.
    assert!(datagrams <= length + 2 && octets <= 400 * (length + 2), "{length} octets became {octets}");
    for packet in out.inner_packets() {
        let header = Header::parse(packet).expect("an IP packet for the site");
        assert_eq!(header.length, packet.len());
        let own = [ours(false), ours(true)].contains(&header.source);
        // Only our own ICMP errors.
        assert!(!own || matches!(header.protocol, 1 | 58), "one of our addresses as source");
    }
    for control in &out.control {
        if let Control::Babel { from, .. } = control {
            assert!(from.is_unicast_link_local());
        }
    }
    out.clear();
}

/// Something like a packet, with its checksums put right most of the time.
fn packet(input: &mut Input<'_>, how: u8) -> Vec<u8> {
    let mut packet = match how & 3 {
        0 => return input.string().to_vec(),
        1 | 2 => {
            let [sites, protocol, hops, flags] = input.array();
            let mut packet = vec![0x45, flags >> 6, 0, 0, 0, 9, flags & 0x60, 0, hops, protocol, 0, 0];
            packet.extend([10, sites & 3, 0, 1, 10, sites >> 2 & 3, sites >> 4, 1]);
            packet
        }
        _ => {
            let [sites, protocol, hops, flags] = input.array();
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, hops];
            let mut address = |site: u8| {
                let (first, second) = if site == 0 { (0xfe, 0x80) } else { (0xfd, site) };
                packet.extend([first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            };
            address(sites & 3);
            address(sites >> 2 & 3);
            // Between SIDs of the members: what is behind may be a segment list.
            if flags & 0x40 != 0 {
                let sid = |number: u8, function: u8| [0xfd, 0x77, 0, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, function];
                packet[8..24].copy_from_slice(&sid(2, 1));
                packet[24..40].copy_from_slice(&sid((flags & 3).max(1), flags >> 2 & 0x0f | flags & 0x10));
            }
            if flags & 0x81 == 0x81 {
                packet[24..40].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 6]);
            }
            packet
        }
    };
    let head = packet.len();
    packet.extend(input.string());
    if how & 4 != 0 {
        // Up to a whole super-packet.
        packet.resize((packet.len() + usize::from(input.u16())).min(65_000), 0x5a);
    }
    let length = packet.len();
    if head == 20 {
        packet[2..4].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&u16::try_from(length - 40).unwrap().to_be_bytes());
    }
    if how & 8 != 0 {
        input.damage(&mut packet);
    }
    if head == 20 && packet.len() >= 20 {
        packet[10..12].copy_from_slice(&[0, 0]);
        let sum = Sum::default().plus(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

fn path(node: u8) -> Path {
    Path { socket: SocketId(0), local: None, remote: ([192, 0, 2, node], 4500).into() }
}

fn ours(ipv6: bool) -> IpAddr {
    if ipv6 { IpAddr::from([0xfd01, 0, 0, 0, 0, 0, 0, 1]) } else { IpAddr::from([10, 1, 0, 1]) }
}
