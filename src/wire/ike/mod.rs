//! IKEv2 messages (RFC 7296 §3), from octets and back.
//!
//! [`Message::parse`] judges the outside: what it refuses ([`Garbage`]) is dropped without an answer, because nobody has
//! authenticated it. [`Chain::payloads`] judges a payload chain, clear or decrypted: its [`ParseError`] says what a notify would say.
//! The codec owns its octets, so that a state machine can keep a payload; reserved octets that no signature covers are not kept.

#![warn(clippy::indexing_slicing)]

mod cursor;
mod header;
#[cfg(test)]
pub(crate) mod hex;
mod message;
mod names;
mod payload;
mod sa;
mod selector;
#[cfg(test)]
mod tests;

pub use header::{Header, IKE_HEADER_LEN};
pub use message::{Body, Chain, Garbage, Message, PAYLOAD_HEADER_LEN, SealedBody, Skf, encode_chain, encode_clear};
pub use names::{
    Exchange, NotifyType, PayloadType, Protocol, TransformType, auth_method, cert_encoding, id_type, transform,
};
pub use payload::{Auth, Cert, Delete, Id, Ke, NONCE_LEN, Notify, ParseError, Payload, TooLong, Unknown};
pub use sa::{Attribute, Proposal, Transform};
pub use selector::TrafficSelector;
