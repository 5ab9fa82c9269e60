//! SK and SKF protection by AEAD (RFC 7296 §3.14, RFC 5282, RFC 7634 §3, RFC 7383 §2.5).
//!
//! A [`Sealer`] counts its IVs and cannot be copied: no IV repeats under its key. A retransmission therefore resends the stored
//! octets; sealing the same message again gives other ones.

use zeroize::Zeroizing;

use crate::crypto::aead::{Cipher, Forged, IV_LEN};
use crate::wire::ike::{Header, ParseError, Payload, PayloadType, SealedBody, TooLong};

/// A protected message in the clear: to be sealed, or just opened.
pub struct Plain {
    pub header: Header,
    /// The first inner payload; [`PayloadType::NONE`] if there is none.
    pub first: PayloadType,
    octets: Zeroizing<Vec<u8>>,
}

impl Plain {
    pub fn new(header: Header, payloads: &[Payload]) -> Result<Plain, TooLong> {
        let _ = (header, payloads);
        todo!()
    }

    /// The inner payloads.
    pub fn payloads(&self) -> Result<Vec<Payload>, ParseError> {
        todo!()
    }

    /// The inner payloads as octets, without padding: "P" of RFC 9242 §3.3.2.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// "A" of RFC 9242 §3.3.2: IKE header and SK header, with the lengths they would have without IV, padding and ICV.
    pub fn associated(&self) -> [u8; 32] {
        todo!()
    }
}

/// Seals what one side sends under one generation of keys.
pub struct Sealer {}

/// Opens what the other side sends.
pub struct Opener {}

impl Sealer {
    /// `keymat` is SK_e of this direction, `cipher.keymat_len()` octets; IVs count up from `first_iv`.
    pub fn new(cipher: Cipher, keymat: &[u8], first_iv: [u8; IV_LEN]) -> Option<Sealer> {
        let _ = (cipher, keymat, first_iv);
        todo!()
    }

    /// The whole message in one SK payload, whatever its length: see [`super::fragment::split`].
    pub fn seal(&mut self, message: &Plain) -> Result<Vec<u8>, TooLong> {
        let _ = message;
        todo!()
    }
}

impl Opener {
    pub fn new(cipher: Cipher, keymat: &[u8]) -> Option<Opener> {
        let _ = (cipher, keymat);
        todo!()
    }

    /// Verifies and decrypts an SK payload. Bad padding under a good ICV is an error as well.
    pub fn open(&self, sealed: &SealedBody<'_>) -> Result<Plain, Forged> {
        let _ = sealed;
        todo!()
    }
}
