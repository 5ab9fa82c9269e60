//! What all IKE SAs of an endpoint share: who we are, whom we know, what we offer, and the queues to the outside.
//!
//! Memory is bounded here: what a stranger can cause to be said is rationed, and the queues have an end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::cookie::Cookies;
use super::error::sentence;
use super::event::{Event, Known, Limits, Reason, Settings, Transmit};
use super::limit::{Bucket, HalfOpen};
use super::sa::Sa;
use crate::config::plan::{IkeSuite, Rekey, Suites};
use crate::crypto::rng::Rng;
use crate::crypto::sign::PrivateKey;
use crate::identity::{self, Identity};
use crate::path::{Path, PeerId, SocketId};
use crate::time::Time;
use crate::wire::udpencap;

pub(super) struct Context {
    pub(super) name: String,
    pub(super) private_key: PrivateKey,
    pub(super) fingerprint: String,
    /// What whoever is no peer gets.
    suites: Suites,
    /// What anybody may begin with; whether it is enough, IKE_AUTH says.
    any_ike: Vec<IkeSuite>,
    pub(super) rekey: Rekey,
    /// IKE SAs that a step has made beside the one it was about; the endpoint takes them in.
    pub(super) born: Vec<Sa>,
    /// A peer that has just authenticated has no IKE SA beside those that began later than this (RFC 7296 §2.4).
    pub(super) alone: Option<(PeerId, Time)>,
    pub(super) limits: Limits,
    /// The message being handled came from an address in the mesh.
    pub(super) from_inside: bool,
    pub(super) rng: Rng,
    pub(super) cookies: Cookies,
    pub(super) half_open: HalfOpen,
    /// Replies to garbage.
    pub(super) replies: Bucket,
    pub(super) key_exchanges: u64,
    pub(super) peers: BTreeMap<PeerId, Known>,
    pub(super) ports: BTreeMap<SocketId, u16>,
    pub(super) counters: BTreeMap<&'static str, u64>,
    identities: BTreeMap<identity::Key, PeerId>,
    /// SPIs on which Child SAs of ours receive, or will.
    child_spis: BTreeSet<u32>,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    /// [`Event::Refused`] for those who came with an identity, and for those who did not get so far.
    refused_named: Bucket,
    refused_early: Bucket,
}

impl Context {
    pub(super) fn new(settings: Settings, limits: Limits, mut rng: Rng, now: Time) -> Context {
        let suites = settings.suites.in_order();
        Context {
            fingerprint: settings.private_key.public().fingerprint(),
            name: settings.name,
            private_key: settings.private_key,
            any_ike: suites.ike.clone(),
            suites,
            rekey: settings.rekey,
            born: Vec::new(),
            alone: None,
            limits,
            from_inside: false,
            cookies: Cookies::new(now, &mut rng),
            rng,
            half_open: HalfOpen::default(),
            replies: Bucket::new(20, Duration::from_millis(200), now),
            key_exchanges: 0,
            peers: BTreeMap::new(),
            ports: BTreeMap::new(),
            counters: BTreeMap::new(),
            identities: BTreeMap::new(),
            child_spis: BTreeSet::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            refused_named: Bucket::new(10, Duration::from_secs(1), now),
            refused_early: Bucket::new(5, Duration::from_secs(5), now),
        }
    }

    /// What is known of a peer from now on; SAs that stand are left as they are.
    pub(super) fn know(&mut self, peer: PeerId, known: Known) {
        self.remove_peer(peer);
        self.identities.insert(known.remote_id.key(), peer);
        self.peers.insert(peer, Known { suites: known.suites.in_order(), ..known });
        self.gather();
    }

    pub(super) fn remove_peer(&mut self, peer: PeerId) {
        if let Some(old) = self.peers.remove(&peer) {
            self.identities.retain(|key, own| *own != peer || *key != old.remote_id.key());
            self.gather();
        }
    }

    pub(super) fn set_suites(&mut self, suites: Suites) {
        self.suites = suites.in_order();
        self.gather();
    }

    pub(super) fn peer_by_identity(&self, identity: &Identity) -> Option<(PeerId, &Known)> {
        let peer = *self.identities.get(&identity.key())?;
        Some((peer, self.peers.get(&peer)?))
    }

    /// What is offered to a peer and accepted from it.
    pub(super) fn suites(&self, peer: Option<PeerId>) -> &Suites {
        peer.and_then(|peer| self.peers.get(&peer)).map_or(&self.suites, |known| &known.suites)
    }

