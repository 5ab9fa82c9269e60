//! A network of speakers on virtual time: wires with delay, jitter and loss. After every event no prefix may be forwarded in a
//! circle, and every selected route is feasible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use wattle::babel::Speaker;
use wattle::babel::speaker::{Neighbour, NextHop, Route, Settings};
use wattle::crypto::rng::Rng;
use wattle::path::LinkId;
use wattle::prefix::Prefix;
use wattle::time::Time;
use wattle::wire::babel::{Packet, Tlv, parse};

pub(crate) const HELLO: Duration = Duration::from_secs(4);

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
    /// Packets that arrived, and times a speaker was woken by its own timers.
    pub(crate) packets: u64,
    pub(crate) wakes: u64,
    /// Octets sent over each wire.
    pub(crate) octets: Vec<usize>,
    pub(crate) rng: Rng,
    seed: u64,
    hello: Duration,
    /// Prefixes with several origins, for which RFC 8966 §1.1 allows loops that end by themselves.
    shared: Vec<Prefix>,
    check: bool,
    flights: BTreeMap<(Time, u64), Flight>,
    flown: u64,
    /// When each node is next due, on the network's clock.
    timers: BTreeSet<(Time, usize)>,
    armed: Vec<Option<Time>>,
}

pub(crate) struct Node {
    pub(crate) speaker: Speaker,
    /// Our clock minus the network's.
    pub(crate) ahead: Duration,
    /// How often the next hop to each prefix changed from one link to another.
    pub(crate) switches: BTreeMap<Prefix, u32>,
    table: BTreeMap<Prefix, NextHop>,
    boots: u64,
}

pub(crate) struct Wire {
    pub(crate) ends: [usize; 2],
    /// From the first end to the second, and back.
    pub(crate) delay: [Duration; 2],
    /// In percent of the delay, to either side.
    pub(crate) jitter: u32,
    /// In percent.
    pub(crate) loss: [u32; 2],
    /// IHUs get lost in this direction.
    pub(crate) deaf: [bool; 2],
    pub(crate) up: bool,
}

struct Flight {
    wire: usize,
    to: usize,
    destination: Ipv6Addr,
    payload: Vec<u8>,
}

impl Net {
    pub(crate) fn new(seed: u64, nodes: usize) -> Net {
        Net::with_hello(seed, nodes, HELLO)
    }

    pub(crate) fn with_hello(seed: u64, nodes: usize, hello: Duration) -> Net {
        let mut rng = Rng::from_number(seed);
        let count = nodes;
        let nodes = (0..nodes).map(|index| Node::new(&mut rng, index, hello, Time::ZERO, Duration::ZERO)).collect();
        let mut net = Net {
            now: Time::ZERO,
            nodes,
            wires: Vec::new(),
            hello,
            packets: 0,
            wakes: 0,
            octets: Vec::new(),
            rng,
            seed,
            shared: Vec::new(),
            check: true,
            flights: BTreeMap::new(),
            flown: 0,
            timers: BTreeSet::new(),
            armed: vec![None; count],
        };
        (0..count).for_each(|node| net.arm(node));
        net
    }

    fn arm(&mut self, node: usize) {
        let next = self.nodes[node].speaker.poll_timeout();
        let next = next.map(|(at, _)| Time::from_micros(at.micros().saturating_sub(micros(self.nodes[node].ahead))));
        let before = std::mem::replace(&mut self.armed[node], next);
        before.map(|at| self.timers.remove(&(at, node)));
        next.map(|at| self.timers.insert((at, node)));
    }

    /// Connects two nodes by a wire with this one-way delay; its number is its [`LinkId`] at both ends.
    pub(crate) fn wire(&mut self, a: usize, b: usize, delay_ms: u64) -> usize {
        let delay = [Duration::from_millis(delay_ms); 2];
        self.wires.push(Wire { ends: [a, b], delay, jitter: 0, loss: [0; 2], deaf: [false; 2], up: false });
        self.octets.push(0);
        let wire = self.wires.len() - 1;
        self.set_up(wire, true);
        wire
    }

    pub(crate) fn set_delay(&mut self, wire: usize, delay_ms: u64) {
        self.wires[wire].delay = [Duration::from_millis(delay_ms); 2];
    }

