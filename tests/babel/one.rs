//! One speaker, and neighbours made by hand on its links.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use proptest::prelude::*;
use wattle::babel::Speaker;
use wattle::babel::speaker::{NextHop, Settings, Unused};
use wattle::config::plan::{Filter, Terms};
use wattle::crypto::rng::Rng;
use wattle::path::LinkId;
use wattle::prefix::Prefix;
use wattle::time::Time;
use wattle::wire::babel::{
    GROUP, Hello, INFINITY, Ihu, Origin, Packet, RouterId, SeqnoRequest, Stamps, Tlv, Update, parse,
};

use crate::net::{HELLO, prefix};

const OURS: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ID: RouterId = [1; 8];
const THEIR_ID: RouterId = [2; 8];
const P: &str = "10.1.2.0/24";

struct Bench {
    now: Time,
    speaker: Speaker,
    seqno: [u16; 4],
    /// What the speaker said, on which link and to whom.
    said: Vec<(u32, Ipv6Addr, Tlv)>,
}

impl Bench {
    /// A speaker with this many links, with a neighbour at 1 ms on each.
    fn new(links: u32) -> Bench {
        let settings = Settings { router_id: ID, hello_interval: HELLO };
        let now = Time::from_micros(1_000_000_000);
        let speaker = Speaker::new(settings, Rng::from_number(1), now);
        let mut bench = Bench { now, speaker, seqno: [100; 4], said: Vec::new() };
        for link in 0..links {
            bench.speaker.link_up(now, LinkId(link), OURS, 1400);
            bench.greet(link);
            bench.greet(link);
        }
        bench.drain();
        bench.said.clear();
        bench
    }

    fn hear(&mut self, link: u32, tlvs: &[Tlv]) {
        let from = theirs(link);
        let mut packet = Packet::new(65_535, from);
        for tlv in tlvs {
            assert!(packet.push(tlv));
        }
        self.hear_octets(link, &packet.finish());
    }

    fn hear_octets(&mut self, link: u32, payload: &[u8]) {
        self.speaker.receive(self.now, LinkId(link), theirs(link), GROUP, payload);
        self.drain();
    }

    /// The neighbour's Hello and IHU, with a round trip of 1 ms.
    fn greet(&mut self, link: u32) {
        let index = usize::try_from(link).unwrap();
        self.seqno[index] += 1;
        let stamp = self.now.stamp();
        let stamps = Some(Stamps { origin: stamp.wrapping_sub(1000), receive: stamp });
        self.hear(
            link,
            &[
                Tlv::Hello(Hello { unicast: false, seqno: self.seqno[index], interval: 400, stamp: Some(stamp) }),
                Tlv::Ihu(Ihu { address: Some(IpAddr::V6(OURS)), rxcost: 96, interval: 1200, stamps }),
            ],
        );
    }

    /// Time passes; the neighbours of the first `links` links say Hello.
    fn run(&mut self, seconds: u64, links: u32) {
        for step in 0..seconds * 10 {
            self.now += Duration::from_millis(100);
            self.speaker.handle_timeout(self.now);
            self.drain();
            if step % 40 == 0 {
                (0..links).for_each(|link| self.greet(link));
            }
        }
    }

    fn drain(&mut self) {
        while let Some(packet) = self.speaker.poll_transmit(self.now) {
            for tlv in parse(&packet.payload, OURS).unwrap() {
                self.said.push((packet.link.0, packet.to, tlv.unwrap()));
            }
        }
    }

    /// What was said since the last call, but greetings.
    fn news(&mut self) -> Vec<(u32, Ipv6Addr, Tlv)> {
        let said = std::mem::take(&mut self.said);
        said.into_iter().filter(|(_, _, tlv)| !matches!(tlv, Tlv::Hello(_) | Tlv::Ihu(_))).collect()
    }

