//! Super-packets of the TUN device.

#![expect(clippy::cast_possible_truncation, reason = "small numbers")]

use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;
use crate::plane::coalesce::Coalescer;
use crate::wire::vnet::{Checksum, Kind, Segments, Vnet};

const TCP: u16 = 16;
const UDP: u16 = 6;

/// As the kernel hands it over: lengths of the whole, the checksum field holding the pseudo-header's sum.
pub(super) fn super_tcp(
    ipv6: bool,
    payload: usize,
    size: u16,
    flags: fn(
        etherparse::PacketBuilderStep<etherparse::TcpHeader>,
    ) -> etherparse::PacketBuilderStep<etherparse::TcpHeader>,
) -> (Vnet, Vec<u8>) {
    let builder =
        if ipv6 { PacketBuilder::ipv6(host6(1), host6(2), 64) } else { PacketBuilder::ipv4(host4(1), host4(2), 64) };
    let tcp = builder.tcp(1000, 2000, 0xffff_fff0, 500).ack(7);
    let tcp = flags(tcp.options(&[etherparse::TcpOptionElement::Timestamp(5, 4)]).unwrap());
    let mut packet = Vec::new();
    let payload: Vec<u8> = (0..payload).map(|i| (i % 253) as u8).collect();
    tcp.write(&mut packet, &payload).unwrap();
    if !ipv6 {
        packet[4..6].copy_from_slice(&[0xff, 0xff]);
        packet[10..12].copy_from_slice(&[0, 0]);
        let sum = ip::Sum::default().plus(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let start = if ipv6 { 40 } else { 20 };
    unfinish(&mut packet, start, TCP, ip::TCP);
    let kind = if ipv6 { Kind::Tcp6 } else { Kind::Tcp4 };
    let segments = Segments { kind, size, header: start as u16 + 32 };
    (Vnet { checksum: Some(Checksum { start: start as u16, offset: TCP }), segments: Some(segments) }, packet)
}

/// Puts the pseudo-header's sum where the checksum stands.
fn unfinish(packet: &mut [u8], start: usize, offset: u16, protocol: u8) {
    let addresses = if start == 20 { packet[12..20].to_vec() } else { packet[8..40].to_vec() };
    let length = u32::try_from(packet.len() - start).unwrap();
    let sum = ip::Sum::default().plus(&addresses).plus(&length.to_be_bytes()).plus(&[0, protocol]).finish();
    let at = start + usize::from(offset);
    packet[at..at + 2].copy_from_slice(&(!sum).to_be_bytes());
}

fn carried(vnet: &Vnet, packet: &[u8]) -> Vec<Vec<u8>> {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let mut out = Egress::default();
    a.outbound_super(NOW, vnet, &mut packet.to_vec(), &mut out);
    assert_eq!(drops(&a), []);
    inner(&pass(1, &out, &mut b))
}

fn check_tcp(packet: &[u8]) -> etherparse::TcpHeader {
    let sliced = etherparse::SlicedPacket::from_ip(packet).unwrap();
    let Some(etherparse::TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("not TCP") };
    let sum = match sliced.net.unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap()
        }
        etherparse::NetSlice::Ipv6(ip) => {
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap()
        }
        _ => panic!("not IP"),
    };
    assert_eq!(tcp.checksum(), sum);
    tcp.to_header()
}

#[test]
fn a_tcp_super_packet_is_cut_as_the_kernel_would() {
    for ipv6 in [false, true] {
        let (vnet, packet) = super_tcp(ipv6, 1328 * 3 + 1, 1328, |tcp| tcp.psh().fin().cwr());
        let packets = carried(&vnet, &packet);
        let head = if ipv6 { 72 } else { 52 };
        assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [1328 + head, 1328 + head, 1328 + head, 1 + head]);
        for (i, packet) in packets.iter().enumerate() {
            let tcp = check_tcp(packet);
            assert_eq!(tcp.sequence_number, 0xffff_fff0_u32.wrapping_add(1328 * i as u32));
            assert_eq!((tcp.psh, tcp.fin, tcp.cwr), (i == 3, i == 3, i == 0));
            if !ipv6 {
                assert_eq!(packet[4..6], 0xffff_u16.wrapping_add(i as u16).to_be_bytes());
            }
        }
        let payload: Vec<u8> = packets.iter().flat_map(|packet| packet[head..].to_vec()).collect();
        assert_eq!(payload, packet[head..]);
    }
}

#[test]
fn a_super_packet_is_one_train() {
    let (mut a, _) = two(Cipher::Aes256Gcm);
    let (vnet, mut packet) = super_tcp(false, 1328 * 40, 1328, |tcp| tcp);
    let mut out = Egress::default();
    a.outbound_super(NOW, &vnet, &mut packet, &mut out);
    assert_eq!(out.trains.iter().map(|train| train.datagrams().count()).collect::<Vec<_>>(), [40]);
}

