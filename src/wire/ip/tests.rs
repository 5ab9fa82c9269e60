use etherparse::{IpHeaders, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;

const FROM6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const TO6: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 6];

fn udp4(ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 2], ttl).udp(1000, 2000);
    builder.write(&mut packet, payload).unwrap();
    packet
}

fn udp6(hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv6(FROM6, TO6, hops).udp(6696, 6696).write(&mut packet, payload).unwrap();
    packet
}

fn header_checksum_is_right(packet: &[u8]) -> bool {
    Sum::default().plus(&packet[..20]).finish() == 0
}

#[test]
fn reads_what_etherparse_wrote() {
    let packet = udp4(17, b"hello");
    let header = Header::parse(&packet).unwrap();
    assert_eq!(header.source, IpAddr::from([192, 0, 2, 1]));
    assert_eq!(header.destination, IpAddr::from([198, 51, 100, 2]));
    assert_eq!((header.hops, header.length, header.header, header.protocol), (17, 33, 20, UDP));
    assert_eq!(transport(&header, &packet).unwrap().0, UDP);
    let packet = udp6(1, b"hello");
    let header = Header::parse(&packet).unwrap();
    assert_eq!((header.source, header.destination), (IpAddr::from(FROM6), IpAddr::from(TO6)));
    assert_eq!((header.hops, header.length, header.header, header.protocol), (1, 53, 40, UDP));
    let udp = parse_udp6(&header, &packet).unwrap();
    assert_eq!((udp.source_port, udp.destination_port, udp.payload), (6696, 6696, &b"hello"[..]));
}

#[test]
fn octets_behind_the_packet_are_not_part_of_it() {
    let mut packet = udp6(1, b"hello");
    packet.extend_from_slice(&[0xaa; 9]);
    let header = Header::parse(&packet).unwrap();
    assert_eq!(header.length, packet.len() - 9);
    assert_eq!(parse_udp6(&header, &packet).unwrap().payload, b"hello");
}

#[test]
fn lies_about_lengths_are_refused() {
    let good = udp4(64, b"hello");
    for length in 0..good.len() {
        assert!(Header::parse(&good[..length]).is_err(), "cut to {length}");
    }
    let mut short_header = good.clone();
    short_header[0] = 0x44;
    assert_eq!(Header::parse(&short_header), Err(Malformed::Length));
    let mut long_header = good.clone();
    long_header[0] = 0x4f;
    assert_eq!(Header::parse(&long_header), Err(Malformed::Length));
    let mut version = good;
    version[0] = 0x55;
    assert_eq!(Header::parse(&version), Err(Malformed::Version));
    assert_eq!(Header::parse(&[]), Err(Malformed::Truncated));
    let good = udp6(64, b"hello");
    for length in 0..good.len() {
        assert!(Header::parse(&good[..length]).is_err(), "cut to {length}");
    }
}

#[test]
fn any_damage_to_a_udp_datagram_is_noticed() {
    let good = udp6_packet(FROM6.into(), TO6.into(), 1, 0xc0, 6696, 6696, b"babel packet");
    let header = Header::parse(&good).unwrap();
    assert!(parse_udp6(&header, &good).is_ok());
    for bit in 40 * 8..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(parse_udp6(&header, &bad).is_err(), "bit {bit}");
    }
    let mut none = good.clone();
    none[46..48].copy_from_slice(&[0, 0]);
    assert_eq!(parse_udp6(&header, &none), Err(Malformed::Checksum), "no checksum is no IPv6");
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ffff() {
    // A payload word that makes the sum 0xffff, so that the checksum would be zero.
    let plain = udp6_packet(FROM6.into(), TO6.into(), 1, 0, 1, 2, &[0, 0]);
    let checksum = [plain[46], plain[47]];
    let packet = udp6_packet(FROM6.into(), TO6.into(), 1, 0, 1, 2, &checksum);
    assert_eq!(packet[46..48], [0xff, 0xff]);
    let header = Header::parse(&packet).unwrap();
    assert!(parse_udp6(&header, &packet).is_ok());
    // Both zeros of one's complement sum up to the same: only a look at the field tells.
    let mut zero = packet.clone();
    zero[46..48].copy_from_slice(&[0, 0]);
    assert_eq!(parse_udp6(&header, &zero), Err(Malformed::Checksum));
}

