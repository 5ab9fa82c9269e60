//! Segment routing between three nodes in a line. Node n has the locator fdaa:0:0:n::/64; site n is behind it.

#![expect(clippy::cast_possible_truncation, clippy::type_complexity, reason = "small numbers, and one table")]

use proptest::prelude::*;

use super::*;
use crate::steer::policy::{Conditions, Policy};
use crate::wire::srv6;

struct Net {
    planes: [Plane; 3],
}

fn locator(number: usize) -> ipnet::Ipv6Net {
    format!("fdaa:0:0:{number}::/64").parse().unwrap()
}

fn end(number: usize) -> Ipv6Addr {
    srv6::sid(locator(number), srv6::END)
}

fn exit(number: usize) -> Ipv6Addr {
    srv6::sid(locator(number), srv6::END_DT46)
}

fn policy(to: &str, segments: &[Ipv6Addr]) -> Policy {
    Policy {
        prefix: Prefix::to(to.parse().unwrap()),
        conditions: Conditions::default(),
        segments: segments.to_vec(),
        reduced: true,
        route_if_unreachable: false,
    }
}

const LOCATORS: [&str; 3] = ["fdaa:0:0:1::/64", "fdaa:0:0:2::/64", "fdaa:0:0:3::/64"];

fn with_locators(owners: &[(usize, Target)]) -> Vec<(&'static str, Target)> {
    let locators = owners.iter().map(|&(owner, target)| (LOCATORS[owner - 1], target));
    routes(owners).into_iter().chain(locators).collect()
}

impl Net {
    fn new() -> Net {
        let mut a = node(1, &with_locators(&[(1, Target::Local), (2, via(2)), (3, via(2))]));
        let mut b = node(2, &with_locators(&[(1, via(1)), (2, Target::Local), (3, via(3))]));
        let mut c = node(3, &with_locators(&[(1, via(2)), (2, via(2)), (3, Target::Local)]));
        connect((&mut a, 1), (&mut b, 2), Cipher::Aes256Gcm, 1);
        connect((&mut b, 2), (&mut c, 3), Cipher::ChaCha20Poly1305, 2);
        let mut net = Net { planes: [a, b, c] };
        for number in 1..=3 {
            net.steer(number, Vec::new());
        }
        net
    }

    fn steer(&mut self, number: usize, policies: Vec<Policy>) {
        let locators = (1..=3).filter(|other| *other != number).map(locator).collect();
        let domain = Domain { locator: Some(locator(number)), locators, sources: Vec::new() };
        self.plane(number).set_steering(domain, policies, false);
    }

    fn plane(&mut self, number: usize) -> &mut Plane {
        &mut self.planes[number - 1]
    }

    /// Carries what node `from` has put out to the end: what each node gives its TUN device.
    fn run(&mut self, from: usize, out: Egress) -> [Vec<Vec<u8>>; 3] {
        let mut came: [Vec<Vec<u8>>; 3] = Default::default();
        let mut under_way = vec![(from, out)];
        let mut hops = 0;
        while let Some((from, out)) = under_way.pop() {
            hops += 1;
            assert!(hops < 200, "it goes round and round");
            came[from - 1].extend(inner(&out));
            for train in &out.trains {
                let IpAddr::V4(to) = train.path.remote.ip() else { panic!() };
                let to = usize::from(to.octets()[3]);
                let mut next = Egress::default();
                for datagram in train.datagrams() {
                    let from = u8::try_from(from).unwrap();
                    let made = |out: &Egress| {
                        inner(out).len() + out.trains.iter().map(|train| train.datagrams().count()).sum::<usize>()
                    };
                    let before = made(&next);
                    self.plane(to).inbound(NOW, path(from), train.tos, &mut datagram.to_vec(), &mut next);
                    assert!(made(&next) <= before + 2, "one packet makes at most one and an error");
                }
                under_way.push((to, next));
            }
        }
        came
    }

