//! Several ways to one peer: two families (C3), one name with both, a name and its own address.

use std::net::{IpAddr, SocketAddr};

use super::super::build::endpoint;
use super::super::{Mesh, World, underlay};
use super::{lost_pings, pair_reaches, seconds};
use crate::config::plan::{Endpoint, Host};

fn six(host: u16) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host + 1])
}

/// Two hosts with both families; host 0 dials.
fn dual(seed: u64, endpoints: Vec<Endpoint>) -> World {
    let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
    for host in 0..2 {
        world.hosts[host].addresses.push(six(host as u16));
    }
    world.hosts[0].plan.peers[0].endpoints = endpoints;
    world
}

/// The middle carries no packet of this family any more.
fn cut_family(world: &mut World, ipv6: Option<bool>) {
    world.dead_family = ipv6;
}

#[test]
fn two_endpoints_of_two_families_are_two_tunnels() {
    for seed in 0..5 {
        let both = [six(1), underlay(1)].map(|address| endpoint(SocketAddr::new(address, 4500)));
        let mut world = dual(seed, both.to_vec());
        world.start_all();
        let up = |world: &mut World| world.peer(0, "n1").links.iter().filter(|link| link.rtt_us.is_some()).count() == 2;
        world.run_until(seconds(20), up).expect("two tunnels");
        world.run(seconds(20));
        for dead in [true, false] {
            cut_family(&mut world, Some(dead));
            let other = world.run_until(seconds(15), |world| {
                let ping = world.ping(0, super::super::address4(0), super::super::address4(1));
                world.run(seconds(1));
                world.answer(ping).is_some()
            });
            assert!(other.is_some(), "seed {seed}: IPv6 dead: {dead}: {:?}", world.peer(0, "n1"));
            cut_family(&mut world, None);
            world.run_until(seconds(90), up).expect("both again");
        }
        assert_eq!(lost_pings(&mut world, 0, 1, seconds(2)), 0, "seed {seed}");
        assert_eq!(world.node(0).sizes()[0], 2, "seed {seed}");
    }
}

#[test]
fn one_name_with_both_families_leaves_the_dead_one() {
    for seed in 0..5 {
        let mut world = dual(seed, vec![Endpoint { host: Host::Name("vpn.example".into()), port: 4500 }]);
        world.hosts[0].names.insert("vpn.example".into(), Ok(vec![six(1), underlay(1)]));
        world.start_all();
        world.run_until(seconds(10), |world| pair_reaches(world)).expect("up");
        assert!(world.peer(0, "n1").links[0].remote.as_deref().is_some_and(|remote| remote.starts_with("[2001:db8")));
        cut_family(&mut world, Some(true));
        let moved = world.run_until(seconds(45), |world| {
            pair_reaches(world)
                && world.peer(0, "n1").links[0].remote.as_deref().is_some_and(|remote| remote.starts_with("198.18"))
        });
        assert!(moved.is_some(), "seed {seed}: {:?}", world.peer(0, "n1"));
        cut_family(&mut world, None);
        let mut remotes = Vec::new();
        for _ in 0..12 {
            world.run(seconds(10));
            remotes.push(world.peer(0, "n1").links[0].remote.clone());
        }
        remotes.dedup();
        assert!(remotes.len() <= 2, "seed {seed}: it flaps: {remotes:?}");
    }
}

#[test]
fn a_name_and_its_own_address_do_not_fight() {
    let named = Endpoint { host: Host::Name("vpn.example".into()), port: 4500 };
    let mut world = dual(3, vec![named, endpoint(SocketAddr::new(underlay(1), 4500))]);
    world.hosts[0].names.insert("vpn.example".into(), Ok(vec![underlay(1)]));
    world.start_all();
    world.run(seconds(60));
    let before = world.inits[&0];
    world.run(seconds(600));
    let tries = world.inits[&0] - before;
    assert!(tries <= 1, "{tries} new sessions in ten minutes");
    let reasons: Vec<_> = world.peer(0, "n1").links.into_iter().filter_map(|link| link.reason).collect();
    assert!(reasons.len() == 1 && reasons[0].contains("is reached by the tunnel to"), "{reasons:?}");
    assert!(world.is_up(0, 1), "{:?}", world.peer(0, "n1"));
}
