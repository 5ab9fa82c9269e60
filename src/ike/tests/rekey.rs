//! Rekeying and deleting, by one side and by both at once, with each datagram lost in turn: no packet finds a closed door, and one
//! IKE SA with one Child SA is left (RFC 7296 §2.8, §2.25).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::plan::{PostQuantum, Rekey, Suites};
use crate::crypto::aead::Cipher;
use crate::crypto::kex::{self, Method};
use crate::crypto::rng::Rng;
use crate::ike::context::Context;
use crate::ike::create::{Giving, Half, Nonces, Purpose, What};
use crate::ike::endpoint::{Event, Limits};
use crate::ike::error::Fault;
use crate::ike::established::{Established, Fate};
use crate::ike::sa::{Core, State};
use crate::ike::testing::{Datagram, Node, World, endpoint_with, node_name, peer_id, private_key, suite, suites};
use crate::ike::{payloads, propose};
use crate::time::Time;
use crate::wire::ike::{
    Body, Delete, Exchange, Ke, Message, Notify, NotifyType, Payload, Protocol, Transform, TransformType, transform,
};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// As the node keeps an inbound SA beyond its end.
const DRAIN: Duration = Duration::from_secs(10);

fn up(seed: u64, methods: &[Method]) -> World {
    let ours = || suites(vec![suite(Method::X25519, methods)], PostQuantum::Preferred);
    let mut world = World::of(seed, [ours(), ours()], Limits::default());
    world.connect(0, 1);
    world.run(SECOND);
    world.assert_paired(1);
    world
}

/// Does something to the established SA of a node.
fn act(world: &mut World, node: usize, act: impl FnOnce(&mut Established, &mut Core, &mut Context)) {
    let now = world.now;
    let endpoint = &mut world.nodes[node].endpoint;
    let Some(sa) = endpoint.sas().find(|sa| sa.established).map(|sa| sa.sa) else { return };
    let mut standing = endpoint.sas.remove(&sa).unwrap();
    let State::Established(state) = &mut standing.state else { panic!("established") };
    act(state, &mut standing.core, &mut endpoint.ctx);
    assert!(state.advance(&mut standing.core, &mut endpoint.ctx, now).is_ok());
    endpoint.replace(standing);
    world.drain();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    RekeyChild,
    RekeyIke,
    DeleteChild,
    DeleteIke,
    Create,
}

fn deed(world: &mut World, node: usize, deed: Deed) {
    let now = world.now;
    match deed {
        Deed::RekeyChild => act(world, node, |state, _, _| state.rekey_children(now)),
        Deed::RekeyIke => act(world, node, |state, _, _| state.rekey_at = Some(now)),
        Deed::DeleteChild => act(world, node, |state, _, _| {
            for child in state.children.iter_mut().filter(|child| child.fate == Fate::Stands) {
                child.fate = Fate::Closing;
                state.deletes.push(child.spi_in);
            }
        }),
        Deed::DeleteIke => {
            let sa = world.nodes[node].endpoint.sas().find(|sa| sa.established).map(|sa| sa.sa);
            if let Some(sa) = sa {
                world.nodes[node].endpoint.close(now, sa);
                world.drain();
            }
        }
        Deed::Create => act(world, node, |state, _, _| state.ask = Some(now)),
    }
}

/// What a node's plane would have: when each inbound SA was there, and on which SPI it sent, from when on.
#[derive(Default)]
struct Plane {
    inbound: BTreeMap<u32, (Time, Option<Time>)>,
    sends: Vec<(Time, Option<u32>)>,
    alive: Vec<(u32, u32)>,
}

fn plane(node: &Node) -> Plane {
    let mut plane = Plane::default();
    for (at, event) in &node.events {
        match event {
            Event::ChildUp { child, standby, .. } => {
                plane.inbound.insert(child.spi_in, (*at, None));
                let place = if *standby { 0 } else { plane.alive.len() };
                plane.alive.insert(place, (child.spi_in, child.spi_out));
            }
            Event::ChildUse { spi_in, .. } => {
                let place = plane.alive.iter().position(|child| child.0 == *spi_in).expect("a living child");
                let child = plane.alive.remove(place);
                plane.alive.push(child);
            }
            Event::ChildDown { spi_in: Some(spi_in), .. } => {
                plane.alive.retain(|child| child.0 != *spi_in);
                plane.inbound.get_mut(spi_in).expect("a known child").1 = Some(*at + DRAIN);
            }
            Event::Established { .. }
            | Event::Rekeyed { .. }
            | Event::RekeyRefused { .. }
            | Event::ChildDown { .. }
            | Event::Closed { .. }
            | Event::Heard { .. }
            | Event::Moved { .. }
            | Event::Refused { .. } => {}
        }
        plane.sends.push((*at, plane.alive.last().map(|child| child.1)));
    }
    plane
}