    /// Both ends hear that the wire comes or goes.
    pub(crate) fn set_up(&mut self, wire: usize, up: bool) {
        self.wires[wire].up = up;
        for end in self.wires[wire].ends {
            self.tell_end(wire, end, up);
        }
    }

    pub(crate) fn tell_end(&mut self, wire: usize, end: usize, up: bool) {
        let (now, link) = (self.clock(end), link(wire));
        let speaker = &mut self.nodes[end].speaker;
        if up {
            speaker.link_up(now, link, address(wire, end), 1400);
        } else {
            speaker.link_down(now, link);
        }
        self.drain(end);
    }

    /// A new session carries the wire.
    pub(crate) fn renew(&mut self, wire: usize) {
        for end in self.wires[wire].ends {
            let now = self.clock(end);
            self.nodes[end].speaker.link_renewed(now, link(wire));
            self.drain(end);
        }
    }

    /// The node starts anew with the same router-id, without a word to anyone.
    pub(crate) fn restart(&mut self, node: usize, ahead: Duration) {
        let boots = self.nodes[node].boots + 1;
        let now = self.now + ahead;
        self.nodes[node] = Node::new(&mut self.rng, node, self.hello, now, ahead);
        self.nodes[node].boots = boots;
        self.arm(node);
        for wire in 0..self.wires.len() {
            if self.wires[wire].up && self.wires[wire].ends.contains(&node) {
                self.tell_end(wire, node, true);
            }
        }
    }

    /// Sets a node's clock before anything happens.
    pub(crate) fn set_clock(&mut self, node: usize, ahead: Duration) {
        self.restart(node, ahead);
    }

    pub(crate) fn announce(&mut self, node: usize, prefixes: &[&str]) {
        let now = self.clock(node);
        self.nodes[node].speaker.announce(now, prefixes.iter().map(|text| prefix(text)).collect());
        self.drain(node);
    }

    pub(crate) fn clock(&self, node: usize) -> Time {
        self.now + self.nodes[node].ahead
    }

    pub(crate) fn run(&mut self, seconds: u64) {
        self.run_for(Duration::from_secs(seconds));
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until something is so, at most so many seconds; how long it took.
    #[track_caller]
    pub(crate) fn wait(&mut self, seconds: u64, what: &str, so: impl Fn(&Net) -> bool) -> Duration {
        let start = self.now;
        let end = start + Duration::from_secs(seconds);
        loop {
            if so(self) {
                return self.now.since(start);
            }
            assert!(self.step(end), "seed {}: not within {seconds} s: {what}\n{}", self.seed, self.show());
        }
    }

    /// Several nodes announce this.
    pub(crate) fn share(&mut self, text: &str) {
        self.shared.push(prefix(text));
    }

    /// No prefix at all goes in a circle now.
    pub(crate) fn assert_no_loop(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            node.table.keys().for_each(|prefix| self.follow(index, *prefix));
        }
    }

    /// Stops looking for loops (a node that lost its memory may make some).
    pub(crate) fn allow_loops(&mut self) {
        self.check = false;
    }

    pub(crate) fn next_hop(&self, node: usize, to: &str) -> Option<NextHop> {
        self.route(node, to).map(|route| route.next_hop)
    }

    pub(crate) fn route(&self, node: usize, to: &str) -> Option<Route> {
        let prefix = prefix(to);
        self.nodes[node].speaker.selected().find(|route| route.prefix == prefix)
    }

    pub(crate) fn goes(&self, node: usize, to: &str, wire: usize) -> bool {
        self.next_hop(node, to) == Some(NextHop::Link(link(wire)))
    }

    pub(crate) fn has_route(&self, node: usize, to: &str) -> bool {
        self.next_hop(node, to).is_some_and(|hop| hop != NextHop::Unreachable)
    }

    pub(crate) fn neighbour(&self, node: usize, wire: usize) -> Option<Neighbour> {
        self.nodes[node].speaker.neighbours(self.clock(node)).into_iter().find(|n| n.link == link(wire))
    }

    pub(crate) fn cost(&self, node: usize, wire: usize) -> u16 {
        self.neighbour(node, wire).map_or(0xffff, |neighbour| neighbour.cost)
    }

