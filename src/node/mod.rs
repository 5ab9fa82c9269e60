//! The node: a pure function of (plan, seed, inputs, time) to (datagrams, inner packets, kernel-route changes).
//!
//! The contract, for the daemon and for the simulation:
//! 1. Give inputs (`handle_*`), with a time that never goes backwards.
//! 2. Then drain: [`Node::egress`] (send the trains, write the inner packets, clear it) and [`Node::poll_output`] until `None`.
//! 3. Sleep until [`Node::poll_timeout`], or an input; call [`Node::handle_timeout`] when the time has come.
//!
//! Rooms: `dial` (when a peer is tried), `link` (one tunnel), `sessions` (what IKE reports), `moves` (addresses that change),
//! `upkeep` (timers of links), `tables` (Fib and kernel routes), `announce` (what we originate), `snapshot` (what a person
//! sees), `reload` (a new plan), `steering` and `trace` (segment routing), `ident` (derived names).

mod announce;
mod dial;
mod ident;
mod link;
mod links;
mod moves;
mod peers;
mod reload;
mod sas;
mod sessions;
mod snapshot;
mod steering;
mod tables;
mod trace;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::babel::{self, Speaker};
use crate::config::plan::{self, Plan};
use crate::crypto::rng::Rng;
use crate::ike::{self, Endpoint};
use crate::path::{LinkId, Path, PeerId, SocketId};
use crate::plane::{Control, Egress, Plane};
use crate::prefix::Prefix;
use crate::status::model;
use crate::time::Time;
use crate::wire::ip::udp6_packet;
use crate::wire::udpencap::{self, Kind};
use crate::wire::vnet::{self, Vnet};
use dial::Dial;
use link::{Link, clipped};
use links::Links;
use peers::Peers;
use reload::Applied;
pub use reload::Reloaded;
use sessions::Refusals;
use snapshot::Rate;
use trace::Trace;

/// Something only the daemon can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask for the addresses of a name, both families, and tell [`Node::handle_resolved`].
    Resolve {
        name: String,
    },
    /// Open a UDP port of the kernel's choice under this id; tell [`Node::handle_socket`].
    OpenSocket {
        socket: SocketId,
    },
    CloseSocket {
        socket: SocketId,
    },
    /// Change our routing table in the kernel: the route goes to the TUN device.
    AddRoute {
        prefix: Prefix,
    },
    DeleteRoute {
        prefix: Prefix,
    },
}

pub struct Node {
    plan: Plan,
    peers: Peers,
    applied: Applied,
    started: Time,
    rng: Rng,
    ike: Endpoint,
    babel: Speaker,
    plane: Plane,
    egress: Egress,
    outputs: VecDeque<Output>,
    links: Links,
    next_link: u32,
    /// Why a peer without any link is not up, and since when.
    absent: BTreeMap<PeerId, (Option<String>, Time)>,
    next_socket: u16,
    /// Source ports that are being opened, and for which link.
    opening: BTreeMap<SocketId, LinkId>,
    /// The local ports, as far as known.
    ports: BTreeMap<SocketId, u16>,
    kernel_routes: BTreeSet<Prefix>,
    /// What others have put into the tables that we were told to follow.
    foreign_routes: Vec<(u32, Prefix)>,
    refusals: Refusals,
    /// Send errors by the system's word for them.
    send_errors: BTreeMap<String, u64>,
    rate: Rate,
    /// Octets in and out of sessions that have ended.
    past_octets: (u64, u64),
    /// No further port could be opened, and that was said.
    short_of_ports: bool,
    tables_built: u64,
    trace: Option<Trace>,
}

/// A new port that the daemon does not report is given up after this.
const SOCKET_PATIENCE: Duration = Duration::from_secs(2);
const RELAY_MTU: u16 = 1400;

impl Node {
    /// `seed` must be fresh randomness: every key comes from it.
    pub fn new(plan: Plan, seed: [u8; 32], now: Time) -> Node {
        let mut rng = Rng::from_seed(seed);
        let settings = ike::endpoint::Settings {
            name: plan.name.clone(),
            private_key: plan.private_key.clone(),
            suites: plan.suites.clone(),
            rekey: plan.rekey,
        };
        let mut ike = Endpoint::new(settings, ike::endpoint::Limits::default(), rng.fork(), now);
        let peers = Peers::new(&plan.peers);
        for (id, peer) in peers.iter() {
            ike.know(id, peer.into());
        }
        let own_key = plan.private_key.public();
        let settings = babel::speaker::Settings {
            router_id: ident::router_id(&own_key),
            hello_interval: plan.babel.hello_interval,
        };
        let babel = Speaker::new(settings, rng.fork(), now);
        let mut plane = Plane::new(plan.tun.as_ref().map_or(RELAY_MTU, |tun| tun.mtu));
        let addresses: Vec<IpAddr> = plan.tun.iter().flat_map(|tun| &tun.addresses).map(ipnet::IpNet::addr).collect();
        plane.set_addresses(addresses);
        plane.set_tun(plan.tun.is_some());

        let ports: BTreeMap<SocketId, u16> = (0..).map(SocketId).zip(plan.listen.iter().copied()).collect();
        for (socket, port) in &ports {
            ike.set_port(*socket, *port);
        }
        let next_socket = u16::try_from(plan.listen.len()).unwrap_or(u16::MAX);
        let absent = peers.iter().map(|(id, _)| (id, (None, now))).collect();
        let mut node = Node {
            peers,
            applied: Applied { at: now, problem: None, needs_restart: Vec::new() },
            started: now,
            rng,
            ike,
            babel,
            plane,
            egress: Egress::default(),
            outputs: VecDeque::new(),
            links: Links::default(),
            next_link: 0,
            absent,
            next_socket,
            opening: BTreeMap::new(),
            ports,
            kernel_routes: BTreeSet::new(),
            foreign_routes: Vec::new(),
            refusals: Refusals::default(),
            send_errors: BTreeMap::new(),
            rate: Rate::default(),
            past_octets: (0, 0),
            short_of_ports: false,
            tables_built: 0,
            trace: None,
            plan,
        };
        node.announce(now);
        node.apply_steering();
        node.add_dialled_links(now);
        node.settle(now);
        node
    }

