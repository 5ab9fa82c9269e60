//! Key exchange methods: X25519 (RFC 8031) and ML-KEM (FIPS 203, draft-ietf-ipsecme-ikev2-mlkem).

use super::rng::Rng;
use super::secret::Secret;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    X25519,
    MlKem512,
    MlKem768,
    MlKem1024,
}

/// The peer's public value or ciphertext is not one of this method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid public value of this key exchange")]
pub struct BadPublicValue;

/// The initiator's half: made by [`Initiator::generate`], consumed by the peer's answer.
pub struct Initiator {}

impl Initiator {
    pub fn generate(method: Method, rng: &mut Rng) -> Initiator {
        let _ = (method, rng);
        todo!()
    }

    pub fn method(&self) -> Method {
        todo!()
    }

    /// What goes into the KE payload.
    pub fn public(&self) -> &[u8] {
        todo!()
    }

    pub fn finish(self, answer: &[u8]) -> Result<Secret, BadPublicValue> {
        let _ = answer;
        todo!()
    }
}

/// The responder's half in one step: our public value or ciphertext, and the shared secret.
pub fn respond(method: Method, public: &[u8], rng: &mut Rng) -> Result<(Vec<u8>, Secret), BadPublicValue> {
    let _ = (method, public, rng);
    todo!()
}
