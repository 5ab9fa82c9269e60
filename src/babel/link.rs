//! A link: what waits to be sent over it (RFC 8966 §3.1, §3.7).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use super::acks::Acks;
use super::neighbour::NeighbourId;
use crate::config::plan::Terms;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::Tlv;

pub(super) struct Link {
    pub(super) address: Ipv6Addr,
    /// The largest UDP payload.
    pub(super) limit: usize,
    pub(super) terms: Terms,
    /// What was told before it was forbidden, and is taken back when it is asked for.
    pub(super) withdrawn: BTreeSet<Prefix>,
    pub(super) neighbours: Vec<NeighbourId>,
    pub(super) hello: Greeting,
    /// Says once that nothing we announced earlier holds any more.
    pub(super) reset: bool,
    pub(super) triggered: Triggered,
    pub(super) acks: Acks,
    pub(super) dump: Dump,
    pub(super) unicast: VecDeque<(Ipv6Addr, Tlv)>,
}

impl Link {
    /// `seqno` is that of the first Hello.
    pub(super) fn new(now: Time, address: Ipv6Addr, mtu: u16, seqno: u16) -> Link {
        Link {
            address,
            // RFC 8966 §4: 40 octets of IPv6 and 8 of UDP; a node takes 512 whatever the MTU.
            limit: usize::from(mtu.saturating_sub(48)).max(512),
            terms: Terms::default(),
            withdrawn: BTreeSet::new(),
            neighbours: Vec::new(),
            hello: Greeting { seqno, at: Some(now), last: None, regular: None, repeats: repeats(now) },
            reset: true,
            triggered: Triggered::default(),
            acks: Acks::new(seqno),
            dump: Dump::default(),
            unicast: VecDeque::new(),
        }
    }

