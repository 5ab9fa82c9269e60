//! Sessions that are rekeyed again and again, by both ends at about the same time, under traffic.

use std::time::Duration;

use super::super::{Mesh, World, address4};
use super::{millis, pair_reaches, seconds};
use crate::config::plan::Rekey;
use crate::status::model::ChildRole;

/// Two hosts with the same lifetimes; only the first one dials.
fn rekeying(seed: u64, child: u64, ike: u64) -> World {
    let mut world = Mesh::of(seed, 2, [(0, 1, 10)]).one_way().build();
    for host in &mut world.hosts {
        host.plan.rekey = Rekey { child: Some(seconds(child)), ike: Some(seconds(ike)), octets: None };
    }
    world.start_all();
    world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
    world
}

/// Pings from both sides every 20 ms: how many were lost.
fn lost(world: &mut World, span: Duration) -> usize {
    let end = world.now + span;
    let mut sent = Vec::new();
    while world.now < end {
        for (from, to) in [(0, 1), (1, 0)] {
            sent.push(world.ping(from, address4(from), address4(to)));
        }
        world.run(millis(20));
    }
    world.run(seconds(1));
    sent.into_iter().filter(|ping| world.answer(*ping).is_none()).count()
}

fn spis(world: &World, host: usize) -> (Option<u32>, Option<u32>) {
    let link = world.peer(host, ["n1", "n0"][host]).links.remove(0);
    (link.spi_in, link.spi_out)
}

/// Both ends have the same IKE SA and no other, and send on the same Child SA.
fn agree(world: &World) -> bool {
    let (ours, theirs) = (spis(world, 0), spis(world, 1));
    let sas = world.node(0).ike_sas();
    sas.len() == 1 && sas == world.node(1).ike_sas() && ours == (theirs.1, theirs.0)
}

#[test]
fn no_ping_is_lost_while_both_rekey() {
    for seed in 0..4 {
        let mut world = rekeying(seed, 5, 13);
        let before = (spis(&world, 0), world.node(0).ike_sas());
        assert_eq!(lost(&mut world, seconds(500)), 0, "seed {seed}");
        world.run_until(seconds(5), |world| agree(world)).unwrap_or_else(|| panic!("seed {seed}: both ends agree"));
        let after = (spis(&world, 0), world.node(0).ike_sas());
        assert!(before.0 != after.0 && before.1 != after.1, "seed {seed}: it was rekeyed");
        assert_eq!(world.inits[&0], 1, "seed {seed}: no other session");
        assert_eq!(world.peer(0, "n1").links.len(), 1);
    }
}

#[test]
fn hours_of_rekeying_with_loss() {
    for seed in 0..3 {
        let mut world = rekeying(seed, 7, 17);
        world.change(0, 1, |wire| wire.loss = 5);
        for _ in 0..8 {
            world.run(seconds(15 * 60));
            assert!(world.is_up(0, 1) && world.is_up(1, 0), "seed {seed}");
        }
        world.change(0, 1, |wire| wire.loss = 0);
        world.run_until(seconds(40), |world| agree(world)).unwrap_or_else(|| panic!("seed {seed}: both ends agree"));
        assert_eq!(world.inits[&0], 1, "seed {seed}: no other session");
        assert_eq!(lost(&mut world, seconds(60)), 0, "seed {seed}");
    }
}

