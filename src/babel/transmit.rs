//! Packets out: what is due, gathered up to the MTU (RFC 8966 §3.1, §3.7).

use std::net::IpAddr;
use std::time::Duration;

use super::link::{Link, REPEAT};
use super::neighbour::NeighbourId;
use super::route::Via;
use super::source::Distance;
use super::speaker::{Speaker, Transmit};
use crate::path::LinkId;
use crate::prefix::Prefix;
use crate::time::Time;
use crate::wire::babel::{GROUP, Hello, INFINITY, Ihu, Origin, Packet, Tlv, Update};

impl Speaker {
    /// Builds one packet of one link. `None` only after making something less due than before.
    pub(super) fn send(&mut self, now: Time) -> Option<Transmit> {
        if self.farewell.is_some() {
            return self.send_farewell();
        }
        let due = |(_, link): &(&LinkId, &Link)| link.due().is_some_and(|(at, _)| at <= now);
        let id = *self.links.iter().find(due)?.0;
        // The link leaves the map while the rest of the speaker is asked what to say on it.
        let mut link = self.links.remove(&id)?;
        let packet = self.send_multicast(now, id, &mut link).or_else(|| send_unicast(id, &mut link));
        self.links.insert(id, link);
        packet
    }

    fn send_farewell(&mut self) -> Option<Transmit> {
        let id = self.farewell.as_mut()?.pop()?;
        let link = self.links.get(&id)?;
        let mut packet = Packet::new(link.limit, link.address);
        let _ = packet.push(&Tlv::Update(self.retraction(None)));
        Some(Transmit { link: id, to: GROUP, payload: packet.finish() })
    }

    fn send_multicast(&mut self, now: Time, id: LinkId, link: &mut Link) -> Option<Transmit> {
        let mut packet = Packet::new(link.limit, link.address);
        if link.hello.next().is_some_and(|at| at <= now) {
            self.hello_and_ihus(now, link, &mut packet);
        }
        if std::mem::take(&mut link.reset) {
            // Whoever knew us before a restart drops what we said then.
            let _ = packet.push(&Tlv::Update(self.retraction(None)));
        }
        if link.neighbours.is_empty() {
            link.triggered.clear();
            link.dump.clear();
        }
        if link.triggered.at.is_some_and(|at| at <= now) {
            self.triggered_updates(now, id, link, &mut packet);
        }
        if link.dump.at.is_some_and(|at| at <= now) {
            self.dump(now, id, link, &mut packet);
        }
        (!packet.is_empty()).then(|| Transmit { link: id, to: GROUP, payload: packet.finish() })
    }

    /// RFC 9616 §3: the IHU's timestamps need a stamped Hello in the same packet; BIRD wants it to come first.
    fn hello_and_ihus(&mut self, now: Time, link: &mut Link, packet: &mut Packet) {
        // Also an early one promises the next: one marked as unscheduled (interval 0) counts as missed in BIRD a moment later,
        // so that answering its "I do not hear you" with such Hellos kept it deaf for ever.
        let every = link.terms.tuning.hello.unwrap_or(self.intervals.hello);
        let interval = centiseconds(every);
        let hello = Hello { unicast: false, seqno: link.hello.seqno, interval, stamp: Some(now.stamp()) };
        link.hello.sent(now);
        link.hello.regular = link.terms.tuning.hello.map(|_| now + self.jittered(every));
        let _ = packet.push(&Tlv::Hello(hello));
        for peer in link.neighbours.iter().filter_map(|id| self.neighbours.get(id)) {
            let _ = packet.push(&Tlv::Ihu(Ihu {
                address: Some(IpAddr::V6(peer.address)),
                rxcost: peer.rxcost(),
                interval: centiseconds(every * 3),
                stamps: peer.rtt.echo(now),
            }));
        }
    }

    fn triggered_updates(&mut self, now: Time, id: LinkId, link: &mut Link, packet: &mut Packet) {
        link.triggered.begin_round();
        let opaque = self.ask_for_acks(link, packet);
        while let Some((&prefix, _)) = link.triggered.now.first_key_value() {
            let hidden = !link.terms.announce.permits(&prefix) && !link.withdrawn.contains(&prefix);
            let update = self.announcement(id, link, prefix).unwrap_or_else(|| self.retraction(Some(prefix)));
            if hidden {
                // Nobody there ever heard of it.
                link.triggered.now.remove(&prefix);
                continue;
            }
            if !packet.push(&Tlv::Update(update.clone())) {
                return;
            }
            self.announced(now, &update);
            link.triggered.sent(prefix, opaque);
        }
        link.triggered.end_round(now);
    }