    pub(crate) fn show(&self) -> String {
        let mut text = format!("at {:?}\n", self.now);
        for (index, node) in self.nodes.iter().enumerate() {
            for route in node.speaker.routes() {
                text += &format!(
                    "{index}: {} {:?} metric {} seqno {} from {:02x?} {}{}\n",
                    route.prefix,
                    route.next_hop,
                    route.metric,
                    route.seqno,
                    route.router_id[7],
                    if route.selected { "selected " } else { "" },
                    if route.feasible { "" } else { "unfeasible" },
                );
            }
        }
        text
    }

    /// One event; `false` if none is left before `end`.
    fn step(&mut self, end: Time) -> bool {
        let flight = self.flights.keys().next().map(|(at, _)| *at);
        let timer = self.timers.first().copied();
        match (flight, timer) {
            (Some(at), _) if at <= end && timer.is_none_or(|(timer, _)| at <= timer) => {
                self.now = at;
                let (_, flight) = self.flights.pop_first().unwrap();
                self.arrive(&flight);
                true
            }
            (_, Some((at, node))) if at <= end => {
                self.now = at;
                self.wakes += 1;
                let now = self.clock(node);
                self.nodes[node].speaker.handle_timeout(now);
                self.drain(node);
                let next = self.nodes[node].speaker.poll_timeout();
                assert!(next.is_none_or(|(at, _)| at > now), "a timer that stands still: {next:?}");
                true
            }
            _ => false,
        }
    }

    fn arrive(&mut self, flight: &Flight) {
        let wire = &self.wires[flight.wire];
        if !wire.up {
            return;
        }
        self.packets += 1;
        let from = if wire.ends[0] == flight.to { wire.ends[1] } else { wire.ends[0] };
        let now = self.clock(flight.to);
        let (link, source) = (link(flight.wire), address(flight.wire, from));
        self.nodes[flight.to].speaker.receive(now, link, source, flight.destination, &flight.payload);
        self.drain(flight.to);
    }

    /// Puts a speaker's packets on the wires and looks at what it did to its routes.
    pub(crate) fn drain(&mut self, node: usize) {
        let now = self.clock(node);
        while let Some(packet) = self.nodes[node].speaker.poll_transmit(now) {
            let index = usize::try_from(packet.link.0).unwrap();
            let wire = &self.wires[index];
            let way = usize::from(wire.ends[0] != node);
            assert!(packet.payload.len() <= 1400 - 48);
            self.octets[index] += packet.payload.len();
            let lost = self.rng.below(100) < wire.loss[way];
            if !wire.up || lost {
                continue;
            }
            let payload = if wire.deaf[way] { without_ihu(&packet.payload) } else { packet.payload };
            let mut delay = wire.delay[way];
            if wire.jitter > 0 {
                let range = u32::try_from(micros(delay)).unwrap() / 100 * wire.jitter;
                delay = delay + Duration::from_micros(self.rng.below(2 * range).into())
                    - Duration::from_micros(range.into());
            }
            let flight = Flight { wire: index, to: wire.ends[1 - way], destination: packet.to, payload };
            self.flown += 1;
            self.flights.insert((self.now + delay, self.flown), flight);
        }
        self.arm(node);
        if self.nodes[node].speaker.take_changed() {
            self.notice(node);
        }
    }

    fn notice(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let mut table = BTreeMap::new();
        for route in node.speaker.selected() {
            assert!(route.selected && route.feasible, "seed {}: unfeasible and selected: {route:?}", self.seed);
            if let (Some(NextHop::Link(before)), NextHop::Link(after)) = (node.table.get(&route.prefix), route.next_hop)
                && *before != after
            {
                *node.switches.entry(route.prefix).or_default() += 1;
            }
            table.insert(route.prefix, route.next_hop);
        }
        let prefixes: Vec<Prefix> = table.keys().copied().collect();
        node.table = table;
        if self.check {
            for prefix in prefixes.into_iter().filter(|prefix| !self.shared.contains(prefix)) {
                self.follow(index, prefix);
            }
        }
    }

