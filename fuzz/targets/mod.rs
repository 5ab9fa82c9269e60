//! What the fuzzer runs: functions of octets that panic when something is wrong. `scripts/fuzz` gives them what libFuzzer
//! thinks of, `tests/fuzz_corpus.rs` what is kept in `fuzz/corpus`.
//!
//! The targets for state machines read a list of operations from the octets, so that every input means something. Everything
//! follows from the input: what fails once fails always.

mod babel_net;
mod babel_packet;
mod babel_speaker;
mod ike_exchanges;
mod ike_member;
mod ike_message;
mod input;
mod node_pair;
mod plane_member;
mod super_packets;

/// Its name, and what it does with an input.
pub(crate) type Target = (&'static str, fn(&[u8]));

pub(crate) const ALL: &[Target] = &[
    ("ike_message", ike_message::run),
    ("ike_exchanges", ike_exchanges::run),
    ("ike_member", ike_member::run),
    ("babel_packet", babel_packet::run),
    ("babel_speaker", babel_speaker::run),
    ("babel_net", babel_net::run),
    ("node_pair", node_pair::run),
    ("plane_member", plane_member::run),
    ("super_packets", super_packets::run),
];
