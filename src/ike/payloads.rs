//! Finding payloads in a message. Their order does not matter (RFC 7296 §2.5), and of two alike the first counts.

use crate::wire::ike::{Auth, Id, Ke, Notify, NotifyType, Payload, Proposal, TrafficSelector, cert_encoding};

macro_rules! find {
    ($payloads:expr, $pattern:pat => $value:expr) => {
        $payloads.iter().find_map(|payload| if let $pattern = payload { Some($value) } else { None })
    };
}

pub(super) fn sa(payloads: &[Payload]) -> Option<&[Proposal]> {
    find!(payloads, Payload::Sa(proposals) => proposals.as_slice())
}

pub(super) fn ke(payloads: &[Payload]) -> Option<&Ke> {
    find!(payloads, Payload::Ke(ke) => ke)
}

pub(super) fn nonce(payloads: &[Payload]) -> Option<&[u8]> {
    find!(payloads, Payload::Nonce(nonce) => nonce.as_slice())
}

pub(super) fn id_initiator(payloads: &[Payload]) -> Option<&Id> {
    find!(payloads, Payload::IdI(id) => id)
}

pub(super) fn id_responder(payloads: &[Payload]) -> Option<&Id> {
    find!(payloads, Payload::IdR(id) => id)
}

pub(super) fn auth(payloads: &[Payload]) -> Option<&Auth> {
    find!(payloads, Payload::Auth(auth) => auth)
}

/// The SubjectPublicKeyInfo of a raw public key (RFC 7670 §3).
pub(super) fn raw_public_key(payloads: &[Payload]) -> Option<&[u8]> {
    find!(payloads, Payload::Cert(cert) => cert)
        .filter(|cert| cert.encoding == cert_encoding::RAW_PUBLIC_KEY)
        .map(|cert| cert.data.as_slice())
}

pub(super) fn selectors_initiator(payloads: &[Payload]) -> Option<&[TrafficSelector]> {
    find!(payloads, Payload::TsI(selectors) => selectors.as_slice())
}

pub(super) fn selectors_responder(payloads: &[Payload]) -> Option<&[TrafficSelector]> {
    find!(payloads, Payload::TsR(selectors) => selectors.as_slice())
}

/// Every notify, in order.
pub(super) fn notifies(payloads: &[Payload]) -> impl Iterator<Item = &Notify> {
    payloads.iter().filter_map(|payload| if let Payload::Notify(notify) = payload { Some(notify) } else { None })
}

pub(super) fn notify(payloads: &[Payload], kind: NotifyType) -> Option<&Notify> {
    notifies(payloads).find(|notify| notify.kind == kind)
}

/// The first error; status notifies that nobody here knows are ignored (RFC 7296 §3.10.1).
pub(super) fn error(payloads: &[Payload]) -> Option<&Notify> {
    notifies(payloads).find(|notify| notify.kind.is_error())
}

/// Whether the peer takes Ed25519 signatures: "identity" among its hash algorithms (RFC 8420 §2).
pub(super) fn takes_ed25519(payloads: &[Payload]) -> bool {
    notify(payloads, NotifyType::SIGNATURE_HASH_ALGORITHMS)
        .is_some_and(|notify| notify.data.chunks_exact(2).any(|hash| hash == IDENTITY_HASH))
}

/// RFC 8420 §2.
pub(super) const IDENTITY_HASH: [u8; 2] = [0x00, 0x05];
