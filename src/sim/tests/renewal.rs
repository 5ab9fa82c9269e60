//! Sessions that have to be replaced although nothing is broken: no Child SA, or one that wears out.

use super::super::{Mesh, World};
use super::{all_up, lost_pings, pair_reaches, seconds};
use crate::crypto::aead::Cipher;
use crate::status::model::State;

/// The exchange type of IKE_SA_INIT stands behind the non-ESP marker and both SPIs.
fn is_init(payload: &[u8]) -> bool {
    payload.len() > 22 && payload[..4] == [0; 4] && payload[22] == 34
}

#[test]
fn a_session_without_a_child_is_told_and_tried_anew() {
    for dialler in [0, 1] {
        let mut world = Mesh::of(dialler as u64, 2, [(dialler, 1 - dialler, 10)]).one_way().build();
        for (host, cipher) in world.hosts.iter_mut().zip([Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305]) {
            host.plan.peers.iter_mut().for_each(|peer| peer.suites.esp = vec![cipher]);
        }
        world.start_all();
        world.run(seconds(30));
        for (host, other) in [(0, "n1"), (1, "n0")] {
            let peer = world.peer(host, other);
            assert_ne!(peer.state, State::Up);
            assert!(peer.reason.is_some(), "host {host}");
        }
        let before = world.inits[&dialler];
        world.run(seconds(1200));
        let tries = world.inits[&dialler] - before;
        assert!((10..=130).contains(&tries), "{tries} tries in 20 minutes");
        for host in 0..2 {
            let [links, sockets, _, _, sas] = world.node(host).sizes();
            assert!(links <= 1 && sockets <= 1 && sas <= 2, "{:?}", world.node(host).sizes());
        }
    }
}

#[test]
fn a_worn_session_is_replaced_even_if_the_first_try_fails() {
    for (seed, host) in [(1, 0), (2, 1)] {
        let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
        world.start_all();
        world.run_until(seconds(10), |world| pair_reaches(world)).expect("up");
        let spi = |world: &World| world.peer(host, if host == 0 { "n1" } else { "n0" }).links[0].spi_out;
        let before = spi(&world);
        for key in [(0, 1), (1, 0)] {
            world.wires.get_mut(&key).unwrap().filter = Some(Box::new(|seen| !is_init(seen.payload)));
        }
        // Rekeying would do, and is refused.
        world.hosts[1 - host].node.as_mut().unwrap().refuse_children();
        world.wear(host);
        world.run(seconds(45));
        assert_eq!(spi(&world), before);
        for key in [(0, 1), (1, 0)] {
            world.wires.get_mut(&key).unwrap().filter = None;
        }
        assert_eq!(lost_pings(&mut world, 0, 1, seconds(90)), 0, "host {host}: traffic goes on meanwhile");
        assert_ne!(spi(&world), before, "host {host}: the plane says it only once");
        assert!(all_up(&world));
    }
}
