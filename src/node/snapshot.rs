//! What a person sees: the node's state in the structs of `status::model`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::link::{LINE, Link, SENTENCE, clipped};
use super::{Node, ident};
use crate::babel::speaker::{self, NextHop};
use crate::path::{LinkId, PeerId};
use crate::prefix::Prefix;
use crate::status::model::{self, State};
use crate::time::Time;

/// Octets a second over the last 5 to 10 seconds, from samples taken when the node wakes anyway.
#[derive(Default)]
pub(super) struct Rate {
    samples: [(Time, (u64, u64)); 2],
}

const SAMPLE_EVERY: Duration = Duration::from_secs(5);

impl Rate {
    pub(super) fn is_due(&self, now: Time) -> bool {
        now.since(self.samples[1].0) >= SAMPLE_EVERY
    }

    pub(super) fn sample(&mut self, now: Time, octets: (u64, u64)) {
        self.samples = [self.samples[1], (now, octets)];
    }

    /// Bits a second, in and out.
    fn bits(&self, now: Time, octets: (u64, u64)) -> (u64, u64) {
        let (then, old) = self.samples[0];
        let micros = u64::try_from(now.since(then).as_micros()).unwrap_or(u64::MAX).max(1);
        let bits = |new: u64, old: u64| new.saturating_sub(old).saturating_mul(8_000_000) / micros;
        (bits(octets.0, old.0), bits(octets.1, old.1))
    }
}

impl Node {
    /// Everything a person can ask for.
    pub fn snapshot(&self, now: Time) -> model::Snapshot {
        let (octets_in, octets_out) = self.octets();
        let (bits_in_per_s, bits_out_per_s) = self.rate.bits(now, (octets_in, octets_out));
        let neighbours = self.babel.neighbours(now);
        let names = self.names();
        let mut drops: Vec<model::Drop> = self
            .plane
            .drops()
            .chain(self.ike.counters())
            .chain(self.babel.counters())
            .map(|(reason, count)| model::Drop { reason: reason.to_owned(), count })
            .chain(
                self.send_errors
                    .iter()
                    .map(|(error, count)| model::Drop { reason: format!("send error: {error}"), count: *count }),
            )
            .filter(|drop| drop.count > 0)
            .collect();
        drops.sort_by(|a, b| a.reason.cmp(&b.reason));
        model::Snapshot {
            schema: model::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.plan.name.clone(),
            fingerprint: self.plan.private_key.public().fingerprint(),
            uptime_us: micros(now.since(self.started)),
            tun: self.plan.tun.as_ref().map(|tun| model::Tun {
                name: tun.name.clone(),
                mtu: tun.mtu,
                addresses: tun.addresses.iter().map(ToString::to_string).collect(),
            }),
            listen: self.plan.listen.clone(),
            ike_suite: self.plan.suites.ike.first().map(ToString::to_string).unwrap_or_default(),
            esp_suite: self.plan.suites.esp.first().map(|cipher| cipher.name().to_owned()).unwrap_or_default(),
            octets_in,
            octets_out,
            bits_in_per_s,
            bits_out_per_s,
            peers: self.peer_models(now),
            neighbours: neighbours.iter().map(|neighbour| self.neighbour_model(now, neighbour)).collect(),
            routes: self.babel.routes().map(|route| self.route_model(&route, &names)).collect(),
            policies: self.policy_models(now),
            drops,
            half_open: self.ike.half_open(None),
            sas: self.sa_models(now),
            config: model::Config {
                age_us: micros(now.since(self.applied.at)),
                problem: self.applied.problem.clone(),
                needs_restart: self.applied.needs_restart.iter().map(|field| (*field).to_owned()).collect(),
            },
            refused: self
                .refusals
                .iter()
                .map(|refusal| model::Refused {
                    from: refusal.from.to_string(),
                    name: refusal.name.clone(),
                    reason: refusal.reason.clone(),
                    ago_us: micros(now.since(refusal.at)),
                    count: refusal.count,
                })
                .collect(),
        }
    }

