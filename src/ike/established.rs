//! An established IKE SA: its Child SAs, the requests we make on it, and the end of it.
//!
//! Without a Child SA one is asked for, with back-off: 1 to 5 s at first, then up to three quarters of a minute. The original
//! initiator asks earlier, and if both ask at once its request wins, so that one Child SA comes of it.

use std::time::Duration;

use super::child::{self, Verdict};
use super::context::Context;
use super::error::Fault;
use super::event::{Event, Reason, Role};
use super::keymat::IkeKeys;
use super::sa::{Core, End, LINGER, State, Step};
use super::seal::Plain;
use super::window::{LATER, PROBE, jitter};
use super::{info, payloads, propose, trace};
use crate::child_sa::ChildSa;
use crate::crypto::kex::{self, Method};
use crate::crypto::secret::Secret;
use crate::time::Time;
use crate::wire::ike::{Delete, Exchange, Ke, NotifyType, Payload, Protocol};

pub(super) struct Established {
    pub(super) keys: IkeKeys,
    pub(super) children: Vec<Installed>,
    ask: Ask,
    backoff: Duration,
    /// Whether the next Child SA is asked for with a key exchange of its own; changes when the peer refuses the proposal.
    exchange: Option<Method>,
    /// Inbound SPIs of Child SAs that the peer believes in and that came to nothing.
    broken: Vec<u32>,
    /// Why there is no Child SA.
    why: Option<Reason>,
}

pub(super) struct Installed {
    pub(super) spi_in: u32,
    pub(super) spi_out: u32,
}

enum Ask {
    No,
    At(Time),
    UnderWay { spi_in: u32, nonce: Vec<u8>, exchange: Option<kex::Initiator> },
}

impl Established {
    pub(super) fn new(keys: IkeKeys) -> Established {
        Established {
            keys,
            children: Vec::new(),
            ask: Ask::No,
            backoff: FIRST_BACKOFF,
            exchange: None,
            broken: Vec::new(),
            why: None,
        }
    }

    pub(super) fn request(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, request: &Plain) -> Step {
        let payloads = match request.payloads() {
            Ok(payloads) => payloads,
            Err(error) => return self.fault(core, ctx, now, request, error.into()),
        };
        trace::message(ctx, core, false, &request.header, &payloads);
        match request.header.exchange {
            Exchange::INFORMATIONAL => return info::request(self, core, ctx, now, request, &payloads),
            Exchange::CREATE_CHILD_SA => match self.give(core, ctx, &payloads) {
                Ok(given) => {
                    core.respond(ctx, &mut self.keys, &request.header, &given.answer)?;
                    self.child_up(core, ctx, given.child);
                }
                Err(fault) => return self.fault(core, ctx, now, request, fault),
            },
            _ => return self.fault(core, ctx, now, request, Fault::NoState),
        }
        Ok(State::Established(self))
    }

    pub(super) fn response(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        response: &Plain,
    ) -> Step {
        core.window.answered();
        let exchange = response.header.exchange;
        let payloads = response
            .payloads()
            .map_err(|error| End::Closed(Reason::PeerMisbehaved(format!("{exchange} of the peer: {error}"))))?;
        trace::message(ctx, core, false, &response.header, &payloads);
        // RFC 7296 §2.21.3: the peer has closed the IKE SA.
        if payloads::notify(&payloads, NotifyType::INVALID_SYNTAX).is_some() {
            return Err(End::Closed(Reason::PeerMisbehaved(
                "peer calls our message invalid and closed the session".to_owned(),
            )));
        }
        if exchange == Exchange::CREATE_CHILD_SA {
            self.answered(core, ctx, now, &payloads);
        }
        self.advance(core, ctx, now)?;
        Ok(State::Established(self))
    }

    pub(super) fn timeout(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
        self.advance(core, ctx, now)?;
        Ok(State::Established(self))
    }

    pub(super) fn due(&self, core: &Core) -> Option<(Time, &'static str)> {
        match self.ask {
            Ask::At(time) if !core.window.busy() => Some((time, "next request for a Child SA")),
            Ask::No | Ask::At(_) | Ask::UnderWay { .. } => None,
        }
    }

    pub(super) fn probe(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        if core.window.busy() {
            core.window.hurry(now, PROBE_TIME);
            return Ok(());
        }
        core.request(ctx, now, &mut self.keys, Exchange::INFORMATIONAL, &[], PROBE).map(|_| ())
    }

