//! A world of endpoints for tests: seeded, on virtual time, with a wire that a test can tamper with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::endpoint::{Endpoint, Event, Limits, Reason, Role, SaId, Settings};
use super::sa::State;
use super::window::LATER;
use crate::child_sa::ChildSa;
use crate::config::plan::{IkeSuite, PostQuantum, Rekey, Suites};
use crate::crypto::aead::Cipher;
use crate::crypto::kex::Method;
use crate::crypto::prf::Prf;
use crate::crypto::rng::Rng;
use crate::crypto::sign::PrivateKey;
use crate::path::{Path, PeerId, SocketId};
use crate::time::Time;
use crate::wire::ike::{Body, Exchange, Message, Payload};

/// One end, and all that came out of it.
pub(super) struct Node {
    pub(super) endpoint: Endpoint,
    pub(super) events: Vec<(Time, Event)>,
}

/// A datagram on its way, without marker.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) at: Time,
    pub(super) from: usize,
    pub(super) octets: Vec<u8>,
}

/// What becomes of the datagram of this number: copies with their extra delays. None: lost.
pub(super) type Wire = Box<dyn FnMut(usize, &Datagram) -> Vec<(Duration, Vec<u8>)>>;
/// Takes a datagram in the endpoint's place, if it returns true.
pub(super) type Script = Box<dyn FnMut(&mut Endpoint, Time, Path, &[u8]) -> bool>;

pub(super) struct World {
    pub(super) now: Time,
    pub(super) nodes: Vec<Node>,
    /// Everything that was sent.
    pub(super) sent: Vec<Datagram>,
    pub(super) delay: Duration,
    pub(super) wire: Wire,
    pub(super) scripts: BTreeMap<usize, Script>,
    /// The addresses of the nodes.
    pub(super) places: Vec<SocketAddr>,
    /// Behind a NAT: the address that others see.
    pub(super) seen_as: BTreeMap<usize, SocketAddr>,
    flying: BTreeMap<(Time, usize), (usize, usize, Vec<u8>)>,
    copies: usize,
}

pub(super) fn private_key(node: usize) -> PrivateKey {
    PrivateKey::from_seed(&[u8::try_from(node).unwrap() + 1; 32])
}

pub(super) fn node_name(node: usize) -> String {
    ["a", "b", "c", "d"][node].to_owned()
}

/// The peers of a world are known by their numbers.
pub(super) fn peer_id(node: usize) -> PeerId {
    PeerId(u32::try_from(node).unwrap())
}

pub(super) fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, u8::try_from(node).unwrap() + 1], 4500))
}

/// As `from` sees the way to `to`.
pub(super) fn path(from: usize, to: usize) -> Path {
    Path { socket: SocketId(0), local: Some(address(from).ip()), remote: address(to) }
}

pub(super) fn suite(exchange: Method, additional: &[Method]) -> IkeSuite {
    IkeSuite { cipher: Cipher::Aes256Gcm, prf: Prf::HmacSha2_256, exchange, additional: additional.to_vec() }
}

pub(super) fn suites(ike: Vec<IkeSuite>, post_quantum: PostQuantum) -> Suites {
    Suites { ike, post_quantum, ..Suites::default_for(true) }
}

pub(super) fn endpoint(node: usize, seed: u64, suites: Suites, limits: Limits) -> Endpoint {
    endpoint_with(node, seed, suites, limits, Rekey::NEVER)
}

pub(super) fn endpoint_with(node: usize, seed: u64, suites: Suites, limits: Limits, rekey: Rekey) -> Endpoint {
    let settings = Settings { name: node_name(node), private_key: private_key(node), suites, rekey };
    let mut endpoint = Endpoint::new(settings, limits, Rng::from_number(seed * 31 + node as u64), Time::ZERO);
    endpoint.set_port(SocketId(0), 4500);
    endpoint
}

impl World {
    /// Two nodes that know each other; peer ids are node numbers.
    pub(super) fn pair(seed: u64) -> World {
        World::of(seed, [Suites::default_for(true), Suites::default_for(true)], Limits::default())
    }

    pub(super) fn of(seed: u64, suites: [Suites; 2], limits: Limits) -> World {
        let nodes = suites.into_iter().enumerate().map(|(node, suites)| {
            let mut endpoint = endpoint(node, seed, suites, limits);
            let other = 1 - node;
            endpoint.add_peer(peer_id(other), &node_name(other), private_key(other).public());
            Node { endpoint, events: Vec::new() }
        });
        World {
            now: Time::ZERO,
            nodes: nodes.collect(),
            sent: Vec::new(),
            delay: Duration::from_millis(10),
            wire: Box::new(|_, datagram| vec![(Duration::ZERO, datagram.octets.clone())]),
            scripts: BTreeMap::new(),
            places: vec![address(0), address(1)],
            seen_as: BTreeMap::new(),
            flying: BTreeMap::new(),
            copies: 0,
        }
    }

    pub(super) fn connect(&mut self, from: usize, to: usize) -> SaId {
        let path = self.path(from, to);
        let sa = self.nodes[from].endpoint.connect(self.now, peer_id(to), path);
        self.drain();
        sa
    }