    fn next_hop(&self, to: &str) -> Option<NextHop> {
        let prefix = prefix(to);
        self.speaker.selected().find(|route| route.prefix == prefix).map(|route| route.next_hop)
    }

    fn metric(&self, to: &str) -> Option<u16> {
        let prefix = prefix(to);
        self.speaker.selected().find(|route| route.prefix == prefix).map(|route| route.metric)
    }

    fn count(&self, reason: &str) -> u64 {
        self.speaker.counters().find(|(name, _)| *name == reason).map_or(0, |(_, count)| count)
    }
}

fn theirs(link: u32) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2 + u16::try_from(link).unwrap())
}

fn route(to: &str, seqno: u16, metric: u16) -> Tlv {
    route_of(THEIR_ID, to, seqno, metric)
}

fn route_of(router_id: RouterId, to: &str, seqno: u16, metric: u16) -> Tlv {
    let origin = Some(Origin { router_id, next_hop: IpAddr::V6(theirs(0)) });
    Tlv::Update(Update { prefix: Some(prefix(to)), interval: 1600, seqno, metric, origin })
}

fn gone(to: Option<&str>) -> Tlv {
    let prefix = to.map(prefix);
    Tlv::Update(Update { prefix, interval: 1600, seqno: 0, metric: INFINITY, origin: None })
}

fn seqno_request(to: &str, router_id: RouterId, seqno: u16, hop_count: u8) -> Tlv {
    Tlv::SeqnoRequest(SeqnoRequest { prefix: prefix(to), seqno, hop_count, router_id })
}

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect()
}

fn is_retraction(tlv: &Tlv, to: &str) -> bool {
    matches!(tlv, Tlv::Update(u) if u.prefix == Some(prefix(to)) && u.metric == INFINITY)
}

/// H5: retractions as BIRD sends them, without Router-Id and with whatever Next Hop.
#[test]
fn retractions_of_every_kind() {
    let mut bench = Bench::new(2);
    let via_ipv4 = Origin { router_id: THEIR_ID, next_hop: "10.0.0.1".parse().unwrap() };
    let b11 = "2a02000f080d0100180006400007ffff0a0102";
    let b12 = "2a020017070601000a090909080d0100180006400007ffff0a0102";
    let encoding_4 = "2a02000f080d0400180006400007ffff0a0102";
    for retraction in [b11, b12, encoding_4] {
        for announcement in [
            route(P, 7, 0),
            Tlv::Update(Update {
                prefix: Some(prefix(P)),
                interval: 1600,
                seqno: 7,
                metric: 0,
                origin: Some(via_ipv4),
            }),
        ] {
            bench.hear(0, &[announcement]);
            assert_eq!(bench.next_hop(P), Some(NextHop::Link(LinkId(0))));
            bench.run(1, 2);
            bench.news();
            bench.hear_octets(0, &octets(retraction));
            assert_eq!(bench.next_hop(P), Some(NextHop::Unreachable));
            bench.run(0, 0);
            bench.now += Duration::from_millis(200);
            bench.drain();
            let said = bench.news();
            assert!(said.iter().any(|(link, _, tlv)| *link == 1 && is_retraction(tlv, P)), "within 0.2 s: {said:?}");
        }
    }

    let specific = "::/0 from 2001:db8::/32";
    bench.hear(0, &[route(P, 7, 0), route(specific, 7, 0), route("fd00::/16", 7, 0)]);
    bench.hear(1, &[route("10.4.0.0/16", 7, 0), route(specific, 7, 300)]);
    assert_eq!(bench.next_hop(specific), Some(NextHop::Link(LinkId(0))));
    bench.hear_octets(0, &octets("2a02000c080a00000000ffff0007ffff"));
    assert_eq!(bench.next_hop(P), Some(NextHop::Unreachable));
    assert_eq!(bench.next_hop("fd00::/16"), Some(NextHop::Unreachable));
    assert_eq!(bench.next_hop(specific), Some(NextHop::Link(LinkId(1))), "the other neighbour's stays");
    assert_eq!(bench.next_hop("10.4.0.0/16"), Some(NextHop::Link(LinkId(1))));
}

