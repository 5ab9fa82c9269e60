//! After the handshake: signs of life, the end, moving paths, and many dead peers.

use std::net::SocketAddr;
use std::time::Duration;

use crate::config::plan::Suites;
use crate::ike::endpoint::{Event, Limits, Reason};
use crate::ike::mobike::Mobike;
use crate::ike::testing::{World, endpoint, path, private_key};
use crate::path::{Path, PeerId, SocketId};
use crate::time::Time;
use crate::wire::ike::{Delete, Exchange, Message, Notify, NotifyType, Payload, PayloadType, Unknown};

const SECOND: Duration = Duration::from_secs(1);

fn up(seed: u64) -> World {
    let mut world = World::pair(seed);
    world.connect(0, 1);
    world.run(SECOND);
    world.assert_paired(1);
    world
}

fn heard(world: &World, node: usize) -> Vec<Path> {
    let events = world.nodes[node].events.iter();
    events.filter_map(|(_, event)| if let Event::Heard { path, .. } = event { Some(*path) } else { None }).collect()
}

#[test]
fn a_probe_is_answered_and_leaves_no_timer() {
    for node in 0..2 {
        let mut world = up(1);
        let sa = world.established(node)[0];
        for _ in 0..3 {
            world.nodes[node].endpoint.probe(world.now, sa);
            world.run(SECOND);
        }
        assert_eq!(heard(&world, node), vec![path(node, 1 - node); 3]);
        assert_eq!(heard(&world, 1 - node).len(), 3);
        assert_eq!(world.nodes[node].endpoint.poll_timeout(), None);
        assert_eq!(world.nodes[1 - node].endpoint.poll_timeout(), None);
    }
}

#[test]
fn a_probe_into_silence_ends_the_sa_within_five_seconds() {
    for seed in 0..20 {
        let mut world = up(seed);
        let sa = world.established(0)[0];
        world.wire = Box::new(|_, _| vec![]);
        let (before, asked) = (world.sent.len(), world.now);
        world.nodes[0].endpoint.probe(world.now, sa);
        world.nodes[0].endpoint.probe(world.now, sa);
        assert!(world.run_until(60 * SECOND, |world| !world.closed(0).is_empty()));
        assert!((3 * SECOND..=5 * SECOND).contains(&world.now.since(asked)), "{:?}", world.now.since(asked));
        assert_eq!(world.closed(0), [Reason::NoAnswer { exchange: "INFORMATIONAL", tries: 5 }]);
        let tries = &world.sent[before..];
        assert!(tries.len() == 5 && tries.iter().all(|datagram| datagram.octets == tries[0].octets));
        assert_eq!(world.nodes[0].endpoint.poll_timeout(), None);
    }
}

#[test]
fn closing_is_told_even_over_a_lossy_wire() {
    for lost in 0..4 {
        let mut world = up(2);
        let (sa, before) = (world.established(0)[0], world.sent.len());
        world.wire =
            Box::new(
                move |number, datagram| {
                    if number < before + lost { vec![] } else { vec![(Duration::ZERO, datagram.octets.clone())] }
                },
            );
        world.nodes[0].endpoint.close(world.now, sa);
        assert!(world.nodes[0].endpoint.sa(sa).is_none(), "gone from outside");
        world.run(20 * SECOND);
        assert_eq!(world.closed(1), [Reason::ClosedByPeer], "{lost} lost");
        assert!(world.closed(0).is_empty(), "no event for what we did ourselves");
        for node in &world.nodes {
            assert!(node.endpoint.sas.is_empty(), "nothing is left");
            assert_eq!(node.endpoint.poll_timeout(), None);
        }
    }
}

#[test]
fn both_close_at_once() {
    let mut world = up(3);
    for node in 0..2 {
        let sa = world.established(node)[0];
        world.nodes[node].endpoint.close(world.now, sa);
    }
    world.run(20 * SECOND);
    for node in 0..2 {
        assert!(world.closed(node).is_empty() && world.nodes[node].endpoint.sas.is_empty());
    }
}

#[test]
fn closing_waits_for_the_window() {
    let mut world = up(4);
    let sa = world.established(0)[0];
    world.nodes[0].endpoint.probe(world.now, sa);
    world.nodes[0].endpoint.close(world.now, sa);
    world.run(SECOND);
    assert_eq!(world.closed(1), [Reason::ClosedByPeer]);
    assert!(world.nodes[0].endpoint.sas.is_empty());
}

