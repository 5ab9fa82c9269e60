//! What a neighbour's packet does (RFC 8966 §3.3 to §3.8).

use std::net::{IpAddr, Ipv6Addr};

use log::{info, warn};

use super::link::Link;
use super::neighbour::{Neighbour, NeighbourId, centiseconds};
use super::route::{Candidate, half_life};
use super::select::Urgency;
use super::source::Distance;
use super::speaker::Speaker;
use crate::path::LinkId;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::{GROUP, Hello, INFINITY, Ihu, Origin, Stamps, Tlv, Update, parse};

impl Speaker {
    pub(super) fn receive_packet(&mut self, now: Time, link: LinkId, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) {
        let Some(own) = self.links.get(&link).map(|link| link.address) else {
            return self.count("babel on a link that is down");
        };
        if !from.is_unicast_link_local() || from == own {
            return self.count("babel source address");
        }
        if to != GROUP && to != own {
            return self.count("babel destination address");
        }
        let tlvs = match parse(payload, from) {
            Ok(tlvs) => tlvs,
            Err(malformed) => return self.count(malformed.reason()),
        };
        let mut packet = Packet { link, from, own, id: self.find(link, from), hello: None, ihu: None, news: false };
        for tlv in tlvs {
            match tlv {
                Ok(tlv) => self.handle(now, &mut packet, tlv),
                Err(malformed) => self.count(malformed.reason()),
            }
        }
        self.end_packet(now, &packet);
    }

    fn handle(&mut self, now: Time, packet: &mut Packet, tlv: Tlv) {
        if let Tlv::Hello(hello) = &tlv {
            return self.hello(now, packet, hello);
        }
        // Whoever has not sent a Hello is no neighbour, and nothing can be sent back over a link of unknown quality.
        let Some(id) = packet.id else { return self.count("babel before a hello") };
        match tlv {
            Tlv::Hello(_) => {}
            Tlv::AckRequest { opaque, .. } => self.tell(id, Tlv::Ack { opaque }),
            Tlv::Ack { opaque } => {
                if let Some(link) = self.links.get_mut(&packet.link)
                    && link.acks.received(id, opaque)
                {
                    link.triggered.acknowledged(opaque);
                }
            }
            Tlv::Ihu(ihu) => self.ihu(now, packet, id, &ihu),
            Tlv::Update(update) => self.update(now, id, &update),
            Tlv::RouteRequest { prefix: Some(prefix) } => {
                if self.links.get(&packet.link).is_some_and(|link| link.terms.announce.permits(&prefix)) {
                    self.trigger(now, prefix, Urgency::Answer, Some(packet.link));
                } else {
                    // RFC 8966 §3.8.1.1: no route is an answer too, and the neighbour has named the prefix itself.
                    self.tell(id, Tlv::Update(self.retraction(Some(prefix))));
                }
            }
            Tlv::RouteRequest { prefix: None } => {
                let gap = self.intervals.dump_gap();
                if let Some(link) = self.links.get_mut(&packet.link) {
                    link.dump.want(now, gap);
                }
            }
            Tlv::SeqnoRequest(request) => self.seqno_requested(now, id, &request),
        }
    }

    fn hello(&mut self, now: Time, packet: &mut Packet, hello: &Hello) {
        let known = packet.id;
        let Some(id) = known.or_else(|| self.meet(now, packet.link, packet.from)) else {
            return self.count("babel too many neighbours");
        };
        packet.id = Some(id);
        packet.news = true;
        packet.hello = hello.stamp.or(packet.hello);
        let usual = self.intervals.hello;
        let restarted = self.neighbours.get_mut(&id).is_some_and(|peer| peer.hello(now, hello, usual));
        if known.is_none() || restarted {
            // RFC 8966 §3.4.1, §3.8.2.3: let it know us at once, and ask for all it knows.
            self.greet(now, packet.link);
            self.tell(id, Tlv::RouteRequest { prefix: None });
        }
    }

    fn ihu(&mut self, now: Time, packet: &mut Packet, id: NeighbourId, ihu: &Ihu) {
        if ihu.address.is_some_and(|address| address != IpAddr::V6(packet.own)) {
            return;
        }
        packet.news = true;
        packet.ihu = ihu.stamps.or(packet.ihu);
        let Some(peer) = self.neighbours.get_mut(&id) else { return };
        peer.ihu(now, ihu.rxcost, ihu.interval);
        if ihu.rxcost == INFINITY {
            // It needs to hear more of us.
            self.greet(now, packet.link);
        }
    }

    fn end_packet(&mut self, now: Time, packet: &Packet) {
        let Some(id) = packet.id else { return };
        let Some(peer) = self.neighbours.get_mut(&id) else { return };
        peer.rtt.receive(now, packet.hello, packet.ihu);
        if packet.news {
            self.review(now, id);
        }
    }

    /// After anything that may change a neighbour's state: tells it whether we hear it, and its routes what it costs.
    pub(super) fn review(&mut self, now: Time, id: NeighbourId) {
        let Some(peer) = self.neighbours.get_mut(&id) else { return };
        let rxcost = peer.rxcost();
        if std::mem::replace(&mut peer.told_rxcost, rxcost) != rxcost {
            let link = peer.link;
            self.greet(now, link);
        }
        self.settle(now, id);
    }

