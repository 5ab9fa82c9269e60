//! An inbound SA: checks, opens and takes the padding off, in the order of RFC 4303 §3.4.

use std::fmt;

use super::budget::Budget;
use super::replay::{Replay, Window};
use crate::crypto::aead::{Aead, Cipher};
use crate::crypto::secret::Secret;
use crate::wire::esp;

pub struct InSa {
    aead: Aead,
    window: Window<BLOCKS>,
    budget: Budget,
    count: InCount,
}

/// What an inbound SA has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InCount {
    /// That verified, with the octets of their content.
    pub packets: u64,
    pub octets: u64,
    /// Dropped by the replay window: below it, or seen before.
    pub replays: u64,
}

/// The content of an authenticated packet.
#[derive(Debug)]
pub struct Opened<'a> {
    /// Higher than every number before: where it came from is where the peer is now.
    pub newest: bool,
    /// It takes the SA over its limit; true for exactly one packet.
    pub spent: bool,
    /// `None` where the padding is wrong, which only the peer itself can have done.
    pub content: Option<Content<'a>>,
}

#[derive(Debug)]
pub struct Content<'a> {
    pub next_header: u8,
    /// The inner packet, with TFC padding behind it if the peer adds some (RFC 4303 §2.7).
    pub payload: &'a mut [u8],
}

/// Why a packet is not opened; the SA is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Runt,
    Replay(Replay),
    /// The ICV does not verify.
    Forged,
}

impl InSa {
    /// `None` if the key is not `cipher.keymat_len()` octets long.
    pub fn new(cipher: Cipher, key: &Secret) -> Option<InSa> {
        let (window, count) = (Window::default(), InCount::default());
        Some(InSa { aead: Aead::new(cipher, key)?, window, budget: Budget::ENDLESS, count })
    }

    pub fn count(&self) -> InCount {
        self.count
    }

    /// Its keys are to be replaced after so many octets.
    pub fn limit(&mut self, octets: u64) {
        self.budget = Budget::of(octets);
    }

    /// Opens a packet in place. The window moves only if the ICV verifies.
    pub fn open<'a>(&mut self, packet: &'a mut [u8]) -> Result<Opened<'a>, Refusal> {
        let esp::Parts { sequence, aad, iv, encrypted, icv } = esp::split(packet).ok_or(Refusal::Runt)?;
        if let Err(replay) = self.window.check(sequence) {
            self.count.replays += 1;
            return Err(Refusal::Replay(replay));
        }
        self.aead.open(iv, &aad, encrypted, &icv).map_err(|_| Refusal::Forged)?;
        let newest = sequence > self.window.highest();
        self.window.commit(sequence);
        let spent = self.budget.spend(encrypted.len());
        self.count.packets += 1;
        let content = esp::parse_trailer(encrypted)
            .map(|(length, next_header)| Content { next_header, payload: &mut encrypted[..length] });
        self.count.octets += content.as_ref().map_or(0, |content| content.payload.len() as u64);
        Ok(Opened { newest, spent, content })
    }
}

impl fmt::Debug for InSa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InSa(highest {})", self.window.highest())
    }
}

/// 65 blocks of 64 make a window of 4096: a tenth of a second at 40 000 packets a second.
const BLOCKS: usize = 65;
