//! The periodic work: everything that time alone changes.

use super::neighbour::NeighbourId;
use super::route::half_life;
use super::speaker::{Speaker, UPDATE_TICKS};
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::{INFINITY, Tlv};

impl Speaker {
    pub(super) fn work(&mut self, now: Time) {
        self.miss_hellos(now);
        self.retry_requests(now);
        if self.tick <= now {
            self.next_tick(now);
            self.ticks = self.ticks.wrapping_add(1);
            self.forget_the_gone(now);
            self.review_routes(now);
            self.sources.collect_garbage(now);
            self.ask_the_silent();
            self.greet_everyone(now);
        }
    }

    fn miss_hellos(&mut self, now: Time) {
        let late = self.neighbours.iter().filter(|(_, peer)| peer.due().is_some_and(|due| due <= now));
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(peer) = self.neighbours.get_mut(&id) {
                peer.expire(now);
            }
            self.review(now, id);
        }
    }

    fn forget_the_gone(&mut self, now: Time) {
        let gone: Vec<NeighbourId> =
            self.neighbours.iter().filter(|(_, peer)| peer.is_gone()).map(|(id, _)| *id).collect();
        self.forget(now, &gone);
    }

    /// Small changes of cost, averages that have moved, routes that expired or are about to.
    fn review_routes(&mut self, now: Time) {
        for peer in self.neighbours.values_mut() {
            peer.cost = peer.cost_now(now);
        }
        let mut cursor = None;
        while let Some(prefix) = self.prefix_after(cursor) {
            cursor = Some(prefix);
            self.review_route(now, prefix);
        }
    }

    fn review_route(&mut self, now: Time, prefix: Prefix) {
        let half_life = half_life(self.intervals.hello);
        let Some(destination) = self.table.get_mut(&prefix) else { return };
        if destination.hold.is_some_and(|hold| hold.until <= now) {
            destination.hold = None;
            self.changed = true;
        }
        let mut refresh = None;
        let chosen = destination.chosen;
        destination.candidates.retain_mut(|candidate| {
            let Some(peer) = self.neighbours.get_mut(&candidate.neighbour) else { return false };
            if candidate.expires <= now {
                peer.routes = peer.routes.saturating_sub(1);
                self.routes = self.routes.saturating_sub(1);
                return false;
            }
            candidate.set_cost(now, peer.cost, half_life);
            // RFC 8966 §3.8.2.3: a selected route is asked for before it expires.
            let selected = chosen.is_some_and(|choice| choice.via == super::route::Via::Neighbour(candidate.neighbour));
            if selected && candidate.refresh.is_some_and(|at| at <= now) {
                candidate.refresh = None;
                refresh = Some(candidate.neighbour);
            }
            true
        });
        if let Some(neighbour) = refresh {
            self.tell(neighbour, Tlv::RouteRequest { prefix: Some(prefix) });
        }
        self.reselect(now, prefix);
        self.ask_for_better(now, prefix);
    }

    fn ask_for_better(&mut self, now: Time, prefix: Prefix) {
        let Some(destination) = self.table.get(&prefix) else { return };
        if destination.candidates.len() < 2 {
            return;
        }
        let better = destination.forbidden_gain(now, self.intervals.hello, |c| self.is_feasible(prefix, c));
        if let Some(better) = better.copied()
            && let Some(seqno) = self.sources.seqno_for(prefix, better.router_id, better.received.metric)
        {
            self.ask_for(now, prefix, better.router_id, seqno, Some(better.neighbour));
        }
    }

    /// A neighbour has no routes, or what we asked at its first Hello was lost.
    fn ask_the_silent(&mut self) {
        let mut silent = Vec::new();
        for (id, peer) in &mut self.neighbours {
            if peer.cost < INFINITY && peer.routes == 0 && peer.unanswered < MAX_UNANSWERED {
                peer.unanswered += 1;
                silent.push(*id);
            }
        }
        for id in silent {
            self.tell(id, Tlv::RouteRequest { prefix: None });
        }
    }

    fn greet_everyone(&mut self, now: Time) {
        let gap = self.intervals.dump_gap();
        for (index, link) in (0..UPDATE_TICKS).cycle().zip(self.links.values_mut()) {
            if link.terms.tuning.hello.is_none() {
                link.hello.at = Some(now);
            }
            // The links take turns with their full updates.
            if (self.ticks + index).is_multiple_of(UPDATE_TICKS) {
                link.dump.want(now, gap);
            }
        }
    }
}

const MAX_UNANSWERED: u32 = 3;
