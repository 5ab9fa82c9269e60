//! A new configuration under a running mesh: what did not change is not touched, what is withdrawn is retracted (H15).

use std::net::SocketAddr;

use super::super::build::endpoint;
use super::super::{Mesh, World};
use super::{all_up, has_route, lost_pings, millis, next_hop, seconds};
use crate::config::plan::Rekey;
use crate::identity::Identity;
use crate::node::Reloaded;
use crate::offload::Switch;
use crate::prefix::Prefix;

fn prefix(text: &str) -> Prefix {
    Prefix::to(text.parse().unwrap())
}

/// Host 0 with 1 and 2, host 2 with 3.
fn world(seed: u64) -> World {
    let mut world = Mesh::of(seed, 4, [(0, 1, 10), (0, 2, 10), (2, 3, 10)]).one_way().build();
    world.hosts[0].plan.announce = vec![prefix("192.168.1.0/24"), prefix("192.168.2.0/24")];
    world.start_all();
    world.run_until(seconds(30), |world| all_up(world) && has_route(world, 3, 1)).expect("up");
    world.run(seconds(20));
    world
}

fn spis(world: &World, host: usize, peer: &str) -> Vec<Option<u32>> {
    world.peer(host, peer).links.iter().map(|link| link.spi_in).collect()
}

#[test]
fn a_withdrawn_prefix_is_gone_everywhere_within_a_second() {
    for seed in 0..10 {
        let mut world = world(seed);
        let knows =
            |world: &World, to: &str| (1..4).filter(|host| world.hosts[*host].kernel.contains(&prefix(to))).count();
        let usable = |world: &World, to: &str| {
            let finite = |host: &usize| {
                let routes = world.snapshot(*host).routes;
                routes.iter().any(|route| route.to == to && route.metric != u16::MAX)
            };
            (1..4usize).filter(finite).count()
        };
        assert_eq!((knows(&world, "192.168.1.0/24"), knows(&world, "192.168.2.0/24")), (3, 3), "seed {seed}");
        let sas = [spis(&world, 0, "n1"), spis(&world, 0, "n2")];
        let mut plan = world.hosts[0].plan.clone();
        plan.announce = vec![prefix("192.168.2.0/24"), prefix("192.168.3.0/24")];
        let done = world.reload(0, plan);
        assert_eq!(done, Reloaded { announce: true, ..Reloaded::default() });
        world.run(seconds(1));
        assert_eq!(usable(&world, "192.168.1.0/24"), 0, "seed {seed}: still believed");
        assert_eq!(usable(&world, "192.168.2.0/24"), 3, "seed {seed}");
        assert_eq!(usable(&world, "192.168.3.0/24"), 3, "seed {seed}");
        assert_eq!([spis(&world, 0, "n1"), spis(&world, 0, "n2")], sas, "seed {seed}: sessions are not touched");
        world.run(seconds(120));
        assert_eq!(knows(&world, "192.168.1.0/24"), 0, "seed {seed}: held for ever");
    }
}

#[test]
fn untouched_peers_keep_sessions_and_counters() {
    let mut world = world(1);
    let before = world.peer(0, "n1").links[0].clone();
    let mut plan = world.hosts[0].plan.clone();
    plan.peers.retain(|peer| peer.name != "n2");
    let done = world.reload(0, plan.clone());
    assert_eq!(done, Reloaded { removed: 1, ..Reloaded::default() });
    assert_eq!(lost_pings(&mut world, 0, 1, seconds(2)), 0);
    let after = world.peer(0, "n1").links[0].clone();
    assert_eq!((after.id, after.spi_in, after.spi_out), (before.id, before.spi_in, before.spi_out));
    assert!(after.octets_out > before.octets_out && after.since_us > before.since_us);
    assert_eq!(world.snapshot(0).peers.len(), 1);
    assert!(!has_route(&world, 0, 3), "routes through the removed peer");
    // The other end was told, and is refused from now on.
    assert!(!world.is_up(2, 0));
    assert!(world.peer(2, "n0").reason.is_some());

    // The same again is nothing.
    assert!(world.reload(0, plan).is_nothing());
    assert_eq!(world.node(0).sizes()[0], 1);
}

#[test]
fn an_added_peer_is_dialled_and_a_new_key_is_another_peer() {
    let mut world = world(2);
    let full = world.hosts[0].plan.clone();
    let mut less = full.clone();
    less.peers.remove(0);
    world.reload(0, less);
    world.run(seconds(5));
    let sas = spis(&world, 0, "n2");
    let done = world.reload(0, full.clone());
    assert_eq!(done, Reloaded { added: 1, ..Reloaded::default() });
    assert!(world.run_until(seconds(10), |world| all_up(world)).is_some(), "{:?}", world.peer(0, "n1"));
    assert_eq!(spis(&world, 0, "n2"), sas);
    let names: Vec<String> = world.snapshot(0).peers.into_iter().map(|peer| peer.name).collect();
    assert_eq!(names, ["n1", "n2"], "the order of the configuration");

    let mut swapped = full.clone();
    swapped.peers[0].public_key = full.private_key.public();
    let done = world.reload(0, swapped);
    assert_eq!(done, Reloaded { changed: 1, ..Reloaded::default() });
    world.run(seconds(5));
    assert!(!world.is_up(0, 1), "the old key is no longer taken");
    world.reload(0, full);
    assert!(world.run_until(seconds(60), |world| all_up(world)).is_some(), "{:?}", world.peer(0, "n1"));
}

