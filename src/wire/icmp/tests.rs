use etherparse::icmpv6::DestUnreachableCode as Code6;
use etherparse::{Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, IpHeaders, Ipv4Header, PacketBuilder, icmpv4};
use proptest::prelude::*;

use super::*;

const HOST4: [u8; 4] = [192, 0, 2, 1];
const HOST6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const FAR6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

fn us4() -> IpAddr {
    IpAddr::from([10, 66, 0, 1])
}

fn us6() -> IpAddr {
    "fd66::1".parse().unwrap()
}

fn udp4(payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4(HOST4, [198, 51, 100, 2], 64).udp(1000, 2000).write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn udp6(payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv6(HOST6, FAR6, 64).udp(1000, 2000).write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn about(problem: Problem, source: IpAddr, packet: &[u8]) -> Option<Vec<u8>> {
    error(problem, source, &Header::parse(packet).unwrap(), packet)
}

/// The ICMP type of an IPv4 error as etherparse reads it, after checking everything else about it.
fn read4(reply: &[u8], original: &[u8]) -> Icmpv4Type {
    let (ip, rest) = Ipv4Header::from_slice(reply).unwrap();
    assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
    assert_eq!((ip.source, ip.destination), ([10, 66, 0, 1], HOST4));
    assert_eq!(usize::from(ip.total_len), reply.len());
    let icmp = Icmpv4Slice::from_slice(rest).unwrap();
    assert!(icmp.header().icmp_type.calc_checksum(icmp.payload()) == icmp.checksum());
    assert!(original.starts_with(icmp.payload()));
    assert!(reply.len() <= 576 && (icmp.payload().len() == original.len() || reply.len() >= 568));
    icmp.icmp_type()
}

fn read6(reply: &[u8], original: &[u8]) -> Icmpv6Type {
    let (headers, rest) = IpHeaders::from_slice(reply).unwrap();
    let IpHeaders::Ipv6(ip, _) = headers else { panic!("not IPv6") };
    assert_eq!((IpAddr::from(ip.source), ip.destination), (us6(), HOST6));
    let icmp = Icmpv6Slice::from_slice(rest.payload).unwrap();
    assert!(icmp.is_checksum_valid(ip.source, ip.destination));
    assert!(original.starts_with(icmp.payload()));
    assert!(reply.len() <= 1280 && (icmp.payload().len() == original.len() || reply.len() == 1280));
    icmp.icmp_type()
}

#[test]
fn errors_about_ipv4() {
    use icmpv4::DestUnreachableHeader::{FragmentationNeeded, Host, Network};
    for payload in [0, 1, 100, 519, 520, 521, 1400] {
        let packet = udp4(payload);
        let read = |problem| read4(&about(problem, us4(), &packet).unwrap(), &packet);
        assert_eq!(read(Problem::NoRoute), Icmpv4Type::DestinationUnreachable(Network));
        assert_eq!(read(Problem::Unreachable), Icmpv4Type::DestinationUnreachable(Host));
        let needed = FragmentationNeeded { next_hop_mtu: 1400 };
        assert_eq!(read(Problem::TooBig { mtu: 1400 }), Icmpv4Type::DestinationUnreachable(needed));
        let exceeded = Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit);
        assert_eq!(read(Problem::TimeExceeded), exceeded);
    }
}

#[test]
fn errors_about_ipv6() {
    for payload in [0, 1, 100, 1183, 1184, 1185, 1400] {
        let packet = udp6(payload);
        let read = |problem| read6(&about(problem, us6(), &packet).unwrap(), &packet);
        assert_eq!(read(Problem::NoRoute), Icmpv6Type::DestinationUnreachable(Code6::NoRoute));
        assert_eq!(read(Problem::Unreachable), Icmpv6Type::DestinationUnreachable(Code6::Address));
        assert_eq!(read(Problem::TooBig { mtu: 1400 }), Icmpv6Type::PacketTooBig { mtu: 1400 });
        assert_eq!(read(Problem::TooBig { mtu: 576 }), Icmpv6Type::PacketTooBig { mtu: 1280 });
        let exceeded = Icmpv6Type::TimeExceeded(etherparse::icmpv6::TimeExceededCode::HopLimitExceeded);
        assert_eq!(read(Problem::TimeExceeded), exceeded);
    }
}

#[test]
fn octets_behind_the_packet_are_not_quoted() {
    let mut packet = udp4(4);
    let length = packet.len();
    packet.extend_from_slice(&[0xee; 8]);
    let reply = about(Problem::NoRoute, us4(), &packet).unwrap();
    assert_eq!(reply.len(), 28 + length);
}

#[test]
fn no_error_about_an_error() {
    let error4 = about(Problem::NoRoute, us4(), &udp4(9)).unwrap();
    assert_eq!(about(Problem::NoRoute, us4(), &error4), None);
    let error6 = about(Problem::NoRoute, us6(), &udp6(9)).unwrap();
    assert_eq!(about(Problem::NoRoute, us6(), &error6), None);
    for (kind, is_error) in [(3, true), (5, true), (11, true), (12, true), (8, false), (0, false), (13, false)] {
        let mut packet = udp4(9);
        (packet[9], packet[20]) = (ip::ICMP, kind);
        assert_eq!(about(Problem::TimeExceeded, us4(), &packet).is_none(), is_error, "ICMP type {kind}");
    }
    for (kind, is_error) in [(0, true), (2, true), (127, true), (137, true), (128, false), (129, false), (135, false)] {
        let mut packet = udp6(9);
        (packet[6], packet[40]) = (ip::ICMPV6, kind);
        assert_eq!(about(Problem::TimeExceeded, us6(), &packet).is_none(), is_error, "ICMPv6 type {kind}");
    }
}

#[test]
fn no_error_about_later_fragments_and_groups() {
    let mut later = udp4(9);
    later[7] = 1;
    assert_eq!(about(Problem::NoRoute, us4(), &later), None);
    for (at, address) in [(16, [224, 0, 0, 1]), (16, [255; 4]), (12, [0; 4]), (12, [127, 0, 0, 1]), (12, [255; 4])] {
        let mut packet = udp4(9);
        packet[at..at + 4].copy_from_slice(&address);
        assert_eq!(about(Problem::NoRoute, us4(), &packet), None, "{address:?}");
    }
    let mut packet = udp6(9);
    packet[24] = 0xff;
    assert_eq!(about(Problem::TooBig { mtu: 1280 }, us6(), &packet), None);
    assert_eq!(about(Problem::NoRoute, us4(), &udp6(9)), None, "families do not mix");
}

#[test]
fn an_echo_request_is_answered() {
    let mut request = Vec::new();
    let builder = PacketBuilder::ipv6(HOST6, FAR6, 9).icmpv6_echo_request(77, 3);
    builder.write(&mut request, b"are you there").unwrap();
    let reply = echo_reply(us6(), &Header::parse(&request).unwrap(), &request).unwrap();
    let (IpHeaders::Ipv6(ip, _), rest) = IpHeaders::from_slice(&reply).unwrap() else { panic!("not IPv6") };
    assert_eq!((IpAddr::from(ip.source), ip.destination, ip.hop_limit), (us6(), HOST6, 64));
    let icmp = Icmpv6Slice::from_slice(rest.payload).unwrap();
    assert!(icmp.is_checksum_valid(ip.source, ip.destination));
    assert_eq!(icmp.payload(), b"are you there");
    let Icmpv6Type::EchoReply(echo) = icmp.icmp_type() else { panic!("not a reply") };
    assert_eq!((echo.id, echo.seq), (77, 3));

    let mut request = Vec::new();
    PacketBuilder::ipv4(HOST4, [10, 66, 0, 1], 9).icmpv4_echo_request(77, 3).write(&mut request, b"odd").unwrap();
    let reply = echo_reply(us4(), &Header::parse(&request).unwrap(), &request).unwrap();
    let (ip, rest) = Ipv4Header::from_slice(&reply).unwrap();
    assert_eq!((ip.source, ip.destination), ([10, 66, 0, 1], HOST4));
    let icmp = Icmpv4Slice::from_slice(rest).unwrap();
    assert_eq!(icmp.header().icmp_type.calc_checksum(icmp.payload()), icmp.checksum());
    assert_eq!(icmp.payload(), b"odd");
    assert!(matches!(icmp.icmp_type(), Icmpv4Type::EchoReply(echo) if (echo.id, echo.seq) == (77, 3)));
    // A reply is no request, and neither is a damaged one.
    assert_eq!(echo_reply(us4(), &Header::parse(&reply).unwrap(), &reply), None);
    *request.last_mut().unwrap() ^= 1;
    assert_eq!(echo_reply(us4(), &Header::parse(&request).unwrap(), &request), None);
}

proptest! {
    #[test]
    fn no_input_panics(mut octets in proptest::collection::vec(any::<u8>(), 20..200), v4: bool, protocol: u8) {
        octets[0] = if v4 { 0x45 } else { 0x60 };
        octets[if v4 { 9 } else { 6 }] = if protocol > 128 { 58 } else { protocol };
        let length = u16::try_from(octets.len()).unwrap();
        if v4 {
            octets[2..4].copy_from_slice(&length.to_be_bytes());
        } else {
            octets[4..6].copy_from_slice(&length.saturating_sub(40).to_be_bytes());
        }
        if let Ok(header) = Header::parse(&octets) {
            for source in [us4(), us6()] {
                let _ = error(Problem::NoRoute, source, &header, &octets);
                let _ = echo_reply(source, &header, &octets);
            }
        }
    }
}