    fn send(&mut self, from: usize, packet: &[u8]) -> [Vec<Vec<u8>>; 3] {
        let out = outbound(self.plane(from), packet);
        self.run(from, out)
    }

    /// As if node `from` had made this packet itself.
    fn originate(&mut self, from: usize, packet: &[u8]) -> [Vec<Vec<u8>>; 3] {
        let mut out = Egress::default();
        self.plane(from).send_routed(NOW, packet, &mut out);
        self.run(from, out)
    }

    fn drops(&self, number: usize) -> Vec<(&'static str, u64)> {
        self.planes[number - 1].drops().collect()
    }
}

/// Case I1 and I3: every list there is, whole at the far end, and not a hop of the inner packet used up by it.
#[test]
fn a_path_with_repeats_ends_where_it_should() {
    let paths = [
        vec![exit(3)],
        vec![exit(2)],
        vec![end(2), exit(3)],
        vec![end(2), end(3), end(2), exit(3)],
        vec![end(3), end(2), end(1), end(2), exit(3)],
        vec![end(1), end(2), end(1), end(3), exit(2)],
        [[end(2), end(3)].repeat(7), vec![end(2), exit(3)]].concat(),
    ];
    for path in paths {
        for reduced in [true, false] {
            let mut net = Net::new();
            let with = |to| Policy { reduced, ..policy(to, &path) };
            net.steer(1, vec![with("10.3.0.0/16"), with("fd03::/16")]);
            for packet in [udp4(1, 3, 0xb8, 64, 500), udp6(1, 3, 0xb9, 64, 500)] {
                let came = net.send(1, &packet);
                let mut expected = packet.clone();
                // Behind its exit at node 2 it is ordinary transit.
                if path.last() == Some(&exit(2)) {
                    ip::decrement_hops(&mut expected);
                }
                assert_eq!(came[2], [expected], "{path:?}, reduced: {reduced}");
            }
            let counted: Vec<u64> = net.planes[0].policies().map(|active| active.count.packets).collect();
            assert_eq!(counted, [1, 1]);
            assert!((1..=3).all(|number| net.drops(number).is_empty()), "{path:?}");
        }
    }
}

/// What is inside the ESP of the first link.
fn first_hop(net: &mut Net, packet: &[u8]) -> Vec<u8> {
    let out = outbound(net.plane(1), packet);
    let mut spy = node(2, &[]);
    connect((&mut node(1, &[]), 1), (&mut spy, 2), Cipher::Aes256Gcm, 1);
    spy.set_fib(Arc::new(Fib::new([(Prefix::to("::/0".parse().unwrap()), Target::Local)])));
    inner(&pass(1, &out, &mut spy)).remove(0)
}

#[test]
fn the_outer_header_takes_class_and_label_from_the_inner_one() {
    let mut net = Net::new();
    net.steer(1, vec![policy("10.3.0.0/16", &[end(2), exit(3)]), policy("fd03::/16", &[exit(3)])]);
    let outer = first_hop(&mut net, &udp4(1, 3, 0xbb, 9, 100));
    let header = etherparse::Ipv6Header::from_slice(&outer).unwrap().0;
    assert_eq!((header.traffic_class, header.hop_limit, header.next_header.0), (0xbb, 64, 43));
    assert_ne!(header.flow_label.value(), 0);
    assert_eq!(header.source_addr(), end(1));
    assert_eq!(header.destination_addr(), end(2));
    assert_eq!(outer[40..48], [4, 2, 4, 1, 0, 0, 0, 0]);
    assert_eq!(outer[48..64], exit(3).octets());
    assert_eq!(outer.len(), 64 + 128);
    // One segment needs no SRH.
    let outer = first_hop(&mut net, &udp6(1, 3, 0x2e, 9, 100));
    let header = etherparse::Ipv6Header::from_slice(&outer).unwrap().0;
    assert_eq!((header.traffic_class, header.next_header.0), (0x2e, 41));
    assert_eq!(header.destination_addr(), exit(3));
}

