//! Authenticated encryption for IKE and ESP: AES-GCM with a 16-octet ICV (RFC 4106, 5282) and ChaCha20-Poly1305 (RFC 7634).
//!
//! Two implementations: `ring` (feature "ring"; assembly, two to three times faster) and the RustCrypto crates, which run
//! everywhere. Which one serves a cipher is settled once, by known answers: see [`engines`].

mod answers;
mod portable;
#[cfg(feature = "ring")]
mod swift;

use std::sync::OnceLock;

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
    pub const ALL: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

    /// Octets of KEYMAT for one direction: key and salt (20 or 36).
    pub const fn keymat_len(self) -> usize {
        self.key_len() + SALT_LEN
    }

    const fn key_len(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32,
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

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    #[cfg(feature = "ring")]
    Ring,
    Portable,
}

impl Engine {
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "ring")]
            Engine::Ring => "ring",
            Engine::Portable => "portable",
        }
    }
}

/// Which implementation serves each cipher, in the order of [`Cipher::ALL`].
///
/// The first caller has every cipher of every implementation answer known questions (some 100 µs). One that answers wrongly,
/// or unlike the other one, is not used, and the log says so.
pub fn engines() -> [(Cipher, Engine); 3] {
    static ENGINES: OnceLock<[(Cipher, Engine); 3]> = OnceLock::new();
    *ENGINES.get_or_init(|| Cipher::ALL.map(|cipher| (cipher, answers::choose(cipher))))
}

/// One key, scheduled once. The nonce is `salt | iv`; an IV must never repeat under one key.
pub struct Aead {
    key: Key,
    salt: [u8; SALT_LEN],
}

enum Key {
    #[cfg(feature = "ring")]
    Ring(swift::Key),
    Portable(portable::Key),
}

type Nonce = [u8; SALT_LEN + IV_LEN];

impl Aead {
    /// `keymat` is `cipher.keymat_len()` octets long; `None` if it is not.
    pub fn new(cipher: Cipher, keymat: &[u8]) -> Option<Aead> {
        let engine = engines().into_iter().find_map(|(served, engine)| (served == cipher).then_some(engine))?;
        Aead::with(engine, cipher, keymat)
    }

    fn with(engine: Engine, cipher: Cipher, keymat: &[u8]) -> Option<Aead> {
        let (key, &salt) = keymat.split_last_chunk()?;
        let key = match engine {
            #[cfg(feature = "ring")]
            Engine::Ring => Key::Ring(swift::Key::new(cipher, key)?),
            Engine::Portable => Key::Portable(portable::Key::new(cipher, key)?),
        };
        Some(Aead { key, salt })
    }

    pub fn cipher(&self) -> Cipher {
        match &self.key {
            #[cfg(feature = "ring")]
            Key::Ring(key) => key.cipher(),
            Key::Portable(key) => key.cipher(),
        }
    }

    /// Encrypts `data` in place and returns the ICV.
    pub fn seal(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> [u8; ICV_LEN] {
        let nonce = self.nonce(iv);
        let sealed = match &self.key {
            #[cfg(feature = "ring")]
            Key::Ring(key) => key.seal(nonce, aad, data),
            Key::Portable(key) => key.seal(nonce, aad, data),
        };
        #[expect(clippy::expect_used, reason = "the ciphers refuse only data beyond 64 GiB")]
        sealed.expect("a datagram is short enough")
    }

    /// Verifies, then decrypts `data` in place; on failure its content is unspecified but never plaintext.
    pub fn open(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8], icv: &[u8; ICV_LEN]) -> Result<(), Forged> {
        let nonce = self.nonce(iv);
        match &self.key {
            #[cfg(feature = "ring")]
            Key::Ring(key) => key.open(nonce, aad, data, icv),
            Key::Portable(key) => key.open(nonce, aad, data, icv),
        }
    }

    fn nonce(&self, iv: [u8; IV_LEN]) -> Nonce {
        let [s0, s1, s2, s3] = self.salt;
        let [i0, i1, i2, i3, i4, i5, i6, i7] = iv;
        [s0, s1, s2, s3, i0, i1, i2, i3, i4, i5, i6, i7]
    }
}

impl Drop for Aead {
    fn drop(&mut self) {
        // The keys wipe themselves.
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
mod tests;
