//! What a foreign peer may say beside the point, and what it tells us of its own state: childless IKE_AUTH (RFC 6023), certificates,
//! REDIRECT (RFC 5685), INITIAL_CONTACT and INVALID_SPI (RFC 7296 §2.4, §1.5).

use std::time::Duration;

use crate::config::plan::{PostQuantum, Rekey, Suites};
use crate::crypto::kex::Method;
use crate::ike::child;
use crate::ike::endpoint::{Limits, Role};
use crate::ike::sa::State;
use crate::ike::signature::SignedOctets;
use crate::ike::testing::{World, answer_auth, endpoint_with, node_name, peer_id, private_key, suite, suites};
use crate::ike::window::{LATER, Window};
use crate::wire::ike::{Body, Cert, Exchange, Id, Message, Notify, NotifyType, Payload, id_type};

const SECOND: Duration = Duration::from_secs(1);

fn notify(kind: NotifyType, data: &[u8]) -> Payload {
    Payload::Notify(Notify::new(kind, data))
}

/// Encodings that nobody here has a use for: X.509, and a hash with the address of one.
fn certificates() -> Vec<Payload> {
    let foreign = |encoding: u8| Cert { encoding, data: vec![encoding; 40] };
    vec![
        Payload::Cert(foreign(4)),
        Payload::Cert(foreign(12)),
        Payload::CertReq(foreign(4)),
        Payload::CertReq(foreign(15)),
    ]
}

fn classic() -> Suites {
    suites(vec![suite(Method::X25519, &[])], PostQuantum::Preferred)
}

/// Node 0 dials, and in the place of its IKE_AUTH a true proof of its identity goes out with `rest`, after a Child SA is asked for
/// or not. No other key exchange comes before, so that it is the second message.
fn dial_with(world: &mut World, rest: &[Payload], childless: bool) {
    world.wire = Box::new(|_, datagram| {
        let header = Message::parse(&datagram.octets).unwrap().header;
        let auth = datagram.from == 0 && header.exchange == Exchange::IKE_AUTH && !header.response;
        if auth { vec![] } else { vec![(Duration::ZERO, datagram.octets.clone())] }
    });
    let id = world.connect(0, 1);
    world.run(SECOND / 2);
    let now = world.now;
    let endpoint = &mut world.nodes[0].endpoint;
    let mut sa = endpoint.sas.remove(&id).expect("under way");
    let State::Authenticating(state) = &mut sa.state else { panic!("IKE_AUTH is under way") };
    let handshake = &mut state.handshake;
    let name = Id::new(id_type::FQDN, endpoint.ctx.name.as_bytes());
    let signed = SignedOctets {
        signer: Role::Initiator,
        keys: &handshake.keys,
        real_message: &handshake.init_request,
        peer_nonce: &handshake.seed.nonce_responder,
        id: &name,
        int_auth: &handshake.int_auth,
        auth_message_id: 1,
    };
    let auth = signed.sign(&endpoint.ctx.private_key);
    let mut request = vec![Payload::IdI(name), Payload::Auth(auth)];
    if !childless {
        request.extend(child::offer(&endpoint.ctx.suites(None).esp, sa.core.child_spis[0], &[], false));
    }
    request.extend_from_slice(rest);
    // As after IKE_SA_INIT.
    let mut window = Window::default();
    window.start(now, Exchange::IKE_SA_INIT, vec![], LATER, &mut endpoint.ctx.rng);
    window.answered();
    sa.core.window = window;
    let exchange = Exchange::IKE_AUTH;
    assert!(sa.core.request(&mut endpoint.ctx, now, &mut handshake.keys, exchange, &request, LATER).is_ok());
    endpoint.replace(sa);
    world.wire = Box::new(|_, datagram| vec![(Duration::ZERO, datagram.octets.clone())]);
    world.run(SECOND / 2);
}

fn classic_pair(seed: u64) -> World {
    World::of(seed, [classic(), classic()], Limits::default())
}

/// The initiator asks for no Child SA: the session stands, and CREATE_CHILD_SA makes one.
#[test]
fn a_childless_initiator() {
    let mut world = classic_pair(1);
    dial_with(&mut world, &[], true);
    assert_eq!((world.standing(0).len(), world.standing(0)), (1, world.standing(1)));
    assert!(world.children(0).is_empty() && world.children(1).is_empty());
    assert!(world.nodes[1].endpoint.sas().next().unwrap().state.contains("no data tunnel"));
    world.run(10 * SECOND);
    world.assert_paired(1);
    assert!(world.exchanges(0).contains(&Exchange::CREATE_CHILD_SA));
    assert!(world.closed(0).is_empty() && world.closed(1).is_empty());
}

#[test]
fn foreign_certificates_are_passed_over() {
    let mut world = classic_pair(2);
    dial_with(&mut world, &certificates(), false);
    world.assert_paired(1);

    let mut world = classic_pair(3);
    let script = |endpoint: &mut _, now, _, octets: &[u8]| answer_auth(endpoint, now, octets, &certificates(), true);
    world.scripts.insert(1, Box::new(script));
    world.connect(0, 1);
    world.run(SECOND);
    assert_eq!((world.standing(0).len(), world.standing(0)), (1, world.standing(1)));
    assert!(world.closed(0).is_empty());
}

