//! Addresses that change, on either side and on the way between (RFC 4555).

use std::net::SocketAddr;
use std::time::Duration;

use crate::ike::endpoint::{Event, Reason, SaId};
use crate::ike::mobike::Mobike;
use crate::ike::sa::State;
use crate::ike::testing::{Datagram, World, address, path};
use crate::path::Path;
use crate::wire::ike::{Exchange, Notify, NotifyType, Payload};

const SECOND: Duration = Duration::from_secs(1);

fn up(seed: u64) -> World {
    let mut world = World::pair(seed);
    world.connect(0, 1);
    world.run(SECOND);
    world.assert_paired(1);
    world
}

fn place(last: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, last], 4500))
}

fn sa(world: &World, node: usize) -> SaId {
    world.nodes[node].endpoint.sas().find(|sa| sa.established).expect("stands").sa
}

fn path_of(world: &World, node: usize) -> Path {
    world.nodes[node].endpoint.sas().find(|sa| sa.established).expect("stands").path
}

/// A node has another address, and knows it.
fn relocate(world: &mut World, node: usize, to: SocketAddr) {
    world.places[node] = to;
    let (sa, path) = (sa(world, node), Path { local: None, ..path_of(world, node) });
    world.nodes[node].endpoint.relocate(world.now, sa, path);
    world.drain();
}

fn notify(kind: NotifyType, data: &[u8]) -> Payload {
    Payload::Notify(Notify::new(kind, data))
}

fn kinds(payloads: &[Payload]) -> Vec<NotifyType> {
    let kind = |payload: &Payload| if let Payload::Notify(notify) = payload { Some(notify.kind) } else { None };
    payloads.iter().filter_map(kind).collect()
}

fn moves(world: &World, node: usize) -> Vec<(SocketAddr, bool)> {
    let moved = |event: &Event| {
        let Event::Moved { path, behind_nat, .. } = event else { return None };
        Some((path.remote, *behind_nat))
    };
    world.nodes[node].events.iter().filter_map(|(_, event)| moved(event)).collect()
}

/// Both ends send to where the other one is, and nothing is left to do.
fn assert_settled(world: &World, context: &str) {
    for node in 0..2 {
        assert_eq!(path_of(world, node).remote, world.places[1 - node], "{context}: {node}");
        let standing = world.nodes[node].endpoint.sas.values().next().unwrap();
        assert!(!standing.core.mobike.is_due() && !standing.core.window.busy(), "{context}: {node}");
        assert_eq!(world.nodes[node].endpoint.poll_timeout(), None, "{context}: {node}");
        assert!(world.closed(node).is_empty(), "{context}: {:?}", world.closed(node));
    }
    assert_eq!(world.standing(0), world.standing(1), "{context}");
}

fn once(datagram: &Datagram) -> Vec<(Duration, Vec<u8>)> {
    vec![(Duration::ZERO, datagram.octets.clone())]
}

#[test]
fn either_side_moves_and_each_datagram_is_lost_in_turn() {
    for node in 0..2 {
        for lost in (0..8).map(Some).chain([None]) {
            let context = format!("{node} moves, {lost:?} lost");
            let mut world = up(1);
            let (first, moved_at) = (world.sent.len(), world.now);
            world.wire = Box::new(
                move |number, datagram| {
                    if Some(number) == lost.map(|lost| first + lost) { vec![] } else { once(datagram) }
                },
            );
            relocate(&mut world, node, place(7));
            let found = world.run_until(20 * SECOND, |world| path_of(world, 1 - node).remote == place(7));
            assert!(found && world.now.since(moved_at) <= 2 * SECOND, "{context}: {:?}", world.now.since(moved_at));
            world.run(20 * SECOND);
            assert_settled(&world, &context);
            assert_eq!(moves(&world, 1 - node), [(place(7), false)], "{context}");
            if lost.is_none() {
                // UPDATE_SA_ADDRESSES, and the question whether the new address answers; or first the news that it changed.
                assert_eq!(world.sent.len() - first, 4, "{context}");
            }
        }
    }
}

#[test]
fn a_second_move_overtakes_the_first() {
    for after in [0, 5, 10, 15, 20, 25] {
        let mut world = up(2);
        relocate(&mut world, 0, place(7));
        world.run(Duration::from_millis(after));
        relocate(&mut world, 0, place(8));
        world.run(20 * SECOND);
        assert_settled(&world, &format!("after {after} ms"));
    }
}

