//! The Security Association payload (RFC 7296 §3.3): proposals of transforms.

use super::cursor::{Cursor, count, counted};
use super::{Protocol, TooLong, TransformType, transform};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// From 1 on; the answer repeats the number of the one chosen.
    pub number: u8,
    pub protocol: Protocol,
    /// Empty in IKE_SA_INIT, 8 octets when an IKE SA is rekeyed, 4 octets for ESP.
    pub spi: Vec<u8>,
    pub transforms: Vec<Transform>,
}

/// One choice. Types and attributes nobody here knows are kept: the selection judges them (RFC 7296 §3.3.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    pub kind: TransformType,
    pub id: u16,
    pub attributes: Vec<Attribute>,
}

/// A transform attribute (RFC 7296 §3.3.5); the type is a number of 15 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Type and value (AF = 1).
    Short(u16, u16),
    /// Type, length and value (AF = 0).
    Long(u16, Vec<u8>),
}

impl Transform {
    pub fn new(kind: TransformType, id: u16) -> Transform {
        Transform { kind, id, attributes: Vec::new() }
    }

    pub fn with_key_length(kind: TransformType, id: u16, bits: u16) -> Transform {
        Transform { kind, id, attributes: vec![Attribute::Short(transform::KEY_LENGTH, bits)] }
    }

    /// The key length in bits, if that is the only attribute.
    pub fn key_length(&self) -> Option<u16> {
        match self.attributes.as_slice() {
            [Attribute::Short(transform::KEY_LENGTH, bits)] => Some(*bits),
            _ => None,
        }
    }

    fn parse(body: &[u8]) -> Result<Transform, &'static str> {
        const SHORT: &str = "transform too short";
        let mut cursor = Cursor::new(body);
        let [kind, _reserved] = cursor.array().ok_or(SHORT)?;
        let id = cursor.u16().ok_or(SHORT)?;
        let mut attributes = Vec::new();
        while !cursor.is_empty() {
            if attributes.len() == MAX_ATTRIBUTES {
                return Err("too many attributes in a transform");
            }
            attributes.push(Attribute::parse(&mut cursor).ok_or("attribute too short")?);
        }
        Ok(Transform { kind: TransformType(kind), id, attributes })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        out.extend([self.kind.0, 0]);
        out.extend(self.id.to_be_bytes());
        self.attributes.iter().try_for_each(|attribute| attribute.encode(out))
    }
}

impl Attribute {
    fn parse(cursor: &mut Cursor<'_>) -> Option<Attribute> {
        let kind = cursor.u16()?;
        if kind & ATTRIBUTE_FORMAT != 0 {
            return Some(Attribute::Short(kind & !ATTRIBUTE_FORMAT, cursor.u16()?));
        }
        let length = cursor.u16()?;
        Some(Attribute::Long(kind, cursor.take(usize::from(length))?.to_vec()))
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match self {
            Attribute::Short(kind, value) => {
                out.extend((kind | ATTRIBUTE_FORMAT).to_be_bytes());
                out.extend(value.to_be_bytes());
            }
            Attribute::Long(kind, value) => {
                out.extend((kind & !ATTRIBUTE_FORMAT).to_be_bytes());
                out.extend(u16::try_from(value.len()).map_err(|_| TooLong)?.to_be_bytes());
                out.extend(value);
            }
        }
        Ok(())
    }
}

pub(super) fn parse(body: &[u8]) -> Result<Vec<Proposal>, &'static str> {
    let mut proposals = Vec::new();
    substructures(body, MORE_PROPOSALS, |body| {
        if proposals.len() == MAX_PROPOSALS {
            return Err("too many proposals");
        }
        proposals.push(parse_proposal(body)?);
        Ok(())
    })?;
    if proposals.is_empty() { Err("no proposal") } else { Ok(proposals) }
}

fn parse_proposal(body: &[u8]) -> Result<Proposal, &'static str> {
    const SHORT: &str = "proposal too short";
    let mut cursor = Cursor::new(body);
    let [number, protocol, spi_size, transform_count] = cursor.array().ok_or(SHORT)?;
    let spi = cursor.take(usize::from(spi_size)).ok_or(SHORT)?.to_vec();
    let mut transforms = Vec::new();
    substructures(cursor.rest(), MORE_TRANSFORMS, |body| {
        transforms.push(Transform::parse(body)?);
        Ok(())
    })?;
    if transforms.len() != usize::from(transform_count) {
        return Err("number of transforms in a proposal");
    }
    Ok(Proposal { number, protocol: Protocol(protocol), spi, transforms })
}

/// Proposals and transforms start alike: whether more follow, a zero, the length of the whole (RFC 7296 §3.3.1, §3.3.2).
fn substructures<'a>(
    octets: &'a [u8],
    more: u8,
    mut each: impl FnMut(&'a [u8]) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let mut cursor = Cursor::new(octets);
    while !cursor.is_empty() {
        let [last, _reserved] = cursor.array().ok_or("proposal or transform too short")?;
        let length = cursor.u16().ok_or("proposal or transform too short")?;
        let body = cursor.take_counted(length, SUBSTRUCTURE_HEADER_LEN).ok_or("length of a proposal or transform")?;
        if last != if cursor.is_empty() { 0 } else { more } {
            return Err("last proposal or transform not marked as such");
        }
        each(body)?;
    }
    Ok(())
}

pub(super) fn encode(proposals: &[Proposal], out: &mut Vec<u8>) -> Result<(), TooLong> {
    encode_substructures(proposals, MORE_PROPOSALS, out, |proposal, out| {
        let (spi_size, transforms) = (count(proposal.spi.len())?, count(proposal.transforms.len())?);
        out.extend([proposal.number, proposal.protocol.0, spi_size, transforms]);
        out.extend(&proposal.spi);
        encode_substructures(&proposal.transforms, MORE_TRANSFORMS, out, Transform::encode)
    })
}

fn encode_substructures<T>(
    all: &[T],
    more: u8,
    out: &mut Vec<u8>,
    encode: impl Fn(&T, &mut Vec<u8>) -> Result<(), TooLong>,
) -> Result<(), TooLong> {
    for (behind, one) in (0..all.len()).rev().zip(all) {
        let start = out.len();
        out.extend([if behind == 0 { 0 } else { more }, 0, 0, 0]);
        counted(out, start, 2, |out| encode(one, out))?;
    }
    Ok(())
}

const MORE_PROPOSALS: u8 = 2;
const MORE_TRANSFORMS: u8 = 3;
const SUBSTRUCTURE_HEADER_LEN: usize = 4;
const ATTRIBUTE_FORMAT: u16 = 0x8000;
/// Far above what any implementation offers; they keep what a hostile message costs near its own length.
const MAX_PROPOSALS: usize = 64;
const MAX_ATTRIBUTES: usize = 16;
