use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;
use crate::crypto::rng::Rng;
use crate::esp::OutSa;
use crate::plane::ecn;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const BABEL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 6);

fn fe80(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number)
}

/// Node 2 and a hand to seal whatever node 1 might.
struct Rig {
    plane: Plane,
    sa: OutSa,
}

impl Rig {
    fn new() -> Rig {
        let (_, mut plane) = two(Cipher::ChaCha20Poly1305);
        plane.set_link_local(LinkId(1), fe80(2));
        let (child, _) = children(Cipher::ChaCha20Poly1305, 1);
        Rig { plane, sa: OutSa::new(child.cipher, child.spi_out, &child.key_out).unwrap() }
    }

    fn sealed(&mut self, content: &[u8], next_header: u8) -> Vec<u8> {
        let mut datagram = Vec::new();
        self.sa.number().unwrap().seal(content, next_header, &mut datagram);
        datagram
    }

    fn give(&mut self, content: &[u8], next_header: u8, tos: u8) -> Egress {
        let mut datagram = self.sealed(content, next_header);
        let mut out = Egress::default();
        self.plane.inbound(NOW, path(1), tos, &mut datagram, &mut out);
        out
    }

    /// The one reason that was counted since the last time.
    fn dropped(&mut self) -> &'static str {
        let all = drops(&self.plane);
        self.plane.counts = Counts::default();
        match all[..] {
            [(name, 1)] => name,
            _ => panic!("{all:?}"),
        }
    }
}

#[test]
fn what_is_not_from_a_peer_gets_no_answer() {
    let mut rig = Rig::new();
    let good = rig.sealed(&udp4(1, 2, 0, 64, 9), 4);
    let mut forged = good.clone();
    forged[20] ^= 1;
    let mut unknown = good.clone();
    unknown[0] ^= 1;
    let mut zero = good.clone();
    zero[4..8].fill(0);
    let cases = [
        (vec![], "esp_runt"),
        (vec![0xff; 3], "esp_runt"),
        (good[..33].to_vec(), "esp_runt"),
        (vec![0; 4], "unknown_spi"),
        (vec![0x77; 100], "unknown_spi"),
        (unknown, "unknown_spi"),
        (forged, "forged"),
        (good[..34].to_vec(), "forged"),
        (zero, "sequence_zero"),
    ];
    let mut out = Egress::default();
    for (mut datagram, reason) in cases {
        rig.plane.inbound(NOW, path(66), 0, &mut datagram, &mut out);
        assert!(is_silent(&out));
        assert_eq!(rig.dropped(), reason);
    }
    assert_eq!(rig.plane.link(LinkId(1)).unwrap(), LinkCount::default(), "nothing of it counts as heard");
    rig.plane.inbound(NOW, path(1), 0, &mut good.clone(), &mut out);
    assert_eq!(out.inner_ends.len(), 1, "and nothing of it moved the window");
    rig.plane.inbound(NOW, path(1), 0, &mut good.clone(), &mut out);
    assert_eq!(rig.dropped(), "replay_seen");
    rig.sa.skip_to(10_000);
    rig.give(&udp4(1, 2, 0, 64, 9), 4, 0);
    rig.plane.inbound(NOW, path(1), 0, &mut good.clone(), &mut out);
    assert_eq!(rig.dropped(), "replay_old");
}

#[test]
fn a_dummy_vanishes_and_counts_as_a_sign_of_life() {
    let mut rig = Rig::new();
    for content in [&[][..], &[0; 100]] {
        assert!(is_silent(&rig.give(content, 59, 0)));
        assert_eq!(rig.dropped(), "dummy");
    }
    let count = rig.plane.link(LinkId(1)).unwrap();
    assert_eq!((count.packets_in, count.octets_in, count.heard), (2, 0, Some(NOW)));
}

#[test]
fn traffic_flow_padding_is_cut() {
    let mut rig = Rig::new();
    for (packet, next_header) in [(udp4(1, 2, 0, 64, 9), 4), (udp6(1, 2, 0, 64, 9), 41)] {
        let padded: Vec<u8> = packet.iter().copied().chain([0; 333]).collect();
        assert_eq!(inner(&rig.give(&padded, next_header, 0)), [packet]);
    }
}

