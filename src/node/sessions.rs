//! What IKE reports, turned into links: which session carries which link, and which of two crossing sessions stays.
//!
//! A new session between the same two hosts replaces the old one (the peer would not have dialled if it still had it),
//! unless the two crossed: each side began one before the other's stood (RFC 7296 §2.8 leaves that to us). Then the one
//! begun by the lower public key stays, at both ends alike.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::Node;
use super::link::{self, Attempt, ChildInfo, DRAIN, Drain, HANDSHAKE, LINE, SENTENCE, Session, clipped};
use crate::child_sa::ChildSa;
use crate::ike::endpoint::{Event, Reason, Role, SaId};
use crate::path::{LinkId, Path, PeerId};
use crate::status::model;
use crate::time::Time;

/// Links that a peer dialled, at most: more than its paths to us can sensibly be.
const ACCEPTED_LINKS: usize = 8;
/// A new session that could not be had is tried for again after this.
const REFRESH_AGAIN: std::time::Duration = std::time::Duration::from_secs(60);
/// Of a stranger's name, so much is shown.
const NAME: usize = 64;
/// A refusal is not asked for again before this (a wrong key does not mend itself).
const AFTER_REFUSAL: std::time::Duration = std::time::Duration::from_secs(10);

/// A session that has just been authenticated.
pub(super) struct Established {
    sa: SaId,
    peer: PeerId,
    role: Role,
    path: Path,
    suite: String,
    began: Time,
    behind_nat: bool,
}

impl Node {
    pub(super) fn handle_ike(&mut self, now: Time, event: Event) {
        match event {
            Event::Established { sa, peer, role, path, suite, began, behind_nat } => {
                self.established(now, Established { sa, peer, role, path, suite, began, behind_nat });
            }
            Event::ChildUp { sa, child, standby } => self.child_up(now, sa, &child, standby),
            Event::ChildUse { sa, spi_in } => self.child_use(sa, spi_in),
            Event::Rekeyed { sa, suite } => self.rekeyed(sa, suite),
            Event::RekeyRefused { sa, ike, reason } => self.rekey_refused(now, sa, ike, &reason),
            Event::ChildDown { sa, spi_in, reason } => self.child_down(now, sa, spi_in, &reason),
            Event::Closed { sa, reason, .. } => self.closed(now, sa, &reason),
            Event::Heard { sa, path } => self.heard(now, sa, path),
            Event::Moved { sa, path, behind_nat } => self.moved(now, sa, path, behind_nat),
            Event::Refused { from, name, reason } => self.refused(now, from.remote.ip(), name, &reason),
        }
    }

