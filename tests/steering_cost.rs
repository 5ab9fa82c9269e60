//! What steering costs in the data path, beyond the octets it adds: a packet on a path of three segments against a plain one that
//! is as long with its outer headers. Run by hand (`cargo test --test steering_cost -- --ignored --nocapture`): machines differ.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a measurement")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use wattle::child_sa::ChildSa;
use wattle::crypto::aead::Cipher;
use wattle::crypto::secret::Secret;
use wattle::fib::{Fib, Target};
use wattle::path::{LinkId, Path, SocketId};
use wattle::plane::{Egress, Plane};
use wattle::prefix::Prefix;
use wattle::steer::Domain;
use wattle::steer::policy::{Conditions, Policy};
use wattle::time::Time;
use wattle::wire::vnet::{Checksum, Kind, Segments, Vnet};

/// Outer header and a list of two: three segments, reduced.
const OVERHEAD: usize = 80;
const PLAIN: usize = 1400;

fn plane(steered: bool) -> Plane {
    let prefix = |text: &str| Prefix::to(text.parse().unwrap());
    let mut plane = Plane::new(1400);
    let to = Target::Link(LinkId(1));
    plane.set_fib(Arc::new(Fib::new([(prefix("10.2.0.0/16"), to), (prefix("fd77::/32"), to)])));
    let key = || Secret::new(vec![7; Cipher::Aes256Gcm.keymat_len()]);
    let child = ChildSa {
        cipher: Cipher::Aes256Gcm,
        spi_in: 1,
        spi_out: 2,
        key_in: key(),
        key_out: key(),
        exchanges: Vec::new(),
    };
    let path = Path { socket: SocketId(0), local: None, remote: ([192, 0, 2, 1], 4500).into() };
    plane.install(LinkId(1), path, &child, false);
    let sid = |text: &str| text.parse().unwrap();
    let policy = Policy {
        prefix: prefix("10.2.0.0/16"),
        conditions: Conditions::default(),
        segments: vec![sid("fd77:0:0:2::1"), sid("fd77:0:0:3::1"), sid("fd77:0:0:4::14")],
        reduced: true,
        route_if_unreachable: false,
    };
    let locator = Some("fd77:0:0:1::/64".parse().unwrap());
    let domain = Domain { locator, ..Domain::default() };
    plane.set_steering(domain, if steered { vec![policy] } else { Vec::new() }, false);
    plane
}

/// TCP with 12 octets of options from 10.1.0.9 to 10.2.0.9.
fn tcp(length: usize) -> Vec<u8> {
    let mut packet = vec![0x5a; length];
    packet[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 9, 10, 2, 0, 9]);
    packet[2..4].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    packet[20..40].copy_from_slice(&[1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 9, 9, 0, 0, 0, 0]);
    packet
}

/// Nanoseconds a packet of the best of many rounds, plain and steered by turns.
fn compare(mut round: impl FnMut(&mut Plane, bool) -> usize) -> (f64, f64) {
    let mut best = [f64::MAX; 2];
    let mut planes = [plane(false), plane(true)];
    for _ in 0..400 {
        for steered in [false, true] {
            let begin = Instant::now();
            let packets = round(&mut planes[usize::from(steered)], steered);
            let spent = begin.elapsed().max(Duration::from_nanos(1)).as_secs_f64() * 1e9 / packets as f64;
            let best = &mut best[usize::from(steered)];
            *best = best.min(spent);
        }
    }
    (best[0], best[1])
}

#[test]
#[ignore = "a measurement"]
fn a_steered_packet_costs_little_more_than_its_octets() {
    let now = Time::from_micros(1);
    let mut out = Egress::default();
    let packets = [tcp(PLAIN), tcp(PLAIN - OVERHEAD)];
    let single = compare(|plane, steered| {
        for _ in 0..4 {
            for _ in 0..64 {
                plane.outbound(now, &packets[usize::from(steered)], &mut out);
            }
            assert_eq!(out.trains.iter().map(|train| train.datagrams().count()).sum::<usize>(), 64);
            out.clear();
        }
        256
    });
    let supers = [PLAIN, PLAIN - OVERHEAD].map(|length| {
        let size = length - 52;
        let vnet = Vnet {
            checksum: Some(Checksum { start: 20, offset: 16 }),
            segments: Some(Segments { kind: Kind::Tcp4, size: u16::try_from(size).unwrap(), header: 52 }),
        };
        (vnet, tcp(52 + 40 * size))
    });
    let bulk = compare(|plane, steered| {
        let (vnet, packet) = &supers[usize::from(steered)];
        let mut copy = packet.clone();
        plane.outbound_super(now, vnet, &mut copy, &mut out);
        assert_eq!(out.trains.iter().map(|train| train.datagrams().count()).sum::<usize>(), 40);
        out.clear();
        40
    });
    for (name, (plain, steered)) in [("single packets", single), ("super-packets", bulk)] {
        let more = (steered / plain - 1.0) * 100.0;
        println!("{name}: plain {plain:.0} ns, steered {steered:.0} ns, {more:+.1} %");
        assert!(more <= 15.0, "{name}: {more:.1} % more");
    }
}