/// Both ends rekey every few minutes under traffic and loss: one session for all that time, no sequence number twice on a key, and
/// nothing that piles up.
fn a_long_life(seed: u64, span: Duration) {
    let (child, ike) = (180, 420);
    let mut world = rekeying(seed, child, ike);
    world.sequences = Some(std::collections::BTreeMap::new());
    world.change(0, 1, |wire| wire.loss = 5);
    let end = world.now + span;
    let (mut most_sas, mut most_children, mut unheard) = (0, 0, 0);
    let mut sessions = std::collections::BTreeSet::new();
    while world.now < end {
        for (from, to) in [(0, 1), (1, 0)] {
            world.ping(from, address4(from), address4(to));
        }
        world.run(seconds(2));
        for host in 0..2 {
            // Babel may think for a moment that it is not heard; the session has its keys all the same.
            let (inbound, outbound) = spis(&world, host);
            assert!(inbound.is_some() && outbound.is_some(), "seed {seed}: host {host} at {:?}", world.now);
            unheard += u32::from(!world.is_up(host, 1 - host));
            let sas = world.node(host).ike_sas();
            most_sas = most_sas.max(sas.len());
            sessions.extend(sas);
            let children = world.snapshot(host).sas.iter().map(|sa| sa.children.len()).sum();
            most_children = most_children.max(children);
        }
    }
    let sequences = world.sequences.take().unwrap();
    let used = |host| sequences.keys().filter(|key| key.0 == host).count();
    let packets: u64 = sequences.values().map(|&last| u64::from(last)).sum();
    println!(
        "seed {seed}, {span:?}: {} rekeyings of the IKE SA, {} and {} Child SAs sent on, {packets} ESP packets, {} IKE messages, at \
         most {most_sas} IKE SAs and {most_children} Child SAs at once, link down for Babel in {unheard} of {} samples",
        sessions.len() - 1,
        used(0),
        used(1),
        world.ike_messages,
        span.as_secs()
    );
    assert_eq!(world.inits[&0], 1, "seed {seed}: no other session");
    assert!(most_sas <= 3 && most_children <= 6, "seed {seed}: {most_sas} IKE SAs, {most_children} Child SAs");
    let expected = usize::try_from(span.as_secs() / child).unwrap();
    assert!(used(0) >= expected && sessions.len() > expected / 3, "seed {seed}: it was rekeyed");
    world.change(0, 1, |wire| wire.loss = 0);
    world.run_until(seconds(40), |world| agree(world)).unwrap_or_else(|| panic!("seed {seed}: both ends agree"));
    assert_eq!(lost(&mut world, seconds(10)), 0, "seed {seed}");
}

#[test]
fn a_long_life_of_two_hours() {
    a_long_life(1, seconds(2 * 3600));
}

#[test]
#[ignore = "a whole day: cargo nextest run --run-ignored only a_long_life"]
fn a_long_life_of_a_day() {
    for seed in 1..4 {
        a_long_life(seed, seconds(24 * 3600));
    }
}

/// Half of the sequence numbers are used: a new Child SA, and no new session.
#[test]
fn worn_sequence_numbers_are_a_reason_to_rekey() {
    let mut world = rekeying(1, 100_000, 100_000);
    for host in 0..2 {
        let before = (spis(&world, 0), world.node(0).ike_sas());
        world.hosts[host].node.as_mut().unwrap().skip_to((1 << 31) - 10);
        assert_eq!(lost(&mut world, seconds(5)), 0);
        assert!(agree(&world));
        assert_ne!(spis(&world, 0), before.0);
        assert_eq!(world.node(0).ike_sas(), before.1);
        assert_eq!(world.inits[&0], 1);
    }
}

/// So many octets have been carried, by whichever side sends more: a new Child SA.
#[test]
fn octets_are_a_reason_to_rekey() {
    for host in 0..2 {
        let mut world = Mesh::of(3, 2, [(0, 1, 10)]).one_way().build();
        world.hosts[host].plan.rekey.octets = Some(50_000);
        world.hosts[1 - host].plan.rekey.octets = None;
        world.start_all();
        world.run_until(seconds(5), |world| pair_reaches(world)).expect("up");
        let (mut seen, sas) = (std::collections::BTreeSet::new(), world.node(0).ike_sas());
        for _ in 0..10 {
            // 50 pings and 50 answers of 84 octets each way.
            assert_eq!(lost(&mut world, seconds(1)), 0);
            seen.insert(spis(&world, 0));
        }
        // 84,000 octets a direction, and a limit of 45,000 to 50,000.
        assert!((2..=3).contains(&seen.len()), "host {host}: {seen:x?}");
        assert_eq!((world.node(0).ike_sas(), world.inits[&0]), (sas, 1));
    }
}