    /// Dials `path` for a link.
    pub(super) fn connect(&mut self, now: Time, id: LinkId, path: Path) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let patience = link.dial.as_ref().map_or(HANDSHAKE, super::dial::Dial::patience);
        let sa = self.ike.connect(now, link.peer, path);
        link.attempt = Some(Attempt { sa, path, started: now, until: now + patience, unsent: false });
    }

    /// A link's Child SA has carried what it may, or its sequence numbers begin to run out: another one, before they do. The plane says so once; if it
    /// is not done by the next try, a new session does as well.
    pub(super) fn worn(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(session) = &link.session else { return };
        self.ike.rekey_children(now, session.sa);
        link.wears_out(now + REFRESH_AGAIN);
    }

    /// The peer will not rekey: a new session does as well.
    fn rekey_refused(&mut self, now: Time, sa: SaId, ike: bool, reason: &Reason) {
        let Some(link) = self.links.with_session(sa) else { return };
        log::info!("{}: {reason}", self.peers[link.peer].name);
        let worn = link.session.as_ref().is_some_and(|session| session.worn.is_some());
        let id = link.id;
        if worn || ike {
            self.refresh(now, id);
        }
    }

    fn rekeyed(&mut self, sa: SaId, suite: String) {
        let Some(link) = self.links.with_session(sa) else { return };
        log::debug!("{}: IKE SA rekeyed, {suite}", self.peers[link.peer].name);
        if let Some(session) = &mut link.session {
            session.suite = suite;
        }
    }

    /// Replaces a link's session, by as many tries as it takes.
    pub(super) fn refresh(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (Some(_), Some(path)) = (&link.session, link.path) else { return };
        link.wears_out(now + REFRESH_AGAIN);
        if link.attempt.is_none() {
            self.connect(now, id, path);
        }
    }

    /// Somebody was refused. If he calls himself one of our peers, that is the best guess at why that peer is not here.
    fn refused(&mut self, now: Time, from: IpAddr, name: Option<String>, reason: &Reason) {
        let name = name.map(|name| clipped(name, NAME));
        let reason = clipped(reason.to_string(), SENTENCE);
        let peer = name.as_ref().and_then(|name| self.peers.called(name));
        if let Some((told, _)) = peer.and_then(|peer| self.absent.get_mut(&peer)) {
            *told = Some(clipped(format!("call from {from} refused: {reason}"), LINE));
        }
        self.refusals.add(now, from, name, reason);
    }

    fn established(&mut self, now: Time, new: Established) {
        // It may have left the configuration while the event was under way.
        let known = self.peers.contains(new.peer);
        let Some(id) = known.then(|| self.link_for(now, &new)).flatten() else {
            self.ike.close(now, new.sa);
            return;
        };
        let own_key = self.plan.private_key.public();
        let we_are_lower = own_key < self.peer(new.peer).public_key;
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.attempt.is_some_and(|attempt| attempt.sa == new.sa) {
            link.attempt = None;
        }
        if let Some(old) = &link.session {
            let crossing = old.role != new.role && new.began <= old.established;
            let new_stays = (new.role == Role::Initiator) == we_are_lower;
            if crossing && !new_stays {
                log::debug!("{}: two sessions crossed, the earlier one stays", self.peers[new.peer].name);
                self.ike.close(now, new.sa);
                return;
            }
            self.retire_session(now, id);
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        // Our own try cannot win any more: the other end closes what the higher key began.
        if let Some(attempt) = link.attempt
            && new.role == Role::Responder
            && !we_are_lower
        {
            self.ike.close(now, attempt.sa);
            link.attempt = None;
        }
        link.session = Some(Session {
            sa: new.sa,
            role: new.role,
            suite: new.suite,
            established: now,
            behind_nat: new.behind_nat,
            children: Vec::new(),
            child_reason: None,
            ike_heard: now,
            probed: None,
            worn: None,
            kept: None,
        });
        link.path = Some(new.path);
        link.reason = None;
        link.next_check = Some(now + link::SILENCE);
        if let Some(dial) = &mut link.dial {
            dial.succeeded();
        }
        self.absent.remove(&new.peer);
        self.release_sockets();
    }

    /// The link that a session belongs to: the one that dialled it, the one between the same hosts, the one that dials the
    /// peer's address, or a new one.
    fn link_for(&mut self, now: Time, new: &Established) -> Option<LinkId> {
        let own = |link: &&link::Link| link.peer == new.peer;
        if new.role == Role::Initiator {
            return self
                .links
                .values()
                .find(|link| link.attempt.is_some_and(|attempt| attempt.sa == new.sa))
                .map(|link| link.id);
        }
        let same = self.links.values().filter(own).find(|link| link.session.is_some() && link.is_between(&new.path));
        let dialled = || {
            let address = new.path.remote.ip();
            self.links.values().filter(own).find(|link| link.session.is_none() && link.dials(address))
        };
        if let Some(link) = same.or_else(dialled) {
            return Some(link.id);
        }
        let accepted: Vec<LinkId> =
            self.links.values().filter(own).filter(|link| link.dial.is_none()).map(|link| link.id).collect();
        if accepted.len() >= ACCEPTED_LINKS {
            // The oldest that is not up makes room; a peer with that many live ones gets no more.
            let idle = accepted
                .into_iter()
                .find(|id| self.links.get(id).is_some_and(|link| link.state != model::State::Up))?;
            self.remove_link(now, idle);
        }
        Some(self.add_link(now, new.peer, None))
    }

    fn child_up(&mut self, now: Time, sa: SaId, child: &ChildSa, standby: bool) {
        let Some(link) = self.links.with_session(sa) else { return };
        let (id, address) = (link.id, link.address);
        let (Some(session), Some(path)) = (&mut link.session, link.path) else { return };
        let first = session.children.is_empty();
        let info = ChildInfo { spi_in: child.spi_in, spi_out: child.spi_out, suite: child.suite(), since: now };
        session.children.insert(if standby { 0 } else { session.children.len() }, info);
        session.child_reason = None;
        if !standby {
            session.worn = None;
        }
        let suite = session.suite.clone();
        self.plane.install(id, path, child, standby);
        if let Some(octets) = self.plan.rekey.octets {
            // Up to a tenth less, so that not all are at once, as by time.
            self.plane.limit(id, child.spi_in, octets / 1000 * u64::from(900 + self.rng.below(101)));
        }
        self.plane.set_link_local(id, address);
        let name = &self.peers[link.peer].name;
        if first {
            log::info!("{name}: session up, {suite} over {path}, data {}", child.cipher.name());
        } else {
            log::debug!("{name}: another Child SA, data {}", child.cipher.name());
        }
        match self.links.get(&id) {
            // What was said under the session before may not have arrived.
            Some(link) if link.in_babel && first => self.babel.link_renewed(now, id),
            Some(_) | None => self.join_babel(now, id),
        }
        self.update_state(now, id);
    }

    fn child_down(&mut self, now: Time, sa: SaId, spi_in: Option<u32>, reason: &Reason) {
        let Some(link) = self.links.with_session(sa) else { return };
        let id = link.id;
        let Some(session) = &mut link.session else { return };
        if let Some(spi_in) = spi_in {
            session.children.retain(|child| child.spi_in != spi_in);
            // What the peer had sealed before is still to come.
            self.plane.retire(id, spi_in);
            let socket = link.path.map(|path| path.socket);
            link.draining.push(Drain { spi: spi_in, until: now + DRAIN, socket });
        }
        if session.children.is_empty() {
            session.child_reason = Some(link::failure(reason));
            self.leave_babel(now, id);
            self.update_state(now, id);
        }
    }

    fn child_use(&mut self, sa: SaId, spi_in: u32) {
        let Some(link) = self.links.with_session(sa) else { return };
        if let Some(session) = &mut link.session
            && let Some(at) = session.children.iter().position(|child| child.spi_in == spi_in)
        {
            let child = session.children.remove(at);
            session.children.push(child);
            session.worn = None;
            self.plane.use_now(link.id, spi_in);
        }
    }

    fn closed(&mut self, now: Time, sa: SaId, reason: &Reason) {
        let text = link::failure(reason);
        if let Some(link) = self.links.with_attempt(sa) {
            link.attempt = None;
            link.reason = Some(text);
            if let Some(dial) = &mut link.dial
                && link.session.is_none()
            {
                dial.failed(now, &mut self.rng);
                if matches!(reason, Reason::AuthFailed(_)) {
                    dial.hold(now + AFTER_REFUSAL);
                }
            }
            let id = link.id;
            self.update_state(now, id);
            return;
        }
        if let Some(id) = self.links.with_session(sa).map(|link| link.id) {
            self.session_lost(now, id, text);
        }
    }

    /// The session is gone: routing leaves the link at once, and a dialled link is dialled again.
    pub(super) fn session_lost(&mut self, now: Time, id: LinkId, reason: String) {
        let established = self.links.get(&id).and_then(|link| link.session.as_ref()).map_or(now, |it| it.established);
        self.drop_session(now, id);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.reason = Some(reason.clone());
        let peer = link.peer;
        match &mut link.dial {
            Some(dial) => {
                if link.attempt.is_none() {
                    dial.lost(now, now.since(established), &mut self.rng);
                }
                self.update_state(now, id);
            }
            None => {
                self.update_state(now, id);
                self.remove_link(now, id);
                if !self.links.values().any(|link| link.peer == peer) {
                    self.absent.insert(peer, (Some(format!("last session: {reason}")), now));
                }
            }
        }
        self.run_links(now);
    }

    /// Takes the session off the link, its SAs out of the plane, and the link out of routing.
    fn drop_session(&mut self, now: Time, id: LinkId) {
        self.leave_babel(now, id);
        self.forget_in_plane(id);
        if let Some(link) = self.links.get_mut(&id) {
            link.session = None;
            link.draining.clear();
            link.next_check = None;
        }
        self.release_sockets();
    }

    /// What the link has carried stays in the node's sums.
    fn forget_in_plane(&mut self, id: LinkId) {
        let count = self.plane.link(id).unwrap_or_default();
        self.past_octets.0 += count.octets_in;
        self.past_octets.1 += count.octets_out;
        self.plane.remove_link(id);
    }

    /// The session is replaced: what was sealed under it is still taken for a while.
    fn retire_session(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(old) = link.session.take() else { return };
        // Its last one is sent on until the new session has one.
        let last = old.children.last().map(|child| child.spi_in);
        let socket = link.path.map(|path| path.socket);
        for child in old.children {
            link.draining.push(Drain { spi: child.spi_in, until: now + DRAIN, socket });
            if Some(child.spi_in) != last {
                self.plane.retire(id, child.spi_in);
            }
        }
        self.ike.close(now, old.sa);
    }

    /// Ends a link with all that is on it: the peer gets a DELETE, and routing leaves it at once.
    pub(super) fn remove_link(&mut self, now: Time, id: LinkId) {
        self.leave_babel(now, id);
        self.opening.retain(|_, link| *link != id);
        let Some(link) = self.links.remove(&id) else { return };
        let attempt = link.attempt.map(|attempt| attempt.sa);
        for sa in attempt.into_iter().chain(link.session.map(|session| session.sa)) {
            self.ike.close(now, sa);
        }
        self.forget_in_plane(id);
        self.release_sockets();
    }

    pub(super) fn join_babel(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.in_babel) else { return };
        link.in_babel = true;
        let routes = &self.peers[link.peer].routes;
        if routes.is_empty() {
            let mtu = self.plan.tun.as_ref().map_or(super::RELAY_MTU, |tun| tun.mtu);
            self.babel.link_up(now, id, link.address, mtu);
        } else {
            self.babel.set_static(now, id, routes.clone());
        }
    }

    pub(super) fn leave_babel(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if std::mem::take(&mut link.in_babel) {
            self.babel.link_down(now, id);
            self.babel.set_static(now, id, Vec::new());
        }
    }
}

