//! Key files: PKCS#8 and SubjectPublicKeyInfo (RFC 8410), as PEM or bare base64, as OpenSSL and strongSwan's `pki` write them.

use super::sign::{PrivateKey, PublicKey};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not an Ed25519 private key in PKCS#8 (make one with: wattle keygen FILE)")]
    NotPrivate,
    #[error("not an Ed25519 public key (print one with: wattle pubkey FILE)")]
    NotPublic,
}

/// Takes CRLF, trailing blanks and a missing last newline.
pub fn parse_private(text: &[u8]) -> Result<PrivateKey, KeyError> {
    let _ = text;
    todo!()
}

pub fn parse_public(text: &str) -> Result<PublicKey, KeyError> {
    let _ = text;
    todo!()
}

/// A PEM file.
pub fn private_pem(key: &PrivateKey) -> zeroize::Zeroizing<String> {
    let _ = key;
    todo!()
}

pub fn public_pem(key: &PublicKey) -> String {
    let _ = key;
    todo!()
}

/// Bare base64 of the SubjectPublicKeyInfo: what goes into `public_key` of the configuration.
pub fn public_base64(key: &PublicKey) -> String {
    let _ = key;
    todo!()
}
