//! When, where and from which port a dialled link is tried: one endpoint's schedule.
//!
//! Tries never end. The wait doubles from 1 s and stays below 60 s; names are asked for again before every try after a
//! failure; each address of a name gets its turn; after three failed tries an unpinned dialler takes another source port,
//! and the listening port again three tries later, so that a stuck NAT or firewall entry on either is left behind.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::config::plan::{Endpoint, Host};
use crate::crypto::rng::Rng;
use crate::path::SocketId;
use crate::time::Time;

/// What the schedule asks for when its time has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask for the name's addresses and call [`Dial::resolved`].
    Resolve(String),
    /// Get a socket of another port and call [`Dial::use_socket`].
    NewSocket,
    /// Start a session with this address; tell [`Dial::failed`] or [`Dial::succeeded`].
    Connect(SocketAddr),
}

#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) endpoint: Endpoint,
    pub(crate) pinned: bool,
    pub(crate) socket: SocketId,
    addresses: Vec<IpAddr>,
    /// Which of the addresses is next.
    turn: usize,
    /// Failed tries since the last success.
    failures: u32,
    next: Option<Time>,
    /// The name was asked for since the last failure.
    fresh: bool,
    /// The source port was changed since the last failure.
    moved: bool,
    /// Sessions in a row that were lost as soon as they stood.
    flaps: u32,
}

/// A session that lasted so long was no mistake.
const STEADY: Duration = Duration::from_secs(30);
const LONGEST_WAIT: u32 = 45;
const LONGEST_UNSENT_WAIT: u32 = 7;
/// A resolver that comes back is noticed soon: asking costs little.
const LONGEST_NAME_WAIT: u32 = 12;
/// The daemon always answers before; this only keeps a lost answer from being the end.
const RESOLVER_PATIENCE: Duration = Duration::from_secs(30);
const PORT_CHANGE_EVERY: u32 = 3;

impl Dial {
    pub(crate) fn new(endpoint: Endpoint, pinned: bool, socket: SocketId, first: Time) -> Dial {
        let addresses = match endpoint.host {
            Host::Address(address) => vec![address],
            Host::Name(_) => Vec::new(),
        };
        Dial {
            endpoint,
            pinned,
            socket,
            addresses,
            turn: 0,
            failures: 0,
            next: Some(first),
            fresh: false,
            moved: false,
            flaps: 0,
        }
    }

    /// When [`Dial::step`] has something to do; `None` while a try is under way or the link is up.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether this address is one of the endpoint's, as far as known.
    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// The address that is tried next, or was last.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        let address = self.addresses.get(self.turn % self.addresses.len().max(1))?;
        Some(SocketAddr::new(*address, self.endpoint.port))
    }

    /// The next step, if it is due.
    pub(crate) fn step(&mut self, now: Time) -> Option<Step> {
        if self.next? > now {
            return None;
        }
        if let Host::Name(name) = &self.endpoint.host
            && !self.fresh
        {
            self.next = Some(now + RESOLVER_PATIENCE);
            self.fresh = true;
            return Some(Step::Resolve(name.clone()));
        }
        let Some(remote) = self.remote() else {
            // The answer to the question above never came.
            self.fresh = false;
            return self.step(now);
        };
        if !self.pinned && !self.moved && self.failures > 0 && self.failures.is_multiple_of(PORT_CHANGE_EVERY) {
            self.moved = true;
            return Some(Step::NewSocket);
        }
        self.next = None;
        Some(Step::Connect(remote))
    }

    /// The name's addresses; a failure keeps the old ones, if there are any, and counts as a failed try otherwise.
    pub(crate) fn resolved(&mut self, now: Time, result: &Result<Vec<IpAddr>, String>, rng: &mut Rng) {
        let waiting = self.fresh && self.next.is_some();
        if let Ok(addresses) = result
            && !addresses.is_empty()
        {
            self.addresses = addresses.clone();
        }
        if !waiting {
            return;
        }
        if self.addresses.is_empty() {
            self.fail(now, LONGEST_NAME_WAIT, rng);
        } else {
            self.next = Some(now);
        }
    }

    /// Another port is used from the next try on, which is now if one was waiting for it.
    pub(crate) fn use_socket(&mut self, now: Time, socket: SocketId) {
        self.socket = socket;
        self.next = self.next.map(|_| now);
    }

    /// A new port is being opened: not before `until`.
    pub(crate) fn wait_for_socket(&mut self, until: Time) {
        self.next = Some(until);
    }

    /// The try failed: the next address, after a wait.
    pub(crate) fn failed(&mut self, now: Time, rng: &mut Rng) {
        self.turn = self.turn.wrapping_add(1);
        self.fail(now, LONGEST_WAIT, rng);
    }

    /// Nothing has left this system. Trying costs next to nothing, and the way out may be back at any moment.
    pub(crate) fn unsent(&mut self, now: Time, rng: &mut Rng) {
        self.turn = self.turn.wrapping_add(1);
        let failures = self.failures;
        self.fail(now, LONGEST_UNSENT_WAIT, rng);
        self.failures = self.failures.min(failures.max(PORT_CHANGE_EVERY));
        // Another port helps against what forgets us on the way, and nothing has gone that way.
        self.moved = true;
    }

    /// A session stands, whoever began it: no more tries until [`Dial::restart`].
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.next = None;
        self.fresh = true;
        self.moved = false;
    }

    /// Not before `until`, whatever was planned: the peer refused us and will go on doing so for a while.
    pub(crate) fn hold(&mut self, until: Time) {
        self.next = self.next.map(|next| next.max(until));
    }

    /// A session stands but carries nothing: try again at once, from another port if that is allowed.
    pub(crate) fn restart_elsewhere(&mut self, now: Time) {
        self.failures = PORT_CHANGE_EVERY;
        self.moved = false;
        self.restart(now);
    }

    /// The session is lost after this time: try again at once. If it keeps being lost as soon as it stands, later and later:
    /// two ends that undo each other's sessions must not do so as fast as the network goes.
    pub(crate) fn lost(&mut self, now: Time, lasted: Duration, rng: &mut Rng) {
        self.restart(now);
        self.flaps = if lasted < STEADY { self.flaps.saturating_add(1) } else { 0 };
        if self.flaps > 1 {
            self.next = Some(now + wait(self.flaps - 2, LONGEST_WAIT, rng));
        }
    }

    /// Try again at once.
    pub(crate) fn restart(&mut self, now: Time) {
        self.fresh = false;
        self.next = Some(now);
    }

    /// How long a try may go without any answer. Early tries are patient; a peer that stays dead gets short ones (so that
    /// hundreds of them stay below ten datagrams a second) and now and then a long one, for very slow paths.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(match self.failures {
            0..=2 => 12,
            n if n % 8 == 0 => 30,
            _ => 3,
        })
    }

    fn fail(&mut self, now: Time, longest: u32, rng: &mut Rng) {
        let pause = wait(self.failures, longest, rng);
        self.failures = self.failures.saturating_add(1);
        self.fresh = false;
        self.moved = false;
        self.next = Some(now + pause);
    }
}