/// H13: each odd packet is counted if it is malformed, and the Hello after it counts.
#[test]
fn odd_packets_cost_only_themselves() {
    let text = include_str!("../data/babel/validation.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for case in lines.chunks(2) {
        let mut bench = Bench::new(1);
        let before: u64 = bench.speaker.counters().map(|(_, count)| count).sum();
        let mut body = octets(case[1])[4..].to_vec();
        bench.seqno[0] += 1;
        body.extend([4, 6, 0, 0, 0]);
        body.push(u8::try_from(bench.seqno[0]).unwrap());
        body.extend([1, 0x90]);
        let mut payload = vec![42, 2, 0, u8::try_from(body.len()).unwrap()];
        payload.extend(body);
        bench.now += Duration::from_secs(1);
        bench.hear_octets(0, &payload);
        assert_eq!(bench.speaker.neighbours(bench.now)[0].last_hello, Some(bench.now), "{}", case[0]);
        let counted = bench.speaker.counters().map(|(_, count)| count).sum::<u64>() - before;
        let name = case[0].split(' ').next().unwrap();
        let expected = match name {
            "B7" | "B8" | "B11" | "B12" | "B26" => 0,
            "B28" => 2,
            _ => 1,
        };
        assert_eq!(counted, expected, "{}", case[0]);
        let routes: Vec<String> = bench.speaker.routes().map(|route| route.prefix.to_string()).collect();
        let expected: &[&str] = if name == "B26" { &["2001:db8:1:3::/64"] } else { &[] };
        assert_eq!(routes, expected, "{}", case[0]);
    }
}

#[test]
fn an_unfeasible_update_keeps_the_route_and_asks() {
    let mut bench = Bench::new(2);
    bench.hear(0, &[route(P, 7, 100)]);
    bench.run(1, 2);
    assert!(bench.news().iter().any(|(link, _, tlv)| *link == 1 && *tlv == route_as_sent(7, 116)));
    bench.hear(0, &[route(P, 7, 300)]);
    assert_eq!(bench.metric(P), Some(116));
    let asked = seqno_request(P, THEIR_ID, 8, 255);
    assert_eq!(bench.news(), [(0, theirs(0), asked.clone())], "unicast, at once");
    bench.hear(0, &[route(P, 7, 300)]);
    assert_eq!(bench.news(), [], "one request is under way");
    bench.run(3, 2);
    assert!(bench.news().contains(&(0, theirs(0), asked)), "repeated");
    bench.hear(0, &[route(P, 8, 300)]);
    assert_eq!(bench.metric(P), Some(316));
    bench.run(1, 2);
    assert!(bench.news().iter().any(|(link, _, tlv)| *link == 1 && *tlv == route_as_sent(8, 316)), "urgent");
    bench.hear(0, &[route_of([3; 8], P, 1, 400)]);
    assert_eq!(bench.metric(P), Some(416), "another router-id is another source");
    bench.hear(0, &[route(P, 8, 316)]);
    assert_eq!(bench.next_hop(P), Some(NextHop::Unreachable), "unfeasible and another router-id: unselected");
}