    /// A datagram from the wire, with the traffic class of its outer header; it is decrypted in place.
    pub fn handle_datagram(&mut self, now: Time, path: Path, tos: u8, datagram: &mut [u8]) {
        let bare = udpencap::is_bare(self.ports.get(&path.socket).copied(), path.remote.port());
        let kind =
            if bare && datagram != udpencap::KEEPALIVE { Kind::Ike(datagram) } else { udpencap::classify(datagram) };
        match kind {
            Kind::Esp => {
                self.plane.inbound(now, path, tos, datagram, &mut self.egress);
                if !self.egress.control.is_empty() {
                    self.settle(now);
                }
            }
            Kind::Ike(message) => {
                // A tunnel inside itself is no way.
                if self.plane.fib().is_in_mesh(path.remote.ip()) {
                    self.ike.receive_inside(now, path, message);
                } else {
                    self.ike.receive(now, path, message);
                }
                self.settle(now);
            }
            Kind::Keepalive => {}
            Kind::Runt => self.plane.count("runt", 1),
        }
    }

    /// A packet from the TUN device.
    pub fn handle_inner(&mut self, now: Time, packet: &[u8]) {
        self.plane.outbound(now, packet, &mut self.egress);
        if !self.egress.control.is_empty() {
            self.settle(now);
        }
    }

    /// The same from a TUN device with offloads: with the header of `IFF_VNET_HDR`.
    pub fn handle_super(&mut self, now: Time, vnet: [u8; vnet::LEN], packet: &mut [u8]) {
        match Vnet::parse(vnet) {
            Some(vnet) => self.plane.outbound_super(now, &vnet, packet, &mut self.egress),
            None => self.plane.count("malformed", 1),
        }
        if !self.egress.control.is_empty() {
            self.settle(now);
        }
    }

    /// The answer to [`Output::Resolve`]; the error is a sentence for the user ("no answer from 192.0.2.53").
    pub fn handle_resolved(&mut self, now: Time, name: &str, result: Result<Vec<IpAddr>, String>) {
        let named = |dial: &Dial| matches!(&dial.endpoint.host, plan::Host::Name(own) if own == name);
        for id in self.links.ids(|link| link.dial.as_ref().is_some_and(named)) {
            let Some(Link { dial: Some(dial), reason, .. }) = self.links.get_mut(&id) else { continue };
            if let Err(error) = &result {
                *reason = Some(clipped(format!("cannot resolve {name}: {error}"), link::SENTENCE));
            }
            dial.resolved(now, &result, &mut self.rng);
        }
        self.run_links(now);
        self.settle(now);
    }

    /// The answer to [`Output::OpenSocket`]: the local port, or why there is none.
    pub fn handle_socket(&mut self, now: Time, socket: SocketId, result: Result<u16, String>) {
        match result {
            Ok(port) => {
                self.short_of_ports = false;
                self.ports.insert(socket, port);
                self.ike.set_port(socket, port);
                match self.opening.remove(&socket).and_then(|id| self.links.get_mut(&id)) {
                    Some(Link { dial: Some(dial), .. }) => dial.use_socket(now, socket),
                    Some(_) | None => self.release_sockets(),
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.short_of_ports, true) {
                    log::warn!("no further UDP port: {error}; peers are dialled from the old ones");
                }
                if let Some(Link { dial: Some(dial), .. }) =
                    self.opening.remove(&socket).and_then(|id| self.links.get_mut(&id))
                {
                    dial.use_socket(now, dial.socket);
                }
            }
        }
        self.run_links(now);
        self.settle(now);
    }

    /// The daemon or the system dropped so many: counted under this reason.
    pub fn count(&mut self, reason: &'static str, times: u32) {
        self.plane.count(reason, times);
    }

