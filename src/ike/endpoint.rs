//! The endpoint: every IKE SA of the node, found by SPI; half-open limits and cookies.
//!
//! The contract: give it messages and time, take from it datagrams and events until there are none left, then sleep until
//! [`Endpoint::poll_timeout`]. It never decides to dial or to give up on a peer: that is `node`'s part.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::accept::{self, MAX_REQUEST, Request};
use super::closing::Closing;
use super::context::Context;
pub use super::event::{ChildInfo, Event, Known, Limits, Reason, Role, SaId, SaInfo, Settings, Transmit};
use super::init;
use super::mobike::Mobike;
use super::natd::Spis;
use super::sa::{Core, End, Sa, State, Step};
use super::window::{Arrival, Window};
use crate::config::plan::Suites;
use crate::crypto::digest::sha256;
use crate::crypto::rng::Rng;
use crate::crypto::sign::PublicKey;
use crate::identity::Identity;
use crate::path::{Path, PeerId, SocketId};
use crate::time::Time;
use crate::wire::ike::{
    Body, Chain, Exchange, Garbage, Header, IKE_HEADER_LEN, Message, Notify, NotifyType, Payload, encode_clear,
};

pub struct Endpoint {
    pub(super) ctx: Context,
    pub(super) sas: BTreeMap<SaId, Sa>,
    /// By the SPI that is ours.
    by_spi: BTreeMap<u64, SaId>,
    /// SAs whose IKE_SA_INIT may be repeated, by the digest of the request (RFC 7296 §2.1).
    by_request: BTreeMap<[u8; 32], SaId>,
    timers: BTreeSet<(Time, SaId, &'static str)>,
    last: SaId,
}

impl Endpoint {
    pub fn new(settings: Settings, limits: Limits, rng: Rng, now: Time) -> Endpoint {
        Endpoint {
            ctx: Context::new(settings, limits, rng, now),
            sas: BTreeMap::new(),
            by_spi: BTreeMap::new(),
            by_request: BTreeMap::new(),
            timers: BTreeSet::new(),
            last: SaId(0),
        }
    }

    /// Makes a peer known that is like any other: its name is its identity, our suites are its. See [`Endpoint::know`].
    pub fn add_peer(&mut self, peer: PeerId, name: &str, key: PublicKey) {
        let known = Known {
            name: name.to_owned(),
            key,
            remote_id: Identity::fqdn(name),
            local_id: Identity::fqdn(&self.ctx.name),
            suites: self.ctx.suites(None).clone(),
            addresses: Vec::new(),
        };
        self.know(peer, known);
    }

    /// Makes a peer known; replaces what was known of `peer`.
    pub fn know(&mut self, peer: PeerId, known: Known) {
        self.ctx.know(peer, known);
    }

    /// What strangers are answered with, from now on.
    pub fn set_suites(&mut self, suites: Suites) {
        self.ctx.set_suites(suites);
    }

    /// Forgets a peer and closes its SAs.
    pub fn remove_peer(&mut self, now: Time, peer: PeerId) {
        let of_peer: Vec<SaId> =
            self.sas.iter().filter(|(_, sa)| sa.core.peer == Some(peer)).map(|(&id, _)| id).collect();
        for sa in of_peer {
            self.close(now, sa);
        }
        self.ctx.remove_peer(peer);
    }

    /// Tells on which port a socket is bound, so that NAT detection can recognise our own address (RFC 7296 §2.23).
    pub fn set_port(&mut self, socket: SocketId, port: u16) {
        self.ctx.ports.insert(socket, port);
    }

    /// Starts a session as initiator.
    pub fn connect(&mut self, now: Time, peer: PeerId, path: Path) -> SaId {
        let id = self.next_id();
        let mut core = Core {
            id,
            role: Role::Initiator,
            spis: Spis { initiator: self.new_spi(), responder: 0 },
            path,
            from: path,
            peer: Some(peer),
            began: now,
            since: now,
            window: Window::default(),
            fragmentation: false,
            behind_nat: false,
            mobike: Mobike::default(),
            child_spis: Vec::new(),
            half_open: None,
            init_digest: None,
        };
        let started = if self.ctx.peers.contains_key(&peer) {
            init::start(&mut core, &mut self.ctx, now)
        } else {
            Err(End::Closed(Reason::Incompatible("no such peer".to_owned())))
        };
        match started {
            Ok(state) => self.put(Sa { core, state }),
            Err(End::Closed(reason)) => self.ctx.emit(Event::Closed { sa: id, peer: Some(peer), reason }),
            Err(End::Quiet) => {}
        }
        id
    }

