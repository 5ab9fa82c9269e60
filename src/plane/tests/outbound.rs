use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

#[test]
fn packets_of_both_families_arrive_as_they_were() {
    for cipher in CIPHERS {
        let (mut a, mut b) = two(cipher);
        let packets = [udp4(1, 2, 0, 64, 100), udp6(1, 2, 0, 64, 1000), udp4(1, 2, 0xb8, 1, 0), udp6(1, 2, 0x22, 1, 1)];
        let mut out = Egress::default();
        for packet in &packets {
            a.outbound(NOW, packet, &mut out);
        }
        assert!(out.trains.iter().all(|train| train.path == path(2)));
        assert_eq!(inner(&pass(1, &out, &mut b)), packets);
        let octets = packets.iter().map(|packet| packet.len() as u64).sum();
        let sent = a.link(LinkId(2)).unwrap();
        assert_eq!((sent.packets_out, sent.octets_out, sent.sent, sent.heard), (4, octets, Some(NOW), None));
        let heard = b.link(LinkId(1)).unwrap();
        assert_eq!((heard.packets_in, heard.octets_in, heard.sent, heard.heard), (4, octets, None, Some(NOW)));
        assert_eq!((drops(&a), drops(&b)), (vec![], vec![]));
    }
}

#[test]
fn octets_behind_the_packet_stay_behind() {
    let (mut a, mut b) = two(Cipher::Aes128Gcm);
    let packet = udp4(1, 2, 0, 64, 10);
    let longer: Vec<u8> = packet.iter().copied().chain([0xee; 30]).collect();
    let out = outbound(&mut a, &longer);
    assert_eq!(out.trains[0].stride, crate::wire::esp::sealed_len(packet.len()));
    assert_eq!(inner(&pass(1, &out, &mut b)), [packet]);
}

#[test]
fn equal_sizes_fill_trains_of_44() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let mut out = Egress::default();
    for _ in 0..100 {
        a.outbound(NOW, &udp4(1, 2, 0, 64, 1300), &mut out);
    }
    let counts: Vec<_> = out.trains.iter().map(|train| train.datagrams().count()).collect();
    assert_eq!(counts, [44, 44, 12]);
    assert_eq!(pass(1, &out, &mut b).inner_ends.len(), 100);
}

/// Case G3: 64 DSCP and 4 ECN values in one batch, both families; none leaks into another packet's datagram.
#[test]
fn marks_are_copied_outward() {
    let (mut a, mut b) = two(Cipher::ChaCha20Poly1305);
    let mut out = Egress::default();
    let mut sent = Vec::new();
    for tos in 0..=255 {
        for packet in [udp4(1, 2, tos, 64, 20), udp6(1, 2, tos, 64, 20)] {
            a.outbound(NOW, &packet, &mut out);
            sent.push(packet);
        }
    }
    let marks: BTreeSet<u8> = out.trains.iter().map(|train| train.tos).collect();
    assert_eq!(marks.len(), 256);
    let came = inner(&pass(1, &out, &mut b));
    assert_eq!(came, sent);
    for train in &out.trains {
        let mut one = Egress::default();
        one.trains.push(train.clone());
        let (_, mut fresh) = two(Cipher::ChaCha20Poly1305);
        for packet in inner(&pass(1, &one, &mut fresh)) {
            assert_eq!(Header::parse(&packet).unwrap().tos, train.tos);
        }
    }
}

#[test]
fn what_has_no_way_is_reported_to_its_sender() {
    let mut a = node(1, &[("10.2.0.0/16", via(2)), ("fd02::/16", via(2)), ("10.1.0.0/16", Target::Local)]);
    route(
        &mut a,
        &[
            ("10.1.0.0/16", Target::Local),
            ("10.2.0.0/16", via(2)),
            ("10.3.0.0/16", Target::Unreachable),
            ("fd01::/16", Target::Local),
            ("fd02::/16", via(2)),
            ("fd03::/16", Target::Unreachable),
        ],
    );
    let later = |i: u64| NOW + Duration::from_millis(20 * i);
    let cases = [
        (1, "local_loop", (3, 1), (1, 3)),
        (2, "no_sa", (3, 1), (1, 3)),
        (3, "unreachable", (3, 1), (1, 3)),
        (4, "no_route", (3, 0), (1, 0)),
    ];
    for (i, (site, reason, v4, v6)) in (0..).zip(cases) {
        let before = a.drops().find(|&(name, _)| name == reason).map_or(0, |(_, count)| count);
        let mut out = Egress::default();
        a.outbound(later(i), &udp4(1, site, 0, 64, 9), &mut out);
        a.outbound(later(i), &udp6(1, site, 0, 64, 9), &mut out);
        assert!(out.trains.is_empty());
        let [error4, error6] = &inner(&out)[..] else { panic!("{reason}: {} errors", out.inner_ends.len()) };
        assert_eq!(icmp(error4), (address4(1), host4(1).into(), v4.0, v4.1, 0), "{reason}");
        assert_eq!(icmp(error6), (address6(1), host6(1).into(), v6.0, v6.1, 0), "{reason}");
        assert_eq!(a.drops().find(|&(name, _)| name == reason).unwrap().1, before + 2);
    }
}

