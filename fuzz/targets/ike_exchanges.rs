//! Two IKE endpoints, a wire that does what it likes, and everything that their owners may ask of them, on virtual time.
//!
//! Always: no panic, timers go on, half-open SAs and SAs are bounded, no IV is used twice under a key, no keys of a Child SA are
//! handed out twice. In the end, when the wire is sound again: what is dead is noticed, a session can be made, and what each end
//! sends on the other receives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use wattle::config::plan::{PostQuantum, Rekey, Suites};
use wattle::crypto::kex::Method;
use wattle::crypto::rng::Rng;
use wattle::crypto::sign::PrivateKey;
use wattle::ike::Endpoint;
use wattle::ike::endpoint::{Event, Limits, SaId, Settings};
use wattle::path::{Path, PeerId, SocketId};
use wattle::time::Time;
use wattle::wire::ike::{Body, Exchange, Message};

use super::input::Input;

/// The peer, at both ends.
const OTHER: PeerId = PeerId(7);
const LIMITS: Limits = Limits {
    cookie_total: 4,
    cookie_per_source: 3,
    half_open_total: 8,
    half_open_per_source: 5,
    half_open_life: Duration::from_secs(30),
    children: 4,
    fragment_size: 1280,
};
/// What an input may do; more would only be slow.
const OPERATIONS: usize = 160;
const SESSIONS: usize = 8;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut pair = Pair::new(input.u8());
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        pair.operate(&mut input);
        pair.check();
    }
    pair.recover();
}

struct End {
    number: usize,
    endpoint: Endpoint,
    /// Changes with every start: another address after NAT, too.
    port: u16,
    starts: u64,
    sessions: Vec<SaId>,
    connects: usize,
    /// By session the SPIs of its Child SAs, in and out. The last one is sent on.
    children: BTreeMap<SaId, Vec<(u32, u32)>>,
    /// Of all its Child SAs.
    keys: BTreeSet<Vec<u8>>,
}

/// Who sent what under which key, by SPIs, sender and generation of keys, and IV.
type Ivs = BTreeMap<(u64, u64, bool, u32, [u8; 8]), Vec<u8>>;

struct Pair {
    now: Time,
    ends: [End; 2],
    post_quantum: bool,
    rekey: Rekey,
    /// On the way, to each end.
    wires: [VecDeque<Vec<u8>>; 2],
    /// Of late, in either direction.
    seen: VecDeque<(usize, Vec<u8>)>,
    ivs: Ivs,
}

