//! IKE_INTERMEDIATE with an additional key exchange (RFC 9242, RFC 9370 §2.2.2), both roles.
//!
//! Request and response travel under the keys from before the exchange; the next message comes under the new ones.

use super::auth;
use super::context::Context;
use super::error::{Fault, refusal};
use super::event::{Reason, Role};
use super::handshake::Handshake;
use super::sa::{Core, End, State, Step};
use super::seal::Plain;
use super::window::LATER;
use super::{payloads, propose, trace};
use crate::crypto::kex;
use crate::time::Time;
use crate::wire::ike::{Exchange, Ke, Payload};

/// The initiator waits for the response.
pub(super) struct Exchanging {
    pub(super) handshake: Handshake,
    exchange: kex::Initiator,
}

/// As initiator: the next additional key exchange, or IKE_AUTH when all are done.
pub(super) fn proceed(mut handshake: Handshake, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
    let Some(method) = handshake.next_method() else {
        return auth::start(handshake, core, ctx, now);
    };
    let exchange = kex::Initiator::generate(method, &mut ctx.rng);
    let ke = Ke { method: propose::method_id(method), data: exchange.public().to_vec() };
    let request = core.request(ctx, now, &mut handshake.keys, Exchange::IKE_INTERMEDIATE, &[Payload::Ke(ke)], LATER)?;
    handshake.int_auth.absorb(&handshake.keys, Role::Initiator, &request);
    Ok(State::Exchanging(Box::new(Exchanging { handshake, exchange })))
}

impl Exchanging {
    pub(super) fn response(self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, response: &Plain) -> Step {
        let Exchanging { mut handshake, exchange } = *self;
        core.window.answered();
        let misbehaved =
            |what: &str| End::Closed(Reason::PeerMisbehaved(format!("IKE_INTERMEDIATE of the peer: {what}")));
        let payloads = response.payloads().map_err(|error| misbehaved(&error.to_string()))?;
        trace::message(ctx, core, false, &response.header, &payloads);
        if let Some(error) = payloads::error(&payloads) {
            return Err(End::Closed(refusal(core.peer_name(ctx), &ctx.fingerprint, error.kind)));
        }
        let ke = payloads::ke(&payloads).ok_or_else(|| misbehaved("no key exchange in it"))?;
        if ke.method != propose::method_id(exchange.method()) {
            return Err(misbehaved("another key exchange than agreed"));
        }
        handshake.int_auth.absorb(&handshake.keys, Role::Responder, response);
        let shared = exchange.finish(&ke.data).map_err(|error| misbehaved(&error.to_string()))?;
        handshake.advance(&shared);
        proceed(handshake, core, ctx, now)
    }
}

/// As responder: answers one exchange. The outer error ends the SA, the inner one is for the peer.
pub(super) fn respond(
    handshake: &mut Handshake,
    core: &mut Core,
    ctx: &mut Context,
    request: &Plain,
    payloads: &[Payload],
) -> Result<Result<(), Fault>, End> {
    let Some(method) = handshake.next_method() else {
        return Ok(Err(Fault::Syntax("no additional key exchange is due")));
    };
    let Some(ke) = payloads::ke(payloads) else {
        return Ok(Err(Fault::Syntax("no KE payload")));
    };
    if ke.method != propose::method_id(method) {
        return Ok(Err(Fault::Syntax("another key exchange than agreed")));
    }
    ctx.key_exchanges += 1;
    let Ok((data, shared)) = kex::respond(method, &ke.data, &mut ctx.rng) else {
        return Ok(Err(Fault::Syntax("bad public value")));
    };
    handshake.int_auth.absorb(&handshake.keys, Role::Initiator, request);
    let answer = Payload::Ke(Ke { method: ke.method, data });
    let response = core.respond(ctx, &mut handshake.keys, &request.header, &[answer])?;
    handshake.int_auth.absorb(&handshake.keys, Role::Responder, &response);
    handshake.advance(&shared);
    Ok(Ok(()))
}
