//! Nothing is stuck: from every state, with the link back, a peer is up within a minute (E1); and the dead cost little (K1).

use std::net::IpAddr;
use std::time::Duration;

use super::super::{Mesh, World, underlay};
use super::{all_up, millis, seconds};
use crate::config::plan::{Endpoint, Host};
use crate::status::model::State;

/// Three peers of host 0; the wire to host 1 is cut after `k` datagrams for `span`.
fn cut_after(k: u64, span: Duration, seed: u64) {
    let mut world = Mesh::of(seed, 4, [(0, 1, 10), (0, 2, 10), (0, 3, 10)]).one_way().build();
    world.start_all();
    let carried = |world: &World| world.wires[&(0, 1)].carried + world.wires[&(1, 0)].carried;
    world.run_until(seconds(30), |world| carried(world) >= k).expect("k datagrams");
    world.change(0, 1, |wire| wire.up = false);
    world.run(span);
    assert!(world.node(0).poll_timeout().is_some(), "seed {seed}: no timer while a dialled peer is down");
    world.change(0, 1, |wire| wire.up = true);
    let up = world.run_until(seconds(60), |world| all_up(world));
    assert!(up.is_some(), "cut after {k} for {span:?}, seed {seed}: {:?}", world.peer(0, "n1"));
}

#[test]
fn a_link_cut_anywhere_in_the_handshake_comes_back() {
    for k in 1..=16 {
        for span in [1, 10, 100, 1000] {
            cut_after(k, seconds(span), k * 1000 + span);
        }
    }
}

#[test]
fn a_link_cut_for_a_day_comes_back() {
    for k in [1, 4, 12] {
        cut_after(k, seconds(100_000), k);
    }
}

#[test]
fn a_peer_that_was_never_there_is_found_within_a_minute() {
    let mut world = Mesh::of(3, 2, [(0, 1, 10)]).one_way().build();
    world.start(0);
    world.run(seconds(3600));
    let peer = world.peer(0, "n1");
    assert_eq!(peer.state, State::Down);
    let reason = peer.reason.expect("a reason");
    assert!(reason.contains("IKE_SA_INIT") && reason.contains("tries"), "{reason}");
    world.start(1);
    assert!(world.run_until(seconds(60), |world| all_up(world)).is_some());
    assert!(world.hosts[0].plan.peers[0].endpoints.len() == 1);
}

#[test]
fn a_dead_peer_is_known_after_fifteen_seconds_and_found_elsewhere() {
    let mut longest = Duration::ZERO;
    for seed in 0..40 {
        let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
        let endpoint = Endpoint { host: Host::Name("vpn.example".into()), port: 4500 };
        world.hosts[0].plan.peers[0].endpoints = vec![endpoint];
        world.hosts[0].names.insert("vpn.example".into(), Ok(vec![underlay(1)]));
        world.start_all();
        world.run_until(seconds(5), |world| all_up(world)).expect("up");
        world.run(millis(7000 + seed * 137));
        world.kill(1);
        // It has another address by then, and its name says so.
        let moved: IpAddr = "198.18.200.1".parse().unwrap();
        world.hosts[1].addresses = vec![moved];
        world.hosts[0].names.insert("vpn.example".into(), Ok(vec![underlay(3), moved]));
        let known = world.run_until(seconds(60), |world| world.node(0).ike_sas().is_empty()).expect("found dead");
        longest = longest.max(known);
        world.start(1);
        let back = world.run_until(seconds(30), |world| all_up(world));
        assert!(back.is_some(), "seed {seed}: {:?}", world.peer(0, "n1"));
    }
    assert!(longest <= seconds(15), "{longest:?}");
}