    /// As `from` sees the way to `to`.
    pub(super) fn path(&self, from: usize, to: usize) -> Path {
        let remote = *self.seen_as.get(&to).unwrap_or(&self.places[to]);
        Path { socket: SocketId(0), local: Some(self.places[from].ip()), remote }
    }

    /// Lets time pass, with everything that happens in it.
    pub(super) fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// The same, but no longer than until `done`; says whether that came.
    pub(super) fn run_until(&mut self, time: Duration, mut done: impl FnMut(&mut World) -> bool) -> bool {
        let end = self.now + time;
        let mut idle_steps = 0;
        loop {
            self.drain();
            if done(self) {
                return true;
            }
            let arrival = self.flying.keys().next().map(|key| key.0);
            let timer = self.nodes.iter().filter_map(|node| node.endpoint.poll_timeout()).map(|due| due.0).min();
            let Some(next) = arrival.into_iter().chain(timer).min().filter(|&next| next <= end) else {
                self.now = end;
                return false;
            };
            idle_steps = if next > self.now { 0 } else { idle_steps + 1 };
            assert!(idle_steps < 10_000, "time stands still: {:?}", self.nodes[0].endpoint.poll_timeout());
            self.now = self.now.max(next);
            while let Some((&(at, number), _)) = self.flying.iter().next()
                && at <= self.now
            {
                let (from, to, octets) = self.flying.remove(&(at, number)).unwrap();
                self.deliver(from, to, &octets);
            }
            for node in &mut self.nodes {
                node.endpoint.handle_timeout(self.now);
                if let Some((due, reason)) = node.endpoint.poll_timeout() {
                    assert!(due > self.now, "a timer that was handled is still due: {reason}");
                }
            }
        }
    }

    pub(super) fn deliver(&mut self, from: usize, to: usize, octets: &[u8]) {
        let path = self.path(to, from);
        let endpoint = &mut self.nodes[to].endpoint;
        let taken = match self.scripts.get_mut(&to) {
            Some(script) => script(endpoint, self.now, path, octets),
            None => false,
        };
        if !taken {
            endpoint.receive(self.now, path, octets);
        }
    }

    /// Puts what the endpoints have to say onto the wire and into the lists.
    pub(super) fn drain(&mut self) {
        for from in 0..self.nodes.len() {
            while let Some(transmit) = self.nodes[from].endpoint.poll_transmit() {
                assert_eq!(transmit.datagram[..4], [0; 4], "the non-ESP marker");
                let Some(to) = (0..self.nodes.len()).find(|&to| self.path(from, to).remote == transmit.path.remote)
                else {
                    continue;
                };
                let datagram = Datagram { at: self.now, from, octets: transmit.datagram[4..].to_vec() };
                for (extra, octets) in (self.wire)(self.sent.len(), &datagram) {
                    self.copies += 1;
                    self.flying.insert((self.now + self.delay + extra, self.copies), (from, to, octets));
                }
                self.sent.push(datagram);
            }
            while let Some(event) = self.nodes[from].endpoint.poll_event() {
                self.nodes[from].events.push((self.now, event));
            }
        }
    }

    /// The SAs that stand, with both SPIs.
    pub(super) fn standing(&self, node: usize) -> Vec<(u64, u64)> {
        let sas = self.nodes[node].endpoint.sas().filter(|sa| sa.established);
        let mut spis: Vec<_> = sas.map(|sa| (sa.spi_initiator, sa.spi_responder)).collect();
        spis.sort_unstable();
        spis
    }

    pub(super) fn children(&self, node: usize) -> Vec<&ChildSa> {
        let child = |event: &'_ (Time, Event)| matches!(event.1, Event::ChildUp { .. });
        let events = self.nodes[node].events.iter().filter(|event| child(event));
        events
            .filter_map(|(_, event)| if let Event::ChildUp { child, .. } = event { Some(child) } else { None })
            .collect()
    }

    pub(super) fn established(&self, node: usize) -> Vec<SaId> {
        self.pick(node, |event| if let Event::Established { sa, .. } = event { Some(*sa) } else { None })
    }

    pub(super) fn closed(&self, node: usize) -> Vec<Reason> {
        self.pick(node, |event| if let Event::Closed { reason, .. } = event { Some(reason.clone()) } else { None })
    }

    pub(super) fn child_downs(&self, node: usize) -> Vec<(Time, Option<u32>, String)> {
        let down = |(at, event): &(Time, Event)| {
            let Event::ChildDown { spi_in, reason, .. } = event else { return None };
            Some((*at, *spi_in, reason.to_string()))
        };
        self.nodes[node].events.iter().filter_map(down).collect()
    }

    pub(super) fn refused(&self, node: usize) -> Vec<(Option<String>, String)> {
        self.pick(node, |event| {
            let Event::Refused { name, reason, .. } = event else { return None };
            Some((name.clone(), reason.to_string()))
        })
    }

    fn pick<T>(&self, node: usize, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.nodes[node].events.iter().filter_map(|(_, event)| pick(event)).collect()
    }

