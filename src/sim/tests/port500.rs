//! Sessions that begin on port 500 (RFC 7296 §2.23): no marker there, and everything after the first exchange at 4500.

use std::net::SocketAddr;

use super::super::build::endpoint;
use super::super::{Mesh, Nat, World, underlay};
use super::{lost_pings, pair_reaches, seconds};

/// Host 0 dials port 500 of host 1.
fn dialled_at_500(seed: u64, listen: [Vec<u16>; 2]) -> World {
    let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
    world.hosts[0].plan.peers[0].endpoints = vec![endpoint(SocketAddr::new(underlay(1), 500))];
    for (host, ports) in world.hosts.iter_mut().zip(listen) {
        host.plan.listen = ports;
    }
    world
}

#[test]
fn a_session_begins_at_500_and_goes_on_at_4500() {
    let own = [vec![4500], vec![500, 4500], vec![4500, 500], vec![14500]];
    for (seed, ports) in (0..).zip(own) {
        let mut world = dialled_at_500(seed, [ports, vec![4500, 500]]);
        if seed % 2 == 1 {
            world.hosts[0].nat = Some(Nat::new([203, 0, 113, 1].into()));
        }
        world.start_all();
        world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
        let remote = world.peer(0, "n1").links[0].remote.clone();
        assert_eq!(remote, Some(format!("{}:4500", underlay(1))), "seed {seed}");
        assert_eq!(lost_pings(&mut world, 0, 1, seconds(60)), 0, "seed {seed}");
        assert_eq!(world.inits[&0], 1, "seed {seed}: one session, begun once");
    }
}

#[test]
fn two_endpoints_that_differ_by_port_500_are_one_tunnel() {
    let mut world = dialled_at_500(4, [vec![4500], vec![4500, 500]]);
    world.hosts[0].plan.peers[0].endpoints.push(endpoint(SocketAddr::new(underlay(1), 4500)));
    world.start_all();
    world.run(seconds(60));
    let reasons: Vec<_> = world.peer(0, "n1").links.into_iter().filter_map(|link| link.reason).collect();
    assert!(reasons.len() == 1 && reasons[0].contains("is reached by the tunnel to"), "{reasons:?}");
    assert_eq!(lost_pings(&mut world, 0, 1, seconds(10)), 0);
}
