//! Child SAs: refused at first (case A7), deleted, asked for again, with a key exchange of their own, and requests to rekey.

use std::time::Duration;

use crate::config::plan::Suites;
use crate::crypto::aead::Cipher;
use crate::crypto::kex::{self, Method};
use crate::crypto::rng::Rng;
use crate::ike::child;
use crate::ike::endpoint::Limits;
use crate::ike::payloads;
use crate::ike::propose;
use crate::ike::testing::{World, answer_auth};
use crate::wire::ike::{
    Delete, Exchange, Ke, Notify, NotifyType, Payload, Proposal, Protocol, TrafficSelector, Transform, TransformType,
};

const SECOND: Duration = Duration::from_secs(1);

fn error(kind: NotifyType) -> Payload {
    Payload::Notify(Notify::new(kind, []))
}

/// The answer to IKE_AUTH carries `rest` where the Child SA should be; later requests are answered as they should.
fn answered_with(rest: Vec<Payload>) -> World {
    let mut world = World::pair(1);
    world.scripts.insert(1, Box::new(move |endpoint, now, _, octets| answer_auth(endpoint, now, octets, &rest, true)));
    world.connect(0, 1);
    world
}

/// Case A7: the IKE SA stands, the status says why there is no more, and a Child SA is asked for soon.
#[test]
fn a_session_without_child_says_why_and_asks_again() {
    let esp = |spi| Payload::Sa(vec![propose::offer_esp(&[Cipher::Aes256Gcm], spi, &[])]);
    let both = || Payload::Sa(vec![propose::offer_esp(&[Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305], 0x1000, &[])]);
    let strange = TrafficSelector::Other { kind: 9, protocol: 0, body: vec![0; 8] };
    let everything = || Payload::TsI(vec![TrafficSelector::ANY_V4, TrafficSelector::ANY_V6]);
    for (rest, words) in [
        (vec![], "sent no data tunnel"),
        (vec![error(NotifyType::TS_UNACCEPTABLE)], "traffic selectors"),
        (vec![error(NotifyType::NO_PROPOSAL_CHOSEN)], "proposal"),
        (vec![error(NotifyType(9999))], "9999"),
        (vec![esp(0x1000), everything()], "sent no data tunnel"),
        (vec![both(), everything(), Payload::TsR(vec![TrafficSelector::ANY_V4])], "sent no data tunnel"),
        (vec![esp(0x1000), everything(), Payload::TsR(vec![strange])], "sent no data tunnel"),
        (vec![esp(255), everything(), Payload::TsR(vec![TrafficSelector::ANY_V4])], "sent no data tunnel"),
    ] {
        let mut world = answered_with(rest);
        assert!(world.run_until(SECOND, |world| !world.child_downs(0).is_empty()), "{words}");
        let (down_at, spi_in, reason) = world.child_downs(0).remove(0);
        assert!(spi_in.is_none() && reason.contains("peer refused") && reason.contains(words), "{reason}");
        let info = world.nodes[0].endpoint.sas().next().unwrap();
        assert!(info.established && info.state.contains("no data tunnel") && info.state.contains(words));
        assert!(world.children(0).is_empty() && world.closed(0).is_empty());

        assert!(world.run_until(60 * SECOND, |world| !world.children(0).is_empty()), "{words}");
        let waited = world.now.since(down_at);
        assert!((SECOND..5 * SECOND).contains(&waited), "{words}: {waited:?}");
        world.run(60 * SECOND);
        world.assert_paired(1);
        assert_eq!(world.established(0).len(), 1, "no second IKE SA");
        assert_eq!(world.nodes[0].endpoint.poll_timeout(), None);
        assert_eq!(world.nodes[0].endpoint.sas().next().unwrap().state, "established");
    }
}

/// RFC 7296 §1.4.1: what the peer believes in is taken back.
#[test]
fn a_child_that_came_to_nothing_is_deleted() {
    let esp = Payload::Sa(vec![propose::offer_esp(&[Cipher::Aes256Gcm], 0x1000, &[])]);
    let mut world = answered_with(vec![esp]);
    world.run(SECOND);
    let informational = world.exchanges(0).iter().filter(|e| **e == Exchange::INFORMATIONAL).count();
    assert_eq!(informational, 1);
}

#[test]
fn requests_for_a_child_back_off_and_never_end() {
    // ESP suites that have nothing in common.
    let mut pair = [Suites::default_for(true), Suites::default_for(true)];
    pair[0].esp = vec![Cipher::Aes256Gcm];
    pair[1].esp = vec![Cipher::ChaCha20Poly1305];
    let mut world = World::of(2, pair, Limits::default());
    world.connect(0, 1);
    world.run(600 * SECOND);
    assert_eq!((world.established(0).len(), world.established(1).len()), (1, 1));
    assert!(world.closed(0).is_empty() && world.children(0).is_empty());
    for node in 0..2 {
        let downs = world.child_downs(node);
        assert!(downs.iter().all(|(_, _, reason)| reason.contains("ESP")), "{downs:?}");
        let asked: Vec<_> = world
            .sent
            .iter()
            .filter(|datagram| datagram.from == node)
            .filter(|datagram| {
                let header = crate::wire::ike::Message::parse(&datagram.octets).unwrap().header;
                header.exchange == Exchange::CREATE_CHILD_SA && !header.response
            })
            .map(|datagram| datagram.at)
            .collect();
        let gaps: Vec<_> = asked.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(gaps.len() > 8, "{gaps:?}");
        assert!(gaps.iter().all(|gap| *gap <= 60 * SECOND));
        assert!(gaps[gaps.len() - 3..].iter().all(|gap| *gap >= 30 * SECOND), "{gaps:?}");
    }
}