impl Pair {
    fn new(settings: u8) -> Pair {
        let rekey = match settings >> 1 & 3 {
            0 | 1 => Rekey::NEVER,
            2 => Rekey { child: Some(Duration::from_secs(20)), ike: Some(Duration::from_secs(50)), ..Rekey::NEVER },
            _ => Rekey { child: Some(Duration::from_secs(15)), ike: Some(Duration::from_secs(15)), ..Rekey::NEVER },
        };
        // Most of the time nothing that takes long.
        let post_quantum = settings & 0x18 == 0x18;
        let end = |number| End::new(number, 0, post_quantum, rekey, Time::ZERO);
        Pair {
            now: Time::ZERO,
            ends: [end(0), end(1)],
            post_quantum,
            rekey,
            wires: Default::default(),
            seen: VecDeque::new(),
            ivs: Ivs::new(),
        }
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let [operation, argument] = input.array();
        let end = usize::from(operation >> 7);
        match operation & 0x1f {
            0..=3 => self.deliver(end),
            4 => self.settle(),
            5 => drop(self.wires[end].pop_front()),
            6 => {
                let waiting = self.wires[end].len().max(1);
                self.wires[end].rotate_left(usize::from(argument) % waiting.min(self.wires[end].len().max(1)));
            }
            7 => {
                if let Some((to, octets)) = self.seen.get(usize::from(argument) % self.seen.len().max(1)).cloned() {
                    self.receive(to, &octets);
                }
            }
            // To the one it came from.
            8 => {
                if let Some((to, octets)) = self.seen.get(usize::from(argument) % self.seen.len().max(1)).cloned() {
                    self.receive(1 - to, &octets);
                }
            }
            9 | 10 => {
                if let Some((to, mut octets)) = self.seen.get(usize::from(argument) % self.seen.len().max(1)).cloned() {
                    input.damage(&mut octets);
                    self.receive(to, &octets);
                }
            }
            11 => {
                let octets = input.string().to_vec();
                self.receive(end, &octets);
            }
            12 => self.pass(Duration::from_millis(u64::from(argument) * 10)),
            13 => self.pass(Duration::from_millis(u64::from(argument) * 300)),
            14 | 15 => {
                let due = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).map(|due| due.0).min();
                if let Some(due) = due {
                    self.pass(due.since(self.now));
                }
            }
            16 | 17 => self.connect(end),
            18 | 19 => self.on_session(end, argument, |endpoint, now, sa| endpoint.rekey_children(now, sa)),
            20 | 21 => self.on_session(end, argument, |endpoint, now, sa| endpoint.rekey_ike(now, sa)),
            22 => self.on_session(end, argument, |endpoint, now, sa| endpoint.probe(now, sa)),
            23 => {
                self.on_session(end, argument, |endpoint, now, sa| endpoint.close(now, sa));
            }
            24 => self.on_session(end, argument, |endpoint, now, sa| drop(endpoint.give_up(now, sa))),
            25 => self.restart(end),
            // Its NAT gives it another port.
            26 => self.ends[end].port = 4500 + u16::from(argument),
            27 => {
                let path = self.path(end);
                self.on_session(end, argument, |endpoint, _, sa| endpoint.set_path(sa, path));
            }
            28 => self.flood(end, argument),
            29 => {
                let now = self.now;
                self.ends[end].endpoint.remove_peer(now, OTHER);
                self.ends[end].children.clear();
                self.ends[end].know();
                self.drain(end);
            }
            30 => self.wires[end].clear(),
            _ => {
                let now = self.now;
                self.ends[end].endpoint.shut_down(now);
                self.ends[end].children.clear();
                self.drain(end);
            }
        }
    }

    fn path(&self, of: usize) -> Path {
        Path { socket: SocketId(0), local: None, remote: address(1 - of, self.ends[1 - of].port) }
    }

    fn connect(&mut self, end: usize) {
        if self.ends[end].connects < SESSIONS {
            let path = self.path(end);
            let own = &mut self.ends[end];
            own.connects += 1;
            let sa = own.endpoint.connect(self.now, OTHER, path);
            own.sessions.push(sa);
            self.drain(end);
        }
    }

    fn on_session(&mut self, end: usize, which: u8, act: impl FnOnce(&mut Endpoint, Time, SaId)) {
        let sessions = &self.ends[end].sessions;
        if let Some(&sa) = sessions.get(usize::from(which) % sessions.len().max(1)) {
            let own = &mut self.ends[end];
            act(&mut own.endpoint, self.now, sa);
            if own.endpoint.sa(sa).is_none_or(|sa| !sa.established) {
                own.children.remove(&sa);
            }
            self.drain(end);
        }
    }

    /// It has forgotten everything.
    fn restart(&mut self, end: usize) {
        let starts = self.ends[end].starts + 1;
        if starts <= 4 {
            let port = self.ends[end].port;
            self.ends[end] = End::new(end, starts, self.post_quantum, self.rekey, self.now);
            self.ends[end].port = port;
        }
    }

    /// First requests from all over the world, each as good as the last one seen.
    fn flood(&mut self, end: usize, count: u8) {
        let is_first = |octets: &Vec<u8>| {
            Message::parse(octets)
                .is_ok_and(|message| message.header.exchange == Exchange::IKE_SA_INIT && !message.header.response)
        };
        let Some(octets) = self.seen.iter().map(|seen| &seen.1).find(|octets| is_first(octets)).cloned() else {
            return;
        };
        for number in 0..count % 16 {
            let mut octets = octets.clone();
            octets[0] ^= number + 1;
            let remote = SocketAddr::from(([198, 51, 100, number], 500));
            let path = Path { socket: SocketId(0), local: None, remote };
            self.ends[end].endpoint.receive(self.now, path, &octets);
            self.drain(end);
        }
    }

    fn deliver(&mut self, to: usize) {
        if let Some(octets) = self.wires[to].pop_front() {
            self.receive(to, &octets);
        }
    }

    fn receive(&mut self, to: usize, octets: &[u8]) {
        let path = self.path(to);
        self.ends[to].endpoint.receive(self.now, path, octets);
        self.drain(to);
    }

    /// Until neither has anything to say.
    fn settle(&mut self) {
        let mut datagrams = 0;
        while self.wires.iter().any(|wire| !wire.is_empty()) {
            for end in 0..2 {
                self.deliver(end);
            }
            datagrams += 1;
            assert!(datagrams < 3000, "they never stop talking");
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut still = 0;
        while let Some(due) = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).map(|due| due.0).min()
            && due <= end
        {
            still = if due > self.now { 0 } else { still + 1 };
            assert!(still < 100, "time stands still");
            self.now = self.now.max(due);
            for end in 0..2 {
                self.ends[end].endpoint.handle_timeout(self.now);
                self.drain(end);
                let next = self.ends[end].endpoint.poll_timeout();
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
            let due = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).map(|due| due.0).min();
            match due.filter(|due| *due <= end) {
                Some(due) => self.pass(due.since(self.now)),
                None => break,
            }
        }
        self.now = end;
    }

    /// Puts what an end says onto the wire, and believes its events.
    fn drain(&mut self, end: usize) {
        let to = address(1 - end, self.ends[1 - end].port);
        let own = &mut self.ends[end];
        let mut count = 0;
        while let Some(transmit) = own.endpoint.poll_transmit() {
            count += 1;
            assert!(count < 1000, "a flood of our own");
            // No marker to port 500.
            let marker = if transmit.path.remote.port() == 500 { 0 } else { 4 };
            let octets = transmit.datagram[marker..].to_vec();
            check_iv(&mut self.ivs, &octets);
            if transmit.path.remote == to {
                self.seen.push_front((1 - end, octets.clone()));
                self.seen.truncate(24);
                self.wires[1 - end].push_back(octets);
            }
        }
        while let Some(event) = own.endpoint.poll_event() {
            own.believe(event);
        }
    }

    fn check(&self) {
        for end in &self.ends {
            assert!(end.endpoint.half_open(None) <= LIMITS.half_open_total);
            // Both ends' sessions, each with an heir and one on its way out, and who only knocks.
            let most = 2 * SESSIONS * 5 * 4 + LIMITS.half_open_total;
            assert!(end.endpoint.sas().count() <= most, "{} SAs", end.endpoint.sas().count());
            for children in end.children.values() {
                assert!(children.len() <= LIMITS.children + 1, "{} Child SAs", children.len());
            }
        }
    }

    /// The wire is sound from now on.
    fn recover(&mut self) {
        for end in 0..2 {
            self.ends[end].know();
        }
        self.run(Duration::from_secs(150));
        for _ in 0..2 {
            for end in 0..2 {
                let path = self.path(end);
                for sa in self.standing(end) {
                    self.ends[end].endpoint.set_path(sa, path);
                    self.ends[end].endpoint.probe(self.now, sa);
                    self.drain(end);
                }
            }
            self.run(Duration::from_secs(15));
        }
        assert_eq!(self.spis(0), self.spis(1), "who is dead is not noticed");
        for end in 0..2 {
            assert_eq!(self.ends[end].endpoint.half_open(None), 0, "half-open for ever");
        }
        let path = self.path(0);
        let sa = self.ends[0].endpoint.connect(self.now, OTHER, path);
        self.drain(0);
        self.run(Duration::from_secs(3));
        assert!(self.ends[0].endpoint.sa(sa).is_some_and(|sa| sa.established), "no new session");
        self.settle();
        assert!(!self.ends[0].children[&sa].is_empty(), "a new session without a Child SA");
        assert_eq!(self.spis(0), self.spis(1));
        // Without a Child SA one is asked for at least every three quarters of a minute.
        self.run(Duration::from_secs(60));
        self.settle();
        for end in 0..2 {
            let receives: BTreeSet<u32> =
                self.ends[1 - end].children.values().flatten().map(|(spi_in, _)| *spi_in).collect();
            for (sa, children) in &self.ends[end].children {
                let sending = children.last().map(|(_, spi_out)| *spi_out);
                assert!(
                    sending.is_none_or(|spi| receives.contains(&spi)),
                    "end {end}, {sa:?} sends on what nobody receives: {sending:x?} of {children:x?}, {receives:x?}"
                );
            }
            for sa in self.standing(end) {
                assert!(!self.ends[end].children[&sa].is_empty(), "end {end}: a session stays without Child SA");
            }
        }
    }

    fn standing(&self, end: usize) -> Vec<SaId> {
        self.ends[end].endpoint.sas().filter(|sa| sa.established).map(|sa| sa.sa).collect()
    }

    fn spis(&self, end: usize) -> BTreeSet<(u64, u64)> {
        let standing = self.ends[end].endpoint.sas().filter(|sa| sa.established);
        standing.map(|sa| (sa.spi_initiator, sa.spi_responder)).collect()
    }
}