#[test]
fn a_udp_super_packet_has_whole_datagrams() {
    for ipv6 in [false, true] {
        let builder = if ipv6 {
            PacketBuilder::ipv6(host6(1), host6(2), 64)
        } else {
            PacketBuilder::ipv4(host4(1), host4(2), 64)
        };
        let mut packet = Vec::new();
        builder.udp(1, 2).write(&mut packet, &[0x5a; 1200 * 2 + 3]).unwrap();
        let start = if ipv6 { 40 } else { 20 };
        unfinish(&mut packet, start, UDP, ip::UDP);
        let vnet = Vnet {
            checksum: Some(Checksum { start: start as u16, offset: UDP }),
            segments: Some(Segments { kind: Kind::Udp, size: 1200, header: start as u16 + 8 }),
        };
        let packets = carried(&vnet, &packet);
        assert_eq!(packets.len(), 3);
        for (packet, length) in packets.iter().zip([1200, 1200, 3]) {
            let sliced = etherparse::SlicedPacket::from_ip(packet).unwrap();
            let Some(etherparse::TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
            assert_eq!(udp.payload(), vec![0x5a; length]);
            let sum = match sliced.net.unwrap() {
                etherparse::NetSlice::Ipv4(ip) => {
                    etherparse::UdpHeader::with_ipv4_checksum(1, 2, &ip.header().to_header(), udp.payload())
                }
                etherparse::NetSlice::Ipv6(ip) => {
                    etherparse::UdpHeader::with_ipv6_checksum(1, 2, &ip.header().to_header(), udp.payload())
                }
                _ => panic!("not IP"),
            };
            assert_eq!(udp.checksum(), sum.unwrap().checksum);
        }
    }
}

#[test]
fn a_checksum_left_undone_is_finished() {
    let mut whole = udp4(1, 2, 0, 64, 33);
    let expected = whole.clone();
    unfinish(&mut whole, 20, UDP, ip::UDP);
    assert_ne!(whole, expected);
    let vnet = Vnet { checksum: Some(Checksum { start: 20, offset: UDP }), segments: None };
    assert_eq!(carried(&vnet, &whole), [expected]);
}

#[test]
fn segments_that_do_not_fit_are_reported_one_by_one() {
    let (mut a, _) = two(Cipher::Aes256Gcm);
    let (vnet, mut packet) = super_tcp(true, 3000, 1400, |tcp| tcp);
    let mut out = Egress::default();
    a.outbound_super(NOW, &vnet, &mut packet, &mut out);
    assert_eq!(drops(&a), [("too_big", 2)]);
    let errors = inner(&out);
    assert_eq!(errors.len(), 1, "the limit on errors");
    assert_eq!(icmp(&errors[0]), (address6(1), IpAddr::from(host6(1)), 2, 0, MTU));
    assert_eq!(out.trains.len(), 1, "the short rest passes");
}

#[test]
fn contradictions_are_malformed() {
    let (mut a, _) = two(Cipher::Aes256Gcm);
    let (good, packet) = super_tcp(false, 3000, 1328, |tcp| tcp);
    let segments = good.segments.unwrap();
    let bad = [
        Vnet { checksum: None, ..good },
        Vnet { checksum: Some(Checksum { start: 21, offset: TCP }), ..good },
        Vnet { segments: Some(Segments { size: 0, ..segments }), ..good },
        Vnet { segments: Some(Segments { kind: Kind::Tcp6, ..segments }), ..good },
        Vnet { segments: Some(Segments { kind: Kind::Udp, ..segments }), ..good },
        Vnet { checksum: Some(Checksum { start: 60_000, offset: TCP }), segments: None },
        Vnet { checksum: Some(Checksum { start: 20, offset: 60_000 }), segments: None },
    ];
    for vnet in bad {
        let mut out = Egress::default();
        a.outbound_super(NOW, &vnet, &mut packet.clone(), &mut out);
        assert!(is_silent(&out), "{vnet:?}");
    }
    assert_eq!(drops(&a), [("malformed", bad.len() as u64)]);
}

proptest! {
    /// Coalescing what was cut gives the super-packet back, but for PSH, which ends a run wherever it stands.
    #[test]
    fn merged_again_it_is_the_same(ipv6: bool, payload in 2..20_000_usize, size in 400..1328_u16) {
        prop_assume!(payload > usize::from(size) && payload.div_ceil(size.into()) <= 44);
        let (vnet, packet) = super_tcp(ipv6, payload, size, |tcp| tcp.psh());
        let packets = carried(&vnet, &packet);
        let mut octets = packets.concat();
        let mut end = 0;
        let ends: Vec<usize> = packets.iter().map(|packet| { end += packet.len(); end }).collect();
        let mut coalescer = Coalescer::default();
        coalescer.merge(&mut octets, &ends);
        let mut writes = Vec::new();
        coalescer.each(&octets, |header, pieces| writes.push((*header, pieces.concat())));
        prop_assert_eq!(writes, [(vnet.emit(), packet)]);
    }

    #[test]
    fn no_input_panics(
        header: [u8; 10],
        mut packet in proptest::collection::vec(any::<u8>(), 0..200),
        version in prop::sample::select(vec![0x45_u8, 0x46, 0x60]),
    ) {
        if let (Some(vnet), Some(first)) = (Vnet::parse(header), packet.first_mut()) {
            *first = version;
            let (mut a, _) = two(Cipher::ChaCha20Poly1305);
            a.outbound_super(NOW, &vnet, &mut packet, &mut Egress::default());
        }
    }
}