#[test]
fn endpoints_and_routes_change_one_by_one() {
    let mut world = world(3);
    let elsewhere = endpoint(SocketAddr::new("198.18.77.1".parse().unwrap(), 4500));
    let sas = spis(&world, 0, "n1");
    let mut plan = world.hosts[0].plan.clone();
    plan.peers[0].endpoints.push(elsewhere.clone());
    assert_eq!(world.reload(0, plan.clone()).changed, 1);
    world.run(seconds(20));
    let links = world.peer(0, "n1").links;
    assert_eq!((links.len(), links[0].spi_in), (2, sas[0]), "the working tunnel is not touched");
    assert!(links[1].reason.is_some());
    plan.peers[0].endpoints.remove(1);
    world.reload(0, plan.clone());
    assert_eq!(spis(&world, 0, "n1"), sas);
    assert!(world.node(0).poll_timeout().is_some());

    // From Babel to static routes and back.
    plan.peers[0].routes = vec![prefix("10.99.0.0/16")];
    world.reload(0, plan.clone());
    world.run(seconds(2));
    assert!(world.hosts[2].kernel.contains(&prefix("10.99.0.0/16")), "announced to the others");
    plan.peers[0].routes = vec![prefix("10.98.0.0/16")];
    world.reload(0, plan.clone());
    world.run(seconds(2));
    assert!(world.hosts[2].kernel.contains(&prefix("10.98.0.0/16")));
    plan.peers[0].routes.clear();
    world.reload(0, plan.clone());
    let back = world.run_until(seconds(20), |world| next_hop(world, 0, 1).as_deref() == Some("n1"));
    assert!(back.is_some());
    assert_eq!(spis(&world, 0, "n1"), sas);

    // No endpoint any more: that peer has to dial, and the reason says so.
    plan.peers[0].endpoints.clear();
    world.reload(0, plan);
    world.run(millis(500));
    let peer = world.peer(0, "n1");
    assert_eq!(peer.state, crate::status::model::State::Waiting);
    assert!(peer.reason.is_some_and(|reason| reason.contains("endpoint")));
}

#[test]
fn what_needs_a_restart_is_told_and_a_broken_file_changes_nothing() {
    let mut world = world(4);
    let mut plan = world.hosts[0].plan.clone();
    plan.listen = vec![4501];
    plan.kernel.table = 99;
    plan.rekey = Rekey::NEVER;
    plan.tun.as_mut().unwrap().name = "mesh0".into();
    plan.offload.tun = Switch::Off;
    plan.log = Some("debug".into());
    plan.steering.exit = true;
    // Who we are to each peer is by our name, unless they are told otherwise.
    plan.name = "other".into();
    plan.peers.iter_mut().for_each(|peer| peer.local_id = Identity::fqdn("other"));
    let restart = ["name", "listen", "tun", "rekey", "kernel", "exit", "offload", "log"];
    let done = world.reload(0, plan);
    assert_eq!(done.needs_restart, restart);
    assert!(done.is_nothing());
    assert_eq!(world.snapshot(0).config.needs_restart, restart);
    // The name by which the tests find it.
    world.hosts[0].plan.name = "n0".into();
    assert!(all_up(&world));
    // And is told again as long as it is so.
    let mut again = world.hosts[0].plan.clone();
    again.name = "other".into();
    assert_eq!(world.reload(0, again).needs_restart, restart);
    let before = world.snapshot(0).peers;
    let now = world.now;
    world.hosts[0].node.as_mut().unwrap().reload_failed("x".repeat(500));
    let after = world.node(0).snapshot(now);
    assert_eq!(after.peers, before);
    assert!(after.config.problem.is_some_and(|problem| problem.len() <= 160));
}

#[test]
fn reloads_without_end_leave_nothing_behind() {
    let mut world = world(5);
    let full = world.hosts[0].plan.clone();
    for turn in 0..100 {
        let mut plan = full.clone();
        plan.peers.retain(|_| world.rng.below(2) > 0);
        plan.announce.retain(|_| world.rng.below(2) > 0);
        world.reload(0, plan);
        let pause = world.rng.below(5000);
        world.run(millis(u64::from(pause)));
        assert!(world.node(0).sizes()[0] <= 2, "turn {turn}");
    }
    world.reload(0, full);
    assert!(world.run_until(seconds(60), |world| all_up(world) && has_route(world, 3, 1)).is_some());
    assert_eq!(world.node(0).sizes()[..2], [2, 0]);
}