#[test]
fn a_flow_keeps_its_label_and_flows_differ() {
    let mut net = Net::new();
    net.steer(1, vec![policy("fd03::/16", &[exit(3)])]);
    let mut label = |port: u16, payload: usize| {
        let packet = ip::udp6_packet(host6(1).into(), host6(3).into(), 64, 0, port, 2000, &vec![0; payload]);
        let outer = first_hop(&mut net, &packet);
        etherparse::Ipv6Header::from_slice(&outer).unwrap().0.flow_label.value()
    };
    assert_eq!(label(1000, 5), label(1000, 700));
    let labels: std::collections::BTreeSet<u32> = (1000..1064).map(|port| label(port, 5)).collect();
    assert!(labels.len() > 60, "{} labels for 64 flows", labels.len());
}

#[test]
fn congestion_on_the_way_is_heard_at_the_end() {
    let mut net = Net::new();
    net.steer(1, vec![policy("10.3.0.0/16", &[end(2), exit(3)])]);
    let mut out = outbound(net.plane(1), &udp4(1, 3, 0x02, 64, 9));
    out.trains[0].tos |= ecn::MASK;
    let came = net.run(1, out);
    assert_eq!(Header::parse(&came[2][0]).unwrap().tos, 0x03);
    // What cannot carry the mark is dropped, and counted.
    let mut out = outbound(net.plane(1), &udp4(1, 3, 0x00, 64, 9));
    assert_eq!(out.trains[0].tos, 0);
    out.trains[0].tos |= ecn::MASK;
    net.run(1, out);
    assert_eq!(net.drops(2), [("ecn_ce", 1)]);
}

/// The ICMPv6 error in a packet: type, code, pointer or MTU.
fn error6(packet: &[u8]) -> (u8, u8, u32) {
    let header = Header::parse(packet).unwrap();
    assert_eq!(header.protocol, ip::ICMPV6);
    (packet[40], packet[41], u32::from_be_bytes(*packet[44..].first_chunk().unwrap()))
}

/// Case I5: what fits is told to the inner sender, for both families.
#[test]
fn the_mtu_counts_the_path() {
    let mut net = Net::new();
    let path = [end(2), end(3), end(2), end(3), exit(3)];
    net.steer(1, vec![policy("10.3.0.0/16", &path), policy("fd03::/16", &path)]);
    // 1400 - 40 - 8 - 4·16 = 1288.
    for (packet, fits) in [
        (udp4(1, 3, 0, 64, 1288 - 28), true),
        (udp4(1, 3, 0, 64, 1289 - 28), false),
        (udp6(1, 3, 0, 64, 1288 - 48), true),
        (udp6(1, 3, 0, 64, 1289 - 48), false),
    ] {
        let later = NOW;
        let mut out = Egress::default();
        net.plane(1).limit = Limit::default();
        net.plane(1).outbound(later, &packet, &mut out);
        if fits {
            assert_eq!(net.run(1, out)[2], [packet]);
            continue;
        }
        let answer = &inner(&out)[0];
        if packet[0] >> 4 == 4 {
            assert_eq!((answer[20], answer[21], u16::from_be_bytes([answer[26], answer[27]])), (3, 4, 1288));
            assert_eq!(answer[16..20], host4(1));
        } else {
            assert_eq!(error6(answer), (2, 0, 1288));
            assert_eq!(answer[24..40], host6(1));
        }
    }
    // What may be cut is cut before it is encapsulated.
    let mut packet = udp4(1, 3, 0, 64, 1300);
    clear_df(&mut packet);
    let came = net.send(1, &packet);
    assert_eq!(came[2].len(), 2);
    assert!(came[2].iter().all(|piece| piece.len() <= 1288));
}

