//! The head end: H.Encaps and H.Encaps.Red (RFC 8986 §5.1, §5.2). What all packets of a path share is written once.

use std::net::{IpAddr, Ipv6Addr};

use crate::wire::icmp;
use crate::wire::ip::{self, Header, fragment};
use crate::wire::srv6;

/// The outer header and the SRH of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    source: Ipv6Addr,
    first: Ipv6Addr,
    /// For IPv4 and for IPv6 inside.
    heads: [Vec<u8>; 2],
}

impl Encapsulation {
    /// `segments` is not empty and has at most [`srv6::MAX_SEGMENTS`].
    pub fn new(source: Ipv6Addr, segments: &[Ipv6Addr], reduced: bool) -> Encapsulation {
        let first = segments.first().copied().unwrap_or(source);
        let head = |inner| {
            let mut srh = Vec::new();
            let next = srv6::emit(segments, reduced, inner, &mut srh);
            let mut head = ip::header6(source, first, 0, HOPS, next, 0).to_vec();
            head.extend_from_slice(&srh);
            head
        };
        Encapsulation { source, first, heads: [head(ip::IN_IPV4), head(ip::IN_IPV6)] }
    }

    /// Octets that it adds to a packet.
    pub fn overhead(&self) -> usize {
        self.heads[0].len()
    }

    /// Writes what goes before a packet into `out`, and returns the outer header. `None` if the sum is too long for IPv6.
    ///
    /// DSCP and ECN are the inner ones (RFC 6040 §4.1), for IPv4 too.
    pub fn begin(&self, inner: &Header, length: usize, label: u32, out: &mut Vec<u8>) -> Option<Header> {
        let head = &self.heads[usize::from(!inner.is_ipv4())];
        let payload = u16::try_from(head.len() - ip::HEADER6_LEN + length).ok()?;
        out.clear();
        out.extend_from_slice(head);
        let first = 0x6000_0000 | u32::from(inner.tos) << 20 | label & LABEL;
        out[..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&payload.to_be_bytes());
        Some(Header {
            source: IpAddr::V6(self.source),
            destination: IpAddr::V6(self.first),
            tos: inner.tos,
            hops: HOPS,
            length: head.len() + length,
            header: ip::HEADER6_LEN,
            protocol: head[6],
        })
    }
}

/// An echo request to the last segment of a path, along the path.
pub fn probe(source: Ipv6Addr, path: &[Ipv6Addr], identifier: u16, sequence: u16) -> Vec<u8> {
    let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return Vec::new() };
    let mut payload = Vec::new();
    let next = srv6::emit(path, true, ip::ICMPV6, &mut payload);
    payload.extend_from_slice(&icmp::echo_request6(source, last, identifier, sequence));
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    [&ip::header6(source, first, 0, HOPS, next, length)[..], &payload].concat()
}

/// A flow label that is the same for all packets of a flow (RFC 8754 §5.5, RFC 6438), and not zero.
///
/// Ports count only where all fragments of a packet show them.
pub fn flow_label(header: &Header, packet: &[u8]) -> u32 {
    let mut hash = fold(header.source) ^ fold(header.destination).rotate_left(16) ^ u32::from(header.protocol);
    let whole = !header.is_ipv4() || fragment::field(packet) & (fragment::OFFSET | fragment::MORE_FRAGMENTS) == 0;
    if whole
        && matches!(header.protocol, ip::TCP | ip::UDP)
        && let Some(ports) = packet.get(header.header..).and_then(<[u8]>::first_chunk)
    {
        hash ^= u32::from_be_bytes(*ports).wrapping_mul(0x9e37_79b1);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(0x85eb_ca6b);
    (hash ^ hash >> 13) & LABEL | 1
}

fn fold(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits().wrapping_mul(0xc2b2_ae35),
        IpAddr::V6(address) => {
            let words = address.octets();
            words
                .as_chunks()
                .0
                .iter()
                .fold(0, |sum: u32, &word| (sum.rotate_left(9) ^ u32::from_be_bytes(word)).wrapping_mul(0xc2b2_ae35))
        }
    }
}

/// Of the outer header: a constant, for the inner one counts on its own.
const HOPS: u8 = 64;
const LABEL: u32 = 0x000f_ffff;