/// The peer will have no other Child SA; the sequence numbers are running out all the same: a new session.
#[test]
fn a_worn_child_that_cannot_be_rekeyed_gets_a_new_session() {
    let mut world = rekeying(2, 100_000, 100_000);
    let before = world.node(0).ike_sas();
    world.hosts[1].node.as_mut().unwrap().refuse_children();
    world.hosts[0].node.as_mut().unwrap().skip_to((1 << 31) - 10);
    assert_eq!(lost(&mut world, seconds(5)), 0);
    world.run_until(seconds(5), |world| agree(world)).expect("both ends agree");
    assert_ne!(world.node(0).ike_sas(), before);
    assert_eq!(world.inits[&0], 2);
}

/// `wattle sas` and `wattle rekey`: what is shown is what there is, and no packet is lost by asking for new keys.
#[test]
fn a_person_looks_at_the_sas_and_has_them_rekeyed() {
    let mut world = rekeying(5, 1000, 3000);
    let sas = |world: &World, host| world.snapshot(host).sas;
    for (ike, children) in [(false, true), (true, false), (true, true)] {
        for host in 0..2 {
            let (before, theirs) = (sas(&world, host), sas(&world, 1 - host));
            let ([before], [theirs]) = (before.as_slice(), theirs.as_slice()) else { panic!("{before:?} {theirs:?}") };
            assert_eq!((&before.spi_initiator, &before.spi_responder), (&theirs.spi_initiator, &theirs.spi_responder));
            assert_eq!(before.suite.as_deref(), Some("aes256gcm16-prfsha256-x25519-ke1_mlkem768"));
            let ([child], [other]) = (&*before.children, &*theirs.children) else { panic!("{before:?} {theirs:?}") };
            assert_eq!((child.spi_in, child.spi_out), (other.spi_out, other.spi_in));
            assert_eq!((child.packets_in, child.octets_in), (other.packets_out, other.octets_out));
            assert_eq!((child.role, child.replays), (ChildRole::Sending, 0));
            assert!((890_000_000..=1_000_000_000).contains(&(child.age_us + child.rekey_us.expect("a time"))));
            assert!((2_690_000_000..=3_000_000_000).contains(&(before.age_us + before.rekey_us.expect("a time"))));

            let other_end = ["n1", "n0"][host];
            let answer = world.rekey(host, other_end, ike, children).expect("done");
            assert!(answer.contains(other_end) && answer.contains("data") == children && answer.contains("IKE") == ike);
            assert_eq!(lost(&mut world, seconds(12)), 0);
            let after = sas(&world, host).remove(0);
            assert_eq!(after.spi_initiator != before.spi_initiator, ike, "{after:?}");
            assert_eq!(after.children[0].spi_in != child.spi_in, children, "{after:?}");
            if children {
                assert_eq!(after.children[0].suite, "aes256gcm16-x25519-ke1_mlkem768");
            }
            // The clocks of a new SA begin anew.
            assert_eq!(after.age_us < before.age_us, ike);
        }
    }
    let unknown = world.rekey(0, "nobody", true, true).unwrap_err();
    assert!(unknown.contains("no peer is called nobody"), "{unknown}");
    world.kill(1);
    world.run(seconds(60));
    let gone = world.rekey(0, "n1", true, true).unwrap_err();
    assert!(gone.contains("has no session"), "{gone}");
}

#[test]
fn replays_are_counted_where_they_were_dropped() {
    let mut world = rekeying(6, 1000, 3000);
    world.change(0, 1, |wire| wire.duplicate = 100);
    lost(&mut world, seconds(5));
    let child = world.snapshot(1).sas.remove(0).children.remove(0);
    assert!(child.replays > 200 && child.replays <= child.packets_in, "{child:?}");
}
