//! Datagrams of strangers: malformed ones (case L2), floods, and plain noise. They cost a datagram and change nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use proptest::prelude::*;

use crate::config::plan::Suites;
use crate::crypto::rng::Rng;
use crate::ike::endpoint::{Endpoint, Limits};
use crate::ike::testing::{World, endpoint, node_name, path, private_key};
use crate::path::{Path, PeerId, SocketId};
use crate::time::Time;
use crate::wire::ike::{Body, Message, NotifyType, Payload};

const SECOND: Duration = Duration::from_secs(1);

/// Case K1 of the list: a request in the clear that is well-formed (SA, KE, nonce).
const GOOD: &str = "a1a2a3a4a5a6a7a80000000000000000212022080000000000000098\
    220000300000002c010100040300000c01000014800e01000300000802000005030000080400001f0000000806000024\
    28000028001f00000900000000000000000000000000000000000000000000000000000000000000\
    00000024000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const SA: usize = 28;
const KE: usize = SA + 48;
const NONCE: usize = KE + 40;

fn good() -> Vec<u8> {
    let digits: Vec<u8> = GOOD.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

/// The good request with these octets changed.
fn with(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut octets = good();
    for (at, new) in changes {
        octets[*at..*at + new.len()].copy_from_slice(new);
    }
    octets
}

/// The length field says what the datagram is.
fn measured(mut octets: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(octets.len()).unwrap().to_be_bytes();
    octets[24..28].copy_from_slice(&len);
    octets
}

fn nonce_of(len: usize) -> Vec<u8> {
    let mut octets = good();
    octets.truncate(NONCE);
    let whole = u16::try_from(len + 4).unwrap().to_be_bytes();
    octets.extend([0, 0, whole[0], whole[1]]);
    octets.resize(NONCE + 4 + len, 0);
    measured(octets)
}

/// A payload put in front of the SA.
fn preceded(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = good();
    octets[16] = kind;
    octets.splice(SA..SA, payload.iter().copied());
    measured(octets)
}

/// The list's K2 to K20 but for K1, with the replies allowed: none, or these notifies.
fn cases() -> Vec<(&'static str, Vec<u8>, &'static [NotifyType])> {
    let short_ke = {
        let mut octets = with(&[(KE + 2, &[0, 39])]);
        octets.remove(KE + 8);
        measured(octets)
    };
    let skf = |number: u16, total: u16| {
        let mut octets = good()[..8].to_vec();
        octets.extend([0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 53, 0x20, 35, 0x08, 0, 0, 0, 1, 0, 0, 0, 0x4c]);
        octets.extend([35, 0, 0, 48]);
        octets.extend(number.to_be_bytes().into_iter().chain(total.to_be_bytes()));
        octets.resize(76, 0);
        octets
    };
    let syntax: &[NotifyType] = &[NotifyType::INVALID_SYNTAX];
    vec![
        ("K2 payload length 0", with(&[(SA + 2, &[0, 0])]), &[]),
        ("K3 payload length 3", with(&[(SA + 2, &[0, 3])]), &[]),
        ("K4 length 2^32-1", with(&[(24, &[0xff; 4])]), &[]),
        ("K5 length 27", with(&[(24, &[0, 0, 0, 27])]), &[]),
        ("length 28 and trailing data", with(&[(24, &[0, 0, 0, 28])]), &[]),
        ("K6 SPI size 255", with(&[(SA + 10, &[255])]), &[]),
        ("K7 255 transforms", with(&[(SA + 11, &[255])]), &[]),
        ("K8 transform length 0", with(&[(SA + 14, &[0, 0])]), &[]),
        ("K9 nonce of 7", nonce_of(7), syntax),
        ("K10 nonce of 300", nonce_of(300), syntax),
        ("K11 X25519 zero", with(&[(KE + 8, &[0; 32])]), &[NotifyType::INVALID_SYNTAX, NotifyType::NO_PROPOSAL_CHOSEN]),
        ("K12 X25519 of 31", short_ke, &[NotifyType::INVALID_SYNTAX, NotifyType::NO_PROPOSAL_CHOSEN]),
        ("K13 notify SPI size", preceded(41, &[33, 0, 0, 8, 1, 16, 0x40, 6]), &[]),
        ("K14 critical 200", preceded(200, &[33, 0x80, 0, 4]), &[NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD]),
        ("K15 uncritical 200", preceded(200, &[33, 0, 0, 4]), &[NotifyType::NO_PROPOSAL_CHOSEN]),
        ("K17 SPIi 0", with(&[(0, &[0; 8])]), &[]),
        ("K18 version 3", with(&[(17, &[0x30])]), &[NotifyType::INVALID_MAJOR_VERSION]),
        ("K19 fragment 0 of 2", skf(0, 2), &[]),
        ("K20 fragment 3 of 2", skf(3, 2), &[]),
        ("K1 as a response", with(&[(19, &[0x20])]), &[]),
        ("an SPIr in a request", with(&[(8, &[1; 8])]), &[]),
        ("message ID 1", with(&[(23, &[1])]), &[]),
    ]
}

fn source(number: u32) -> Path {
    let remote = SocketAddr::from((Ipv4Addr::from_bits(0x0ac8_0000 + number), 1024 + (number % 60_000) as u16));
    Path { socket: SocketId(0), local: None, remote }
}

fn responder(limits: Limits) -> Endpoint {
    let mut endpoint = endpoint(1, 1, Suites::default_for(true), limits);
    endpoint.add_peer(PeerId(0), &node_name(0), private_key(0).public());
    endpoint
}

fn replies(endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| endpoint.poll_transmit()).map(|transmit| transmit.datagram[4..].to_vec()).collect()
}

