//! Two whole nodes, a wire that does what it likes, and packets from both sites, on virtual time.
//!
//! Always: no panic, timers go on, no ESP sequence number is used twice, no datagram brings its packet twice, what comes out is an
//! IP packet. In the end, when the wire is sound again: packets get through in both directions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use wattle::config::plan::{
    Babel, Endpoint, Host, Kernel, Peer, Plan, PostQuantum, Rekey, Steering, Suites, Terms, Tun,
};
use wattle::crypto::kex::Method;
use wattle::crypto::sign::PrivateKey;
use wattle::identity::Identity;
use wattle::node::{Node, Output};
use wattle::offload::Offload;
use wattle::path::{Path, SocketId};
use wattle::time::Time;
use wattle::wire::ip::{Header, Sum};
use wattle::wire::vnet;

use super::input::Input;

const OPERATIONS: usize = 100;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut pair = Pair::new(input.u8());
    pair.run(Duration::from_secs(3));
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        pair.operate(&mut input);
    }
    pair.recover();
}

struct End {
    node: Node,
    plan: Plan,
    sockets: BTreeMap<SocketId, u16>,
    /// Its NAT adds this to its ports.
    nat: u16,
    starts: u8,
    /// Packets for the site, since they were last looked at.
    inner: Vec<Vec<u8>>,
}

#[derive(Clone)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    octets: Vec<u8>,
}

struct Pair {
    now: Time,
    ends: [End; 2],
    wire: VecDeque<Datagram>,
    seen: VecDeque<Datagram>,
    /// ESP that was sent, by SPI and sequence number.
    sent: BTreeSet<[u8; 8]>,
    /// ESP that brought something.
    taken: BTreeSet<Vec<u8>>,
}

impl Pair {
    fn new(settings: u8) -> Pair {
        let rekey = if settings & 6 == 6 {
            Rekey { child: Some(Duration::from_secs(20)), ike: Some(Duration::from_secs(50)), ..Rekey::NEVER }
        } else {
            Rekey::default()
        };
        let now = Time::from_micros(1_000_000);
        let both = settings & 1 != 0;
        let ends = [End::new(plan(0, true, rekey), now), End::new(plan(1, both, rekey), now)];
        Pair { now, ends, wire: VecDeque::new(), seen: VecDeque::new(), sent: BTreeSet::new(), taken: BTreeSet::new() }
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let [operation, argument] = input.array();
        let end = usize::from(operation >> 7);
        let seen = self.seen.get(usize::from(argument) % self.seen.len().max(1)).cloned();
        match operation & 0x1f {
            0..=3 => drop(self.wire.pop_front().map(|datagram| self.deliver(datagram))),
            4 | 5 => self.settle(),
            6 => drop(self.wire.pop_front()),
            7 => {
                let waiting = self.wire.len();
                self.wire.rotate_left(usize::from(argument) % waiting.max(1));
            }
            8 => drop(seen.map(|datagram| self.deliver(datagram))),
            // Back to its sender.
            9 => drop(seen.map(|Datagram { from, to, octets }| self.deliver(Datagram { from: to, to: from, octets }))),
            10 | 11 => {
                if let Some(mut datagram) = seen {
                    input.damage(&mut datagram.octets);
                    self.deliver(datagram);
                }
            }
            // From elsewhere.
            12 => {
                if let Some(mut datagram) = seen {
                    datagram.from = SocketAddr::from(([192, 0, 2, 3], u16::from(argument)));
                    self.deliver(datagram);
                }
            }
            13 => {
                let octets = input.string().to_vec();
                let from = SocketAddr::from(([198, 51, 100, 1], u16::from(argument)));
                self.deliver(Datagram { from, to: SocketAddr::new(underlay(end), 4500), octets });
            }
            14 => self.pass(Duration::from_millis(u64::from(argument) * 10)),
            15 => self.pass(Duration::from_millis(u64::from(argument) * 300)),
            16 => {
                let due = self.ends.iter().filter_map(|end| end.node.poll_timeout()).map(|due| due.0).min();
                if let Some(due) = due {
                    self.pass(due.since(self.now));
                }
            }
            17 => self.run(Duration::from_millis(u64::from(argument) * 100)),
            18..=20 => {
                let packet = inner(input, argument, end);
                self.ends[end].node.handle_inner(self.now, &packet);
                self.drain(end);
            }
            21 | 22 => {
                let mut packet = inner(input, argument, end);
                let header = if argument & 0x80 == 0 { segments(&packet, input.u16()) } else { input.array() };
                self.ends[end].node.handle_super(self.now, header, &mut packet);
                self.drain(end);
            }
            23 => {
                let packet = input.string().to_vec();
                self.ends[end].node.handle_inner(self.now, &packet);
                self.drain(end);
            }
            24 => {
                if self.ends[end].starts < 3 {
                    self.ends[end].restart(self.now);
                    self.drain(end);
                }
            }
            25 => self.ends[end].nat = u16::from(argument & 7) * 1000,
            26 => {
                let path = Path { socket: SocketId(0), local: None, remote: SocketAddr::new(underlay(1 - end), 4500) };
                self.ends[end].node.handle_send_error(self.now, path, "Network is unreachable");
                self.drain(end);
            }
            27 => {
                let mut plan = self.ends[end].plan.clone();
                if argument & 1 != 0 {
                    plan.peers.clear();
                }
                self.ends[end].node.reload(self.now, plan);
                self.drain(end);
            }
            28 => {
                self.ends[end].node.shut_down(self.now);
                self.drain(end);
                self.ends[end].restart(self.now);
                self.drain(end);
            }
            29 => self.wire.clear(),
            30 => drop(self.ends[end].node.snapshot(self.now)),
            _ => drop(self.ends[end].node.explain(self.now, overlay(1 - end).into(), None)),
        }
    }

