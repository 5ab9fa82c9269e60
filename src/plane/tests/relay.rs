//! Transit: site 1 – node 1 – node 2 – node 3 – site 3, never through node 2's kernel.

use super::*;

struct Line {
    a: Plane,
    b: Plane,
    c: Plane,
}

impl Line {
    fn new() -> Line {
        let mut a = node(1, &routes(&[(1, Target::Local), (2, via(2)), (3, via(2))]));
        let mut b = node(2, &routes(&[(1, via(1)), (2, Target::Local), (3, via(3))]));
        let mut c = node(3, &routes(&[(1, via(2)), (2, via(2)), (3, Target::Local)]));
        connect((&mut a, 1), (&mut b, 2), Cipher::Aes256Gcm, 1);
        connect((&mut b, 2), (&mut c, 3), Cipher::ChaCha20Poly1305, 2);
        Line { a, b, c }
    }

    /// From the TUN of node 1 to what node 2 makes of it.
    fn at_b(&mut self, packet: &[u8]) -> Egress {
        pass(1, &outbound(&mut self.a, packet), &mut self.b)
    }
}

#[test]
fn transit_takes_one_hop_and_leaves_by_the_other_link() {
    let mut line = Line::new();
    let mut packets = [udp4(1, 3, 0x2e, 64, 500), udp6(1, 3, 0xb9, 64, 500)];
    let mut at_c = Vec::new();
    for packet in &packets {
        let at_b = line.at_b(packet);
        assert!(at_b.inner_ends.is_empty(), "not through the kernel");
        assert_eq!(at_b.trains[0].path, path(3));
        assert_eq!(at_b.trains[0].tos, Header::parse(packet).unwrap().tos);
        at_c.extend(inner(&pass(2, &at_b, &mut line.c)));
    }
    assert_eq!(ip::Sum::default().plus(&at_c[0][..20]).finish(), 0);
    for packet in &mut packets {
        assert!(ip::decrement_hops(packet));
    }
    assert_eq!(at_c, packets);
    let count = line.b.link(LinkId(3)).unwrap();
    assert_eq!(count.packets_out, 2);
}

#[test]
fn a_congestion_mark_on_the_first_link_is_seen_behind_the_second() {
    let mut line = Line::new();
    let mut out = outbound(&mut line.a, &udp4(1, 3, 0x02, 64, 9));
    out.trains[0].tos |= ecn::MASK;
    let at_b = pass(1, &out, &mut line.b);
    assert_eq!(at_b.trains[0].tos, 0x03);
    let at_c = inner(&pass(2, &at_b, &mut line.c));
    assert_eq!(Header::parse(&at_c[0]).unwrap().tos, 0x03);
}

#[test]
fn spent_hops_are_reported_through_the_mesh() {
    let mut line = Line::new();
    for (packet, kind) in [(udp4(1, 3, 0, 1, 9), 11), (udp6(1, 3, 0, 1, 9), 3)] {
        let at_b = line.at_b(&packet);
        assert_eq!(at_b.trains[0].path, path(1));
        let back = inner(&pass(2, &at_b, &mut line.a)).remove(0);
        let header = Header::parse(&packet).unwrap();
        let us = if header.is_ipv4() { address4(2) } else { address6(2) };
        assert_eq!(icmp(&back), (us, header.source, kind, 0, 0));
        assert!(back.ends_with(&packet), "quotes it as it came");
    }
    assert_eq!(drops(&line.b), [("hop_limit", 2)]);
    // For the node itself one hop is enough.
    assert_eq!(line.at_b(&udp4(1, 2, 0, 1, 9)).inner_ends.len(), 1);
}

#[test]
fn no_route_and_a_dead_link_are_reported_through_the_mesh() {
    let mut line = Line::new();
    line.b.remove_link(LinkId(3));
    let back = |line: &mut Line, packet: &[u8]| {
        let at_b = line.at_b(packet);
        inner(&pass(2, &at_b, &mut line.a)).remove(0)
    };
    let error = back(&mut line, &udp4(1, 3, 0, 64, 9));
    assert_eq!(icmp(&error), (address4(2), host4(1).into(), 3, 1, 0));
    route(&mut line.b, &routes(&[(1, via(1))]));
    let error = back(&mut line, &udp6(1, 3, 0, 64, 9));
    assert_eq!(icmp(&error), (address6(2), host6(1).into(), 1, 0, 0));
    assert_eq!(drops(&line.b), [("no_route", 1), ("no_sa", 1)]);
}

