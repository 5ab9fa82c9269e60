//! Addresses that change under a session, the peer's and our own, and the system's refusals to send.

use std::net::IpAddr;
use std::time::Duration;

use super::Node;
use super::link::{self, Link, clipped};
use crate::ike::endpoint::{Role, SaId};
use crate::path::{LinkId, Path};
use crate::time::Time;

/// What the socket layer may invent in error texts is bounded by this.
const SEND_ERROR_KINDS: usize = 32;

impl Node {
    /// A datagram could not be sent; the error is the system's word for it ("Network is unreachable").
    pub fn handle_send_error(&mut self, now: Time, path: Path, error: &str) {
        if self.send_errors.len() < SEND_ERROR_KINDS || self.send_errors.contains_key(error) {
            *self.send_errors.entry(error.to_owned()).or_default() += 1;
        }
        let trying = |link: &Link| link.attempt.is_some_and(|attempt| attempt.path.remote == path.remote);
        for id in self.links.ids(trying) {
            if let Some(Link { attempt: Some(attempt), reason, .. }) = self.links.get_mut(&id) {
                // Nothing has left, so nothing is worth waiting for: the next address may be reachable.
                attempt.unsent = true;
                attempt.until = attempt.until.min(now + Duration::from_secs(1));
                *reason = Some(clipped(format!("cannot send to {}: {error}", path.remote), link::SENTENCE));
            }
        }
        // Whether the peer can still be reached is asked at once, and given up as soon as by silence.
        let uses = |link: &Link| link.path.is_some_and(|own| own.remote == path.remote);
        for id in self.links.ids(uses) {
            let Some(Link { session: Some(session), .. }) = self.links.get_mut(&id) else { continue };
            if session.probed.is_none_or(|asked| now.since(asked) >= link::SILENCE) {
                session.probed = Some(now);
                self.ike.probe(now, session.sa);
            }
        }
        self.settle(now);
    }

    /// The paths of sessions: their sources are to be looked at when addresses of this system come or go, or cannot be sent from.
    pub fn paths(&self) -> Vec<Path> {
        let carried = self.links.values().filter(|link| link.session.is_some());
        carried.filter_map(|link| link.path).collect()
    }

    /// The system would send over this path from `choice`; `gone`: its local address is no longer ours.
    ///
    /// Who was dialled keeps the address by which the peer knows us for as long as it is there; who dialled goes with the system.
    pub fn handle_source(&mut self, now: Time, path: Path, choice: Option<IpAddr>, gone: bool) {
        let (Some(local), Some(choice)) = (path.local, choice) else { return };
        if local == choice || self.plane.fib().is_in_mesh(choice) {
            return;
        }
        let fits = |link: &Link| {
            let dialled = link.session.as_ref().map(|session| session.role == Role::Initiator);
            link.path == Some(path) && dialled.is_some_and(|dialled| dialled || gone)
        };
        for id in self.links.ids(fits) {
            self.relocate(now, id, Path { local: Some(choice), ..path });
        }
        self.settle(now);
    }

    /// A message of IKE has verified, and the peer is where IKE now sends.
    pub(super) fn heard(&mut self, now: Time, sa: SaId, path: Path) {
        let Some(link) = self.links.with_session(sa) else { return };
        if let Some(session) = &mut link.session {
            session.ike_heard = now;
        }
        if link.path != Some(path) {
            let id = link.id;
            self.move_link(id, path);
        }
    }

    /// IKE has agreed with the peer on another path, or the NAT detection says something else.
    pub(super) fn moved(&mut self, now: Time, sa: SaId, path: Path, behind_nat: bool) {
        let Some(link) = self.links.with_session(sa) else { return };
        let id = link.id;
        if let Some(session) = &mut link.session
            && session.behind_nat != behind_nat
        {
            session.behind_nat = behind_nat;
            let at = now + link::SILENCE;
            link.next_check = Some(link.next_check.map_or(at, |next| next.min(at)));
            let (name, what) = (&self.peers[link.peer].name, if behind_nat { "are" } else { "are no longer" });
            log::debug!("{name}: we {what} behind a NAT");
        }
        self.move_link(id, path);
    }

    /// The newest authenticated packet came over `path`: what we send goes there from now on.
    pub(super) fn move_link(&mut self, id: LinkId, path: Path) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(session) = &link.session else { return };
        if link.path.is_none_or(|own| own.remote != path.remote) {
            log::info!("{}: now at {}", self.peers[link.peer].name, path.remote);
        }
        link.path = Some(path);
        self.ike.set_path(session.sa, path);
        self.plane.set_path(id, path);
    }

    fn relocate(&mut self, now: Time, id: LinkId, path: Path) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(session) = &link.session else { return };
        log::info!("{}: our own address has changed", self.peers[link.peer].name);
        link.path = Some(path);
        self.plane.set_path(id, path);
        self.ike.relocate(now, session.sa, path);
    }
}