    /// What would happen to a packet. Without a source, the one the kernel would choose: our first address of the family.
    pub fn explain(&self, now: Time, destination: IpAddr, source: Option<IpAddr>) -> model::PathReport {
        let sender = self.source_for(destination, source);
        let source = Some(sender).filter(|sender| !sender.is_unspecified());
        let (policy, dropped) = match self.policy_of(destination, sender) {
            Some((policy, reachable)) => (Some(policy), !reachable),
            None => (None, false),
        };
        // A steered packet goes where its first segment is.
        let (towards, sender) = match policy.and_then(|policy| policy.path.first()).zip(self.plane.domain().source()) {
            Some((first, source)) => (first.sid.into(), source.into()),
            None => (destination, sender),
        };
        let matched = self.plane.fib().lookup(towards, sender).map(|(prefix, _)| prefix);
        let route = matched.and_then(|prefix| self.babel.selected().find(|route| route.prefix == prefix));
        let names = self.names();
        let link = route.as_ref().and_then(|route| link_of(route.next_hop)).and_then(|id| self.links.get(&id));
        model::PathReport {
            schema: model::SCHEMA,
            to: destination.to_string(),
            from: source.map(|source| source.to_string()),
            route: matched.as_ref().map(Prefix::to_string),
            metric: route.as_ref().map(|route| route.metric),
            next_hop: match &route {
                _ if dropped => "unreachable".to_owned(),
                None => "no route".to_owned(),
                Some(route) => self.via(route.next_hop),
            },
            link: link.map(|link| self.link_model(now, link)),
            origin: route.as_ref().map(|route| origin(&names, route.router_id)),
            policy: policy.map(|policy| policy.name.clone()),
            segments: policy.map_or(Vec::new(), |policy| self.segment_models(policy)),
            overhead: policy.map(|policy| self.overhead(policy)),
        }
    }

    /// The source that the kernel would choose, unless one is given; the unspecified address if we have none.
    pub(super) fn source_for(&self, destination: IpAddr, source: Option<IpAddr>) -> IpAddr {
        let mut addresses = self.plan.tun.iter().flat_map(|tun| &tun.addresses).map(ipnet::IpNet::addr);
        let unspecified = if destination.is_ipv4() { IpAddr::from([0u8; 4]) } else { IpAddr::from([0u8; 16]) };
        let own = addresses.find(|own| own.is_ipv4() == destination.is_ipv4());
        source.or(own).unwrap_or(unspecified)
    }

    /// Which route a packet takes, for the simulation's invariants.
    #[cfg(test)]
    pub(crate) fn forward(&self, destination: IpAddr, source: IpAddr) -> Option<(crate::fib::Target, Option<&str>)> {
        let (_, target) = self.plane.fib().lookup(destination, source)?;
        let peer = match target {
            crate::fib::Target::Link(link) => self.links.get(&link).map(|link| self.peer(link.peer).name.as_str()),
            crate::fib::Target::Local | crate::fib::Target::Unreachable => None,
        };
        Some((target, peer))
    }

    /// The best state of a peer's links, without the cost of a snapshot.
    #[cfg(test)]
    pub(crate) fn peer_state(&self, now: Time, name: &str) -> State {
        let states = self.links.values().filter(|link| self.peer(link.peer).name == name);
        states.map(|link| self.judge(now, link.id).0).min_by_key(|state| rank(*state)).unwrap_or(State::Waiting)
    }

    /// As if half of every tunnel's sequence numbers were used.
    #[cfg(test)]
    pub(crate) fn wear(&mut self, now: Time) {
        self.egress.control.extend(self.links.keys().map(|link| crate::plane::Control::Worn { link: *link }));
        self.settle(now);
    }

