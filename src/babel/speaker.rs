//! The speaker: one per node, sans-IO. Its parts handle what arrives (`receive`), decide (`select`), ask for seqnos
//! (`request`), send (`transmit`) and clean up (`maintain`).
//!
//! Nothing is done at the moment it is needed but decisions: the periodic work of all links happens together, once per
//! Hello interval, so that an idle speaker wakes its host less than once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::ops::Bound;
use std::time::Duration;

use log::info;

use super::link::Link;
use super::neighbour::{Neighbour as Peer, NeighbourId};
use super::request::Requests;
use super::route::{Candidate, Destination, Own, Via};
use super::source::Sources;
use crate::crypto::rng::Rng;
use crate::path::LinkId;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::{INFINITY, RouterId, Tlv};

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
    /// As the neighbour announced it: without our link's cost.
    pub received: u16,
    pub router_id: [u8; 8],
    pub seqno: u16,
    pub selected: bool,
    pub feasible: bool,
    /// Why it is not selected.
    pub unused: Option<Unused>,
}

/// Why a route is not selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// The neighbour and we do not hear each other.
    LinkLost,
    /// It might lead in a circle (RFC 8966 §3.5.1); its source is asked for a newer seqno if that would help.
    Unfeasible,
    Longer,
    /// Shorter than the selected one, but by less than 1 ms or not for long enough (RFC 8966 appendix A.3).
    NotYet,
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

pub struct Speaker {
    pub(super) router_id: RouterId,
    pub(super) intervals: Intervals,
    pub(super) rng: Rng,
    pub(super) started: Time,
    /// Our own seqno, raised only on request (RFC 8966 §3.2.1).
    pub(super) seqno: u16,
    pub(super) links: BTreeMap<LinkId, Link>,
    pub(super) neighbours: BTreeMap<NeighbourId, Peer>,
    pub(super) next_neighbour: u32,
    local: BTreeSet<Prefix>,
    statics: BTreeMap<LinkId, BTreeSet<Prefix>>,
    pub(super) table: BTreeMap<Prefix, Destination>,
    /// Candidates in the table.
    pub(super) routes: usize,
    pub(super) sources: Sources,
    pub(super) requests: Requests,
    /// The next periodic work.
    pub(super) tick: Time,
    pub(super) ticks: u32,
    pub(super) changed: bool,
    /// Reasons are the code's own, so that there are only so many.
    pub(super) counters: BTreeMap<&'static str, u64>,
    /// Farewell packets still to be sent, once shut down.
    pub(super) farewell: Option<Vec<LinkId>>,
    /// When [`Speaker::poll_transmit`] and [`Speaker::handle_timeout`] have work.
    pub(super) send_at: Option<(Time, &'static str)>,
    pub(super) work_at: Option<(Time, &'static str)>,
}

impl Speaker {
    pub fn new(settings: Settings, mut rng: Rng, now: Time) -> Speaker {
        let intervals = Intervals { hello: settings.hello_interval.max(Duration::from_millis(100)) };
        let seqno = low16(rng.u32());
        let mut speaker = Speaker {
            router_id: settings.router_id,
            intervals,
            rng,
            started: now,
            seqno,
            links: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            next_neighbour: 0,
            local: BTreeSet::new(),
            statics: BTreeMap::new(),
            table: BTreeMap::new(),
            routes: 0,
            sources: Sources::default(),
            requests: Requests::default(),
            tick: now,
            ticks: 0,
            changed: false,
            counters: BTreeMap::new(),
            farewell: None,
            send_at: None,
            work_at: None,
        };
        speaker.next_tick(now);
        speaker.rearm();
        speaker
    }

    /// The prefixes this node originates; replaces the earlier set, retracting what is gone.
    pub fn announce(&mut self, now: Time, prefixes: Vec<Prefix>) {
        self.local = prefixes.into_iter().collect();
        self.apply_own(now);
    }

    /// Prefixes behind a peer that does not speak Babel, originated by us while given; an empty list withdraws them.
    pub fn set_static(&mut self, now: Time, link: LinkId, prefixes: Vec<Prefix>) {
        if prefixes.is_empty() {
            self.statics.remove(&link);
        } else {
            self.statics.insert(link, prefixes.into_iter().collect());
        }
        self.apply_own(now);
    }

    /// A link came up; `address` is our own link-local address on it, `mtu` the largest IPv6 packet it carries.
    pub fn link_up(&mut self, now: Time, link: LinkId, address: Ipv6Addr, mtu: u16) {
        if self.farewell.is_some() {
            return;
        }
        self.link_down(now, link);
        let seqno = low16(self.rng.u32());
        self.links.insert(link, Link::new(now, address, mtu, seqno));
        self.rearm();
    }

    /// A new session carries the link, after a restart of the peer or an outage: both ends make sure at once that they still
    /// hear each other, and ask for what they missed.
    pub fn link_renewed(&mut self, now: Time, link: LinkId) {
        if self.farewell.is_some() {
            return;
        }
        let neighbours = self.links.get_mut(&link).map(|link| {
            link.hello.begin(now);
            link.neighbours.clone()
        });
        for id in neighbours.unwrap_or_default() {
            self.tell(id, Tlv::RouteRequest { prefix: None });
        }
        self.rearm();
    }

    /// The link is gone: its neighbour and routes are dropped at once.
    pub fn link_down(&mut self, now: Time, link: LinkId) {
        if let Some(link) = self.links.remove(&link) {
            self.forget(now, &link.neighbours);
        }
        self.rearm();
    }

    /// The payload of a UDP datagram with both ports 6696 and a link-local source, which the caller has checked.
    pub fn receive(&mut self, now: Time, link: LinkId, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) {
        if self.farewell.is_none() {
            self.receive_packet(now, link, from, to, payload);
            self.rearm();
        }
    }

    /// When to call [`Speaker::handle_timeout`] and then [`Speaker::poll_transmit`], and why; a time that has passed if
    /// packets wait.
    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        [self.send_at, self.work_at].into_iter().flatten().min()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if self.work_at.is_some_and(|(at, _)| at <= now) {
            self.work(now);
            self.rearm();
        }
    }

    /// The next packet to send. Timestamps are written with `now`: call it just before sending.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        while self.send_at.is_some_and(|(at, _)| at <= now) {
            let packet = self.send(now);
            self.rearm();
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// Whether the next hops of the selected routes changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Selected routes, own ones and holds included: what the Fib is built from.
    pub fn selected(&self) -> impl Iterator<Item = Route> + '_ {
        self.table.iter().filter_map(|(prefix, destination)| self.chosen(*prefix, destination))
    }

