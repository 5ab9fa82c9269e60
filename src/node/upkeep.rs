//! The timers of links: dialling, giving up, signs of life, keepalives, and the state that a person sees.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::dial::Step;
use super::link::{
    Attempt, HANDSHAKE, IDLE_PROBE, KEEPALIVE, Link, NO_DATA_REDIAL, SENTENCE, SILENCE, clipped, failure,
};
use super::{Node, Output, SOCKET_PATIENCE};
use crate::path::{LinkId, Path, SocketId};
use crate::status::model::State;
use crate::time::Time;
use crate::wire::udpencap;

/// Between two looks at a session.
const SHORTEST_CHECK: Duration = Duration::from_millis(250);
/// Babel needs a moment to find out whether a new neighbour hears us.
const HEARING_TEST: Duration = Duration::from_secs(5);

impl Node {
    /// Does what is due on every link.
    pub(super) fn run_links(&mut self, now: Time) {
        for id in self.links.due(now) {
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
            if attempt.unsent {
                dial.unsent(now, &mut self.rng);
            } else {
                dial.failed(now, &mut self.rng);
            }
        }
        self.update_state(now, id);
    }

    fn end_draining(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (over, kept) =
            std::mem::take(&mut link.draining).into_iter().partition::<Vec<_>, _>(|drain| drain.until <= now);
        link.draining = kept;
        if over.is_empty() {
            return;
        }
        for drain in over {
            self.plane.remove(id, drain.spi);
        }
        self.release_sockets();
    }

    fn dial(&mut self, now: Time, id: LinkId) {
        let first = self.first_socket();
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
                        // One that the daemon never reported is asked for no more.
                        self.opening.retain(|_, other| *other != id);
                        let socket = self.new_socket();
                        self.opening.insert(socket, id);
                        self.outputs.push_back(Output::OpenSocket { socket });
                    } else {
                        dial.use_socket(now, first);
                        self.release_sockets();
                    }
                }
                Some(Step::Connect(remote)) => {
                    let socket = dial.socket;
                    if let Some(other) = self.twin(id, remote) {
                        self.skip(now, id, &format!("{} is reached by the tunnel to {other}", remote.ip()));
                        continue;
                    }
                    let path = Path { socket, local: None, remote };
                    self.connect(now, id, path);
                }
            }
        }
    }

    /// The endpoint of the same peer whose tunnel already leads to this address: a second session between the same two hosts
    /// would end the first one.
    fn twin(&self, id: LinkId, remote: SocketAddr) -> Option<String> {
        let peer = self.links.get(&id)?.peer;
        let others =
            self.links.values().filter(|other| other.id != id && other.peer == peer && other.session.is_some());
        let mut twins = others.filter(|other| other.path.is_some_and(|path| path.remote == udpencap::floated(remote)));
        twins.find_map(|other| Some(other.dial.as_ref()?.endpoint.to_string()))
    }

    /// This try is pointless now; the next address, or the same one later, may not be.
    fn skip(&mut self, now: Time, id: LinkId, reason: &str) {
        if let Some(Link { dial: Some(dial), reason: told, .. }) = self.links.get_mut(&id) {
            *told = Some(clipped(reason.to_owned(), SENTENCE));
            dial.failed(now, &mut self.rng);
        }
        self.update_state(now, id);
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

    /// Closes the source ports that no link uses any more.
    pub(super) fn release_sockets(&mut self) {
        let first = self.plan.listen.len();
        if self.ports.len() <= first {
            return;
        }
        let used: BTreeSet<SocketId> = self.links.values().flat_map(Link::sockets).collect();
        let idle = |socket: &SocketId| usize::from(socket.0) >= first && !used.contains(socket);
        for socket in self.ports.keys().copied().filter(idle).collect::<Vec<_>>() {
            self.ports.remove(&socket);
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
        let speaks_babel = self.peers[link.peer].routes.is_empty();

        // A peer is asked for a sign of life when it has been silent for long enough, and again while it stays so.
        let heard = count.heard.map_or(session.ike_heard, |heard| heard.max(session.ike_heard));
        let talking = speaks_babel || count.sent.is_some_and(|sent| sent > heard);
        // Behind a NAT, what keeps its mapping alive should find out as well whether it is still the same.
        let patience = match (talking, session.behind_nat) {
            (true, _) => SILENCE,
            (false, true) => KEEPALIVE,
            (false, false) => IDLE_PROBE,
        };
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
            let sent = count.sent.max(session.kept).unwrap_or(session.established);
            let due = sent + KEEPALIVE;
            if due <= now {
                self.egress.push_datagram(path, udpencap::KEEPALIVE.to_vec());
                session.kept = Some(now);
                next = next.min(now + KEEPALIVE);
            } else {
                next = next.min(due);
            }
        }

        let tried = link.redialled.map_or(link.since, |at| at.max(link.since));
        let useless = link.state == State::NoData && now.since(tried) >= NO_DATA_REDIAL;
        let childless = session.children.is_empty();
        let worn = session.worn;
        if let Some(at) = worn {
            next = next.min(at);
        }
        link.next_check = Some(next.max(now + SHORTEST_CHECK));
        if worn.is_some_and(|at| at <= now) {
            self.refresh(now, id);
        } else if useless {
            self.try_anew(now, id, childless);
        }
    }

    /// A session that carries nothing is not worth keeping for ever, though IKE is well.
    fn try_anew(&mut self, now: Time, id: LinkId, childless: bool) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.redialled = Some(now);
        match &mut link.dial {
            Some(dial) if link.attempt.is_none() && dial.next().is_none() => dial.restart_elsewhere(now),
            Some(_) => {}
            // Whoever dialled us has to do it again: only then will there be a Child SA.
            None if childless => {
                if let Some(session) = &link.session {
                    self.ike.close(now, session.sa);
                }
                self.session_lost(now, id, "peer set up no data tunnel within a minute".to_owned());
            }
            None => {}
        }
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
        link.redialled = None;
        let name = &self.peers[link.peer].name;
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
            .neighbours_on(now, id)
            .find(|neighbour| neighbour.txcost == u16::MAX)
            .filter(|neighbour| now.since(neighbour.since) >= HEARING_TEST)
            .map(|neighbour| now.since(neighbour.last_ihu.unwrap_or(neighbour.since)));
        link.judge(now, self.plane.link(id).unwrap_or_default(), speaks_babel, deaf)
    }
}
