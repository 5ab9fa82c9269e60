//! The ciphers of `ring`.

use std::hint::black_box;

use ring::aead;

use super::{Cipher, Forged, ICV_LEN, Nonce};

/// Boxed, so that moving it leaves no copy behind.
pub(super) struct Key {
    cipher: Cipher,
    schedule: Box<aead::LessSafeKey>,
}

impl Key {
    pub(super) fn new(cipher: Cipher, key: &[u8]) -> Option<Key> {
        Some(Key { cipher, schedule: Box::new(schedule(cipher, key)?) })
    }

    pub(super) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// `None` only for data beyond 64 GiB.
    pub(super) fn seal(&self, nonce: Nonce, aad: &[u8], data: &mut [u8]) -> Option<[u8; ICV_LEN]> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = self.schedule.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), data).ok()?;
        tag.as_ref().first_chunk().copied()
    }

    pub(super) fn open(&self, nonce: Nonce, aad: &[u8], data: &mut [u8], icv: &[u8; ICV_LEN]) -> Result<(), Forged> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let opened = self.schedule.open_in_place_separate_tag(nonce, aead::Aad::from(aad), (*icv).into(), data, 0..);
        opened.map(drop).map_err(|_| Forged)
    }
}

impl Drop for Key {
    /// `ring` does not wipe its keys: another key's schedule takes the place of this one.
    fn drop(&mut self) {
        if let Some(other) = schedule(self.cipher, &[0; 32][..self.cipher.key_len()]) {
            *self.schedule = other;
            // What nobody looked at afterwards need not have been written.
            black_box(&self.schedule);
        }
    }
}

fn schedule(cipher: Cipher, key: &[u8]) -> Option<aead::LessSafeKey> {
    let algorithm = match cipher {
        Cipher::Aes128Gcm => &aead::AES_128_GCM,
        Cipher::Aes256Gcm => &aead::AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    };
    Some(aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).ok()?))
}