/// Whatever one sends at any moment finds an open door where it arrives.
fn assert_no_loss(world: &World, context: &str) {
    for from in 0..2 {
        let (sender, receiver) = (plane(&world.nodes[from]), plane(&world.nodes[1 - from]));
        let first = sender.sends.iter().position(|(_, spi)| spi.is_some()).expect("a child");
        for (place, (since, spi)) in sender.sends.iter().enumerate().skip(first) {
            let until = sender.sends.get(place + 1).map_or(world.now, |next| next.0);
            if *since == until {
                continue;
            }
            let spi = spi.unwrap_or_else(|| panic!("{context}: {from} has nothing to send on at {since:?}"));
            let (open, shut) = receiver.inbound.get(&spi).unwrap_or_else(|| panic!("{context}: nobody has {spi:08x}"));
            assert!(*open <= *since + world.delay, "{context}: {from} sends on {spi:08x} too early");
            if let Some(shut) = shut {
                assert!(*shut >= until + world.delay, "{context}: {from} sends on {spi:08x} for too long");
            }
        }
    }
}

/// One IKE SA and one Child SA are left, with the same SPIs and keys at both ends, and nothing half-done.
fn assert_one(world: &World, context: &str) {
    assert_eq!(world.standing(0).len(), 1, "{context}: {:?} {:?}", world.closed(0), world.closed(1));
    assert_eq!(world.standing(0), world.standing(1), "{context}");
    let planes = [plane(&world.nodes[0]), plane(&world.nodes[1])];
    let [ours, theirs] = planes.map(|plane| plane.alive);
    assert_eq!((ours.len(), theirs.len()), (1, 1), "{context}: {ours:x?} {theirs:x?}");
    assert_eq!((ours[0].0, ours[0].1), (theirs[0].1, theirs[0].0), "{context}");
    let by_spi = |node: usize, spi: u32| world.children(node).into_iter().find(|child| child.spi_in == spi).unwrap();
    let (one, other) = (by_spi(0, ours[0].0), by_spi(1, theirs[0].0));
    assert_eq!((*one.key_in).to_vec(), (*other.key_out).to_vec(), "{context}");
    assert_eq!((*one.key_out).to_vec(), (*other.key_in).to_vec(), "{context}");
    for (number, node) in world.nodes.iter().enumerate() {
        assert_eq!(node.endpoint.sas.len(), 1, "{context}: {number} keeps an IKE SA that is over");
        let sa = node.endpoint.sas.values().next().unwrap();
        let State::Established(state) = &sa.state else { panic!("{context}: not established") };
        assert!(state.making.is_none() && state.giving.is_none() && state.held.is_none(), "{context}: half-done");
        assert!(state.deletes.is_empty() && state.deleting.is_empty() && state.children.len() == 1, "{context}");
        assert_eq!(sa.core.child_spis, [state.children[0].spi_in], "{context}: {number} has SPIs reserved");
        assert_eq!(node.endpoint.poll_timeout(), None, "{context}: {number}");
    }
}

fn once(datagram: &Datagram) -> Vec<(Duration, Vec<u8>)> {
    vec![(Duration::ZERO, datagram.octets.clone())]
}

/// Loses the datagram of this number from now on.
fn lose(world: &mut World, lost: Option<usize>) {
    let first = world.sent.len();
    world.wire = Box::new(
        move |number, datagram| if Some(number) == lost.map(|lost| first + lost) { vec![] } else { once(datagram) },
    );
}

const METHODS: [&[Method]; 3] = [&[], &[Method::MlKem768], &[Method::MlKem768, Method::MlKem1024]];

