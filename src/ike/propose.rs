//! Proposals: what we offer, what we choose, and whether an answer is one of the things offered (RFC 7296 §2.7, §3.3; RFC 9370 §2.2.1).

use crate::config::plan::IkeSuite;
use crate::crypto::aead::Cipher;
use crate::crypto::kex::Method;
use crate::crypto::prf::Prf;
use crate::wire::ike::{Proposal, Protocol, Transform, TransformType, transform};

/// Whether ML-KEM is among what these proposals offer.
pub(super) fn has_ml_kem(proposals: &[Proposal]) -> bool {
    let exchange = |kind: TransformType| kind == TransformType::KE || ADDITIONAL.contains(&kind.0);
    proposals
        .iter()
        .flat_map(|proposal| &proposal.transforms)
        .any(|offered| exchange(offered.kind) && method_of(offered.id).is_some_and(Method::is_post_quantum))
}

pub(super) fn method_id(method: Method) -> u16 {
    match method {
        Method::X25519 => transform::X25519,
        Method::MlKem512 => transform::ML_KEM_512,
        Method::MlKem768 => transform::ML_KEM_768,
        Method::MlKem1024 => transform::ML_KEM_1024,
    }
}

pub(super) fn method_of(id: u16) -> Option<Method> {
    METHODS.into_iter().find(|&method| method_id(method) == id)
}

/// One proposal a suite, in order.
pub(super) fn offer_ike(suites: &[IkeSuite]) -> Vec<Proposal> {
    let proposal = |(number, suite): (u8, &IkeSuite)| Proposal {
        number,
        protocol: Protocol::IKE,
        spi: Vec::new(),
        transforms: ike_transforms(suite, suite.additional.iter().map(|&method| method_id(method))),
    };
    (1..=u8::MAX).zip(suites).map(proposal).collect()
}

/// The first of our suites that one of the proposals allows, and the answer that says so.
pub(super) fn choose_ike(suites: &[IkeSuite], offered: &[Proposal]) -> Option<(IkeSuite, Proposal)> {
    suites.iter().find_map(|suite| {
        let answer = offered.iter().find_map(|proposal| fit_ike(suite, proposal, 0))?;
        Some((suite.clone(), answer))
    })
}

/// The offer of a new IKE SA in the place of an old one: its SPI stands in the proposal (RFC 7296 §1.3.2).
pub(super) fn offer_rekey(suite: &IkeSuite, spi: u64) -> Vec<Proposal> {
    let mut offer = offer_ike(std::slice::from_ref(suite));
    offer.iter_mut().for_each(|proposal| proposal.spi = spi.to_be_bytes().to_vec());
    offer
}

/// What of such an offer we choose, with the peer's new SPI and the answer, which has ours.
pub(super) fn choose_rekey(suites: &[IkeSuite], offered: &[Proposal], spi: u64) -> Option<(IkeSuite, u64, Proposal)> {
    suites.iter().find_map(|suite| {
        offered.iter().find_map(|proposal| {
            let answer = fit_ike(suite, proposal, size_of::<u64>())?;
            let theirs = ike_spi(proposal)?;
            Some((suite.clone(), theirs, Proposal { spi: spi.to_be_bytes().to_vec(), ..answer }))
        })
    })
}

/// The peer's new SPI, if the answer is the one thing that [`offer_rekey`] offered.
pub(super) fn answered_rekey(suite: &IkeSuite, answer: &[Proposal]) -> Option<u64> {
    let [proposal] = answer else { return None };
    if !single(proposal) {
        return None;
    }
    fit_ike(suite, proposal, size_of::<u64>())?;
    ike_spi(proposal)
}

/// The suite that an answer names; `None` if it is no answer or none of `suites`.
pub(super) fn answered_ike(suites: &[IkeSuite], answer: &[Proposal]) -> Option<IkeSuite> {
    let [proposal] = answer else { return None };
    if !single(proposal) {
        return None;
    }
    suites.iter().find(|suite| fit_ike(suite, proposal, 0).is_some()).cloned()
}

