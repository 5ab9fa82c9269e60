//! The Security Association payload (RFC 7296 §3.3): proposals of transforms.

use super::{Protocol, TransformType, transform};

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
}