#[test]
fn what_is_half_open_is_closed_without_a_word() {
    let mut world = World::pair(5);
    let sa = world.connect(0, 1);
    let before = world.sent.len();
    world.nodes[0].endpoint.close(world.now, sa);
    assert_eq!(world.nodes[0].endpoint.poll_timeout(), None);
    world.run(60 * SECOND);
    assert!(world.closed(0).is_empty());
    assert_eq!(world.sent.iter().skip(before).filter(|datagram| datagram.from == 0).count(), 0);
    assert_eq!(world.nodes[1].endpoint.half_open(None), 0, "expired");
    assert!(world.nodes[1].endpoint.sas.is_empty());
}

#[test]
fn a_half_open_sa_lives_thirty_seconds() {
    let mut world = World::pair(6);
    world.wire =
        Box::new(|number, datagram| if number == 0 { vec![(Duration::ZERO, datagram.octets.clone())] } else { vec![] });
    world.connect(0, 1);
    world.run(29 * SECOND);
    let from = path(1, 0).remote.ip();
    assert_eq!((world.nodes[1].endpoint.half_open(None), world.nodes[1].endpoint.half_open(Some(from))), (1, 1));
    assert_eq!(world.nodes[1].endpoint.sas().next().unwrap().state, "waiting for IKE_INTERMEDIATE");
    world.run(2 * SECOND);
    assert_eq!((world.nodes[1].endpoint.half_open(None), world.nodes[1].endpoint.half_open(Some(from))), (0, 0));
    assert!(world.nodes[1].events.is_empty());
}

#[test]
fn shutting_down_tells_everybody_at_once() {
    let mut world = up(7);
    let sa = world.established(0)[0];
    world.nodes[0].endpoint.probe(world.now, sa);
    world.nodes[0].endpoint.poll_transmit();
    world.nodes[0].endpoint.shut_down(world.now);
    assert!(world.nodes[0].endpoint.sas.is_empty());
    assert_eq!(world.nodes[0].endpoint.poll_timeout(), None);
    world.run(SECOND);
    assert_eq!(world.closed(1), [Reason::ClosedByPeer]);
}

#[test]
fn a_forgotten_peer_is_told() {
    let mut world = up(8);
    world.nodes[0].endpoint.remove_peer(world.now, PeerId(1));
    world.run(SECOND);
    assert_eq!(world.closed(1), [Reason::ClosedByPeer]);
    let sa = world.connect(0, 1);
    assert!(matches!(world.closed(0)[..], [Reason::Incompatible(_)]));
    assert!(world.nodes[0].endpoint.sa(sa).is_none());
}

/// Answers go where the question came from; without MOBIKE, what is fresh and verified moves the SA.
#[test]
fn the_newest_verified_message_moves_the_path() {
    let mut world = up(9);
    for node in &mut world.nodes {
        node.endpoint.sas.values_mut().for_each(|sa| sa.core.mobike = Mobike::default());
    }
    let elsewhere = Path { remote: SocketAddr::from(([198, 51, 100, 9], 20_017)), ..path(1, 0) };
    let sa = world.established(0)[0];
    world.nodes[0].endpoint.probe(world.now, sa);
    let probe = world.nodes[0].endpoint.poll_transmit().unwrap().datagram[4..].to_vec();

    let mut forged = probe.clone();
    *forged.last_mut().unwrap() ^= 1;
    let responder = &mut world.nodes[1].endpoint;
    responder.receive(world.now, elsewhere, &forged);
    assert!(responder.poll_transmit().is_none());
    assert_eq!(responder.sas().next().unwrap().path, path(1, 0));

    responder.receive(world.now, elsewhere, &probe);
    assert_eq!(responder.poll_transmit().unwrap().path, elsewhere);
    assert_eq!(responder.sas().next().unwrap().path, elsewhere);
    assert!(matches!(responder.poll_event(), Some(Event::Heard { path, .. }) if path == elsewhere));

    // A copy of it from a third place is answered there, but moves nothing.
    let third = Path { remote: SocketAddr::from(([203, 0, 113, 1], 4500)), ..path(1, 0) };
    responder.receive(world.now, third, &probe);
    assert_eq!(responder.poll_transmit().unwrap().path, third);
    assert_eq!(responder.sas().next().unwrap().path, elsewhere);
    assert!(responder.poll_event().is_none());

    // ESP that verified may say so, too.
    let theirs = responder.sas().next().unwrap().sa;
    responder.set_path(theirs, third);
    responder.probe(world.now, theirs);
    assert_eq!(responder.poll_transmit().unwrap().path, third);
}

