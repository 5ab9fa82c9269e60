//! IKE_SA_INIT: cookies, other key exchanges, refusals that nobody signed, and the policy about ML-KEM.

use std::time::Duration;

use crate::config::plan::{PostQuantum, Suites};
use crate::crypto::kex::Method;
use crate::ike::endpoint::{Limits, Reason};
use crate::ike::payloads;
use crate::ike::testing::{World, path, suite, suites};
use crate::wire::ike::{
    Body, Exchange, Header, Ke, Message, Notify, NotifyType, Payload, Transform, TransformType, encode_clear, transform,
};

const SECOND: Duration = Duration::from_secs(1);

/// A world where nobody answers but the test.
fn alone(suites: Suites) -> World {
    let mut world = World::of(1, [suites, Suites::default_for(true)], Limits::default());
    world.wire = Box::new(|_, _| vec![]);
    world.connect(0, 1);
    world
}

fn parse(octets: &[u8]) -> (Header, Vec<Payload>) {
    let message = Message::parse(octets).unwrap();
    let Body::Clear(chain) = message.body else { panic!("clear") };
    (message.header, chain.payloads().unwrap())
}

/// An answer to the last request, with this responder SPI.
fn answer(world: &mut World, spi_responder: u64, payloads: &[Payload]) {
    let (request, _) = parse(&world.sent.last().unwrap().octets);
    let header = Header { spi_responder, from_initiator: false, response: true, ..request };
    let octets = encode_clear(&header, payloads).unwrap();
    world.nodes[0].endpoint.receive(world.now, path(0, 1), &octets);
    world.drain();
}

fn cookie(octets: &[u8]) -> Payload {
    Payload::Notify(Notify::new(NotifyType::COOKIE, octets))
}

fn error(kind: NotifyType, data: &[u8]) -> Payload {
    Payload::Notify(Notify::new(kind, data))
}

/// A whole answer; the key exchange in it is of no use to anybody.
fn acceptable(world: &World, additional: &[Transform]) -> Vec<Payload> {
    let (_, request) = parse(&world.sent[0].octets);
    let mut proposal = payloads::sa(&request).unwrap()[0].clone();
    proposal.transforms.retain(|transform| transform.kind != TransformType::ADDKE1);
    proposal.transforms.extend_from_slice(additional);
    vec![
        Payload::Sa(vec![proposal]),
        Payload::Ke(Ke { method: transform::X25519, data: vec![9; 32] }),
        Payload::Nonce(vec![5; 32]),
        error(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, &[]),
        error(NotifyType::SIGNATURE_HASH_ALGORITHMS, &[0, 2, 0, 5]),
    ]
}

/// Case A1 (1) and (2).
#[test]
fn a_cookie_is_answered_at_once_and_nothing_else_changes() {
    let mut world = alone(Suites::default_for(true));
    let (first, original) = parse(&world.sent[0].octets);
    for octets in [[0xaa; 64], [0xbb; 64]] {
        answer(&mut world, 0, &[cookie(&octets)]);
        let (again, payloads) = parse(&world.sent.last().unwrap().octets);
        assert_eq!((again, &payloads[0]), (first, &cookie(&octets)));
        assert_eq!(payloads[1..], original);
    }
    assert_eq!(world.sent.len(), 3);
    // The same cookie once more was a repetition on the wire.
    answer(&mut world, 0, &[cookie(&[0xbb; 64])]);
    assert_eq!(world.sent.len(), 3);
    world.run(SECOND + SECOND / 2);
    assert_eq!(world.sent.len(), 4);
    assert_eq!(world.sent[3].octets, world.sent[2].octets, "retransmitted with its cookie");
}

/// Case A1 (3).
#[test]
fn cookies_for_ever_end_the_attempt() {
    let mut world = alone(Suites::default_for(true));
    for number in 0..50 {
        answer(&mut world, 0, &[cookie(&[number; 16])]);
    }
    assert_eq!(world.sent.len(), 6, "five retries");
    world.run(3 * SECOND);
    assert_eq!(world.closed(0), [Reason::PeerMisbehaved("peer keeps asking for cookies".to_owned())]);
}

