//! The Segment Routing Header (RFC 8754 §2) and SIDs as this mesh lays them out (RFC 8986 §3.1).
//!
//! A SID is a node's locator, zeros, and a function in the last 16 bits. The functions are the code points of the endpoint
//! behaviours themselves (RFC 8986 §10.2): whoever knows a locator knows all SIDs of the node.
#![warn(clippy::indexing_slicing)]

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use super::ip::{self, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, Header, ROUTING};

/// Most segments of a list that is made or acted on.
pub const MAX_SEGMENTS: usize = 16;
/// Where a routing header has its type and Segments Left.
pub const TYPE_AT: usize = 2;
pub const LEFT_AT: usize = 3;

/// What a SID stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// On to the next segment; the flavours of RFC 8986 §4.16.
    End { psp: bool, usp: bool, usd: bool },
    /// The outer headers end here, and the inner packet is looked up.
    Decapsulate { v4: bool, v6: bool },
}

/// Functions that SIDs are made of here.
pub const END: u16 = 1;
pub const END_DT46: u16 = 20;

pub fn behaviour(function: u16) -> Option<Behaviour> {
    let end = |psp, usp, usd| Some(Behaviour::End { psp, usp, usd });
    match function {
        END => end(false, false, false),
        2 => end(true, false, false),
        3 => end(false, true, false),
        4 => end(true, true, false),
        28 => end(false, false, true),
        29 => end(true, false, true),
        30 => end(false, true, true),
        31 => end(true, true, true),
        18 => Some(Behaviour::Decapsulate { v4: false, v6: true }),
        19 => Some(Behaviour::Decapsulate { v4: true, v6: false }),
        END_DT46 => Some(Behaviour::Decapsulate { v4: true, v6: true }),
        _ => None,
    }
}

/// The SID of a function.
pub fn sid(locator: Ipv6Net, function: u16) -> Ipv6Addr {
    (locator.network().to_bits() | u128::from(function)).into()
}

/// The function of an address in a locator; `None` if the bits between are not zero.
pub fn function(locator: Ipv6Net, address: Ipv6Addr) -> Option<u16> {
    u16::try_from(address.to_bits() ^ locator.network().to_bits()).ok()
}

/// A routing header that lies whole in its packet; what its list says has yet to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Where the octet stands that names this header.
    pub named_at: usize,
    pub at: usize,
    /// Octets of the whole header.
    pub length: usize,
    pub kind: u8,
    pub next_header: u8,
    pub left: u8,
    last: u8,
}

/// Why a list cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Last Entry or Segments Left go beyond the list.
    List,
    /// The TLVs do not end where the header does.
    Tlv,
    /// More than [`MAX_SEGMENTS`].
    TooMany,
}

impl Routing {
    pub const SEGMENTS: u8 = 4;

    /// The address of the next segment, with the checks of RFC 8986 §4.1 S09 to S12. Segments Left must not be zero.
    pub fn next(&self, packet: &[u8]) -> Result<Ipv6Addr, Fault> {
        let room = (self.length - FIXED) / SEGMENT;
        let last = usize::from(self.last);
        if last + 1 > room || usize::from(self.left) > last + 1 {
            return Err(Fault::List);
        }
        if last >= MAX_SEGMENTS {
            return Err(Fault::TooMany);
        }
        let list = self.at + FIXED;
        let tlvs = packet.get(list + (last + 1) * SEGMENT..self.at + self.length).ok_or(Fault::List)?;
        if !tlvs_fit(tlvs) {
            return Err(Fault::Tlv);
        }
        let at = list + (usize::from(self.left) - 1) * SEGMENT;
        let octets: &[u8; SEGMENT] = packet.get(at..).and_then(<[u8]>::first_chunk).ok_or(Fault::List)?;
        Ok(Ipv6Addr::from(*octets))
    }
}

/// What stands behind an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The first routing header.
    pub routing: Option<Routing>,
    /// What follows hop-by-hop options, that header and destination options, and where.
    pub upper: u8,
    pub upper_at: usize,
}

