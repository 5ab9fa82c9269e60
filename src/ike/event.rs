//! What an endpoint is told and what it tells: settings, limits, events, and the reasons in words.

use std::net::IpAddr;
use std::time::Duration;

use super::fragment;
use crate::child_sa::ChildSa;
use crate::config::plan::{self, Host, Rekey, Suites};
use crate::crypto::sign::{PrivateKey, PublicKey};
use crate::identity::Identity;
use crate::path::{Path, PeerId};
use crate::time::Time;

pub struct Settings {
    /// Our identity, as ID_FQDN, to peers for which we have no other.
    pub name: String,
    pub private_key: PrivateKey,
    /// What strangers are answered with before it is known who they are, beside what each peer has.
    pub suites: Suites,
    pub rekey: Rekey,
}

/// A peer as IKE knows it.
#[derive(Clone, Debug)]
pub struct Known {
    /// For sentences.
    pub name: String,
    pub key: PublicKey,
    /// Who it says it is, and who we say we are to it.
    pub remote_id: Identity,
    pub local_id: Identity,
    /// What we offer to it and accept from it.
    pub suites: Suites,
    /// Where it probably calls from: until IKE_AUTH nothing else says which suites are its.
    pub addresses: Vec<IpAddr>,
}

impl From<&plan::Peer> for Known {
    fn from(peer: &plan::Peer) -> Known {
        Known {
            name: peer.name.clone(),
            key: peer.public_key,
            remote_id: peer.remote_id.clone(),
            local_id: peer.local_id.clone(),
            suites: peer.suites.clone(),
            addresses: peer
                .endpoints
                .iter()
                .filter_map(|endpoint| if let Host::Address(address) = endpoint.host { Some(address) } else { None })
                .collect(),
        }
    }
}

/// An IKE SA and those that rekeying puts in its place: one session.
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
        /// The NAT detection says that we are behind a NAT: keepalives are due. Also when it cannot be known, because the
        /// datagrams came without a local address or [`super::Endpoint::set_port`] was not told the port.
        behind_nat: bool,
    },
    ChildUp {
        sa: SaId,
        child: ChildSa,
        /// It takes the place of another, and the peer may not be ready: to be received on, but not sent on before
        /// [`Event::ChildUse`].
        standby: bool,
    },
    /// From now on the Child SA is sent on: what it takes the place of goes.
    ChildUse { sa: SaId, spi_in: u32 },
    /// The IKE SA has another one in its place, with other SPIs and keys and the same id.
    Rekeyed { sa: SaId, suite: String },
    /// The peer would not rekey; what stands stays, and it is tried again. `ike`: it was about the IKE SA.
    RekeyRefused { sa: SaId, ike: bool, reason: Reason },
    /// A child was refused (no SPI), or it is gone; what was sent on it before may still come. The IKE SA stands; if it has no other
    /// child, a new one is being asked for, with back-off.
    ChildDown { sa: SaId, spi_in: Option<u32>, reason: Reason },
    /// The SA is gone, whatever it had (its children are gone too, without events of their own).
    Closed { sa: SaId, peer: Option<PeerId>, reason: Reason },
    /// A fresh message from the peer verified; `path` is where it came from.
    Heard { sa: SaId, path: Path },
    /// The peer is reached over `path` by now, or the NAT detection says something else than before.
    Moved { sa: SaId, path: Path, behind_nat: bool },
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
    pub suite: Option<String>,
    /// When we rekey it, unless the peer does before.
    pub rekey_at: Option<Time>,
    pub children: Vec<ChildInfo>,
}

/// A Child SA as IKE sees it.
#[derive(Clone, Copy, Debug)]
pub struct ChildInfo {
    pub spi_in: u32,
    pub spi_out: u32,
    pub rekey_at: Option<Time>,
    /// Another one has taken its place, and it is about to be deleted.
    pub leaving: bool,
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
    /// Child SAs of one IKE SA: one, its successor, and those of a collision, while some of them are on their way out.
    pub children: usize,
    /// The IP datagram, in octets, that an IKE message may fill before it is split (RFC 7383 §2.5.1).
    pub fragment_size: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            cookie_total: 16,
            cookie_per_source: 3,
            half_open_total: 256,
            half_open_per_source: 5,
            half_open_life: Duration::from_secs(30),
            children: 4,
            fragment_size: fragment::DATAGRAM_LIMIT,
        }
    }
}