#[test]
fn lies_about_the_inner_packet_are_counted() {
    let mut rig = Rig::new();
    let (v4, v6) = (udp4(1, 2, 0, 64, 9), udp6(1, 2, 0, 64, 9));
    let cases: [(&[u8], u8, &str); 9] = [
        (&v4, 41, "malformed"),
        (&v6, 4, "malformed"),
        (&v4[..30], 4, "malformed"),
        (&v6[..50], 41, "malformed"),
        (&v4[..19], 4, "malformed"),
        (&[], 41, "malformed"),
        (&v4, 6, "bad_next_header"),
        (&v4, 0, "bad_next_header"),
        (&v6, 17, "bad_next_header"),
    ];
    for (content, next_header, reason) in cases {
        assert!(is_silent(&rig.give(content, next_header, 0)));
        assert_eq!(rig.dropped(), reason);
    }
}

/// Case G3 and RFC 6040 §4.2: the inner packet gets the combined mark and a right checksum, and no DSCP.
#[test]
fn ecn_is_carried_inward_and_dscp_is_not() {
    let mut rig = Rig::new();
    for inner_ecn in 0..4 {
        for outer_ecn in 0..4 {
            for (packet, next_header) in
                [(udp4(1, 2, 0xb8 | inner_ecn, 64, 9), 4), (udp6(1, 2, 0xb8 | inner_ecn, 64, 9), 41)]
            {
                let out = rig.give(&packet, next_header, 0x28 | outer_ecn);
                let Some(expected) = ecn::combine(inner_ecn, outer_ecn) else {
                    assert!(is_silent(&out));
                    assert_eq!(rig.dropped(), "ecn_ce");
                    continue;
                };
                let came = inner(&out).remove(0);
                assert_eq!(Header::parse(&came).unwrap().tos, 0xb8 | expected);
                assert!(next_header == 41 || ip::Sum::default().plus(&came[..20]).finish() == 0);
                let mut unmarked = came;
                ip::set_ecn(&mut unmarked, inner_ecn);
                assert_eq!(unmarked, packet, "nothing else has changed");
            }
        }
    }
}

#[test]
fn babel_goes_to_control() {
    let mut rig = Rig::new();
    let babel = |from: Ipv6Addr, to, ports: (u16, u16), payload: &[u8]| {
        ip::udp6_packet(from, to, 1, 0xc0, ports.0, ports.1, payload)
    };
    for to in [BABEL, fe80(2)] {
        let out = rig.give(&babel(fe80(1), to, (6696, 6696), b"hello"), 41, 0);
        let expected = Control::Babel { link: LinkId(1), from: fe80(1), to, payload: b"hello".to_vec() };
        assert_eq!((out.control.as_slice(), out.inner_ends.len()), (&[expected][..], 0));
    }
    assert_eq!(drops(&rig.plane), []);
    let global: Ipv6Addr = host6(1).into();
    let mut damaged = babel(fe80(1), BABEL, (6696, 6696), b"hello");
    damaged[50] ^= 1;
    let cases = [
        (babel(fe80(1), BABEL, (6696, 6697), b"x"), "multicast"),
        (babel(fe80(1), fe80(2), (6697, 6696), b"x"), "link_local"),
        (babel(fe80(1), fe80(3), (6696, 6696), b"x"), "link_local"),
        (babel(global, BABEL, (6696, 6696), b"x"), "multicast"),
        (babel(global, fe80(2), (6696, 6696), b"x"), "link_local"),
        (babel(fe80(1), ALL_NODES, (6696, 6696), b"x"), "multicast"),
        (damaged, "bad_udp"),
    ];
    for (packet, reason) in cases {
        assert!(is_silent(&rig.give(&packet, 41, 0)));
        assert_eq!(rig.dropped(), reason);
    }
}

#[test]
fn before_our_link_local_address_is_known_babel_is_heard() {
    let mut rig = Rig::new();
    let (_, plane) = two(Cipher::ChaCha20Poly1305);
    rig.plane = plane;
    let out = rig.give(&ip::udp6_packet(fe80(1), fe80(77), 1, 0, 6696, 6696, b"x"), 41, 0);
    assert_eq!(out.control.len(), 1);
    assert!(is_silent(&rig.give(&echo_request(fe80(1), fe80(77)), 41, 0)));
    assert_eq!(rig.dropped(), "link_local");
}

fn echo_request(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6(from.octets(), to.octets(), 64).icmpv6_echo_request(5, 6);
    builder.write(&mut packet, b"ping").unwrap();
    packet
}