#[test]
fn a_narrow_router_on_the_way_is_believed_for_a_while() {
    let mut net = Net::new();
    net.steer(1, vec![policy("10.3.0.0/16", &[end(2), exit(3)])]);
    net.plane(2).mtu = 1300;
    assert!(net.send(1, &udp4(1, 3, 0, 64, 1336 - 28))[2].is_empty());
    assert_eq!(net.drops(2), [("too_big", 1)]);
    // 1300 - 64: the next one is answered where it came from.
    let answer = &net.send(1, &udp4(1, 3, 0, 64, 1336 - 28))[0][0];
    assert_eq!(u16::from_be_bytes([answer[26], answer[27]]), 1236);
    assert_eq!(net.send(1, &udp4(1, 3, 0, 64, 1236 - 28))[2].len(), 1);
    // More is no news, and less than IPv6 has everywhere is none either.
    for mtu in [1500, 1279, 0] {
        net.plane(1).tables.policies.learn(NOW, end(2), mtu);
        assert_eq!(net.send(1, &udp4(1, 3, 0, 64, 1236 - 28))[2].len(), 1);
        assert!(net.send(1, &udp4(1, 3, 0, 64, 1237 - 28))[2].is_empty());
    }
    let mut out = Egress::default();
    net.plane(1).outbound(NOW + std::time::Duration::from_secs(601), &udp4(1, 3, 0, 64, 1336 - 28), &mut out);
    assert_eq!(out.trains.len(), 1, "tried again after ten minutes");
}

#[test]
fn the_most_specific_policy_wins() {
    let mut net = Net::new();
    let from = |to: &str, from: &str, segments: &[Ipv6Addr]| Policy {
        prefix: Prefix::new(to.parse().unwrap(), from.parse().unwrap()).unwrap(),
        ..policy(to, segments)
    };
    let port = |ports: std::ops::RangeInclusive<u16>| Policy {
        conditions: Conditions { protocol: Some(ip::UDP), ports: Some(ports), dscp: Some(46) },
        ..policy("10.3.0.0/16", &[exit(3)])
    };
    net.steer(
        1,
        vec![
            policy("0.0.0.0/0", &[exit(2)]),
            policy("10.3.0.0/16", &[end(2), exit(3)]),
            from("10.3.0.0/16", "10.1.0.0/24", &[end(3), exit(2)]),
            port(2000..=2001),
            policy("10.2.0.0/16", &[]),
        ],
    );
    // Source 10.1.0.9: the third; the fourth has a shorter source, however many conditions.
    net.send(1, &udp4(1, 3, 0xb8, 64, 9));
    let other = |tos| udp4_between([10, 1, 9, 9], host4(3), tos, 64, 9);
    net.send(1, &other(0));
    net.send(1, &other(0xb8));
    net.send(1, &udp4_between([10, 1, 0, 9], [192, 0, 2, 1], 0, 64, 9));
    net.send(1, &udp4(1, 2, 0, 64, 9));
    let counts: Vec<u64> = net.planes[0].policies().map(|active| active.count.packets).collect();
    assert_eq!(counts, [1, 1, 1, 1, 0]);
    assert_eq!(net.drops(2), [("no_route", 1)], "node 2 is no exit");
    // All fragments of a protocol take the way of the first.
    let udp = Conditions { protocol: Some(ip::UDP), ..Conditions::default() };
    net.steer(1, vec![Policy { conditions: udp, ..policy("10.3.0.0/16", &[exit(3)]) }]);
    let mut fragment = udp4(1, 3, 0, 64, 9);
    fragment[6..8].copy_from_slice(&[0x20, 0x40]);
    net.send(1, &fragment);
    assert_eq!(net.planes[0].policies().next().unwrap().count.packets, 1);
}

