//! Babel packets (RFC 8966 §4): TLVs as values, and nothing about what they mean to a speaker.
//!
//! With the timestamps of RFC 9616 §6, source prefixes of RFC 9079 §7 and IPv4 over IPv6 next hops of RFC 9229.
//! [`parse`] resolves what a packet says in parts (Router-Id, Next Hop, omitted octets), [`Packet`] compresses it again:
//! what one writes, the other reads back as the same values.

#![warn(clippy::indexing_slicing)]

mod emit;
mod parse;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

pub use emit::Packet;
pub use parse::{Malformed, Tlvs, parse};

use crate::prefix::Prefix;

/// Source and destination port of every Babel datagram (RFC 8966 §4).
pub const PORT: u16 = 6696;
/// The group that all Babel routers of a link listen to.
pub const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 6);
/// The infinite metric or cost.
pub const INFINITY: u16 = 0xffff;

/// Names the node that originates a route; never all zeros or all ones (RFC 8966 §4.1.3).
pub type RouterId = [u8; 8];

/// Whether a router-id may stand in a packet.
pub fn is_router_id(id: &RouterId) -> bool {
    *id != [0x00; 8] && *id != [0xff; 8]
}

/// A TLV that concerns the receiver; intervals are in hundredths of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tlv {
    /// Answer with the same `opaque` within `interval`.
    AckRequest {
        opaque: u16,
        interval: u16,
    },
    Ack {
        opaque: u16,
    },
    Hello(Hello),
    Ihu(Ihu),
    Update(Update),
    /// `None` asks for everything.
    RouteRequest {
        prefix: Option<Prefix>,
    },
    SeqnoRequest(SeqnoRequest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub unicast: bool,
    pub seqno: u16,
    /// Until the next one at most; zero: this one was not scheduled.
    pub interval: u16,
    /// The sender's clock when it sent this, in microseconds modulo 2³² (RFC 9616 §6.1).
    pub stamp: Option<u32>,
}

/// "I heard you."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ihu {
    /// Whom it is for; `None`: whoever receives it.
    pub address: Option<IpAddr>,
    pub rxcost: u16,
    pub interval: u16,
    pub stamps: Option<Stamps>,
}

/// RFC 9616 §6.2: the last Hello's own stamp, and the clock of the IHU's sender when that Hello arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    pub origin: u32,
    pub receive: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// `None`, only in a retraction: everything that the sender ever announced.
    pub prefix: Option<Prefix>,
    pub interval: u16,
    pub seqno: u16,
    pub metric: u16,
    /// Present exactly when the metric is finite.
    pub origin: Option<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub router_id: RouterId,
    pub next_hop: IpAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqnoRequest {
    pub prefix: Prefix,
    pub seqno: u16,
    pub hop_count: u8,
    pub router_id: RouterId,
}

/// TLV types (RFC 8966 §4.6).
mod kind {
    pub(super) const PAD1: u8 = 0x00;
    pub(super) const ACK_REQUEST: u8 = 0x02;
    pub(super) const ACK: u8 = 0x03;
    pub(super) const HELLO: u8 = 0x04;
    pub(super) const IHU: u8 = 0x05;
    pub(super) const ROUTER_ID: u8 = 0x06;
    pub(super) const NEXT_HOP: u8 = 0x07;
    pub(super) const UPDATE: u8 = 0x08;
    pub(super) const ROUTE_REQUEST: u8 = 0x09;
    pub(super) const SEQNO_REQUEST: u8 = 0x0a;
}

/// Sub-TLV types; from 0x80 on, one that is not understood voids its TLV (RFC 8966 §4.4).
mod sub {
    pub(super) const PAD1: u8 = 0x00;
    pub(super) const TIMESTAMP: u8 = 0x03;
    pub(super) const SOURCE_PREFIX: u8 = 0x80;
    pub(super) const MANDATORY: u8 = 0x80;
}

/// Address encodings (RFC 8966 §4.1.4, RFC 9229 §3).
mod ae {
    pub(super) const WILDCARD: u8 = 0;
    pub(super) const IPV4: u8 = 1;
    pub(super) const IPV6: u8 = 2;
    pub(super) const LINK_LOCAL: u8 = 3;
    pub(super) const IPV4_VIA_IPV6: u8 = 4;
}

const MAGIC: u8 = 42;
const VERSION: u8 = 2;
const UNICAST_HELLO: u16 = 0x8000;
const UPDATE_SETS_PREFIX: u8 = 0x80;
const UPDATE_SETS_ROUTER_ID: u8 = 0x40;