#[test]
fn a_child_is_rekeyed_by_either_side() {
    for methods in METHODS {
        for node in 0..2 {
            for lost in (0..10).map(Some).chain([None]) {
                let context = format!("{methods:?} by {node}, {lost:?} lost");
                let mut world = up(1, methods);
                let before = world.nodes[1 - node].endpoint.key_exchanges();
                lose(&mut world, lost);
                deed(&mut world, node, Deed::RekeyChild);
                world.run(60 * SECOND);
                assert_no_loss(&world, &context);
                assert_one(&world, &context);
                assert_eq!(world.children(0).len(), 2, "{context}");
                let exchanges = world.nodes[1 - node].endpoint.key_exchanges() - before;
                assert_eq!(exchanges, 1 + methods.len() as u64, "{context}: keys of its own");
            }
        }
    }
}

#[test]
fn an_ike_sa_is_rekeyed_by_either_side() {
    for methods in METHODS {
        for node in 0..2 {
            for lost in (0..10).map(Some).chain([None]) {
                let context = format!("{methods:?} by {node}, {lost:?} lost");
                let mut world = up(2, methods);
                let (sa, spis) = (world.established(0)[0], world.standing(0));
                lose(&mut world, lost);
                deed(&mut world, node, Deed::RekeyIke);
                world.run(60 * SECOND);
                assert_no_loss(&world, &context);
                assert_one(&world, &context);
                assert_ne!(world.standing(0), spis, "{context}");
                assert_eq!(world.children(0).len(), 1, "{context}: the child is inherited");
                assert!(world.nodes[0].endpoint.sa(sa).is_some(), "{context}: the same session");
                // The new one serves: signs of life, another child, and another IKE SA, from both sides.
                for node in [0, 1] {
                    let sa = world.established(node)[0];
                    world.nodes[node].endpoint.probe(world.now, sa);
                    world.run(SECOND);
                    world.nodes[node].endpoint.rekey_children(world.now, sa);
                    world.run(20 * SECOND);
                    world.nodes[node].endpoint.rekey_ike(world.now, sa);
                    world.run(60 * SECOND);
                }
                assert_no_loss(&world, &context);
                assert_one(&world, &context);
                assert_eq!(world.children(0).len(), 3, "{context}");
            }
        }
    }
}

/// Both act at nearly the same instant, each datagram is lost in turn, and the nonces fall this way and that.
fn both(deeds: [Deed; 2], methods: &[Method], lossless: bool, seeds: u64) -> BTreeSet<Vec<usize>> {
    let mut deleters = BTreeSet::new();
    for seed in 0..seeds {
        for offset in [0, 3, 10, 13, 20, 27] {
            for lost in (0..14).map(Some).chain([None]) {
                for first in 0..2 {
                    let context =
                        format!("{deeds:?} {methods:?} seed {seed} offset {offset} lost {lost:?} first {first}");
                    let mut world = up(seed, methods);
                    lose(&mut world, lost);
                    let before = world.sent.len();
                    deed(&mut world, first, deeds[0]);
                    world.run(offset * MS);
                    deed(&mut world, 1 - first, deeds[1]);
                    world.run(120 * SECOND);
                    if lossless {
                        assert_no_loss(&world, &context);
                    }
                    assert_one(&world, &context);
                    let informational = |datagram: &&Datagram| {
                        let header = Message::parse(&datagram.octets).unwrap().header;
                        header.exchange == Exchange::INFORMATIONAL && !header.response
                    };
                    deleters.insert(world.sent[before..].iter().filter(informational).map(|d| d.from).collect());
                }
            }
        }
    }
    deleters
}

#[test]
fn both_rekey_the_child() {
    for methods in &METHODS[..2] {
        let deleters = both([Deed::RekeyChild; 2], methods, true, 4);
        assert!(deleters.iter().any(|by| by.contains(&0)) && deleters.iter().any(|by| by.contains(&1)));
    }
}

#[test]
fn both_rekey_the_ike_sa() {
    for methods in &METHODS[..2] {
        both([Deed::RekeyIke; 2], methods, true, 4);
    }
}

#[test]
fn one_rekeys_the_ike_sa_and_one_the_child() {
    for methods in &METHODS[..2] {
        both([Deed::RekeyIke, Deed::RekeyChild], methods, true, 2);
        both([Deed::RekeyChild, Deed::RekeyIke], methods, true, 2);
    }
}

