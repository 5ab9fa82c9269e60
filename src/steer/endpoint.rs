//! A packet to a SID of ours (RFC 8986 §4.1, §4.6 to §4.8, §4.16), in the order of checks given there.

use std::net::Ipv6Addr;

use crate::wire::ip::{self, Header};
use crate::wire::srv6::{self, Behaviour, Fault, Routing};

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To its next segment, which stands in the packet as destination. The packet begins at `start`.
    Onward { start: usize },
    /// The outer headers are done with; the inner packet begins at `at`.
    Inner { at: usize, ipv4: bool },
    /// For ourselves: an ICMPv6 message at `at`.
    Message { at: usize },
}

/// Why a packet to a SID goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Malformed,
    HopLimit,
    /// The segment list contradicts itself; ICMPv6 parameter problem 4/0 at this octet.
    List {
        pointer: u16,
    },
    TooManySegments,
    /// Segments are left at a SID that is meant to be the last.
    NotLast {
        pointer: u16,
    },
    /// What is inside is not for this SID; ICMPv6 parameter problem 4/4 at this octet.
    UpperLayer {
        pointer: u16,
    },
    /// Next header 59: meant to be dropped.
    Nothing,
}

/// Takes one step, changing the packet in place. `header` is the packet's own.
pub fn step(behaviour: Behaviour, header: &Header, packet: &mut [u8]) -> Result<Step, Refusal> {
    let chain = srv6::chain(header, packet).ok_or(Refusal::Malformed)?;
    if let Some(routing) = chain.routing.filter(|routing| routing.left > 0) {
        if routing.kind != Routing::SEGMENTS {
            return Err(Refusal::List { pointer: pointer(routing.at + srv6::TYPE_AT) });
        }
        return match behaviour {
            Behaviour::End { psp, .. } => onward(header, &routing, psp, packet),
            Behaviour::Decapsulate { .. } => Err(Refusal::NotLast { pointer: pointer(routing.at + srv6::LEFT_AT) }),
        };
    }
    let (v4, v6) = match behaviour {
        Behaviour::Decapsulate { v4, v6 } => (v4, v6),
        Behaviour::End { usd, .. } => (usd, usd),
    };
    match (chain.upper, behaviour) {
        (ip::IN_IPV4, _) if v4 => Ok(Step::Inner { at: chain.upper_at, ipv4: true }),
        (ip::IN_IPV6, _) if v6 => Ok(Step::Inner { at: chain.upper_at, ipv4: false }),
        (ip::NO_NEXT_HEADER, _) => Err(Refusal::Nothing),
        (ip::ICMPV6, Behaviour::End { .. }) => Ok(Step::Message { at: chain.upper_at }),
        (_, _) => Err(Refusal::UpperLayer { pointer: pointer(chain.upper_at) }),
    }
}

fn onward(header: &Header, routing: &Routing, psp: bool, packet: &mut [u8]) -> Result<Step, Refusal> {
    if header.hops <= 1 {
        return Err(Refusal::HopLimit);
    }
    let next: Ipv6Addr = routing.next(packet).map_err(|fault| match fault {
        Fault::List => Refusal::List { pointer: pointer(routing.at + srv6::LEFT_AT) },
        Fault::Tlv => Refusal::List { pointer: pointer(routing.at + 1) },
        Fault::TooMany => Refusal::TooManySegments,
    })?;
    ip::decrement_hops(packet);
    let left = routing.left - 1;
    packet[routing.at + srv6::LEFT_AT] = left;
    packet[DESTINATION_AT..ip::HEADER6_LEN].copy_from_slice(&next.octets());
    if !psp || left > 0 {
        return Ok(Step::Onward { start: 0 });
    }
    // RFC 8986 §4.16.1: what stands before the SRH moves over it.
    packet[routing.named_at] = routing.next_header;
    let payload = header.length - ip::HEADER6_LEN - routing.length;
    packet[PAYLOAD_LENGTH_AT..PAYLOAD_LENGTH_AT + 2].copy_from_slice(&pointer(payload).to_be_bytes());
    packet.copy_within(..routing.at, routing.length);
    Ok(Step::Onward { start: routing.length })
}

/// Places in a packet are below 65576; the few beyond 65535 cannot be told.
fn pointer(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

const PAYLOAD_LENGTH_AT: usize = 4;
const DESTINATION_AT: usize = 24;
