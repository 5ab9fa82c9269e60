//! Message fragmentation (RFC 7383): splitting what is sent, collecting what is received.
//!
//! Nothing is stored before its ICV has verified; the set's size is what arrived, never what a total promises.

use std::collections::BTreeMap;
use std::net::IpAddr;

use zeroize::Zeroizing;

use super::seal::{FRAGMENT_NUMBERS_LEN, Opener, Plain, SEAL_LEN, SK_HEAD_LEN, Sealer};
use crate::wire::ike::{Header, Skf, TooLong};

/// The IP datagram that a message may fill before it is split: IPv6's minimum MTU, on IPv4 as well.
pub const DATAGRAM_LIMIT: usize = 1280;
/// The most fragments of one message. Paths of 600 octets and clients that cut finer are in the field.
pub const MAX_FRAGMENTS: u16 = 256;
/// The most octets of one message, put together.
pub const MAX_OCTETS: usize = 16 * 1024;

/// Octets left for the IKE message in an IP datagram of `limit` octets to `remote`, after IP, UDP and the non-ESP marker.
pub fn room(limit: usize, remote: IpAddr) -> usize {
    let ip = if remote.to_canonical().is_ipv4() { 20 } else { 40 };
    limit.saturating_sub(ip + UDP_HEADER_LEN + NON_ESP_MARKER_LEN)
}

/// The datagrams of a message, without marker: one SK message if it fits into `room` octets, else SKF messages of at most `room`.
pub fn split(sealer: &mut Sealer, message: &Plain, room: usize) -> Result<Vec<Vec<u8>>, TooLong> {
    if SK_HEAD_LEN + message.octets().len() + SEAL_LEN <= room {
        return Ok(vec![sealer.seal(message)?]);
    }
    let chunk_len = room.saturating_sub(SK_HEAD_LEN + FRAGMENT_NUMBERS_LEN + SEAL_LEN);
    if chunk_len == 0 {
        return Err(TooLong);
    }
    let chunks = message.octets().chunks(chunk_len);
    let total = u16::try_from(chunks.len()).ok().filter(|total| *total <= MAX_FRAGMENTS).ok_or(TooLong)?;
    (1..=total).zip(chunks).map(|(number, chunk)| sealer.seal_fragment(message, (number, total), chunk)).collect()
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
pub struct Reassembly(Option<Set>);

struct Set {
    header: Header,
    total: u16,
    /// IKE header and generic header of fragment 1.
    outer: Option<[u8; SK_HEAD_LEN]>,
    chunks: BTreeMap<u16, Zeroizing<Vec<u8>>>,
}

impl Reassembly {
    /// The whole message when `fragment` was the last one missing; `None` while others are, or if it is a duplicate.
    ///
    /// The rules are those of RFC 7383 §2.6.
    pub fn add(&mut self, opener: &Opener, fragment: &Skf<'_>) -> Result<Option<Plain>, Refused> {
        if fragment.total > MAX_FRAGMENTS {
            return Err(Refused::TooMany);
        }
        let of_same_message = self.0.as_ref().filter(|set| set.header == fragment.sealed.header);
        if let Some(set) = of_same_message
            && fragment.total < set.total
        {
            return Err(Refused::LowerTotal);
        }
        let starts_anew = of_same_message.is_none_or(|set| fragment.total > set.total);
        let duplicate = of_same_message.is_some_and(|set| set.chunks.contains_key(&fragment.number)) && !starts_anew;
        // A duplicate as well: the caller takes what is not refused for the peer's own octets.
        let chunk = opener.decrypt(&fragment.sealed).map_err(|_| Refused::Forged)?;
        if duplicate {
            return Ok(None);
        }
        if starts_anew {
            // Another message, or the same one cut finer because the first cut did not get through.
            self.0 = None;
        }
        let set = self.0.get_or_insert_with(|| Set {
            header: fragment.sealed.header,
            total: fragment.total,
            outer: None,
            chunks: BTreeMap::new(),
        });
        if set.len() + chunk.len() > MAX_OCTETS {
            self.0 = None;
            return Err(Refused::TooLarge);
        }
        if fragment.number == 1 {
            set.outer = fragment.sealed.associated.first_chunk().copied();
        }
        set.chunks.insert(fragment.number, chunk);
        if set.chunks.len() < usize::from(set.total) {
            return Ok(None);
        }
        Ok(self.0.take().and_then(Set::join))
    }

    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl Set {
    fn len(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.len()).sum()
    }

    fn join(self) -> Option<Plain> {
        let mut octets = Zeroizing::new(Vec::with_capacity(self.len()));
        self.chunks.values().for_each(|chunk| octets.extend_from_slice(chunk));
        Plain::received(self.header, self.outer?, octets)
    }
}

const UDP_HEADER_LEN: usize = 8;
const NON_ESP_MARKER_LEN: usize = 4;

#[cfg(test)]
mod tests;
