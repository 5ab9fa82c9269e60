//! The end of an IKE SA: a DELETE by us (RFC 7296 §1.4.1), or by the peer that has rekeyed it.

use std::time::Duration;

use super::context::Context;
use super::error::Fault;
use super::keymat::IkeKeys;
use super::sa::{Core, End, LINGER, State, Step};
use super::seal::Plain;
use super::window::LEAVING;
use crate::time::Time;
use crate::wire::ike::{Delete, Exchange, Payload};

/// We close the SA, and wait for the peer to know it. Nobody outside sees it any more.
pub(super) struct Closing {
    pub(super) keys: IkeKeys,
    deleting: bool,
    /// The peer is to delete it, for it rekeyed it; we do from then on.
    patience: Option<Time>,
}

impl Closing {
    /// Sends DELETE as soon as the window allows, after `fault` if there is one.
    pub(super) fn start(keys: IkeKeys, core: &mut Core, ctx: &mut Context, now: Time, fault: Option<Fault>) -> Step {
        let mut closing = Box::new(Closing { keys, deleting: false, patience: None });
        if core.window.busy() {
            core.window.hurry(now, LEAVING_TIME);
        } else {
            closing.delete(core, ctx, now, fault)?;
        }
        Ok(State::Closing(closing))
    }

    /// Rekeyed by the peer, which is to delete it (RFC 7296 §2.8).
    pub(super) fn wait(keys: IkeKeys, now: Time) -> State {
        State::Closing(Box::new(Closing { keys, deleting: false, patience: Some(now + PATIENCE) }))
    }

    pub(super) fn due(&self) -> Option<(Time, &'static str)> {
        self.patience.map(|patience| (patience, "end of a rekeyed IKE SA"))
    }

    pub(super) fn timeout(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
        if self.patience.is_some_and(|patience| patience <= now) {
            self.patience = None;
            if core.window.busy() {
                core.window.hurry(now, LEAVING_TIME);
            } else {
                self.delete(core, ctx, now, None)?;
            }
        }
        Ok(State::Closing(self))
    }

    /// DELETE without regard to the window, for there is no time to wait; the request under way goes first once more.
    pub(super) fn at_once(keys: IkeKeys, core: &mut Core, ctx: &mut Context, now: Time) {
        ctx.send(core.path, core.window.datagrams());
        // The SA ends here whether this can be sent or not.
        let _ = Closing { keys, deleting: false, patience: None }.delete(core, ctx, now, None);
    }

    pub(super) fn response(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        response: &Plain,
    ) -> Step {
        core.window.answered();
        log::debug!("{} answers while we close: {}", core.path, response.header.exchange);
        if self.deleting {
            return Err(End::Quiet);
        }
        if self.patience.is_some() {
            return Ok(State::Closing(self));
        }
        self.delete(core, ctx, now, None)?;
        Ok(State::Closing(self))
    }

    pub(super) fn request(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, request: &Plain) -> Step {
        if request.header.exchange != Exchange::INFORMATIONAL {
            // RFC 7296 §2.25.2: nothing is made on an SA that is being closed.
            core.respond_fault(ctx, &mut self.keys, &request.header, Fault::Busy)?;
            return Ok(State::Closing(self));
        }
        core.respond(ctx, &mut self.keys, &request.header, &[])?;
        let deleted = request.payloads().is_ok_and(|payloads| payloads.contains(&Payload::Delete(Delete::Ike)));
        if deleted {
            core.window.answered();
            return Ok(State::Gone(now + LINGER));
        }
        Ok(State::Closing(self))
    }

    fn delete(&mut self, core: &mut Core, ctx: &mut Context, now: Time, fault: Option<Fault>) -> Result<(), End> {
        self.deleting = true;
        let fault = fault.map(|fault| Payload::Notify(fault.notify()));
        let request: Vec<Payload> = fault.into_iter().chain([Payload::Delete(Delete::Ike)]).collect();
        core.request(ctx, now, &mut self.keys, Exchange::INFORMATIONAL, &request, LEAVING).map(|_| ())
    }
}

/// The life of a request that turned out to stand before the end.
const LEAVING_TIME: Duration = Duration::from_secs(8);
/// How long a peer has for deleting what it rekeyed.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
