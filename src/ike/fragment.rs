//! Message fragmentation (RFC 7383): splitting what is sent, collecting what is received.
//!
//! Nothing is stored before its ICV has verified; the set's size is what arrived, never what a total promises.

use std::net::IpAddr;

use super::seal::{Opener, Plain, Sealer};
use crate::wire::ike::{Skf, TooLong};

/// The IP datagram that a message may fill before it is split: IPv6's minimum MTU, on IPv4 as well.
pub const DATAGRAM_LIMIT: usize = 1280;
/// The most fragments of one message. Paths of 600 octets and clients that cut finer are in the field.
pub const MAX_FRAGMENTS: u16 = 256;
/// The most octets of one message, put together.
pub const MAX_OCTETS: usize = 16 * 1024;

/// Octets left for the IKE message in an IP datagram of `limit` octets to `remote`, after IP, UDP and the non-ESP marker.
pub fn room(limit: usize, remote: IpAddr) -> usize {
    let _ = (limit, remote);
    todo!()
}

/// The datagrams of a message, without marker: one SK message if it fits into `room` octets, else SKF messages of at most `room`.
pub fn split(sealer: &mut Sealer, message: &Plain, room: usize) -> Result<Vec<Vec<u8>>, TooLong> {
    let _ = (sealer, message, room);
    todo!()
}

/// Why a fragment is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("integrity check failed")]
    Forged,
    #[error("more fragments than a message may have")]
    TooMany,
    #[error("message too large")]
    TooLarge,
    #[error("total lower than that of the fragments before")]
    LowerTotal,
}

/// Collects one message at a time. An SA has one for requests and one for responses, since both may be under way.
///
/// The caller gives it only fragments of the message ID it waits for, and [`clear`](Self::clear)s it when it waits no longer.
#[derive(Default)]
pub struct Reassembly {}

impl Reassembly {
    /// The whole message when `fragment` was the last one missing; `None` while others are, or if it is a duplicate.
    pub fn add(&mut self, opener: &Opener, fragment: &Skf<'_>) -> Result<Option<Plain>, Refused> {
        let _ = (opener, fragment);
        todo!()
    }

    pub fn clear(&mut self) {
        todo!()
    }
}
