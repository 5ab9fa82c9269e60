//! AUTH by Ed25519: the octets that are signed, and the digital signature payload (RFC 7296 §2.15, RFC 7427 §3, RFC 8420).

use super::endpoint::Role;
use super::keymat::{IkeKeys, IntAuth};
use crate::crypto::sign::{PrivateKey, PublicKey};
use crate::wire::ike::{Auth, Id};

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
    pub fn octets(&self) -> Vec<u8> {
        todo!()
    }

    pub fn sign(&self, key: &PrivateKey) -> Auth {
        let _ = key;
        todo!()
    }

    pub fn verify(&self, key: &PublicKey, auth: &Auth) -> Result<(), BadAuth> {
        let _ = (key, auth);
        todo!()
    }
}