/// Nobody is told that we can be sent elsewhere, and nobody can.
#[test]
fn redirect_is_neither_offered_nor_followed() {
    let elsewhere = notify(NotifyType::REDIRECT, &[1, 4, 203, 0, 113, 9]);
    let mut world = classic_pair(4);
    let answer = elsewhere.clone();
    let script = move |endpoint: &mut _, now, _, octets: &[u8]| {
        answer_auth(endpoint, now, octets, std::slice::from_ref(&answer), true)
    };
    world.scripts.insert(1, Box::new(script));
    world.connect(0, 1);
    world.run(SECOND);
    assert_eq!((world.standing(0).len(), world.standing(0)), (1, world.standing(1)));

    let mut world = classic_pair(5);
    dial_with(&mut world, &[notify(NotifyType::REDIRECT_SUPPORTED, &[])], false);
    world.assert_paired(1);
    for from in 0..2 {
        assert_eq!(world.ask(from, Exchange::INFORMATIONAL, std::slice::from_ref(&elsewhere)), []);
    }
    world.run(60 * SECOND);
    world.assert_paired(1);
    for datagram in &world.sent {
        let Body::Clear(chain) = Message::parse(&datagram.octets).unwrap().body else { continue };
        let told = chain.payloads().unwrap();
        let redirect =
            |payload: &Payload| matches!(payload, Payload::Notify(told) if told.kind == NotifyType::REDIRECT_SUPPORTED);
        assert!(!told.iter().any(redirect));
    }
}

/// Node 0 begins anew and has forgotten everything.
fn restart(world: &mut World) {
    let seed = world.now.micros();
    let mut endpoint = endpoint_with(0, seed, classic(), Limits::default(), Rekey::NEVER);
    endpoint.add_peer(peer_id(1), &node_name(1), private_key(1).public());
    world.nodes[0].endpoint = endpoint;
}

/// A peer that says so has no other session: those that stood before are over. Without the word they are not, for tunnels may be
/// parallel.
#[test]
fn initial_contact_ends_what_stood_before() {
    for told in [true, false] {
        let mut world = classic_pair(6);
        dial_with(&mut world, &[], false);
        world.run(5 * SECOND);
        let before = world.standing(1);
        restart(&mut world);
        let contact = notify(NotifyType::INITIAL_CONTACT, &[]);
        dial_with(&mut world, if told { std::slice::from_ref(&contact) } else { &[] }, false);
        let after = world.standing(1);
        assert_eq!(after.iter().any(|sa| before.contains(sa)), !told);
        assert!(after.contains(&world.standing(0)[0]), "the new one stands");
        assert_eq!(world.closed(1).len(), usize::from(told));
        let reserved: usize = world.nodes[1].endpoint.sas.values().map(|sa| sa.core.child_spis.len()).sum();
        assert_eq!(reserved, after.len(), "no inbound SPI is left over");
    }
}

/// What was established after the peer had begun, it does not deny: both dialled at once.
#[test]
fn initial_contact_leaves_what_began_later() {
    let mut world = classic_pair(7);
    world.connect(1, 0);
    dial_with(&mut world, &[notify(NotifyType::INITIAL_CONTACT, &[])], false);
    world.run(5 * SECOND);
    assert_eq!(world.standing(1).len(), 2);
    assert!(world.closed(1).is_empty());
}

/// The peer says, inside the session, that it gets packets for an SPI that it does not have: that Child SA goes, and another comes.
#[test]
fn invalid_spi_inside_a_session_replaces_the_child() {
    for from in 0..2 {
        let mut world = classic_pair(9);
        world.connect(0, 1);
        world.run(SECOND);
        let to = 1 - from;
        let spi = world.children(to)[0].spi_out;
        for nonsense in [vec![], vec![1, 2, 3], vec![0, 0, 9, 9], vec![1; 5]] {
            assert_eq!(world.ask(from, Exchange::INFORMATIONAL, &[notify(NotifyType::INVALID_SPI, &nonsense)]), []);
        }
        world.run(20 * SECOND);
        assert!(world.child_downs(to).is_empty() && world.children(to).len() == 1, "an SPI that is none of ours");
        let told = notify(NotifyType::INVALID_SPI, &spi.to_be_bytes());
        assert_eq!(world.ask(from, Exchange::INFORMATIONAL, &[told.clone(), told]), []);
        world.run(20 * SECOND);
        assert_eq!((world.child_downs(0).len(), world.child_downs(1).len()), (1, 1));
        let (ours, theirs) = (world.children(0), world.children(1));
        assert_eq!((ours.len(), theirs.len()), (2, 2));
        assert_eq!((ours[1].spi_in, ours[1].spi_out), (theirs[1].spi_out, theirs[1].spi_in));
        assert!(world.closed(0).is_empty() && world.closed(1).is_empty());
        assert_eq!(world.nodes[to].endpoint.poll_timeout(), None);
    }
}