    /// Both ends have the same IKE SAs, and Child SAs that fit pairwise, keys included.
    pub(super) fn assert_paired(&self, count: usize) {
        assert_eq!(self.standing(0).len(), count);
        assert_eq!(self.standing(0), self.standing(1));
        let (ours, theirs) = (self.children(0), self.children(1));
        assert_eq!((ours.len(), theirs.len()), (count, count));
        for child in ours {
            let other = theirs.iter().find(|other| other.spi_in == child.spi_out).expect("the other half");
            assert_eq!((other.spi_out, other.cipher), (child.spi_in, child.cipher));
            assert_eq!(*other.key_in, *child.key_out);
            assert_eq!(*other.key_out, *child.key_in);
            assert_eq!(child.key_in.len(), child.cipher.keymat_len());
            assert_ne!(*child.key_in, *child.key_out);
        }
    }

    /// Every exchange that was sent, once for each datagram.
    pub(super) fn exchanges(&self, from: usize) -> Vec<Exchange> {
        let of = |datagram: &Datagram| Message::parse(&datagram.octets).unwrap().header.exchange;
        self.sent.iter().filter(|datagram| datagram.from == from).map(of).collect()
    }

    pub(super) fn counter(&self, node: usize, reason: &str) -> u64 {
        self.nodes[node].endpoint.counters().find(|counter| counter.0 == reason).map_or(0, |counter| counter.1)
    }

    /// `from` makes any request on its SA, which stands, and gets the payloads of the answer. Nothing is lost on the way.
    pub(super) fn ask(&mut self, from: usize, exchange: Exchange, payloads: &[Payload]) -> Vec<Payload> {
        self.drain();
        let to = 1 - from;
        let sa = self.established(from)[0];
        let endpoint = &mut self.nodes[from].endpoint;
        let standing = endpoint.sas.get_mut(&sa).expect("stands");
        let State::Established(state) = &mut standing.state else { panic!("not established") };
        let asked = standing.core.request(&mut endpoint.ctx, self.now, &mut state.keys, exchange, payloads, LATER);
        assert!(asked.is_ok());
        let mut requests = Vec::new();
        while let Some(transmit) = endpoint.poll_transmit() {
            requests.push(transmit.datagram[4..].to_vec());
        }
        for request in requests {
            let path = self.path(to, from);
            self.nodes[to].endpoint.receive(self.now, path, &request);
        }
        let answer = self.nodes[to].endpoint.poll_transmit().expect("an answer").datagram[4..].to_vec();
        let endpoint = &mut self.nodes[from].endpoint;
        let standing = endpoint.sas.get_mut(&sa).expect("stands");
        standing.core.window.answered();
        let State::Established(state) = &mut standing.state else { panic!("not established") };
        let message = Message::parse(&answer).unwrap();
        assert!(message.header.response && message.header.exchange == exchange);
        let Body::Sk(sealed) = message.body else { panic!("one SK payload") };
        let answer = state.keys.opener.open(&sealed).expect("verifies").payloads().expect("parses");
        self.drain();
        answer
    }
}

/// Answers IKE_AUTH in the endpoint's place: its true identity and AUTH, if `proof`, and then `rest`. True if it was an IKE_AUTH.
pub(super) fn answer_auth(endpoint: &mut Endpoint, now: Time, octets: &[u8], rest: &[Payload], proof: bool) -> bool {
    use super::established::Established;
    use super::signature::SignedOctets;
    use crate::wire::ike::{Id, id_type};

    let Ok(message) = Message::parse(octets) else { return false };
    if message.header.exchange != Exchange::IKE_AUTH {
        return false;
    }
    let Some(id) = endpoint.sas.values().find(|sa| sa.core.role == Role::Responder).map(|sa| sa.core.id) else {
        return false;
    };
    let mut sa = endpoint.sas.remove(&id).unwrap();
    let State::Responding(state) = sa.state else { panic!("IKE_AUTH is due once") };
    let mut handshake = state.handshake;
    sa.core.window.noted(octets);
    let name = Id::new(id_type::FQDN, endpoint.ctx.name.as_bytes());
    let signed = SignedOctets {
        signer: Role::Responder,
        keys: &handshake.keys,
        real_message: &handshake.init_response,
        peer_nonce: &handshake.seed.nonce_initiator,
        id: &name,
        int_auth: &handshake.int_auth,
        auth_message_id: message.header.message_id,
    };
    let auth = signed.sign(&endpoint.ctx.private_key);
    let mut answer = if proof { vec![Payload::IdR(name), Payload::Auth(auth)] } else { Vec::new() };
    answer.extend_from_slice(rest);
    assert!(sa.core.respond(&mut endpoint.ctx, &mut handshake.keys, &message.header, &answer).is_ok());
    sa.core.leave_half_open(&mut endpoint.ctx);
    sa.core.peer = Some(PeerId(0));
    sa.core.since = now;
    sa.state = State::Established(Box::new(Established::new(handshake.keys, handshake.suite, &mut endpoint.ctx, now)));
    endpoint.replace(sa);
    true
}
