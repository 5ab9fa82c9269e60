//! ESP in tunnel mode (RFC 4303) with AEAD ciphers: sealing, opening, and the replay window. The only holder of traffic keys.
//!
//! Sequence numbers are 32 bits wide (no ESN). An outbound SA never repeats one; an inbound SA moves its window only after
//! the ICV has verified.

mod budget;
pub mod inn;
pub mod out;
pub mod replay;
pub mod sad;

pub use inn::{InCount, InSa, Opened, Refusal};
pub use out::{OutSa, Sealer};
pub use sad::Sad;

#[cfg(test)]
mod tests;
