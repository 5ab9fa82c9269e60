//! Segment routing over IPv6: which packets take which path (`policy`), the head end that writes it into them (`headend`),
//! and what a node does with a packet to one of its SIDs (`endpoint`). Pure functions; the plane owns packets and counters.

pub mod endpoint;
pub mod headend;
pub mod policy;

use std::net::{IpAddr, Ipv6Addr};

use ipnet::Ipv6Net;

use crate::wire::srv6::{self, Behaviour};

/// The SR domain (RFC 8754 §5.1): the locators of its nodes, and who else may use SIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// Ours; without one we have no SIDs.
    pub locator: Option<Ipv6Net>,
    /// Those of the others.
    pub locators: Vec<Ipv6Net>,
    /// Sources that are not in a locator and may send to SIDs: head ends and waypoints that are not wattle.
    pub sources: Vec<Ipv6Net>,
}

impl Domain {
    /// Whether an address is a SID of the domain, as far as we know its locators.
    pub fn is_sid(&self, address: Ipv6Addr) -> bool {
        self.is_ours(address) || self.locators.iter().any(|net| net.contains(&address))
    }

    pub fn is_ours(&self, address: Ipv6Addr) -> bool {
        self.locator.is_some_and(|net| net.contains(&address))
    }

    /// What our SID stands for; `None` if it is none.
    pub fn behaviour(&self, address: Ipv6Addr) -> Option<Behaviour> {
        let locator = self.locator.filter(|net| net.contains(&address))?;
        srv6::behaviour(srv6::function(locator, address)?)
    }

    /// Our SID that outer headers come from: it answers for them (RFC 8754 §5.4).
    pub fn source(&self) -> Option<Ipv6Addr> {
        self.locator.map(|locator| srv6::sid(locator, srv6::END))
    }

    /// Whether the local network may send to SIDs, or with an SRH, from this address.
    pub fn lets_in(&self, source: IpAddr) -> bool {
        matches!(source, IpAddr::V6(source) if self.sources.iter().any(|net| net.contains(&source)))
    }

    /// Whether a packet to a SID that came through the mesh is from the domain.
    pub fn is_member(&self, source: IpAddr) -> bool {
        self.lets_in(source) || matches!(source, IpAddr::V6(source) if self.is_sid(source))
    }
}