#[test]
fn errors_come_slowly() {
    let mut a = node(1, &[]);
    let mut out = Egress::default();
    for i in 0..100 {
        // A thousand a second for a tenth of a second.
        a.outbound(NOW + Duration::from_millis(i), &udp4(1, 4, 0, 64, 9), &mut out);
    }
    assert_eq!(out.inner_ends.len(), 10);
    assert_eq!(drops(&a), [("no_route", 100)]);
}

#[test]
fn errors_about_errors_are_not_made() {
    let mut a = node(1, &[]);
    let first = outbound(&mut a, &udp4(1, 4, 0, 64, 9));
    let mut back = inner(&first).remove(0);
    // Back to where it came from, as if the kernel had no better idea.
    back[12..20].copy_from_slice(&[10, 1, 0, 8, 10, 4, 0, 9]);
    assert!(is_silent(&outbound(&mut a, &back)));
    assert_eq!(drops(&a), [("no_route", 2)]);
    // What gets no answer takes nothing from the limit.
    let other = outbound(&mut a, &udp4_between([10, 1, 0, 8], host4(4), 0, 64, 9));
    assert_eq!(other.inner_ends.len(), 1);
}

#[test]
fn a_node_without_ipv4_reports_from_the_dummy_address() {
    let mut a = node(1, &[]);
    a.set_addresses(vec![address6(1)]);
    let out = outbound(&mut a, &udp4(1, 4, 0, 64, 9));
    assert_eq!(icmp(&inner(&out)[0]).0, IpAddr::from([192, 0, 0, 8]));
    a.set_addresses(vec![]);
    assert!(is_silent(&outbound(&mut a, &udp6(1, 4, 0, 64, 9))));
}

/// Case F1: to the sender, from a node address, with the largest size that passes, and that size passes.
#[test]
fn too_big_is_answered_with_what_fits() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let out = outbound(&mut a, &udp4(1, 2, 0, 64, 1373));
    assert_eq!(icmp(&inner(&out)[0]), (address4(1), host4(1).into(), 3, 4, MTU));
    let out = outbound(&mut a, &udp6(1, 2, 0, 64, 1353));
    let error = &inner(&out)[0];
    let (source, destination, kind, code, mtu) = icmp(error);
    assert_eq!((source, destination, kind, code, mtu), (address6(1), host6(1).into(), 2, 0, MTU));
    assert_eq!(drops(&a), [("too_big", 2)]);
    for packet in [udp4(1, 2, 0, 64, 1372), udp6(1, 2, 0, 64, 1352)] {
        assert_eq!(packet.len(), usize::from(MTU));
        let out = outbound(&mut a, &packet);
        assert_eq!(out.trains[0].stride, 1436);
        assert_eq!(inner(&pass(1, &out, &mut b)), [packet]);
    }
}

#[test]
fn without_df_it_is_cut_before_it_is_sealed() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let mut packet = udp4(1, 2, 0x2e, 64, 3000);
    clear_df(&mut packet);
    let out = outbound(&mut a, &packet);
    assert!(out.inner_ends.is_empty() && out.trains.iter().all(|train| train.tos == 0x2e));
    let fragments = inner(&pass(1, &out, &mut b));
    assert_eq!(fragments.len(), 3);
    let mut joined = Vec::new();
    for fragment in &fragments {
        assert!(fragment.len() <= usize::from(MTU));
        assert_eq!(ip::Sum::default().plus(&fragment[..20]).finish(), 0);
        joined.extend_from_slice(&fragment[20..]);
    }
    assert_eq!(joined, packet[20..]);
    assert_eq!(drops(&a), []);
    assert_eq!(a.link(LinkId(2)).unwrap().packets_out, 3);
}