/// One proposal with every cipher, and the key exchanges if there are any.
pub(super) fn offer_esp(ciphers: &[Cipher], spi: u32, exchanges: &[Method]) -> Proposal {
    let additional = exchanges.iter().skip(1).map(|&method| method_id(method));
    let slots = ADDITIONAL.zip(additional).map(|(kind, id)| Transform::new(TransformType(kind), id));
    esp_proposal(ciphers, spi, exchanges.first().copied(), slots)
}

fn esp_proposal(
    ciphers: &[Cipher],
    spi: u32,
    exchange: Option<Method>,
    slots: impl Iterator<Item = Transform>,
) -> Proposal {
    let mut transforms: Vec<_> = ciphers.iter().map(|&cipher| encryption(cipher)).collect();
    transforms.extend(exchange.map(|method| Transform::new(TransformType::KE, method_id(method))));
    transforms.extend(slots);
    transforms.push(Transform::new(TransformType::ESN, transform::ESN_NO));
    Proposal { number: 1, protocol: Protocol::ESP, spi: spi.to_be_bytes().to_vec(), transforms }
}

type Slots = Vec<(u8, u16)>;

/// What of an ESP offer was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EspChoice {
    pub(super) cipher: Cipher,
    pub(super) exchange: Option<Method>,
    /// On which the other side receives.
    pub(super) spi: u32,
    /// ADDKE types offered, each with the ID chosen, NONE included (RFC 9370 §2.2.1).
    slots: Slots,
    /// The number of the proposal.
    number: u8,
}

impl EspChoice {
    /// The additional key exchanges, in order.
    pub(super) fn additional(&self) -> impl Iterator<Item = Method> + '_ {
        self.slots.iter().filter_map(|(_, id)| method_of(*id))
    }
}

/// The first of our ciphers that one of the proposals allows.
///
/// `first` is the Child SA of IKE_AUTH, whose keys come from the IKE SA: key exchanges in its proposals mean nothing (RFC 7296
/// §1.2). Otherwise `ke` is the method of the KE payload, which decides among the methods offered.
pub(super) fn choose_esp(ours: &[Cipher], offered: &[Proposal], first: bool, ke: Option<u16>) -> Option<EspChoice> {
    ours.iter().find_map(|&cipher| offered.iter().find_map(|proposal| fit_esp(cipher, proposal, first, ke)))
}

/// The answer to the proposal chosen, with the SPI on which we receive.
pub(super) fn answer_esp(choice: &EspChoice, spi: u32) -> Proposal {
    let slots = choice.slots.iter().map(|&(kind, id)| Transform::new(TransformType(kind), id));
    Proposal { number: choice.number, ..esp_proposal(&[choice.cipher], spi, choice.exchange, slots) }
}

/// The choice that an answer names, if it is one; `exchanges` are those that [`offer_esp`] offered, and without any the answer's
/// mean nothing. Without a key exchange at all is allowed only if `optional`.
pub(super) fn answered_esp(
    ours: &[Cipher],
    exchanges: &[Method],
    optional: bool,
    answer: &[Proposal],
) -> Option<EspChoice> {
    let [proposal] = answer else { return None };
    if !single(proposal) {
        return None;
    }
    let ke = exchanges.first().map(|&method| method_id(method));
    let choice = choose_esp(ours, answer, exchanges.is_empty(), ke)?;
    let chosen: Vec<Method> = choice.exchange.into_iter().chain(choice.additional()).collect();
    (chosen == exchanges || (optional && chosen.is_empty())).then_some(choice)
}

fn ike_spi(proposal: &Proposal) -> Option<u64> {
    let spi = u64::from_be_bytes(proposal.spi.as_slice().try_into().ok()?);
    (spi != 0).then_some(spi)
}

fn prf_id(prf: Prf) -> u16 {
    match prf {
        Prf::HmacSha2_256 => transform::HMAC_SHA2_256,
        Prf::HmacSha2_384 => transform::HMAC_SHA2_384,
        Prf::HmacSha2_512 => transform::HMAC_SHA2_512,
    }
}

