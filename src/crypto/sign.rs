//! Ed25519 signatures (RFC 8032) and the keys' printed forms.

use std::fmt;

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// `None` if the octets are not a point of the curve.
    pub fn from_bytes(bytes: [u8; 32]) -> Option<PublicKey> {
        let _ = bytes;
        todo!()
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let _ = (message, signature);
        todo!()
    }

    /// `SHA256:` and the unpadded base64 of the SHA-256 of the SubjectPublicKeyInfo: the same on both ends of a complaint.
    pub fn fingerprint(&self) -> String {
        todo!()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// An Ed25519 private key; wiped when dropped, never printed.
#[derive(Clone)]
pub struct PrivateKey {}

impl PrivateKey {
    pub fn from_seed(seed: &[u8; 32]) -> PrivateKey {
        let _ = seed;
        todo!()
    }

    pub fn public(&self) -> PublicKey {
        todo!()
    }

    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let _ = message;
        todo!()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public().fingerprint())
    }
}
