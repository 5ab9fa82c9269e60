//! The endpoint: every IKE SA of the node, found by SPI; half-open limits and cookies.
//!
//! The contract: give it messages and time, take from it datagrams and events until there are none left, then sleep until
//! [`Endpoint::poll_timeout`]. It never decides to dial or to give up on a peer: that is `node`'s part.

use std::net::IpAddr;
use std::time::Duration;

use crate::config::plan::Suites;
use crate::crypto::aead::Cipher;
use crate::crypto::rng::Rng;
use crate::crypto::secret::Secret;
use crate::crypto::sign::{PrivateKey, PublicKey};
use crate::path::{Path, PeerId};
use crate::time::Time;

pub struct Settings {
    /// Sent as ID_FQDN.
    pub name: String,
    pub private_key: PrivateKey,
    pub suites: Suites,
}

/// An IKE SA, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SaId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Initiator,
    Responder,
}

/// A datagram; the non-ESP marker is already in front.
pub struct Transmit {
    pub path: Path,
    pub datagram: Vec<u8>,
}

/// The first or a later Child SA, ready to be installed: inbound first, then outbound.
#[derive(Debug)]
pub struct Child {
    pub cipher: Cipher,
    pub spi_in: u32,
    pub spi_out: u32,
    /// `cipher.keymat_len()` octets each.
    pub key_in: Secret,
    pub key_out: Secret,
}

#[derive(Debug)]
pub enum Event {
    /// Both sides are authenticated. A Child SA comes with an event of its own, if at all.
    Established {
        sa: SaId,
        peer: PeerId,
        role: Role,
        path: Path,
        /// As proposal string: `aes256gcm16-prfsha256-x25519-ke1_mlkem768`.
        suite: String,
        /// When its first message was sent or received: an SA that began before another one stood crosses it.
        began: Time,
        /// The NAT detection says that we are behind a NAT: keepalives are due.
        behind_nat: bool,
    },
    ChildUp { sa: SaId, child: Child },
    /// The peer refused or deleted the child; the IKE SA stands, and a new one is being asked for, with back-off.
    ChildDown { sa: SaId, spi_in: Option<u32>, reason: Reason },
    /// The SA is gone, whatever it had (its children are gone too, without events of their own).
    Closed { sa: SaId, peer: Option<PeerId>, reason: Reason },
    /// A fresh message from the peer verified; `path` is where it came from.
    Heard { sa: SaId, path: Path },
    /// Somebody was refused before an SA stood (rate-limited).
    Refused { from: Path, name: Option<String>, reason: Reason },
}

/// Why something is not up, in words for `wattle status`: at most 160 characters, with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("no answer to {exchange}, {tries} tries")]
    NoAnswer { exchange: &'static str, tries: u32 },
    #[error("{0}")]
    PeerMisbehaved(String),
    #[error("{0}")]
    Incompatible(String),
    #[error("{0}")]
    AuthFailed(String),
    #[error("closed by the peer")]
    ClosedByPeer,
    #[error("closed by us")]
    ClosedByUs,
}

/// What an SA is, for `wattle sas` and for debugging.
#[derive(Clone, Debug)]
pub struct SaInfo {
    pub sa: SaId,
    pub peer: Option<PeerId>,
    pub role: Role,
    pub spi_initiator: u64,
    pub spi_responder: u64,
    pub path: Path,
    /// In words: "waiting for the answer to IKE_SA_INIT, 3 tries".
    pub state: String,
    pub established: bool,
    pub since: Time,
}

/// Limits against floods and leaks; the defaults are those of docs/config.md.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Cookies are asked for from this many half-open SAs as responder on (RFC 7296 §2.6).
    pub cookie_total: usize,
    pub cookie_per_source: usize,
    /// Beyond these a request is dropped.
    pub half_open_total: usize,
    pub half_open_per_source: usize,
    pub half_open_life: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            cookie_total: 16,
            cookie_per_source: 3,
            half_open_total: 256,
            half_open_per_source: 5,
            half_open_life: Duration::from_secs(30),
        }
    }
}

pub struct Endpoint {}

impl Endpoint {
    pub fn new(settings: Settings, limits: Limits, rng: Rng, now: Time) -> Endpoint {
        let _ = (settings, limits, rng, now);
        todo!()
    }

    /// Makes a peer known, by identity (its name) and key; replaces what was known of `peer`.
    pub fn add_peer(&mut self, peer: PeerId, name: &str, key: PublicKey) {
        let _ = (peer, name, key);
        todo!()
    }

    /// Forgets a peer and closes its SAs.
    pub fn remove_peer(&mut self, now: Time, peer: PeerId) {
        let _ = (now, peer);
        todo!()
    }

    /// Starts a session as initiator.
    pub fn connect(&mut self, now: Time, peer: PeerId, path: Path) -> SaId {
        let _ = (now, peer, path);
        todo!()
    }

    /// Sends DELETE and forgets the SA; a half-open one is forgotten silently. No `Closed` event follows.
    pub fn close(&mut self, now: Time, sa: SaId) {
        let _ = (now, sa);
        todo!()
    }

    /// Asks the peer for a sign of life (an empty INFORMATIONAL), unless a request is under way already.
    pub fn probe(&mut self, now: Time, sa: SaId) {
        let _ = (now, sa);
        todo!()
    }

    /// Requests go to `path` from now on: ESP that verified came from there.
    pub fn set_path(&mut self, sa: SaId, path: Path) {
        let _ = (sa, path);
        todo!()
    }

    /// An IKE message, without the non-ESP marker.
    pub fn receive(&mut self, now: Time, path: Path, message: &[u8]) {
        let _ = (now, path, message);
        todo!()
    }

    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        todo!()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        todo!()
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    pub fn sas(&self) -> impl Iterator<Item = SaInfo> + '_ {
        std::iter::empty()
    }

    pub fn sa(&self, sa: SaId) -> Option<SaInfo> {
        let _ = sa;
        todo!()
    }

    /// Refused and dropped messages since the start, by reason.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        std::iter::empty()
    }

    /// Half-open SAs as responder, in all and from one address (for tests and status).
    pub fn half_open(&self, from: Option<IpAddr>) -> usize {
        let _ = from;
        todo!()
    }

    /// DELETE for every established SA; the datagrams come out of [`Endpoint::poll_transmit`].
    pub fn shut_down(&mut self, now: Time) {
        let _ = now;
        todo!()
    }
}