/// A way out that is missing is known at once, and it is tried again within ten seconds, however long that lasts.
#[test]
fn send_errors_count_at_once_and_never_slow_us_down() {
    for span in [2, 20, 200, 2000] {
        let mut world = Mesh::of(span, 2, [(0, 1, 10)]).one_way().build();
        world.start_all();
        world.run_until(seconds(5), |world| all_up(world)).expect("up");
        world.hosts[0].send_error = Some("Network is unreachable");
        if span >= 20 {
            let known = world.run_until(seconds(20), |world| world.node(0).ike_sas().is_empty()).expect("known");
            assert!(known <= seconds(10), "{known:?} with Hellos every 4 s");
        }
        world.run(seconds(span));
        world.hosts[0].send_error = None;
        let back = world.run_until(seconds(10), |world| all_up(world));
        assert!(back.is_some(), "{span} s: {:?}", world.peer(0, "n1"));
    }
}

#[test]
fn a_send_error_is_the_reason_and_is_over_in_ten_seconds() {
    let mut world = Mesh::of(4, 2, [(0, 1, 10)]).one_way().build();
    world.hosts[0].send_error = Some("Network is unreachable");
    world.start_all();
    world.run(seconds(5));
    let reason = world.peer(0, "n1").reason.expect("a reason");
    assert!(reason.contains("Network is unreachable"), "{reason}");
    world.run(seconds(5));
    world.hosts[0].send_error = None;
    assert!(world.run_until(seconds(10), |world| all_up(world)).is_some(), "{:?}", world.peer(0, "n1"));
}

#[test]
fn a_name_that_resolves_late_and_moves_is_followed() {
    let mut world = Mesh::of(5, 2, [(0, 1, 10)]).one_way().build();
    let endpoint = Endpoint { host: Host::Name("vpn.example".into()), port: 4500 };
    world.hosts[0].plan.peers[0].endpoints = vec![endpoint];
    world.hosts[0].names.insert("vpn.example".into(), Err("no answer from 192.0.2.53".into()));
    world.start_all();
    world.run(seconds(30));
    let reason = world.peer(0, "n1").reason.expect("a reason");
    assert!(reason.contains("cannot resolve vpn.example: no answer from 192.0.2.53"), "{reason}");
    world.hosts[0].names.insert("vpn.example".into(), Ok(vec![underlay(1)]));
    assert!(world.run_until(seconds(15), |world| all_up(world)).is_some(), "{:?}", world.peer(0, "n1"));

    // The host gets another address, and its name follows.
    let moved = "198.18.200.1".parse().unwrap();
    world.kill(1);
    world.hosts[1].addresses = vec![moved];
    world.run(seconds(5));
    world.hosts[0].names.insert("vpn.example".into(), Ok(vec![moved]));
    world.start(1);
    assert!(world.run_until(seconds(60), |world| all_up(world)).is_some(), "{:?}", world.peer(0, "n1"));
}

#[test]
fn a_port_that_is_filtered_is_left_behind() {
    let mut world = Mesh::of(6, 2, [(0, 1, 10)]).one_way().build();
    world.hosts[1].nat = None;
    world.start_all();
    world.run_until(seconds(5), |world| all_up(world)).expect("up");
    // A firewall forgets the flow of the listening port for good; other ports pass.
    world.wires.get_mut(&(1, 0)).unwrap().up = false;
    world.run(seconds(20));
    let before = world.inits[&0];
    world.run(seconds(100));
    assert!(world.inits[&0] > before + 3);
    world.wires.get_mut(&(1, 0)).unwrap().up = true;
    world.run_until(seconds(60), |world| all_up(world)).expect("up again");
    // Both kinds of source port have been tried meanwhile.
    assert!(world.snapshot(0).peers[0].links[0].local_port.is_some());
}

#[test]
fn two_hundred_dead_peers_cost_little() {
    let dead = 235;
    let wires = (1..=dead).map(|host| (0, host, 10));
    let mut world = Mesh::of(7, dead + 1, wires).one_way().build();
    world.start(0);
    world.run(seconds(600));
    let before: u64 = world.wires.values().map(|wire| wire.carried).sum();
    world.run(seconds(600));
    let sent: u64 = world.wires.values().map(|wire| wire.carried).sum::<u64>() - before;
    assert!(sent <= 10 * 600, "{sent} datagrams to dead peers in ten minutes");
    assert_eq!(world.snapshot(0).peers.len(), dead);
}