/// What is under way goes on over the new path; and a session that was rekeyed by the other side still has the same leader.
#[test]
fn moves_and_rekeying_go_together() {
    for by in 0..2 {
        for mover in 0..2 {
            for offset in [0, 5, 10, 15, 20, 30, 45, 60] {
                for ike in [false, true] {
                    let context = format!("rekeyed by {by}, {mover} moves after {offset} ms, ike {ike}");
                    let mut world = up(3);
                    let id = sa(&world, by);
                    let endpoint = &mut world.nodes[by].endpoint;
                    if ike {
                        endpoint.rekey_ike(world.now, id)
                    } else {
                        endpoint.rekey_children(world.now, id)
                    }
                    world.run(Duration::from_millis(offset));
                    relocate(&mut world, mover, place(7));
                    world.run(60 * SECOND);
                    assert_settled(&world, &context);
                    relocate(&mut world, 1 - mover, place(8));
                    world.run(60 * SECOND);
                    assert_settled(&world, &context);
                }
            }
        }
    }
}

/// §3.8: a NAT appears, changes its mapping, and vanishes; a sign of life finds out.
#[test]
fn a_nat_appears_and_vanishes() {
    let mut world = up(4);
    for (seen, behind_nat) in [(Some(place(20)), true), (Some(place(21)), true), (None, false)] {
        world.seen_as.remove(&0);
        if let Some(seen) = seen {
            world.seen_as.insert(0, seen);
        }
        let id = sa(&world, 0);
        world.nodes[0].endpoint.probe(world.now, id);
        world.run(5 * SECOND);
        assert_eq!(path_of(&world, 1).remote, seen.unwrap_or(world.places[0]));
        let standing = world.nodes[0].endpoint.sas.values().next().unwrap();
        assert_eq!(standing.core.behind_nat, behind_nat, "{seen:?}");
    }
    assert_eq!(moves(&world, 0), [(address(1), true), (address(1), false)]);
    assert_eq!(moves(&world, 1), [(place(20), false), (place(21), false), (address(0), false)]);
}

/// §3.8: a message that does not say so moves nothing, and is answered where it came from.
#[test]
fn any_path_can_be_tried() {
    for node in 0..2 {
        let mut world = up(5);
        world.drain();
        let id = sa(&world, node);
        world.nodes[node].endpoint.probe(world.now, id);
        let probe = world.nodes[node].endpoint.poll_transmit().unwrap().datagram[4..].to_vec();
        let other = &mut world.nodes[1 - node].endpoint;
        let elsewhere = Path { remote: place(9), ..path(1 - node, node) };
        other.receive(world.now, elsewhere, &probe);
        assert_eq!(other.poll_transmit().unwrap().path, elsewhere);
        assert_eq!(path_of(&world, 1 - node), path(1 - node, node));
    }
}

#[test]
fn cookies_are_sent_back_and_nat_detection_is_answered() {
    for node in 0..2 {
        let mut world = up(6);
        for length in [8, 16, 64] {
            let cookie = notify(NotifyType::COOKIE2, &vec![0x5a; length]);
            assert_eq!(world.ask(node, Exchange::INFORMATIONAL, std::slice::from_ref(&cookie)), [cookie]);
        }
        let nat = [
            notify(NotifyType::NAT_DETECTION_SOURCE_IP, &[1; 20]),
            notify(NotifyType::NAT_DETECTION_DESTINATION_IP, &[2; 20]),
        ];
        let answer = world.ask(node, Exchange::INFORMATIONAL, &nat);
        assert_eq!(kinds(&answer), [NotifyType::NAT_DETECTION_SOURCE_IP, NotifyType::NAT_DETECTION_DESTINATION_IP]);
        assert_eq!(moves(&world, 1 - node), [(address(node), true)], "by its word we are behind a NAT");
    }
}

/// RFC 4555 §3.9, §4.2.6.
#[test]
fn a_peer_that_wants_no_nat_gets_none() {
    let mut world = up(7);
    let update = notify(NotifyType::UPDATE_SA_ADDRESSES, &[]);
    let right = [192, 0, 2, 1, 192, 0, 2, 2, 0x11, 0x94, 0x11, 0x94];
    let ask = |world: &mut World, ends: &[u8]| {
        world.ask(0, Exchange::INFORMATIONAL, &[update.clone(), notify(NotifyType::NO_NATS_ALLOWED, ends)])
    };
    assert_eq!(ask(&mut world, &right), []);
    let wrong = [10, 0, 0, 1, 192, 0, 2, 2, 0x11, 0x94, 0x11, 0x94];
    assert_eq!(kinds(&ask(&mut world, &wrong)), [NotifyType::UNEXPECTED_NAT_DETECTED]);
    assert_eq!(kinds(&ask(&mut world, &wrong[1..])), [NotifyType::UNEXPECTED_NAT_DETECTED]);
    // Who does not lead says nothing of addresses.
    assert_eq!(world.ask(1, Exchange::INFORMATIONAL, std::slice::from_ref(&update)), []);
    assert!(moves(&world, 0).is_empty() && moves(&world, 1).is_empty());
}