/// A better route that is unfeasible needs a newer seqno only if its metric is what forbids it; one that lags behind needs the
/// seqno that is known already, or speakers that wait for each other would raise it for ever.
#[test]
fn a_better_route_is_asked_for_by_the_least_seqno() {
    let asked =
        |announced: &[(u16, u16)], better: (u16, u16)| {
            let mut bench = Bench::new(3);
            for (seqno, metric) in announced {
                bench.hear(0, &[route(P, *seqno, *metric)]);
                bench.run(1, 3);
            }
            bench.hear(1, &[route(P, better.0, better.1)]);
            bench.news();
            bench.run(5, 3);
            assert_eq!(bench.next_hop(P), Some(NextHop::Link(LinkId(0))));
            let said = bench.news();
            said.into_iter().find_map(|(link, _, tlv)| {
                if let Tlv::SeqnoRequest(request) = tlv { Some((link, request.seqno)) } else { None }
            })
        };
    assert_eq!(asked(&[(8, 900)], (7, 100)), Some((1, 8)), "it lags behind");
    assert_eq!(asked(&[(8, 100), (9, 900)], (8, 100)), Some((1, 9)), "it lags behind");
    assert_eq!(asked(&[(8, 100), (9, 900)], (9, 890)), None, "too little to gain");
    // A cheap route of the same seqno was announced and lost: now it forbids all that is left.
    let mut bench = Bench::new(3);
    bench.hear(2, &[route(P, 8, 50)]);
    bench.run(1, 3);
    bench.hear(0, &[route_of([3; 8], P, 1, 900)]);
    bench.hear(2, &[gone(Some(P))]);
    bench.run(1, 3);
    assert_eq!(bench.next_hop(P), Some(NextHop::Link(LinkId(0))));
    bench.news();
    bench.hear(1, &[route(P, 8, 100)]);
    bench.run(5, 3);
    assert!(bench.news().contains(&(1, theirs(1), seqno_request(P, THEIR_ID, 9, 255))), "its metric is forbidden");
}

fn route_as_sent(seqno: u16, metric: u16) -> Tlv {
    let origin = Some(Origin { router_id: THEIR_ID, next_hop: IpAddr::V6(OURS) });
    Tlv::Update(Update { prefix: Some(prefix(P)), interval: 1600, seqno, metric, origin })
}

#[test]
fn split_horizon_and_what_it_takes_back() {
    let mut bench = Bench::new(2);
    bench.hear(0, &[route(P, 7, 100)]);
    bench.run(20, 2);
    let said = bench.news();
    assert!(said.iter().all(|(link, _, tlv)| *link == 1 || !matches!(tlv, Tlv::Update(u) if u.metric < INFINITY)));
    bench.hear(1, &[route(P, 8, 0)]);
    bench.run(3, 2);
    assert_eq!(bench.next_hop(P), Some(NextHop::Link(LinkId(1))));
    bench.news();
    bench.run(10, 2);
    let said = bench.news();
    bench.hear(1, &[gone(Some(P))]);
    assert!(said.iter().all(|(link, _, tlv)| *link == 0 || !matches!(tlv, Tlv::Update(u) if u.metric < INFINITY)));
    assert_eq!(bench.next_hop(P), Some(NextHop::Unreachable), "7, 100 is unfeasible after 8, 16 was announced");
}

#[test]
fn a_switch_takes_back_what_the_new_next_hop_was_told() {
    let mut bench = Bench::new(2);
    bench.hear(0, &[route(P, 7, 1000)]);
    bench.run(20, 2);
    bench.news();
    bench.hear(1, &[route(P, 8, 0)]);
    bench.now += Duration::from_millis(200);
    bench.drain();
    let said = bench.news();
    assert!(said.iter().any(|(link, _, tlv)| *link == 1 && is_retraction(tlv, P)), "{said:?}");
}

