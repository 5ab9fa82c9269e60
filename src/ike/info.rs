//! INFORMATIONAL as responder (RFC 7296 §1.4, §1.5): deletions, addresses, and the empty request that asks for a sign of life.

use super::context::Context;
use super::error::refusal;
use super::established::Established;
use super::event::Reason;
use super::payloads;
use super::rekey::Old;
use super::sa::{Core, State, Step};
use super::seal::Plain;
use crate::time::Time;
use crate::wire::ike::{Delete, NotifyType, Payload, Protocol};

pub(super) fn request(
    mut state: Box<Established>,
    core: &mut Core,
    ctx: &mut Context,
    now: Time,
    request: &Plain,
    payloads: &[Payload],
) -> Step {
    // RFC 7296 §2.21.2: the initiator does not believe who we are.
    let refused = payloads::notify(payloads, NotifyType::AUTHENTICATION_FAILED).is_some();
    if refused || payloads.contains(&Payload::Delete(Delete::Ike)) {
        core.respond(ctx, &mut state.keys, &request.header, &[])?;
        // The peer has rekeyed it, and our own rekeying of it is too late.
        if let Some(held) = state.held.take().filter(|_| !refused) {
            return Ok(State::Established(state.switch(core, ctx, now, held, &Old::Gone)));
        }
        let reason = if refused {
            refusal(core.peer_name(ctx), &ctx.fingerprint, NotifyType::AUTHENTICATION_FAILED)
        } else {
            Reason::ClosedByPeer
        };
        return Ok(core.over(ctx, now, reason));
    }
    // RFC 7296 §1.4.1: of each pair that goes, the other half is named in the answer.
    let mut ours = Vec::new();
    for payload in payloads {
        if let Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis }) = payload {
            ours.extend(spis.iter().filter_map(|&spi| state.child_deleted(core, ctx, now, spi)));
        }
    }
    for told in payloads::notifies(payloads).filter(|notify| notify.kind == NotifyType::INVALID_SPI) {
        if let Ok(spi) = told.data.as_slice().try_into() {
            state.child_missing(u32::from_be_bytes(spi));
        }
    }
    let mut answer = core.addresses_told(ctx, payloads);
    if !ours.is_empty() {
        answer.push(Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis: ours }));
    }
    core.respond(ctx, &mut state.keys, &request.header, &answer)?;
    state.advance(core, ctx, now)?;
    Ok(State::Established(state))
}
