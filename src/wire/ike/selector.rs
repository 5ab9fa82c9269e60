//! Traffic selectors (RFC 7296 §3.13).

use std::net::{Ipv4Addr, Ipv6Addr};

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
}