/// Case F1: node 2 has less room than node 1.
#[test]
fn too_big_in_transit_is_reported_with_what_fits_there() {
    let mut line = Line::new();
    line.b.mtu = 1300;
    let at_b = line.at_b(&udp4(1, 3, 0, 64, 1372));
    let error = inner(&pass(2, &at_b, &mut line.a)).remove(0);
    assert_eq!(icmp(&error), (address4(2), host4(1).into(), 3, 4, 1300));
    let at_b = line.at_b(&udp6(1, 3, 0, 64, 1352));
    let error = inner(&pass(2, &at_b, &mut line.a)).remove(0);
    assert_eq!(icmp(&error), (address6(2), host6(1).into(), 2, 0, 1300));
    assert_eq!(drops(&line.b), [("too_big", 2)]);

    let mut packet = udp4(1, 3, 0, 64, 1372);
    clear_df(&mut packet);
    let at_b = line.at_b(&packet);
    let fragments = inner(&pass(2, &at_b, &mut line.c));
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [1300, 120]);
    assert!(fragments.iter().all(|fragment| ip::Sum::default().plus(&fragment[..20]).finish() == 0));
    assert_eq!(drops(&line.b), [("too_big", 2)]);
}

/// Case F1: an error that quotes only 8 octets of transport is nobody's business here.
#[test]
fn icmp_errors_of_others_pass_unchanged() {
    let mut line = Line::new();
    let quoted = &udp4(3, 1, 0, 60, 0)[..28];
    let mut packet = ip::header4(host4(1).into(), host4(3).into(), 0, 64, ip::ICMP, 36).to_vec();
    packet.extend_from_slice(&[3, 3, 0, 0, 0, 0, 0, 0]);
    packet.extend_from_slice(quoted);
    let sum = ip::Sum::default().plus(&packet[20..]).finish();
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    let at_b = line.at_b(&packet);
    let at_c = inner(&pass(2, &at_b, &mut line.c));
    assert_eq!(at_c[0][20..], packet[20..]);
}

#[test]
fn a_loop_ends_with_the_hop_limit() {
    let mut line = Line::new();
    route(&mut line.a, &[("10.3.0.0/16", via(2)), ("10.1.0.0/16", Target::Local)]);
    route(&mut line.b, &[("10.3.0.0/16", via(1)), ("10.1.0.0/16", via(1))]);
    let mut out = outbound(&mut line.a, &udp4(1, 3, 0, 10, 9));
    let mut hops = 0;
    while out.trains.iter().any(|train| !train.data.is_empty()) {
        hops += 1;
        assert!(hops <= 12, "still going");
        out = if hops % 2 == 1 { pass(1, &out, &mut line.b) } else { pass(2, &out, &mut line.a) };
    }
    assert_eq!((drops(&line.a), drops(&line.b)), (vec![("hop_limit", 1)], vec![]));
    assert_eq!(icmp(&inner(&out)[0]).2, 11, "node 1 tells its host");
}

#[test]
fn a_relay_without_tun_passes_on_and_answers_pings_but_takes_nothing_in() {
    let mut line = Line::new();
    line.b.set_tun(false);
    let at_b = line.at_b(&udp4(1, 3, 0, 64, 9));
    assert_eq!(inner(&pass(2, &at_b, &mut line.c)).len(), 1);
    let at_b = line.at_b(&udp4(1, 2, 0, 64, 9));
    assert!(at_b.inner_ends.is_empty());
    let error = inner(&pass(2, &at_b, &mut line.a)).remove(0);
    assert_eq!(icmp(&error), (address4(2), host4(1).into(), 3, 1, 0));
    assert_eq!(drops(&line.b), [("no_tun", 1)]);

    let mut pings = [Vec::new(), Vec::new()];
    let us4 = [10, 66, 0, 2];
    PacketBuilder::ipv4(host4(1), us4, 64).icmpv4_echo_request(1, 7).write(&mut pings[0], b"ping").unwrap();
    let IpAddr::V6(us6) = address6(2) else { panic!("not IPv6") };
    let builder = PacketBuilder::ipv6(host6(1), us6.octets(), 64).icmpv6_echo_request(1, 8);
    builder.write(&mut pings[1], b"ping").unwrap();
    for (ping, expected) in
        pings.iter().zip([(address4(2), host4(1).into(), 0, 0, 7), (address6(2), host6(1).into(), 129, 0, 8)])
    {
        let at_b = line.at_b(ping);
        assert_eq!(icmp(&inner(&pass(2, &at_b, &mut line.a))[0]), expected);
    }
    assert_eq!(drops(&line.b), [("no_tun", 1)]);
}

#[test]
fn drops_elsewhere_are_counted_here() {
    let mut plane = node(1, &[]);
    plane.count("tun_write", 1);
    plane.count("unknown_spi", 1);
    plane.count("tun_write", 1);
    assert_eq!(drops(&plane), [("unknown_spi", 1), ("tun_write", 2)]);
}
