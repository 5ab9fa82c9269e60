//! ICMP errors (RFC 792, RFC 1812 §4.3, RFC 4443) that a router makes about packets it cannot forward, and echo replies.
#![warn(clippy::indexing_slicing)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ip::{self, Header, Sum, fragment};
use super::srv6;

/// What is wrong with a packet, in the words of both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Destination unreachable: no route (3/0, 1/0).
    NoRoute,
    /// Destination unreachable: the way there is down (3/1, 1/3).
    Unreachable,
    /// Fragmentation needed (3/4) or packet too big (2/0); `mtu` octets would pass.
    TooBig { mtu: u16 },
    /// TTL or hop limit spent in transit (11/0, 3/0).
    TimeExceeded,
    /// ICMPv6 parameter problem (4) with this code, at this octet; IPv4 has none.
    Parameter { code: u8, pointer: u16 },
}

/// Whether there may be an error about a packet: not if it is an ICMP error itself or a redirect, a later fragment, to or
/// from anything but one host (RFC 1122 §3.2.2, RFC 4443 §2.4 (e)).
pub fn may_report(header: &Header, packet: &[u8]) -> bool {
    is_one_host(header.source) && is_one_host(header.destination) && !is_error_or_unknown(header, packet)
}

/// The error about a packet, from `source`; `None` where [`may_report`] says no, or if the families differ.
pub fn error(problem: Problem, source: IpAddr, header: &Header, packet: &[u8]) -> Option<Vec<u8>> {
    if !may_report(header, packet) {
        return None;
    }
    let (kind, code, [r0, r1]) = match (problem, header.is_ipv4()) {
        (Problem::NoRoute, true) => (3, 0, [0, 0]),
        (Problem::Unreachable, true) => (3, 1, [0, 0]),
        (Problem::TooBig { mtu }, true) => (3, 4, mtu.to_be_bytes()),
        (Problem::TimeExceeded, true) => (11, 0, [0, 0]),
        (Problem::NoRoute, false) => (1, 0, [0, 0]),
        (Problem::Unreachable, false) => (1, 3, [0, 0]),
        (Problem::TooBig { mtu }, false) => (2, 0, mtu.max(MIN_MTU6).to_be_bytes()),
        (Problem::TimeExceeded, false) => (3, 0, [0, 0]),
        (Problem::Parameter { .. }, true) => return None,
        (Problem::Parameter { code, pointer }, false) => (4, code, pointer.to_be_bytes()),
    };
    // RFC 1812 §4.3.2.3 and RFC 4443 §2.4 (c): as much of the packet as fits.
    let limit = if header.is_ipv4() { LONGEST4 - ip::HEADER4_LEN } else { LONGEST6 - ip::HEADER6_LEN };
    let quoted = packet.get(..header.length.min(limit - ICMP_HEADER_LEN))?;
    build(source, header.source, ERROR_TOS, [kind, code, 0, 0, 0, 0, r0, r1], quoted)
}

/// The answer to an echo request, from `source`; `None` if the packet is none, a fragment, or damaged.
pub fn echo_reply(source: IpAddr, header: &Header, packet: &[u8]) -> Option<Vec<u8>> {
    if !is_one_host(header.source) || !is_echo_request(header, packet) {
        return None;
    }
    let (&[_, _, _, _, i0, i1, s0, s1], data) = header.payload(packet).split_first_chunk::<ICMP_HEADER_LEN>()?;
    let kind = if header.is_ipv4() { ECHO_REPLY4 } else { ECHO_REPLY6 };
    build(source, header.source, header.tos, [kind, 0, 0, 0, i0, i1, s0, s1], data)
}

/// The ICMPv6 message of a packet, `header.header` being where it begins; `None` if it is damaged.
pub fn message6<'a>(header: &Header, packet: &'a [u8]) -> Option<&'a [u8]> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (header.source, header.destination) else { return None };
    let message = header.payload(packet);
    let length = u32::try_from(message.len()).ok()?;
    let sum = Sum::pseudo6(source, destination, length, ip::ICMPV6).plus(message).finish();
    (message.len() >= ICMP_HEADER_LEN && sum == 0).then_some(message)
}

/// Of an ICMPv6 "packet too big": what would pass, at most 65535, and the beginning of the packet.
pub fn too_big6(message: &[u8]) -> Option<(u16, &[u8])> {
    let (&[kind, _, _, _, m0, m1, m2, m3], quoted) = message.split_first_chunk()?;
    let mtu = u32::from_be_bytes([m0, m1, m2, m3]);
    (kind == TOO_BIG6).then_some((u16::try_from(mtu).unwrap_or(u16::MAX), quoted))
}

/// What an ICMPv6 message says about an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Reply,
    Unreachable,
    TooBig,
    TimeExceeded,
    /// The SID does something else with packets than answer pings (RFC 8986 §4.1.1, code 4).
    UpperLayer,
    Parameter,
}

impl Heard {
    /// Whether the one that was asked has spoken itself.
    pub fn is_from_target(self) -> bool {
        matches!(self, Heard::Reply | Heard::UpperLayer)
    }

    pub fn words(self) -> &'static str {
        match self {
            Heard::Reply => "answers",
            Heard::Unreachable => "no route from here",
            Heard::TooBig => "too big",
            Heard::TimeExceeded => "hop limit spent here",
            Heard::UpperLayer => "this SID takes no pings",
            Heard::Parameter => "the segment list is not accepted",
        }
    }
}

