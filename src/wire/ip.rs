//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, as far as a router looks into them: parse, emit, and the two changes a
//! tunnel makes on the way, ECN and hop limit. UDP over IPv6 for packets of our own.
//!
//! Checksums of forwarded packets are adjusted (RFC 1624), never made anew: what arrived damaged stays visibly damaged.
#![warn(clippy::indexing_slicing)]

pub mod checksum;
pub mod fragment;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use checksum::Sum;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;
/// In ESP, the next headers of tunnel mode and of a dummy packet (RFC 4303 §2.6).
pub const IN_IPV4: u8 = 4;
pub const IN_IPV6: u8 = 41;
pub const NO_NEXT_HEADER: u8 = 59;

pub const HEADER4_LEN: usize = 20;
pub const HEADER6_LEN: usize = 40;

/// What a packet's own header says, checked against the octets that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// DSCP and ECN: TOS or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub hops: u8,
    /// Octets of the whole packet; what lies behind is not part of it.
    pub length: usize,
    /// Octets before the payload, IPv4 options included; IPv6 extension headers belong to the payload.
    pub header: usize,
    /// Protocol or next header.
    pub protocol: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("shorter than its header")]
    Truncated,
    #[error("neither IPv4 nor IPv6")]
    Version,
    #[error("length field contradicts the header or the octets that are there")]
    Length,
    #[error("checksum does not match")]
    Checksum,
}

impl Header {
    pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => parse4(packet),
            Some(6) => parse6(packet),
            Some(_) => Err(Malformed::Version),
            None => Err(Malformed::Truncated),
        }
    }

    pub fn is_ipv4(&self) -> bool {
        self.source.is_ipv4()
    }

    /// The ESP next header that carries this packet in tunnel mode.
    pub fn next_header(&self) -> u8 {
        if self.is_ipv4() { IN_IPV4 } else { IN_IPV6 }
    }

    /// Behind the header, up to the packet's own length.
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.header..self.length).unwrap_or_default()
    }
}

/// The transport protocol and its octets, behind IPv6 extension headers too.
///
/// `None` for every fragment but the first, and where the chain of headers breaks off.
pub fn transport<'a>(header: &Header, packet: &'a [u8]) -> Option<(u8, &'a [u8])> {
    let mut rest = header.payload(packet);
    if header.is_ipv4() {
        return (fragment::field(packet) & fragment::OFFSET == 0).then_some((header.protocol, rest));
    }
    let mut protocol = header.protocol;
    // Each turn takes 8 octets or more off the packet, or ends.
    loop {
        let length = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => (usize::from(*rest.get(1)?) + 1) * 8,
            FRAGMENT => {
                let offset = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) & 0xfff8;
                if offset != 0 {
                    return None;
                }
                8
            }
            _ => return Some((protocol, rest)),
        };
        protocol = *rest.first()?;
        rest = rest.get(length..)?;
    }
}

/// Source and destination of a packet of which perhaps only the header is there.
pub fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let (source, rest) = packet.get(12..)?.split_first_chunk::<4>()?;
            Some((IpAddr::from(*source), IpAddr::from(*rest.first_chunk::<4>()?)))
        }
        6 => {
            let (source, rest) = packet.get(8..)?.split_first_chunk::<16>()?;
            Some((IpAddr::from(*source), IpAddr::from(*rest.first_chunk::<16>()?)))
        }
        _ => None,
    }
}

/// Writes the ECN bits, adjusting the IPv4 header checksum.
pub fn set_ecn(packet: &mut [u8], ecn: u8) {
    let ecn = ecn & ECN_MASK;
    match packet {
        [first, tos, ..] if *first >> 4 == 4 => {
            let old = u16::from_be_bytes([*first, *tos]);
            *tos = (*tos & !ECN_MASK) | ecn;
            let new = u16::from_be_bytes([*first, *tos]);
            adjust_header_checksum(packet, old, new);
        }
        // The traffic class lies across the first two octets: its low half is the high half of the second.
        [_, second, ..] => *second = (*second & !(ECN_MASK << 4)) | (ecn << 4),
        _ => {}
    }
}

/// Takes one off TTL or hop limit, adjusting the IPv4 header checksum; `false` if it was spent (RFC 1812 §5.3.1).
pub fn decrement_hops(packet: &mut [u8]) -> bool {
    match packet {
        [first, _, _, _, _, _, _, _, ttl, protocol, ..] if *first >> 4 == 4 => {
            if *ttl <= 1 {
                return false;
            }
            let old = u16::from_be_bytes([*ttl, *protocol]);
            *ttl -= 1;
            let new = u16::from_be_bytes([*ttl, *protocol]);
            adjust_header_checksum(packet, old, new);
            true
        }
        [_, _, _, _, _, _, _, hops, ..] if *hops > 1 => {
            *hops -= 1;
            true
        }
        _ => false,
    }
}

/// An IPv4 header without options and with DF, for a payload of `payload` octets.
pub fn header4(source: Ipv4Addr, destination: Ipv4Addr, tos: u8, ttl: u8, protocol: u8, payload: u16) -> [u8; 20] {
    let [l0, l1] = payload.saturating_add(20).to_be_bytes();
    let [s0, s1, s2, s3] = source.octets();
    let [d0, d1, d2, d3] = destination.octets();
    // RFC 6864 §4.1: what is never fragmented needs no identification.
    let header = [0x45, tos, l0, l1, 0, 0, 0x40, 0, ttl, protocol, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3];
    let [c0, c1] = Sum::default().plus(&header).finish().to_be_bytes();
    [0x45, tos, l0, l1, 0, 0, 0x40, 0, ttl, protocol, c0, c1, s0, s1, s2, s3, d0, d1, d2, d3]
}