#[test]
fn an_exit_gives_the_kernel_what_it_has_no_route_for() {
    let mut net = Net::new();
    net.steer(1, vec![policy("0.0.0.0/0", &[exit(2)])]);
    let domain = net.plane(2).domain().clone();
    net.plane(2).set_steering(domain, Vec::new(), true);
    let packet = udp4_between(host4(1), [192, 0, 2, 1], 0, 64, 9);
    assert_eq!(net.send(1, &packet)[1], std::slice::from_ref(&packet));
    // A default route of the mesh does not take it away again; a route of its own does.
    let mut routes = with_locators(&[(1, via(1)), (2, Target::Local), (3, via(3))]);
    routes.push(("0.0.0.0/0", via(1)));
    route(net.plane(2), &routes);
    assert_eq!(net.send(1, &packet)[1], [packet]);
    let mut onward = udp4(1, 3, 0, 64, 9);
    net.steer(1, vec![policy("10.0.0.0/8", &[exit(2)])]);
    let came = net.send(1, &onward);
    ip::decrement_hops(&mut onward);
    assert_eq!(came[2], [onward]);
}

#[test]
fn a_policy_without_a_way_drops_or_routes() {
    for (route_if_unreachable, delivered) in [(false, 0), (true, 1)] {
        let mut net = Net::new();
        let nowhere = "fdaa:0:0:9::1".parse().unwrap();
        let gone = policy("10.3.0.0/16", &[end(2), nowhere, exit(3)]);
        net.steer(1, vec![Policy { route_if_unreachable, ..gone }]);
        // A default route is no way to a SID.
        let mut routes = with_locators(&[(1, Target::Local), (2, via(2)), (3, via(2))]);
        routes.push(("::/0", via(2)));
        route(net.plane(1), &routes);
        assert_eq!(net.planes[0].policies().next().unwrap().missing, Some(nowhere));
        assert_eq!(net.send(1, &udp4(1, 3, 0, 64, 9))[2].len(), delivered);
        let expected: &[_] = if delivered == 0 { &[("policy_unreachable", 1)] } else { &[] };
        assert_eq!(net.drops(1), expected);
        routes.push(("fdaa:0:0:9::/64", via(2)));
        route(net.plane(1), &routes);
        assert_eq!(net.planes[0].policies().next().unwrap().missing, None, "it recovers by itself");
    }
}

/// An outer header and SRH of this path around `inner`.
fn around(source: Ipv6Addr, path: &[Ipv6Addr], hops: u8, next: u8, inner: &[u8]) -> Vec<u8> {
    let mut srh = Vec::new();
    let named = srv6::emit(path, true, next, &mut srh);
    srh.extend_from_slice(inner);
    let mut packet = ip::header6(source, path[0], 0, hops, named, srh.len() as u16).to_vec();
    packet.extend_from_slice(&srh);
    packet
}

