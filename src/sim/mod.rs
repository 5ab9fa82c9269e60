//! Worlds of nodes on virtual time: real [`crate::node::Node`]s, with a network between them that delays, loses, doubles,
//! reorders, translates and cuts. Everything follows from one seed, which a failing test prints.
//!
//! After every step in which a forwarding table changed, the invariants of `docs/architecture.md` are checked: no forwarding
//! loop, and every selected route feasible.

mod build;
mod nat;
mod packets;
mod wire;
mod world;

#[cfg(test)]
mod tests;

pub(crate) use build::{Mesh, address4, address6, underlay};
pub(crate) use nat::Nat;
pub(crate) use wire::Wire;
pub(crate) use world::World;