#[test]
fn seqno_requests() {
    let mut bench = Bench::new(3);
    bench.speaker.announce(bench.now, vec![prefix("10.9.0.0/16")]);
    bench.run(200, 3);
    let own = |bench: &Bench| bench.speaker.routes().find(|r| r.next_hop == NextHop::Local).unwrap().seqno;
    let before = own(&bench);
    bench.hear(0, &[seqno_request("10.9.0.0/16", ID, before, 64)]);
    assert_eq!(own(&bench), before, "it has that seqno");
    bench.hear(0, &[seqno_request("10.9.0.0/16", ID, before.wrapping_add(1000), 64)]);
    assert_eq!(own(&bench), before.wrapping_add(1), "by one, however much is asked");
    bench.hear(1, &[seqno_request("10.9.0.0/16", ID, before.wrapping_add(1), 64)]);
    assert_eq!(own(&bench), before.wrapping_add(1));

    bench.hear(0, &[route(P, 7, 100)]);
    bench.run(1, 3);
    bench.news();
    bench.hear(1, &[seqno_request(P, THEIR_ID, 8, 1)]);
    assert_eq!(bench.news(), [], "its hops are used up");
    bench.hear(0, &[seqno_request(P, THEIR_ID, 8, 64)]);
    assert_eq!(bench.news(), [], "nobody else has a route, and it came from the next hop");
    bench.hear(1, &[seqno_request(P, THEIR_ID, 8, 64)]);
    assert_eq!(bench.news(), [(0, theirs(0), seqno_request(P, THEIR_ID, 8, 63))]);
    bench.hear(2, &[seqno_request(P, THEIR_ID, 8, 64)]);
    assert_eq!(bench.news(), [], "the same again is not forwarded");
    bench.hear(0, &[route(P, 8, 100)]);
    bench.now += Duration::from_millis(200);
    bench.drain();
    let said = bench.news();
    for link in [1, 2] {
        assert!(said.iter().any(|(on, _, tlv)| *on == link && *tlv == route_as_sent(8, 116)), "answered at once");
    }
    bench.hear(1, &[seqno_request(P, THEIR_ID, 8, 64)]);
    bench.now += Duration::from_millis(100);
    bench.drain();
    assert!(bench.news().iter().any(|(link, _, tlv)| *link == 1 && *tlv == route_as_sent(8, 116)), "from the table");
}

#[test]
fn route_requests_and_acknowledgements_are_answered() {
    let mut bench = Bench::new(2);
    bench.hear(0, &[route(P, 7, 100)]);
    bench.run(2, 2);
    bench.news();
    let ask = |to: Option<&str>| Tlv::RouteRequest { prefix: to.map(prefix) };
    bench.hear(1, &[ask(Some(P)), ask(Some("10.77.0.0/16"))]);
    bench.now += Duration::from_millis(100);
    bench.drain();
    let said = bench.news();
    assert!(said.iter().all(|(link, _, _)| *link == 1));
    assert!(said.iter().any(|(_, _, tlv)| *tlv == route_as_sent(7, 116)));
    assert!(said.iter().any(|(_, _, tlv)| is_retraction(tlv, "10.77.0.0/16")), "it has no such route");
    bench.run(2, 2);
    bench.news();
    for _ in 0..50 {
        bench.hear(1, &[ask(None)]);
        bench.now += Duration::from_millis(10);
    }
    bench.run(1, 2);
    let dumps = bench.news().iter().filter(|(_, _, tlv)| *tlv == route_as_sent(7, 116)).count();
    assert!((1..=3).contains(&dumps), "{dumps} full updates for 50 requests in half a second");
    bench.hear(1, &[Tlv::AckRequest { opaque: 0xbeef, interval: 10 }]);
    assert_eq!(bench.news(), [(1, theirs(1), Tlv::Ack { opaque: 0xbeef })]);
}

#[test]
fn a_hidden_prefix_that_is_asked_for_is_denied() {
    let mut bench = Bench::new(2);
    bench.hear(0, &[route(P, 7, 100)]);
    let terms = Terms { announce: Filter(Some(Vec::new())), ..Terms::default() };
    bench.speaker.set_terms(bench.now, LinkId(1), &terms);
    bench.run(20, 2);
    bench.news();
    bench.hear(1, &[Tlv::RouteRequest { prefix: Some(prefix(P)) }, Tlv::RouteRequest { prefix: None }]);
    bench.run(2, 2);
    let said = bench.news();
    assert!(matches!(said.as_slice(), [(1, to, tlv)] if *to == theirs(1) && is_retraction(tlv, P)), "{said:?}");
}

