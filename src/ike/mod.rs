//! IKEv2 (RFC 7296) for both roles, sans-IO, with additional key exchanges (RFC 9370, 9242), Ed25519 (RFC 8420) and message
//! fragmentation (RFC 7383).

pub mod endpoint;
pub mod fragment;
pub mod keymat;
pub mod seal;
pub mod signature;

pub use endpoint::Endpoint;
