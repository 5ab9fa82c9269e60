//! Addresses that change under a running tunnel (C1), and copies of old packets that must not move it.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use super::super::{Mesh, Nat, World, underlay};
use super::{lost_pings, pair_reaches, seconds};
use crate::path::{Path, SocketId};

fn public(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

/// Host 0 sits behind a NAT and dials host 1.
fn behind_nat(seed: u64) -> World {
    let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
    world.hosts[0].nat = Some(Nat::new(public(1)));
    world.start_all();
    world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
    world
}

#[test]
fn a_nat_that_rebinds_in_mid_flow_costs_at_most_three_pings() {
    for seed in 0..20 {
        let mut world = behind_nat(seed);
        let sas = (world.peer(1, "n0").links[0].spi_in, world.inits[&0]);
        for last in [1, 2] {
            world.hosts[0].nat.as_mut().unwrap().rebind(public(last));
            assert!(lost_pings(&mut world, 0, 1, seconds(5)) <= 3, "seed {seed}: pings from inside");
        }
        world.hosts[0].nat.as_mut().unwrap().rebind(public(3));
        let quiet = world.run_until(seconds(25), |world| {
            world.peer(1, "n0").links[0].remote.as_deref().is_some_and(|remote| remote.starts_with("203.0.113.3:"))
        });
        assert!(quiet.is_some(), "seed {seed}: idle, the move was not noticed");
        assert_eq!(lost_pings(&mut world, 1, 0, seconds(3)), 0, "seed {seed}: pings from outside");
        assert_eq!((world.peer(1, "n0").links[0].spi_in, world.inits[&0]), sas, "seed {seed}: a new session was made");
    }
}

#[test]
fn a_replayed_packet_from_a_third_address_moves_nothing() {
    let mut world = behind_nat(1);
    let copies: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let tap = Rc::clone(&copies);
    world.wires.get_mut(&(0, 1)).unwrap().filter = Some(Box::new(move |seen| {
        tap.borrow_mut().push(seen.payload.to_vec());
        true
    }));
    lost_pings(&mut world, 0, 1, seconds(2));
    let before = world.peer(1, "n0").links[0].remote.clone();
    let stranger = SocketAddr::new(public(99), 4500);
    for copy in copies.take() {
        world.inject(1, Path { socket: SocketId(0), local: Some(underlay(1)), remote: stranger }, copy);
    }
    assert_eq!(world.peer(1, "n0").links[0].remote, before);
    let drops = world.snapshot(1).drops;
    assert!(drops.iter().any(|drop| drop.reason == "replay_seen" && drop.count > 0), "{drops:?}");
    assert_eq!(lost_pings(&mut world, 1, 0, seconds(1)), 0);
}

#[test]
fn a_datagram_from_a_mesh_address_moves_nothing() {
    // C5: an authentic packet that was held back and comes from an address inside the mesh.
    let mut world = behind_nat(2);
    let held: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let tap = Rc::clone(&held);
    world.wires.get_mut(&(0, 1)).unwrap().filter = Some(Box::new(move |seen| {
        tap.borrow_mut().push(seen.payload.to_vec());
        false
    }));
    let ping = world.ping(0, super::super::address4(0), super::super::address4(1));
    assert!(world.answer(ping).is_none());
    world.wires.get_mut(&(0, 1)).unwrap().filter = None;
    let before = world.peer(1, "n0").links[0].remote.clone();
    let inside = SocketAddr::new(super::super::address4(0), 4500);
    let last = held.take().pop().expect("a packet");
    world.inject(1, Path { socket: SocketId(0), local: Some(underlay(1)), remote: inside }, last);
    assert_eq!(world.peer(1, "n0").links[0].remote, before);
    assert!(
        world.snapshot(1).drops.iter().any(|drop| drop.reason == "underlay_in_mesh"),
        "{:?}",
        world.snapshot(1).drops
    );
}

/// A peer that comes again and again, each time from another address, is given room by taking it from what is dead, whole.
#[test]
fn sessions_that_made_room_are_closed() {
    let mut world = behind_nat(3);
    for round in 0..40u8 {
        world.kill(0);
        world.run(seconds(1));
        world.hosts[0].nat.as_mut().unwrap().rebind(public(10 + round));
        world.start(0);
        world.run(seconds(1));
    }
    let sas = world.node(1).ike_sas().len();
    assert!(sas <= 9, "{sas} IKE SAs");
    world.run(seconds(60));
    assert_eq!(world.node(1).ike_sas().len(), 1);
}