#[test]
fn one_rekeys_the_child_and_one_deletes_it() {
    both([Deed::RekeyChild, Deed::DeleteChild], &[Method::MlKem768], false, 2);
    both([Deed::DeleteChild, Deed::RekeyChild], &[], false, 2);
}

#[test]
fn both_delete_the_child() {
    both([Deed::DeleteChild; 2], &[], false, 2);
}

#[test]
fn one_deletes_the_child_and_one_rekeys_the_ike_sa() {
    both([Deed::DeleteChild, Deed::RekeyIke], &[Method::MlKem768], false, 2);
    both([Deed::RekeyIke, Deed::DeleteChild], &[], false, 2);
}

/// The IKE SA is deleted while the other side does anything: all is over at both ends.
#[test]
fn whatever_goes_on_the_end_is_the_end() {
    for other in [Deed::RekeyChild, Deed::RekeyIke, Deed::DeleteChild, Deed::DeleteIke, Deed::Create] {
        for methods in &METHODS[..2] {
            for offset in [0, 3, 10, 13, 20, 27] {
                for lost in (0..8).map(Some).chain([None]) {
                    for first in 0..2 {
                        let context = format!("{other:?} {methods:?} offset {offset} lost {lost:?} first {first}");
                        let mut world = up(3, methods);
                        lose(&mut world, lost);
                        deed(&mut world, first, other);
                        world.run(offset * MS);
                        deed(&mut world, 1 - first, Deed::DeleteIke);
                        world.run(120 * SECOND);
                        for (number, node) in world.nodes.iter().enumerate() {
                            assert!(node.endpoint.sas.is_empty(), "{context}: {number} keeps an SA");
                            assert_eq!(node.endpoint.poll_timeout(), None, "{context}");
                        }
                    }
                }
            }
        }
    }
}

/// Case D1: the first request of one side is lost, so that only the other side knows of the collision.
#[test]
fn d1_a_collision_and_a_lost_request() {
    for methods in &METHODS[..2] {
        for first in 0..2 {
            for seed in 0..20 {
                let context = format!("{methods:?} first {first} seed {seed}");
                let mut world = up(seed, methods);
                lose(&mut world, Some(0));
                deed(&mut world, first, Deed::RekeyChild);
                deed(&mut world, 1 - first, Deed::RekeyChild);
                world.run(60 * SECOND);
                assert_no_loss(&world, &context);
                assert_one(&world, &context);
            }
        }
    }
}

/// The peer answers one CREATE_CHILD_SA with this, in the place of the endpoint of node 1.
fn refuse_once(world: &mut World, notify: Notify) {
    let mut refused = false;
    world.scripts.insert(
        1,
        Box::new(move |endpoint, _, _, octets| {
            let header = Message::parse(octets).unwrap().header;
            if header.exchange != Exchange::CREATE_CHILD_SA || header.response || refused {
                return false;
            }
            refused = true;
            let sa = endpoint.sas.values_mut().next().unwrap();
            sa.core.window.noted(octets);
            let State::Established(state) = &mut sa.state else { panic!("established") };
            let answer = [Payload::Notify(notify.clone())];
            sa.core.respond(&mut endpoint.ctx, &mut state.keys, &header, &answer).is_ok()
        }),
    );
}

/// Case D5: the peer refuses our rekeying in a collision and goes on with its own.
#[test]
fn d5_ours_is_refused_and_theirs_goes_on() {
    for methods in &METHODS[..2] {
        for kind in [NotifyType::TS_UNACCEPTABLE, NotifyType::TEMPORARY_FAILURE, NotifyType::CHILD_SA_NOT_FOUND] {
            for what in [Deed::RekeyChild, Deed::RekeyIke] {
                let context = format!("{methods:?} {kind} {what:?}");
                let mut world = up(5, methods);
                refuse_once(&mut world, Notify::new(kind, []));
                deed(&mut world, 0, what);
                deed(&mut world, 1, what);
                world.run(60 * SECOND);
                assert_no_loss(&world, &context);
                assert_one(&world, &context);
                let children = if what == Deed::RekeyChild { 2 } else { 1 };
                assert_eq!(world.children(0).len(), children, "{context}: one rekeying came to something");
            }
        }
    }
}