fn notify(reply: &[u8]) -> (NotifyType, Vec<u8>) {
    let message = Message::parse(reply).unwrap();
    assert!(message.header.response && message.header.spi_responder == 0 && message.header.message_id == 0);
    let Body::Clear(chain) = message.body else { panic!("clear") };
    let payloads = chain.payloads().unwrap();
    let [Payload::Notify(notify)] = payloads.as_slice() else { panic!("{payloads:?}") };
    (notify.kind, notify.data.clone())
}

fn state(endpoint: &Endpoint) -> (usize, usize, u64) {
    (endpoint.sas.len(), endpoint.half_open(None), endpoint.key_exchanges())
}

/// Case L2.
#[test]
fn malformed_requests_get_what_they_deserve() {
    for (name, octets, allowed) in cases() {
        let mut endpoint = responder(Limits::default());
        let mut said = 0;
        for number in 0..1000 {
            endpoint.receive(Time::ZERO, source(number), &octets);
            for reply in replies(&mut endpoint) {
                let (kind, data) = notify(&reply);
                assert!(allowed.contains(&kind), "{name}: {kind}");
                assert!(reply.len() <= octets.len(), "{name}: no amplification");
                if kind == NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD {
                    assert_eq!(data, [200]);
                }
                said += 1;
            }
            // One octet less is another length than the field says; another version may mean anything by it.
            endpoint.receive(Time::ZERO, source(number), &octets[..octets.len() - 1]);
            let replies = replies(&mut endpoint).len();
            assert!(replies == 0 || allowed == [NotifyType::INVALID_MAJOR_VERSION], "{name}");
            said += replies;
        }
        let rationed = [NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD, NotifyType::INVALID_MAJOR_VERSION];
        if allowed.iter().any(|kind| rationed.contains(kind)) {
            assert!((1..=20).contains(&said), "{name}: {said}");
        }
        assert_eq!(state(&endpoint), (0, 0, 0), "{name}");
        let refused = std::iter::from_fn(|| endpoint.poll_event()).count();
        assert!(refused <= 5, "{name}: {refused} events");
        assert!(endpoint.counters().map(|(_, count)| count).sum::<u64>() >= 2000, "{name}: counted");
    }
}

/// The list's K1: it lacks the notifies without which there is no ML-KEM and no Ed25519.
#[test]
fn a_bare_request_is_refused_without_a_key_exchange() {
    let mut endpoint = responder(Limits::default());
    for number in 0..1000 {
        endpoint.receive(Time::ZERO, source(number), &good());
        let replies = replies(&mut endpoint);
        assert_eq!(notify(&replies[0]), (NotifyType::NO_PROPOSAL_CHOSEN, vec![]));
    }
    assert_eq!(state(&endpoint), (0, 0, 0));
}

#[test]
fn short_datagrams_are_dropped() {
    let mut endpoint = responder(Limits::default());
    for len in 0..=31 {
        for filler in [0x00, 0xff, 0x20] {
            endpoint.receive(Time::ZERO, source(len), &vec![filler; len as usize]);
            endpoint.receive(Time::ZERO, source(len), &good()[..len as usize]);
        }
    }
    assert!(replies(&mut endpoint).is_empty());
    assert_eq!(state(&endpoint), (0, 0, 0));
}

