//! A tunnel to a peer: one Babel link, carried by one session at a time.
//!
//! A link that we dial exists as long as the configuration says so; one that a peer dialled exists while its session does.
//! The link outlives its sessions, so that a new one (after a restart, or from the other side at the same moment) changes
//! nothing for routing.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::dial::Dial;
use crate::ike::endpoint::{Reason, Role, SaId};
use crate::path::{LinkId, Path, PeerId, SocketId};
use crate::plane::LinkCount;
use crate::status::model::State;
use crate::time::Time;

/// Nothing authenticated for this long: no longer up, and the peer is asked for a sign of life.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// A peer that speaks no Babel may be silent for long; once a minute it is asked all the same.
pub(crate) const IDLE_PROBE: Duration = Duration::from_secs(60);
/// IKE answers, but no data arrives: after this long a new session is tried, from another port if it may be.
pub(crate) const NO_DATA_REDIAL: Duration = Duration::from_secs(60);
/// RFC 3948 §4.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long packets sealed under a replaced SA are still taken: longer than strongSwan's 5 s.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// A session has this long from its first message to its first Child SA.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(30);

/// An established IKE SA in use by a link.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) sa: SaId,
    pub(crate) role: Role,
    pub(crate) suite: String,
    pub(crate) established: Time,
    pub(crate) behind_nat: bool,
    /// The one that is sent on comes last.
    pub(crate) children: Vec<ChildInfo>,
    /// Why there is no child.
    pub(crate) child_reason: Option<String>,
    /// When an IKE message last verified.
    pub(crate) ike_heard: Time,
    pub(crate) probed: Option<Time>,
    /// It wears out, and its Child SAs are being rekeyed: when to try for a new session, unless that is done by then.
    pub(crate) worn: Option<Time>,
    /// When the last NAT keepalive left.
    pub(crate) kept: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct ChildInfo {
    pub(crate) spi_in: u32,
    pub(crate) spi_out: u32,
    pub(crate) suite: String,
    pub(crate) since: Time,
}

impl Session {
    /// The Child SA that is sent on.
    pub(crate) fn child(&self) -> Option<&ChildInfo> {
        self.children.last()
    }
}

/// A session being set up by us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) sa: SaId,
    pub(crate) path: Path,
    pub(crate) started: Time,
    /// Given up then.
    pub(crate) until: Time,
    /// The system refused to send, and the link's reason says why.
    pub(crate) unsent: bool,
}

/// An inbound SA that was replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    pub(crate) spi: u32,
    pub(crate) until: Time,
    /// Where its packets still arrive.
    pub(crate) socket: Option<SocketId>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) peer: PeerId,
    pub(crate) address: Ipv6Addr,
    /// `None`: the peer dialled us.
    pub(crate) dial: Option<Dial>,
    pub(crate) attempt: Option<Attempt>,
    pub(crate) session: Option<Session>,
    /// Where ESP goes.
    pub(crate) path: Option<Path>,
    /// Inbound SAs that were replaced, and when they go.
    pub(crate) draining: Vec<Drain>,
    pub(crate) in_babel: bool,
    /// Why the last try or session ended.
    pub(crate) reason: Option<String>,
    pub(crate) state: State,
    pub(crate) since: Time,
    /// When a new session was last tried because this one carries nothing.
    pub(crate) redialled: Option<Time>,
    pub(crate) next_check: Option<Time>,
}

impl Link {
    pub(crate) fn new(id: LinkId, peer: PeerId, address: Ipv6Addr, dial: Option<Dial>, now: Time) -> Link {
        Link {
            id,
            peer,
            address,
            dial,
            attempt: None,
            session: None,
            path: None,
            draining: Vec::new(),
            in_babel: false,
            reason: None,
            state: State::Down,
            since: now,
            redialled: None,
            next_check: None,
        }
    }

    /// Whether a session over `path` is this link's: the same two hosts and the same local port. The remote port is left
    /// out, because a NAT may change it from one session to the next.
    pub(crate) fn is_between(&self, path: &Path) -> bool {
        self.path.is_some_and(|own| {
            own.socket == path.socket
                && own.remote.ip() == path.remote.ip()
                && (own.local.is_none() || path.local.is_none() || own.local == path.local)
        })
    }

