//! The timers of links: dialling, giving up, signs of life, keepalives, and the state that a person sees.

use std::time::Duration;

use super::dial::Step;
use super::link::{Attempt, HANDSHAKE, IDLE_PROBE, KEEPALIVE, NO_DATA_REDIAL, SILENCE, failure};
use super::{Node, Output, SOCKET_PATIENCE};
use crate::path::{LinkId, Path, SocketId};
use crate::status::model::State;
use crate::time::Time;
use crate::wire::udpencap;

/// Babel needs a moment to find out whether a new neighbour hears us.
const HEARING_TEST: Duration = Duration::from_secs(5);

impl Node {
    /// Does what is due on every link.
    pub(super) fn run_links(&mut self, now: Time) {
        let due: Vec<LinkId> = self
            .links
            .values()
            .filter(|link| link.next_timer().is_some_and(|at| at <= now))
            .map(|link| link.id)
            .collect();
        for id in due {
            self.end_attempt(now, id);
            self.end_draining(now, id);
            if self.links.get(&id).is_some_and(|link| link.next_check.is_some_and(|at| at <= now)) {
                self.check(now, id);
            }
            self.dial(now, id);
        }
    }

    /// A try that got no answer in its time.
    fn end_attempt(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(attempt) = link.attempt.filter(|attempt| attempt.until <= now) else { return };
        // A peer that has answered gets the time that a whole handshake may take on a bad path.
        let whole = attempt.started + HANDSHAKE;
        if now < whole && self.ike.sa(attempt.sa).is_some_and(|sa| sa.spi_responder != 0) {
            link.attempt = Some(Attempt { until: whole, ..attempt });
            return;
        }
        link.attempt = None;
        let reason = self.ike.give_up(now, attempt.sa);
        if let Some(reason) = reason.filter(|_| !attempt.unsent) {
            link.reason = Some(failure(&reason));
        }
        if let Some(dial) = &mut link.dial
            && link.session.is_none()
        {
            dial.failed(now, &mut self.rng);
        }
        self.update_state(now, id);
    }

    fn end_draining(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (over, kept) =
            std::mem::take(&mut link.draining).into_iter().partition::<Vec<_>, _>(|(_, until)| *until <= now);
        link.draining = kept;
        for (spi, _) in over {
            self.plane.remove(id, spi);
        }
    }

    fn dial(&mut self, now: Time, id: LinkId) {
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            if link.attempt.is_some() {
                return;
            }
            let Some(dial) = &mut link.dial else { return };
            match dial.step(now) {
                None => return,
                Some(Step::Resolve(name)) => self.outputs.push_back(Output::Resolve { name }),
                Some(Step::NewSocket) => {
                    let old = dial.socket;
                    let listening = usize::from(old.0) < self.plan.listen.len();
                    if listening {
                        dial.wait_for_socket(now + SOCKET_PATIENCE);
                        let socket = self.new_socket();
                        self.opening.insert(socket, id);
                        self.outputs.push_back(Output::OpenSocket { socket });
                    } else {
                        dial.use_socket(now, SocketId(0));
                        self.release_socket(old);
                    }
                }
                Some(Step::Connect(remote)) => {
                    let path = Path { socket: dial.socket, local: None, remote };
                    self.connect(now, id, path);
                }
            }
        }
    }

    /// An id that no socket has. Ids are used again only after 65,000 others.
    fn new_socket(&mut self) -> SocketId {
        loop {
            let socket = SocketId(self.next_socket);
            let first = u16::try_from(self.plan.listen.len()).unwrap_or(u16::MAX);
            self.next_socket = self.next_socket.checked_add(1).unwrap_or(first);
            if !self.ports.contains_key(&socket) && !self.opening.contains_key(&socket) {
                return socket;
            }
        }
    }

    /// Closes a source port that no link uses any more.
    pub(super) fn release_socket(&mut self, socket: SocketId) {
        let used = self.links.values().any(|link| {
            link.dial.as_ref().is_some_and(|dial| dial.socket == socket)
                || link.path.is_some_and(|path| path.socket == socket && link.session.is_some())
        });
        if !used && usize::from(socket.0) >= self.plan.listen.len() && self.ports.remove(&socket).is_some() {
            self.outputs.push_back(Output::CloseSocket { socket });
        }
    }

    /// Looks after an established session: signs of life, keepalives, and a new try if it carries nothing.
    fn check(&mut self, now: Time, id: LinkId) {
        self.update_state(now, id);
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(session) = &mut link.session else {
            link.next_check = None;
            return;
        };
        let count = self.plane.link(id).unwrap_or_default();
        let speaks_babel = self.plan.peers[link.peer.0 as usize].routes.is_empty();

        // A peer is asked for a sign of life when it has been silent for long enough, and again while it stays so.
        let heard = count.heard.map_or(session.ike_heard, |heard| heard.max(session.ike_heard));
        let talking = speaks_babel || count.sent.is_some_and(|sent| sent > heard);
        let patience = if talking { SILENCE } else { IDLE_PROBE };
        let again = session.probed.map_or(heard, |asked| asked + SILENCE);
        let probe_at = (heard + patience).max(again);
        let mut next = probe_at;
        if probe_at <= now {
            self.ike.probe(now, session.sa);
            session.probed = Some(now);
            next = now + SILENCE;
        }

        if session.behind_nat
            && let Some(path) = link.path
        {
            let due = count.sent.unwrap_or(session.established) + KEEPALIVE;
            if due <= now {
                self.egress.push_datagram(path, udpencap::KEEPALIVE.to_vec());
                next = next.min(now + KEEPALIVE);
            } else {
                next = next.min(due);
            }
        }

        let useless =
            link.state == State::NoData && session.child().is_some() && now.since(link.since) >= NO_DATA_REDIAL;
        if useless
            && link.attempt.is_none()
            && let Some(dial) = &mut link.dial
            && dial.next().is_none()
        {
            dial.restart_elsewhere(now);
            link.since = now;
        }
        link.next_check = Some(next.max(now + Duration::from_secs(1)));
    }

    /// Sets the link's state, and tells the log about a change.
    pub(super) fn update_state(&mut self, now: Time, id: LinkId) {
        let (state, reason) = self.judge(now, id);
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.state == state {
            return;
        }
        let lasted = now.since(link.since).as_secs();
        link.state = state;
        link.since = now;
        let name = &self.plan.peers[link.peer.0 as usize].name;
        match (state, reason) {
            (State::Up, _) => log::info!("{name}: up"),
            (State::Connecting, _) => log::debug!("{name}: connecting"),
            (_, reason) => log::info!("{name}: down after {lasted} s: {}", reason.unwrap_or_default()),
        }
    }

    /// The state of a link by now, and why it is not up.
    pub(super) fn judge(&self, now: Time, id: LinkId) -> (State, Option<String>) {
        let Some(link) = self.links.get(&id) else { return (State::Down, None) };
        let speaks_babel = self.peer(link.peer).routes.is_empty();
        let deaf = self
            .babel
            .neighbours(now)
            .into_iter()
            .find(|neighbour| neighbour.link == id && neighbour.txcost == u16::MAX)
            .filter(|neighbour| now.since(neighbour.since) >= HEARING_TEST)
            .map(|neighbour| now.since(neighbour.last_ihu.unwrap_or(neighbour.since)));
        link.judge(now, self.plane.link(id).unwrap_or_default(), speaks_babel, deaf)
    }
}
