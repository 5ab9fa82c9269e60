//! Green but no data (J5): the middle drops ESP and passes IKE. Up means that data arrives.

use super::super::{Mesh, World};
use super::{all_up, next_hop, seconds};
use crate::status::model::State;

fn is_ike(payload: &[u8]) -> bool {
    payload.len() < 4 || payload[..4] == [0; 4]
}

fn drop_esp(world: &mut World, from: usize, to: usize) {
    world.wires.get_mut(&(from, to)).unwrap().filter = Some(Box::new(|seen| is_ike(seen.payload)));
}

fn pass_all(world: &mut World, from: usize, to: usize) {
    world.wires.get_mut(&(from, to)).unwrap().filter = None;
}

/// Two ways between host 0 and host 2: directly, and by host 1.
fn world(seed: u64) -> World {
    let mut world = Mesh::of(seed, 3, [(0, 1, 50), (1, 2, 50), (0, 2, 5)]).build();
    world.start_all();
    world
        .run_until(seconds(40), |world| all_up(world) && next_hop(world, 0, 2).as_deref() == Some("n2"))
        .expect("the direct link");
    world.run(seconds(20));
    world
}

#[test]
fn esp_dropped_both_ways() {
    for seed in 0..5 {
        let mut world = world(seed);
        drop_esp(&mut world, 0, 2);
        drop_esp(&mut world, 2, 0);
        let found = world.run_until(seconds(15), |world| {
            world.peer(0, "n2").state == State::NoData && world.peer(2, "n0").state == State::NoData
        });
        assert!(found.is_some(), "seed {seed}: {:?}", world.peer(0, "n2"));
        world.run(seconds(2));
        let reason = world.peer(0, "n2").reason.expect("a reason");
        assert!(reason.contains("IKE answers, no data arrives"), "seed {seed}: {reason}");
        assert_eq!(next_hop(&world, 0, 2).as_deref(), Some("n1"), "seed {seed}: the other path");
        assert_eq!(super::lost_pings(&mut world, 0, 2, seconds(2)), 0, "seed {seed}");
        pass_all(&mut world, 0, 2);
        pass_all(&mut world, 2, 0);
        let back = world.run_until(seconds(15), |world| all_up(world));
        assert!(back.is_some(), "seed {seed}: not back by itself: {:?}", world.peer(0, "n2"));
    }
}

#[test]
fn esp_dropped_one_way() {
    for seed in 0..5 {
        let mut world = world(seed);
        drop_esp(&mut world, 0, 2);
        let found = world.run_until(seconds(15), |world| {
            world.peer(0, "n2").state == State::NoData && world.peer(2, "n0").state == State::NoData
        });
        assert!(found.is_some(), "seed {seed}: {:?} {:?}", world.peer(0, "n2"), world.peer(2, "n0"));
        let reason = world.peer(0, "n2").reason.expect("a reason");
        assert!(reason.contains("hears us not"), "seed {seed}: {reason}");
        // The relay's route is worse than what we told others, so it takes a new sequence number first (RFC 8966 §3.8.2).
        world.run(seconds(2));
        assert_eq!(next_hop(&world, 0, 2).as_deref(), Some("n1"), "seed {seed}: the other path");
        pass_all(&mut world, 0, 2);
        assert!(world.run_until(seconds(15), |world| all_up(world)).is_some(), "seed {seed}");
    }
}

#[test]
fn esp_never_passes() {
    let mut world = Mesh::of(9, 2, [(0, 1, 10)]).build();
    drop_esp(&mut world, 0, 1);
    drop_esp(&mut world, 1, 0);
    world.start_all();
    world.run(seconds(30));
    let peer = world.peer(0, "n1");
    assert_eq!(peer.state, State::NoData, "{peer:?}");
    assert!(peer.reason.unwrap().contains("no data arrives"));
    world.run(seconds(3600));
    let peer = world.peer(0, "n1");
    assert!(peer.since_us > 3_600_000_000, "new sessions that carry nothing either are no news: {peer:?}");
    assert!(world.inits[&0] + world.inits[&1] <= 3 * 62, "one new try a minute: {:?}", world.inits);
    for host in 0..2 {
        assert!(world.node(host).sizes()[1] <= 1, "source ports pile up: {:?}", world.node(host).sizes());
    }
    pass_all(&mut world, 0, 1);
    pass_all(&mut world, 1, 0);
    assert!(world.run_until(seconds(15), |world| all_up(world)).is_some());
    world.run(seconds(60));
    let sockets: usize = (0..2).map(|host| world.node(host).sizes()[1]).sum();
    assert!(sockets <= 2, "{sockets} source ports for one tunnel");
}
