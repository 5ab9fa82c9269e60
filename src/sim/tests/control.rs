//! Half-open control planes (E7): what was lost one way, or by a peer that starts anew, is back within three Hellos.

use std::cell::Cell;
use std::rc::Rc;

use super::super::{Mesh, World};
use super::{all_up, has_route, pair_reaches, seconds};
use crate::status::model::State;

const HELLO: u64 = 4;

fn pair(seed: u64) -> World {
    let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
    world.start_all();
    world.run_until(seconds(10), |world| pair_reaches(world)).expect("up");
    world
}

#[test]
fn control_packets_lost_one_way_for_a_minute() {
    for seed in 0..10 {
        let mut world = pair(seed);
        let sas = world.peer(0, "n1").links[0].spi_in;
        // Everything that host 1 sends is lost but what says that IKE lives: no Hello and no IHU reaches host 0.
        world.wires.get_mut(&(0, 1)).unwrap().filter =
            Some(Box::new(|seen| seen.payload.len() < 4 || seen.payload[..4] == [0; 4]));
        world.run(seconds(55));
        let (near, far) = (world.peer(0, "n1"), world.peer(1, "n0"));
        assert_eq!((near.state, far.state), (State::NoData, State::NoData), "seed {seed}");
        let reason = near.reason.expect("a reason");
        assert!(reason.contains("hears us not"), "seed {seed}: {reason}");
        assert!(!has_route(&world, 0, 1), "seed {seed}: no route over a link that works one way");
        world.wires.get_mut(&(0, 1)).unwrap().filter = None;
        let back = world.run_until(seconds(3 * HELLO), |world| pair_reaches(world));
        assert!(back.is_some(), "seed {seed}: {:?} {:?}", world.peer(0, "n1"), world.peer(1, "n0"));
        assert_eq!(world.peer(0, "n1").links[0].spi_in, sas, "seed {seed}: no new session was needed");
    }
}

#[test]
fn a_peer_that_starts_anew_between_two_hellos() {
    for seed in 0..20 {
        let mut world = pair(seed);
        // The other end of the tunnel has the same link-local address, other seqnos and another clock.
        let pause = u64::from(world.rng.below(12));
        world.run(seconds(pause));
        for _ in 0..3 {
            world.kill(1);
            world.start(1);
            world.run(seconds(1));
        }
        // Host 0 dials: it has to notice first (silence of 10 s, then the tries of a sign of life).
        let back = world.run_until(seconds(60), |world| pair_reaches(world));
        assert!(back.is_some(), "seed {seed}: {:?}", world.peer(0, "n1"));
        let settled = world.now;
        world.run(seconds(3 * HELLO));
        assert!(pair_reaches(&world), "seed {seed}: lost again after {settled:?}");
        assert_eq!(world.snapshot(0).neighbours.len(), 1, "seed {seed}");
    }
}

#[test]
fn one_direction_cut_at_any_datagram_of_the_handshake() {
    for k in 1..=16u64 {
        for (from, to) in [(0, 1), (1, 0)] {
            for span in [1, 30, 300] {
                let mut world = Mesh::of(k * 100 + span, 4, [(0, 1, 10), (0, 2, 10), (0, 3, 10)]).one_way().build();
                let count = Rc::new(Cell::new(0));
                let cut = Rc::new(Cell::new(true));
                let (seen, cutting) = (Rc::clone(&count), Rc::clone(&cut));
                world.wires.get_mut(&(from, to)).unwrap().filter = Some(Box::new(move |_| {
                    seen.set(seen.get() + 1);
                    !(cutting.get() && seen.get() > k)
                }));
                world.start_all();
                world.run(seconds(span));
                assert!(world.node(0).poll_timeout().is_some());
                let others = world.is_up(0, 2) && world.is_up(0, 3);
                assert!(others || span < 5, "{from} → {to} cut after {k}: the other peers suffer");
                cut.set(false);
                let up = world.run_until(seconds(60), |world| all_up(world));
                assert!(up.is_some(), "{from} → {to} cut after {k} for {span} s: {:?}", world.peer(0, "n1"));
            }
        }
    }
}
