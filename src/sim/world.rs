//! The world: hosts, the wires between them, and the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::nat::Nat;
use super::packets::{self, Echo};
use super::wire::Wire;
use crate::config::plan::Plan;
use crate::crypto::rng::Rng;
use crate::fib::Target;
use crate::node::{Node, Output};
use crate::path::{Path, SocketId};
use crate::status::model::{self, State};
use crate::time::Time;

/// One router.
pub(crate) struct Host {
    pub(crate) plan: Plan,
    pub(crate) node: Option<Node>,
    /// Underlay addresses; the first of a family is the source of what it sends.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) nat: Option<Nat>,
    sockets: BTreeMap<SocketId, u16>,
    /// What names resolve to here; others fail with the sentence.
    pub(crate) names: BTreeMap<String, Result<Vec<IpAddr>, String>>,
    /// Routes asked of the kernel.
    pub(crate) kernel: BTreeSet<crate::prefix::Prefix>,
    /// The underlay refuses to send, with this error.
    pub(crate) send_error: Option<&'static str>,
    table: u64,
    /// Its timer.
    wake: Option<Time>,
}

struct Arrival {
    host: usize,
    path: Path,
    payload: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) seed: u64,
    pub(crate) hosts: Vec<Host>,
    /// Hosts by name.
    places: BTreeMap<String, usize>,
    /// By sender and receiver.
    pub(crate) wires: BTreeMap<(usize, usize), Wire>,
    /// IKE_SA_INIT requests seen, by sender.
    pub(crate) inits: BTreeMap<usize, u32>,
    pub(crate) rng: Rng,
    /// The last sequence number on each SPI, by sender, if a test wants them: none may come twice.
    pub(crate) sequences: Option<BTreeMap<(usize, u32), u32>>,
    /// IKE messages sent, fragments counted.
    pub(crate) ike_messages: u64,
    /// Nobody carries packets of this family (IPv6 if true).
    pub(crate) dead_family: Option<bool>,
    arrivals: BTreeMap<(Time, u64), Arrival>,
    /// The timers of the hosts.
    wakes: BTreeSet<(Time, usize)>,
    serial: u64,
    /// Pings under way and answered, by sequence number.
    sent: BTreeMap<u16, Time>,
    answered: BTreeMap<u16, Duration>,
    next_ping: u16,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            now: Time::from_micros(1_000_000),
            seed,
            hosts: Vec::new(),
            places: BTreeMap::new(),
            wires: BTreeMap::new(),
            inits: BTreeMap::new(),
            rng: Rng::from_number(seed),
            sequences: None,
            ike_messages: 0,
            dead_family: None,
            arrivals: BTreeMap::new(),
            wakes: BTreeSet::new(),
            serial: 0,
            sent: BTreeMap::new(),
            answered: BTreeMap::new(),
            next_ping: 0,
        }
    }

    /// Adds a host, switched off.
    pub(crate) fn add(&mut self, plan: Plan, addresses: Vec<IpAddr>) -> usize {
        self.places.insert(plan.name.clone(), self.hosts.len());
        self.hosts.push(Host {
            plan,
            node: None,
            addresses,
            nat: None,
            sockets: BTreeMap::new(),
            names: BTreeMap::new(),
            kernel: BTreeSet::new(),
            send_error: None,
            table: 0,
            wake: None,
        });
        self.hosts.len() - 1
    }

    /// Gives a host other underlay addresses, and tells it.
    pub(crate) fn readdress(&mut self, host: usize, addresses: Vec<IpAddr>) {
        let now = self.now;
        self.hosts[host].addresses.clone_from(&addresses);
        let Some(node) = &mut self.hosts[host].node else { return };
        for path in node.paths() {
            let choice = addresses.iter().find(|address| address.is_ipv4() == path.remote.is_ipv4()).copied();
            let gone = path.local.is_some_and(|local| !addresses.contains(&local));
            node.handle_source(now, path, choice, gone);
        }
        self.drain(host);
    }

    /// Sets both directions between two hosts.
    pub(crate) fn connect(&mut self, a: usize, b: usize, wire: impl Fn() -> Wire) {
        self.wires.insert((a, b), wire());
        self.wires.insert((b, a), wire());
    }

    /// Changes both directions between two hosts.
    pub(crate) fn change(&mut self, a: usize, b: usize, change: impl Fn(&mut Wire)) {
        for key in [(a, b), (b, a)] {
            change(self.wires.get_mut(&key).expect("no such wire"));
        }
    }

    pub(crate) fn start(&mut self, host: usize) {
        let seed = self.rng.array();
        let now = self.now;
        let own = &mut self.hosts[host];
        own.sockets = (0..).map(SocketId).zip(own.plan.listen.iter().copied()).collect();
        own.kernel.clear();
        own.node = Some(Node::new(own.plan.clone(), seed, now));
        self.drain(host);
    }

    pub(crate) fn start_all(&mut self) {
        for host in 0..self.hosts.len() {
            self.start(host);
        }
    }

    /// Gives a running host another plan.
    pub(crate) fn reload(&mut self, host: usize, plan: Plan) -> crate::node::Reloaded {
        let now = self.now;
        self.hosts[host].plan = plan.clone();
        let done = self.hosts[host].node.as_mut().expect("host is off").reload(now, plan);
        self.drain(host);
        self.check();
        done
    }

    pub(crate) fn trace(&mut self, host: usize, to: IpAddr) -> Result<(), String> {
        let now = self.now;
        let started = self.hosts[host].node.as_mut().expect("host is off").start_trace(now, to, None);
        self.drain(host);
        started
    }

    pub(crate) fn trace_result(&mut self, host: usize) -> Option<model::TraceReport> {
        let now = self.now;
        let report = self.hosts[host].node.as_mut().expect("host is off").trace_result(now);
        self.drain(host);
        report
    }

    /// Lets every tunnel of a host be half used up.
    pub(crate) fn wear(&mut self, host: usize) {
        let now = self.now;
        self.hosts[host].node.as_mut().expect("host is off").wear(now);
        self.drain(host);
    }

    /// `wattle rekey`, as a person would ask for it.
    pub(crate) fn rekey(&mut self, host: usize, name: &str, ike: bool, children: bool) -> Result<String, String> {
        let now = self.now;
        let done = self.hosts[host].node.as_mut().map(|node| node.rekey(now, name, ike, children));
        self.drain(host);
        done.unwrap_or_else(|| Err("not running".to_owned()))
    }

    /// Pulls the plug: no DELETE, no retraction.
    pub(crate) fn kill(&mut self, host: usize) {
        self.hosts[host].node = None;
        self.drain(host);
    }

    pub(crate) fn node(&self, host: usize) -> &Node {
        self.hosts[host].node.as_ref().expect("host is off")
    }

    pub(crate) fn snapshot(&self, host: usize) -> model::Snapshot {
        self.node(host).snapshot(self.now)
    }

    /// The peer called `name`, as `host` sees it.
    pub(crate) fn peer(&self, host: usize, name: &str) -> model::Peer {
        self.snapshot(host).peers.into_iter().find(|peer| peer.name == name).expect("no such peer")
    }

    pub(crate) fn is_up(&self, host: usize, other: usize) -> bool {
        let now = self.now;
        self.hosts[host]
            .node
            .as_ref()
            .is_some_and(|node| node.peer_state(now, &self.hosts[other].plan.name) == State::Up)
    }

    /// Runs until `until` holds, for `limit` at most, and says how long it took.
    pub(crate) fn run_until(&mut self, limit: Duration, mut until: impl FnMut(&mut World) -> bool) -> Option<Duration> {
        let start = self.now;
        let end = self.now + limit;
        loop {
            if until(self) {
                return Some(self.now.since(start));
            }
            if !self.step(end) {
                return until(self).then(|| self.now.since(start));
            }
        }
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.check_reasons();
    }

    /// The next event, if it comes before `end`; else time moves to `end`.
    pub(crate) fn step(&mut self, end: Time) -> bool {
        let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
        let wake = self.wakes.first().copied();
        let next = arrival.into_iter().chain(wake.map(|(at, _)| at)).min();
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        if let Some((at, host)) = wake
            && at <= next
        {
            let now = self.now;
            if let Some(node) = &mut self.hosts[host].node {
                node.handle_timeout(now);
                assert!(
                    node.poll_timeout().is_none_or(|(again, _)| again > now),
                    "seed {}: host {host} is stuck on its timer {:?} at {now:?}",
                    self.seed,
                    node.poll_timeout()
                );
            }
            self.drain(host);
        } else if let Some((_, arrival)) = self.arrivals.pop_first() {
            let Arrival { host, path, mut payload } = arrival;
            if let Some(node) = &mut self.hosts[host].node {
                node.handle_datagram(self.now, path, 0, &mut payload);
            }
            self.drain(host);
        }
        self.check();
        true
    }

    /// Sends a ping between the overlay addresses of two hosts and returns its number.
    pub(crate) fn ping(&mut self, from: usize, source: IpAddr, destination: IpAddr) -> u16 {
        self.next_ping = self.next_ping.wrapping_add(1);
        let sequence = self.next_ping;
        let packet = packets::echo(Echo { source, destination, request: true, sequence }, 56);
        self.sent.insert(sequence, self.now);
        let now = self.now;
        if let Some(node) = &mut self.hosts[from].node {
            node.handle_inner(now, &packet);
        }
        self.drain(from);
        sequence
    }

    /// The round-trip time of a ping, if it was answered.
    pub(crate) fn answer(&self, sequence: u16) -> Option<Duration> {
        self.answered.get(&sequence).copied()
    }

    /// Gives a host's datagram again, from another source: an eavesdropper's copy.
    pub(crate) fn inject(&mut self, host: usize, path: Path, mut payload: Vec<u8>) {
        let now = self.now;
        if let Some(node) = &mut self.hosts[host].node {
            node.handle_datagram(now, path, 0, &mut payload);
        }
        self.drain(host);
    }

    /// Carries a host's outputs to where they belong.
    fn drain(&mut self, host: usize) {
        self.empty(host);
        let next = self.hosts[host].node.as_ref().and_then(Node::poll_timeout).map(|(at, _)| at);
        let before = std::mem::replace(&mut self.hosts[host].wake, next);
        before.map(|at| self.wakes.remove(&(at, host)));
        next.map(|at| self.wakes.insert((at, host)));
    }

    fn empty(&mut self, host: usize) {
        loop {
            let Some(node) = &mut self.hosts[host].node else { return };
            let egress = std::mem::take(node.egress());
            let mut outputs = Vec::new();
            while let Some(output) = node.poll_output() {
                outputs.push(output);
            }
            if egress.trains.is_empty() && egress.inner_ends.is_empty() && outputs.is_empty() {
                return;
            }
            for train in &egress.trains {
                for datagram in train.datagrams() {
                    self.transmit(host, train.path, datagram.to_vec());
                }
            }
            for packet in egress.inner_packets() {
                self.deliver(host, packet);
            }
            for output in outputs {
                self.obey(host, output);
            }
        }
    }

    fn obey(&mut self, host: usize, output: Output) {
        let now = self.now;
        let own = &mut self.hosts[host];
        let Some(node) = &mut own.node else { return };
        match output {
            Output::Resolve { name } => {
                let result = own.names.get(&name).cloned().unwrap_or_else(|| Err("no such name".into()));
                node.handle_resolved(now, &name, result);
            }
            Output::OpenSocket { socket } => {
                let port = 30000 + socket.0;
                own.sockets.insert(socket, port);
                node.handle_socket(now, socket, Ok(port));
            }
            Output::CloseSocket { socket } => {
                own.sockets.remove(&socket);
            }
            Output::AddRoute { prefix } => {
                assert!(own.kernel.insert(prefix), "{prefix} added twice");
            }
            Output::DeleteRoute { prefix } => {
                assert!(own.kernel.remove(&prefix), "{prefix} deleted without being there");
            }
        }
    }

    /// The "kernel" behind the TUN device: answers pings to the host, notes answers to its own.
    fn deliver(&mut self, host: usize, packet: &[u8]) {
        let Some(echo) = packets::parse_echo(packet) else { return };
        let ours = self.hosts[host]
            .plan
            .tun
            .as_ref()
            .is_some_and(|tun| tun.addresses.iter().any(|own| own.addr() == echo.destination));
        assert!(ours, "seed {}: a packet for {} came out at host {host}", self.seed, echo.destination);
        if echo.request {
            let answer = Echo { source: echo.destination, destination: echo.source, request: false, ..echo };
            let now = self.now;
            if let Some(node) = &mut self.hosts[host].node {
                node.handle_inner(now, &packets::echo(answer, 56));
            }
        } else if let Some(sent) = self.sent.remove(&echo.sequence) {
            self.answered.insert(echo.sequence, self.now.since(sent));
        }
    }

    fn note(&mut self, from: usize, payload: &[u8]) {
        let Some((head, _)) = payload.split_first_chunk::<8>() else { return };
        let [spi, sequence] = [&head[..4], &head[4..]].map(|word| u32::from_be_bytes(word.try_into().unwrap()));
        if spi == 0 {
            self.ike_messages += 1;
        } else if let Some(sequences) = &mut self.sequences {
            let last = sequences.insert((from, spi), sequence).unwrap_or(0);
            assert!(sequence > last, "seed {}: {from} sends {sequence} after {last} on {spi:08x}", self.seed);
        }
    }

    fn transmit(&mut self, from: usize, path: Path, payload: Vec<u8>) {
        let port = self.hosts[from].sockets.get(&path.socket).copied();
        // RFC 3948 §2.2: the marker is for the ports that carry ESP as well.
        let bare = port == Some(500) || path.remote.port() == 500;
        let ike = if bare { Some(&payload[..]) } else { payload.strip_prefix(&[0; 4]) };
        if ike.is_some_and(|message| message.len() > 19 && message[18] == 34 && message[19] & 0x20 == 0) {
            *self.inits.entry(from).or_default() += 1;
        }
        self.note(from, &payload);
        let now = self.now;
        let sender = &mut self.hosts[from];
        if let Some(error) = sender.send_error {
            if let Some(node) = &mut sender.node {
                node.handle_send_error(now, path, error);
            }
            return;
        }
        if self.dead_family == Some(path.remote.is_ipv6()) {
            return;
        }
        let Some(port) = port else { return };
        let family = |address: &&IpAddr| address.is_ipv4() == path.remote.is_ipv4();
        let kept = path.local.filter(|local| sender.addresses.contains(local));
        let Some(own) = kept.or_else(|| sender.addresses.iter().find(family).copied()) else {
            if let Some(node) = &mut sender.node {
                node.handle_send_error(now, path, "Network is unreachable");
            }
            return;
        };
        if path.local.is_some()
            && kept.is_none()
            && let Some(node) = &mut sender.node
        {
            node.handle_source(now, path, Some(own), true);
        }
        let source = sender.nat.as_mut().map_or(SocketAddr::new(own, port), |nat| nat.translate(port));

        let Some((to, local, port)) = self.hosts.iter().enumerate().find_map(|(index, host)| match &host.nat {
            Some(nat) if nat.public == path.remote.ip() => {
                Some((index, *host.addresses.first()?, nat.back(path.remote.port())?))
            }
            Some(_) => None,
            None => host.addresses.contains(&path.remote.ip()).then(|| (index, path.remote.ip(), path.remote.port())),
        }) else {
            return;
        };
        let Some(socket) = self.hosts[to].sockets.iter().find(|(_, own)| **own == port).map(|(socket, _)| *socket)
        else {
            return;
        };
        let Some(wire) = self.wires.get_mut(&(from, to)) else { return };
        for at in wire.arrivals(now, &payload, &mut self.rng) {
            self.serial += 1;
            let path = Path { socket, local: Some(local), remote: source };
            self.arrivals.insert((at, self.serial), Arrival { host: to, path, payload: payload.clone() });
        }
    }

    /// The invariants, whenever a table changed.
    fn check(&mut self) {
        let mut changed = false;
        for host in &mut self.hosts {
            let table = host.node.as_ref().map_or(0, Node::table_generation);
            changed |= std::mem::replace(&mut host.table, table) != table;
        }
        if !changed {
            return;
        }
        for (index, host) in self.hosts.iter().enumerate() {
            let Some(node) = &host.node else { continue };
            for route in node.selected() {
                assert!(
                    route.feasible || !matches!(route.next_hop, crate::babel::speaker::NextHop::Link(_)),
                    "seed {}: host {index} selected an unfeasible route {route:?} at {:?}",
                    self.seed,
                    self.now
                );
            }
        }
        for to in 0..self.hosts.len() {
            for from in 0..self.hosts.len() {
                self.follow(from, to);
            }
        }
    }

    /// Whoever is not up has a reason that fits into a line, at both ends.
    fn check_reasons(&self) {
        for (index, host) in self.hosts.iter().enumerate() {
            let Some(node) = &host.node else { continue };
            for peer in node.snapshot(self.now).peers {
                let told = peer.reason.as_ref().is_some_and(|reason| (1..=160).contains(&reason.len()));
                assert!(
                    told == (peer.state != State::Up),
                    "seed {}: host {index} at {:?}: {} is {:?} because {:?}",
                    self.seed,
                    self.now,
                    peer.name,
                    peer.state,
                    peer.reason
                );
            }
        }
    }

    /// Walks the tables from one host to another, and fails on a loop.
    fn follow(&self, from: usize, to: usize) {
        let address = |host: usize| {
            self.hosts[host].plan.tun.as_ref().and_then(|tun| tun.addresses.first()).map(ipnet::IpNet::addr)
        };
        let (Some(source), Some(destination)) = (address(from), address(to)) else { return };
        let mut at = from;
        let mut seen = Vec::new();
        loop {
            assert!(
                !seen.contains(&at),
                "seed {}: forwarding loop {seen:?} from {from} to {to} at {:?}",
                self.seed,
                self.now
            );
            seen.push(at);
            let Some(node) = &self.hosts[at].node else { return };
            match node.forward(destination, source) {
                Some((Target::Link(_), Some(peer))) => {
                    let Some(next) = self.places.get(peer).copied() else { return };
                    at = next;
                }
                _ => return,
            }
        }
    }
}