#[test]
fn what_kernels_say_to_their_device_goes_nowhere() {
    let (mut a, _) = two(Cipher::Aes256Gcm);
    let everywhere = [("0.0.0.0/0", via(2)), ("::/0", via(2))];
    route(&mut a, &everywhere);
    let mut all_routers = [0; 16];
    (all_routers[0], all_routers[1], all_routers[15]) = (0xff, 2, 2);
    let mut link_local = [0; 16];
    (link_local[0], link_local[1], link_local[15]) = (0xfe, 0x80, 1);
    let mut loopback = [0; 16];
    loopback[15] = 1;
    let cases = [
        (udp6_between(link_local, all_routers, 0, 255, 9), "multicast"),
        (udp6_between([0; 16], all_routers, 0, 255, 9), "multicast"),
        (udp4_between(host4(1), [224, 0, 0, 251], 0, 1, 9), "multicast"),
        (udp4_between(host4(1), [255; 4], 0, 1, 9), "multicast"),
        (udp6_between(link_local, host6(2), 0, 64, 9), "link_local"),
        (udp6_between(host6(1), link_local, 0, 64, 9), "link_local"),
        (udp4_between([169, 254, 1, 1], host4(2), 0, 64, 9), "link_local"),
        (udp4_between(host4(1), [169, 254, 1, 1], 0, 64, 9), "link_local"),
        (udp6_between(host6(1), loopback, 0, 64, 9), "martian"),
        (udp6_between([0; 16], host6(2), 0, 64, 9), "martian"),
        (udp4_between([127, 0, 0, 1], host4(2), 0, 64, 9), "martian"),
        (udp4_between(host4(1), [127, 9, 9, 9], 0, 64, 9), "martian"),
        (udp4_between([0, 0, 0, 0], host4(2), 0, 64, 9), "martian"),
        (udp4_between([224, 1, 1, 1], host4(2), 0, 64, 9), "martian"),
        (vec![], "malformed"),
        (vec![0x45; 19], "malformed"),
        (vec![0x60; 39], "malformed"),
        (vec![0x15; 100], "malformed"),
    ];
    for (packet, reason) in cases {
        let before = drops(&a);
        assert!(is_silent(&outbound(&mut a, &packet)), "{reason}");
        let count =
            |drops: &[(&str, u64)]| drops.iter().find(|(name, _)| *name == reason).map_or(0, |&(_, count)| count);
        assert_eq!(count(&drops(&a)), count(&before) + 1, "{reason}: {packet:02x?}");
    }
}

#[test]
fn a_new_table_counts_from_the_next_packet_on() {
    let (mut a, _) = two(Cipher::Aes256Gcm);
    assert_eq!(outbound(&mut a, &udp4(1, 2, 0, 64, 9)).trains.len(), 1);
    route(&mut a, &[("10.2.0.0/16", Target::Unreachable)]);
    assert!(outbound(&mut a, &udp4(1, 2, 0, 64, 9)).trains.is_empty());
    route(&mut a, &[("10.2.0.0/16", via(2))]);
    assert_eq!(outbound(&mut a, &udp4(1, 2, 0, 64, 9)).trains.len(), 1);
}

#[test]
fn an_sa_wears_out_with_a_warning_in_time() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let skip =
        |plane: &mut Plane, sent| plane.links.get_mut(&LinkId(2)).unwrap().out.last_mut().unwrap().sa.skip_to(sent);
    skip(&mut a, (1 << 31) - 2);
    let mut out = Egress::default();
    for _ in 0..5 {
        a.outbound(NOW, &udp4(1, 2, 0, 64, 9), &mut out);
    }
    assert_eq!(out.control, [Control::Worn { link: LinkId(2) }]);
    skip(&mut a, u32::MAX - 2);
    out.clear();
    for _ in 0..5 {
        a.outbound(NOW, &udp4(1, 2, 0, 64, 9), &mut out);
    }
    assert_eq!(datagrams(&out).len(), 2);
    assert_eq!(drops(&a), [("sa_worn_out", 3)]);
    assert_eq!(pass(1, &out, &mut b).inner_ends.len(), 2);
    // A new Child SA starts from one.
    connect((&mut a, 1), (&mut b, 2), Cipher::Aes256Gcm, 2);
    let out = outbound(&mut a, &udp4(1, 2, 0, 64, 9));
    assert_eq!(datagrams(&out)[0][4..8], [0, 0, 0, 1]);
    assert_eq!(pass(1, &out, &mut b).inner_ends.len(), 1);
}

#[test]
fn own_packets_go_over_the_link_they_are_meant_for() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    route(&mut a, &[]);
    let mut out = Egress::default();
    let packet = udp6(1, 2, 0xc0, 1, 50);
    assert!(a.send(NOW, LinkId(2), &packet, &mut out));
    assert_eq!(inner(&pass(1, &out, &mut b)), std::slice::from_ref(&packet), "its hop limit is not touched");
    assert!(!a.send(NOW, LinkId(7), &packet, &mut out));
    assert!(!a.send(NOW, LinkId(2), &packet[..50], &mut out));
    assert_eq!(drops(&a), [("malformed", 1), ("no_sa", 1)]);
}
