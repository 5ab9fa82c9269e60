//! Payload bodies (RFC 7296 §3.4 to §3.12); the SA and traffic selector payloads have files of their own.

use super::{NotifyType, PayloadType, Proposal, Protocol, TrafficSelector};

/// Octets in a nonce, by RFC 7296 §3.9.
pub const NONCE_LEN: std::ops::RangeInclusive<usize> = 16..=256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    Sa(Vec<Proposal>),
    Ke(Ke),
    IdI(Id),
    IdR(Id),
    Cert(Cert),
    CertReq(Cert),
    Auth(Auth),
    Nonce(Vec<u8>),
    Notify(Notify),
    Delete(Delete),
    Vendor(Vec<u8>),
    TsI(Vec<TrafficSelector>),
    TsR(Vec<TrafficSelector>),
    /// Of a type that has no decoder here. One with the critical bit set ends the parse, unless RFC 7296 defines it.
    Unknown(Unknown),
}

/// Key Exchange (RFC 7296 §3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ke {
    pub method: u16,
    pub data: Vec<u8>,
}

/// Identification (RFC 7296 §3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    pub kind: u8,
    /// Zero when sent; kept as received because AUTH covers it (RFC 7296 §2.15).
    pub reserved: [u8; 3],
    pub data: Vec<u8>,
}

/// Certificate or Certificate Request (RFC 7296 §3.6, §3.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cert {
    pub encoding: u8,
    pub data: Vec<u8>,
}

/// Authentication (RFC 7296 §3.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    pub method: u8,
    pub data: Vec<u8>,
}

/// Notify (RFC 7296 §3.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    pub protocol: Protocol,
    pub spi: Vec<u8>,
    pub kind: NotifyType,
    pub data: Vec<u8>,
}

/// Delete (RFC 7296 §3.11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    /// The IKE SA that carries the message.
    Ike,
    /// Child SAs, by the SPIs on which the sender receives.
    Child { protocol: Protocol, spis: Vec<u32> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub kind: PayloadType,
    pub critical: bool,
    pub body: Vec<u8>,
}

/// Why a payload chain is refused; the words of the notify that may answer it (RFC 7296 §2.5, §3.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("unknown critical payload {0}")]
    UnsupportedCritical(PayloadType),
    #[error("invalid syntax: {0}")]
    InvalidSyntax(&'static str),
}

/// A field would not hold its length: only a message far beyond a datagram's size gets here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message too long to encode")]
pub struct TooLong;

impl Notify {
    /// A notify about the IKE SA or none: protocol 0, no SPI.
    pub fn new(kind: NotifyType, data: impl Into<Vec<u8>>) -> Notify {
        Notify { protocol: Protocol::NONE, spi: Vec::new(), kind, data: data.into() }
    }
}

impl Id {
    pub fn new(kind: u8, data: impl Into<Vec<u8>>) -> Id {
        Id { kind, reserved: [0; 3], data: data.into() }
    }

    /// The payload without its generic header: what AUTH covers (RFC 7296 §2.15).
    pub fn body(&self) -> Vec<u8> {
        let mut body = vec![self.kind];
        body.extend(self.reserved);
        body.extend(&self.data);
        body
    }
}

impl Payload {
    pub fn kind(&self) -> PayloadType {
        match self {
            Payload::Sa(_) => PayloadType::SA,
            Payload::Ke(_) => PayloadType::KE,
            Payload::IdI(_) => PayloadType::IDI,
            Payload::IdR(_) => PayloadType::IDR,
            Payload::Cert(_) => PayloadType::CERT,
            Payload::CertReq(_) => PayloadType::CERTREQ,
            Payload::Auth(_) => PayloadType::AUTH,
            Payload::Nonce(_) => PayloadType::NONCE,
            Payload::Notify(_) => PayloadType::NOTIFY,
            Payload::Delete(_) => PayloadType::DELETE,
            Payload::Vendor(_) => PayloadType::VENDOR,
            Payload::TsI(_) => PayloadType::TSI,
            Payload::TsR(_) => PayloadType::TSR,
            Payload::Unknown(unknown) => unknown.kind,
        }
    }
}