    /// When something has to be sent, and what.
    pub(super) fn due(&self) -> Option<(Time, &'static str)> {
        [
            self.hello.next().map(|at| (at, "babel hello")),
            self.triggered.at.map(|at| (at, "babel triggered update")),
            self.dump.at.map(|at| (at, "babel full update")),
            self.may_whisper().then_some((Time::ZERO, "babel request")),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether something waits for one neighbour. It does not overtake our Hello: a neighbour that does not know us yet would
    /// drop it.
    pub(super) fn may_whisper(&self) -> bool {
        !self.unicast.is_empty() && self.hello.at.is_none()
    }

    /// Queues a TLV for one neighbour; what is too much is left out, for all of it is asked for again.
    pub(super) fn say(&mut self, to: Ipv6Addr, tlv: Tlv) -> bool {
        let room = self.unicast.len() < MAX_UNICAST;
        if room {
            self.unicast.push_back((to, tlv));
        }
        room
    }
}

/// The next Hello, with which an IHU for every neighbour goes.
pub(super) struct Greeting {
    pub(super) seqno: u16,
    pub(super) at: Option<Time>,
    pub(super) last: Option<Time>,
    /// The next one of a link with an interval of its own.
    pub(super) regular: Option<Time>,
    /// More to come: what is said first on a new tunnel is often lost, because the other end is not ready.
    repeats: [Option<Time>; 2],
}

impl Greeting {
    pub(super) fn next(&self) -> Option<Time> {
        self.repeats.into_iter().chain([self.at, self.regular]).flatten().min()
    }

    /// Now, and twice more.
    pub(super) fn begin(&mut self, now: Time) {
        self.at = Some(now);
        self.repeats = repeats(now);
    }

    /// One goes out now.
    pub(super) fn sent(&mut self, now: Time) {
        self.seqno = self.seqno.wrapping_add(1);
        self.at = None;
        self.last = Some(now);
        self.repeats = self.repeats.map(|at| at.filter(|at| *at > now));
    }

    /// One for a reason, now if the last was not a moment ago.
    pub(super) fn soon(&mut self, now: Time, gap: Duration) {
        let at = self.last.map_or(now, |last| now.max(last + gap));
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
    }
}

fn repeats(now: Time) -> [Option<Time>; 2] {
    REPEATS.map(|after| Some(now + after))
}

/// Prefixes that changed (RFC 8966 §3.7.2).
#[derive(Default)]
pub(super) struct Triggered {
    pub(super) at: Option<Time>,
    /// Still to be sent in this round, and how often in all.
    pub(super) now: BTreeMap<Prefix, u8>,
    /// To be sent again in the next round, unless all have acknowledged the packet of this number.
    again: BTreeMap<Prefix, (u8, Option<u16>)>,
    in_round: bool,
}

impl Triggered {
    /// Returns whether there was room.
    pub(super) fn add(&mut self, at: Time, prefix: Prefix, copies: u8) -> bool {
        if self.now.len() + self.again.len() >= MAX_TRIGGERED {
            return self.now.contains_key(&prefix) || self.again.contains_key(&prefix);
        }
        let copies = self.again.remove(&prefix).map_or(0, |(copies, _)| copies).max(copies);
        let entry = self.now.entry(prefix).or_insert(copies);
        *entry = copies.max(*entry);
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
        true
    }

    /// What is due again joins what is new; a round of several packets begins with the first.
    pub(super) fn begin_round(&mut self) {
        if std::mem::replace(&mut self.in_round, true) {
            return;
        }
        for (prefix, (copies, _)) in std::mem::take(&mut self.again) {
            let entry = self.now.entry(prefix).or_insert(copies);
            *entry = copies.max(*entry);
        }
    }

    /// Whether something of this round is sent more than once, so that an acknowledgement would spare the others.
    pub(super) fn repeats(&self) -> bool {
        self.now.values().any(|copies| *copies > 1)
    }

    /// The prefix was sent, in a packet whose acknowledgements were asked for under this number.
    pub(super) fn sent(&mut self, prefix: Prefix, opaque: Option<u16>) {
        if let Some(copies @ 2..) = self.now.remove(&prefix) {
            self.again.insert(prefix, (copies - 1, opaque));
        }
    }

    /// Everybody has what was sent under this number; what changed since then was sent under another one.
    pub(super) fn acknowledged(&mut self, opaque: u16) {
        self.again.retain(|_, (_, sent)| *sent != Some(opaque));
        if self.now.is_empty() && self.again.is_empty() {
            self.at = None;
        }
    }

    /// Everything of this round was sent.
    pub(super) fn end_round(&mut self, now: Time) {
        self.in_round = false;
        self.at = (!self.again.is_empty()).then(|| now + REPEAT);
    }

    pub(super) fn clear(&mut self) {
        *self = Triggered::default();
    }
}

/// The whole table, paced (RFC 8966 §3.7.1).
#[derive(Default)]
pub(super) struct Dump {
    pub(super) at: Option<Time>,
    /// The last prefix that was sent; `None` between dumps.
    pub(super) cursor: Option<Prefix>,
    again: bool,
    started: Option<Time>,
    packets: u32,
}

impl Dump {
    /// Sends everything, but not twice within `gap`; while a dump runs, another one follows it.
    pub(super) fn want(&mut self, now: Time, gap: Duration) {
        if self.cursor.is_some() {
            self.again = true;
        } else if self.at.is_none() {
            self.at = Some(self.started.map_or(now, |started| now.max(started + gap)));
        }
    }

    pub(super) fn begin(&mut self, now: Time) {
        self.started = Some(now);
        self.packets = 0;
    }

    /// A packet is full; the next prefix comes after this one.
    pub(super) fn pause(&mut self, now: Time, cursor: Option<Prefix>) {
        self.cursor = cursor.or(self.cursor);
        self.packets += 1;
        if self.packets.is_multiple_of(BURST) {
            self.at = Some(now + PAUSE);
        }
    }

    pub(super) fn end(&mut self, now: Time, gap: Duration) {
        self.cursor = None;
        self.at = None;
        if std::mem::take(&mut self.again) {
            self.want(now, gap);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Dump { started: self.started, ..Dump::default() };
    }
}

/// Of the Hellos that follow the first.
const REPEATS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];
/// Time between the copies of an urgent update.
pub(super) const REPEAT: Duration = Duration::from_millis(400);
/// More changes at once than this are told by a dump.
pub(super) const MAX_TRIGGERED: usize = 512;
const MAX_UNICAST: usize = 256;
/// A dump sends so many packets, then pauses: about a megabit a second.
const BURST: u32 = 8;
const PAUSE: Duration = Duration::from_millis(100);