/// Answers of all neighbours end the copies; an old answer does not end those of a newer update.
#[test]
fn copies_end_with_the_acknowledgement() {
    let mut bench = Bench::new(2);
    bench.speaker.announce(bench.now, vec![prefix("10.9.0.0/16")]);
    bench.run(20, 2);
    bench.news();
    let asked = |said: &[(u32, Ipv6Addr, Tlv)]| -> Vec<u16> {
        let opaque = |tlv: &Tlv| if let Tlv::AckRequest { opaque, .. } = tlv { Some(*opaque) } else { None };
        said.iter().filter(|(link, _, _)| *link == 1).filter_map(|(_, _, tlv)| opaque(tlv)).collect()
    };
    let retractions = |said: &[(u32, Ipv6Addr, Tlv)]| {
        said.iter().filter(|(link, _, tlv)| *link == 1 && is_retraction(tlv, "10.9.0.0/16")).count()
    };
    bench.speaker.announce(bench.now, Vec::new());
    bench.now += Duration::from_millis(200);
    bench.drain();
    let said = bench.news();
    let first = asked(&said);
    assert_eq!((first.len(), retractions(&said)), (1, 1));
    bench.hear(1, &[Tlv::Ack { opaque: first[0].wrapping_sub(9) }]);
    bench.run(1, 2);
    let said = bench.news();
    assert!((1..=3).contains(&retractions(&said)), "nobody has answered: {said:?}");
    bench.hear(1, &[Tlv::Ack { opaque: first[0] }]);
    bench.run(1, 2);
    assert!(retractions(&bench.news()) >= 1, "the copy that came after it asks anew");
    bench.speaker.announce(bench.now, vec![prefix("10.9.0.0/16")]);
    bench.speaker.announce(bench.now, Vec::new());
    bench.now += Duration::from_millis(200);
    bench.drain();
    let last = asked(&bench.news());
    bench.hear(1, &[Tlv::Ack { opaque: last[0] }]);
    bench.run(4, 2);
    let said = bench.news();
    assert!(retractions(&said) <= 1, "acknowledged; only a full update may name it again: {said:?}");
}

#[test]
fn routes_expire_after_being_asked_for() {
    let mut bench = Bench::new(1);
    bench.hear(0, &[route(P, 7, 100)]);
    bench.run(42, 1);
    assert!(!bench.news().iter().any(|(_, _, tlv)| matches!(tlv, Tlv::RouteRequest { prefix: Some(_) })));
    bench.run(10, 1);
    let asked = Tlv::RouteRequest { prefix: Some(prefix(P)) };
    assert!(bench.news().contains(&(0, theirs(0), asked)));
    assert_eq!(bench.next_hop(P), Some(NextHop::Link(LinkId(0))));
    bench.run(10, 1);
    assert_eq!(bench.next_hop(P), Some(NextHop::Unreachable));
    bench.run(62, 1);
    assert_eq!(bench.next_hop(P), None);
    assert_eq!(bench.speaker.routes().count(), 0);
}

#[test]
fn routes_that_lead_back_to_us_are_none() {
    let mut bench = Bench::new(1);
    bench.hear(0, &[route(P, 7, 100)]);
    bench.hear(0, &[route_of(ID, P, 9000, 0)]);
    assert_eq!(bench.next_hop(P), Some(NextHop::Unreachable));
}

