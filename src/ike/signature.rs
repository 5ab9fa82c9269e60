//! AUTH by Ed25519: the octets that are signed, and the digital signature payload (RFC 7296 §2.15, RFC 7427 §3, RFC 8420).

use super::endpoint::Role;
use super::keymat::{IkeKeys, IntAuth};
use crate::crypto::sign::{PrivateKey, PublicKey};
use crate::wire::ike::{Auth, Id, auth_method};

/// What `signer` signs.
pub struct SignedOctets<'a> {
    pub signer: Role,
    /// The last generation of keys.
    pub keys: &'a IkeKeys,
    /// The signer's own IKE_SA_INIT message, the one finally used, without marker.
    pub real_message: &'a [u8],
    /// The nonce of the other side.
    pub peer_nonce: &'a [u8],
    /// The signer's identity as sent.
    pub id: &'a Id,
    pub int_auth: &'a IntAuth,
    /// Message ID of the first IKE_AUTH request.
    pub auth_message_id: u32,
}

/// Why an AUTH payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAuth {
    #[error("the peer did not authenticate by a digital signature (method {0})")]
    Method(u8),
    #[error("the peer's signature is not Ed25519")]
    Algorithm,
    #[error("the signature is not by the key that the configuration gives to this name")]
    Signature,
}

impl SignedOctets<'_> {
    /// `RealMessage | Nonce | prf(SK_p, ID body) [| IntAuth]`
    pub fn octets(&self) -> Vec<u8> {
        let maced_id = self.keys.mac_p(self.signer, &[&self.id.body()]);
        [self.real_message, self.peer_nonce, &maced_id, &self.int_auth.trailer(self.auth_message_id)].concat()
    }

    pub fn sign(&self, key: &PrivateKey) -> Auth {
        let data = [ED25519, &key.sign(&self.octets())].concat();
        Auth { method: auth_method::DIGITAL_SIGNATURE, data }
    }

    pub fn verify(&self, key: &PublicKey, auth: &Auth) -> Result<(), BadAuth> {
        if auth.method != auth_method::DIGITAL_SIGNATURE {
            return Err(BadAuth::Method(auth.method));
        }
        let signature = auth.data.strip_prefix(ED25519).ok_or(BadAuth::Algorithm)?;
        if key.verify(&self.octets(), signature) { Ok(()) } else { Err(BadAuth::Signature) }
    }
}

/// Its length and the AlgorithmIdentifier of Ed25519 (RFC 8420 §3, RFC 7427 §3); compared as octets, so Ed25519ph never passes.
const ED25519: &[u8] = &[0x07, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];