#[test]
fn hops_run_out_at_one() {
    for (before, after) in [(0, None), (1, None), (2, Some(1)), (255, Some(254))] {
        for mut packet in [udp4(before, b"x"), udp6(before, b"x")] {
            assert_eq!(decrement_hops(&mut packet), after.is_some());
            assert_eq!(Header::parse(&packet).unwrap().hops, after.unwrap_or(before));
        }
    }
    assert!(!decrement_hops(&mut [0x45, 0, 0]));
}

#[test]
fn the_transport_lies_behind_extension_headers() {
    let mut packet = header6(FROM6.into(), TO6.into(), 0, 64, HOP_BY_HOP, 8 + 16 + 8 + 3).to_vec();
    packet.extend_from_slice(&[ROUTING, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend_from_slice(&[FRAGMENT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let fragment_at = packet.len();
    packet.extend_from_slice(&[ICMPV6, 0, 0, 1, 0, 0, 0, 9]);
    packet.extend_from_slice(&[1, 2, 3]);
    let header = Header::parse(&packet).unwrap();
    assert_eq!(transport(&header, &packet), Some((ICMPV6, &[1, 2, 3][..])));
    packet[fragment_at + 3] = 9;
    assert_eq!(transport(&header, &packet), None, "a later fragment");
    packet[41] = 200;
    assert_eq!(transport(&header, &packet), None, "a chain that breaks off");
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), any::<u8>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
        |(v4, hops, tos, payload)| {
            let mut packet = if v4 { udp4(hops, &payload) } else { udp6(hops, &payload) };
            if v4 {
                packet[1] = tos;
                packet[10..12].copy_from_slice(&[0, 0]);
                let sum = Sum::default().plus(&packet[..20]).finish().to_be_bytes();
                packet[10..12].copy_from_slice(&sum);
            } else {
                packet[0] |= tos >> 4;
                packet[1] |= tos << 4;
            }
            packet
        },
    )
}

proptest! {
    #[test]
    fn changes_on_the_way_equal_a_full_computation(mut packet in any_packet(), ecn in 0..4_u8) {
        let before = Header::parse(&packet).unwrap();
        set_ecn(&mut packet, ecn);
        let marked = Header::parse(&packet).unwrap();
        prop_assert_eq!(marked, Header { tos: (before.tos & 0xfc) | ecn, ..before });
        prop_assert!(!before.is_ipv4() || header_checksum_is_right(&packet));
        if decrement_hops(&mut packet) {
            prop_assert_eq!(Header::parse(&packet).unwrap(), Header { hops: before.hops - 1, ..marked });
        } else {
            prop_assert!(before.hops <= 1);
        }
        prop_assert!(!before.is_ipv4() || header_checksum_is_right(&packet));
    }

    #[test]
    fn etherparse_reads_what_we_wrote(
        payload in proptest::collection::vec(any::<u8>(), 0..1400), tclass: u8, hops: u8, ports: (u16, u16),
    ) {
        let packet = udp6_packet(FROM6.into(), TO6.into(), hops, tclass, ports.0, ports.1, &payload);
        let sliced = SlicedPacket::from_ip(&packet).unwrap();
        let (IpHeaders::Ipv6(ip, _), _) = IpHeaders::from_slice(&packet).unwrap() else { panic!("not IPv6") };
        prop_assert_eq!((ip.traffic_class, ip.hop_limit), (tclass, hops));
        prop_assert_eq!((ip.source, ip.destination), (FROM6, TO6));
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
        prop_assert_eq!((udp.source_port(), udp.destination_port()), ports);
        prop_assert_eq!(udp.payload(), &payload[..]);
        prop_assert_eq!(udp.to_header().calc_checksum_ipv6(&ip, &payload).unwrap(), udp.checksum());
    }

    #[test]
    fn no_input_panics(mut octets in proptest::collection::vec(any::<u8>(), 0..300), first in 0x40..0x70_u8) {
        if let Some(to) = octets.first_mut() {
            *to = first;
        }
        if let Ok(header) = Header::parse(&octets) {
            prop_assert!(header.length <= octets.len());
            let _ = transport(&header, &octets);
            let _ = parse_udp6(&header, &octets);
        }
        set_ecn(&mut octets, 3);
        decrement_hops(&mut octets);
    }
}
