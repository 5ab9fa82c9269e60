//! IKE_AUTH that fails, in words that help (case J3), and answers to IKE_AUTH that are no proof.

use std::time::Duration;

use crate::config::plan::{Rekey, Suites};
use crate::crypto::rng::Rng;
use crate::ike::endpoint::{Endpoint, Limits, Reason, Settings};
use crate::ike::testing::{World, answer_auth, node_name, private_key};
use crate::path::{PeerId, SocketId};
use crate::time::Time;
use crate::wire::ike::{Exchange, Notify, NotifyType, Payload};

const SECOND: Duration = Duration::from_secs(1);

fn fingerprint(node: usize) -> String {
    private_key(node).public().fingerprint()
}

fn run(mut world: World) -> World {
    world.connect(0, 1);
    world.run(20 * SECOND);
    for node in 0..2 {
        assert_eq!(world.standing(node), []);
        assert_eq!(world.nodes[node].endpoint.sas().count(), 0, "nothing is left");
    }
    assert_eq!(world.nodes[1].endpoint.half_open(None), 0);
    for reason in world.closed(0).iter().chain(&world.closed(1)) {
        assert!(reason.to_string().chars().count() <= 160);
    }
    world
}

#[test]
fn the_initiator_has_a_wrong_key() {
    let mut world = World::pair(1);
    world.nodes[0].endpoint.add_peer(PeerId(1), "b", private_key(3).public());
    let world = run(world);
    let reason = format!("peer 'b' signs with key {}, config has {}", fingerprint(1), fingerprint(3));
    assert_eq!(world.closed(0), [Reason::AuthFailed(reason)]);
    // RFC 7296 §2.21.2: the responder, which had established it, is told.
    let told = format!("a refused us: compare our fingerprint {} with its config", fingerprint(1));
    assert_eq!(world.closed(1), [Reason::AuthFailed(told)]);
    assert!(world.established(0).is_empty());
}

#[test]
fn the_responder_has_a_wrong_key() {
    let mut world = World::pair(2);
    world.nodes[1].endpoint.add_peer(PeerId(0), "a", private_key(3).public());
    let world = run(world);
    let told = format!("b refused us: compare our fingerprint {} with its config", fingerprint(0));
    assert_eq!(world.closed(0), [Reason::AuthFailed(told)]);
    let reason = format!("peer 'a' signs with key {}, config has {}", fingerprint(0), fingerprint(3));
    assert_eq!(world.refused(1), [(Some("a".to_owned()), reason)]);
    assert!(world.closed(1).is_empty() && world.established(1).is_empty());
}

#[test]
fn the_responder_does_not_know_the_initiator() {
    let mut world = World::pair(3);
    world.nodes[1].endpoint.remove_peer(Time::ZERO, PeerId(0));
    let world = run(world);
    assert_eq!(world.refused(1), [(Some("a".to_owned()), format!("not in nodes; its key is {}", fingerprint(0)))]);
    assert!(matches!(world.closed(0)[..], [Reason::AuthFailed(_)]));
}

#[test]
fn the_responder_is_somebody_else() {
    let mut world = World::pair(4);
    let settings = Settings {
        name: "c\u{7}\n".to_owned(),
        private_key: private_key(1),
        suites: Suites::default_for(true),
        rekey: Rekey::NEVER,
    };
    let mut other = Endpoint::new(settings, Limits::default(), Rng::from_number(9), Time::ZERO);
    other.set_port(SocketId(0), 4500);
    other.add_peer(PeerId(0), &node_name(0), private_key(0).public());
    world.nodes[1].endpoint = other;
    let world = run(world);
    let reason = "peer says it is 'fqdn:#63070a', config expects 'b'";
    assert_eq!(world.closed(0), [Reason::AuthFailed(reason.to_owned())]);
}

/// The answer that refuses is repeated when it was lost, and refusals do not pile up.
#[test]
fn a_lost_refusal_comes_again_and_a_flood_of_them_is_rationed() {
    let mut world = World::pair(5);
    world.nodes[1].endpoint.remove_peer(Time::ZERO, PeerId(0));
    let mut lost = false;
    world.wire = Box::new(move |_, datagram| {
        let header = crate::wire::ike::Message::parse(&datagram.octets).unwrap().header;
        if header.exchange == Exchange::IKE_AUTH && header.response && !lost {
            lost = true;
            return vec![];
        }
        vec![(Duration::ZERO, datagram.octets.clone())]
    });
    world.connect(0, 1);
    world.run(5 * SECOND);
    assert!(matches!(world.closed(0)[..], [Reason::AuthFailed(_)]));
    for _ in 0..40 {
        world.connect(0, 1);
        world.run(SECOND / 4);
    }
    assert!(world.nodes[1].endpoint.half_open(None) <= Limits::default().half_open_per_source);
    assert!(world.refused(1).len() <= 22, "{}", world.refused(1).len());
}

#[test]
fn answers_that_prove_nothing() {
    for (rest, words) in [
        (vec![], "no proof of identity"),
        (vec![Payload::Notify(Notify::new(NotifyType::INVALID_SYNTAX, []))], "INVALID_SYNTAX"),
        (vec![Payload::Notify(Notify::new(NotifyType::TS_UNACCEPTABLE, []))], "TS_UNACCEPTABLE"),
        (vec![Payload::Notify(Notify::new(NotifyType::AUTHENTICATION_FAILED, []))], "b refused us"),
    ] {
        let mut world = World::pair(6);
        world.scripts.insert(
            1,
            Box::new(move |endpoint, now, _, octets| {
                // Without the identity and AUTH that the helper puts in front.
                answer_auth(endpoint, now, octets, &rest, false)
            }),
        );
        world.connect(0, 1);
        world.run(5 * SECOND);
        assert!(world.closed(0)[0].to_string().contains(words), "{words}: {:?}", world.closed(0));
        assert!(world.established(0).is_empty());
    }
}