    /// When to call [`Node::handle_timeout`], and what for.
    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        let links = self.links.next_timer().map(|at| (at, "link"));
        [self.ike.poll_timeout(), self.babel.poll_timeout(), links].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if self.ike.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.ike.handle_timeout(now);
        }
        if self.babel.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.babel.handle_timeout(now);
        }
        self.run_links(now);
        if self.rate.is_due(now) {
            self.rate.sample(now, self.octets());
        }
        self.settle(now);
    }

    pub fn egress(&mut self) -> &mut Egress {
        &mut self.egress
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Retractions and DELETEs go into the egress; nothing else happens afterwards.
    pub fn shut_down(&mut self, now: Time) {
        self.babel.shut_down(now);
        self.send_babel(now);
        self.ike.shut_down(now);
        self.send_ike();
    }

    /// Works off what the parts have to say to each other, until they have nothing left.
    fn settle(&mut self, now: Time) {
        loop {
            // The peer can open what is sealed under a new SA only after the answer that makes it.
            self.send_ike();
            for control in std::mem::take(&mut self.egress.control) {
                self.handle_control(now, control);
            }
            while let Some(event) = self.ike.poll_event() {
                self.handle_ike(now, event);
            }
            self.send_babel(now);
            if self.babel.take_changed() {
                self.rebuild_tables();
            }
            if self.egress.control.is_empty() {
                break;
            }
        }
        self.send_ike();
        self.links.rearm();
    }

    fn handle_control(&mut self, now: Time, control: Control) {
        match control {
            Control::Babel { link, from, to, payload } => {
                self.babel.receive(now, link, from, to, &payload);
                if self.links.get(&link).is_some_and(|link| link.state != model::State::Up) {
                    self.update_state(now, link);
                }
            }
            Control::Moved { link, path } => self.move_link(link, path),
            Control::Worn { link } => self.worn(now, link),
            Control::Message { from, message } => self.hear(now, from, &message),
        }
    }

    fn send_babel(&mut self, now: Time) {
        while let Some(packet) = self.babel.poll_transmit(now) {
            let Some(link) = self.links.get(&packet.link) else { continue };
            let packet = udp6_packet(link.address, packet.to, 1, BABEL_CLASS, BABEL_PORT, BABEL_PORT, &packet.payload);
            self.plane.send(now, link.id, &packet, &mut self.egress);
        }
    }

    fn send_ike(&mut self) {
        while let Some(transmit) = self.ike.poll_transmit() {
            self.egress.push_datagram(transmit.path, transmit.datagram);
        }
    }

    fn add_dialled_links(&mut self, now: Time) {
        let mut first = now;
        for peer in self.peers.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.dial_endpoints(now, &mut first, peer);
        }
    }

    fn add_link(&mut self, now: Time, peer: PeerId, dial: Option<Dial>) -> LinkId {
        let id = LinkId(self.next_link);
        self.next_link = self.next_link.wrapping_add(1);
        let address = self.link_address(peer, id);
        self.links.insert(Link::new(id, peer, address, dial, now));
        id
    }

    fn link_address(&self, peer: PeerId, link: LinkId) -> Ipv6Addr {
        ident::link_local(&self.plan.private_key.public(), &self.peer(peer).public_key, link.0)
    }

    /// The first of our ports that can carry a session: not 500, where peers only begin.
    fn first_socket(&self) -> SocketId {
        let at = self.plan.listen.iter().position(|port| *port != udpencap::IKE_PORT);
        SocketId(at.and_then(|at| u16::try_from(at).ok()).unwrap_or(0))
    }

    fn peer(&self, id: PeerId) -> &plan::Peer {
        &self.peers[id]
    }

    /// A number that changes with every forwarding table, for the simulation.
    #[cfg(test)]
    pub(crate) fn table_generation(&self) -> u64 {
        self.tables_built
    }

    /// Our SIDs that packets have come to since the last call.
    #[cfg(test)]
    pub(crate) fn take_visited(&mut self) -> Vec<(Time, Ipv6Addr)> {
        std::mem::take(&mut self.plane.visited)
    }

    /// As if so many packets had been sent on every link.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, sent: u32) {
        self.plane.skip_to(sent);
    }

    /// From now on no session gets a further Child SA.
    #[cfg(test)]
    pub(crate) fn refuse_children(&mut self) {
        self.ike.refuse_children();
    }

    /// The IKE SAs that stand, whether a link has them or not, for the simulation.
    #[cfg(test)]
    pub(crate) fn ike_sas(&self) -> Vec<(u64, u64)> {
        let standing = self.ike.sas().filter(|sa| sa.established);
        standing.map(|sa| (sa.spi_initiator, sa.spi_responder)).collect()
    }

    fn octets(&self) -> (u64, u64) {
        let counts = self.links.keys().filter_map(|id| self.plane.link(*id));
        counts.fold(self.past_octets, |(inn, out), count| (inn + count.octets_in, out + count.octets_out))
    }
}

/// Babel's port (RFC 8966 §4).
const BABEL_PORT: u16 = 6696;
/// CS6, network control.
const BABEL_CLASS: u8 = 0xc0;
