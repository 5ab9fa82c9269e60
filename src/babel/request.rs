//! Seqno requests: asking a source for a newer seqno, so that a route becomes feasible again (RFC 8966 §3.8).

use std::collections::BTreeMap;

use super::neighbour::NeighbourId;
use super::route::{Candidate, Own, Via};
use super::select::Urgency;
use super::seqno::is_newer;
use super::source::GARBAGE_COLLECTION;
use super::speaker::Speaker;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::{INFINITY, RouterId, SeqnoRequest, Tlv};

/// Requests that wait for an answer, ours and forwarded ones, for each source apart.
#[derive(Default)]
pub(super) struct Requests {
    table: BTreeMap<(Prefix, RouterId), Pending>,
}

struct Pending {
    seqno: u16,
    /// How often we have sent our own; `None` if only others ask.
    tries: Option<u32>,
    /// When to send again, then when to forget.
    due: Time,
    forwarded: Option<Time>,
}

impl Requests {
    pub(super) fn due(&self) -> Option<Time> {
        self.table.values().map(|pending| pending.due).min()
    }

    /// An update with this seqno came: whether somebody waited for it.
    pub(super) fn satisfy(&mut self, prefix: Prefix, router_id: RouterId, seqno: u16) -> bool {
        let key = (prefix, router_id);
        let satisfied = self.table.get(&key).is_some_and(|pending| !is_newer(pending.seqno, seqno));
        satisfied && self.table.remove(&key).is_some()
    }

    /// The source it is about and a request that covers `seqno` already, unless there are too many.
    fn entry(&mut self, key: (Prefix, RouterId), seqno: u16, due: Time) -> Option<&mut Pending> {
        if self.table.len() >= MAX_REQUESTS && !self.table.contains_key(&key) {
            return None;
        }
        let fresh = || Pending { seqno, tries: None, due, forwarded: None };
        let pending = self.table.entry(key).or_insert_with(fresh);
        if is_newer(seqno, pending.seqno) {
            *pending = fresh();
        }
        Some(pending)
    }
}

impl Speaker {
    /// RFC 8966 §3.8.2.1: no route is left but unfeasible ones; each of their sources is asked.
    pub(super) fn ask_for_lost(&mut self, now: Time, prefix: Prefix) {
        let Some(destination) = self.table.get(&prefix) else { return };
        let mut sources: Vec<RouterId> = Vec::new();
        for candidate in destination.candidates.iter().filter(|candidate| candidate.metric() < INFINITY) {
            if !sources.contains(&candidate.router_id) {
                sources.push(candidate.router_id);
            }
        }
        for router_id in sources {
            self.ask(now, prefix, router_id, None);
        }
    }

    /// Sends a request, unless one is under way; `to` is the neighbour whose route is wanted, else all that have one.
    pub(super) fn ask(&mut self, now: Time, prefix: Prefix, router_id: RouterId, to: Option<NeighbourId>) {
        if let Some(seqno) = self.sources.seqno_to_ask(prefix, router_id) {
            self.ask_for(now, prefix, router_id, seqno, to);
        }
    }

    pub(super) fn ask_for(
        &mut self,
        now: Time,
        prefix: Prefix,
        router_id: RouterId,
        seqno: u16,
        to: Option<NeighbourId>,
    ) {
        let due = now + self.intervals.hello / 2;
        match self.requests.entry((prefix, router_id), seqno, due) {
            None => self.count("babel too many requests"),
            Some(Pending { tries: Some(_), .. }) => {}
            Some(pending) => {
                pending.tries = Some(1);
                pending.due = due;
                self.send_request(prefix, router_id, seqno, to);
            }
        }
    }