    /// How many pairs of nodes have it wrong: no way that packets get through on although wires would lead there, or a way
    /// although none do.
    pub(crate) fn wrong_pairs(&self) -> usize {
        let count = self.nodes.len();
        let mut parts: Vec<usize> = (0..count).collect();
        fn root(parts: &mut [usize], mut at: usize) -> usize {
            while parts[at] != at {
                parts[at] = parts[parts[at]];
                at = parts[at];
            }
            at
        }
        for wire in self.wires.iter().filter(|wire| wire.up) {
            let [a, b] = wire.ends.map(|end| root(&mut parts, end));
            parts[a] = b;
        }
        let mut wrong = 0;
        for to in 0..count {
            let prefix = prefix(&host(to));
            // 1: arrives, 2: does not.
            let mut known = vec![0_u8; count];
            known[to] = 1;
            for from in 0..count {
                let mut path = Vec::new();
                let mut at = from;
                while known[at] == 0 && path.len() <= count {
                    path.push(at);
                    known[at] = 2;
                    let Some(NextHop::Link(link)) = self.nodes[at].table.get(&prefix) else { break };
                    let wire = &self.wires[usize::try_from(link.0).unwrap()];
                    if !wire.up {
                        break;
                    }
                    at = if wire.ends[0] == at { wire.ends[1] } else { wire.ends[0] };
                }
                let verdict = if known[at] == 1 { 1 } else { 2 };
                path.into_iter().for_each(|node| known[node] = verdict);
                let connected = root(&mut parts, from) == root(&mut parts, to);
                let routed = !matches!(self.nodes[from].table.get(&prefix), None | Some(NextHop::Unreachable));
                wrong += usize::from(if connected { known[from] != 1 } else { routed });
            }
        }
        wrong
    }

    /// Where a packet for this prefix comes to from here; it never comes to the same node twice.
    fn follow(&self, from: usize, prefix: Prefix) {
        let mut path = vec![from];
        let mut at = from;
        while let Some(NextHop::Link(link)) = self.nodes[at].table.get(&prefix) {
            let wire = &self.wires[usize::try_from(link.0).unwrap()];
            at = if wire.ends[0] == at { wire.ends[1] } else { wire.ends[0] };
            assert!(!path.contains(&at), "seed {}: loop for {prefix}: {path:?} then {at}\n{}", self.seed, self.show());
            path.push(at);
        }
    }
}

impl Node {
    fn new(rng: &mut Rng, index: usize, hello: Duration, now: Time, ahead: Duration) -> Node {
        let settings = Settings { router_id: router_id(index), hello_interval: hello };
        let speaker = Speaker::new(settings, rng.fork(), now);
        Node { speaker, ahead, switches: BTreeMap::new(), table: BTreeMap::new(), boots: 0 }
    }
}

pub(crate) fn link(wire: usize) -> LinkId {
    LinkId(u32::try_from(wire).unwrap())
}

pub(crate) fn router_id(node: usize) -> [u8; 8] {
    (0x0a00_0000_0000_0000 + u64::try_from(node).unwrap()).to_be_bytes()
}

pub(crate) fn address(wire: usize, node: usize) -> Ipv6Addr {
    let (wire, node) = (u16::try_from(wire).unwrap(), u16::try_from(node).unwrap());
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, wire, 0, node + 1)
}

/// "to" or "to from source".
pub(crate) fn prefix(text: &str) -> Prefix {
    match text.split_once(" from ") {
        None => Prefix::to(text.parse().unwrap()),
        Some((to, from)) => Prefix::new(to.parse().unwrap(), from.parse().unwrap()).unwrap(),
    }
}

/// The node's own address.
pub(crate) fn host(node: usize) -> String {
    let [high, low] = u16::try_from(node).unwrap().to_be_bytes();
    Prefix::host(IpAddr::V4(Ipv4Addr::new(10, 0, high, low))).to_string()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

fn without_ihu(payload: &[u8]) -> Vec<u8> {
    let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let mut packet = Packet::new(65_535, from);
    for tlv in parse(payload, from).unwrap().map(Result::unwrap).filter(|tlv| !matches!(tlv, Tlv::Ihu(_))) {
        assert!(packet.push(&tlv));
    }
    packet.finish()
}