/// RFC 8986 §4.1 and §4.6 to §4.8: what each mistake is answered with, and counted as.
#[test]
fn mistakes_are_named() {
    let inner4 = udp4(1, 3, 0, 64, 9);
    let good = around(end(1), &[end(2), end(3), exit(3)], 64, 4, &inner4);
    let change = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        packet
    };
    let pointer = |at| Some((4, 0, at));
    let cases: [(&str, Vec<u8>, Option<(u8, u8, u32)>); 11] = [
        ("hop_limit", change(7, 2), None),
        ("bad_segment_list", change(43, 4), pointer(43)),
        ("bad_segment_list", change(43, 255), pointer(43)),
        ("bad_segment_list", change(44, 2), pointer(43)),
        ("bad_segment_list", change(42, 0), pointer(42)),
        ("segments_left", around(end(1), &[exit(2), exit(3)], 64, 4, &inner4), pointer(43)),
        ("sid_upper_layer", around(end(1), &[end(2)], 64, 4, &inner4), Some((4, 4, 40))),
        ("sid_upper_layer", around(end(1), &[exit(2)], 64, 17, &inner4[20..]), Some((4, 4, 40))),
        ("dummy", around(end(1), &[exit(2)], 64, 59, &[]), None),
        ("unknown_sid", around(end(1), &["fdaa:0:0:2::99".parse().unwrap()], 64, 4, &inner4), Some((1, 0, 0))),
        ("malformed", around(end(1), &[exit(2)], 64, 41, &inner4), None),
    ];
    for (reason, packet, answer) in cases {
        let mut net = Net::new();
        net.plane(1).set_probing(true);
        let mut out = Egress::default();
        net.plane(1).send_routed(NOW, &packet, &mut out);
        let out = pass(1, &out, net.plane(2));
        if reason == "hop_limit" {
            // One hop is left for node 3.
            let back = pass(2, &out, net.plane(3));
            assert_eq!(net.drops(3), [(reason, 1)]);
            let at_1 = pass(3, &back, net.plane(2));
            let at_1 = pass(2, &at_1, net.plane(1));
            let [Control::Message { from, message }] = &at_1.control[..] else { panic!("{:?}", at_1.control) };
            assert_eq!((*from, message[0], message[1]), (end(3), 3, 0));
            continue;
        }
        assert_eq!(net.drops(2), [(reason, 1)]);
        let back = pass(2, &out, net.plane(1));
        match (answer, &back.control[..]) {
            (None, []) => assert!(out.trains.is_empty(), "{reason}: silent"),
            (Some((kind, code, at)), [Control::Message { from, message }]) => {
                assert_eq!(*from, end(2));
                assert_eq!((message[0], message[1]), (kind, code), "{reason}");
                assert_eq!(u32::from_be_bytes(*message[4..].first_chunk().unwrap()), at, "{reason}");
                assert_eq!(message[8..16], packet[..8], "{reason}: the packet is quoted as it came");
            }
            (expected, control) => panic!("{reason}: {expected:?}, {control:?}"),
        }
    }
}

#[test]
fn a_list_of_seventeen_is_not_followed() {
    let path = [[end(2), end(3)].repeat(8), vec![end(2), exit(3)]].concat();
    let mut net = Net::new();
    net.originate(1, &around(end(1), &path, 64, 4, &udp4(1, 3, 0, 64, 9)));
    assert_eq!(net.drops(2), [("too_many_segments", 1)]);
}

#[test]
fn the_flavours_take_the_list_off_or_look_inside() {
    let with = |function| srv6::sid(locator(2), function);
    let packet = udp4(1, 3, 0, 64, 9);
    // PSP: node 3 gets it without the SRH, and does not mind.
    let mut net = Net::new();
    let mut out = Egress::default();
    net.plane(1).send_routed(NOW, &around(end(1), &[with(2), exit(3)], 64, 4, &packet), &mut out);
    let at_2 = pass(1, &out, net.plane(2));
    let mut spy = node(3, &[]);
    connect((&mut node(2, &[]), 2), (&mut spy, 3), Cipher::ChaCha20Poly1305, 2);
    spy.set_fib(Arc::new(Fib::new([(Prefix::to("::/0".parse().unwrap()), Target::Local)])));
    let bare = inner(&pass(2, &at_2, &mut spy)).remove(0);
    assert_eq!(bare, around(end(1), &[exit(3)], 63, 4, &packet));
    assert_eq!(net.run(2, at_2)[2], std::slice::from_ref(&packet));
    // USD: End that is the last segment after all.
    let mut expected = packet.clone();
    ip::decrement_hops(&mut expected);
    assert_eq!(net.originate(1, &around(end(1), &[with(28)], 64, 4, &packet))[2], [expected.clone()]);
    // DT4 does not take IPv6, and DT6 not IPv4.
    assert_eq!(net.originate(1, &around(end(1), &[with(19)], 64, 4, &packet))[2], [expected]);
    net.originate(1, &around(end(1), &[with(18)], 64, 4, &packet));
    net.originate(1, &around(end(1), &[with(19)], 64, 41, &udp6(1, 3, 0, 64, 9)));
    assert_eq!(net.drops(2), [("sid_upper_layer", 2)]);
}