#[test]
fn strangers() {
    let mut bench = Bench::new(1);
    let update = |from| {
        let mut packet = Packet::new(1000, from);
        assert!(packet.push(&route(P, 7, 100)));
        packet.finish()
    };
    let hello = {
        let mut packet = Packet::new(1000, OURS);
        assert!(packet.push(&Tlv::Hello(Hello { unicast: false, seqno: 1, interval: 400, stamp: None })));
        packet.finish()
    };
    let stranger = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x99);
    bench.speaker.receive(bench.now, LinkId(0), stranger, GROUP, &update(stranger));
    assert_eq!((bench.count("babel before a hello"), bench.next_hop(P)), (1, None));
    bench.speaker.receive(bench.now, LinkId(0), OURS, GROUP, &hello);
    bench.speaker.receive(bench.now, LinkId(0), "2001:db8::1".parse().unwrap(), GROUP, &hello);
    assert_eq!(bench.count("babel source address"), 2);
    bench.speaker.receive(bench.now, LinkId(0), stranger, stranger, &hello);
    assert_eq!(bench.count("babel destination address"), 1);
    bench.speaker.receive(bench.now, LinkId(7), stranger, GROUP, &hello);
    assert_eq!(bench.count("babel on a link that is down"), 1);
    assert_eq!(bench.speaker.neighbours(bench.now).len(), 1);
    for number in 0x100..0x200 {
        let stranger = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
        bench.speaker.receive(bench.now, LinkId(0), stranger, GROUP, &hello);
    }
    let neighbours = bench.speaker.neighbours(bench.now);
    assert_eq!(neighbours.len(), 4);
    assert!(neighbours.iter().any(|n| n.address == theirs(0)), "the one that is heard stays");
    bench.run(100, 1);
    assert_eq!(bench.speaker.neighbours(bench.now).len(), 1, "the others are forgotten");
}

#[test]
fn an_ihu_for_somebody_else_is_not_ours() {
    let mut bench = Bench::new(1);
    let ihu = |address: Option<IpAddr>, rxcost| Tlv::Ihu(Ihu { address, rxcost, interval: 1200, stamps: None });
    bench.hear(0, &[ihu(Some("fe80::77".parse().unwrap()), 500), ihu(Some("10.0.0.1".parse().unwrap()), 500)]);
    assert_eq!(bench.speaker.neighbours(bench.now)[0].txcost, 96);
    bench.hear(0, &[ihu(None, 192)]);
    assert_eq!(bench.speaker.neighbours(bench.now)[0].txcost, 192);
}

/// BIRD 2.20 counts the Hello after an unscheduled one (interval 0) as lost: answering "I do not hear you" with those kept it
/// deaf for ever.
#[test]
fn every_hello_promises_the_next() {
    let mut bench = Bench::new(0);
    bench.speaker.link_up(bench.now, LinkId(0), OURS, 1400);
    bench.drain();
    for seqno in 0..20 {
        let hello = Tlv::Hello(Hello { unicast: false, seqno, interval: 400, stamp: None });
        bench.hear(0, &[hello, Tlv::Ihu(Ihu { address: None, rxcost: INFINITY, interval: 1200, stamps: None })]);
        bench.run(1, 0);
    }
    let intervals: Vec<u16> = bench
        .said
        .iter()
        .filter_map(|(_, _, tlv)| if let Tlv::Hello(hello) = tlv { Some(hello.interval) } else { None })
        .collect();
    assert!(intervals.len() >= 20 && intervals.iter().all(|interval| *interval == 400), "{intervals:?}");
}

#[test]
fn a_route_says_why_it_is_not_selected() {
    let mut bench = Bench::new(3);
    bench.hear(0, &[route(P, 7, 100)]);
    bench.run(1, 3);
    bench.hear(1, &[route(P, 7, 110)]);
    bench.hear(2, &[route(P, 7, 300)]);
    let why = |bench: &Bench| -> Vec<(u16, Option<Unused>)> {
        bench.speaker.routes().map(|route| (route.received, route.unused)).collect()
    };
    let unfeasible = Some(Unused::Unfeasible);
    assert_eq!(why(&bench), [(100, None), (110, Some(Unused::Longer)), (300, unfeasible)], "116 was announced");
    bench.hear(1, &[route(P, 7, 95)]);
    assert_eq!(why(&bench), [(100, None), (95, Some(Unused::NotYet)), (300, unfeasible)]);
    bench.hear(1, &[Tlv::Ihu(Ihu { address: None, rxcost: INFINITY, interval: 1200, stamps: None })]);
    assert_eq!(why(&bench), [(100, None), (95, Some(Unused::LinkLost)), (300, unfeasible)]);
}