/// Reads an ICMPv6 message about an echo request: its identifier and sequence number, and what came of it.
pub fn heard6(message: &[u8]) -> Option<(u16, u16, Heard)> {
    let (&[kind, code, _, _, i0, i1, s0, s1], quoted) = message.split_first_chunk()?;
    let numbers = |i0, i1, s0, s1| (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([s0, s1]));
    let heard = match (kind, code) {
        (ECHO_REPLY6, _) => {
            let (identifier, sequence) = numbers(i0, i1, s0, s1);
            return Some((identifier, sequence, Heard::Reply));
        }
        (1, _) => Heard::Unreachable,
        (TOO_BIG6, _) => Heard::TooBig,
        (3, _) => Heard::TimeExceeded,
        (4, 4) => Heard::UpperLayer,
        (4, _) => Heard::Parameter,
        (_, _) => return None,
    };
    let header = Header::parse(quoted).ok()?;
    let chain = srv6::chain(&header, quoted).filter(|chain| chain.upper == ip::ICMPV6)?;
    let &[ECHO_REQUEST6, _, _, _, i0, i1, s0, s1] = quoted.get(chain.upper_at..)?.first_chunk()? else { return None };
    let (identifier, sequence) = numbers(i0, i1, s0, s1);
    Some((identifier, sequence, heard))
}

/// An ICMPv6 echo request.
pub fn echo_request6(source: Ipv6Addr, destination: Ipv6Addr, identifier: u16, sequence: u16) -> Vec<u8> {
    let ([i0, i1], [s0, s1]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    let message = [ECHO_REQUEST6, 0, 0, 0, i0, i1, s0, s1];
    let [c0, c1] = Sum::pseudo6(source, destination, 8, ip::ICMPV6).plus(&message).finish().to_be_bytes();
    vec![ECHO_REQUEST6, 0, c0, c1, i0, i1, s0, s1]
}

/// An unfragmented echo request with a right checksum.
fn is_echo_request(header: &Header, packet: &[u8]) -> bool {
    let message = header.payload(packet);
    let (expected, sum) = match (header.source, header.destination) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            let fragmented = fragment::field(packet) & (fragment::OFFSET | fragment::MORE_FRAGMENTS) != 0;
            if header.protocol != ip::ICMP || fragmented {
                return false;
            }
            (ECHO_REQUEST4, Sum::default())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) if header.protocol == ip::ICMPV6 => {
            let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
            (ECHO_REQUEST6, Sum::pseudo6(source, destination, length, ip::ICMPV6))
        }
        (_, _) => return false,
    };
    message.len() >= ICMP_HEADER_LEN && message.starts_with(&[expected, 0]) && sum.plus(message).finish() == 0
}

/// Errors answer packets between two hosts only.
fn is_one_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || broadcast)
}

/// An ICMP error, or something that may be a part of one.
fn is_error_or_unknown(header: &Header, packet: &[u8]) -> bool {
    match (header.is_ipv4(), ip::transport(header, packet)) {
        (_, None) => true,
        (true, Some((ip::ICMP, message))) => message.first().is_none_or(|kind| ERRORS4.contains(kind)),
        (false, Some((ip::ICMPV6, message))) => {
            message.first().is_none_or(|&kind| kind < FIRST_INFORMATIONAL6 || kind == REDIRECT6)
        }
        (_, Some(_)) => false,
    }
}

fn build(source: IpAddr, destination: IpAddr, tos: u8, head: [u8; ICMP_HEADER_LEN], data: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(ICMP_HEADER_LEN + data.len()).ok()?;
    let mut packet = Vec::with_capacity(ip::HEADER6_LEN + usize::from(length));
    let pseudo = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend_from_slice(&ip::header4(source, destination, tos, HOPS, ip::ICMP, length));
            Sum::default()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend_from_slice(&ip::header6(source, destination, tos, HOPS, ip::ICMPV6, length));
            Sum::pseudo6(source, destination, u32::from(length), ip::ICMPV6)
        }
        (_, _) => return None,
    };
    let [c0, c1] = pseudo.plus(&head).plus(data).finish().to_be_bytes();
    let [kind, code, _, _, rest @ ..] = head;
    packet.extend_from_slice(&[kind, code, c0, c1]);
    packet.extend_from_slice(&rest);
    packet.extend_from_slice(data);
    Some(packet)
}

const ICMP_HEADER_LEN: usize = 8;
const HOPS: u8 = 64;
/// Internetwork control (RFC 1812 §4.3.2.5).
const ERROR_TOS: u8 = 0xc0;
const LONGEST4: usize = 576;
const LONGEST6: usize = 1280;
/// No IPv6 link may have less (RFC 8200 §5).
const MIN_MTU6: u16 = 1280;
const TOO_BIG6: u8 = 2;
const ECHO_REQUEST4: u8 = 8;
const ECHO_REPLY4: u8 = 0;
const ECHO_REQUEST6: u8 = 128;
const ECHO_REPLY6: u8 = 129;
/// Unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS4: [u8; 5] = [3, 4, 5, 11, 12];
const FIRST_INFORMATIONAL6: u8 = 128;
const REDIRECT6: u8 = 137;

#[cfg(test)]
mod tests;
