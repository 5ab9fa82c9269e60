//! A new plan for a running node: only what differs is touched.
//!
//! Peers are the same if name and key are; such a peer keeps its sessions, its counters and the links to the endpoints that it
//! still has. A prefix that is no longer announced is retracted at once (RFC 8966 §3.7.2), not left to expire. What the node
//! is made of (its name and key, ports, device, tables) cannot change under it: that is told, and waits for a restart. Suites and
//! identities are for sessions to come.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Node;
use super::dial::Dial;
use super::link::{LINE, Link, clipped};
use crate::config::plan::{Endpoint, Peer, Plan, Steering};
use crate::identity::Identity;
use crate::path::PeerId;
use crate::time::Time;

/// What a new plan has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    pub added: usize,
    pub removed: usize,
    pub changed: usize,
    pub announce: bool,
    /// Policies, locators, or who may use them.
    pub steering: bool,
    /// Fields of the file that differ and take effect at the next start only.
    pub needs_restart: Vec<&'static str>,
}

/// The state of the configuration, for the user.
#[derive(Debug)]
pub(super) struct Applied {
    /// When the plan in force was read.
    pub(super) at: Time,
    /// Why a newer file was not taken.
    pub(super) problem: Option<String>,
    pub(super) needs_restart: Vec<&'static str>,
}

impl Reloaded {
    pub fn is_nothing(&self) -> bool {
        *self == Reloaded { needs_restart: self.needs_restart.clone(), ..Reloaded::default() }
    }
}

impl std::fmt::Display for Reloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_nothing() {
            f.write_str("nothing changed")?;
        } else {
            write!(f, "peers: {} added, {} removed, {} changed", self.added, self.removed, self.changed)?;
            if self.announce {
                f.write_str("; announcements changed")?;
            }
            if self.steering {
                f.write_str("; steering changed")?;
            }
        }
        if !self.needs_restart.is_empty() {
            write!(f, "; needs a restart: {}", self.needs_restart.join(", "))?;
        }
        Ok(())
    }
}

impl Node {
    /// Makes the node do what `plan` says, as far as it can while it runs.
    pub fn reload(&mut self, now: Time, mut plan: Plan) -> Reloaded {
        // Who we are stays until a restart, to each peer as well.
        let new_name = Identity::fqdn(&plan.name);
        for peer in plan.peers.iter_mut().filter(|peer| peer.local_id == new_name) {
            peer.local_id = Identity::fqdn(&self.plan.name);
        }
        let mut done = Reloaded { needs_restart: self.needs_restart(&plan), ..Reloaded::default() };
        self.change_peers(now, &plan.peers, &mut done);
        let locator_changed = self.plan.locator != plan.locator;
        if self.plan.announce != plan.announce || self.plan.from_kernel != plan.from_kernel || locator_changed {
            self.plan.announce = plan.announce;
            self.plan.from_kernel = plan.from_kernel;
            self.plan.locator = plan.locator;
            done.steering |= locator_changed;
            self.announce(now);
            done.announce = true;
        }
        let locators = |peers: &[Peer]| peers.iter().filter_map(|peer| peer.locator).collect::<Vec<_>>();
        // The kernel's rules for an exit are made at start only.
        let steering = Steering { exit: self.plan.steering.exit, ..plan.steering };
        done.steering |= self.plan.steering != steering || locators(&self.plan.peers) != locators(&plan.peers);
        self.plan.steering = steering;
        if self.plan.suites != plan.suites {
            self.plan.suites = plan.suites.clone();
            self.ike.set_suites(plan.suites);
        }
        self.plan.peers = plan.peers;
        if done.steering {
            self.apply_steering();
            self.rebuild_tables();
        }
        self.applied = Applied { at: now, problem: None, needs_restart: done.needs_restart.clone() };
        self.run_links(now);
        self.settle(now);
        done
    }

    /// The new configuration is of no use; the one in force stays.
    pub fn reload_failed(&mut self, problem: String) {
        self.applied.problem = Some(clipped(problem, LINE));
    }

    fn needs_restart(&self, new: &Plan) -> Vec<&'static str> {
        let old = &self.plan;
        [
            ("name", old.name != new.name),
            ("private_key", old.private_key.public() != new.private_key.public()),
            ("listen", old.listen != new.listen),
            ("tun", old.tun != new.tun),
            ("rekey", old.rekey != new.rekey),
            ("babel", old.babel != new.babel),
            ("kernel", old.kernel != new.kernel),
            ("exit", old.steering.exit != new.steering.exit),
            ("offload", old.offload != new.offload),
            ("control", old.control != new.control),
            ("log", old.log != new.log),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
    }

