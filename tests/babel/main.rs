//! The Babel speaker in networks: what a user of the mesh would see.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod graphs;
mod net;
mod one;
mod scale;
mod stories;
mod terms;
