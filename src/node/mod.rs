//! The node: a pure function of (plan, seed, inputs, time) to (datagrams, inner packets, kernel-route changes, events).
//!
//! The contract, for the daemon and for the simulation:
//! 1. Give inputs (`handle_*`), with a time that never goes backwards.
//! 2. Then drain: [`Node::egress`] (send the trains, write the inner packets, clear it) and [`Node::poll_output`] until `None`.
//! 3. Sleep until [`Node::poll_timeout`], or an input; call [`Node::handle_timeout`] when the time has come.

use std::net::IpAddr;

use crate::config::plan::Plan;
use crate::path::{Path, SocketId};
use crate::plane::Egress;
use crate::prefix::Prefix;
use crate::status::model;
use crate::time::Time;

/// Something only the daemon can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask for the addresses of a name, both families, and tell [`Node::handle_resolved`].
    Resolve { name: String },
    /// Open a UDP port of the kernel's choice under this id; tell [`Node::handle_socket`].
    OpenSocket { socket: SocketId },
    CloseSocket { socket: SocketId },
    /// Change our routing table in the kernel: the route goes to the TUN device.
    AddRoute { prefix: Prefix },
    DeleteRoute { prefix: Prefix },
}

pub struct Node {}

impl Node {
    pub fn new(plan: Plan, seed: [u8; 32], now: Time) -> Node {
        let _ = (plan, seed, now);
        todo!()
    }

    /// A datagram from the wire; it is decrypted in place.
    pub fn handle_datagram(&mut self, now: Time, path: Path, datagram: &mut [u8]) {
        let _ = (now, path, datagram);
        todo!()
    }

    /// A packet from the TUN device.
    pub fn handle_inner(&mut self, now: Time, packet: &[u8]) {
        let _ = (now, packet);
        todo!()
    }

    /// The answer to [`Output::Resolve`]; the error is a sentence for the user ("no answer from 192.0.2.53").
    pub fn handle_resolved(&mut self, now: Time, name: &str, result: Result<Vec<IpAddr>, String>) {
        let _ = (now, name, result);
        todo!()
    }

    /// The answer to [`Output::OpenSocket`].
    pub fn handle_socket(&mut self, now: Time, socket: SocketId, result: Result<u16, String>) {
        let _ = (now, socket, result);
        todo!()
    }

    /// A datagram could not be sent; the error is the system's word for it ("Network is unreachable").
    pub fn handle_send_error(&mut self, now: Time, path: Path, error: &str) {
        let _ = (now, path, error);
        todo!()
    }

    /// The daemon dropped something: counted under this reason.
    pub fn count(&mut self, reason: &'static str) {
        let _ = reason;
        todo!()
    }

    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        todo!()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    pub fn egress(&mut self) -> &mut Egress {
        todo!()
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        todo!()
    }

    /// Everything a person can ask for.
    pub fn snapshot(&self, now: Time) -> model::Snapshot {
        let _ = now;
        todo!()
    }

    /// What would happen to a packet.
    pub fn explain(&self, now: Time, destination: IpAddr, source: Option<IpAddr>) -> model::PathReport {
        let _ = (now, destination, source);
        todo!()
    }

    /// Retractions and DELETEs go into the egress; nothing else happens afterwards.
    pub fn shut_down(&mut self, now: Time) {
        let _ = now;
        todo!()
    }
}