#[test]
fn end_answers_pings_with_a_list_and_without() {
    let mut net = Net::new();
    net.plane(1).set_probing(true);
    for path in [vec![end(3)], vec![end(2), end(3)], vec![end(2), end(3), end(2), end(3)]] {
        let request = crate::wire::icmp::echo_request6(end(1), end(3), 7, 1);
        let mut out = Egress::default();
        net.plane(1).send_routed(NOW, &around(end(1), &path, 64, ip::ICMPV6, &request), &mut out);
        let mut under_way = vec![(1_u8, out)];
        let mut answers = Vec::new();
        while let Some((from, out)) = under_way.pop() {
            answers.extend(out.control.clone());
            for train in &out.trains {
                let IpAddr::V4(to) = train.path.remote.ip() else { panic!() };
                let to = to.octets()[3];
                let mut only = Egress::default();
                only.trains.push(train.clone());
                under_way.push((to, pass(from, &only, net.plane(to.into()))));
            }
        }
        let [Control::Message { from, message }] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((*from, message[0]), (end(3), 129));
    }
}

/// RFC 8754 §5.1: SIDs are for the domain.
#[test]
fn the_local_network_may_not_use_sids() {
    let mut net = Net::new();
    let lan = Ipv6Addr::from(host6(1));
    let inner4 = udp4(1, 3, 0, 64, 9);
    for source in [lan, end(1), end(3)] {
        net.send(1, &around(source, &[end(2), exit(3)], 64, 4, &inner4));
        net.send(1, &around(source, &[exit(1)], 64, 4, &inner4));
        net.send(1, &around(source, &[end(2)], 64, 59, &[]));
    }
    assert_eq!(net.drops(1), [("sid_from_outside", 9)]);
    // A list towards an ordinary address.
    net.send(1, &around(lan, &[host6(3).into(), exit(3)], 64, 4, &inner4));
    assert_eq!(net.drops(1), [("sid_from_outside", 9), ("srh_from_outside", 1)]);
    // Nor one that stands behind other headers.
    let plain = around(lan, &[host6(3).into(), exit(3)], 64, 4, &inner4);
    for between in [[43, 0, 0, 0, 0, 0, 0, 1], [43, 0, 253, 0, 0, 0, 0, 0]] {
        let mut hidden = [&plain[..40], &between, &plain[40..]].concat();
        hidden[6] = if between[2] == 253 { 43 } else { 44 };
        let length = u16::try_from(hidden.len() - 40).unwrap();
        hidden[4..6].copy_from_slice(&length.to_be_bytes());
        net.send(1, &hidden);
    }
    assert_eq!(net.drops(1), [("sid_from_outside", 9), ("srh_from_outside", 3)]);
    // Who is listed may, here and where it arrives.
    for number in 1..=3 {
        let domain = Domain { sources: vec!["fd01::/16".parse().unwrap()], ..net.plane(number).domain().clone() };
        net.plane(number).set_steering(domain, Vec::new(), false);
    }
    assert_eq!(net.send(1, &around(lan, &[end(2), exit(3)], 64, 4, &inner4))[2], std::slice::from_ref(&inner4));
    assert_eq!(net.send(1, &around(lan, &[end(1), exit(3)], 64, 4, &inner4))[2], [inner4]);
}

#[test]
fn a_stranger_in_the_mesh_may_not_either() {
    let mut net = Net::new();
    net.originate(1, &around(host6(1).into(), &[end(2), exit(3)], 64, 4, &udp4(1, 3, 0, 64, 9)));
    assert_eq!(net.drops(2), [("sid_from_outside", 1)]);
}

#[test]
fn nesting_has_a_floor() {
    let mut packet = udp4(1, 3, 0, 64, 9);
    let mut next = 4;
    for _ in 0..20 {
        packet = around(end(1), &[exit(3)], 64, next, &packet);
        next = 41;
    }
    let mut net = Net::new();
    assert!(net.originate(1, &packet)[2].is_empty());
    assert_eq!(net.drops(3), [("nested_too_deep", 1)]);
}