#[test]
fn a_neighbour_that_only_sends_unicast_hellos() {
    let mut bench = Bench::new(0);
    bench.speaker.link_up(bench.now, LinkId(0), OURS, 1400);
    for seqno in 0..4 {
        let hello = Tlv::Hello(Hello { unicast: true, seqno, interval: 400, stamp: None });
        let ihu = Tlv::Ihu(Ihu { address: None, rxcost: 96, interval: 1200, stamps: None });
        bench.hear(0, &[hello, ihu]);
        bench.run(4, 0);
    }
    let neighbour = &bench.speaker.neighbours(bench.now)[0];
    assert_eq!((neighbour.cost, neighbour.rtt), (96, None));
}

/// A flood of routes fills its bounds and not more; the neighbour that behaves keeps its own.
#[test]
fn tables_are_bounded() {
    let mut bench = Bench::new(2);
    bench.hear(1, &[route("10.99.0.0/16", 7, 0)]);
    let nets = (0..40_000_u32).map(|n| Prefix::host(IpAddr::from((0x0b00_0000 + n).to_be_bytes())));
    let updates: Vec<Tlv> = nets
        .map(|prefix| {
            let origin = Some(Origin { router_id: THEIR_ID, next_hop: IpAddr::V6(theirs(0)) });
            Tlv::Update(Update { prefix: Some(prefix), interval: 60_000, seqno: 1, metric: 1, origin })
        })
        .collect();
    for chunk in updates.chunks(1000) {
        bench.hear(0, chunk);
    }
    assert_eq!(bench.speaker.routes().count(), 16_384 + 1);
    assert_eq!(bench.count("babel too many routes"), 40_000 - 16_384);
    // Announced and retracted at once: what is held unreachable is bounded too.
    bench.hear(0, &[gone(None)]);
    for chunk in updates[16_384..].chunks(100) {
        bench.hear(0, chunk);
        bench.hear(0, &[gone(None)]);
    }
    assert!(bench.speaker.routes().count() <= 32_768 + 1);
    assert_eq!(bench.next_hop("10.99.0.0/16"), Some(NextHop::Link(LinkId(1))));
    let requests: Vec<Tlv> = (0..5000_u32)
        .map(|n| seqno_request("10.99.0.0/16", (1_u64 << 40 | u64::from(n)).to_be_bytes(), 9, 64))
        .collect();
    requests.chunks(1000).for_each(|chunk| bench.hear(0, chunk));
    bench.run(1, 2);
    let said = bench.news();
    assert!(said.len() < 20_000, "{}", said.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever arrives, whenever: no panic, no timer that stands still, nothing selected that is unfeasible.
    #[test]
    fn arbitrary_input(inputs in prop::collection::vec((0..3_u32, prop::collection::vec(any::<u8>(), 0..200), 0..20_000_u64), 1..60)) {
        let mut bench = Bench::new(2);
        for (link, body, pause) in inputs {
            let mut payload = vec![42, 2, 0, u8::try_from(body.len()).unwrap()];
            // Often a TLV that exists, for the rest of the octets to be its contents.
            payload.extend(body.iter().enumerate().map(|(at, octet)| if at == 0 { octet % 12 } else { *octet }));
            bench.hear_octets(link, &payload);
            bench.now += Duration::from_millis(pause);
            bench.speaker.handle_timeout(bench.now);
            bench.drain();
            prop_assert!(bench.speaker.poll_timeout().is_none_or(|(at, _)| at > bench.now));
            prop_assert!(bench.speaker.selected().all(|route| route.feasible && route.selected));
        }
    }
}