    /// Every route known, for the user.
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.table.iter().flat_map(|(prefix, destination)| {
            let others = destination.candidates.iter().filter_map(|candidate| {
                let selected = destination.is_selected(candidate.neighbour);
                (!selected).then(|| self.learned(*prefix, candidate, Some(destination)))?
            });
            self.chosen(*prefix, destination).into_iter().chain(others)
        })
    }

    pub fn neighbours(&self, now: Time) -> Vec<Neighbour> {
        self.neighbours.values().map(|peer| described(now, peer)).collect()
    }

    /// Those on one link; costs nothing for the others.
    pub fn neighbours_on(&self, now: Time, link: LinkId) -> impl Iterator<Item = Neighbour> + '_ {
        let ids = self.links.get(&link).map_or(&[][..], |link| &link.neighbours);
        ids.iter().filter_map(|id| self.neighbours.get(id)).map(move |peer| described(now, peer))
    }

    /// Malformed or refused input since the start, by reason.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counters.iter().map(|(reason, count)| (*reason, *count))
    }

    /// Retracts everything we announced; the packets come out of [`Speaker::poll_transmit`]. Nothing else is done any more.
    pub fn shut_down(&mut self, now: Time) {
        if self.farewell.is_none() {
            // Two copies: nobody will repeat them.
            let links = self.links.keys().copied();
            self.farewell = Some(links.clone().chain(links).collect());
            self.send_at = Some((now, "babel farewell"));
            self.work_at = None;
        }
    }

    pub(super) fn count(&mut self, reason: &'static str) {
        let count = self.counters.entry(reason).or_default();
        *count = count.saturating_add(1);
    }

    /// The neighbours are gone, and with them their routes.
    pub(super) fn forget(&mut self, now: Time, neighbours: &[NeighbourId]) {
        let mut any = false;
        for id in neighbours {
            if let Some(peer) = self.neighbours.remove(id) {
                any = true;
                info!("babel: neighbour {} on link {} is gone", peer.address, peer.link.0);
                if let Some(link) = self.links.get_mut(&peer.link) {
                    link.neighbours.retain(|other| other != id);
                }
            }
        }
        if any {
            self.retract_all(now, |neighbour| neighbours.contains(&neighbour));
        }
    }

    /// Walks the table without holding on to it.
    pub(super) fn prefix_after(&self, cursor: Option<Prefix>) -> Option<Prefix> {
        let from = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        self.table.range((from, Bound::Unbounded)).next().map(|(prefix, _)| *prefix)
    }

    pub(super) fn next_tick(&mut self, now: Time) {
        self.tick = now + self.jittered(self.intervals.hello);
    }

    /// RFC 8966 §3.1: jitter, to the short side, for the interval is a promise.
    pub(super) fn jittered(&mut self, interval: Duration) -> Duration {
        let jitter = u32::try_from((interval / 8).as_micros()).unwrap_or(0);
        interval.saturating_sub(Duration::from_micros(u64::from(self.rng.below(jitter))))
    }

    pub(super) fn rearm(&mut self) {
        if let Some(links) = &self.farewell {
            self.send_at = self.send_at.filter(|_| !links.is_empty());
            return;
        }
        self.send_at = self.links.values().filter_map(Link::due).min();
        let missing = self.neighbours.values().filter_map(Peer::due).min();
        self.work_at = [
            Some((self.tick, "babel tick")),
            missing.map(|at| (at, "babel hello missing")),
            self.requests.due().map(|at| (at, "babel request retry")),
        ]
        .into_iter()
        .flatten()
        .min();
    }

    /// Makes the table say what `announce` and `set_static` asked for.
    fn apply_own(&mut self, now: Time) {
        let mut wanted = BTreeMap::new();
        for (link, prefixes) in self.statics.iter().rev() {
            wanted.extend(prefixes.iter().map(|prefix| (*prefix, Own::Static(*link))));
        }
        wanted.extend(self.local.iter().map(|prefix| (*prefix, Own::Local)));
        let mut changed: Vec<Prefix> = Vec::new();
        for (prefix, destination) in &mut self.table {
            let own = wanted.remove(prefix);
            if destination.own != own {
                destination.own = own;
                changed.push(*prefix);
            }
        }
        for (prefix, own) in wanted {
            self.table.entry(prefix).or_default().own = Some(own);
            changed.push(prefix);
        }
        for prefix in changed {
            self.reselect(now, prefix);
        }
        self.rearm();
    }

    fn chosen(&self, prefix: Prefix, destination: &Destination) -> Option<Route> {
        let Some(choice) = destination.chosen else {
            return destination.hold.map(|hold| Route {
                prefix,
                next_hop: NextHop::Unreachable,
                metric: INFINITY,
                received: INFINITY,
                router_id: self.named(hold.router_id),
                seqno: 0,
                selected: true,
                feasible: true,
                unused: None,
            });
        };
        match choice.via {
            Via::Own(own) => Some(Route {
                prefix,
                next_hop: match own {
                    Own::Local => NextHop::Local,
                    Own::Static(link) => NextHop::Static(link),
                },
                metric: own.metric(),
                received: own.metric(),
                router_id: self.router_id,
                seqno: self.seqno,
                selected: true,
                feasible: true,
                unused: None,
            }),
            Via::Neighbour(_) => self.learned(prefix, destination.selected()?, None),
        }
    }

    /// `among`: the others that it was not chosen from.
    fn learned(&self, prefix: Prefix, candidate: &Candidate, among: Option<&Destination>) -> Option<Route> {
        let feasible = self.is_feasible(prefix, candidate);
        let unused = among.map(|destination| match destination.metric() {
            _ if candidate.metric() == INFINITY => Unused::LinkLost,
            _ if !feasible => Unused::Unfeasible,
            Some(chosen) if candidate.metric() < chosen => Unused::NotYet,
            Some(_) | None => Unused::Longer,
        });
        Some(Route {
            prefix,
            next_hop: NextHop::Link(self.neighbours.get(&candidate.neighbour)?.link),
            metric: candidate.metric(),
            received: candidate.received.metric,
            router_id: candidate.router_id,
            seqno: candidate.received.seqno,
            selected: among.is_none(),
            feasible,
            unused,
        })
    }

    fn named(&self, router_id: RouterId) -> RouterId {
        if router_id == super::route::OURS { self.router_id } else { router_id }
    }
}