    /// RFC 8966 §3.7.2: what must not be lost is acknowledged, or else sent again. Only those are asked who can answer.
    fn ask_for_acks(&self, link: &mut Link, packet: &mut Packet) -> Option<u16> {
        if !link.triggered.repeats() {
            return None;
        }
        let hears = |id: &&NeighbourId| self.neighbours.get(id).is_some_and(|peer| peer.cost < INFINITY);
        let opaque = link.acks.ask(link.neighbours.iter().filter(hears).copied().collect())?;
        packet.push(&Tlv::AckRequest { opaque, interval: centiseconds(REPEAT) }).then_some(opaque)
    }

    fn dump(&mut self, now: Time, id: LinkId, link: &mut Link, packet: &mut Packet) {
        if link.dump.cursor.is_none() {
            link.dump.begin(now);
        }
        let mut cursor = link.dump.cursor;
        while let Some(prefix) = self.prefix_after(cursor) {
            let update = match self.announcement(id, link, prefix) {
                None if link.terms.announce.permits(&prefix) && self.was_announced(now, prefix) => {
                    Some(self.retraction(Some(prefix)))
                }
                other => other,
            };
            if let Some(update) = update {
                if !packet.push(&Tlv::Update(update.clone())) {
                    link.dump.pause(now, cursor);
                    return;
                }
                self.announced(now, &update);
            }
            cursor = Some(prefix);
        }
        link.dump.end(now, self.intervals.dump_gap());
    }

    /// The finite update for a prefix on a link, if there is anything to announce.
    fn announcement(&self, id: LinkId, link: &Link, prefix: Prefix) -> Option<Update> {
        let destination = self.table.get(&prefix).filter(|_| link.terms.announce.permits(&prefix))?;
        let (router_id, seqno, metric) = match destination.chosen?.via {
            Via::Own(own) => (self.router_id, self.seqno, own.metric()),
            Via::Neighbour(neighbour) => {
                let selected = destination.selected()?;
                // RFC 8966 §3.7.4: over a tunnel nobody needs to hear what came over it.
                if self.neighbours.get(&neighbour)?.link == id {
                    return None;
                }
                if !self.sources.has_room_for(prefix, selected.router_id) {
                    return None;
                }
                (selected.router_id, selected.received.seqno, selected.metric())
            }
        };
        if metric == INFINITY {
            return None;
        }
        let origin = Some(Origin { router_id, next_hop: IpAddr::V6(link.address) });
        let interval = centiseconds(self.intervals.update());
        Some(Update { prefix: Some(prefix), interval, seqno, metric, origin })
    }

    /// Whether somebody may still believe an earlier announcement: the next hop changed not long ago.
    fn was_announced(&self, now: Time, prefix: Prefix) -> bool {
        self.table.get(&prefix).is_some_and(|destination| {
            let changed = destination.chosen.is_some() && now.since(destination.changed_at) < self.intervals.hold();
            destination.hold.is_some() || changed
        })
    }

    /// What an update that goes out commits us to (RFC 8966 §3.7.3).
    fn announced(&mut self, now: Time, update: &Update) {
        let (Some(prefix), Some(Origin { router_id, .. })) = (update.prefix, update.origin) else { return };
        if let Some(destination) = self.table.get_mut(&prefix) {
            destination.sent_metric = Some(update.metric);
        }
        if router_id != self.router_id {
            let sent = Distance { seqno: update.seqno, metric: update.metric };
            self.sources.announced(now, prefix, router_id, sent);
        }
    }

    pub(super) fn retraction(&self, prefix: Option<Prefix>) -> Update {
        let interval = centiseconds(self.intervals.update());
        Update { prefix, interval, seqno: self.seqno, metric: INFINITY, origin: None }
    }
}

/// What waits for the first of the neighbours on the queue.
fn send_unicast(id: LinkId, link: &mut Link) -> Option<Transmit> {
    let to = link.unicast.front().filter(|_| link.may_whisper())?.0;
    let mut packet = Packet::new(link.limit, link.address);
    while link.unicast.front().is_some_and(|(other, tlv)| *other == to && packet.push(tlv)) {
        link.unicast.pop_front();
    }
    Some(Transmit { link: id, to, payload: packet.finish() })
}

fn centiseconds(interval: Duration) -> u16 {
    u16::try_from(interval.as_millis() / 10).unwrap_or(u16::MAX - 1).max(1)
}
