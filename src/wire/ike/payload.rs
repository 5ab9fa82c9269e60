//! Payload bodies (RFC 7296 §3.4 to §3.12); the SA and traffic selector payloads have files of their own.

use super::cursor::{Cursor, count};
use super::{NotifyType, PayloadType, Proposal, Protocol, TrafficSelector, sa, selector};

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

    /// Decodes the body of one payload. The critical bit of what RFC 7296 defines means nothing (RFC 7296 §2.5).
    pub(super) fn parse(kind: PayloadType, critical: bool, body: &[u8]) -> Result<Payload, ParseError> {
        let parsed = match kind {
            PayloadType::SA => sa::parse(body).map(Payload::Sa),
            PayloadType::KE => Ke::parse(body).ok_or("KE too short").map(Payload::Ke),
            PayloadType::IDI => Id::parse(body).ok_or("IDi too short").map(Payload::IdI),
            PayloadType::IDR => Id::parse(body).ok_or("IDr too short").map(Payload::IdR),
            PayloadType::CERT => Cert::parse(body).ok_or("CERT too short").map(Payload::Cert),
            PayloadType::CERTREQ => Cert::parse(body).ok_or("CERTREQ too short").map(Payload::CertReq),
            PayloadType::AUTH => Auth::parse(body).ok_or("AUTH too short").map(Payload::Auth),
            PayloadType::NONCE if NONCE_LEN.contains(&body.len()) => Ok(Payload::Nonce(body.to_vec())),
            PayloadType::NONCE => Err("nonce not of 16 to 256 octets"),
            PayloadType::NOTIFY => Notify::parse(body).ok_or("notify too short").map(Payload::Notify),
            PayloadType::DELETE => Delete::parse(body).map(Payload::Delete),
            PayloadType::VENDOR => Ok(Payload::Vendor(body.to_vec())),
            PayloadType::TSI => selector::parse(body).map(Payload::TsI),
            PayloadType::TSR => selector::parse(body).map(Payload::TsR),
            PayloadType::SK | PayloadType::SKF => Err("encrypted payload among others"),
            PayloadType::CP | PayloadType::EAP => {
                Ok(Payload::Unknown(Unknown { kind, critical: false, body: body.to_vec() }))
            }
            _ if critical => return Err(ParseError::UnsupportedCritical(kind)),
            _ => Ok(Payload::Unknown(Unknown { kind, critical, body: body.to_vec() })),
        };
        parsed.map_err(ParseError::InvalidSyntax)
    }

    pub(super) fn is_critical(&self) -> bool {
        matches!(self, Payload::Unknown(Unknown { critical: true, .. }))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match self {
            Payload::Sa(proposals) => return sa::encode(proposals, out),
            Payload::TsI(selectors) | Payload::TsR(selectors) => return selector::encode(selectors, out),
            Payload::Notify(notify) => return notify.encode(out),
            Payload::Delete(delete) => return delete.encode(out),
            Payload::Ke(ke) => {
                out.extend(ke.method.to_be_bytes());
                out.extend([0; 2]);
                out.extend(&ke.data);
            }
            Payload::IdI(id) | Payload::IdR(id) => out.extend(id.body()),
            Payload::Cert(cert) | Payload::CertReq(cert) => {
                out.push(cert.encoding);
                out.extend(&cert.data);
            }
            Payload::Auth(auth) => {
                out.extend([auth.method, 0, 0, 0]);
                out.extend(&auth.data);
            }
            Payload::Nonce(octets) | Payload::Vendor(octets) | Payload::Unknown(Unknown { body: octets, .. }) => {
                out.extend(octets);
            }
        }
        Ok(())
    }
}

impl Ke {
    fn parse(body: &[u8]) -> Option<Ke> {
        let mut cursor = Cursor::new(body);
        let (method, _reserved) = (cursor.u16()?, cursor.u16()?);
        Some(Ke { method, data: cursor.rest().to_vec() })
    }
}

impl Id {
    fn parse(body: &[u8]) -> Option<Id> {
        let mut cursor = Cursor::new(body);
        Some(Id { kind: cursor.u8()?, reserved: cursor.array()?, data: cursor.rest().to_vec() })
    }
}

impl Cert {
    fn parse(body: &[u8]) -> Option<Cert> {
        let mut cursor = Cursor::new(body);
        Some(Cert { encoding: cursor.u8()?, data: cursor.rest().to_vec() })
    }
}

impl Auth {
    fn parse(body: &[u8]) -> Option<Auth> {
        let mut cursor = Cursor::new(body);
        let [method, _, _, _] = cursor.array()?;
        Some(Auth { method, data: cursor.rest().to_vec() })
    }
}

impl Notify {
    fn parse(body: &[u8]) -> Option<Notify> {
        let mut cursor = Cursor::new(body);
        let [protocol, spi_size] = cursor.array()?;
        let kind = NotifyType(cursor.u16()?);
        let spi = cursor.take(usize::from(spi_size))?.to_vec();
        Some(Notify { protocol: Protocol(protocol), spi, kind, data: cursor.rest().to_vec() })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        out.extend([self.protocol.0, count(self.spi.len())?]);
        out.extend(self.kind.0.to_be_bytes());
        out.extend(&self.spi);
        out.extend(&self.data);
        Ok(())
    }
}

impl Delete {
    fn parse(body: &[u8]) -> Result<Delete, &'static str> {
        let mut cursor = Cursor::new(body);
        let [protocol, spi_size] = cursor.array().ok_or("delete too short")?;
        let number = cursor.u16().ok_or("delete too short")?;
        let protocol = Protocol(protocol);
        if protocol == Protocol::IKE {
            let empty = spi_size == 0 && number == 0 && cursor.is_empty();
            return if empty { Ok(Delete::Ike) } else { Err("delete of an IKE SA with an SPI") };
        }
        let (spis, rest) = cursor.rest().as_chunks();
        if usize::from(spi_size) != CHILD_SPI_LEN || spis.len() != usize::from(number) || !rest.is_empty() {
            return Err("SPIs of a delete");
        }
        Ok(Delete::Child { protocol, spis: spis.iter().copied().map(u32::from_be_bytes).collect() })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match self {
            Delete::Ike => out.extend([Protocol::IKE.0, 0, 0, 0]),
            Delete::Child { protocol, spis } => {
                out.extend([protocol.0, 4]);
                out.extend(u16::try_from(spis.len()).map_err(|_| TooLong)?.to_be_bytes());
                out.extend(spis.iter().copied().flat_map(u32::to_be_bytes));
            }
        }
        Ok(())
    }
}

const CHILD_SPI_LEN: usize = 4;