fn encryption(cipher: Cipher) -> Transform {
    match cipher {
        Cipher::Aes128Gcm => Transform::with_key_length(TransformType::ENCR, transform::AES_GCM_16, 128),
        Cipher::Aes256Gcm => Transform::with_key_length(TransformType::ENCR, transform::AES_GCM_16, 256),
        Cipher::ChaCha20Poly1305 => Transform::new(TransformType::ENCR, transform::CHACHA20_POLY1305),
    }
}

/// `additional` are the IDs of ADDKE1, ADDKE2 and so on.
fn ike_transforms(suite: &IkeSuite, additional: impl Iterator<Item = u16>) -> Vec<Transform> {
    let mut transforms = vec![
        encryption(suite.cipher),
        Transform::new(TransformType::PRF, prf_id(suite.prf)),
        Transform::new(TransformType::KE, method_id(suite.exchange)),
    ];
    transforms.extend(ADDITIONAL.zip(additional).map(|(kind, id)| Transform::new(TransformType(kind), id)));
    transforms
}

/// The answer to a proposal that allows the suite: one transform of each type offered.
fn fit_ike(suite: &IkeSuite, proposal: &Proposal, spi_len: usize) -> Option<Proposal> {
    let known = |kind: TransformType| KINDS.contains(&kind) || ADDITIONAL.contains(&kind.0);
    if proposal.protocol != Protocol::IKE
        || proposal.spi.len() != spi_len
        || !proposal.transforms.iter().all(|offered| known(offered.kind))
        || !ike_transforms(suite, std::iter::empty()).iter().all(|wanted| proposal.transforms.contains(wanted))
        || !without_integrity(proposal)
    {
        return None;
    }
    // Which of ADDKE1 to ADDKE7 are there, in ascending order; a type may lack when NONE was all it had to offer.
    let slots: Vec<u8> = ADDITIONAL.filter(|&kind| offers_kind(proposal, TransformType(kind))).collect();
    let filled = fill(proposal, &slots, &suite.additional)?;
    let mut transforms = ike_transforms(suite, std::iter::empty());
    transforms.extend(slots.iter().zip(filled).map(|(&kind, id)| Transform::new(TransformType(kind), id)));
    Some(Proposal { number: proposal.number, protocol: Protocol::IKE, spi: Vec::new(), transforms })
}

/// Gives each slot the next of `methods` or NONE, as it offers them, until all methods have a place (RFC 9370 §2.2.1).
fn fill(proposal: &Proposal, slots: &[u8], methods: &[Method]) -> Option<Vec<u16>> {
    let Some((&slot, rest)) = slots.split_first() else {
        return methods.is_empty().then(Vec::new);
    };
    let kind = TransformType(slot);
    let placed = methods.split_first().and_then(|(&method, later)| {
        let id = method_id(method);
        let tail = offers(proposal, kind, id).then(|| fill(proposal, rest, later))??;
        Some((id, tail))
    });
    let (id, mut tail) = match placed {
        Some(placed) => placed,
        None => (transform::NONE, offers(proposal, kind, transform::NONE).then(|| fill(proposal, rest, methods))??),
    };
    tail.insert(0, id);
    Some(tail)
}

fn fit_esp(cipher: Cipher, proposal: &Proposal, first: bool, ke: Option<u16>) -> Option<EspChoice> {
    let known = |kind: TransformType| {
        KINDS.contains(&kind) && kind != TransformType::PRF
            || kind == TransformType::ESN
            || ADDITIONAL.contains(&kind.0)
    };
    if proposal.protocol != Protocol::ESP
        || !proposal.transforms.iter().all(|offered| known(offered.kind))
        || !proposal.transforms.contains(&encryption(cipher))
        || !without_integrity(proposal)
        || (offers_kind(proposal, TransformType::ESN) && !offers(proposal, TransformType::ESN, transform::ESN_NO))
    {
        return None;
    }
    let spi = u32::from_be_bytes(proposal.spi.as_slice().try_into().ok()?);
    // RFC 4303 §2.1: 1 to 255 are reserved, 0 is nobody's.
    if spi < 256 {
        return None;
    }
    let (exchange, slots) = if first { (None, Vec::new()) } else { fit_exchanges(proposal, ke)? };
    Some(EspChoice { cipher, exchange, spi, slots, number: proposal.number })
}