impl End {
    fn new(number: usize, starts: u64, post_quantum: bool, rekey: Rekey, now: Time) -> End {
        let mut suites = Suites::default_for(true);
        if !post_quantum {
            suites.post_quantum = PostQuantum::Preferred;
            suites.ike.truncate(1);
            suites.ike[0].exchange = Method::X25519;
            suites.ike[0].additional.clear();
        }
        let settings = Settings { name: name(number), private_key: private_key(number), suites, rekey };
        let seed = number as u64 * 1000 + starts;
        let mut end = End {
            number,
            endpoint: Endpoint::new(settings, LIMITS, Rng::from_number(seed), now),
            port: 4500,
            starts,
            sessions: Vec::new(),
            connects: 0,
            children: BTreeMap::new(),
            keys: BTreeSet::new(),
        };
        end.know();
        end
    }

    /// Makes the other end known.
    fn know(&mut self) {
        let other = 1 - self.number;
        self.endpoint.add_peer(OTHER, &name(other), private_key(other).public());
    }

    fn believe(&mut self, event: Event) {
        match event {
            Event::Established { sa, .. } => {
                self.sessions.push(sa);
                self.children.entry(sa).or_default();
            }
            Event::ChildUp { sa, child, standby } => {
                let children = self.children.get_mut(&sa).expect("a Child SA of no session");
                children.insert(if standby { 0 } else { children.len() }, (child.spi_in, child.spi_out));
                for key in [child.key_in, child.key_out] {
                    assert!(self.keys.insert(key.to_vec()), "the same keys twice");
                }
            }
            Event::ChildUse { sa, spi_in } => {
                let children = self.children.get_mut(&sa).expect("a Child SA of no session");
                let at = children.iter().position(|child| child.0 == spi_in).expect("such a Child SA");
                let child = children.remove(at);
                children.push(child);
            }
            Event::ChildDown { sa, spi_in: Some(spi_in), reason } => {
                assert!(reason.to_string().chars().count() <= 160, "{reason}");
                let children = self.children.get_mut(&sa).expect("a Child SA of no session");
                let before = children.len();
                children.retain(|child| child.0 != spi_in);
                assert_eq!(children.len() + 1, before, "gone twice");
            }
            Event::Closed { sa, reason, .. } => {
                assert!(reason.to_string().chars().count() <= 160, "{reason}");
                self.children.remove(&sa);
            }
            Event::ChildDown { spi_in: None, reason, .. }
            | Event::RekeyRefused { reason, .. }
            | Event::Refused { reason, .. } => assert!(reason.to_string().chars().count() <= 160, "{reason}"),
            Event::Rekeyed { .. } | Event::Heard { .. } | Event::Moved { .. } => {}
        }
    }
}

/// An IV stands for one plaintext, under each key. IKE_INTERMEDIATE changes the keys, but not the SPIs.
fn check_iv(ivs: &mut Ivs, octets: &[u8]) {
    let Ok(message) = Message::parse(octets) else { panic!("malformed") };
    let sealed = match message.body {
        Body::Clear(_) => return,
        Body::Sk(sealed) => sealed,
        Body::Skf(fragment) => fragment.sealed,
    };
    let header = message.header;
    let generation = if header.exchange == Exchange::IKE_INTERMEDIATE { header.message_id } else { u32::MAX };
    let key = (header.spi_initiator, header.spi_responder, header.from_initiator, generation, sealed.iv);
    let before = ivs.entry(key).or_insert_with(|| octets.to_vec());
    assert_eq!(*before, octets, "two messages under one IV");
}

fn address(end: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, [1, 2][end]], port))
}

fn name(end: usize) -> String {
    ["a", "b"][end].to_owned()
}

fn private_key(end: usize) -> PrivateKey {
    PrivateKey::from_seed(&[[1; 32], [2; 32]][end])
}