    fn deliver(&mut self, datagram: Datagram) {
        let Some(to) = (0..2).find(|&end| underlay(end) == datagram.to.ip()) else { return };
        let end = &mut self.ends[to];
        let port = datagram.to.port();
        let Some((&socket, _)) = end.sockets.iter().find(|(_, own)| **own == port || **own + end.nat == port) else {
            return;
        };
        let path = Path { socket, local: Some(underlay(to)), remote: datagram.from };
        end.inner.clear();
        end.node.handle_datagram(self.now, path, 0, &mut datagram.octets.clone());
        self.drain(to);
        let brought = !self.ends[to].inner.is_empty();
        assert!(!brought || self.taken.insert(datagram.octets), "one datagram brought its packet twice");
    }

    /// Until there is nothing on the wire.
    fn settle(&mut self) {
        let mut count = 0;
        while let Some(datagram) = self.wire.pop_front() {
            count += 1;
            assert!(count < 5000, "they never stop talking");
            self.deliver(datagram);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some((due, why)) = self.ends.iter().filter_map(|end| end.node.poll_timeout()).min()
            && due <= end
        {
            wakes += 1;
            assert!(wakes < 1000 + 50 * time.as_secs(), "woken too often for {why}");
            self.now = self.now.max(due);
            for end in 0..2 {
                self.ends[end].node.handle_timeout(self.now);
                self.drain(end);
                let next = self.ends[end].node.poll_timeout();
                assert!(next.is_none_or(|next| next.0 > self.now), "handled and still due: {next:?}");
            }
        }
        self.now = end;
    }

    /// The same with a sound wire.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let due = self.ends.iter().filter_map(|end| end.node.poll_timeout()).map(|due| due.0).min();
            match due.filter(|due| *due <= end) {
                Some(due) => self.pass(due.since(self.now)),
                None => break,
            }
        }
        self.now = end;
    }

    fn drain(&mut self, end: usize) {
        loop {
            let own = &mut self.ends[end];
            let egress = own.node.egress();
            let mut octets = 0;
            for train in &egress.trains {
                let Some(port) = own.sockets.get(&train.path.socket) else { continue };
                let from = SocketAddr::new(underlay(end), port + own.nat);
                for datagram in train.datagrams() {
                    octets += datagram.len();
                    if let Some(head) = datagram.first_chunk::<8>().filter(|head| head[..4] != [0; 4]) {
                        assert!(self.sent.insert(*head), "a sequence number is used twice");
                    }
                    let datagram = Datagram { from, to: train.path.remote, octets: datagram.to_vec() };
                    self.seen.push_front(datagram.clone());
                    self.wire.push_back(datagram);
                }
            }
            assert!(octets < 300_000, "{octets} octets at once");
            for packet in egress.inner_packets() {
                let header = Header::parse(packet).expect("an IP packet for the site");
                assert_eq!(header.length, packet.len());
                own.inner.push(packet.to_vec());
            }
            egress.clear();
            self.seen.truncate(32);
            // A wire of finite length.
            while self.wire.len() > 300 {
                self.wire.pop_front();
            }
            let Some(output) = own.node.poll_output() else { break };
            match output {
                Output::OpenSocket { socket } => {
                    let port = 20_000 + socket.0;
                    own.sockets.insert(socket, port);
                    own.node.handle_socket(self.now, socket, Ok(port));
                }
                Output::CloseSocket { socket } => drop(own.sockets.remove(&socket)),
                Output::Resolve { .. } | Output::AddRoute { .. } | Output::DeleteRoute { .. } => {}
            }
        }
    }

    fn recover(&mut self) {
        for end in 0..2 {
            let plan = self.ends[end].plan.clone();
            self.ends[end].node.reload(self.now, plan);
            self.drain(end);
        }
        self.run(Duration::from_secs(200));
        for end in 0..2 {
            let packet = udp4(overlay(end), overlay(1 - end), 100);
            self.ends[1 - end].inner.clear();
            self.ends[end].node.handle_inner(self.now, &packet);
            self.drain(end);
            while let Some(datagram) = self.wire.pop_front() {
                self.deliver(datagram);
                if !self.ends[1 - end].inner.is_empty() {
                    break;
                }
            }
            let came = &self.ends[1 - end].inner;
            assert!(
                came.iter().any(|came| came[20..] == packet[20..]),
                "no packet from {end} gets through:\n{:#?}\n{:#?}",
                self.ends[end].node.snapshot(self.now),
                self.ends[1 - end].node.snapshot(self.now)
            );
        }
    }
}