/// Case A1 (4).
#[test]
fn cookies_of_wrong_length_are_ignored_and_counted() {
    let mut world = alone(Suites::default_for(true));
    answer(&mut world, 0, &[cookie(&[])]);
    answer(&mut world, 0, &[cookie(&[1; 65])]);
    assert_eq!((world.sent.len(), world.counter(0, "ike_bad_cookie")), (1, 2));
    world.run(SECOND + SECOND / 2);
    assert_eq!(world.sent.len(), 2);
    assert_eq!(world.sent[1].octets, world.sent[0].octets);
}

#[test]
fn under_load_a_session_comes_up_over_a_cookie() {
    let limits = Limits { cookie_total: 0, ..Limits::default() };
    let mut world = World::of(2, [Suites::default_for(true), Suites::default_for(true)], limits);
    world.connect(0, 1);
    world.run(SECOND);
    world.assert_paired(1);
    assert_eq!(world.counter(1, "ike_cookie_asked"), 1);
    assert_eq!(world.nodes[1].endpoint.key_exchanges(), 2);
    assert!(world.sent[1].octets.len() < world.sent[0].octets.len(), "no amplification");
}

fn offering(first: Method, second: Method) -> Suites {
    suites(vec![suite(first, &[Method::MlKem768]), suite(second, &[])], PostQuantum::Required)
}

#[test]
fn another_key_exchange_is_asked_for_and_sent() {
    for limits in [Limits::default(), Limits { cookie_total: 0, ..Limits::default() }] {
        let responder = suites(vec![suite(Method::MlKem512, &[])], PostQuantum::Required);
        let mut world = World::of(3, [offering(Method::X25519, Method::MlKem512), responder], limits);
        world.connect(0, 1);
        world.run(SECOND);
        world.assert_paired(1);
        assert_eq!(world.counter(1, "ike_other_ke_method"), 1);
        // RFC 7296 §1.2: the proposals stay as they were.
        let requests: Vec<_> = world
            .sent
            .iter()
            .filter(|d| d.from == 0 && Message::parse(&d.octets).unwrap().header.exchange == Exchange::IKE_SA_INIT)
            .map(|d| parse(&d.octets).1)
            .collect();
        let (first, last) = (&requests[0], requests.last().unwrap());
        assert_eq!(payloads::sa(first), payloads::sa(last));
        assert_eq!(payloads::nonce(first), payloads::nonce(last));
        assert_eq!(payloads::ke(last).unwrap().method, transform::ML_KEM_512);
        assert_eq!(payloads::notify(last, NotifyType::COOKIE).is_some(), limits.cookie_total == 0);
    }
}

#[test]
fn a_key_exchange_we_did_not_offer_ends_the_attempt_after_a_grace() {
    for data in [&[0, 19][..], &[0, 36], &[31], &[]] {
        let mut world = alone(Suites::default_for(true));
        answer(&mut world, 0, &[error(NotifyType::INVALID_KE_PAYLOAD, data)]);
        assert_eq!(world.sent.len(), 1);
        world.run(3 * SECOND);
        assert!(world.closed(0)[0].to_string().contains("did not offer"), "{data:?}");
    }
    // The one that is there already: a repetition on the wire.
    let mut world = alone(Suites::default_for(true));
    answer(&mut world, 0, &[error(NotifyType::INVALID_KE_PAYLOAD, &[0, 31])]);
    world.run(5 * SECOND);
    assert!(world.closed(0).is_empty());
}

#[test]
fn a_peer_that_changes_its_mind_for_ever() {
    let mut world = alone(offering(Method::X25519, Method::MlKem512));
    for number in 0..40 {
        answer(&mut world, 0, &[error(NotifyType::INVALID_KE_PAYLOAD, &[0, if number % 2 == 0 { 35 } else { 31 }])]);
    }
    assert_eq!(world.sent.len(), 6);
    world.run(3 * SECOND);
    assert!(world.closed(0)[0].to_string().contains("keeps asking"));
}

