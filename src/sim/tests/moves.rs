//! Addresses that change under a running tunnel (C1), and copies of old packets that must not move it.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use super::super::{Mesh, Nat, World, underlay};
use super::{lost_pings, millis, pair_reaches, seconds};
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

/// Host 0 dials host 1, and nothing is between them.
fn pair(seed: u64) -> World {
    let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
    world.start_all();
    world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
    world
}

/// Both ends send to where the other one is.
fn found(world: &World) -> bool {
    let sends_to = |host: usize, other: usize| {
        let remote = world.peer(host, ["n1", "n0"][host]).links[0].remote.clone();
        remote.is_some_and(|remote| remote.starts_with(&format!("{}:", world.hosts[other].addresses[0])))
    };
    sends_to(0, 1) && sends_to(1, 0)
}

/// The same, and it is the same session still.
fn settled(world: &World) -> bool {
    found(world) && world.inits[&0] == 1
}

#[test]
fn our_own_address_changes_in_mid_flow() {
    for seed in 0..10 {
        for host in 0..2 {
            let mut world = pair(seed);
            for turn in 0..3u8 {
                world.readdress(host, vec![IpAddr::from([198, 51, 100, 10 + turn])]);
                let (mut lost, start) = (0, world.now);
                for from in [0, 1] {
                    lost += lost_pings(&mut world, from, 1 - from, seconds(2));
                }
                assert!(lost <= 2, "seed {seed}, host {host}: {lost} lost");
                assert!(settled(&world), "seed {seed}, host {host}, since {start:?}");
                // And without any traffic but Babel's.
                world.hosts[host].addresses = vec![IpAddr::from([198, 51, 100, 20 + turn])];
                let quiet = world.run_until(seconds(5), |world| settled(world));
                assert!(quiet.is_some(), "seed {seed}, host {host}: idle, the move was not told");
            }
        }
    }
}

/// No way out for some seconds, and then from another address: the session is kept if that was short, and made anew if not.
#[test]
fn our_own_address_goes_and_another_one_comes() {
    for (host, span) in [(0, 1), (0, 3), (0, 10), (0, 30), (0, 100), (1, 1), (1, 3)] {
        let mut world = pair(span);
        world.hosts[host].addresses.clear();
        world.run(seconds(span));
        world.readdress(host, vec![IpAddr::from([198, 51, 100, 9])]);
        let back = world.run_until(seconds(10), |world| pair_reaches(world) && found(world));
        assert!(back.is_some(), "host {host}, {span} s: {:?}", world.peer(0, "n1"));
        assert!(span > 3 || world.inits[&0] == 1, "host {host}, {span} s: another session");
    }
}

/// The same with IKE: the session is not looked for inside the mesh from then on.
#[test]
fn an_ike_message_from_a_mesh_address_moves_nothing() {
    let mut world = Mesh::of(2, 2, [(0, 1, 10)]).one_way().build();
    world.hosts[0].nat = Some(Nat::new(public(1)));
    world.hosts[0].plan.rekey.child = Some(seconds(10));
    world.start_all();
    world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
    // Host 0's request to rekey is held back, and comes from elsewhere.
    let held: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let tap = Rc::clone(&held);
    world.wires.get_mut(&(0, 1)).unwrap().filter = Some(Box::new(move |seen| {
        let ike = seen.payload[..4] == [0; 4];
        if ike {
            tap.borrow_mut().push(seen.payload.to_vec());
        }
        !ike
    }));
    world.run_until(seconds(15), |_| !held.borrow().is_empty()).expect("a request");
    world.run(millis(100));
    let inside = SocketAddr::new(super::super::address4(0), 4500);
    for request in held.take() {
        world.inject(1, Path { socket: SocketId(0), local: Some(underlay(1)), remote: inside }, request);
    }
    assert!(world.snapshot(1).drops.iter().any(|drop| drop.reason == "ike_underlay_in_mesh"));
    // Host 0 falls silent, so host 1 asks for a sign of life.
    let asked: Rc<RefCell<usize>> = Rc::default();
    let tap = Rc::clone(&asked);
    world.wires.get_mut(&(0, 1)).unwrap().filter = Some(Box::new(|_| false));
    world.wires.get_mut(&(1, 0)).unwrap().filter = Some(Box::new(move |seen| {
        *tap.borrow_mut() += usize::from(seen.payload[..4] == [0; 4]);
        false
    }));
    world.run_until(seconds(25), |_| *asked.borrow() > 0).expect("the question takes the way of the data");
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
