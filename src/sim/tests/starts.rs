//! Beginnings: both sides at once (D3), loss during the handshake, a peer that comes back as somebody who remembers nothing.

use super::super::{Mesh, World};
use super::{all_up, lost_pings, millis, pair_reaches, ping_until_answered, seconds};

/// One session at both ends, with matching SPIs, and one neighbour.
fn one_session(world: &World) -> Result<(), String> {
    let [a, b] = [0, 1].map(|host| world.snapshot(host));
    let [link_a, link_b] = [&a, &b].map(|snapshot| &snapshot.peers[0].links);
    if link_a.len() != 1 || link_b.len() != 1 {
        return Err(format!("{} and {} links", link_a.len(), link_b.len()));
    }
    if (link_a[0].spi_in, link_a[0].spi_out) != (link_b[0].spi_out, link_b[0].spi_in) || link_a[0].spi_in.is_none() {
        return Err("SPIs do not match".to_owned());
    }
    if a.neighbours.len() != 1 || b.neighbours.len() != 1 {
        return Err(format!("{} and {} neighbours", a.neighbours.len(), b.neighbours.len()));
    }
    Ok(())
}

fn both_at_once(delay: u64, loss: u32, seeds: std::ops::Range<u64>) {
    let limit = if loss == 0 { seconds(5) } else { seconds(20) };
    for seed in seeds {
        let mut world = Mesh::of(seed, 2, [(0, 1, delay)]).build();
        world.change(0, 1, |wire| wire.loss = loss);
        world.start_all();
        world.run(limit);
        world.change(0, 1, |wire| wire.loss = 0);
        // A DELETE or a Hello may be under way.
        let settled = world.run_until(seconds(5), |world| one_session(world).is_ok() && pair_reaches(world));
        assert!(settled.is_some(), "seed {seed}, {delay} ms, {loss} %: {:?}", one_session(&world));
        if loss == 0 {
            for host in 0..2 {
                assert!(world.inits[&host] <= 3, "seed {seed}, {delay} ms: {} IKE_SA_INIT", world.inits[&host]);
            }
        }
        assert_eq!(lost_pings(&mut world, 0, 1, seconds(1)), 0, "seed {seed}");
    }
}

#[test]
fn both_dial_at_once_0_ms() {
    both_at_once(0, 0, 0..250);
}

#[test]
fn both_dial_at_once_1_ms() {
    both_at_once(1, 0, 0..250);
}

#[test]
fn both_dial_at_once_50_ms() {
    both_at_once(50, 0, 0..250);
}

#[test]
fn both_dial_at_once_300_ms() {
    both_at_once(300, 0, 0..250);
}

#[test]
fn both_dial_at_once_with_loss() {
    for delay in [0, 1, 50, 300] {
        both_at_once(delay, 10, 1000..1100);
    }
}

#[test]
fn thirty_percent_loss_during_the_handshake() {
    for seed in 0..50 {
        let mut world = Mesh::of(seed, 2, [(0, 1, 30)]).one_way().build();
        world.change(0, 1, |wire| wire.loss = 30);
        world.start_all();
        let up = world.run_until(seconds(90), |world| all_up(world));
        assert!(up.is_some(), "seed {seed}: {:?}", world.peer(0, "n1"));
    }
}

#[test]
fn reordering_and_doubling_lose_nothing() {
    for seed in 0..20 {
        let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).build();
        world.change(0, 1, |wire| (wire.duplicate, wire.reorder, wire.held) = (30, 30, millis(25)));
        world.start_all();
        assert!(world.run_until(seconds(5), |world| pair_reaches(world)).is_some(), "seed {seed}");
        assert_eq!(lost_pings(&mut world, 0, 1, seconds(10)), 0, "seed {seed}");
    }
}

#[test]
fn a_peer_that_restarts_with_the_same_identity() {
    for seed in 0..20 {
        for (restarted, one_way) in [(0, true), (1, true), (0, false), (1, false)] {
            let mesh = Mesh::of(seed, 2, [(0, 1, 10)]);
            let mut world = if one_way { mesh.one_way() } else { mesh }.build();
            world.start_all();
            world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
            let pause = world.rng.below(20_000);
            world.run(millis(u64::from(pause)));
            world.kill(restarted);
            let pause = world.rng.below(30_000);
            world.run(millis(u64::from(pause)));
            world.start(restarted);
            let answered = ping_until_answered(&mut world, 0, 1, seconds(30));
            assert!(answered.is_some(), "seed {seed}: host {restarted} restarted: {:?}", world.snapshot(0).peers);
            world.run(seconds(30));
            assert_eq!(one_session(&world), Ok(()), "seed {seed}: host {restarted} restarted");
            assert_eq!(lost_pings(&mut world, 0, 1, seconds(2)), 0, "seed {seed}");
        }
    }
}