#[test]
fn echo_requests_to_the_link_are_answered_over_it() {
    let mut rig = Rig::new();
    for to in [fe80(2), ALL_NODES] {
        let out = rig.give(&echo_request(fe80(1), to), 41, 0);
        assert_eq!(out.trains.len(), 1);
        assert_eq!(out.trains[0].path, path(1));
        let (child, _) = children(Cipher::ChaCha20Poly1305, 1);
        let mut sa = InSa::new(child.cipher, &child.key_in).unwrap();
        let mut datagram = out.trains[0].data.clone();
        sa.open(&mut datagram).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        let reply = &datagram[16..];
        assert_eq!(icmp(reply), (fe80(2).into(), fe80(1).into(), 129, 0, 6));
    }
    assert_eq!(drops(&rig.plane), []);
    for (to, reason) in [(fe80(3), "link_local"), (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2), "multicast")] {
        assert!(is_silent(&rig.give(&echo_request(fe80(1), to), 41, 0)));
        assert_eq!(rig.dropped(), reason);
    }
}

#[test]
fn groups_and_link_local_addresses_are_never_forwarded() {
    let mut rig = Rig::new();
    route(&mut rig.plane, &[("0.0.0.0/0", via(1)), ("::/0", via(1))]);
    let cases = [
        (udp4_between(host4(1), [224, 0, 0, 5], 0, 9, 9), 4, "multicast"),
        (udp4_between(host4(1), [169, 254, 3, 3], 0, 9, 9), 4, "link_local"),
        (udp4_between([127, 0, 0, 1], host4(2), 0, 9, 9), 4, "martian"),
        (ip::udp6_packet(fe80(1), host6(2).into(), 9, 0, 1, 2, b"x"), 41, "link_local"),
        (
            ip::udp6_packet(host6(1).into(), Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2), 9, 0, 1, 2, b"x"),
            41,
            "multicast",
        ),
        (ip::udp6_packet(Ipv6Addr::LOCALHOST, host6(2).into(), 9, 0, 1, 2, b"x"), 41, "martian"),
    ];
    for (packet, next_header, reason) in cases {
        assert!(is_silent(&rig.give(&packet, next_header, 0)), "{reason}");
        assert_eq!(rig.dropped(), reason);
    }
}

/// The kernel believes the device about our own addresses, so nobody else may use them.
#[test]
fn nobody_speaks_in_our_name() {
    let own6 = Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 2).octets();
    let mut rig = Rig::new();
    for (packet, next_header) in
        [(udp4_between([10, 66, 0, 2], host4(2), 0, 9, 9), 4), (udp6_between(own6, host6(2), 0, 9, 9), 41)]
    {
        assert!(is_silent(&rig.give(&packet, next_header, 0)));
        assert_eq!(rig.dropped(), "martian");
    }
}

/// Case G1: 100 000 packets a second of which a quarter is held back 5 ms, or 40 ms, which is 4000 packets.
#[test]
fn packets_held_back_are_not_taken_for_replays() {
    for held in [500, 4000] {
        let mut rig = Rig::new();
        let mut rng = Rng::from_number(1414);
        let mut arrivals: Vec<(usize, Vec<u8>)> = (0..12_000)
            .map(|i| {
                let late = if rng.below(4) == 0 { held } else { 0 };
                (i + late, rig.sealed(&udp4(1, 2, 0, 64, 9), 4))
            })
            .collect();
        arrivals.sort_by_key(|&(at, _)| at);
        let mut out = Egress::default();
        for (_, mut datagram) in arrivals {
            rig.plane.inbound(NOW, path(1), 0, &mut datagram, &mut out);
        }
        assert_eq!((out.inner_ends.len(), drops(&rig.plane)), (12_000, vec![]), "held back by {held} packets");
    }
}

proptest! {
    #[test]
    fn no_datagram_and_no_inner_packet_panics(
        mut datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..20),
        contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..20),
        firsts in proptest::collection::vec(prop_oneof![Just(0x45_u8), Just(0x46), Just(0x60)], 20),
        tos: u8,
        has_tun: bool,
    ) {
        let mut rig = Rig::new();
        rig.plane.set_tun(has_tun);
        route(&mut rig.plane, &[("0.0.0.0/1", via(1)), ("128.0.0.0/1", Target::Local), ("8000::/1", via(1))]);
        let mut out = Egress::default();
        for datagram in &mut datagrams {
            rig.plane.inbound(NOW, path(1), tos, datagram, &mut out);
        }
        for (content, &first) in contents.iter().zip(&firsts) {
            let mut content = content.clone();
            // A header that passes the first checks, so that something comes after them.
            if content.len() >= 40 {
                content[0] = first;
                content[if first == 0x60 { 4 } else { 2 }] = 0;
                content[if first == 0x60 { 5 } else { 3 }] = 40;
            }
            let next_header = if first == 0x60 { 41 } else { 4 };
            out = rig.give(&content, next_header, tos);
            rig.plane.outbound(NOW, &content, &mut out);
        }
        prop_assert!(out.trains.iter().all(|train| train.stride > 0));
    }
}