    /// What grows and must not: links, sockets beyond the listening ones, refusals, kinds of send errors, IKE SAs.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 5] {
        let sockets = self.ports.len() + self.opening.len() - self.plan.listen.len();
        [self.links.keys().len(), sockets, self.refusals.iter().count(), self.send_errors.len(), self.ike.sas().count()]
    }

    /// The routes Babel has selected, for the simulation's invariants.
    #[cfg(test)]
    pub(crate) fn selected(&self) -> Vec<speaker::Route> {
        self.babel.selected().collect()
    }

    /// The peers in the order of the configuration.
    fn peer_models(&self, now: Time) -> Vec<model::Peer> {
        let mut links: BTreeMap<PeerId, Vec<model::Link>> = BTreeMap::new();
        for link in self.links.values() {
            links.entry(link.peer).or_default().push(self.link_model(now, link));
        }
        // Where traffic to a router goes: by the first of its prefixes.
        let mut relays: BTreeMap<[u8; 8], PeerId> = BTreeMap::new();
        for route in self.babel.selected() {
            if let Some(link) = link_of(route.next_hop).and_then(|link| self.links.get(&link)) {
                relays.entry(route.router_id).or_insert(link.peer);
            }
        }
        let model = |(id, _)| self.peer_model(now, id, links.remove(&id).unwrap_or_default(), &relays);
        self.peers.iter().map(model).collect()
    }

    fn peer_model(
        &self,
        now: Time,
        id: PeerId,
        links: Vec<model::Link>,
        relays: &BTreeMap<[u8; 8], PeerId>,
    ) -> model::Peer {
        let peer = self.peer(id);
        let best = links.iter().min_by_key(|link| rank(link.state));
        let (state, reason, since_us) = match (best, self.absent.get(&id)) {
            (Some(best), _) => (best.state, best.reason.clone(), best.since_us),
            (None, Some((reason, since))) => {
                let told =
                    reason.clone().or_else(|| Some("has not dialled us, and we know no endpoint of it".to_owned()));
                (State::Waiting, told, micros(now.since(*since)))
            }
            (None, None) => (State::Waiting, Some("no session".to_owned()), micros(now.since(self.started))),
        };
        model::Peer {
            name: peer.name.clone(),
            fingerprint: peer.public_key.fingerprint(),
            state,
            via: relays
                .get(&ident::router_id(&peer.public_key))
                .filter(|relay| **relay != id)
                .map(|relay| self.peer(*relay).name.clone()),
            reason: reason.filter(|_| state != State::Up),
            since_us,
            links,
        }
    }

    fn link_model(&self, now: Time, link: &Link) -> model::Link {
        let (state, reason) = self.judge(now, link.id);
        let reason = reason.map(|reason| match link.dial.as_ref().and_then(super::Dial::next) {
            Some(next) if state == State::Down && next > now => {
                format!("{}, next in {} s", clipped(reason, SENTENCE), next.since(now).as_secs() + 1)
            }
            Some(_) | None => clipped(reason, LINE),
        });
        let count = self.plane.link(link.id).unwrap_or_default();
        let neighbour = self.babel.neighbours_on(now, link.id).next();
        let neighbour = neighbour.as_ref();
        let session = link.session.as_ref();
        let child = session.and_then(|session| session.child());
        let endpoint = match (&link.dial, &link.path) {
            (Some(dial), _) => dial.endpoint.to_string(),
            (None, Some(path)) => path.remote.to_string(),
            (None, None) => "-".to_owned(),
        };
        model::Link {
            id: link.id.0,
            endpoint,
            remote: link.path.filter(|_| session.is_some()).map(|path| path.remote.to_string()),
            local_port: link.path.and_then(|path| self.ports.get(&path.socket).copied()),
            state,
            reason,
            since_us: micros(now.since(link.since)),
            role: session.map(|session| format!("{:?}", session.role).to_lowercase()),
            ike_suite: session.map(|session| session.suite.clone()),
            esp_suite: child.map(|child| child.suite.clone()),
            spi_in: child.map(|child| child.spi_in),
            spi_out: child.map(|child| child.spi_out),
            rtt_us: neighbour.and_then(|neighbour| neighbour.rtt).map(micros),
            loss: neighbour.map(|neighbour| 1.0 - neighbour.delivery),
            cost: neighbour.map(|neighbour| neighbour.cost),
            packets_in: count.packets_in,
            octets_in: count.octets_in,
            packets_out: count.packets_out,
            octets_out: count.octets_out,
            heard_us: count.heard.map(|heard| micros(now.since(heard))),
        }
    }

    fn neighbour_model(&self, now: Time, neighbour: &speaker::Neighbour) -> model::Neighbour {
        let ago = |at: Option<Time>| at.map(|at| micros(now.since(at)));
        model::Neighbour {
            peer: self.link_peer(neighbour.link),
            link: neighbour.link.0,
            address: neighbour.address.to_string(),
            rtt_us: neighbour.rtt.map(micros),
            loss: 1.0 - neighbour.delivery,
            rxcost: neighbour.rxcost,
            txcost: neighbour.txcost,
            cost: neighbour.cost,
            last_hello_us: ago(neighbour.last_hello),
            last_ihu_us: ago(neighbour.last_ihu),
        }
    }

    fn route_model(&self, route: &speaker::Route, names: &BTreeMap<[u8; 8], String>) -> model::Route {
        let from = route.prefix.is_source_specific().then(|| route.prefix.source().to_string());
        model::Route {
            to: route.prefix.destination().to_string(),
            from,
            via: self.via(route.next_hop),
            link: link_of(route.next_hop).map(|link| link.0),
            metric: route.metric,
            received_metric: route.received,
            selected: route.selected,
            feasible: route.feasible,
            unused: route.unused.map(|why| match why {
                speaker::Unused::LinkLost => model::Unused::LinkLost,
                speaker::Unused::Unfeasible => model::Unused::Unfeasible,
                speaker::Unused::Longer => model::Unused::Longer,
                speaker::Unused::NotYet => model::Unused::NotYet,
            }),
            origin: origin(names, route.router_id),
            router_id: hex(route.router_id),
            seqno: route.seqno,
        }
    }

    fn via(&self, next_hop: NextHop) -> String {
        match next_hop {
            NextHop::Local => "local".to_owned(),
            NextHop::Unreachable => "unreachable".to_owned(),
            NextHop::Link(link) | NextHop::Static(link) => self.link_peer(link),
        }
    }

    pub(super) fn link_peer(&self, link: LinkId) -> String {
        self.links.get(&link).map_or_else(|| "-".to_owned(), |link| self.peer(link.peer).name.clone())
    }

    /// Router-ids by name.
    fn names(&self) -> BTreeMap<[u8; 8], String> {
        let own = (ident::router_id(&self.plan.private_key.public()), self.plan.name.clone());
        let others = self.peers.iter().map(|(_, peer)| (ident::router_id(&peer.public_key), peer.name.clone()));
        others.chain([own]).collect()
    }
}

fn link_of(next_hop: NextHop) -> Option<LinkId> {
    match next_hop {
        NextHop::Link(link) | NextHop::Static(link) => Some(link),
        NextHop::Local | NextHop::Unreachable => None,
    }
}

fn origin(names: &BTreeMap<[u8; 8], String>, router_id: [u8; 8]) -> String {
    names.get(&router_id).cloned().unwrap_or_else(|| hex(router_id))
}

fn hex(router_id: [u8; 8]) -> String {
    router_id.map(|octet| format!("{octet:02x}")).join(":")
}

fn rank(state: State) -> u8 {
    match state {
        State::Up => 0,
        State::NoData => 1,
        State::Connecting => 2,
        State::Down => 3,
        State::Waiting => 4,
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