impl End {
    fn new(plan: Plan, now: Time) -> End {
        End {
            node: Node::new(plan.clone(), seed(&plan.name, 0), now),
            sockets: BTreeMap::from([(SocketId(0), 4500)]),
            plan,
            nat: 0,
            starts: 0,
            inner: Vec::new(),
        }
    }

    fn restart(&mut self, now: Time) {
        self.starts += 1;
        self.sockets = BTreeMap::from([(SocketId(0), 4500)]);
        self.node = Node::new(self.plan.clone(), seed(&self.plan.name, self.starts), now);
    }
}

fn seed(name: &str, starts: u8) -> [u8; 32] {
    let mut seed = [starts; 32];
    seed[0] = name.as_bytes()[0];
    seed
}

fn plan(number: usize, dials: bool, rekey: Rekey) -> Plan {
    let other = 1 - number;
    let mut suites = Suites { post_quantum: PostQuantum::Preferred, ..Suites::default_for(true) };
    // The handshake is made for every input.
    suites.ike.truncate(1);
    suites.ike[0].exchange = Method::X25519;
    suites.ike[0].additional.clear();
    let name = |number: usize| ["a", "b"][number].to_owned();
    let endpoint = Endpoint { host: Host::Address(underlay(other)), port: 4500 };
    Plan {
        name: name(number),
        private_key: private_key(number),
        listen: vec![4500],
        tun: Some(Tun { name: "wattle0".into(), mtu: 1400, addresses: vec![IpAddr::V4(overlay(number)).into()] }),
        announce: Vec::new(),
        from_kernel: Vec::new(),
        locator: None,
        steering: Steering::default(),
        peers: vec![Peer {
            name: name(other),
            public_key: private_key(other).public(),
            endpoints: dials.then_some(endpoint).into_iter().collect(),
            locator: None,
            routes: Vec::new(),
            pin_port: false,
            babel: Terms::default(),
            remote_id: Identity::fqdn(&name(other)),
            local_id: Identity::fqdn(&name(number)),
            suites: suites.clone(),
        }],
        suites,
        rekey,
        babel: Babel::default(),
        offload: Offload::default(),
        kernel: Kernel::default(),
        control: "/nowhere".into(),
        log: None,
    }
}

fn private_key(end: usize) -> PrivateKey {
    PrivateKey::from_seed(&[[1; 32], [2; 32]][end])
}

fn underlay(end: usize) -> IpAddr {
    IpAddr::from([192, 0, 2, [1, 2][end]])
}

fn overlay(end: usize) -> Ipv4Addr {
    Ipv4Addr::from([10, 66, 0, [1, 2][end]])
}

/// A packet from this end's site, sound or not.
fn inner(input: &mut Input<'_>, how: u8, end: usize) -> Vec<u8> {
    let length = if how & 1 == 0 { usize::from(input.u8()) } else { usize::from(input.u16()) };
    let mut packet = udp4(overlay(end), overlay(1 - end), length);
    if how & 6 == 2 {
        input.damage(&mut packet);
    }
    if how & 6 != 4 && packet.len() >= 20 {
        finish4(&mut packet);
    }
    packet
}

fn udp4(from: Ipv4Addr, to: Ipv4Addr, length: usize) -> Vec<u8> {
    let length = length.min(65_000);
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(28 + length).unwrap().to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend([0, 9, 0, 9]);
    packet.extend(u16::try_from(8 + length).unwrap().to_be_bytes());
    packet.resize(28 + length, 0x5a);
    finish4(&mut packet);
    packet
}

fn finish4(packet: &mut [u8]) {
    packet[10..12].copy_from_slice(&[0, 0]);
    let sum = Sum::default().plus(&packet[..20]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The device's header for a UDP super-packet.
fn segments(packet: &[u8], size: u16) -> [u8; vnet::LEN] {
    use wattle::wire::vnet::{Checksum, Kind, Segments, Vnet};
    let segments = Segments { kind: Kind::Udp, size: 100 + size % 1500, header: 28 };
    let checksum = Checksum { start: 20, offset: 6 };
    Vnet { checksum: Some(checksum), segments: (packet.len() > 128).then_some(segments) }.emit()
}