    /// Sends again what has not been answered: after 2, 4 and 8 s with Hellos of 4 s; then forgets it after 16 more.
    pub(super) fn retry_requests(&mut self, now: Time) {
        let due = self.requests.table.iter().filter(|(_, pending)| pending.due <= now);
        for (prefix, router_id) in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            let key = (prefix, router_id);
            let Some(pending) = self.requests.table.get_mut(&key) else { continue };
            match pending.tries {
                Some(tries @ 1..MAX_TRIES) => {
                    pending.tries = Some(tries + 1);
                    pending.due = now + (self.intervals.hello / 2) * (1 << tries);
                    let seqno = pending.seqno;
                    self.send_request(prefix, router_id, seqno, None);
                }
                _ => {
                    self.requests.table.remove(&key);
                }
            }
        }
    }

    /// RFC 8966 §3.8.1.2.
    pub(super) fn seqno_requested(&mut self, now: Time, from: NeighbourId, request: &SeqnoRequest) {
        let Some(link) = self.neighbours.get(&from).map(|peer| peer.link) else { return };
        let prefix = request.prefix;
        let choice = self.table.get(&prefix).and_then(|destination| destination.chosen);
        match choice.map(|choice| choice.via) {
            Some(Via::Own(own)) if request.router_id == self.router_id => self.seqno_of_ours(now, own, request),
            Some(Via::Own(_)) => self.trigger(now, prefix, Urgency::Answer, Some(link)),
            Some(Via::Neighbour(_)) if self.answers(request) => {
                self.trigger(now, prefix, Urgency::Answer, Some(link));
            }
            _ if request.router_id != self.router_id && request.hop_count >= 2 => self.forward(now, from, request),
            _ => {}
        }
    }

    fn answers(&self, request: &SeqnoRequest) -> bool {
        self.table.get(&request.prefix).and_then(|destination| destination.selected()).is_some_and(|selected| {
            selected.router_id != request.router_id || !is_newer(request.seqno, selected.received.seqno)
        })
    }

    fn seqno_of_ours(&mut self, now: Time, own: Own, request: &SeqnoRequest) {
        if is_newer(request.seqno, self.seqno) {
            // One request raises the seqno by one at most. But a request that is further ahead, soon after the start, tells
            // which seqno we had before it and could not remember: without it nobody would take our routes until the
            // others' source tables forget, three minutes later.
            let ahead = request.seqno.wrapping_sub(self.seqno);
            let lost = ahead > 1 && now.since(self.started) < GARBAGE_COLLECTION;
            self.seqno = if lost { request.seqno } else { self.seqno.wrapping_add(1) };
            log::debug!("babel: seqno raised to {} for {} ({own:?})", self.seqno, request.prefix);
        }
        self.trigger(now, request.prefix, Urgency::Urgent, None);
    }

    fn forward(&mut self, now: Time, from: NeighbourId, request: &SeqnoRequest) {
        let prefix = request.prefix;
        let Some(destination) = self.table.get(&prefix) else { return };
        let usable = |candidate: &&Candidate| candidate.neighbour != from && candidate.metric() < INFINITY;
        let rank = |candidate: &&Candidate| {
            let selected = destination.is_selected(candidate.neighbour);
            (!selected, !self.is_feasible(prefix, candidate), candidate.metric(), candidate.neighbour)
        };
        let Some(to) = destination.candidates.iter().filter(usable).min_by_key(rank).map(|c| c.neighbour) else {
            return;
        };
        let key = (prefix, request.router_id);
        let Some(pending) = self.requests.entry(key, request.seqno, now + self.intervals.hello * 4) else {
            self.count("babel too many requests");
            return;
        };
        // A repeated request is let through only if enough time has passed for an answer.
        if pending.forwarded.is_some_and(|at| now.since(at) < self.intervals.hello / 4) {
            return;
        }
        pending.forwarded = Some(now);
        let hop_count = request.hop_count - 1;
        self.tell(to, Tlv::SeqnoRequest(SeqnoRequest { hop_count, ..*request }));
    }

    fn send_request(&mut self, prefix: Prefix, router_id: RouterId, seqno: u16, to: Option<NeighbourId>) {
        let request = Tlv::SeqnoRequest(SeqnoRequest { prefix, seqno, hop_count: HOP_COUNT, router_id });
        let targets = match to {
            Some(to) => vec![to],
            None => {
                let candidates = self.table.get(&prefix).map(|destination| destination.candidates.as_slice());
                let mut best: Vec<&Candidate> = candidates
                    .unwrap_or_default()
                    .iter()
                    .filter(|candidate| candidate.router_id == router_id && candidate.metric() < INFINITY)
                    .collect();
                best.sort_by_key(|candidate| (candidate.metric(), candidate.neighbour));
                best.iter().take(MAX_TARGETS).map(|candidate| candidate.neighbour).collect()
            }
        };
        for to in targets {
            self.tell(to, request.clone());
        }
    }

    /// Queues a TLV for a neighbour.
    pub(super) fn tell(&mut self, to: NeighbourId, tlv: Tlv) {
        let Some(peer) = self.neighbours.get(&to) else { return };
        let said = self.links.get_mut(&peer.link).is_none_or(|link| link.say(peer.address, tlv));
        if !said {
            self.count("babel too much to say");
        }
    }
}

/// As far as BIRD's. With the 64 of RFC 8966 appendix B a ring of 200 starves for three minutes when a wire is lost: the sources are
/// farther away than that.
const HOP_COUNT: u8 = 255;
const MAX_TRIES: u32 = 4;
const MAX_REQUESTS: usize = 1024;
/// Neighbours asked at the same time; in a full mesh all of them know the same source.
const MAX_TARGETS: usize = 4;
