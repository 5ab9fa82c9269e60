//! Child SAs (RFC 7296 §1.2, §1.3.1, §2.9, §2.17): the offer, the answer, the verdict on an answer, and the keys.
//!
//! Every tunnel carries everything: 0.0.0.0/0 and ::/0 on both sides, for Babel's link-local packets and for transit alike. A peer
//! that narrows this gets what it asks for; what does not fit is its to drop.

use super::context::Context;
use super::create::{Half, Nonces, What};
use super::error::{Fault, child_refusal, no_child};
use super::event::{Reason, Role};
use super::keymat::{IkeKeys, Seed};
use super::payloads;
use super::propose::{self, EspChoice};
use super::sa::Core;
use crate::child_sa::ChildSa;
use crate::crypto::aead::Cipher;
use crate::crypto::kex::{self, Method};
use crate::crypto::secret::Secret;
use crate::wire::ike::{Ke, Payload, Proposal, TrafficSelector};

/// What a response says about the Child SA that was asked for.
pub(super) enum Verdict {
    Given(EspChoice),
    Refused(Reason),
    /// The peer believes that it gave one, but nothing can be made of it: it is to be deleted.
    Broken(Reason),
}

/// SA, TSi and TSr of a request. `optional`: without the key exchanges it will do as well.
pub(super) fn offer(ciphers: &[Cipher], spi_in: u32, exchanges: &[Method], optional: bool) -> [Payload; 3] {
    let everything = vec![TrafficSelector::ANY_V4, TrafficSelector::ANY_V6];
    let mut proposals = vec![propose::offer_esp(ciphers, spi_in, exchanges)];
    if optional && !exchanges.is_empty() {
        proposals.push(Proposal { number: 2, ..propose::offer_esp(ciphers, spi_in, &[]) });
    }
    [Payload::Sa(proposals), Payload::TsI(everything.clone()), Payload::TsR(everything)]
}

pub(super) fn verdict(ciphers: &[Cipher], exchanges: &[Method], optional: bool, payloads: &[Payload]) -> Verdict {
    if let Some(error) = payloads::error(payloads) {
        return Verdict::Refused(child_refusal(error.kind));
    }
    let Some(answer) = payloads::sa(payloads) else { return Verdict::Refused(no_child()) };
    let broken = |what: &str| {
        Verdict::Broken(Reason::PeerMisbehaved(format!("peer refused nothing and sent no data tunnel: {what}")))
    };
    let (Some(ours), Some(theirs)) = (payloads::selectors_initiator(payloads), payloads::selectors_responder(payloads))
    else {
        return broken("no traffic selectors");
    };
    if pair(ours, theirs).is_none() {
        return broken("traffic selectors without a common family");
    }
    if ![ours, theirs].iter().all(|selectors| is_everything(selectors)) {
        log::info!("the peer narrowed the traffic selectors of a data tunnel: what does not fit is lost there");
    }
    match propose::answered_esp(ciphers, exchanges, optional, answer) {
        Some(choice) => Verdict::Given(choice),
        None => broken("an ESP proposal that we did not offer"),
    }
}

/// As responder: agrees to the Child SA that is asked for, and gives the answer. `first` is the seed of the IKE SA if it is the one
/// of IKE_AUTH.
///
/// Fails without leaving an SPI reserved.
pub(super) fn give(
    core: &mut Core,
    ctx: &mut Context,
    first: Option<&Seed>,
    request: &[Payload],
) -> Result<(Half, Vec<Payload>), Fault> {
    let offered = payloads::sa(request).ok_or(Fault::Syntax("no SA payload"))?;
    let (Some(theirs), Some(ours)) = (payloads::selectors_initiator(request), payloads::selectors_responder(request))
    else {
        return Err(Fault::Syntax("no traffic selectors"));
    };
    let (theirs, ours) = pair(theirs, ours).ok_or(Fault::Selectors)?;
    let ke = payloads::ke(request);
    let choice = propose::choose_esp(&ctx.suites(core.peer).esp, offered, first.is_some(), ke.map(|ke| ke.method))
        .ok_or(Fault::NoProposal)?;
    let mut answer = Vec::new();
    let mut shared: Vec<Secret> = Vec::new();
    if let Some(method) = choice.exchange {
        // RFC 7296 §1.3: named so that the peer can try again.
        let wanted = Fault::OtherMethod(propose::method_id(method));
        let ke = ke.filter(|ke| ke.method == propose::method_id(method)).ok_or(wanted)?;
        ctx.key_exchanges += 1;
        let (data, secret) =
            kex::respond(method, &ke.data, &mut ctx.rng).map_err(|_| Fault::Syntax("bad public value"))?;
        answer.push(Payload::Ke(Ke { method: ke.method, data }));
        shared.push(secret);
    }
    let (nonce_initiator, nonce_responder) = match first {
        Some(seed) => (seed.nonce_initiator.clone(), seed.nonce_responder.clone()),
        None => {
            let nonce = payloads::nonce(request).ok_or(Fault::Syntax("no nonce"))?;
            let ours = ctx.rng.array::<32>().to_vec();
            answer.push(Payload::Nonce(ours.clone()));
            (nonce.to_vec(), ours)
        }
    };
    let spi_in = core.reserve_spi(ctx);
    answer.insert(0, Payload::Sa(vec![propose::answer_esp(&choice, spi_in)]));
    answer.push(Payload::TsI(theirs));
    answer.push(Payload::TsR(ours));
    let todo = choice.additional().collect();
    let nonces = Nonces { initiator: nonce_initiator, responder: nonce_responder };
    Ok((Half { what: What::Child { choice, spi_in }, nonces, shared, todo }, answer))
}