#[test]
fn a_refusal_has_a_grace_in_which_the_true_answer_wins() {
    let mut world = World::pair(4);
    world.delay = SECOND / 2;
    world.connect(0, 1);
    // Forged, and quicker than the peer.
    for kind in [NotifyType::NO_PROPOSAL_CHOSEN, NotifyType::INVALID_SYNTAX, NotifyType(1000)] {
        answer(&mut world, 0, &[error(kind, &[])]);
    }
    world.run(10 * SECOND);
    world.assert_paired(1);

    let mut world = alone(Suites::default_for(true));
    answer(&mut world, 0, &[error(NotifyType::NO_PROPOSAL_CHOSEN, &[])]);
    world.run(SECOND);
    assert!(world.closed(0).is_empty());
    world.run(2 * SECOND);
    assert!(world.closed(0)[0].to_string().contains("peer refused our IKE proposal"));
    assert_eq!(world.nodes[0].endpoint.sas().count(), 0);
}

#[test]
fn suites_that_do_not_meet() {
    let other = suites(vec![suite(Method::X25519, &[Method::MlKem1024])], PostQuantum::Required);
    let mut world = World::of(5, [Suites::default_for(true), other], Limits::default());
    world.connect(0, 1);
    world.run(5 * SECOND);
    assert!(world.closed(0)[0].to_string().contains("proposal"));
    assert!(world.refused(1)[0].1.contains("compare both configs"));
    assert_eq!(world.nodes[1].endpoint.half_open(None), 0);
    assert_eq!(world.nodes[1].endpoint.key_exchanges(), 0);
}

/// Case B1: announced, but not chosen.
#[test]
fn without_ml_kem_no_session_if_the_config_requires_it() {
    let none = [Transform::new(TransformType::ADDKE1, transform::NONE)];
    for additional in [&[][..], &none] {
        let mut world = alone(Suites::default_for(true).required());
        let payloads = acceptable(&world, additional);
        answer(&mut world, 77, &payloads);
        world.run(3 * SECOND);
        assert!(world.closed(0)[0].to_string().contains("peer did not agree to ML-KEM"));
        assert!(world.exchanges(0).iter().all(|exchange| *exchange == Exchange::IKE_SA_INIT));
    }
}

/// Case B1: IntAuth covers the exchanges that took place, which are none.
#[test]
fn without_ml_kem_if_the_config_allows_it() {
    let classic = suite(Method::X25519, &[]);
    let both = suites(vec![classic.clone(), suite(Method::X25519, &[Method::MlKem768])], PostQuantum::Preferred);
    let only = suites(vec![classic], PostQuantum::Preferred);
    for pair in [[both.clone(), only.clone()], [only.clone(), both.clone()]] {
        let mut world = World::of(6, pair, Limits::default());
        world.connect(0, 1);
        world.run(SECOND);
        world.assert_paired(1);
        assert_eq!(world.sent.len(), 4);
        assert!(!world.exchanges(0).contains(&Exchange::IKE_INTERMEDIATE));
    }
    let mut world = World::of(6, [both.clone(), both], Limits::default());
    world.connect(0, 1);
    world.run(SECOND);
    assert!(world.exchanges(0).contains(&Exchange::IKE_INTERMEDIATE), "preferred means: if both can");

    let mut world = World::of(6, [only, Suites::default_for(true).required()], Limits::default());
    world.connect(0, 1);
    world.run(5 * SECOND);
    assert!(world.refused(1)[0].1.contains("did not agree to ML-KEM"));
    assert!(!world.closed(0).is_empty());
}

type Spoil = fn(&mut Vec<Payload>);