/// Doubles with every failure; ± 20 %, so that peers that lost the same router do not come back in step.
fn wait(failures: u32, longest: u32, rng: &mut Rng) -> Duration {
    let seconds = if failures < 6 { (1u32 << failures).min(longest) } else { longest };
    Duration::from_millis(u64::from(seconds * 800 + rng.below(seconds * 400 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Dial {
        let endpoint = Endpoint { host: Host::Name("vpn.example".into()), port: 4500 };
        Dial::new(endpoint, false, SocketId(0), Time::ZERO)
    }

    fn addresses() -> Result<Vec<IpAddr>, String> {
        Ok(vec!["2001:db8::7".parse().unwrap(), "203.0.113.7".parse().unwrap()])
    }

    #[test]
    fn every_try_after_a_failure_asks_again_and_takes_the_next_address() {
        let (mut dial, mut rng, mut now) = (named(), Rng::from_number(1), Time::ZERO);
        let mut tried = Vec::new();
        for _ in 0..4 {
            assert_eq!(dial.step(now), Some(Step::Resolve("vpn.example".into())));
            dial.resolved(now, &addresses(), &mut rng);
            loop {
                match dial.step(now) {
                    Some(Step::NewSocket) => dial.use_socket(now, SocketId(7)),
                    Some(Step::Connect(remote)) => break tried.push(remote.ip().to_string()),
                    other => panic!("{other:?}"),
                }
            }
            dial.failed(now, &mut rng);
            now = dial.next().unwrap();
        }
        assert_eq!(tried, ["2001:db8::7", "203.0.113.7", "2001:db8::7", "203.0.113.7"]);
        assert_eq!(dial.socket, SocketId(7), "the fourth try comes from another port");
    }

    #[test]
    fn waits_grow_but_never_reach_a_minute_and_never_end() {
        let (mut dial, mut rng, mut now) = (named(), Rng::from_number(2), Time::ZERO);
        for _ in 0..200 {
            dial.step(now);
            dial.resolved(now, &addresses(), &mut rng);
            dial.failed(now, &mut rng);
            let next = dial.next().expect("a dead link always has a timer");
            assert!(next.since(now) < Duration::from_secs(60), "{:?}", next.since(now));
            now = next;
        }
        assert!(dial.failures() == 200);
    }

    #[test]
    fn a_resolver_that_fails_keeps_old_addresses_and_one_that_never_answers_is_asked_again() {
        let (mut dial, mut rng) = (named(), Rng::from_number(3));
        dial.step(Time::ZERO);
        dial.resolved(Time::ZERO, &addresses(), &mut rng);
        dial.failed(Time::ZERO, &mut rng);
        let now = dial.next().unwrap();
        dial.step(now);
        dial.resolved(now, &Err("no answer".into()), &mut rng);
        assert!(matches!(dial.step(now), Some(Step::Connect(_))));

        let mut silent = named();
        silent.step(Time::ZERO);
        let later = silent.next().unwrap();
        assert!(matches!(silent.step(later), Some(Step::Resolve(_))));
    }

    #[test]
    fn a_name_that_does_not_resolve_is_tried_at_least_every_15_seconds() {
        let (mut dial, mut rng, mut now) = (named(), Rng::from_number(4), Time::ZERO);
        for _ in 0..50 {
            assert!(matches!(dial.step(now), Some(Step::Resolve(_))));
            dial.resolved(now, &Err("no answer from 192.0.2.53".into()), &mut rng);
            assert!(dial.next().unwrap().since(now) <= Duration::from_secs(15));
            now = dial.next().unwrap();
        }
    }
}
