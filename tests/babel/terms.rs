//! The terms of a link: filters in both directions, costs and intervals of its own.

use std::time::Duration;

use wattle::babel::speaker::NextHop;
use wattle::config::plan::{Filter, Rule, Terms, Tuning};

use crate::net::{Net, link};

const TEN: &str = "10.1.0.0/16";
const LAN: &str = "192.168.1.0/24";

fn only(nets: &[&str]) -> Filter {
    let rule = |net: &&str| {
        let to: ipnet::IpNet = net.parse().unwrap();
        Rule { to, lengths: to.prefix_len()..=to.max_prefix_len(), from: None, permit: true }
    };
    Filter(Some(nets.iter().map(rule).collect()))
}

fn set(net: &mut Net, node: usize, wire: usize, terms: &Terms) {
    let now = net.clock(node);
    net.nodes[node].speaker.set_terms(now, link(wire), terms);
    net.drain(node);
}

/// 0 announces two prefixes to 1, which passes them on to 2.
fn three() -> Net {
    let mut net = Net::new(1, 3);
    net.wire(0, 1, 10);
    net.wire(1, 2, 10);
    net.announce(0, &[TEN, LAN]);
    net.run(20);
    assert!(net.has_route(2, TEN) && net.has_route(2, LAN));
    net
}

#[test]
fn what_is_not_accepted_is_not_passed_on() {
    let mut net = three();
    set(&mut net, 1, 0, &Terms { accept: only(&["10.0.0.0/8"]), ..Terms::default() });
    assert_eq!(net.next_hop(1, LAN), Some(NextHop::Unreachable), "at once");
    net.wait(1, "gone everywhere", |net| !net.has_route(2, LAN));
    net.run(120);
    assert!(net.has_route(2, TEN) && net.next_hop(1, LAN).is_none());
    let filtered = net.nodes[1].speaker.counters().find(|(name, _)| *name == "babel filtered").unwrap().1;
    assert!(filtered >= 5, "{filtered}");
    set(&mut net, 1, 0, &Terms::default());
    net.wait(2, "asked for again", |net| net.has_route(2, LAN));
}

/// More than is queued one by one.
#[test]
fn a_great_many_are_taken_back_at_once() {
    let mut net = Net::new(1, 2);
    net.wire(0, 1, 10);
    let many: Vec<String> = (0..600).map(|n| format!("192.168.{}.{}/32", n / 250, n % 250)).collect();
    let all: Vec<&str> = many.iter().map(String::as_str).chain([TEN]).collect();
    net.announce(0, &all);
    net.run(20);
    assert!(all.iter().all(|to| net.has_route(1, to)));
    set(&mut net, 0, 0, &Terms { announce: only(&["10.0.0.0/8"]), ..Terms::default() });
    net.wait(3, "all taken back", |net| many.iter().all(|to| !net.has_route(1, to)) && net.has_route(1, TEN));
}

#[test]
fn what_is_not_announced_any_more_is_taken_back() {
    let mut net = three();
    set(&mut net, 0, 0, &Terms { announce: only(&["10.0.0.0/8"]), ..Terms::default() });
    net.wait(1, "taken back", |net| !net.has_route(1, LAN) && !net.has_route(2, LAN));
    net.run(120);
    assert!(net.has_route(2, TEN) && net.next_hop(1, LAN).is_none(), "and forgotten");
    assert_eq!(net.next_hop(0, LAN), Some(NextHop::Local));
    set(&mut net, 0, 0, &Terms::default());
    net.wait(2, "told again", |net| net.has_route(2, LAN));
}

/// What was never announced is not even retracted: the neighbour does not learn of it.
#[test]
fn a_hidden_prefix_is_not_mentioned() {
    let mut net = Net::new(1, 2);
    let wire = net.wire(0, 1, 10);
    net.set_up(wire, false);
    net.set_up(wire, true);
    set(&mut net, 0, 0, &Terms { announce: only(&["10.0.0.0/8"]), ..Terms::default() });
    net.announce(0, &[TEN]);
    net.run(20);
    let octets = |net: &mut Net| {
        net.octets = vec![0];
        net.run(40);
        net.octets[0]
    };
    let before = octets(&mut net);
    net.announce(0, &[TEN, LAN]);
    net.run(3);
    net.announce(0, &[TEN]);
    net.run(3);
    net.announce(0, &[TEN, LAN]);
    assert_eq!(net.next_hop(1, LAN), None);
    let after = octets(&mut net);
    assert!(after.abs_diff(before) <= 60, "{before} and {after} octets");
}

#[test]
fn a_link_may_count_otherwise_and_greet_more_often() {
    let mut net = Net::new(1, 2);
    net.wire(0, 1, 10);
    net.announce(1, &[TEN]);
    net.run(20);
    assert_eq!((net.cost(0, 0), net.cost(1, 0)), (92, 92));
    let tuning = Tuning {
        rtt_cost: 150,
        rtt_min: Duration::from_millis(10),
        rtt_max: Duration::from_millis(120),
        ..Tuning::default()
    };
    set(
        &mut net,
        0,
        0,
        &Terms {
            tuning: Tuning { rxcost: 192, hello: Some(Duration::from_millis(500)), ..tuning },
            ..Terms::default()
        },
    );
    net.run(20);
    assert_eq!(net.cost(0, 0), 16 + 14, "150 · 10 / 110 for 20 ms");
    assert_eq!(net.cost(1, 0), 2 * 92, "it is asked to pay twice");
    assert_eq!(net.neighbour(1, 0).unwrap().rxcost, 16);
    // The other end misses our Hellos after a second or two, not ten.
    net.wires[0].loss = [100, 0];
    let took = net.wait(3, "silence", |net| net.neighbour(1, 0).unwrap().rxcost == 0xffff);
    assert!(took >= Duration::from_millis(900), "{took:?}");
}