/// RFC 7296 §2.25: TEMPORARY_FAILURE is waited out; a child that the peer has not is asked for anew.
#[test]
fn refused_rekeyings_are_tried_again() {
    for (kind, what) in [
        (NotifyType::TEMPORARY_FAILURE, Deed::RekeyChild),
        (NotifyType::TEMPORARY_FAILURE, Deed::RekeyIke),
        (NotifyType::NO_PROPOSAL_CHOSEN, Deed::RekeyChild),
        (NotifyType::NO_ADDITIONAL_SAS, Deed::RekeyIke),
        // Case A5: we offer one method in each place, so another one that the peer names is none that we offered.
        (NotifyType::INVALID_KE_PAYLOAD, Deed::RekeyChild),
        (NotifyType::INVALID_KE_PAYLOAD, Deed::RekeyIke),
    ] {
        let mut world = up(6, &[Method::MlKem768]);
        let before = world.standing(0);
        let p256: &[u8] = if kind == NotifyType::INVALID_KE_PAYLOAD { &[0, 19] } else { &[] };
        refuse_once(&mut world, Notify::new(kind, p256));
        deed(&mut world, 0, what);
        world.run(SECOND);
        let refused =
            world.nodes[0].events.iter().filter(|event| matches!(event.1, Event::RekeyRefused { .. })).count();
        assert_eq!(refused, usize::from(kind != NotifyType::TEMPORARY_FAILURE), "{kind}");
        assert_eq!((world.standing(0), world.children(0).len()), (before.clone(), 1), "{kind}: nothing changed");
        world.run(15 * SECOND);
        assert_no_loss(&world, "refused");
        world.run(15 * SECOND);
        assert_one(&world, "refused");
        assert!(world.children(0).len() == 2 || world.standing(0) != before, "{kind}: done in the end");
    }
    let mut world = up(7, &[]);
    let spi = world.children(0)[0].spi_in;
    refuse_once(&mut world, Notify::new(NotifyType::CHILD_SA_NOT_FOUND, []));
    deed(&mut world, 0, Deed::RekeyChild);
    assert!(world.run_until(5 * SECOND, |world| world.children(0).len() == 2));
    assert_eq!(world.child_downs(0)[0].1, Some(spi));
}

/// By time, at both ends alike, for two days of sessions that live for minutes: with loss nothing is stuck, and without it nothing is
/// lost either.
#[test]
fn rekeying_by_time_goes_on_for_ever() {
    for (loss, seed) in [(0, 1), (5, 2), (5, 3)] {
        let mut world = World::pair(seed);
        let rekey = Rekey { child: Some(60 * SECOND), ike: Some(150 * SECOND), octets: None };
        for node in 0..2 {
            let mut endpoint = endpoint_with(node, seed, Suites::default_for(true), Limits::default(), rekey);
            endpoint.add_peer(peer_id(1 - node), &node_name(1 - node), private_key(1 - node).public());
            world.nodes[node].endpoint = endpoint;
        }
        world.connect(0, 1);
        world.run(SECOND);
        let mut rng = Rng::from_number(seed);
        world.wire = Box::new(move |_, datagram| if rng.below(100) < loss { vec![] } else { once(datagram) });
        world.run(6 * 3600 * SECOND);
        assert!(world.closed(0).is_empty() && world.closed(1).is_empty(), "{:?}", world.closed(0));
        assert!(world.children(0).len() > 300, "{}", world.children(0).len());
        assert_no_loss(&world, &format!("loss {loss}"));
        for node in &world.nodes {
            assert!(node.endpoint.sas.len() <= 3, "old IKE SAs go");
        }
    }
}

fn rekey_request(
    world: &World,
    node: usize,
    proposal: Vec<crate::wire::ike::Proposal>,
    ke: Option<Ke>,
) -> Vec<Payload> {
    let spi = world.children(node)[0].spi_in.to_be_bytes().to_vec();
    let [_, initiator, responder] = crate::ike::child::offer(&[Cipher::Aes256Gcm], 0x4444, &[], false);
    let rekey = Payload::Notify(Notify { protocol: Protocol::ESP, spi, kind: NotifyType::REKEY_SA, data: vec![] });
    [rekey, Payload::Sa(proposal), Payload::Nonce(vec![3; 32])]
        .into_iter()
        .chain(ke.map(Payload::Ke))
        .chain([initiator, responder])
        .collect()
}