/// Each sees that there is none at about the same time; one comes of it, not two.
#[test]
fn both_ask_for_a_child_at_once() {
    for seed in 0..40 {
        let mut world = World::pair(seed);
        let rest = vec![error(NotifyType::TS_UNACCEPTABLE)];
        world
            .scripts
            .insert(1, Box::new(move |endpoint, now, _, octets| answer_auth(endpoint, now, octets, &rest, true)));
        world.connect(0, 1);
        world.run(SECOND);
        // Both ask in the same instant.
        for node in 0..2 {
            let sa = world.nodes[node].endpoint.sas().next().unwrap().sa;
            let endpoint = &mut world.nodes[node].endpoint;
            let mut standing = endpoint.sas.remove(&sa).unwrap();
            let crate::ike::sa::State::Established(state) = &mut standing.state else { panic!("established") };
            assert!(state.ask(&mut standing.core, &mut endpoint.ctx, world.now).is_ok());
            endpoint.replace(standing);
        }
        world.run(100 * SECOND);
        world.assert_paired(1);
    }
}

fn delete(spis: Vec<u32>) -> Payload {
    Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis })
}

#[test]
fn the_peer_deletes_the_child_and_a_new_one_comes() {
    for deleting in 0..2 {
        let other = 1 - deleting;
        let mut world = World::pair(3);
        world.connect(0, 1);
        world.run(SECOND);
        let (spi_in, spi_out) = (world.children(other)[0].spi_in, world.children(other)[0].spi_out);
        // Unknown ones are passed over, and the pair's other half is named.
        let answer = world.ask(deleting, Exchange::INFORMATIONAL, &[delete(vec![7777, spi_out, spi_out])]);
        assert_eq!(answer, [delete(vec![spi_in])]);
        let (down_at, down, reason) = world.child_downs(other).remove(0);
        assert_eq!((down, reason.as_str()), (Some(spi_in), "closed by the peer"));
        assert_eq!(world.ask(deleting, Exchange::INFORMATIONAL, &[delete(vec![spi_out])]), []);
        assert!(world.run_until(10 * SECOND, |world| world.children(other).len() == 2));
        assert!((SECOND..=5 * SECOND).contains(&world.now.since(down_at)));
        assert_eq!(world.established(other).len(), 1);
        let new = world.children(other)[1];
        assert_eq!(new.spi_out, world.children(deleting)[1].spi_in);
        assert_eq!(*new.key_out, *world.children(deleting)[1].key_in);
        assert_ne!(*new.key_out, *world.children(other)[0].key_out);
    }
}

/// SA, nonce, KE and selectors of a CREATE_CHILD_SA.
fn request(proposals: Vec<Proposal>, ke: Option<Ke>) -> Vec<Payload> {
    let [_, ts_initiator, ts_responder] = child::offer(&[Cipher::Aes256Gcm], 0x4444, &[], false);
    let ke = ke.map(Payload::Ke);
    [Payload::Sa(proposals), Payload::Nonce(vec![3; 32])]
        .into_iter()
        .chain(ke)
        .chain([ts_initiator, ts_responder])
        .collect()
}

fn up() -> World {
    let mut world = World::pair(4);
    world.connect(0, 1);
    world.run(SECOND);
    world
}

fn refusal(answer: &[Payload]) -> (NotifyType, Vec<u8>) {
    let [Payload::Notify(notify)] = answer else { panic!("one notify: {answer:?}") };
    (notify.kind, notify.data.clone())
}

#[test]
fn a_further_child_with_a_key_exchange_of_its_own() {
    let mut world = up();
    let exchange = kex::Initiator::generate(Method::X25519, &mut Rng::from_number(4));
    let proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[Method::X25519]);
    let ke = Ke { method: 31, data: exchange.public().to_vec() };
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &request(vec![proposal], Some(ke)));
    let their_ke = payloads::ke(&answer).expect("a KE payload");
    assert_eq!(their_ke.method, 31);
    let shared = exchange.finish(&their_ke.data).unwrap();
    // The same keys, by the way of the initiator of this exchange.
    let sa = world.established(1)[0];
    let crate::ike::sa::State::Established(state) = &world.nodes[1].endpoint.sas[&sa].state else { panic!() };
    let choice =
        propose::answered_esp(&[Cipher::Aes256Gcm], &[Method::X25519], false, payloads::sa(&answer).unwrap()).unwrap();
    let nonces = (&[3; 32][..], payloads::nonce(&answer).unwrap());
    let role = crate::ike::endpoint::Role::Initiator;
    let ours = child::derive(&state.keys, role, &choice, 0x4444, nonces, &[shared]);
    let theirs = world.children(0)[1];
    assert_eq!((*ours.key_out).to_vec(), (*theirs.key_in).to_vec());
    assert_eq!((*ours.key_in).to_vec(), (*theirs.key_out).to_vec());
    assert_eq!((ours.spi_out, theirs.spi_out), (theirs.spi_in, 0x4444));
}