/// The key exchange of a new Child SA and its ADDKE slots, as the proposal wants them; `None` if it wants what we cannot do.
fn fit_exchanges(proposal: &Proposal, ke: Option<u16>) -> Option<(Option<Method>, Slots)> {
    let slots: Vec<u8> = ADDITIONAL.filter(|&kind| offers_kind(proposal, TransformType(kind))).collect();
    let offered = |method: &Method| offers(proposal, TransformType::KE, method_id(*method));
    let sent = ke.and_then(method_of).filter(offered);
    let optional = !offers_kind(proposal, TransformType::KE) || offers(proposal, TransformType::KE, transform::NONE);
    let exchange = match sent {
        Some(method) => Some(method),
        None if optional => None,
        // INVALID_KE_PAYLOAD will name it.
        None => Some(METHODS.into_iter().find(offered)?),
    };
    // RFC 9370 §2.2.1: no additional key exchange without a first one.
    let methods: &[Method] = if exchange.is_some() { &METHODS } else { &[] };
    let ids = fill_freely(proposal, &slots, methods)?;
    Some((exchange, slots.into_iter().zip(ids).collect()))
}

/// A method for each slot that offers one, none of them twice, or NONE where that is all there is (RFC 9370 §2.2.1).
fn fill_freely(proposal: &Proposal, slots: &[u8], methods: &[Method]) -> Option<Vec<u16>> {
    let Some((&slot, rest)) = slots.split_first() else { return Some(Vec::new()) };
    let kind = TransformType(slot);
    let filled = methods.iter().filter(|method| offers(proposal, kind, method_id(**method))).find_map(|&method| {
        let others: Vec<Method> = methods.iter().copied().filter(|other| *other != method).collect();
        Some((method_id(method), fill_freely(proposal, rest, &others)?))
    });
    let (id, mut tail) = match filled {
        Some(filled) => filled,
        None => {
            (transform::NONE, offers(proposal, kind, transform::NONE).then(|| fill_freely(proposal, rest, methods))??)
        }
    };
    tail.insert(0, id);
    Some(tail)
}

fn offers_kind(proposal: &Proposal, kind: TransformType) -> bool {
    proposal.transforms.iter().any(|offered| offered.kind == kind)
}

fn offers(proposal: &Proposal, kind: TransformType, id: u16) -> bool {
    proposal.transforms.contains(&Transform::new(kind, id))
}

/// An AEAD has no integrity transform beside it, or NONE (RFC 5282 §8).
fn without_integrity(proposal: &Proposal) -> bool {
    !offers_kind(proposal, TransformType::INTEG) || offers(proposal, TransformType::INTEG, transform::NONE)
}

/// An answer has one transform of each type at most (RFC 7296 §3.3.6).
fn single(proposal: &Proposal) -> bool {
    proposal
        .transforms
        .iter()
        .enumerate()
        .all(|(at, one)| !proposal.transforms.iter().skip(at + 1).any(|other| other.kind == one.kind))
}

