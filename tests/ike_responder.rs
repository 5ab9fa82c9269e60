//! The first request of strongSwan 6.1, in each of its captured configurations, and what our responder says to it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeMap;
use std::path::Path as File;

use serde_json::Value;
use wattle::config::plan::{PostQuantum, Rekey, Suites};
use wattle::crypto::rng::Rng;
use wattle::crypto::sign::PrivateKey;
use wattle::ike::Endpoint;
use wattle::ike::endpoint::{Limits, Settings};
use wattle::path::{Path, SocketId};
use wattle::time::Time;
use wattle::wire::ike::{Body, Message, Payload, TransformType};

/// What the answer to a captured first request says: the chosen key exchanges, or a notify.
fn answer(post_quantum: PostQuantum, request: &[u8]) -> String {
    let suites = Suites { post_quantum, ..Suites::default_for(true) };
    let settings =
        Settings { name: "b".to_owned(), private_key: PrivateKey::from_seed(&[1; 32]), suites, rekey: Rekey::NEVER };
    let mut endpoint = Endpoint::new(settings, Limits::default(), Rng::from_number(1), Time::ZERO);
    let path = Path { socket: SocketId(0), local: None, remote: "192.0.2.1:4500".parse().unwrap() };
    endpoint.receive(Time::ZERO, path, request);
    let reply = endpoint.poll_transmit().unwrap();
    let message = Message::parse(&reply.datagram[4..]).unwrap();
    let Body::Clear(chain) = message.body else { panic!("clear") };
    let payloads = chain.payloads().unwrap();
    let state = endpoint.sas().count();
    if let Payload::Notify(notify) = &payloads[0] {
        assert_eq!((payloads.len(), state, endpoint.key_exchanges()), (1, 0, 0));
        return notify.kind.to_string();
    }
    let Payload::Sa(proposals) = &payloads[0] else { panic!("{payloads:?}") };
    assert_eq!((proposals.len(), state, endpoint.half_open(None)), (1, 1, 1));
    let exchanges = proposals[0].transforms.iter();
    let exchanges = exchanges.filter(|t| t.kind == TransformType::KE || t.kind >= TransformType::ADDKE1);
    exchanges.map(|t| t.id.to_string()).collect::<Vec<_>>().join("+")
}

#[test]
fn every_configuration_gets_its_answer() {
    let folder = File::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ike");
    let mut answers = BTreeMap::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let digits = json["frames"][0]["message"].as_str().unwrap();
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let request: Vec<u8> = digits.as_bytes().chunks(2).map(octet).collect();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let both = (answer(PostQuantum::Required, &request), answer(PostQuantum::Preferred, &request));
        answers.insert(name, both);
    }
    assert_eq!(answers.len(), 17);
    // X25519 is 31, ML-KEM-768 is 36. Where ML-KEM is optional, it is taken.
    for (name, (required, preferred)) in &answers {
        let expected = match name.as_str() {
            "gcm-x25519-only" => ("NO_PROPOSAL_CHOSEN", "31"),
            "invalid-ke" => ("INVALID_KE_PAYLOAD", "INVALID_KE_PAYLOAD"),
            "mlkem-as-first-ke" | "three-ke" => ("NO_PROPOSAL_CHOSEN", "NO_PROPOSAL_CHOSEN"),
            _ => ("31+36", "31+36"),
        };
        assert_eq!((required.as_str(), preferred.as_str()), expected, "{name}");
    }
}