/// First requests of `count` initiators that differ.
fn first_requests(count: u64) -> Vec<Vec<u8>> {
    let request = |seed| {
        let mut initiator = endpoint(0, seed, Suites::default_for(true), Limits::default());
        initiator.add_peer(PeerId(1), &node_name(1), private_key(1).public());
        initiator.connect(Time::ZERO, PeerId(1), path(0, 1));
        initiator.poll_transmit().unwrap().datagram[4..].to_vec()
    };
    (0..count).map(request).collect()
}

/// Case K3, the part of IKE.
#[test]
fn a_flood_of_good_requests_gets_cookies() {
    let mut world = World::pair(100_000);
    let requests = first_requests(2000);
    for (number, request) in (0..).zip(&requests) {
        let from = source(number);
        world.nodes[1].endpoint.receive(Time::ZERO, from, request);
        let reply = replies(&mut world.nodes[1].endpoint).remove(0);
        if number >= 16 {
            assert_eq!(notify(&reply).0, NotifyType::COOKIE);
            assert!(reply.len() <= request.len());
        }
    }
    let endpoint = &world.nodes[1].endpoint;
    assert_eq!(state(endpoint), (16, 16, 16));
    // In the midst of it, somebody who means it.
    world.connect(0, 1);
    world.run(SECOND);
    world.assert_paired(1);
    assert_eq!(world.nodes[1].endpoint.half_open(None), 16);
    world.run(30 * SECOND);
    assert_eq!(state(&world.nodes[1].endpoint), (1, 0, 18));
}

#[test]
fn one_source_has_its_limits() {
    let mut endpoint = responder(Limits::default());
    let mut answers = Vec::new();
    for request in first_requests(20) {
        endpoint.receive(Time::ZERO, source(7), &request);
        answers.extend(replies(&mut endpoint));
    }
    assert_eq!(endpoint.half_open(Some(source(7).remote.ip())), 3);
    assert_eq!(endpoint.half_open(Some(IpAddr::from([192, 0, 2, 99]))), 0);
    assert_eq!(answers.len(), 20);
    assert!(answers[3..].iter().all(|answer| notify(answer).0 == NotifyType::COOKIE));

    // Cookies that are paid do not lift the cap.
    let limits = Limits { cookie_total: 1000, cookie_per_source: 1000, ..Limits::default() };
    let mut endpoint = responder(limits);
    for request in first_requests(20) {
        endpoint.receive(Time::ZERO, source(7), &request);
    }
    assert_eq!(endpoint.half_open(None), 5);
    assert_eq!(endpoint.key_exchanges(), 5);
    let limits = Limits { cookie_total: 1000, half_open_total: 30, ..Limits::default() };
    let mut endpoint = responder(limits);
    for (number, request) in (0..).zip(first_requests(50)) {
        endpoint.receive(Time::ZERO, source(number), &request);
    }
    assert_eq!(endpoint.half_open(None), 30);
}

/// A public value that is none costs a key exchange as well: soon only those who can be reached get one, and few from one source.
#[test]
fn bad_public_values_do_not_make_us_compute_for_ever() {
    let bad = |mut request: Vec<u8>| {
        let Body::Clear(chain) = Message::parse(&request).unwrap().body else { panic!("clear") };
        let payloads = chain.payloads().unwrap();
        let Some(Payload::Ke(ke)) = payloads.iter().find(|payload| matches!(payload, Payload::Ke(_))) else {
            panic!("a KE payload")
        };
        let at = request.windows(32).position(|octets| octets == ke.data).unwrap();
        request[at..at + 32].fill(0);
        request
    };
    let requests: Vec<_> = first_requests(200).into_iter().map(bad).collect();
    let mut endpoint = responder(Limits::default());
    for (number, request) in (0..).zip(&requests) {
        for _ in 0..2 {
            endpoint.receive(Time::ZERO, source(number), request);
        }
    }
    assert_eq!(endpoint.key_exchanges(), 16);
    assert_eq!(replies(&mut endpoint).len(), 2 * (200 - 16), "cookies");
    endpoint.handle_timeout(Time::ZERO + 31 * SECOND);
    assert_eq!((endpoint.sas.len(), endpoint.half_open(None)), (0, 0));

    let mut endpoint = responder(Limits { cookie_per_source: 1000, ..Limits::default() });
    for request in &requests {
        endpoint.receive(Time::ZERO, source(7), request);
    }
    assert_eq!(endpoint.key_exchanges(), 5);
}