#[test]
fn answers_that_lead_nowhere() {
    let chosen = [Transform::new(TransformType::ADDKE1, transform::ML_KEM_768)];
    let cases: [(&str, Spoil); 6] = [
        ("without IKE_INTERMEDIATE", |p| p.retain(|p| *p != error(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, &[]))),
        ("Ed25519", |p| p[4] = error(NotifyType::SIGNATURE_HASH_ALGORITHMS, &[0, 2])),
        ("no nonce", |p| p.retain(|p| !matches!(p, Payload::Nonce(_)))),
        ("no key exchange", |p| p.retain(|p| !matches!(p, Payload::Ke(_)))),
        ("not the one it chose", |p| p[1] = Payload::Ke(Ke { method: 35, data: vec![1; 768] })),
        ("no proposal", |p| p.retain(|p| !matches!(p, Payload::Sa(_)))),
    ];
    for (words, spoil) in cases {
        let mut world = alone(Suites::default_for(true));
        let mut payloads = acceptable(&world, &chosen);
        spoil(&mut payloads);
        answer(&mut world, 77, &payloads);
        assert_eq!(world.sent.len(), 1);
        world.run(3 * SECOND);
        assert!(world.closed(0)[0].to_string().contains(words), "{words}: {:?}", world.closed(0));
    }
    let mut world = alone(Suites::default_for(true));
    let payloads = acceptable(&world, &chosen);
    answer(&mut world, 0, &payloads);
    world.run(3 * SECOND);
    assert!(world.closed(0)[0].to_string().contains("no SPI"));

    let mut world = alone(Suites::default_for(true));
    let payloads = acceptable(&world, &chosen);
    answer(&mut world, 77, &payloads);
    assert_eq!(world.exchanges(0)[1], Exchange::IKE_INTERMEDIATE, "the unspoilt one is gone on with");
}

#[test]
fn a_config_without_a_suite_says_so() {
    let mut world = alone(suites(vec![suite(Method::X25519, &[])], PostQuantum::Required));
    assert!(world.closed(0)[0].to_string().contains("requires it"));
    world.run(SECOND);
    assert!(world.sent.is_empty());
}

#[test]
fn nat_detection_knows_our_own_address() {
    let mut world = World::pair(7);
    world.nodes[0].endpoint.set_port(crate::path::SocketId(0), 4501);
    world.connect(0, 1);
    world.run(SECOND);
    let behind = |node: usize| {
        let (_, event) = &world.nodes[node].events[0];
        let crate::ike::endpoint::Event::Established { behind_nat, .. } = event else { panic!("{event:?}") };
        *behind_nat
    };
    assert!(behind(0), "the peer sees 4500");
    assert!(!behind(1));
}

#[test]
fn what_follows_ike_sa_init_is_not_taken_on_port_500() {
    let mut world = World::pair(8);
    world.connect(0, 1);
    world.run(SECOND);
    let sa = world.nodes[0].endpoint.sas().next().unwrap().sa;
    world.nodes[0].endpoint.probe(world.now, sa);
    let probe = world.nodes[0].endpoint.poll_transmit().unwrap().datagram[4..].to_vec();
    let there = path(1, 0);
    let bare = crate::path::Path { remote: (there.remote.ip(), 500).into(), ..there };
    world.nodes[1].endpoint.receive(world.now, bare, &probe);
    assert!(world.nodes[1].endpoint.poll_transmit().is_none());
    assert!(world.nodes[1].endpoint.counters().any(|counter| counter == ("ike_stays_on_port_500", 1)));
    world.nodes[1].endpoint.receive(world.now, there, &probe);
    assert!(world.nodes[1].endpoint.poll_transmit().is_some());
}

#[test]
fn names_of_suites() {
    let hybrid = suite(Method::X25519, &[Method::MlKem768]);
    assert!(hybrid.is_post_quantum() && suite(Method::MlKem512, &[]).is_post_quantum());
    assert!(!suite(Method::X25519, &[]).is_post_quantum());
}
