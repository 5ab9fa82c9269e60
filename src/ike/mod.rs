//! IKEv2 (RFC 7296) for both roles, sans-IO, with additional key exchanges (RFC 9370, 9242), Ed25519 (RFC 8420) and message
//! fragmentation (RFC 7383).

mod accept;
mod auth;
mod child;
mod closing;
mod collide;
mod context;
mod cookie;
mod create;
pub mod endpoint;
mod error;
mod established;
mod event;
pub mod fragment;
mod handshake;
mod info;
mod init;
mod intermediate;
pub mod keymat;
mod limit;
mod mobike;
mod natd;
mod payloads;
mod propose;
mod rekey;
mod sa;
pub mod seal;
pub mod signature;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trace;
mod window;

pub use endpoint::Endpoint;