/// The keys of a Child SA; `role` is ours in the exchange that made it, whoever began the IKE SA (RFC 7296 §2.17).
pub(super) fn derive(
    keys: &IkeKeys,
    role: Role,
    choice: &EspChoice,
    spi_in: u32,
    (nonce_initiator, nonce_responder): (&[u8], &[u8]),
    shared: &[Secret],
) -> ChildSa {
    let keymat = keys.child(choice.cipher, nonce_initiator, nonce_responder, shared);
    let (key_out, key_in) = match role {
        Role::Initiator => (keymat.initiator, keymat.responder),
        Role::Responder => (keymat.responder, keymat.initiator),
    };
    let exchanges = choice.exchange.into_iter().chain(choice.additional()).collect();
    ChildSa { cipher: choice.cipher, exchanges, spi_in, spi_out: choice.spi, key_in, key_out }
}

/// Why we gave no Child SA, for a person.
pub(super) fn our_refusal(fault: Fault) -> Reason {
    Reason::Incompatible(match fault {
        Fault::Selectors => "we refused the peer's traffic selectors: no IPv4 or IPv6 on both sides".to_owned(),
        Fault::NoProposal | Fault::OtherMethod(_) => {
            "we refused the peer's ESP proposals: compare the ESP suites of both configs".to_owned()
        }
        Fault::Syntax(what) => format!("we refused the peer's data tunnel: {what}"),
        Fault::Critical(_)
        | Fault::Authentication
        | Fault::NoAdditional
        | Fault::Busy
        | Fault::NoChild(_)
        | Fault::NoState => "we refused the peer's data tunnel".to_owned(),
    })
}

/// What of two sets of selectors we can use (RFC 7296 §2.9): well-formed, and of a family that both sides have.
fn pair(one: &[TrafficSelector], other: &[TrafficSelector]) -> Option<(Vec<TrafficSelector>, Vec<TrafficSelector>)> {
    let usable = |selectors: &[TrafficSelector]| -> Vec<TrafficSelector> {
        selectors.iter().filter(|selector| family(selector).is_some()).cloned().collect()
    };
    let (one, other) = (usable(one), usable(other));
    let common = one.iter().any(|selector| other.iter().any(|other| family(other) == family(selector)));
    common.then_some((one, other))
}

/// The IP version of a selector that something can match.
fn family(selector: &TrafficSelector) -> Option<u8> {
    match selector {
        TrafficSelector::V4 { addresses, ports, .. } => (addresses.0 <= addresses.1 && ports.0 <= ports.1).then_some(4),
        TrafficSelector::V6 { addresses, ports, .. } => (addresses.0 <= addresses.1 && ports.0 <= ports.1).then_some(6),
        TrafficSelector::Other { .. } => None,
    }
}

fn is_everything(selectors: &[TrafficSelector]) -> bool {
    selectors.contains(&TrafficSelector::ANY_V4) && selectors.contains(&TrafficSelector::ANY_V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_need_a_common_family_and_an_extent() {
        let v4 = TrafficSelector::ANY_V4;
        let v6 = TrafficSelector::ANY_V6;
        let none = TrafficSelector::V4 {
            protocol: 0,
            ports: (0, 65535),
            addresses: ([10, 0, 0, 2].into(), [10, 0, 0, 1].into()),
        };
        // RFC 7296 §3.13.1: OPAQUE ports
        let opaque =
            TrafficSelector::V4 { protocol: 0, ports: (65535, 0), addresses: ([0; 4].into(), [255; 4].into()) };
        let other = TrafficSelector::Other { kind: 9, protocol: 0, body: vec![] };
        let lone = |one, other| pair(std::slice::from_ref(one), std::slice::from_ref(other)).is_some();
        assert!(lone(&v4, &v4) && lone(&v6, &v6));
        assert!(!lone(&v4, &v6) && !lone(&v4, &none) && !lone(&v4, &opaque) && !lone(&other, &other));
        assert!(pair(&[], std::slice::from_ref(&v4)).is_none());
        let (one, two) = pair(&[v4.clone(), other, none], &[v6.clone(), v4.clone()]).unwrap();
        assert_eq!((one, two), (vec![v4.clone()], vec![v6.clone(), v4.clone()]));
        assert!(is_everything(&[v6, v4.clone()]));
        assert!(!is_everything(&[v4]));
    }
}