const METHODS: [Method; 4] = [Method::X25519, Method::MlKem768, Method::MlKem1024, Method::MlKem512];
const KINDS: [TransformType; 4] = [TransformType::ENCR, TransformType::PRF, TransformType::INTEG, TransformType::KE];
const ADDITIONAL: std::ops::RangeInclusive<u8> = TransformType::ADDKE1.0..=TransformType::ADDKE7.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(additional: &[Method]) -> IkeSuite {
        IkeSuite {
            cipher: Cipher::Aes256Gcm,
            prf: Prf::HmacSha2_256,
            exchange: Method::X25519,
            additional: additional.to_vec(),
        }
    }

    fn add(proposal: &mut Proposal, kind: TransformType, id: u16) {
        proposal.transforms.push(Transform::new(kind, id));
    }

    #[test]
    fn names_are_those_of_strongswan() {
        let name = suite(&[Method::MlKem768, Method::MlKem1024]).to_string();
        assert_eq!(name, "aes256gcm16-prfsha256-x25519-ke1_mlkem768-ke2_mlkem1024");
    }

    #[test]
    fn our_order_decides_and_the_answer_repeats_the_number() {
        let ours = [suite(&[Method::MlKem768]), suite(&[])];
        let offered = offer_ike(&[suite(&[]), suite(&[Method::MlKem768])]);
        let (chosen, answer) = choose_ike(&ours, &offered).unwrap();
        assert_eq!((chosen, answer.number), (ours[0].clone(), 2));
        assert_eq!(answered_ike(&ours, &[answer]), Some(ours[0].clone()));
    }

    #[test]
    fn additional_exchanges_take_the_slots_that_offer_them() {
        let ours = [suite(&[Method::MlKem768])];
        let mut offered = offer_ike(&[suite(&[])]).remove(0);
        add(&mut offered, TransformType::ADDKE1, transform::NONE);
        add(&mut offered, TransformType::ADDKE1, transform::ML_KEM_1024);
        assert_eq!(choose_ike(&ours, std::slice::from_ref(&offered)), None);
        add(&mut offered, TransformType::ADDKE3, transform::ML_KEM_768);
        let (_, answer) = choose_ike(&ours, std::slice::from_ref(&offered)).unwrap();
        let ids: Vec<_> = answer.transforms.iter().skip(3).map(|t| (t.kind, t.id)).collect();
        assert_eq!(ids, [(TransformType::ADDKE1, 0), (TransformType::ADDKE3, transform::ML_KEM_768)]);
        assert_eq!(answered_ike(&ours, &[answer]), Some(ours[0].clone()));
        // A slot without NONE wants an exchange of us.
        add(&mut offered, TransformType::ADDKE7, transform::ML_KEM_512);
        assert_eq!(choose_ike(&ours, &[offered]), None);
    }

    #[test]
    fn none_chosen_is_the_suite_without() {
        let mut answer = offer_ike(&[suite(&[])]).remove(0);
        add(&mut answer, TransformType::ADDKE1, transform::NONE);
        assert_eq!(answered_ike(&[suite(&[Method::MlKem768])], std::slice::from_ref(&answer)), None);
        assert_eq!(answered_ike(&[suite(&[])], &[answer]), Some(suite(&[])));
    }

    #[test]
    fn strange_proposals_are_passed_over() {
        let ours = [suite(&[])];
        let good = offer_ike(&ours).remove(0);
        for kind in [TransformType::ESN, TransformType(13), TransformType(200), TransformType::INTEG] {
            let mut offered = good.clone();
            add(&mut offered, kind, 12);
            assert_eq!(choose_ike(&ours, std::slice::from_ref(&offered)), None, "{kind:?}");
            assert!(choose_ike(&ours, &[offered, good.clone()]).is_some());
        }
        let mut none = good.clone();
        add(&mut none, TransformType::INTEG, transform::NONE);
        assert!(choose_ike(&ours, &[none]).is_some());
        for (protocol, spi) in [(Protocol::ESP, vec![]), (Protocol::IKE, vec![0; 8])] {
            assert_eq!(choose_ike(&ours, &[Proposal { protocol, spi, ..good.clone() }]), None);
        }
        let mut twice = good.clone();
        twice.transforms.push(encryption(Cipher::Aes128Gcm));
        assert_eq!(answered_ike(&ours, &[twice]), None, "an answer chooses");
        assert_eq!(answered_ike(&ours, &[good.clone(), good]), None);
        assert_eq!(answered_ike(&ours, &[]), None);
    }

    #[test]
    fn esp_without_and_with_key_exchange() {
        let ciphers = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
        let plain = offer_esp(&ciphers, 0xc1c2_c3c4, &[]);
        let choice = choose_esp(&ciphers[1..], std::slice::from_ref(&plain), false, None).unwrap();
        assert_eq!((choice.cipher, choice.exchange, choice.spi), (Cipher::ChaCha20Poly1305, None, 0xc1c2_c3c4));
        let answer = answer_esp(&choice, 0x1000);
        assert_eq!(answered_esp(&ciphers, &[], false, &[answer]).unwrap().spi, 0x1000);

        let mut offered = offer_esp(&ciphers, 0x1000, &[Method::X25519]);
        let choose = |offered: &Proposal, ke| choose_esp(&ciphers, std::slice::from_ref(offered), false, ke);
        assert_eq!(choose(&offered, Some(31)).unwrap().exchange, Some(Method::X25519));
        assert_eq!(choose(&offered, None).unwrap().exchange, Some(Method::X25519), "to be asked for");
        assert_eq!(choose_esp(&ciphers, std::slice::from_ref(&offered), true, None).unwrap().exchange, None);
        add(&mut offered, TransformType::KE, 19);
        assert_eq!(choose(&offered, Some(19)).unwrap().exchange, Some(Method::X25519));
        add(&mut offered, TransformType::KE, transform::NONE);
        assert_eq!(choose(&offered, Some(19)).unwrap().exchange, None);
        add(&mut offered, TransformType::ADDKE1, transform::ML_KEM_768);
        assert_eq!(choose(&offered, Some(19)), None, "ADDKE without KE");
        let choice = choose(&offered, Some(31)).unwrap();
        assert_eq!(choice.additional().collect::<Vec<_>>(), [Method::MlKem768]);
        let answer = [answer_esp(&choice, 0x1000)];
        let both = [Method::X25519, Method::MlKem768];
        assert_eq!(answered_esp(&ciphers, &both, false, &answer).unwrap().exchange, Some(Method::X25519));
        assert_eq!(answered_esp(&ciphers, &both[..1], false, &answer), None);
    }

    #[test]
    fn esp_needs_an_spi_and_short_sequence_numbers() {
        let ciphers = [Cipher::Aes256Gcm];
        assert_eq!(choose_esp(&ciphers, &[offer_esp(&ciphers, 255, &[])], true, None), None);
        let mut long = offer_esp(&ciphers, 256, &[]);
        assert!(choose_esp(&ciphers, std::slice::from_ref(&long), true, None).is_some());
        long.transforms.retain(|offered| offered.kind != TransformType::ESN);
        add(&mut long, TransformType::ESN, transform::ESN_YES);
        assert_eq!(choose_esp(&ciphers, &[long], true, None), None);
    }

    #[test]
    fn additional_exchanges_of_a_child_are_all_different() {
        let ciphers = [Cipher::Aes256Gcm];
        let chosen = |slots: &[(TransformType, u16)]| {
            let mut offered = offer_esp(&ciphers, 0x1000, &[Method::X25519]);
            slots.iter().for_each(|&(kind, id)| add(&mut offered, kind, id));
            let choice = choose_esp(&ciphers, &[offered], false, Some(31))?;
            Some(choice.slots.iter().map(|(_, id)| *id).collect::<Vec<_>>())
        };
        let (one, two) = (TransformType::ADDKE1, TransformType::ADDKE3);
        assert_eq!(chosen(&[(one, 36), (one, 37), (two, 36)]), Some(vec![37, 36]));
        assert_eq!(chosen(&[(one, 36), (two, 36)]), None);
        assert_eq!(chosen(&[(one, 36), (two, 36), (two, 0)]), Some(vec![36, 0]));
        assert_eq!(chosen(&[(one, 19)]), None);
        assert_eq!(chosen(&[(one, 19), (one, 0)]), Some(vec![0]));
    }

    #[test]
    fn a_rekeyed_ike_sa_has_its_spis_in_the_proposals() {
        let ours = [suite(&[Method::MlKem768])];
        let offered = offer_rekey(&ours[0], 7);
        assert_eq!(choose_ike(&ours, &offered), None);
        assert_eq!(choose_rekey(&ours, &offer_ike(&ours), 9), None);
        assert_eq!(choose_rekey(&ours, &offer_rekey(&ours[0], 0), 9), None);
        let (chosen, theirs, answer) = choose_rekey(&ours, &offered, 9).unwrap();
        assert_eq!((chosen, theirs), (ours[0].clone(), 7));
        assert_eq!(answered_rekey(&ours[0], std::slice::from_ref(&answer)), Some(9));
        assert_eq!(answered_rekey(&suite(&[]), &[answer]), None);
    }
}
