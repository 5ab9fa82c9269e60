//! Between IKE_SA_INIT and IKE_AUTH: what both roles gather, and the responder's half-open state.
//!
//! A half-open SA ends at its deadline, whatever comes. A message that does not verify costs its keys nothing (RFC 8019 §4.6).

use super::context::Context;
use super::error::Fault;
use super::event::Reason;
use super::keymat::{IkeKeys, IntAuth, Seed};
use super::sa::{Core, End, LINGER, State, Step};
use super::seal::Plain;
use super::{auth, intermediate, trace};
use crate::config::plan::IkeSuite;
use crate::crypto::kex::Method;
use crate::crypto::secret::Secret;
use crate::time::Time;
use crate::wire::ike::Exchange;

pub(super) struct Handshake {
    /// The present generation.
    pub(super) keys: IkeKeys,
    pub(super) seed: Seed,
    pub(super) suite: IkeSuite,
    /// Covers the IKE_INTERMEDIATE exchanges that took place, announced or not (RFC 9242 §3.3.2).
    pub(super) int_auth: IntAuth,
    /// Additional key exchanges that took place.
    pub(super) done: usize,
    /// As sent and received: AUTH covers them.
    pub(super) init_request: Vec<u8>,
    pub(super) init_response: Vec<u8>,
}

/// The responder waits for the initiator's next request.
pub(super) struct Responding {
    pub(super) handshake: Handshake,
    pub(super) deadline: Time,
}

impl Handshake {
    /// The additional key exchange that is next (RFC 9370 §2.2.2).
    pub(super) fn next_method(&self) -> Option<Method> {
        self.suite.additional.get(self.done).copied()
    }

    /// The next generation of keys.
    pub(super) fn advance(&mut self, shared: &Secret) {
        self.keys = self.keys.update(shared, &self.seed);
        self.done += 1;
    }
}

impl Responding {
    pub(super) fn request(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, request: &Plain) -> Step {
        let payloads = match request.payloads() {
            Ok(payloads) => payloads,
            Err(error) => return self.fail(core, ctx, now, request, error.into()),
        };
        trace::message(ctx, core, false, &request.header, &payloads);
        if request.header.exchange == Exchange::IKE_AUTH {
            if self.handshake.next_method().is_some() {
                return self.fail(core, ctx, now, request, Fault::Syntax("IKE_AUTH before its key exchanges"));
            }
            return auth::respond(self, core, ctx, now, request, &payloads);
        }
        match intermediate::respond(&mut self.handshake, core, ctx, request, &payloads)? {
            Ok(()) => Ok(State::Responding(self)),
            Err(fault) => self.fail(core, ctx, now, request, fault),
        }
    }

    /// Answers with the fault and keeps nothing but that answer. Nobody has been authenticated, so nobody is named.
    fn fail(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, request: &Plain, fault: Fault) -> Step {
        if let Fault::Syntax(what) = fault {
            ctx.refuse(
                now,
                core.path,
                None,
                Reason::PeerMisbehaved(format!("invalid {}: {what}", request.header.exchange)),
            );
        }
        core.respond_fault(ctx, &mut self.handshake.keys, &request.header, fault)?;
        Ok(self.linger(now))
    }

    /// The last response stays for repeated requests, and the SA counts as half-open for as long.
    pub(super) fn linger(self: Box<Self>, now: Time) -> State {
        State::Gone(self.deadline.min(now + LINGER))
    }

    pub(super) fn timeout(self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
        if self.deadline > now {
            return Ok(State::Responding(self));
        }
        ctx.count("ike_half_open_expired");
        log::debug!("half-open IKE SA with {} expired", core.path);
        Err(End::Quiet)
    }

    pub(super) fn words(&self) -> String {
        let next = if self.handshake.next_method().is_some() { Exchange::IKE_INTERMEDIATE } else { Exchange::IKE_AUTH };
        format!("waiting for {next}")
    }
}