/// Walks over the extension headers; `None` if one of them is cut off, or there are too many.
pub fn chain(header: &Header, packet: &[u8]) -> Option<Chain> {
    let packet = packet.get(..header.length)?;
    let mut chain = Chain { routing: None, upper: header.protocol, upper_at: header.header };
    let mut named_at = NEXT_HEADER_AT;
    for _ in 0..MAX_HEADERS {
        let is_routing = chain.upper == ROUTING && chain.routing.is_none();
        if !is_routing && !matches!(chain.upper, HOP_BY_HOP | DESTINATION_OPTIONS) {
            return Some(chain);
        }
        let &[next_header, units, kind, left, last] = packet.get(chain.upper_at..)?.first_chunk()?;
        let length = (usize::from(units) + 1) * 8;
        let at = chain.upper_at;
        packet.get(at..at + length)?;
        if is_routing {
            chain.routing = Some(Routing { named_at, at, length, kind, next_header, left, last });
        }
        (named_at, chain.upper, chain.upper_at) = (at, next_header, at + length);
    }
    None
}

/// Whether a packet brings a segment list anywhere, or a chain of headers in which it could not be seen.
pub fn has_segments(header: &Header, packet: &[u8]) -> bool {
    let mut rest = header.payload(packet);
    let mut next = header.protocol;
    // Each turn takes 8 octets or more off the packet, or ends.
    loop {
        let length = match (next, rest) {
            (ROUTING, &[_, _, Routing::SEGMENTS, ..]) => return true,
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS, &[_, units, ..]) => (usize::from(units) + 1) * 8,
            // What the other fragments continue, the first one has let pass.
            (FRAGMENT, &[_, _, high, low, ..]) if u16::from_be_bytes([high, low]) & 0xfff8 != 0 => return false,
            (FRAGMENT, &[_, ..]) => 8,
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | FRAGMENT, _) => return true,
            _ => return false,
        };
        let (Some(&after), Some(behind)) = (rest.first(), rest.get(length..)) else { return true };
        (next, rest) = (after, behind);
    }
}

/// Octets of the outer header and the SRH of a path of `segments`.
pub fn overhead(segments: usize, reduced: bool) -> usize {
    ip::HEADER6_LEN + if reduced && segments <= 1 { 0 } else { FIXED + SEGMENT * (segments - usize::from(reduced)) }
}

/// Appends the SRH of a path, if it needs one (RFC 8986 §5.1, §5.2); returns what the IPv6 header names as next.
///
/// At most 127 segments, which is what the length field of the full form has room for.
pub fn emit(path: &[Ipv6Addr], reduced: bool, next_header: u8, out: &mut Vec<u8>) -> u8 {
    let listed = if reduced { path.get(1..).unwrap_or_default() } else { path };
    let left = u8::try_from(path.len().saturating_sub(1)).unwrap_or(u8::MAX);
    let Some(last) = u8::try_from(listed.len()).ok().and_then(|count| count.checked_sub(1)) else { return next_header };
    out.extend_from_slice(&[next_header, last.wrapping_add(1).wrapping_mul(2), Routing::SEGMENTS, left, last, 0, 0, 0]);
    for segment in listed.iter().rev() {
        out.extend_from_slice(&segment.octets());
    }
    ROUTING
}

fn tlvs_fit(mut tlvs: &[u8]) -> bool {
    while let [kind, rest @ ..] = tlvs {
        if *kind == PAD1 {
            tlvs = rest;
            continue;
        }
        let Some((&length, data)) = rest.split_first() else { return false };
        let Some(after) = data.get(usize::from(length)..) else { return false };
        tlvs = after;
    }
    true
}

const FIXED: usize = 8;
const SEGMENT: usize = 16;
const PAD1: u8 = 0;
const NEXT_HEADER_AT: usize = 6;
/// RFC 8200 §4.1 knows three before the upper layer; destination options may come twice.
const MAX_HEADERS: usize = 5;

#[cfg(test)]
mod tests;