    fn change_peers(&mut self, now: Time, wanted: &[Peer], done: &mut Reloaded) {
        let by_name: BTreeMap<&str, &Peer> = wanted.iter().map(|peer| (peer.name.as_str(), peer)).collect();
        let before: Vec<(PeerId, Peer)> = self.peers.iter().map(|(id, peer)| (id, peer.clone())).collect();
        let mut kept: BTreeMap<&str, ()> = BTreeMap::new();
        for (id, old) in &before {
            match by_name.get(old.name.as_str()) {
                Some(new) if new.public_key == old.public_key => {
                    kept.insert(&old.name, ());
                    if *new != old {
                        self.change_peer(now, *id, old, (*new).clone());
                        done.changed += 1;
                    }
                }
                // Another key is another peer.
                Some(_) => {
                    self.remove_peer(now, *id);
                    done.changed += 1;
                }
                None => {
                    self.remove_peer(now, *id);
                    log::info!("{}: no longer in the configuration", old.name);
                    done.removed += 1;
                }
            }
        }
        let names: BTreeMap<&str, ()> = before.iter().map(|(_, peer)| (peer.name.as_str(), ())).collect();
        let mut first = now;
        for peer in wanted.iter().filter(|peer| !kept.contains_key(peer.name.as_str())) {
            let id = self.peers.add(peer.clone());
            self.ike.know(id, peer.into());
            self.absent.insert(id, (None, now));
            self.dial_endpoints(now, &mut first, id);
            done.added += usize::from(!names.contains_key(peer.name.as_str()));
        }
        self.peers.sort_as(wanted);
    }

    fn change_peer(&mut self, now: Time, id: PeerId, old: &Peer, new: Peer) {
        let first_socket = self.first_socket();
        let dialled = self.links.ids(|link| link.peer == id && link.dial.is_some());
        for link in dialled {
            let Some(Link { dial: Some(dial), .. }) = self.links.get_mut(&link) else { continue };
            if new.endpoints.contains(&dial.endpoint) {
                if new.pin_port && !dial.pinned {
                    dial.socket = first_socket;
                }
                dial.pinned = new.pin_port;
            } else {
                self.remove_link(now, link);
            }
        }
        let routes_differ = old.routes != new.routes;
        for link in self.links.ids(|link| link.peer == id && link.in_babel) {
            self.babel.set_terms(now, link, &new.babel);
        }
        self.ike.know(id, (&new).into());
        self.peers.replace(id, new);
        let mut first = now;
        self.dial_endpoints(now, &mut first, id);
        if routes_differ {
            for link in self.links.ids(|link| link.peer == id && link.in_babel) {
                self.leave_babel(now, link);
                self.join_babel(now, link);
            }
        }
        if self.links.ids(|link| link.peer == id).is_empty() {
            self.absent.entry(id).or_insert((None, now));
        }
        self.release_sockets();
    }

    /// Makes a link for each endpoint that has none.
    pub(super) fn dial_endpoints(&mut self, now: Time, first: &mut Time, id: PeerId) {
        let peer = self.peers[id].clone();
        let socket = self.first_socket();
        let has = |link: &Link, endpoint: &Endpoint| link.dial.as_ref().is_some_and(|dial| dial.endpoint == *endpoint);
        for endpoint in &peer.endpoints {
            if self.links.values().any(|link| link.peer == id && has(link, endpoint)) {
                continue;
            }
            self.add_link(now, id, Some(Dial::new(endpoint.clone(), peer.pin_port, socket, *first)));
            // A registry of hundreds does not start with hundreds of key exchanges in one tick.
            *first += BETWEEN_FIRST_TRIES;
        }
    }

    fn remove_peer(&mut self, now: Time, id: PeerId) {
        for link in self.links.ids(|link| link.peer == id) {
            self.remove_link(now, link);
        }
        self.ike.remove_peer(now, id);
        self.absent.remove(&id);
        self.peers.remove(id);
    }
}

const BETWEEN_FIRST_TRIES: Duration = Duration::from_millis(10);
