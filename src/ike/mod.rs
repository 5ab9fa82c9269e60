//! IKEv2 (RFC 7296) for both roles, sans-IO, with additional key exchanges (RFC 9370, 9242), Ed25519 (RFC 8420) and message
//! fragmentation (RFC 7383).

pub mod endpoint;

pub use endpoint::Endpoint;