fn described(now: Time, peer: &Peer) -> Neighbour {
    Neighbour {
        link: peer.link,
        address: peer.address,
        rtt: peer.rtt.smoothed(now),
        delivery: share(peer.delivery()),
        rxcost: peer.rxcost(),
        txcost: peer.txcost,
        cost: peer.cost,
        last_hello: peer.last_hello,
        last_ihu: peer.last_ihu,
        since: peer.since,
    }
}

/// Everything follows the Hello interval (RFC 8966 appendix B).
#[derive(Clone, Copy)]
pub(super) struct Intervals {
    pub(super) hello: Duration,
}

impl Intervals {
    pub(super) fn update(self) -> Duration {
        self.hello * UPDATE_TICKS
    }

    /// As long as a neighbour that missed the retraction may still believe the route.
    pub(super) fn hold(self) -> Duration {
        self.update() * 7 / 2
    }

    /// Between two Hellos that are sent for a reason.
    pub(super) fn hello_gap(self) -> Duration {
        (self.hello / 8).min(Duration::from_millis(200))
    }

    /// Between two full updates over a link.
    pub(super) fn dump_gap(self) -> Duration {
        self.hello / 4
    }
}

pub(super) fn low16(number: u32) -> u16 {
    let [.., high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}

fn share((received, expected): (u32, u32)) -> f32 {
    let small = |count: u32| f32::from(low16(count));
    if expected == 0 { 0.0 } else { small(received) / small(expected) }
}

/// A full update goes with every fourth Hello.
pub(super) const UPDATE_TICKS: u32 = 4;
