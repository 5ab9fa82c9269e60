//! An outbound SA: numbers, pads and seals inner packets.

use std::fmt;

use super::budget::Budget;
use crate::crypto::aead::{Aead, Cipher};
use crate::crypto::secret::Secret;
use crate::wire::esp;

pub struct OutSa {
    spi: u32,
    aead: Aead,
    /// Sequence numbers used: the last one, too (RFC 4303 §3.3.3).
    sent: u32,
    budget: Budget,
}

impl OutSa {
    /// `None` if the key is not `cipher.keymat_len()` octets long.
    pub fn new(cipher: Cipher, spi: u32, key: &Secret) -> Option<OutSa> {
        Some(OutSa { spi, aead: Aead::new(cipher, key)?, sent: 0, budget: Budget::ENDLESS })
    }

    /// The next sequence number, good for one packet. `None` once all are used: then only a new SA helps, for a repeated
    /// number would repeat a nonce (RFC 4303 §3.3.3).
    pub fn number(&mut self) -> Option<Sealer<'_>> {
        self.sent = self.sent.checked_add(1)?;
        Some(Sealer { spi: self.spi, aead: &self.aead, sequence: self.sent })
    }

    /// Its keys are to be replaced after so many octets.
    pub fn limit(&mut self, octets: u64) {
        self.budget = Budget::of(octets);
    }

    /// Whether a packet of this length takes the SA over its limit; true for exactly one.
    pub fn spend(&mut self, length: usize) -> bool {
        self.budget.spend(length)
    }

    /// Sequence numbers used.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, sent: u32) {
        self.sent = sent;
    }
}

impl fmt::Debug for OutSa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutSa({:08x}, {} sent)", self.spi, self.sent)
    }
}

/// A sequence number that is used up by sealing, or lost.
pub struct Sealer<'a> {
    spi: u32,
    aead: &'a Aead,
    sequence: u32,
}

impl Sealer<'_> {
    /// Whether this packet takes the SA over half of its numbers; true for exactly one packet of an SA.
    pub fn is_half_way(&self) -> bool {
        self.sequence == HALF
    }

    /// Appends the ESP packet of `inner` to `out`: [`esp::sealed_len`] octets.
    pub fn seal(self, inner: &[u8], next_header: u8, out: &mut Vec<u8>) {
        self.seal_parts(inner, &[], next_header, out);
    }

    /// The same for a packet of which head and payload stand in two places.
    pub fn seal_parts(self, head: &[u8], payload: &[u8], next_header: u8, out: &mut Vec<u8>) {
        let length = head.len() + payload.len();
        let aad = esp::aad(self.spi, self.sequence);
        // The packet counter is the IV: unique under this key for as long as the sequence number is (RFC 4106 §3.1).
        let iv = u64::from(self.sequence).to_be_bytes();
        out.reserve(esp::sealed_len(length));
        out.extend_from_slice(&aad);
        out.extend_from_slice(&iv);
        let start = out.len();
        out.extend_from_slice(head);
        out.extend_from_slice(payload);
        esp::push_trailer(out, length, next_header);
        let icv = self.aead.seal(iv, &aad, &mut out[start..]);
        out.extend_from_slice(&icv);
    }
}

const HALF: u32 = 1 << 31;
