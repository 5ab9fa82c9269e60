//! The ciphers of the RustCrypto crates.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;

use super::{Cipher, Forged, ICV_LEN, Nonce};

/// Boxed where the schedule takes hundreds of octets. They wipe themselves.
pub(super) enum Key {
    Aes128Gcm(Box<Aes128Gcm>),
    Aes256Gcm(Box<Aes256Gcm>),
    ChaCha20Poly1305(ChaCha20Poly1305),
}

impl Key {
    pub(super) fn new(cipher: Cipher, key: &[u8]) -> Option<Key> {
        Some(match cipher {
            Cipher::Aes128Gcm => Key::Aes128Gcm(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            Cipher::Aes256Gcm => Key::Aes256Gcm(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            Cipher::ChaCha20Poly1305 => Key::ChaCha20Poly1305(ChaCha20Poly1305::new_from_slice(key).ok()?),
        })
    }

    pub(super) fn cipher(&self) -> Cipher {
        match self {
            Key::Aes128Gcm(_) => Cipher::Aes128Gcm,
            Key::Aes256Gcm(_) => Cipher::Aes256Gcm,
            Key::ChaCha20Poly1305(_) => Cipher::ChaCha20Poly1305,
        }
    }

    /// `None` only for data beyond 64 GiB.
    pub(super) fn seal(&self, nonce: Nonce, aad: &[u8], data: &mut [u8]) -> Option<[u8; ICV_LEN]> {
        match self {
            Key::Aes128Gcm(key) => key.encrypt_inout_detached(&nonce.into(), aad, data.into()),
            Key::Aes256Gcm(key) => key.encrypt_inout_detached(&nonce.into(), aad, data.into()),
            Key::ChaCha20Poly1305(key) => key.encrypt_inout_detached(&nonce.into(), aad, data.into()),
        }
        .ok()
        .map(Into::into)
    }

    pub(super) fn open(&self, nonce: Nonce, aad: &[u8], data: &mut [u8], icv: &[u8; ICV_LEN]) -> Result<(), Forged> {
        let icv = icv.into();
        match self {
            Key::Aes128Gcm(key) => key.decrypt_inout_detached(&nonce.into(), aad, data.into(), icv),
            Key::Aes256Gcm(key) => key.decrypt_inout_detached(&nonce.into(), aad, data.into(), icv),
            Key::ChaCha20Poly1305(key) => key.decrypt_inout_detached(&nonce.into(), aad, data.into(), icv),
        }
        .map_err(|_| Forged)
    }
}
