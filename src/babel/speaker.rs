//! The speaker: one per node, sans-IO.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::crypto::rng::Rng;
use crate::path::LinkId;
use crate::prefix::Prefix;
use crate::time::Time;

pub struct Settings {
    /// Never all zeros or all ones.
    pub router_id: [u8; 8],
    pub hello_interval: Duration,
}

/// A packet to be sent over a link: the UDP payload, and to whom.
pub struct Transmit {
    pub link: LinkId,
    /// `ff02::1:6` or the neighbour's link-local address.
    pub to: Ipv6Addr,
    pub payload: Vec<u8>,
}

/// Where packets for a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Our own announcement.
    Local,
    Link(LinkId),
    /// A peer that does not speak Babel, over this link (see [`Speaker::set_static`]).
    Static(LinkId),
    /// Held unreachable after a retraction, so that a covering shorter route is not used (RFC 8966 §3.5.4).
    Unreachable,
}

/// One line of the routing table, for the Fib and for `wattle routes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub prefix: Prefix,
    pub next_hop: NextHop,
    pub metric: u16,
    pub router_id: [u8; 8],
    pub seqno: u16,
    pub selected: bool,
    pub feasible: bool,
}

/// A neighbour, for `wattle neighbours` and for the link's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    pub link: LinkId,
    pub address: Ipv6Addr,
    /// Smoothed; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Share of Hellos that arrived, 0 to 1, of the last 16.
    pub delivery: f32,
    /// Cost of receiving from it, as we advertise it (0xffff: we do not hear it).
    pub rxcost: u16,
    /// Cost it last told us (0xffff: it does not hear us).
    pub txcost: u16,
    /// The link cost that routes are made of.
    pub cost: u16,
    /// When its last Hello and its last IHU for us came.
    pub last_hello: Option<Time>,
    pub last_ihu: Option<Time>,
    pub since: Time,
}

pub struct Speaker {}

impl Speaker {
    pub fn new(settings: Settings, rng: Rng, now: Time) -> Speaker {
        let _ = (settings, rng, now);
        todo!()
    }

    /// The prefixes this node originates; replaces the earlier set, retracting what is gone.
    pub fn announce(&mut self, now: Time, prefixes: Vec<Prefix>) {
        let _ = (now, prefixes);
        todo!()
    }

    /// Prefixes behind a peer that does not speak Babel, originated by us while given; an empty list withdraws them.
    pub fn set_static(&mut self, now: Time, link: LinkId, prefixes: Vec<Prefix>) {
        let _ = (now, link, prefixes);
        todo!()
    }

    /// A link came up; `address` is our own link-local address on it, `mtu` the largest IPv6 packet it carries.
    pub fn link_up(&mut self, now: Time, link: LinkId, address: Ipv6Addr, mtu: u16) {
        let _ = (now, link, address, mtu);
        todo!()
    }

    /// The link is gone: its neighbour and routes are dropped at once.
    pub fn link_down(&mut self, now: Time, link: LinkId) {
        let _ = (now, link);
        todo!()
    }

    /// The payload of a UDP datagram with both ports 6696 and a link-local source, which the caller has checked.
    pub fn receive(&mut self, now: Time, link: LinkId, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) {
        let _ = (now, link, from, to, payload);
        todo!()
    }

    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        todo!()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// The next packet to send. Timestamps are written with `now`: call it just before sending.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let _ = now;
        todo!()
    }

    /// Whether the selected routes changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        todo!()
    }

    /// Selected routes, own ones and holds included: what the Fib is built from.
    pub fn selected(&self) -> impl Iterator<Item = Route> + '_ {
        std::iter::empty()
    }

    /// Every route known, for the user.
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        std::iter::empty()
    }

    pub fn neighbours(&self, now: Time) -> Vec<Neighbour> {
        let _ = now;
        todo!()
    }

    /// Malformed or refused input since the start, by reason.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        std::iter::empty()
    }

    /// Retracts everything we announced; the packets come out of [`Speaker::poll_transmit`].
    pub fn shut_down(&mut self, now: Time) {
        let _ = now;
        todo!()
    }
}