    /// Makes the request that is due, if none is under way.
    pub(super) fn advance(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        if core.window.busy() {
            return Ok(());
        }
        if !self.broken.is_empty() {
            let spis = std::mem::take(&mut self.broken);
            let delete = Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis });
            core.request(ctx, now, &mut self.keys, Exchange::INFORMATIONAL, &[delete], LATER)?;
        } else if matches!(self.ask, Ask::At(time) if time <= now) {
            self.ask(core, ctx, now)?;
        }
        Ok(())
    }

    pub(super) fn child_up(&mut self, core: &Core, ctx: &mut Context, child: ChildSa) {
        self.children.push(Installed { spi_in: child.spi_in, spi_out: child.spi_out });
        if matches!(self.ask, Ask::At(_)) {
            self.ask = Ask::No;
        }
        self.backoff = FIRST_BACKOFF;
        self.why = None;
        ctx.emit(Event::ChildUp { sa: core.id, child });
    }

    /// What we asked for under `spi_in` was not given. `broken`: the peer believes that it was.
    pub(super) fn child_refused(
        &mut self,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        spi_in: Option<u32>,
        reason: Reason,
        broken: bool,
    ) {
        if let Some(spi_in) = spi_in {
            core.release_spi(ctx, spi_in);
            if broken {
                self.broken.push(spi_in);
            }
        }
        if self.children.is_empty() {
            self.why = Some(reason.clone());
            self.ask_later(core, ctx, now);
            ctx.emit(Event::ChildDown { sa: core.id, spi_in: None, reason });
        }
    }

    /// The peer deleted the Child SA on which it receives by `spi_out`; ours of the pair is returned.
    pub(super) fn child_deleted(&mut self, core: &mut Core, ctx: &mut Context, now: Time, spi_out: u32) -> Option<u32> {
        let at = self.children.iter().position(|child| child.spi_out == spi_out)?;
        let Installed { spi_in, .. } = self.children.remove(at);
        core.release_spi(ctx, spi_in);
        ctx.emit(Event::ChildDown { sa: core.id, spi_in: Some(spi_in), reason: Reason::ClosedByPeer });
        if self.children.is_empty() && matches!(self.ask, Ask::No) {
            self.why = Some(Reason::ClosedByPeer);
            self.ask_later(core, ctx, now);
        }
        Some(spi_in)
    }

    /// Answers with the fault; some end the SA (RFC 7296 §2.21.3).
    fn fault(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        request: &Plain,
        fault: Fault,
    ) -> Step {
        core.respond_fault(ctx, &mut self.keys, &request.header, fault)?;
        if let Fault::Syntax(what) = fault {
            let reason = Reason::PeerMisbehaved(format!("invalid {}: {what}", request.header.exchange));
            return Ok(core.over(ctx, now, reason));
        }
        Ok(State::Established(self))
    }

    pub(super) fn words(&self) -> String {
        match (&self.why, &self.ask) {
            _ if !self.children.is_empty() => "established".to_owned(),
            (Some(why), _) => format!("established, no data tunnel: {why}"),
            (None, _) => "established, no data tunnel".to_owned(),
        }
    }

    /// CREATE_CHILD_SA of the peer. A new Child SA is given; rekeying is not done yet, and refused so that the peer keeps what it
    /// has: TEMPORARY_FAILURE for a Child SA makes strongSwan try again later; NO_ADDITIONAL_SAS for the IKE SA makes it
    /// reauthenticate, make-before-break, by a new IKE_SA_INIT.
    fn give(&mut self, core: &mut Core, ctx: &mut Context, payloads: &[Payload]) -> Result<child::Given, Fault> {
        if payloads::sa(payloads).is_some_and(|offered| offered.iter().any(|one| one.protocol == Protocol::IKE)) {
            return Err(Fault::NoAdditional);
        }
        if payloads::notify(payloads, NotifyType::REKEY_SA).is_some() {
            return Err(Fault::Busy);
        }
        if self.children.len() >= MAX_CHILDREN {
            return Err(Fault::NoAdditional);
        }
        if core.role == Role::Initiator && matches!(self.ask, Ask::UnderWay { .. }) {
            return Err(Fault::Busy);
        }
        child::give(core, ctx, &self.keys, None, payloads)
    }

    pub(super) fn ask(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        let spi_in = core.reserve_spi(ctx);
        let nonce = ctx.rng.array::<32>().to_vec();
        let exchange = self.exchange.map(|method| kex::Initiator::generate(method, &mut ctx.rng));
        let [sa, ts_initiator, ts_responder] = child::offer(&ctx.esp, spi_in, self.exchange);
        let mut request = vec![sa, Payload::Nonce(nonce.clone())];
        request.extend(exchange.as_ref().map(|exchange| {
            Payload::Ke(Ke { method: propose::method_id(exchange.method()), data: exchange.public().to_vec() })
        }));
        request.extend([ts_initiator, ts_responder]);
        self.ask = Ask::UnderWay { spi_in, nonce, exchange };
        core.request(ctx, now, &mut self.keys, Exchange::CREATE_CHILD_SA, &request, LATER).map(|_| ())
    }

    /// The response to [`ask`](Self::ask).
    fn answered(&mut self, core: &mut Core, ctx: &mut Context, now: Time, payloads: &[Payload]) {
        let Ask::UnderWay { spi_in, nonce, exchange } = std::mem::replace(&mut self.ask, Ask::No) else { return };
        let verdict = child::verdict(&ctx.esp, self.exchange, payloads);
        if let Some(error) = payloads::error(payloads)
            && [NotifyType::NO_PROPOSAL_CHOSEN, NotifyType::INVALID_KE_PAYLOAD].contains(&error.kind)
        {
            // The peer wants a key exchange for its Child SAs, or it wants none.
            self.exchange = if self.exchange.is_none() { Some(Method::X25519) } else { None };
        }
        let choice = match verdict {
            Verdict::Given(choice) => choice,
            Verdict::Refused(reason) => return self.child_refused(core, ctx, now, Some(spi_in), reason, false),
            Verdict::Broken(reason) => return self.child_refused(core, ctx, now, Some(spi_in), reason, true),
        };
        let broken = |what| Reason::PeerMisbehaved(format!("CREATE_CHILD_SA of the peer: {what}"));
        let Some(nonce_responder) = payloads::nonce(payloads) else {
            return self.child_refused(core, ctx, now, Some(spi_in), broken("no nonce in it"), true);
        };
        let mut shared: Vec<Secret> = Vec::new();
        if let Some(exchange) = exchange {
            let method = propose::method_id(exchange.method());
            let secret =
                payloads::ke(payloads).filter(|ke| ke.method == method).and_then(|ke| exchange.finish(&ke.data).ok());
            let Some(secret) = secret else {
                return self.child_refused(core, ctx, now, Some(spi_in), broken("no good key exchange in it"), true);
            };
            shared.push(secret);
        }
        let child = child::derive(&self.keys, Role::Initiator, &choice, spi_in, (&nonce, nonce_responder), &shared);
        self.child_up(core, ctx, child);
    }

    fn ask_later(&mut self, core: &Core, ctx: &mut Context, now: Time) {
        // The responder waits longer at first: a childless initiator (RFC 6023) asks at once.
        let wait = match core.role {
            Role::Responder if self.backoff == FIRST_BACKOFF => RESPONDER_BACKOFF,
            Role::Initiator | Role::Responder => self.backoff,
        };
        self.ask = Ask::At(now + jitter(wait, &mut ctx.rng));
        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
    }
}