#[test]
fn a_cookie_of_another_address_is_no_cookie() {
    let limits = Limits { cookie_total: 0, ..Limits::default() };
    let mut world = World::of(2, [Suites::default_for(true), Suites::default_for(true)], limits);
    world.connect(0, 1);
    world.run(SECOND);
    let paid = world.sent[2].octets.clone();
    let endpoint = &mut world.nodes[1].endpoint;
    let before = state(endpoint);
    let mut other = paid.clone();
    // Another SPIi, as if stolen.
    other[0] ^= 1;
    endpoint.receive(world.now, path(1, 0), &other);
    assert_eq!(notify(&replies(endpoint)[0]).0, NotifyType::COOKIE);
    assert_eq!(state(endpoint), before);
}

/// Garbage under the SPIs of a half-open SA costs neither its keys nor its place (RFC 8019 §4.6).
#[test]
fn garbage_does_not_force_a_recomputation() {
    let mut world = World::pair(3);
    let mut rng = Rng::from_number(3);
    // Before each datagram a forged one of the same headers.
    world.wire = Box::new(move |_, datagram| {
        let mut forged = datagram.octets.clone();
        if forged[18] != 34 {
            let at = 32 + rng.below(u32::try_from(forged.len() - 32).unwrap()) as usize;
            forged[at] ^= 0x40;
            vec![(Duration::ZERO, forged), (Duration::from_millis(1), datagram.octets.clone())]
        } else {
            vec![(Duration::ZERO, forged)]
        }
    });
    world.connect(0, 1);
    world.run(SECOND);
    world.assert_paired(1);
    assert_eq!(world.nodes[1].endpoint.key_exchanges(), 2);
    assert!(world.counter(1, "ike_bad_icv") > 0);
}

/// Two peers in every stage of a handshake, and the datagrams that brought them there.
fn stages() -> Vec<World> {
    let stage = |datagrams: usize| {
        let mut world = World::pair(4);
        world.wire =
            Box::new(
                move |number, datagram| {
                    if number < datagrams { vec![(Duration::ZERO, datagram.octets.clone())] } else { vec![] }
                },
            );
        world.connect(0, 1);
        world.run(SECOND / 2);
        world
    };
    (0..=7).map(stage).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_changes_nothing(noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..20), spis in any::<bool>()) {
        for mut world in stages() {
            let before: Vec<_> = world.nodes.iter().map(|node| state(&node.endpoint)).collect();
            let info = world.nodes[1].endpoint.sas().next();
            for octets in &noise {
                let mut octets = octets.clone();
                if spis && octets.len() >= 28 {
                    // Aimed at a living SA, and of an honest length.
                    if let Some(info) = &info {
                        octets[..8].copy_from_slice(&info.spi_initiator.to_be_bytes());
                        octets[8..16].copy_from_slice(&info.spi_responder.to_be_bytes());
                    }
                    octets[16] = [46, 53, 33][usize::from(octets[16]) % 3];
                    octets[17] = 0x20;
                    octets[18] = 34 + octets[18] % 12;
                    octets[19] &= 0x28;
                    let id = octets[23] % 4;
                    octets[20..24].copy_from_slice(&[0, 0, 0, id]);
                    octets = measured(octets);
                }
                for node in 0..2 {
                    world.nodes[node].endpoint.receive(world.now, path(node, 1 - node), &octets);
                }
            }
            let after: Vec<_> = world.nodes.iter().map(|node| state(&node.endpoint)).collect();
            prop_assert_eq!(before, after);
        }
    }

    #[test]
    fn truncated_and_flipped_messages_change_nothing(cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>()) {
        let whole = stages().pop().unwrap();
        for mut world in stages() {
            let before: Vec<_> = world.nodes.iter().map(|node| state(&node.endpoint)).collect();
            for datagram in &whole.sent {
                let to = 1 - datagram.from;
                let truncated = &datagram.octets[..cut.index(datagram.octets.len())];
                world.nodes[to].endpoint.receive(world.now, path(to, datagram.from), truncated);
                // Beyond the headers: what is in the clear and flipped may well be another good request.
                if datagram.octets[18] != 34 {
                    let mut flipped = datagram.octets.clone();
                    let at = flip.index(flipped.len());
                    flipped[at] ^= 1 << (at % 8);
                    world.nodes[to].endpoint.receive(world.now, path(to, datagram.from), &flipped);
                }
            }
            let after: Vec<_> = world.nodes.iter().map(|node| state(&node.endpoint)).collect();
            prop_assert_eq!(before, after);
        }
    }
}