#[test]
fn three_hundred_peers_most_of_them_dead_leave_nothing_behind() {
    let (living, dead) = (65, 235);
    let mut world = Mesh::of(9, living + dead + 1, (1..=living + dead).map(|host| (0, host, 10))).one_way().build();
    (0..=living).for_each(|host| world.start(host));
    world.run(seconds(600));
    let [links, sockets, refusals, errors, sas] = world.node(0).sizes();
    assert!((1..=living).all(|host| world.is_up(0, host)));
    world.run(seconds(1200));
    let after = world.node(0).sizes();
    assert_eq!((links, after[0]), (living + dead, living + dead));
    assert!(sockets <= dead && after[1] <= dead, "{sockets} and {} sockets", after[1]);
    assert_eq!((after[2], after[3]), (refusals, errors));
    assert!(sas.max(after[4]) <= living + dead, "{sas} and {} IKE SAs", after[4]);
    let peers = world.snapshot(0).peers;
    assert!(
        peers
            .iter()
            .all(|peer| peer.reason.as_ref().is_some_and(|reason| reason.len() <= 160) == (peer.state != State::Up))
    );
    assert_eq!(peers.iter().filter(|peer| peer.state == State::Down).count(), dead);
}

#[test]
fn a_month_of_tries_leaves_nothing_behind() {
    let mut world = Mesh::of(11, 4, [(0, 1, 10), (0, 2, 10), (0, 3, 10)]).one_way().build();
    world.start(0);
    for _ in 0..30 {
        world.run(seconds(86_400));
        let [links, sockets, refusals, errors, sas] = world.node(0).sizes();
        assert!(sas <= 3 && links == 3 && sockets <= 3 && refusals == 0 && errors == 0, "{:?}", world.node(0).sizes());
    }
    (1..4).for_each(|host| world.start(host));
    assert!(world.run_until(seconds(60), |world| all_up(world)).is_some());
    world.run(seconds(120));
    assert!(world.node(0).sizes()[1] <= 3, "{:?}", world.node(0).sizes());
}

#[test]
fn a_peer_that_dials_from_a_thousand_addresses_leaves_few_links() {
    let mut world = Mesh::of(10, 2, [(0, 1, 10)]).one_way().build();
    world.start(1);
    for turn in 0..1000u16 {
        // Another place, and no memory of the last one.
        world.hosts[0].addresses = vec![IpAddr::from([198, 19, (turn >> 8) as u8, turn as u8])];
        world.start(0);
        let span = millis(100 + u64::from(world.rng.below(2000)));
        world.run(span);
        let [links, sockets, _, _, sas] = world.node(1).sizes();
        // Half-open ones and those that wait for the answer to a DELETE have their own timers.
        assert!(links <= 8 && sockets == 0 && sas <= 40, "turn {turn}: {links} links, {sockets} sockets, {sas} SAs");
    }
    let up = world.run_until(seconds(60), |world| all_up(world));
    assert!(up.is_some(), "{:?}", world.peer(0, "n1"));
    world.run(seconds(120));
    let [links, _, _, _, sas] = world.node(1).sizes();
    assert_eq!((links, sas), (1, 1), "{:?}", world.peer(1, "n0").links);
}

#[test]
fn an_idle_node_with_three_peers_sleeps() {
    let mut world = Mesh::of(8, 4, [(0, 1, 10), (0, 2, 10), (0, 3, 10)]).one_way().build();
    world.start_all();
    world.run(seconds(60));
    assert!(all_up(&world));
    let end = world.now + seconds(60);
    let mut wakes = 0;
    while world.now < end {
        let before = world.now;
        let next = world.node(0).poll_timeout().expect("Hellos are due").0;
        world.run(next.since(before).min(end.since(before)).max(millis(1)));
        wakes += 1;
    }
    assert!(wakes <= 75, "{wakes} timers in an idle minute");
}
