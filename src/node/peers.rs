//! The peers of the plan, by numbers that stay when the plan changes.

use std::collections::BTreeMap;
use std::ops::Index;

use crate::config::plan::Peer;
use crate::path::PeerId;

pub(super) struct Peers {
    known: BTreeMap<PeerId, Peer>,
    /// As the configuration lists them.
    order: Vec<PeerId>,
    /// Numbers are never used again: an event about a peer that has gone must not hit another one.
    next: u32,
}

impl Peers {
    pub(super) fn new(peers: &[Peer]) -> Peers {
        let mut all = Peers { known: BTreeMap::new(), order: Vec::new(), next: 0 };
        for peer in peers {
            all.add(peer.clone());
        }
        all
    }

    pub(super) fn add(&mut self, peer: Peer) -> PeerId {
        let id = PeerId(self.next);
        self.next = self.next.wrapping_add(1);
        self.known.insert(id, peer);
        self.order.push(id);
        id
    }

    pub(super) fn remove(&mut self, id: PeerId) {
        self.known.remove(&id);
        self.order.retain(|other| *other != id);
    }

    /// What the plan says of a peer by now; its name stays.
    pub(super) fn replace(&mut self, id: PeerId, peer: Peer) {
        self.known.insert(id, peer);
    }

    /// Puts them into the order of a new plan.
    pub(super) fn sort_as(&mut self, peers: &[Peer]) {
        let places: BTreeMap<&str, usize> = peers.iter().map(|peer| peer.name.as_str()).zip(0..).collect();
        let known = &self.known;
        self.order.sort_by_key(|id| known.get(id).and_then(|peer| places.get(peer.name.as_str())));
    }

    pub(super) fn contains(&self, id: PeerId) -> bool {
        self.known.contains_key(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.order.iter().filter_map(|id| Some((*id, self.known.get(id)?)))
    }

    pub(super) fn named(&self, name: &str) -> Option<PeerId> {
        self.iter().find(|(_, peer)| peer.name == name).map(|(id, _)| id)
    }

    /// By what somebody says of itself in IKE.
    pub(super) fn called(&self, name: &str) -> Option<PeerId> {
        self.iter().find(|(_, peer)| peer.remote_id.to_string() == name).map(|(id, _)| id)
    }
}

/// Of a peer that is known: links go before their peer does.
impl Index<PeerId> for Peers {
    type Output = Peer;

    fn index(&self, id: PeerId) -> &Peer {
        &self.known[&id]
    }
}