#[test]
fn both_ends_hear_of_the_smaller_segment_size() {
    let mut net = Net::new();
    net.steer(1, vec![policy("fd03::/16", &[end(2), end(3), end(2), exit(3)])]);
    // 1400 - 96 - 60 = 1244.
    let syn = |from, to| {
        let mut packet = Vec::new();
        let options = [etherparse::TcpOptionElement::MaximumSegmentSize(1460)];
        let tcp = PacketBuilder::ipv6(host6(from), host6(to), 64).tcp(1, 2, 3, 4).syn().options(&options).unwrap();
        tcp.write(&mut packet, &[]).unwrap();
        packet
    };
    let mss = |packet: &[u8]| u16::from_be_bytes([packet[62], packet[63]]);
    assert_eq!(mss(&net.send(1, &syn(1, 3))[2][0]), 1244);
    assert_eq!(mss(&net.send(3, &syn(3, 1))[0][0]), 1244, "the way back is not steered, the way there is");
}

/// A super-packet takes the path as its packets would one by one.
#[test]
fn a_super_packet_is_steered_as_a_whole() {
    for (ipv6, site) in [(false, "10.2.0.0/16"), (true, "fd02::/16")] {
        let segments = [end(3), end(2), exit(2)];
        let steered = |policies| {
            let mut net = Net::new();
            net.steer(1, policies);
            let (vnet, mut packet) = supers::super_tcp(ipv6, 20_000, 1240, |tcp| tcp.psh());
            let mut out = Egress::default();
            net.plane(1).outbound_super(NOW, &vnet, &mut packet, &mut out);
            assert!(out.trains.len() <= 2, "in trains");
            let counted = net.planes[0].policies().map(|active| active.count.packets).sum::<u64>();
            (net.run(1, out)[1].clone(), counted)
        };
        let (plain, none) = steered(Vec::new());
        assert_eq!((plain.len(), none), (17, 0));
        assert_eq!(steered(vec![policy(site, &segments)]), (plain.clone(), 17));
        // With conditions, too.
        let condition = Conditions { ports: Some(2000..=2000), ..Conditions::default() };
        assert_eq!(steered(vec![Policy { conditions: condition, ..policy(site, &segments) }]), (plain.clone(), 17));
        // What the conditions leave out, and an exception, are no slower than without policies.
        let other = Conditions { ports: Some(1..=1), ..Conditions::default() };
        let left_out = vec![Policy { conditions: other, ..policy(site, &segments) }, policy(site, &[])];
        assert_eq!(steered(left_out), (plain, 0));
    }
}

proptest! {
    /// Whatever a member of the domain writes into a list: nothing panics, and one packet makes at most one packet and an
    /// error at each node.
    #[test]
    fn hostile_lists_cost_one_packet(
        fixed in any::<[u8; 8]>(),
        segments in proptest::collection::vec((1_usize..4, prop_oneof![Just(1_u16), Just(2), Just(20), Just(28), any::<u16>()]), 0..24),
        cut in 0_usize..600,
        flip in any::<u8>(),
    ) {
        let mut net = Net::new();
        let list: Vec<u8> = segments.iter().flat_map(|&(n, f)| srv6::sid(locator(n), f).octets()).collect();
        let mut fixed = fixed;
        if flip & 1 == 0 { fixed[2] = 4; }
        if flip & 2 == 0 { fixed[1] = (segments.len() * 2) as u8; }
        if flip & 4 == 0 { fixed[4] = segments.len().saturating_sub(1) as u8; }
        if flip & 8 == 0 { fixed[3] %= 24; }
        if flip & 16 == 0 { fixed[0] = [4, 41, 43, 58][usize::from(fixed[0] % 4)]; }
        let mut payload = [&fixed[..], &list, &udp4(1, 3, 0, 64, 9)].concat();
        payload.truncate(payload.len().max(8).min(cut.max(8)));
        let mut packet = ip::header6(end(1), end(2), 0, 64, 43, payload.len() as u16).to_vec();
        packet.extend_from_slice(&payload);
        net.originate(1, &packet);
    }
}