    /// Sends DELETE and forgets the SA; a half-open one is forgotten silently. No `Closed` event follows.
    pub fn close(&mut self, now: Time, sa: SaId) {
        self.step(sa, |state, core, ctx| match state {
            State::Established(state) => Closing::start(state.keys, core, ctx, now, None).map_err(|_| End::Quiet),
            State::Closing(_) | State::Gone(_) => Ok(state),
            State::Sent(_) | State::Exchanging(_) | State::Authenticating(_) | State::Responding(_) => Err(End::Quiet),
        });
    }

    /// Ends a session that does not get on, and says what it was waiting for.
    pub fn give_up(&mut self, now: Time, sa: SaId) -> Option<Reason> {
        let reason = self.sas.get(&sa).and_then(Sa::waiting_for);
        self.close(now, sa);
        reason
    }

    /// Asks the peer for a sign of life (an empty INFORMATIONAL). A request that is under way already serves as well, and is
    /// then given up as early: 4 s without an answer end the SA.
    pub fn probe(&mut self, now: Time, sa: SaId) {
        self.step(sa, |mut state, core, ctx| {
            if let State::Established(established) = &mut state {
                established.probe(core, ctx, now)?;
            }
            Ok(state)
        });
    }

    /// Rekeys the session's Child SAs now, or as soon as no other request is under way.
    pub fn rekey_children(&mut self, now: Time, sa: SaId) {
        self.step(sa, |mut state, core, ctx| {
            if let State::Established(established) = &mut state {
                established.rekey_children(now);
                established.advance(core, ctx, now)?;
            }
            Ok(state)
        });
    }

    /// Rekeys the session's IKE SA, likewise.
    pub fn rekey_ike(&mut self, now: Time, sa: SaId) {
        self.step(sa, |mut state, core, ctx| {
            if let State::Established(established) = &mut state {
                established.rekey_at = Some(now);
                established.advance(core, ctx, now)?;
            }
            Ok(state)
        });
    }

    /// Requests go to `path` from now on: ESP that verified came from there.
    pub fn set_path(&mut self, sa: SaId, path: Path) {
        if let Some(sa) = self.sas.get_mut(&sa) {
            sa.core.path = path;
        }
    }

    /// Our own address has changed, or the peer is to be reached otherwise: everything goes over `path` from now on, and the peer
    /// is told at once.
    pub fn relocate(&mut self, now: Time, sa: SaId, path: Path) {
        self.step(sa, |mut state, core, ctx| {
            core.path = path;
            if let State::Established(established) = &mut state {
                established.relocated(core, ctx, now)?;
            }
            Ok(state)
        });
    }

    /// A message from an address that lies in the mesh: it is answered, but no session moves there.
    pub fn receive_inside(&mut self, now: Time, path: Path, message: &[u8]) {
        self.ctx.from_inside = true;
        self.receive(now, path, message);
        self.ctx.from_inside = false;
    }

    /// An IKE message, without the non-ESP marker.
    pub fn receive(&mut self, now: Time, path: Path, message: &[u8]) {
        let parsed = match Message::parse(message) {
            Ok(parsed) => parsed,
            Err(garbage) => return self.garbage(now, path, garbage, message.len()),
        };
        match parsed.body {
            Body::Clear(chain) => self.receive_clear(now, path, parsed.header, chain, message),
            // A session that stayed there could carry no data. Both ends hear of a NAT in IKE_SA_INIT, which ends its use.
            Body::Sk(_) | Body::Skf(_) if self.ctx.is_bare(&path) => self.ctx.count("ike_stays_on_port_500"),
            Body::Sk(_) | Body::Skf(_) => self.receive_protected(now, path, &parsed, message),
        }
    }

    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        self.timers.first().map(|&(time, _, reason)| (time, reason))
    }

