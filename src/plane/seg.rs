//! Cutting a super-packet of the TUN device into the packets that it stands for, as the kernel itself would (TSO, USO).
//!
//! The payload is not moved: each packet is a head, made anew in a scratch buffer, and a piece of the payload. The checksum
//! is finished on the way, in one pass over each piece.

use std::net::IpAddr;

use crate::wire::ip::{self, Header, Sum};
use crate::wire::vnet::{Kind, Segments, Vnet};

/// The packets of a super-packet, from the first to the last.
pub(super) struct Cut<'a> {
    head: [u8; LONGEST_HEAD],
    /// Octets before the payload.
    head_length: usize,
    /// Where the transport header begins.
    transport: usize,
    tcp: bool,
    ipv4: bool,
    size: usize,
    /// The pseudo-header but for its length.
    pseudo: Sum,
    flags: u8,
    identification: u16,
    sequence: u32,
    rest: &'a [u8],
    first: bool,
}

impl<'a> Cut<'a> {
    /// `None` if the headers contradict each other; what is damaged is not for us to repair.
    pub(super) fn new(vnet: &Vnet, header: &Header, packet: &'a [u8]) -> Option<Cut<'a>> {
        let Segments { kind, size, .. } = vnet.segments?;
        let ipv4 = header.is_ipv4();
        let (tcp, protocol) = match (kind, ipv4) {
            (Kind::Tcp4, true) | (Kind::Tcp6, false) => (true, ip::TCP),
            (Kind::Udp, _) => (false, ip::UDP),
            (Kind::Tcp4, false) | (Kind::Tcp6, true) => return None,
        };
        // The kernel leaves the checksum of every such packet undone, and so tells where the transport header is, behind
        // IPv6 extension headers too. Its header length is only a hint.
        let transport = usize::from(vnet.checksum?.start);
        let known =
            if ipv4 { transport == header.header && header.protocol == protocol } else { transport >= header.header };
        let packet = packet.get(..header.length)?;
        let segment = packet.get(transport..).filter(|_| known && size > 0)?;
        let transport_length = if tcp { usize::from(segment.get(TCP_DATA_OFFSET)? >> 4) * 4 } else { UDP_LENGTH };
        if tcp && transport_length < TCP_LENGTH {
            return None;
        }
        let head_length = transport + transport_length;
        let mut head = [0; LONGEST_HEAD];
        head.get_mut(..head_length)?.copy_from_slice(packet.get(..head_length)?);
        let pseudo = match (header.source, header.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Sum::default().plus(&from.octets()).plus(&to.octets()),
            (IpAddr::V6(from), IpAddr::V6(to)) => Sum::default().plus(&from.octets()).plus(&to.octets()),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        };
        let (flags, sequence) = if tcp {
            (head[transport + TCP_FLAGS], u32::from_be_bytes(*head.get(transport + TCP_SEQUENCE..)?.first_chunk()?))
        } else {
            (0, 0)
        };
        Some(Cut {
            identification: u16::from_be_bytes([head[4], head[5]]),
            head,
            head_length,
            transport,
            tcp,
            ipv4,
            size: size.into(),
            pseudo: pseudo.plus(&[0, protocol]),
            flags,
            sequence,
            rest: packet.get(head_length..)?,
            first: true,
        })
    }

    /// Octets of the largest packet.
    pub(super) fn largest(&self) -> usize {
        self.head_length + self.size.min(self.rest.len())
    }

    /// The next packet: its head, which holds until the next call, and its payload.
    pub(super) fn next(&mut self) -> Option<(&[u8], &'a [u8])> {
        if self.rest.is_empty() && !self.first {
            return None;
        }
        let (payload, rest) = self.rest.split_at(self.size.min(self.rest.len()));
        self.rest = rest;
        let length = self.head_length + payload.len();
        self.finish_ip(u16::try_from(length).ok()?);
        let transport_length = u16::try_from(length - self.transport).ok()?;
        if self.tcp {
            // RFC 9293 §3.10.4: the push and the end concern the last octets; RFC 3168 §6.1.2: CWR is said once.
            let mut flags = self.flags;
            if !rest.is_empty() {
                flags &= !(FIN | PSH);
            }
            if !self.first {
                flags &= !CWR;
            }
            self.put(TCP_FLAGS, &[flags]);
            self.put(TCP_SEQUENCE, &self.sequence.to_be_bytes());
        } else {
            self.put(UDP_LENGTH_FIELD, &transport_length.to_be_bytes());
        }
        let field = if self.tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
        self.put(field, &[0, 0]);
        let head = self.head.get(self.transport..self.head_length)?;
        let mut sum = self.pseudo.plus(&transport_length.to_be_bytes()).plus(head).plus(payload).finish();
        if !self.tcp && sum == 0 {
            // RFC 768: zero would mean that there is none.
            sum = 0xffff;
        }
        self.put(field, &sum.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(u32::try_from(payload.len()).ok()?);
        self.identification = self.identification.wrapping_add(1);
        self.first = false;
        Some((self.head.get(..self.head_length)?, payload))
    }

    fn finish_ip(&mut self, length: u16) {
        if self.ipv4 {
            self.head[2..4].copy_from_slice(&length.to_be_bytes());
            self.head[4..6].copy_from_slice(&self.identification.to_be_bytes());
            self.head[10..12].copy_from_slice(&[0, 0]);
            let sum = Sum::default().plus(self.head.get(..self.transport).unwrap_or_default()).finish();
            self.head[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let payload = length.saturating_sub(HEADER6);
            self.head[4..6].copy_from_slice(&payload.to_be_bytes());
        }
    }

    /// Writes into the transport header.
    fn put(&mut self, at: usize, octets: &[u8]) {
        if let Some(field) = self.head.get_mut(self.transport + at..).and_then(|rest| rest.get_mut(..octets.len())) {
            field.copy_from_slice(octets);
        }
    }
}

/// Adds what a checksum still lacks; `false` if it does not lie in the packet.
pub(super) fn finish_checksum(vnet: &Vnet, header: &Header, packet: &mut [u8]) -> bool {
    let Some(checksum) = vnet.checksum else { return true };
    let Some(rest) = packet.get_mut(checksum.start.into()..header.length) else { return false };
    let mut sum = Sum::default().plus(rest).finish();
    // Of those that have a checksum here only UDP may not say zero (RFC 768).
    if sum == 0 && usize::from(checksum.offset) == UDP_CHECKSUM {
        sum = 0xffff;
    }
    let Some(field) = rest.get_mut(checksum.offset.into()..).and_then(<[u8]>::first_chunk_mut) else { return false };
    *field = sum.to_be_bytes();
    true
}

/// IP and TCP headers with all their options, and some extension headers.
const LONGEST_HEAD: usize = 256;
/// What an IPv6 packet does not count as its payload.
const HEADER6: u16 = 40;
const TCP_LENGTH: usize = 20;
const TCP_SEQUENCE: usize = 4;
const TCP_DATA_OFFSET: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const UDP_LENGTH: usize = 8;
const UDP_LENGTH_FIELD: usize = 4;
const UDP_CHECKSUM: usize = 6;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