    fn update(&mut self, now: Time, id: NeighbourId, update: &Update) {
        let Some(prefix) = update.prefix else {
            if self.neighbours.get(&id).is_some_and(|peer| peer.routes > 0) {
                self.retract_all(now, |neighbour| neighbour == id);
            }
            return;
        };
        match update.origin {
            // RFC 8966 §3.5.3. A route that leads back to us is none: whatever the neighbour told before is void too.
            None => self.retract(now, prefix, |neighbour| neighbour == id),
            Some(origin) if origin.router_id == self.router_id => {
                self.retract(now, prefix, |neighbour| neighbour == id);
            }
            Some(_) if !self.accepts(id, &prefix) => {
                self.count("babel filtered");
                self.retract(now, prefix, |neighbour| neighbour == id);
            }
            Some(origin) => self.route(now, id, prefix, &origin, update),
        }
    }

    fn route(&mut self, now: Time, id: NeighbourId, prefix: Prefix, origin: &Origin, update: &Update) {
        let router_id = origin.router_id;
        let received = Distance { seqno: update.seqno, metric: update.metric };
        let feasible = self.sources.is_feasible(prefix, router_id, received);
        let known = self.table.get(&prefix).and_then(|destination| destination.candidate(id)).copied();
        if let Some(known) = &known
            && !feasible
            && known.router_id == router_id
            && self.table.get(&prefix).is_some_and(|destination| destination.is_selected(id))
        {
            // RFC 8966 §3.5.3: the selected route stays as it is while its source is asked for a newer seqno.
            return self.ask(now, prefix, router_id, Some(id));
        }
        if known.is_none() && !self.has_room(id, prefix) {
            return self.count("babel too many routes");
        }
        let Some(peer) = self.neighbours.get_mut(&id) else { return };
        let interval = centiseconds(update.interval);
        let mut candidate = known.unwrap_or_else(|| Candidate::new(now, id, router_id, received));
        let destination = self.table.entry(prefix).or_default();
        candidate.router_id = router_id;
        candidate.received = received;
        candidate.expires = now + interval * 7 / 2;
        candidate.refresh = Some(now + interval * 11 / 4);
        candidate.set_cost(now, peer.cost, half_life(self.intervals.hello));
        match destination.candidates.iter_mut().find(|candidate| candidate.neighbour == id) {
            Some(slot) => *slot = candidate,
            None => {
                destination.candidates.push(candidate);
                self.routes += 1;
                peer.routes += 1;
            }
        }
        let awaited = self.requests.satisfy(prefix, router_id, update.seqno);
        self.reselect(now, prefix);
        if awaited {
            self.trigger(now, prefix, Urgency::Urgent, None);
        }
    }

    fn has_room(&mut self, id: NeighbourId, prefix: Prefix) -> bool {
        let mine = self.neighbours.get(&id).map_or(usize::MAX, |peer| peer.routes);
        let new = !self.table.contains_key(&prefix);
        let room = mine < MAX_ROUTES_OF_ONE && self.routes < MAX_ROUTES && !(new && self.table.len() >= MAX_PREFIXES);
        if !room && !self.counters.contains_key("babel too many routes") {
            warn!(
                "babel: routes beyond {MAX_ROUTES_OF_ONE} of a neighbour or {MAX_ROUTES} in all are ignored from now on"
            );
        }
        room
    }

    fn find(&self, link: LinkId, address: Ipv6Addr) -> Option<NeighbourId> {
        let neighbours = &self.links.get(&link)?.neighbours;
        neighbours.iter().copied().find(|id| self.neighbours.get(id).is_some_and(|peer| peer.address == address))
    }

    /// A new neighbour. A tunnel has one, which may come back under another address; the others must be silent by then.
    fn meet(&mut self, now: Time, link: LinkId, address: Ipv6Addr) -> Option<NeighbourId> {
        let Link { neighbours, terms, .. } = self.links.get(&link)?;
        let tuning = terms.tuning;
        if neighbours.len() >= MAX_NEIGHBOURS {
            let silent = |id: &&NeighbourId| self.neighbours.get(id).is_none_or(|peer| peer.rxcost() == INFINITY);
            let stale = *neighbours.iter().find(silent)?;
            self.forget(now, &[stale]);
        }
        let id = NeighbourId(self.next_neighbour);
        self.next_neighbour = self.next_neighbour.checked_add(1)?;
        self.neighbours.insert(id, Neighbour::new(now, link, address, tuning));
        self.links.get_mut(&link)?.neighbours.push(id);
        info!("babel: new neighbour {address} on link {}", link.0);
        Some(id)
    }

    fn greet(&mut self, now: Time, link: LinkId) {
        let gap = self.intervals.hello_gap();
        if let Some(link) = self.links.get_mut(&link) {
            link.hello.soon(now, gap);
        }
    }
}

/// What a packet is about, and what it carries for the round-trip time.
struct Packet {
    link: LinkId,
    from: Ipv6Addr,
    /// Our address there.
    own: Ipv6Addr,
    id: Option<NeighbourId>,
    hello: Option<u32>,
    ihu: Option<Stamps>,
    /// A Hello or an IHU for us was in it.
    news: bool,
}

/// More than one on a tunnel is a peer that restarted with another address.
const MAX_NEIGHBOURS: usize = 4;
const MAX_ROUTES_OF_ONE: usize = 16_384;
const MAX_ROUTES: usize = 65_536;
const MAX_PREFIXES: usize = 32_768;