    /// What a stranger from this address may begin with, best first: what a peer that lives there has, then what anybody may.
    pub(super) fn acceptable(&self, from: IpAddr) -> Vec<IkeSuite> {
        let at_home = self.peers.values().filter(|known| known.addresses.contains(&from));
        at_home.flat_map(|known| &known.suites.ike).chain(&self.any_ike).cloned().collect()
    }

    /// All that somebody accepts, with ML-KEM first: a peer that can do it is not to be met without.
    fn gather(&mut self) {
        let mut all: Vec<IkeSuite> = Vec::new();
        for suite in
            std::iter::once(&self.suites).chain(self.peers.values().map(|known| &known.suites)).flat_map(|it| &it.ike)
        {
            if !all.contains(suite) {
                all.push(suite.clone());
            }
        }
        all.sort_by_key(|suite| !suite.is_post_quantum());
        self.any_ike = all;
    }

    pub(super) fn count(&mut self, reason: &'static str) {
        let count = self.counters.entry(reason).or_default();
        *count = count.saturating_add(1);
    }

    /// The address at which a message on `path` reached us.
    pub(super) fn local(&self, path: &Path) -> Option<SocketAddr> {
        Some(SocketAddr::new(path.local?, *self.ports.get(&path.socket)?))
    }

    /// Whether this is the way of the first messages only: port 500 at either end.
    pub(super) fn is_bare(&self, path: &Path) -> bool {
        udpencap::is_bare(self.ports.get(&path.socket).copied(), path.remote.port())
    }

    /// Puts the non-ESP marker in front where there may be ESP (RFC 3948 §2.2) and queues the datagrams. A full queue loses
    /// them, as a wire does.
    pub(super) fn send<'a>(&mut self, path: Path, messages: impl IntoIterator<Item = &'a Vec<u8>>) {
        for message in messages {
            if self.transmits.len() >= QUEUE {
                self.count("ike_transmit_queue_full");
                continue;
            }
            let mut datagram = Vec::with_capacity(udpencap::NON_ESP_MARKER.len() + message.len());
            if !self.is_bare(&path) {
                datagram.extend_from_slice(&udpencap::NON_ESP_MARKER);
            }
            datagram.extend_from_slice(message);
            self.transmits.push_back(Transmit { path, datagram });
        }
    }

    pub(super) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    pub(super) fn emit(&mut self, event: Event) {
        // Only these come as often as packets do; every other event is a change of an SA's state.
        if let Event::Heard { sa, path } = &event {
            let again = |last: &Event| matches!(last, Event::Heard { sa: s, path: p } if s == sa && p == path);
            if self.events.len() >= QUEUE || self.events.back().is_some_and(again) {
                return;
            }
        }
        self.events.push_back(event);
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// `name` is what the peer said of itself, if it came so far.
    pub(super) fn refuse(&mut self, now: Time, from: Path, name: Option<String>, reason: Reason) {
        let bucket = if name.is_some() { &mut self.refused_named } else { &mut self.refused_early };
        if bucket.take(now) && self.events.len() < QUEUE {
            let name = name.map(sentence);
            self.events.push_back(Event::Refused { from, name, reason });
        }
    }

    /// An SPI on which a new Child SA will receive; given back by [`release`](Self::release).
    pub(super) fn reserve_spi(&mut self) -> u32 {
        loop {
            // 1 to 255 are reserved (RFC 4303 §2.1), and 0 is the non-ESP marker.
            let spi = self.rng.u32();
            if spi > 255 && self.child_spis.insert(spi) {
                return spi;
            }
        }
    }

    /// An SPI for an IKE SA; that another has it is as likely as guessing one.
    pub(super) fn new_ike_spi(&mut self) -> u64 {
        self.rng.u64().max(1)
    }

    /// When an SA that lives for `life` is to be rekeyed: up to a tenth earlier, so that not all are at once.
    pub(super) fn end_of_life(&mut self, now: Time, life: Option<Duration>) -> Option<Time> {
        let life = life?;
        Some(now + life * (900 + self.rng.below(101)) / 1000)
    }

    pub(super) fn release(&mut self, spi: u32) {
        self.child_spis.remove(&spi);
    }
}

/// The most datagrams or events that wait to be fetched.
const QUEUE: usize = 4096;
