//! Whole messages: what is clear, what is in an SK or SKF payload, and chains of payloads (RFC 7296 §3.1, §3.2, §3.14).

use super::{Header, ParseError, Payload, PayloadType, TooLong};

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
    pub fn parse(datagram: &'a [u8]) -> Result<Message<'a>, Garbage> {
        let _ = datagram;
        todo!()
    }
}

impl Chain<'_> {
    /// Unknown payloads are kept; a critical one that RFC 7296 does not define is an error (RFC 7296 §2.5).
    pub fn payloads(&self) -> Result<Vec<Payload>, ParseError> {
        todo!()
    }
}

/// A message without SK payload, ready for a datagram.
pub fn encode_clear(header: &Header, payloads: &[Payload]) -> Result<Vec<u8>, TooLong> {
    let _ = (header, payloads);
    todo!()
}

/// The first payload's type and the octets of a chain.
pub fn encode_chain(payloads: &[Payload]) -> Result<(PayloadType, Vec<u8>), TooLong> {
    let _ = payloads;
    todo!()
}
