//! Octets: parse and emit, nothing else. Parsers never panic and never allocate more than the input's length.

pub mod babel;
pub mod esp;
pub mod icmp;
pub mod ike;
pub mod ip;
pub mod srv6;
pub mod tcp;
pub mod udpencap;
pub mod vnet;
