//! The terms of a link: how it counts, and which prefixes are taken from the neighbours there and told to them.

use super::link::MAX_TRIGGERED;
use super::neighbour::NeighbourId;
use super::select::Urgency;
use super::speaker::Speaker;
use crate::config::plan::Terms;
use crate::path::LinkId;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::Tlv;

impl Speaker {
    /// What holds on a link from now on; [`Terms::default`] if nothing is said. What is no longer permitted is taken back at
    /// once in both directions, and what has become permitted is told and asked for.
    pub fn set_terms(&mut self, now: Time, id: LinkId, terms: &Terms) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.terms != *terms) else { return };
        let before = std::mem::replace(&mut link.terms, terms.clone());
        if before.tuning.hello != terms.tuning.hello {
            link.hello.regular = terms.tuning.hello.map(|_| now);
        }
        let neighbours = link.neighbours.clone();
        for neighbour in &neighbours {
            if let Some(peer) = self.neighbours.get_mut(neighbour) {
                peer.tuning = terms.tuning;
            }
            self.review(now, *neighbour);
        }
        if before.accept != terms.accept {
            self.accept_anew(now, &neighbours, terms);
        }
        if before.announce != terms.announce {
            self.announce_anew(now, id, &before, terms);
        }
        self.rearm();
    }

    pub(super) fn accepts(&self, id: NeighbourId, prefix: &Prefix) -> bool {
        let link = self.neighbours.get(&id).and_then(|peer| self.links.get(&peer.link));
        link.is_some_and(|link| link.terms.accept.permits(prefix))
    }

    fn accept_anew(&mut self, now: Time, neighbours: &[NeighbourId], terms: &Terms) {
        let refused: Vec<Prefix> = self.table.keys().filter(|prefix| !terms.accept.permits(prefix)).copied().collect();
        for prefix in refused {
            self.retract(now, prefix, |neighbour| neighbours.contains(&neighbour));
        }
        for neighbour in neighbours {
            self.tell(*neighbour, Tlv::RouteRequest { prefix: None });
        }
    }

    fn announce_anew(&mut self, now: Time, id: LinkId, before: &Terms, terms: &Terms) {
        let hidden = |prefix: &&Prefix| before.announce.permits(prefix) && !terms.announce.permits(prefix);
        let hidden: Vec<Prefix> = self.table.keys().filter(hidden).copied().collect();
        let gap = self.intervals.dump_gap();
        if let Some(link) = self.links.get_mut(&id) {
            link.withdrawn.retain(|prefix| !terms.announce.permits(prefix));
            link.withdrawn.extend(hidden.iter().copied());
            link.dump.want(now, gap);
            if hidden.len() >= MAX_TRIGGERED {
                // More than can be taken back one by one: everything is, and the dump tells what stays.
                link.reset = true;
                return;
            }
        }
        for prefix in hidden {
            self.trigger(now, prefix, Urgency::Urgent, Some(id));
        }
    }
}