/// An IPv6 header with flow label zero, for a payload of `payload` octets.
pub fn header6(source: Ipv6Addr, destination: Ipv6Addr, tclass: u8, hop_limit: u8, next: u8, payload: u16) -> [u8; 40] {
    let mut header = [0; HEADER6_LEN];
    let [l0, l1] = payload.to_be_bytes();
    let (fixed, addresses) = header.split_at_mut(8);
    fixed.copy_from_slice(&[0x60 | (tclass >> 4), tclass << 4, 0, 0, l0, l1, next, hop_limit]);
    let (from, to) = addresses.split_at_mut(16);
    from.copy_from_slice(&source.octets());
    to.copy_from_slice(&destination.octets());
    header
}

/// A UDP datagram in an IPv6 packet, with its checksum (RFC 768, RFC 8200 §8.1).
///
/// `payload` is at most 65527 octets; what is beyond that is cut off.
pub fn udp6_packet(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hop_limit: u8,
    tclass: u8,
    source_port: u16,
    destination_port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let length = u16::try_from(payload.len() + UDP_HEADER_LEN).unwrap_or(u16::MAX);
    let payload = payload.get(..usize::from(length) - UDP_HEADER_LEN).unwrap_or_default();
    let mut packet = Vec::with_capacity(HEADER6_LEN + usize::from(length));
    packet.extend_from_slice(&header6(source, destination, tclass, hop_limit, UDP, length));
    let [s0, s1] = source_port.to_be_bytes();
    let [d0, d1] = destination_port.to_be_bytes();
    let [l0, l1] = length.to_be_bytes();
    let sum = Sum::pseudo6(source, destination, u32::from(length), UDP).plus(&[s0, s1, d0, d1, l0, l1]).plus(payload);
    // Zero on the wire would mean "no checksum", which IPv6 forbids.
    let [c0, c1] = match sum.finish() {
        0 => [0xff, 0xff],
        sum => sum.to_be_bytes(),
    };
    packet.extend_from_slice(&[s0, s1, d0, d1, l0, l1, c0, c1]);
    packet.extend_from_slice(payload);
    packet
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp<'a> {
    pub source_port: u16,
    pub destination_port: u16,
    pub payload: &'a [u8],
}

/// The UDP datagram in an IPv6 packet without extension headers; its checksum is verified.
pub fn parse_udp6<'a>(header: &Header, packet: &'a [u8]) -> Result<Udp<'a>, Malformed> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (header.source, header.destination) else {
        return Err(Malformed::Version);
    };
    let datagram = header.payload(packet);
    let &[s0, s1, d0, d1, l0, l1, c0, c1] = datagram.first_chunk().ok_or(Malformed::Truncated)?;
    let length = u16::from_be_bytes([l0, l1]);
    let datagram = datagram.get(..usize::from(length)).ok_or(Malformed::Length)?;
    let payload = datagram.get(UDP_HEADER_LEN..).ok_or(Malformed::Length)?;
    let sum = Sum::pseudo6(source, destination, u32::from(length), UDP).plus(datagram);
    if [c0, c1] == [0, 0] || sum.finish() != 0 {
        return Err(Malformed::Checksum);
    }
    Ok(Udp { source_port: u16::from_be_bytes([s0, s1]), destination_port: u16::from_be_bytes([d0, d1]), payload })
}

fn parse4(packet: &[u8]) -> Result<Header, Malformed> {
    let &[first, tos, l0, l1, _, _, _, _, hops, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
        packet.first_chunk::<HEADER4_LEN>().ok_or(Malformed::Truncated)?;
    let header = usize::from(first & 0x0f) * 4;
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    if header < HEADER4_LEN || length < header || length > packet.len() {
        return Err(Malformed::Length);
    }
    Ok(Header {
        source: Ipv4Addr::new(s0, s1, s2, s3).into(),
        destination: Ipv4Addr::new(d0, d1, d2, d3).into(),
        tos,
        hops,
        length,
        header,
        protocol,
    })
}

fn parse6(packet: &[u8]) -> Result<Header, Malformed> {
    let fixed = packet.first_chunk::<HEADER6_LEN>().ok_or(Malformed::Truncated)?;
    let [b0, b1, _, _, l0, l1, protocol, hops, addresses @ ..] = fixed;
    let (source, destination) = addresses.split_first_chunk::<16>().ok_or(Malformed::Truncated)?;
    let destination = destination.first_chunk::<16>().ok_or(Malformed::Truncated)?;
    let length = HEADER6_LEN + usize::from(u16::from_be_bytes([*l0, *l1]));
    if length > packet.len() {
        return Err(Malformed::Length);
    }
    Ok(Header {
        source: Ipv6Addr::from(*source).into(),
        destination: Ipv6Addr::from(*destination).into(),
        tos: (b0 << 4) | (b1 >> 4),
        hops: *hops,
        length,
        header: HEADER6_LEN,
        protocol: *protocol,
    })
}

fn adjust_header_checksum(packet: &mut [u8], old: u16, new: u16) {
    if let [_, _, _, _, _, _, _, _, _, _, c0, c1, ..] = packet {
        [*c0, *c1] = checksum::adjust(u16::from_be_bytes([*c0, *c1]), old, new).to_be_bytes();
    }
}

const ECN_MASK: u8 = 0x03;
const UDP_HEADER_LEN: usize = 8;
pub const HOP_BY_HOP: u8 = 0;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const DESTINATION_OPTIONS: u8 = 60;

#[cfg(test)]
mod tests;
