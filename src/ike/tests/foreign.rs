//! Peers that have an identity or suites of their own.

use std::time::Duration;

use crate::config::plan::{PostQuantum, Suites};
use crate::crypto::kex::Method;
use crate::identity::Identity;
use crate::ike::endpoint::{Event, Known, Limits};
use crate::ike::testing::{World, address, node_name, peer_id, private_key, suite, suites};

const SECOND: Duration = Duration::from_secs(1);

fn id(text: &str) -> Identity {
    text.parse().unwrap()
}

/// What node `of` knows of the other one.
fn known(of: usize, suites: Suites) -> Known {
    let other = 1 - of;
    Known {
        name: node_name(other),
        key: private_key(other).public(),
        remote_id: Identity::fqdn(&node_name(other)),
        local_id: Identity::fqdn(&node_name(of)),
        suites,
        addresses: Vec::new(),
    }
}

/// Lets node 0 dial node 1, each with what it knows of the other.
fn dial(knowledge: [Known; 2]) -> World {
    let mut world = World::of(1, [Suites::default_for(true), Suites::default_for(true)], Limits::default());
    for (node, known) in knowledge.into_iter().enumerate() {
        world.nodes[node].endpoint.know(peer_id(1 - node), known);
    }
    world.connect(0, 1);
    world.run(5 * SECOND);
    world
}

fn both(suites: &Suites) -> [Known; 2] {
    [known(0, suites.clone()), known(1, suites.clone())]
}

fn agreed(world: &World, node: usize) -> Vec<&str> {
    let events = world.nodes[node].events.iter();
    events
        .filter_map(|(_, event)| if let Event::Established { suite, .. } = event { Some(&**suite) } else { None })
        .collect()
}

#[test]
fn identities_of_every_kind() {
    for (a, b) in [
        ("moon.example", "keyid:sun"),
        ("keyid:#00ff", "admin@sun.example"),
        ("192.0.2.1", "2001:db8::1"),
        ("C=CH, O=Moon, CN=moon.example", "C=CH, O=Sun, CN=søn"),
        ("fqdn:192.0.2.1", "192.0.2.1"),
    ] {
        let [mut of_b, mut of_a] = both(&Suites::default_for(true));
        (of_b.local_id, of_b.remote_id) = (id(a), id(b));
        (of_a.local_id, of_a.remote_id) = (id(b), id(a));
        dial([of_b, of_a]).assert_paired(1);
    }
}

#[test]
fn letters_and_string_types_may_differ() {
    let [mut of_b, mut of_a] = both(&Suites::default_for(true));
    (of_b.local_id, of_b.remote_id) = (id("CN=Moon"), id("sun.example"));
    (of_a.local_id, of_a.remote_id) = (id("SUN.example"), id("dn:#300f310d300b06035504030c046d6f6f6e"));
    dial([of_b, of_a]).assert_paired(1);
}

#[test]
fn an_identity_that_was_not_expected_is_named() {
    let [mut of_b, of_a] = both(&Suites::default_for(true));
    of_b.remote_id = id("C=CH, CN=sun");
    let world = dial([of_b, of_a]);
    assert_eq!(world.closed(0)[0].to_string(), "peer says it is 'b', config expects 'C=CH, CN=sun'");

    let [mut of_b, of_a] = both(&Suites::default_for(true));
    of_b.local_id = id("keyid:#00ff");
    let world = dial([of_b, of_a]);
    let (name, reason) = &world.refused(1)[0];
    assert_eq!(name.as_deref(), Some("keyid:#00ff"));
    assert!(reason.contains("not in nodes; its key is SHA256:"), "{reason}");
}

#[test]
fn each_peer_gets_its_own_suites() {
    let own = suites(vec![suite(Method::MlKem512, &[Method::X25519, Method::MlKem1024])], PostQuantum::Preferred);
    let world = dial(both(&own));
    world.assert_paired(1);
    assert_eq!(agreed(&world, 1)[0], "aes256gcm16-prfsha256-mlkem512-ke1_x25519-ke2_mlkem1024");
}

#[test]
fn a_responder_prefers_what_belongs_to_the_address() {
    let classic = suites(vec![suite(Method::X25519, &[])], PostQuantum::Preferred);
    let [of_b, mut of_a] = [known(0, Suites::default_for(true)), known(1, classic)];
    // Nobody knows who calls: what both could do best is taken, and it is not among the peer's.
    let world = dial([of_b.clone(), of_a.clone()]);
    let (_, reason) = &world.refused(1)[0];
    assert_eq!(reason, "aes256gcm16-prfsha256-x25519-ke1_mlkem768 is not among our proposals for 'a'");
    of_a.addresses.push(address(0).ip());
    let world = dial([of_b, of_a]);
    world.assert_paired(1);
    assert_eq!(agreed(&world, 1)[0], "aes256gcm16-prfsha256-x25519");
}

#[test]
fn ml_kem_may_be_required_of_one_peer() {
    let classic = suites(vec![suite(Method::X25519, &[])], PostQuantum::Preferred);
    let world = dial([known(0, classic), known(1, Suites::default_for(true).required())]);
    let (_, reason) = &world.refused(1)[0];
    assert_eq!(reason, "'a' did not agree to ML-KEM, which our config requires");
    assert_eq!(world.nodes[1].endpoint.sas().count(), 0);
}

#[test]
fn new_suites_are_for_sessions_to_come() {
    let mut world = dial(both(&Suites::default_for(true)));
    let other = suites(vec![suite(Method::X25519, &[Method::MlKem1024])], PostQuantum::Preferred);
    for (node, known) in both(&other).into_iter().enumerate() {
        world.nodes[node].endpoint.know(peer_id(1 - node), known);
    }
    world.run(SECOND);
    world.assert_paired(1);
    world.connect(0, 1);
    world.run(SECOND);
    assert_eq!(agreed(&world, 0)[1], "aes256gcm16-prfsha256-x25519-ke1_mlkem1024");
}
