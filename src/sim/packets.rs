//! Pings, made and read by an independent codec.

use std::net::IpAddr;

use etherparse::{Icmpv4Type, Icmpv6Type, NetHeaders, PacketBuilder, PacketHeaders, TransportHeader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) request: bool,
    pub(crate) sequence: u16,
}

const IDENTIFIER: u16 = 0x5747;

pub(crate) fn echo(echo: Echo, size: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload = vec![0x55; size];
    match (echo.source, echo.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = PacketBuilder::ipv4(source.octets(), destination.octets(), 64);
            let icmp = if echo.request {
                ip.icmpv4_echo_request(IDENTIFIER, echo.sequence)
            } else {
                ip.icmpv4_echo_reply(IDENTIFIER, echo.sequence)
            };
            icmp.write(&mut packet, &payload).unwrap();
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = PacketBuilder::ipv6(source.octets(), destination.octets(), 64);
            let icmp = if echo.request {
                ip.icmpv6_echo_request(IDENTIFIER, echo.sequence)
            } else {
                ip.icmpv6_echo_reply(IDENTIFIER, echo.sequence)
            };
            icmp.write(&mut packet, &payload).unwrap();
        }
        _ => panic!("mixed address families"),
    }
    packet
}

/// Reads a ping; other packets are `None`.
pub(crate) fn parse_echo(packet: &[u8]) -> Option<Echo> {
    let headers = PacketHeaders::from_ip_slice(packet).ok()?;
    let (source, destination) = match headers.net? {
        NetHeaders::Ipv4(ip, _) => (IpAddr::from(ip.source), IpAddr::from(ip.destination)),
        NetHeaders::Ipv6(ip, _) => (IpAddr::from(ip.source), IpAddr::from(ip.destination)),
        NetHeaders::Arp(_) => return None,
    };
    let (request, header) = match headers.transport? {
        TransportHeader::Icmpv4(icmp) => match icmp.icmp_type {
            Icmpv4Type::EchoRequest(echo) => (true, echo),
            Icmpv4Type::EchoReply(echo) => (false, echo),
            _ => return None,
        },
        TransportHeader::Icmpv6(icmp) => match icmp.icmp_type {
            Icmpv6Type::EchoRequest(echo) => (true, echo),
            Icmpv6Type::EchoReply(echo) => (false, echo),
            _ => return None,
        },
        TransportHeader::Udp(_) | TransportHeader::Tcp(_) => return None,
    };
    (header.id == IDENTIFIER).then_some(Echo { source, destination, request, sequence: header.seq })
}
