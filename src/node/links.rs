//! The links by number, and which of them has a timer due.
//!
//! A node may have hundreds of links, and most of them want nothing at a given moment: whoever is changed is noted, and only
//! those are looked at again when the next timer is asked for.

use std::collections::btree_map::{Keys, Values};
use std::collections::{BTreeMap, BTreeSet};

use super::link::Link;
use crate::ike::endpoint::SaId;
use crate::path::LinkId;
use crate::time::Time;

#[derive(Default)]
pub(super) struct Links {
    all: BTreeMap<LinkId, Link>,
    timers: BTreeSet<(Time, LinkId)>,
    armed: BTreeMap<LinkId, Time>,
    /// May have other timers than those noted.
    touched: BTreeSet<LinkId>,
}

impl Links {
    pub(super) fn get(&self, id: &LinkId) -> Option<&Link> {
        self.all.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &LinkId) -> Option<&mut Link> {
        let link = self.all.get_mut(id)?;
        self.touched.insert(*id);
        Some(link)
    }

    pub(super) fn insert(&mut self, link: Link) {
        self.touched.insert(link.id);
        self.all.insert(link.id, link);
    }

    pub(super) fn remove(&mut self, id: &LinkId) -> Option<Link> {
        self.touched.insert(*id);
        self.all.remove(id)
    }

    pub(super) fn keys(&self) -> Keys<'_, LinkId, Link> {
        self.all.keys()
    }

    pub(super) fn values(&self) -> Values<'_, LinkId, Link> {
        self.all.values()
    }

    /// The numbers of those that fit.
    pub(super) fn ids(&self, fits: impl Fn(&Link) -> bool) -> Vec<LinkId> {
        self.all.values().filter(|link| fits(link)).map(|link| link.id).collect()
    }

    /// The link that a session carries.
    pub(super) fn with_session(&mut self, sa: SaId) -> Option<&mut Link> {
        let fits = |link: &&Link| link.session.as_ref().is_some_and(|session| session.sa == sa);
        let id = self.all.values().find(fits)?.id;
        self.get_mut(&id)
    }

    /// The link that a session is being set up for.
    pub(super) fn with_attempt(&mut self, sa: SaId) -> Option<&mut Link> {
        let fits = |link: &&Link| link.attempt.is_some_and(|attempt| attempt.sa == sa);
        let id = self.all.values().find(fits)?.id;
        self.get_mut(&id)
    }

    /// Notes the timers of the links that were changed.
    pub(super) fn rearm(&mut self) {
        while let Some(id) = self.touched.pop_first() {
            let next = self.all.get(&id).and_then(Link::next_timer);
            let before = match next {
                Some(at) => self.armed.insert(id, at),
                None => self.armed.remove(&id),
            };
            if before != next {
                before.map(|at| self.timers.remove(&(at, id)));
                next.map(|at| self.timers.insert((at, id)));
            }
        }
    }

    /// When the next timer is due, as of the last [`Links::rearm`].
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The links with a timer that is due.
    pub(super) fn due(&mut self, now: Time) -> Vec<LinkId> {
        self.rearm();
        self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }
}