fn refusal(answer: &[Payload]) -> (NotifyType, Vec<u8>) {
    let [Payload::Notify(notify)] = answer else { panic!("one notify: {answer:?}") };
    (notify.kind, notify.data.clone())
}

/// Case A5: another group at rekey is answered with the one that is meant, and what stands stays.
#[test]
fn a5_a_rekeying_with_another_key_exchange() {
    let mut world = up(8, &[]);
    let mut proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[Method::X25519]);
    proposal.transforms.push(Transform::new(TransformType::KE, 19));
    let p256 = Ke { method: 19, data: vec![4; 64] };
    let request = rekey_request(&world, 1, vec![proposal.clone()], Some(p256.clone()));
    assert_eq!(
        refusal(&world.ask(1, Exchange::CREATE_CHILD_SA, &request)),
        (NotifyType::INVALID_KE_PAYLOAD, vec![0, 31])
    );
    proposal.transforms.retain(|transform| transform.id != transform::X25519);
    let request = rekey_request(&world, 1, vec![proposal], Some(p256));
    assert_eq!(refusal(&world.ask(1, Exchange::CREATE_CHILD_SA, &request)), (NotifyType::NO_PROPOSAL_CHOSEN, vec![]));
    world.run(60 * SECOND);
    assert_no_loss(&world, "A5");
    assert_one(&world, "A5");
}

#[test]
fn a_child_that_is_none_is_not_rekeyed() {
    let mut world = up(9, &[]);
    let proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[]);
    let mut request = rekey_request(&world, 1, vec![proposal], None);
    if let Payload::Notify(rekey) = &mut request[0] {
        rekey.spi = vec![1, 2, 3, 4];
    }
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &request);
    let [Payload::Notify(notify)] = answer.as_slice() else { panic!("{answer:?}") };
    assert_eq!(
        (notify.kind, &notify.spi, notify.protocol),
        (NotifyType::CHILD_SA_NOT_FOUND, &vec![1, 2, 3, 4], Protocol::ESP)
    );
}

/// Case B3: a rekeying of the peer's that stops half-way is forgotten, and what stood stands; an unknown link is told.
#[test]
fn b3_a_half_done_rekeying_is_forgotten() {
    let mut world = up(10, &[Method::MlKem768]);
    let exchange = kex::Initiator::generate(Method::X25519, &mut Rng::from_number(4));
    let proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[Method::X25519, Method::MlKem768]);
    let ke = Ke { method: transform::X25519, data: exchange.public().to_vec() };
    let request = rekey_request(&world, 1, vec![proposal], Some(ke));
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &request);
    assert!(payloads::notify(&answer, NotifyType::ADDITIONAL_KEY_EXCHANGE).is_some());
    let wrong = [Payload::Notify(Notify::new(NotifyType::ADDITIONAL_KEY_EXCHANGE, [1, 2, 3]))];
    assert_eq!(refusal(&world.ask(1, Exchange::IKE_FOLLOWUP_KE, &wrong)).0, NotifyType::STATE_NOT_FOUND);
    world.run(21 * SECOND);
    assert_no_loss(&world, "B3");
    assert_one(&world, "B3");
    assert_eq!(world.children(0).len(), 1);
}