    pub fn handle_timeout(&mut self, now: Time) {
        let due: Vec<SaId> = self.timers.iter().take_while(|(time, ..)| *time <= now).map(|&(_, sa, _)| sa).collect();
        for id in due {
            if let Some(sa) = self.take(id) {
                let digest = sa.core.init_digest;
                let rest = sa.timeout(&mut self.ctx, now);
                self.settle(digest, rest);
            }
        }
    }

    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.ctx.poll_transmit()
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.ctx.poll_event()
    }

    pub fn sas(&self) -> impl Iterator<Item = SaInfo> + '_ {
        self.sas.values().filter_map(Sa::info)
    }

    pub fn sa(&self, sa: SaId) -> Option<SaInfo> {
        self.sas.get(&sa).and_then(Sa::info)
    }

    /// Refused and dropped messages since the start, by reason.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.ctx.counters.iter().map(|(&reason, &count)| (reason, count))
    }

    /// Key exchanges computed for others since the start. Under load none comes before a valid cookie.
    pub fn key_exchanges(&self) -> u64 {
        self.ctx.key_exchanges
    }

    /// Half-open SAs as responder, in all and from one address (for tests and status).
    pub fn half_open(&self, from: Option<IpAddr>) -> usize {
        from.map_or(self.ctx.half_open.total(), |address| self.ctx.half_open.from(address))
    }

    /// DELETE for every established SA; the datagrams come out of [`Endpoint::poll_transmit`].
    pub fn shut_down(&mut self, now: Time) {
        let all: Vec<SaId> = self.sas.keys().copied().collect();
        for sa in all {
            self.step(sa, |state, core, ctx| {
                match state {
                    State::Established(state) => Closing::at_once(state.keys, core, ctx, now),
                    State::Closing(state) => Closing::at_once(state.keys, core, ctx, now),
                    State::Sent(_)
                    | State::Exchanging(_)
                    | State::Authenticating(_)
                    | State::Responding(_)
                    | State::Gone(_) => {}
                }
                Err(End::Quiet)
            });
        }
    }

    fn receive_clear(&mut self, now: Time, path: Path, header: Header, chain: Chain<'_>, octets: &[u8]) {
        if header.exchange != Exchange::IKE_SA_INIT || header.message_id != 0 {
            // RFC 7296 §2.21.4: INVALID_IKE_SPI and the like prove nothing.
            return self.ctx.count("ike_unprotected");
        }
        match (header.from_initiator, header.response) {
            (true, false) if header.spi_responder == 0 => self.receive_request(now, path, header, chain, octets),
            (false, true) => {
                let Some(&id) = self.by_spi.get(&header.spi_initiator) else {
                    return self.ctx.count("ike_unknown_spi");
                };
                let Ok(payloads) = chain.payloads() else { return self.ctx.count("ike_malformed_init") };
                if let Some(sa) = self.take(id) {
                    let digest = sa.core.init_digest;
                    let rest = sa.receive_init(&mut self.ctx, now, path, &header, payloads, octets);
                    self.settle(digest, rest);
                }
            }
            _ => self.ctx.count("ike_malformed_init"),
        }
    }

    fn receive_request(&mut self, now: Time, path: Path, header: Header, chain: Chain<'_>, octets: &[u8]) {
        if octets.len() > MAX_REQUEST {
            return self.ctx.count("ike_init_too_long");
        }
        let digest = sha256(&[octets]);
        if let Some(sa) = self.by_request.get(&digest).and_then(|id| self.sas.get(id)) {
            if sa.core.window.arrival(0, Some(octets)) == Arrival::Repeated {
                self.ctx.send(path, sa.core.window.stored());
            }
            return self.ctx.count("ike_repeated_request");
        }
        let (id, spi) = (self.next_id(), self.new_spi());
        let request = Request { now, path, header, chain, octets, digest };
        if let Some(sa) = accept::accept(&mut self.ctx, &request, id, spi) {
            self.by_request.insert(digest, id);
            self.put(sa);
        }
    }

    fn receive_protected(&mut self, now: Time, path: Path, message: &Message<'_>, octets: &[u8]) {
        let header = &message.header;
        // RFC 7296 §2.6: the SA is found by our SPI alone; the I flag says which one that is.
        let (ours, theirs) = if header.from_initiator {
            (header.spi_responder, header.spi_initiator)
        } else {
            (header.spi_initiator, header.spi_responder)
        };
        let Some(&id) = self.by_spi.get(&ours) else { return self.ctx.count("ike_unknown_spi") };
        let fits = self.sas.get(&id).is_some_and(|sa| match sa.core.role {
            Role::Initiator => !header.from_initiator && sa.core.spis.responder == theirs,
            Role::Responder => header.from_initiator && sa.core.spis.initiator == theirs,
        });
        if !fits {
            return self.ctx.count("ike_unknown_spi");
        }
        if let Some(sa) = self.take(id) {
            let digest = sa.core.init_digest;
            let rest = sa.receive(&mut self.ctx, now, path, message, octets);
            self.settle(digest, rest);
        }
    }

    fn garbage(&mut self, now: Time, path: Path, garbage: Garbage, len: usize) {
        self.ctx.count(match garbage {
            Garbage::Short => "ike_short",
            Garbage::Length => "ike_length",
            Garbage::ZeroSpi => "ike_zero_spi",
            Garbage::OldVersion | Garbage::NewVersion(_) => "ike_version",
            Garbage::Sealed => "ike_malformed_sk",
            Garbage::FragmentNumber => "ike_fragment_number",
        });
        // RFC 7296 §2.5. The reply is not to be larger than what it answers.
        if let Garbage::NewVersion(header) = garbage
            && !header.response
            && len >= IKE_HEADER_LEN + NOTIFY_LEN
            && self.ctx.replies.take(now)
        {
            let reply = Header { from_initiator: !header.from_initiator, response: true, ..header };
            let notify = Payload::Notify(Notify::new(NotifyType::INVALID_MAJOR_VERSION, []));
            if let Ok(reply) = encode_clear(&reply, &[notify]) {
                self.ctx.send(path, &[reply]);
            }
        }
    }

    fn step(&mut self, id: SaId, step: impl FnOnce(State, &mut Core, &mut Context) -> Step) {
        if let Some(sa) = self.take(id) {
            let digest = sa.core.init_digest;
            let rest = sa.step(&mut self.ctx, step);
            self.settle(digest, rest);
        }
    }

    /// Takes an SA out for a step that consumes its state; [`settle`](Self::settle) puts back what is left of it.
    fn take(&mut self, id: SaId) -> Option<Sa> {
        let sa = self.sas.remove(&id)?;
        if let Some((due, reason)) = sa.due() {
            self.timers.remove(&(due, id, reason));
        }
        self.by_spi.remove(&sa.our_spi());
        Some(sa)
    }

    fn put(&mut self, sa: Sa) {
        let id = sa.core.id;
        if let Some((due, reason)) = sa.due() {
            self.timers.insert((due, id, reason));
        }
        self.by_spi.insert(sa.our_spi(), id);
        self.sas.insert(id, sa);
    }

    /// `digest`: what its IKE_SA_INIT request is known by, for as long as the SA lives.
    fn settle(&mut self, digest: Option<[u8; 32]>, rest: Option<Sa>) {
        match (rest, digest) {
            (Some(sa), _) => self.put(sa),
            (None, Some(digest)) => {
                self.by_request.remove(&digest);
            }
            (None, None) => {}
        }
        for mut sa in std::mem::take(&mut self.ctx.born) {
            sa.core.id = self.next_id();
            if let Some(digest) = sa.core.init_digest {
                self.by_request.insert(digest, sa.core.id);
            }
            self.put(sa);
        }
        if let Some((peer, began)) = self.ctx.alone.take() {
            let over = |sa: &&Sa| {
                sa.core.peer == Some(peer) && sa.core.since < began && matches!(sa.state, State::Established(_))
            };
            let over: Vec<SaId> = self.sas.values().filter(over).map(|sa| sa.core.id).collect();
            for id in over {
                self.step(id, |_, _, _| Err(End::Closed(Reason::ClosedByPeer)));
            }
        }
    }

    /// A session's first Child SA remains the only one.
    #[cfg(test)]
    pub(crate) fn refuse_children(&mut self) {
        self.ctx.limits.children = 1;
    }

    /// Puts an SA of a test's making into the place of the one that has its SPI.
    #[cfg(test)]
    pub(super) fn replace(&mut self, sa: Sa) {
        let id = sa.core.id;
        self.timers.retain(|timer| timer.1 != id);
        self.put(sa);
    }

    fn next_id(&mut self) -> SaId {
        loop {
            self.last = SaId(self.last.0.wrapping_add(1));
            if !self.sas.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    fn new_spi(&mut self) -> u64 {
        loop {
            let spi = self.ctx.rng.u64();
            if spi != 0 && !self.by_spi.contains_key(&spi) {
                return spi;
            }
        }
    }
}

/// A notify without SPI and data.
const NOTIFY_LEN: usize = 8;
