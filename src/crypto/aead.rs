//! Authenticated encryption for IKE and ESP: AES-GCM with a 16-octet ICV (RFC 4106, 5282) and ChaCha20-Poly1305 (RFC 7634).

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
pub struct Aead {}

impl Aead {
    /// `keymat` is `cipher.keymat_len()` octets long.
    pub fn new(cipher: Cipher, keymat: &[u8]) -> Option<Aead> {
        let _ = (cipher, keymat);
        todo!()
    }

    pub fn cipher(&self) -> Cipher {
        todo!()
    }

    /// Encrypts `data` in place and returns the ICV.
    pub fn seal(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> [u8; ICV_LEN] {
        let _ = (iv, aad, data);
        todo!()
    }

    /// Verifies, then decrypts `data` in place; on failure its content is unspecified but never plaintext.
    pub fn open(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8], icv: &[u8; ICV_LEN]) -> Result<(), Forged> {
        let _ = (iv, aad, data, icv);
        todo!()
    }
}

/// Whether this CPU has AES and carry-less multiplication instructions.
pub fn hardware_aes() -> bool {
    todo!()
}