/// Case B3: links are of any length, and every one is another.
#[test]
fn b3_links_of_any_length_are_sent_back() {
    for length in [1, 4, 64, 255] {
        let link = vec![0x5a; length];
        // As responder.
        let mut world = up(11, &[]);
        let ctx = &mut world.nodes[0].endpoint.ctx;
        let proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[Method::X25519]);
        let choice = propose::choose_esp(&[Cipher::Aes256Gcm], &[proposal], false, Some(31)).unwrap();
        let todo = [Method::MlKem768, Method::MlKem512].into();
        let nonces = Nonces { initiator: vec![1; 32], responder: vec![2; 32] };
        let half = Half { what: What::Child { choice, spi_in: 7 }, nonces, shared: vec![], todo };
        let mut giving = Giving { purpose: Purpose::NewChild, half, link: link.clone(), deadline: Time::ZERO };
        let request = |method, link: &[u8]| {
            let exchange = kex::Initiator::generate(method, &mut Rng::from_number(4));
            [crate::ike::create::ke(&exchange), crate::ike::create::link(link)]
        };
        assert_eq!(giving.follow(ctx, &request(Method::MlKem768, &link[1..])), Err(Fault::NoState));
        let answer = giving.follow(ctx, &request(Method::MlKem768, &link)).unwrap();
        let next = payloads::notify(&answer, NotifyType::ADDITIONAL_KEY_EXCHANGE).unwrap().data.clone();
        assert_ne!(next, link);
        let answer = giving.follow(ctx, &request(Method::MlKem512, &next)).unwrap();
        assert!(payloads::notify(&answer, NotifyType::ADDITIONAL_KEY_EXCHANGE).is_none(), "none in the last one");
        assert_eq!((giving.half.shared.len(), giving.half.todo.len()), (2, 0));

        // As initiator: the peer's answer has this link.
        let mut world = up(12, &[Method::MlKem768]);
        deed(&mut world, 0, Deed::RekeyChild);
        let now = world.now;
        let (ours, peer) = {
            let sa = world.nodes[0].endpoint.sas.values().next().unwrap();
            let State::Established(state) = &sa.state else { panic!("established") };
            (state.making.as_ref().unwrap().exchange.as_ref().unwrap().public().to_vec(), sa.core.id)
        };
        let (data, _) = kex::respond(Method::X25519, &ours, &mut Rng::from_number(9)).unwrap();
        let mut proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[Method::X25519, Method::MlKem768]);
        proposal.number = 1;
        let everything = || vec![crate::wire::ike::TrafficSelector::ANY_V4];
        let answer = [
            Payload::Sa(vec![proposal]),
            Payload::Nonce(vec![7; 32]),
            Payload::Ke(Ke { method: transform::X25519, data }),
            Payload::TsI(everything()),
            Payload::TsR(everything()),
            crate::ike::create::link(&link),
        ];
        let endpoint = &mut world.nodes[0].endpoint;
        let mut sa = endpoint.sas.remove(&peer).unwrap();
        sa.core.window.answered();
        let State::Established(state) = sa.state else { panic!("established") };
        let answered = state.answered(&mut sa.core, &mut endpoint.ctx, now, &answer);
        assert!(answered.is_ok_and(|state| state.making.is_some()));
        let datagrams: Vec<_> =
            std::iter::from_fn(|| endpoint.poll_transmit()).map(|sent| sent.datagram[4..].to_vec()).collect();
        let State::Established(theirs) = &world.nodes[1].endpoint.sas.values().next().unwrap().state else { panic!() };
        let mut reassembly = crate::ike::fragment::Reassembly::default();
        let plain = datagrams.iter().find_map(|datagram| match Message::parse(datagram).unwrap().body {
            Body::Sk(sealed) => theirs.keys.opener.open(&sealed).ok(),
            Body::Skf(fragment) => reassembly.add(&theirs.keys.opener, &fragment).unwrap(),
            Body::Clear(_) => None,
        });
        let payloads = plain.unwrap().payloads().unwrap();
        assert_eq!(payloads::notify(&payloads, NotifyType::ADDITIONAL_KEY_EXCHANGE).unwrap().data, link);
        assert_eq!(payloads::ke(&payloads).unwrap().method, transform::ML_KEM_768);
    }
}

/// The answer to a DELETE that crosses our own has no Delete payload (RFC 7296 §2.25.1).
#[test]
fn a_delete_that_crosses_ours_is_answered_without_one() {
    let mut world = up(13, &[]);
    let (ours, theirs) = (world.children(0)[0].spi_in, world.children(0)[0].spi_out);
    world.wire = Box::new(|_, _| vec![]);
    deed(&mut world, 0, Deed::DeleteChild);
    let delete = |spi| Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis: vec![spi] });
    assert_eq!(world.ask(1, Exchange::INFORMATIONAL, &[delete(theirs)]), []);
    assert_eq!(world.child_downs(0)[0].1, Some(ours));
}
