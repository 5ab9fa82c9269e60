//! Algorithms, behind names of our own: the rest of wattle never names a cryptographic crate.

pub mod aead;
pub mod digest;
pub mod kex;
pub mod keyfile;
pub mod prf;
pub mod rng;
pub mod secret;
pub mod sign;