/// We close the SA, and wait for the peer to know it. Nobody outside sees it any more.
pub(super) struct Closing {
    pub(super) keys: IkeKeys,
    deleting: bool,
}

impl Closing {
    /// Sends DELETE as soon as the window allows, after `fault` if there is one.
    pub(super) fn start(keys: IkeKeys, core: &mut Core, ctx: &mut Context, now: Time, fault: Option<Fault>) -> Step {
        let mut closing = Box::new(Closing { keys, deleting: false });
        if core.window.busy() {
            core.window.hurry(now, PROBE_TIME);
        } else {
            closing.delete(core, ctx, now, fault)?;
        }
        Ok(State::Closing(closing))
    }

    /// DELETE without regard to the window, for there is no time to wait; the request under way goes first once more.
    pub(super) fn at_once(keys: IkeKeys, core: &mut Core, ctx: &mut Context, now: Time) {
        ctx.send(core.path, core.window.datagrams());
        // The SA ends here whether this can be sent or not.
        let _ = Closing { keys, deleting: false }.delete(core, ctx, now, None);
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
        core.request(ctx, now, &mut self.keys, Exchange::INFORMATIONAL, &request, PROBE).map(|_| ())
    }
}

const MAX_CHILDREN: usize = 4;
const FIRST_BACKOFF: Duration = Duration::from_millis(1500);
const RESPONDER_BACKOFF: Duration = Duration::from_secs(4);
const LAST_BACKOFF: Duration = Duration::from_secs(45);
/// The life of a request that turned out to be a probe.
const PROBE_TIME: Duration = Duration::from_secs(8);