#[test]
fn a_peer_that_does_not_accept_our_address_is_left() {
    let mut world = up(8);
    world.scripts.insert(
        1,
        Box::new(|endpoint, now, path, octets| {
            endpoint.receive_inside(now, path, octets);
            true
        }),
    );
    relocate(&mut world, 0, place(7));
    world.run(SECOND);
    let reason = Reason::Incompatible("peer does not accept our new address".to_owned());
    assert_eq!(world.closed(0), [reason]);
    assert_eq!(world.closed(1), [Reason::ClosedByPeer]);
    assert!(world.counter(1, "ike_underlay_in_mesh") > 0);
    assert!(moves(&world, 1).is_empty());
}

/// §3.7: the answer to our question has to have our cookie in it.
#[test]
fn an_answer_without_our_cookie_ends_the_session() {
    for node in 0..2 {
        let mut world = up(9);
        world.scripts.insert(
            1 - node,
            Box::new(|endpoint, _, path, octets| {
                let header = crate::wire::ike::Message::parse(octets).unwrap().header;
                if header.response || header.exchange != Exchange::INFORMATIONAL {
                    return false;
                }
                let sa = endpoint.sas.values_mut().next().unwrap();
                sa.core.window.noted(octets);
                sa.core.from = path;
                let State::Established(state) = &mut sa.state else { return false };
                let answer = [notify(NotifyType::COOKIE2, &[1; 16])];
                sa.core.respond(&mut endpoint.ctx, &mut state.keys, &header, &answer).is_ok()
            }),
        );
        relocate(&mut world, node, place(7));
        world.run(SECOND);
        let reason = "peer did not send our COOKIE2 back (RFC 4555)";
        assert_eq!(world.closed(node), [Reason::PeerMisbehaved(reason.to_owned())]);
    }
}

/// §3.6: the peer has told of other addresses; when the one in use falls silent, they are tried, and the one that answers serves.
#[test]
fn the_peers_other_addresses_are_tried() {
    let mut world = up(10);
    let addresses = [
        notify(NotifyType::ADDITIONAL_IP4_ADDRESS, &[198, 51, 100, 40]),
        notify(NotifyType::ADDITIONAL_IP4_ADDRESS, &[198, 51, 100, 41]),
        notify(NotifyType::ADDITIONAL_IP6_ADDRESS, &[1, 2, 3]),
    ];
    assert_eq!(world.ask(1, Exchange::INFORMATIONAL, &addresses), []);
    world.places[1] = place(41);
    let (id, asked) = (sa(&world, 0), world.now);
    world.nodes[0].endpoint.probe(world.now, id);
    world.run_until(10 * SECOND, |world| path_of(world, 0).remote == place(41));
    assert!(world.now.since(asked) < SECOND, "{:?}", world.now.since(asked));
    world.run(10 * SECOND);
    assert_settled(&world, "another address of the peer");
    // None of them any more.
    world.ask(1, Exchange::INFORMATIONAL, &[notify(NotifyType::NO_ADDITIONAL_ADDRESSES, &[])]);
    assert!(world.nodes[0].endpoint.sas.values().next().unwrap().core.detours().is_empty());
    // However many it tells of.
    let many: Vec<Payload> = (0..60).map(|n| notify(NotifyType::ADDITIONAL_IP4_ADDRESS, &[10, 0, 0, n])).collect();
    world.ask(1, Exchange::INFORMATIONAL, &many);
    assert_eq!(world.nodes[0].endpoint.sas.values().next().unwrap().core.detours().len(), 8);
}

/// Without MOBIKE a sign of life is what an attentive peer follows (RFC 7296 §2.23).
#[test]
fn a_peer_without_mobike_hears_from_us_at_once() {
    for node in 0..2 {
        let mut world = up(11);
        for node in &mut world.nodes {
            node.endpoint.sas.values_mut().for_each(|sa| sa.core.mobike = Mobike::default());
        }
        relocate(&mut world, node, place(7));
        world.run(SECOND);
        assert_settled(&world, "without MOBIKE");
        // Not when it comes from inside the mesh.
        world.places[node] = place(8);
        let id = sa(&world, node);
        world.nodes[node].endpoint.probe(world.now, id);
        let probe = world.nodes[node].endpoint.poll_transmit().unwrap().datagram[4..].to_vec();
        let path = world.path(1 - node, node);
        world.nodes[1 - node].endpoint.receive_inside(world.now, path, &probe);
        assert_eq!(path_of(&world, 1 - node).remote, place(7));
    }
}