/// Case A5, as far as it concerns a new Child SA.
#[test]
fn a_child_with_another_key_exchange() {
    let mut world = up();
    let mut proposal = propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[Method::X25519]);
    let p256 = Ke { method: 19, data: vec![4; 64] };
    proposal.transforms.push(Transform::new(TransformType::KE, 19));
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &request(vec![proposal.clone()], Some(p256.clone())));
    assert_eq!(refusal(&answer), (NotifyType::INVALID_KE_PAYLOAD, vec![0, 31]));
    proposal.transforms.retain(|transform| transform.id != 31);
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &request(vec![proposal], Some(p256)));
    assert_eq!(refusal(&answer), (NotifyType::NO_PROPOSAL_CHOSEN, vec![]));
    assert_eq!(world.children(0).len(), 1);
    assert!(world.child_downs(0).is_empty() && world.closed(0).is_empty());
}

#[test]
fn a_peer_that_wants_a_key_exchange_gets_one() {
    let mut world = answered_with(vec![]);
    world.run(SECOND / 2);
    // The first request comes without, the second with X25519.
    let mut refused = 0;
    world.scripts.insert(
        1,
        Box::new(move |endpoint, _, _, octets| {
            let message = crate::wire::ike::Message::parse(octets).unwrap();
            if message.header.exchange != Exchange::CREATE_CHILD_SA || message.header.response || refused > 0 {
                return false;
            }
            refused += 1;
            let sa = endpoint.sas.values_mut().next().unwrap();
            sa.core.window.noted(octets);
            let crate::ike::sa::State::Established(state) = &mut sa.state else { panic!() };
            let answer = [error(NotifyType::NO_PROPOSAL_CHOSEN)];
            sa.core.respond(&mut endpoint.ctx, &mut state.keys, &message.header, &answer).is_ok()
        }),
    );
    let before = world.nodes[1].endpoint.key_exchanges();
    assert!(world.run_until(20 * SECOND, |world| !world.children(0).is_empty()));
    assert_eq!(world.nodes[1].endpoint.key_exchanges(), before + 1);
    world.run(SECOND);
    world.assert_paired(1);
}

#[test]
fn a_narrower_peer_gets_what_it_asks_for() {
    let mut world = up();
    let narrow = |last| TrafficSelector::V4 {
        protocol: 0,
        ports: (0, 65535),
        addresses: ([10, 0, 0, 0].into(), [10, 0, 0, last].into()),
    };
    let mut payloads = request(vec![propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[])], None);
    payloads[2] = Payload::TsI(vec![narrow(9), TrafficSelector::Other { kind: 9, protocol: 0, body: vec![0; 8] }]);
    payloads[3] = Payload::TsR(vec![narrow(7), TrafficSelector::ANY_V4]);
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &payloads);
    assert_eq!(payloads::selectors_initiator(&answer), Some(&[narrow(9)][..]));
    assert_eq!(payloads::selectors_responder(&answer), Some(&[narrow(7), TrafficSelector::ANY_V4][..]));
    payloads[3] = Payload::TsR(vec![TrafficSelector::ANY_V6]);
    assert_eq!(refusal(&world.ask(1, Exchange::CREATE_CHILD_SA, &payloads)).0, NotifyType::TS_UNACCEPTABLE);
}

#[test]
fn children_have_a_limit() {
    let mut world = up();
    let payloads = request(vec![propose::offer_esp(&[Cipher::Aes256Gcm], 0x4444, &[])], None);
    let mut given = 1;
    for _ in 0..20 {
        let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &payloads);
        if payloads::sa(&answer).is_some() {
            given += 1;
        } else {
            assert_eq!(refusal(&answer).0, NotifyType::NO_ADDITIONAL_SAS);
        }
    }
    assert_eq!((given, world.children(0).len()), (4, 4));
}

#[test]
fn a_malformed_request_for_a_child_ends_the_session() {
    let mut world = up();
    let answer = world.ask(1, Exchange::CREATE_CHILD_SA, &[Payload::Nonce(vec![3; 32])]);
    assert_eq!(refusal(&answer).0, NotifyType::INVALID_SYNTAX);
    assert!(world.closed(0)[0].to_string().contains("invalid CREATE_CHILD_SA"));
    assert_eq!(world.standing(0), []);
}
