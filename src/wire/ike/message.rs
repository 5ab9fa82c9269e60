//! Whole messages: what is clear, what is in an SK or SKF payload, and chains of payloads (RFC 7296 §3.1, §3.2, §3.14).

use super::cursor::{Cursor, counted};
use super::{Header, IKE_HEADER_LEN, ParseError, Payload, PayloadType, TooLong};

/// Length of a generic payload header in octets.
pub const PAYLOAD_HEADER_LEN: usize = 4;

/// A message, judged from outside only.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub header: Header,
    pub body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// No SK payload: the payloads are not parsed yet.
    Clear(Chain<'a>),
    Sk(SealedBody<'a>),
    Skf(Skf<'a>),
}

/// A chain of payloads, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    pub first: PayloadType,
    pub octets: &'a [u8],
}

/// The parts of an SK or SKF payload, as every AEAD of IKEv2 cuts them (RFC 5282 §3, RFC 7634 §3).
#[derive(Clone, Copy, Debug)]
pub struct SealedBody<'a> {
    pub header: Header,
    /// The first inner payload.
    pub first: PayloadType,
    /// From the IKE header to the end of the generic header (32 octets); 4 more for SKF, its numbers (RFC 7383 §2.5).
    pub associated: &'a [u8],
    pub iv: [u8; 8],
    pub ciphertext: &'a [u8],
    pub icv: [u8; 16],
}

/// A fragment (RFC 7383 §2.5); `1 <= number <= total` has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Skf<'a> {
    pub number: u16,
    pub total: u16,
    pub sealed: SealedBody<'a>,
}

/// Not a message, or not one anybody can answer: dropped without a word, except for a higher major version (RFC 7296 §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbage {
    #[error("shorter than an IKE header")]
    Short,
    #[error("length field differs from the datagram's length")]
    Length,
    #[error("initiator SPI is zero")]
    ZeroSpi,
    #[error("IKE version below 2")]
    OldVersion,
    #[error("IKE version above 2")]
    NewVersion(Header),
    #[error("encrypted payload malformed")]
    Sealed,
    #[error("fragment number out of range")]
    FragmentNumber,
}

impl<'a> Message<'a> {
    /// Takes a whole datagram, without the non-ESP marker.
    ///
    /// SK or SKF must be the only payload: no exchange puts another in front of it, and nobody would read it there.
    pub fn parse(datagram: &'a [u8]) -> Result<Message<'a>, Garbage> {
        let (header, first, octets) = Header::parse(datagram)?;
        let body = match first {
            PayloadType::SK => Body::Sk(SealedBody::parse::<0>(header, datagram).ok_or(Garbage::Sealed)?.0),
            PayloadType::SKF => Body::Skf(Skf::parse(header, datagram)?),
            _ => Body::Clear(Chain { first, octets }),
        };
        Ok(Message { header, body })
    }
}

impl<'a> SealedBody<'a> {
    /// Gives the `N` octets between generic header and IV as well.
    fn parse<const N: usize>(header: Header, datagram: &'a [u8]) -> Option<(SealedBody<'a>, [u8; N])> {
        let mut cursor = Cursor::new(datagram);
        let associated = cursor.take(IKE_HEADER_LEN + PAYLOAD_HEADER_LEN + N)?;
        let mut generic = Cursor::new(associated.get(IKE_HEADER_LEN..)?);
        let [first, _flags] = generic.array()?;
        let length = generic.u16()?;
        if usize::from(length) != datagram.len().checked_sub(IKE_HEADER_LEN)? {
            return None;
        }
        let iv = cursor.array()?;
        let (ciphertext, icv) = cursor.rest().split_last_chunk()?;
        // The pad length is there even when nothing else is (RFC 7296 §3.14).
        let sealed = SealedBody { header, first: PayloadType(first), associated, iv, ciphertext, icv: *icv };
        (!ciphertext.is_empty()).then_some((sealed, generic.array()?))
    }
}

impl<'a> Skf<'a> {
    fn parse(header: Header, datagram: &'a [u8]) -> Result<Skf<'a>, Garbage> {
        let (sealed, [n0, n1, t0, t1]) = SealedBody::parse(header, datagram).ok_or(Garbage::Sealed)?;
        let (number, total) = (u16::from_be_bytes([n0, n1]), u16::from_be_bytes([t0, t1]));
        // RFC 7383 §2.5: both count from 1.
        if number == 0 || number > total { Err(Garbage::FragmentNumber) } else { Ok(Skf { number, total, sealed }) }
    }
}

impl Chain<'_> {
    /// Unknown payloads are kept; a critical one that RFC 7296 does not define is an error (RFC 7296 §2.5).
    pub fn payloads(&self) -> Result<Vec<Payload>, ParseError> {
        let mut cursor = Cursor::new(self.octets);
        let mut kind = self.first;
        let mut payloads = Vec::new();
        while kind != PayloadType::NONE {
            if payloads.len() == MAX_PAYLOADS {
                return Err(ParseError::InvalidSyntax("too many payloads"));
            }
            let header = cursor.array().and_then(|[next, flags]| {
                let length = cursor.u16()?;
                Some((next, flags, cursor.take_counted(length, PAYLOAD_HEADER_LEN)?))
            });
            let (next, flags, body) = header.ok_or(ParseError::InvalidSyntax("length of a payload"))?;
            payloads.push(Payload::parse(kind, flags & CRITICAL != 0, body)?);
            kind = PayloadType(next);
        }
        if cursor.is_empty() { Ok(payloads) } else { Err(ParseError::InvalidSyntax("octets after the last payload")) }
    }
}

/// A message without SK payload, ready for a datagram.
pub fn encode_clear(header: &Header, payloads: &[Payload]) -> Result<Vec<u8>, TooLong> {
    let (first, chain) = encode_chain(payloads)?;
    let mut message = header.encode(first, IKE_HEADER_LEN + chain.len())?.to_vec();
    message.extend(chain);
    Ok(message)
}

/// The first payload's type and the octets of a chain.
pub fn encode_chain(payloads: &[Payload]) -> Result<(PayloadType, Vec<u8>), TooLong> {
    let kinds = payloads.iter().map(Payload::kind).chain([PayloadType::NONE]);
    let mut out = Vec::new();
    for (payload, next) in payloads.iter().zip(kinds.skip(1)) {
        let start = out.len();
        out.extend([next.0, if payload.is_critical() { CRITICAL } else { 0 }, 0, 0]);
        counted(&mut out, start, 2, |out| payload.encode(out))?;
    }
    Ok((payloads.first().map_or(PayloadType::NONE, Payload::kind), out))
}

const CRITICAL: u8 = 0x80;
/// Above what any implementation sends; keeps what a hostile message costs near its own length.
const MAX_PAYLOADS: usize = 128;