    /// Whether the peer may be calling from the endpoint that this link dials.
    pub(crate) fn dials(&self, address: IpAddr) -> bool {
        self.dial.as_ref().is_some_and(|dial| dial.has_address(address))
    }

    /// What the state is by now, and why, if it is not up.
    ///
    /// `deaf`: the peer does not hear us; so long ago came its last IHU.
    pub(crate) fn judge(
        &self,
        now: Time,
        count: LinkCount,
        speaks_babel: bool,
        deaf: Option<Duration>,
    ) -> (State, Option<String>) {
        let Some(session) = &self.session else {
            return match (&self.attempt, &self.dial) {
                (Some(_), Some(dial)) if dial.failures() == 0 && self.reason.is_none() => {
                    (State::Connecting, Some("connecting".into()))
                }
                (_, Some(_)) => (State::Down, Some(self.reason.clone().unwrap_or_else(|| "not tried yet".into()))),
                (_, None) => (State::Down, Some(self.reason.clone().unwrap_or_else(|| "the session has ended".into()))),
            };
        };
        let Some(child) = session.child() else {
            let why = session.child_reason.as_deref().unwrap_or("peer sent no data tunnel");
            return (State::NoData, Some(format!("IKE is up, data is not: {why}")));
        };
        if !speaks_babel {
            return (State::Up, None);
        }
        // A new session after one without data is no news until data comes.
        let known_silent = self.state == State::NoData;
        let quiet_since = match count.heard {
            Some(heard) if known_silent => heard,
            None if known_silent => self.since,
            heard => heard.map_or(child.since, |heard| heard.max(child.since)),
        };
        let silence = now.since(quiet_since);
        let hears = count.heard.is_some_and(|heard| now.since(heard) <= SILENCE);
        match (hears, deaf) {
            (true, None) => (State::Up, None),
            (true, Some(quiet)) => {
                let how = match quiet.as_secs() {
                    0..10 => "it says so itself".to_owned(),
                    seconds => format!("no IHU since {seconds} s"),
                };
                (State::NoData, Some(format!("data arrives, but the peer hears us not ({how})")))
            }
            (false, _) if silence <= SILENCE && !known_silent => {
                (State::Connecting, Some("tunnel stands, no data has arrived yet".into()))
            }
            (false, _) => {
                let seconds = silence.as_secs();
                let ike = now.since(session.ike_heard) < silence;
                let who = if ike { "IKE answers, no data arrives" } else { "nothing arrives" };
                (State::NoData, Some(format!("{who} (for {seconds} s): is UDP filtered on the way?")))
            }
        }
    }

    /// The session has to be replaced unless it is renewed by then.
    pub(crate) fn wears_out(&mut self, at: Time) {
        if let Some(session) = &mut self.session {
            session.worn = Some(at);
            self.next_check = Some(self.next_check.map_or(at, |next| next.min(at)));
        }
    }

    /// The sockets that this link sends from or still receives on.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketId> + '_ {
        let dial = self.dial.as_ref().map(|dial| dial.socket);
        let attempt = self.attempt.map(|attempt| attempt.path.socket);
        let path = self.path.filter(|_| self.session.is_some()).map(|path| path.socket);
        [dial, attempt, path].into_iter().flatten().chain(self.draining.iter().filter_map(|drain| drain.socket))
    }

    /// When something about this link is next due, other than its dialling.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let attempt = self.attempt.map(|attempt| attempt.until);
        let drain = self.draining.iter().map(|drain| drain.until).min();
        let dial = self.dial.as_ref().and_then(Dial::next);
        [attempt, drain, dial, self.next_check].into_iter().flatten().min()
    }
}

/// A failed try in one sentence, with room for what happens next.
pub(crate) fn failure(reason: &Reason) -> String {
    clipped(reason.to_string(), SENTENCE)
}

/// At most `limit` octets of a text, the end replaced by dots.
pub(crate) fn clipped(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

/// What a person reads is one line of a terminal or of a log.
pub(crate) const LINE: usize = 160;
/// A reason, before ", next in 45 s" or "last session: " is added.
pub(crate) const SENTENCE: usize = 140;
