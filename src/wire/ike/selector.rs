//! Traffic selectors (RFC 7296 §3.13).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::TooLong;
use super::cursor::{Cursor, count, counted};

/// One selector; port and address bounds are inclusive. Protocol 0 is any, ports 0 to 65535 are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficSelector {
    V4 {
        protocol: u8,
        ports: (u16, u16),
        addresses: (Ipv4Addr, Ipv4Addr),
    },
    V6 {
        protocol: u8,
        ports: (u16, u16),
        addresses: (Ipv6Addr, Ipv6Addr),
    },
    /// Of a type that has no decoder here: the octets after the length field, and the protocol octet.
    Other {
        kind: u8,
        protocol: u8,
        body: Vec<u8>,
    },
}

impl TrafficSelector {
    pub const ANY_V4: TrafficSelector = TrafficSelector::V4 {
        protocol: 0,
        ports: (0, u16::MAX),
        addresses: (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
    };
    pub const ANY_V6: TrafficSelector = TrafficSelector::V6 {
        protocol: 0,
        ports: (0, u16::MAX),
        addresses: (Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX)),
    };

    fn parse(kind: u8, protocol: u8, body: &[u8]) -> Option<TrafficSelector> {
        let mut cursor = Cursor::new(body);
        let selector = match kind {
            IPV4_ADDR_RANGE => TrafficSelector::V4 {
                protocol,
                ports: (cursor.u16()?, cursor.u16()?),
                addresses: (cursor.array::<4>()?.into(), cursor.array::<4>()?.into()),
            },
            IPV6_ADDR_RANGE => TrafficSelector::V6 {
                protocol,
                ports: (cursor.u16()?, cursor.u16()?),
                addresses: (cursor.array::<16>()?.into(), cursor.array::<16>()?.into()),
            },
            _ => return Some(TrafficSelector::Other { kind, protocol, body: body.to_vec() }),
        };
        cursor.is_empty().then_some(selector)
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let start = out.len();
        let (kind, protocol) = match self {
            TrafficSelector::V4 { protocol, .. } => (IPV4_ADDR_RANGE, *protocol),
            TrafficSelector::V6 { protocol, .. } => (IPV6_ADDR_RANGE, *protocol),
            TrafficSelector::Other { kind, protocol, .. } => (*kind, *protocol),
        };
        out.extend([kind, protocol, 0, 0]);
        counted(out, start, 2, |out| {
            match self {
                TrafficSelector::V4 { ports, addresses: (first, last), .. } => {
                    encode_range(out, *ports, &first.octets(), &last.octets());
                }
                TrafficSelector::V6 { ports, addresses: (first, last), .. } => {
                    encode_range(out, *ports, &first.octets(), &last.octets());
                }
                TrafficSelector::Other { body, .. } => out.extend(body),
            }
            Ok(())
        })
    }
}

fn encode_range(out: &mut Vec<u8>, ports: (u16, u16), first: &[u8], last: &[u8]) {
    out.extend(ports.0.to_be_bytes());
    out.extend(ports.1.to_be_bytes());
    out.extend(first);
    out.extend(last);
}

pub(super) fn parse(body: &[u8]) -> Result<Vec<TrafficSelector>, &'static str> {
    const SHORT: &str = "traffic selector too short";
    let mut cursor = Cursor::new(body);
    let [number, _, _, _] = cursor.array().ok_or(SHORT)?;
    let mut selectors = Vec::new();
    for _ in 0..number {
        let [kind, protocol] = cursor.array().ok_or(SHORT)?;
        let length = cursor.u16().ok_or(SHORT)?;
        let body = cursor.take_counted(length, SELECTOR_HEADER_LEN).ok_or("length of a traffic selector")?;
        selectors.push(TrafficSelector::parse(kind, protocol, body).ok_or("length of a traffic selector")?);
    }
    if cursor.is_empty() { Ok(selectors) } else { Err("octets after the last traffic selector") }
}

pub(super) fn encode(selectors: &[TrafficSelector], out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.extend([count(selectors.len())?, 0, 0, 0]);
    selectors.iter().try_for_each(|selector| selector.encode(out))
}

const IPV4_ADDR_RANGE: u8 = 7;
const IPV6_ADDR_RANGE: u8 = 8;
const SELECTOR_HEADER_LEN: usize = 4;
