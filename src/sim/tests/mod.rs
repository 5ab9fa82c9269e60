//! Scenarios: what happens to meshes in the field, on virtual time.

mod control;
mod dead;
mod families;
mod meshes;
mod moves;
mod port500;
mod rekey;
mod reload;
mod renewal;
mod silence;
mod starts;
mod steering;
mod triangle;

use std::time::Duration;

use super::World;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The name of the next hop from one host to another, `None` without a route.
fn next_hop(world: &World, from: usize, to: usize) -> Option<String> {
    let node = world.node(from);
    let (_, peer) = node.forward(super::address4(to), super::address4(from))?;
    peer.map(str::to_owned)
}

/// Whether there is a route from one host to another.
fn has_route(world: &World, from: usize, to: usize) -> bool {
    world.node(from).forward(super::address4(to), super::address4(from)).is_some_and(|(_, peer)| peer.is_some())
}

/// Hosts 0 and 1 have a session and know the way to each other.
fn pair_reaches(world: &World) -> bool {
    all_up(world) && next_hop(world, 0, 1).is_some() && next_hop(world, 1, 0).is_some()
}

/// Pings until an answer comes, and says how long that one took.
fn ping_until_answered(world: &mut World, from: usize, to: usize, limit: Duration) -> Option<Duration> {
    let end = world.now + limit;
    while world.now < end {
        let ping = world.ping(from, super::address4(from), super::address4(to));
        if world.run_until(seconds(1), |world| world.answer(ping).is_some()).is_some() {
            return world.answer(ping);
        }
    }
    None
}

/// One ping every 100 ms for a while: how many were lost (answers get a second to arrive).
fn lost_pings(world: &mut World, from: usize, to: usize, span: Duration) -> usize {
    let end = world.now + span;
    let mut sent = Vec::new();
    while world.now < end {
        sent.push(world.ping(from, super::address4(from), super::address4(to)));
        world.run(millis(100));
    }
    world.run(seconds(1));
    sent.into_iter().filter(|ping| world.answer(*ping).is_none()).count()
}

/// Every pair of hosts with a wire has a session that carries data, at both ends.
fn all_up(world: &World) -> bool {
    world.wires.keys().all(|(a, b)| world.is_up(*a, *b))
}

/// Every host reaches every other one.
fn all_reach(world: &World) -> bool {
    let hosts = world.hosts.len();
    (0..hosts).all(|from| (0..hosts).all(|to| from == to || has_route(world, from, to)))
}
