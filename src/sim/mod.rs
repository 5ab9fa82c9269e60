//! Worlds of nodes on virtual time: real [`crate::node::Node`]s, with a network between them that delays, loses, doubles,
//! reorders, translates and cuts. Everything follows from one seed, which a failing test prints.
//!
//! After every step in which a forwarding table changed, the invariants of `docs/architecture.md` are checked: no forwarding
//! loop, and every selected route feasible.

#![expect(
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    clippy::needless_range_loop,
    reason = "a world has few hosts, and their numbers are their names"
)]

mod build;
mod nat;
mod packets;
mod wire;
mod world;

mod tests;

use build::{Mesh, address4, address6, underlay};
use nat::Nat;
use world::World;
