//! Meshes of twenty whose links come and go: no loop at any step, and everybody reaches everybody when it is quiet again.

use super::super::{Mesh, World};
use super::{all_reach, all_up, next_hop, seconds};

fn line() -> Vec<(usize, usize, u64)> {
    (0..19).map(|host| (host, host + 1, 5)).collect()
}

fn ring() -> Vec<(usize, usize, u64)> {
    (0..20).map(|host| (host, (host + 1) % 20, 5)).collect()
}

fn star() -> Vec<(usize, usize, u64)> {
    (1..20).map(|host| (0, host, 10)).collect()
}

fn full() -> Vec<(usize, usize, u64)> {
    (0..20).flat_map(|a| (a + 1..20).map(move |b| (a, b, 5 + (a as u64 * 7 + b as u64 * 13) % 60))).collect()
}

/// Cuts and mends random wires for a while; the world checks its invariants at every step.
fn shake(world: &mut World, rounds: u32) {
    let wires: Vec<(usize, usize)> = world.wires.keys().copied().filter(|(a, b)| a < b).collect();
    let pick = |world: &mut World| wires[world.rng.below(wires.len() as u32) as usize];
    for _ in 0..rounds {
        for _ in 0..1 + wires.len() / 20 {
            let (a, b) = pick(world);
            let up = world.rng.below(3) > 0;
            world.change(a, b, |wire| wire.up = up);
        }
        let pause = world.rng.below(12);
        world.run(seconds(u64::from(pause) + 1));
    }
    for (a, b) in wires {
        world.change(a, b, |wire| wire.up = true);
    }
}

fn survives(wires: Vec<(usize, usize, u64)>, seed: u64, rounds: u32) {
    let mut world = Mesh::of(seed, 20, wires).build();
    world.start_all();
    assert!(world.run_until(seconds(10), |world| all_up(world)).is_some(), "seed {seed}: not up at the start");
    assert!(
        world.run_until(seconds(60), |world| all_reach(world)).is_some(),
        "seed {seed}: no full reach at the start"
    );
    shake(&mut world, rounds);
    assert!(world.run_until(seconds(70), |world| all_up(world)).is_some(), "seed {seed}: not up after the storm");
    assert!(
        world.run_until(seconds(90), |world| all_reach(world)).is_some(),
        "seed {seed}: no full reach after the storm"
    );
}

#[test]
fn a_line_of_twenty() {
    survives(line(), 11, 12);
}

#[test]
fn a_ring_of_twenty() {
    survives(ring(), 12, 12);
}

#[test]
fn a_star_of_twenty() {
    survives(star(), 13, 12);
}

#[test]
fn a_full_mesh_of_twenty() {
    survives(full(), 14, 6);
}

#[test]
fn when_quiet_every_path_is_the_shortest() {
    let seed = 15;
    // A grid of 4 × 4 with uneven delays.
    let wires: Vec<(usize, usize, u64)> = (0..16)
        .flat_map(|host| {
            let right = (host % 4 < 3).then(|| (host, host + 1, 5 + (host as u64 * 17) % 50));
            let down = (host < 12).then(|| (host, host + 4, 5 + (host as u64 * 29) % 70));
            right.into_iter().chain(down)
        })
        .collect();
    let mut world = Mesh::of(seed, 16, wires.clone()).build();
    world.start_all();
    world.run(seconds(180));
    // The cost of design section 7 with the RTT of two delays, all Hellos delivered.
    let cost = |delay: u64| 16 + 4000 * (2 * delay).saturating_sub(1) / 999;
    let mut best = vec![vec![u64::MAX / 4; 16]; 16];
    for (host, row) in best.iter_mut().enumerate() {
        row[host] = 0;
    }
    for _ in 0..16 {
        for (a, b, delay) in &wires {
            for (from, to) in [(*a, *b), (*b, *a)] {
                for target in 0..16 {
                    best[from][target] = best[from][target].min(cost(*delay) + best[to][target]);
                }
            }
        }
    }
    for from in 0..16 {
        for to in (0..16).filter(|to| *to != from) {
            let taken = walk(&world, from, to, &wires, cost);
            // Hysteresis may keep a path that is a little longer.
            assert!(
                taken <= best[from][to] + best[from][to] / 10 + 8,
                "{from} → {to}: {taken}, best {}",
                best[from][to]
            );
        }
    }
}

/// The cost of the way that packets take.
fn walk(world: &World, from: usize, to: usize, wires: &[(usize, usize, u64)], cost: impl Fn(u64) -> u64) -> u64 {
    let (mut at, mut sum) = (from, 0);
    while at != to {
        let name = next_hop(world, at, to).expect("a route");
        let next: usize = name[1..].parse().unwrap();
        let wire = wires.iter().find(|(a, b, _)| (*a, *b) == (at, next) || (*b, *a) == (at, next)).unwrap();
        sum += cost(wire.2);
        at = next;
    }
    sum
}