#[test]
fn what_the_peer_must_not_send() {
    let unknown = |critical| Payload::Unknown(Unknown { kind: PayloadType(200), critical, body: vec![1, 2] });
    let mut world = up(10);
    assert_eq!(world.ask(1, Exchange::INFORMATIONAL, &[unknown(false)]), []);
    let answer = world.ask(1, Exchange::INFORMATIONAL, &[unknown(true)]);
    assert_eq!(answer, [Payload::Notify(Notify::new(NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD, [200]))]);
    let status = Payload::Notify(Notify::new(NotifyType(40_000), [1]));
    assert_eq!(world.ask(1, Exchange::INFORMATIONAL, &[status, Payload::Vendor(vec![1])]), []);
    assert!(world.closed(0).is_empty());
    assert_eq!(world.ask(1, Exchange::INFORMATIONAL, &[Payload::Delete(Delete::Ike)]), []);
    assert_eq!(world.closed(0), [Reason::ClosedByPeer]);
}

#[test]
fn the_answer_to_a_deletion_can_be_asked_for_again() {
    let mut world = up(11);
    let (sa, before) = (world.established(0)[0], world.sent.len());
    // The answer is lost twice.
    world.wire = Box::new(move |number, datagram| {
        let answer = datagram.from == 1 && number > before && number < before + 4;
        if answer { vec![] } else { vec![(Duration::ZERO, datagram.octets.clone())] }
    });
    world.nodes[0].endpoint.close(world.now, sa);
    world.run(4 * SECOND);
    assert!(world.nodes[0].endpoint.sas.is_empty(), "answered at last");
    assert_eq!(world.closed(1), [Reason::ClosedByPeer]);
}

/// Case K1, the part of IKE: one half-open SA a dead peer, and few datagrams.
#[test]
fn many_dead_peers() {
    let mut endpoint = endpoint(0, 12, Suites::default_for(true), Limits::default());
    let place = |number: u32| Path {
        socket: SocketId(0),
        local: None,
        remote: SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0a00_0000 + number), 4500)),
    };
    for number in 0..235 {
        endpoint.add_peer(PeerId(number), &format!("dead{number}"), private_key(1).public());
        endpoint.connect(Time::ZERO, PeerId(number), place(number));
    }
    let mut sent = 0;
    while let Some((due, _)) = endpoint.poll_timeout() {
        endpoint.handle_timeout(due);
        while endpoint.poll_transmit().is_some() {
            sent += 1;
        }
        assert!(endpoint.sas().count() <= 235);
    }
    assert_eq!(sent, 235 * 8);
    assert_eq!(endpoint.sas().count(), 0);
    let closed = std::iter::from_fn(|| endpoint.poll_event()).filter(|event| matches!(event, Event::Closed { .. }));
    assert_eq!(closed.count(), 235);
}

/// Nobody fetches: the queues end all the same, and nothing that matters is lost.
#[test]
fn queues_have_an_end() {
    let mut world = up(13);
    let sa = world.established(0)[0];
    for _ in 0..10_000 {
        world.nodes[0].endpoint.probe(world.now, sa);
        while let Some(probe) = world.nodes[0].endpoint.poll_transmit() {
            world.nodes[1].endpoint.receive(world.now, path(1, 0), &probe.datagram[4..]);
        }
        let standing = world.nodes[0].endpoint.sas.get_mut(&sa).unwrap();
        standing.core.window.answered();
    }
    let transmits = std::iter::from_fn(|| world.nodes[1].endpoint.poll_transmit()).count();
    assert!(transmits <= 4096, "{transmits}");
    assert!(std::iter::from_fn(|| world.nodes[1].endpoint.poll_event()).count() <= 4096);
}

#[test]
fn lines_of_the_log_are_short() {
    let world = up(14);
    for datagram in &world.sent {
        let message = Message::parse(&datagram.octets).unwrap();
        if let crate::wire::ike::Body::Clear(chain) = message.body {
            let line = crate::ike::trace::line(&message.header, &chain.payloads().unwrap());
            assert!(line.starts_with("IKE_SA_INIT re") && line.contains("[SA KE No N(NAT_DETECTION"), "{line}");
        }
    }
}
