//! wattle: an IPsec mesh SD-WAN node. The map of the house; its rules are in `docs/architecture.md`.
//!
//! Imports go only downwards (`tests/layering.rs` enforces it):
//!
//! ```text
//! main → cli → { daemon, status, config }        process, files, terminal
//! daemon → os, node, status                      the only place with a clock, file descriptors, threads
//! node   → ike, babel, plane, config::plan       composition; pure
//! ike | babel | plane (esp, fib) → wire, crypto  protocol; pure
//! child_sa, time, path, prefix, offload, identity, wire, crypto, status::model  leaves; pure
//! sim    → node                                  virtual clock and links (tests only)
//! ```

pub mod babel;
pub mod child_sa;
pub mod cli;
pub mod config;
pub mod crypto;
pub mod daemon;
pub mod esp;
pub mod fib;
pub mod identity;
pub mod ike;
pub mod node;
pub mod offload;
pub mod os;
pub mod path;
pub mod plane;
pub mod prefix;
#[cfg(test)]
mod sim;
pub mod status;
pub mod steer;
pub mod time;
pub mod wire;