/// Who knocked and was refused: the last few, with counts.
#[derive(Default)]
pub(super) struct Refusals {
    last: VecDeque<Refusal>,
    /// Lines for the log that were spent, and since when; strangers do not fill it.
    lines: u32,
    since: Time,
}

pub(super) struct Refusal {
    pub(super) from: IpAddr,
    pub(super) name: Option<String>,
    pub(super) reason: String,
    pub(super) at: Time,
    pub(super) count: u64,
}

const REFUSALS: usize = 32;
const LINES: u32 = 10;
const LINES_EVERY: std::time::Duration = std::time::Duration::from_secs(600);

impl Refusals {
    /// Newest first; one line for the same stranger with the same reason.
    fn add(&mut self, now: Time, from: IpAddr, name: Option<String>, reason: String) {
        let known =
            self.last.iter().position(|entry| entry.from == from && entry.name == name && entry.reason == reason);
        let mut entry = match known.and_then(|at| self.last.remove(at)) {
            Some(entry) => entry,
            None => {
                if self.may_log(now) {
                    log::warn!("refused {} from {from}: {reason}", name.as_deref().unwrap_or("a stranger"));
                }
                Refusal { from, name, reason, at: now, count: 0 }
            }
        };
        entry.at = now;
        entry.count += 1;
        self.last.push_front(entry);
        self.last.truncate(REFUSALS);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Refusal> {
        self.last.iter()
    }

    fn may_log(&mut self, now: Time) -> bool {
        if now.since(self.since) >= LINES_EVERY {
            (self.lines, self.since) = (0, now);
        }
        self.lines += 1;
        self.lines <= LINES
    }
}
