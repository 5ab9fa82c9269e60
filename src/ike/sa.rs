//! One IKE SA: its state, which every step consumes, and what all states share.
//!
//! ```text
//! initiator  Sent ─► Exchanging (once per additional key exchange) ─► Authenticating ─► Established ─► Closing
//! responder  Responding (IKE_SA_INIT answered) ─────────────────────────────────────► Established ─► Gone
//! ```

use std::net::IpAddr;
use std::time::Duration;

use super::auth::Authenticating;
use super::closing::Closing;
use super::context::Context;
use super::error::Fault;
use super::established::Established;
use super::event::{Event, Reason, Role, SaId, SaInfo};
use super::fragment;
use super::handshake::Responding;
use super::init::Sent;
use super::intermediate::Exchanging;
use super::keymat::IkeKeys;
use super::mobike::Mobike;
use super::natd::Spis;
use super::seal::{Opener, Plain};
use super::trace;
use super::window::{Arrival, Due, Pace, Window};
use crate::path::{Path, PeerId};
use crate::time::Time;
use crate::wire::ike::{Body, Exchange, Header, Message, Payload, TooLong};

pub(super) struct Sa {
    pub(super) core: Core,
    pub(super) state: State,
}

/// What every state has.
pub(super) struct Core {
    pub(super) id: SaId,
    pub(super) role: Role,
    pub(super) spis: Spis,
    /// Where our requests go.
    pub(super) path: Path,
    /// Where the message being handled came from, and its answer goes.
    pub(super) from: Path,
    pub(super) peer: Option<PeerId>,
    pub(super) began: Time,
    /// When the present state began.
    pub(super) since: Time,
    pub(super) window: Window,
    /// The peer takes fragments (RFC 7383 §2.3).
    pub(super) fragmentation: bool,
    pub(super) behind_nat: bool,
    pub(super) mobike: Mobike,
    /// Inbound SPIs of Child SAs, reserved at the [`Context`].
    pub(super) child_spis: Vec<u32>,
    /// The source it counts for as half-open, as responder.
    pub(super) half_open: Option<IpAddr>,
    /// SHA-256 of the IKE_SA_INIT request that made it, as responder.
    pub(super) init_digest: Option<[u8; 32]>,
}

pub(super) enum State {
    Sent(Box<Sent>),
    Exchanging(Box<Exchanging>),
    Authenticating(Box<Authenticating>),
    Responding(Box<Responding>),
    Established(Box<Established>),
    Closing(Box<Closing>),
    /// Over, but the last response may be asked for again until then.
    Gone(Time),
}

/// The SA is over.
pub(super) enum End {
    /// With an event, if somebody knows of the SA.
    Closed(Reason),
    /// Without: we closed it ourselves, or nobody knows of it.
    Quiet,
}

pub(super) type Step = Result<State, End>;

impl Sa {
    /// Takes one step. What remains is given back; what ended has been told and released.
    pub(super) fn step(
        self,
        ctx: &mut Context,
        step: impl FnOnce(State, &mut Core, &mut Context) -> Step,
    ) -> Option<Sa> {
        let Sa { mut core, state } = self;
        let announced = !matches!(state, State::Responding(_) | State::Closing(_) | State::Gone(_));
        match step(state, &mut core, ctx) {
            Ok(state) => Some(Sa { core, state }),
            Err(end) => {
                if let End::Closed(reason) = end
                    && announced
                {
                    ctx.emit(Event::Closed { sa: core.id, peer: core.peer, reason });
                }
                core.release(ctx);
                None
            }
        }
    }

    /// An SK or SKF message with our SPI.
    pub(super) fn receive(
        mut self,
        ctx: &mut Context,
        now: Time,
        path: Path,
        message: &Message<'_>,
        octets: &[u8],
    ) -> Option<Sa> {
        let Some(plain) = self.open(ctx, path, message, octets) else { return Some(self) };
        self.core.from = path;
        if self.core.follows(ctx, path) {
            self.core.path = path;
        } else if ctx.from_inside && path.remote.ip() != self.core.path.remote.ip() {
            ctx.count("ike_underlay_in_mesh");
        }
        if matches!(self.state, State::Established(_)) {
            ctx.emit(Event::Heard { sa: self.core.id, path: self.core.path });
            if plain.header.response {
                self.core.take_detour(ctx);
            }
        }
        self.step(ctx, |state, core, ctx| match state {
            State::Exchanging(state) => state.response(core, ctx, now, &plain),
            State::Authenticating(state) => state.response(core, ctx, now, &plain),
            State::Responding(state) => state.request(core, ctx, now, &plain),
            State::Established(state) if plain.header.response => state.response(core, ctx, now, &plain),
            State::Established(state) => state.request(core, ctx, now, &plain),
            State::Closing(state) if plain.header.response => state.response(core, ctx, now, &plain),
            State::Closing(state) => state.request(core, ctx, now, &plain),
            state @ (State::Sent(_) | State::Gone(_)) => Ok(state),
        })
    }

    /// Verifies a message that is due, or answers one that is repeated. Until it has verified, nothing changes.
    fn open(&mut self, ctx: &mut Context, path: Path, message: &Message<'_>, octets: &[u8]) -> Option<Plain> {
        let Sa { core, state } = self;
        let header = &message.header;
        // Only the first fragment stands for its message (RFC 7383 §2.6.1).
        let (sealed, first) = match &message.body {
            Body::Sk(sealed) => (sealed, Some(octets)),
            Body::Skf(fragment) => (&fragment.sealed, (fragment.number == 1).then_some(octets)),
            Body::Clear(_) => return None,
        };
        if header.response {
            if !core.window.awaits(header.message_id, header.exchange) {
                ctx.count("ike_stale_response");
                return None;
            }
        } else {
            match core.window.arrival(header.message_id, first) {
                Arrival::Fresh => {}
                Arrival::Repeated => {
                    ctx.send(path, core.window.stored());
                    ctx.count("ike_repeated_request");
                    return None;
                }
                Arrival::Stale => {
                    ctx.count("ike_stale_request");
                    return None;
                }
            }
            if !state.serves(header.exchange) {
                ctx.count("ike_unexpected_exchange");
                return None;
            }
        }
        let opener = state.opener()?;
        let plain = match &message.body {
            Body::Skf(fragment) => {
                let reassembly = if header.response { &mut core.window.responses } else { &mut core.window.requests };
                match reassembly.add(opener, fragment) {
                    Ok(plain) => Ok(plain),
                    Err(fragment::Refused::Forged) => Err("ike_bad_icv"),
                    Err(fragment::Refused::TooMany) => Err("ike_too_many_fragments"),
                    Err(fragment::Refused::TooLarge) => Err("ike_fragments_too_large"),
                    Err(fragment::Refused::LowerTotal) => Err("ike_fragment_total_fell"),
                }
            }
            Body::Sk(_) | Body::Clear(_) => opener.open(sealed).map(Some).map_err(|_| "ike_bad_icv"),
        };
        match plain {
            Ok(plain) => {
                if let (Some(first), false) = (first, header.response) {
                    core.window.noted(first);
                }
                plain
            }
            Err(reason) => {
                ctx.count(reason);
                None
            }
        }
    }

    /// The answer to IKE_SA_INIT, which nothing protects.
    pub(super) fn receive_init(
        self,
        ctx: &mut Context,
        now: Time,
        path: Path,
        header: &Header,
        payloads: Vec<Payload>,
        octets: &[u8],
    ) -> Option<Sa> {
        self.step(ctx, |state, core, ctx| match state {
            State::Sent(state) => state.response(core, ctx, now, path, header, payloads, octets),
            state @ (State::Exchanging(_)
            | State::Authenticating(_)
            | State::Responding(_)
            | State::Established(_)
            | State::Closing(_)
            | State::Gone(_)) => {
                ctx.count("ike_stale_response");
                Ok(state)
            }
        })
    }

    pub(super) fn timeout(self, ctx: &mut Context, now: Time) -> Option<Sa> {
        self.step(ctx, |state, core, ctx| {
            match core.window.on_timer(now, &mut ctx.rng) {
                Due::Nothing => {}
                Due::Resend => {
                    ctx.send(core.path, core.window.datagrams());
                    for detour in core.detours() {
                        ctx.send(detour, core.window.datagrams());
                    }
                }
                Due::Exhausted { exchange, tries } => {
                    return Err(End::Closed(Reason::NoAnswer { exchange: trace::exchange(exchange), tries }));
                }
            }
            match state {
                State::Sent(state) => state.timeout(now),
                State::Responding(state) => state.timeout(core, ctx, now),
                State::Established(state) => state.timeout(core, ctx, now),
                State::Gone(until) if until <= now => Err(End::Quiet),
                State::Closing(state) => state.timeout(core, ctx, now),
                other @ (State::Exchanging(_) | State::Authenticating(_) | State::Gone(_)) => Ok(other),
            }
        })
    }

    pub(super) fn due(&self) -> Option<(Time, &'static str)> {
        let state = match &self.state {
            State::Sent(state) => state.due(),
            State::Responding(state) => Some((state.deadline, "half-open IKE SA")),
            State::Established(state) => state.due(&self.core),
            State::Gone(until) => Some((*until, "last IKE response")),
            State::Closing(state) => state.due(),
            State::Exchanging(_) | State::Authenticating(_) => None,
        };
        let window = self.core.window.due().map(|due| (due, "IKE retransmission"));
        state.into_iter().chain(window).min()
    }

    pub(super) fn our_spi(&self) -> u64 {
        match self.core.role {
            Role::Initiator => self.core.spis.initiator,
            Role::Responder => self.core.spis.responder,
        }
    }

    /// The answer that is missing, for an SA of ours that does not stand yet.
    pub(super) fn waiting_for(&self) -> Option<Reason> {
        let (exchange, tries) = self.core.window.under_way()?;
        Some(Reason::NoAnswer { exchange: trace::exchange(exchange), tries })
    }

    /// `None` for what stands only for its last message.
    pub(super) fn info(&self) -> Option<SaInfo> {
        let core = &self.core;
        let state = match &self.state {
            State::Gone(_) | State::Closing(_) => return None,
            State::Responding(state) => state.words(),
            State::Established(state) => state.words(),
            State::Sent(_) | State::Exchanging(_) | State::Authenticating(_) => {
                let (exchange, tries) = core.window.under_way().unwrap_or((Exchange::IKE_SA_INIT, 0));
                format!("waiting for the answer to {exchange}, {tries} tries")
            }
        };
        Some(SaInfo {
            sa: core.id,
            peer: core.peer,
            role: core.role,
            spi_initiator: core.spis.initiator,
            spi_responder: core.spis.responder,
            path: core.path,
            state,
            established: matches!(self.state, State::Established(_)),
            since: core.since,
            suite: match &self.state {
                State::Exchanging(state) => Some(state.handshake.suite.to_string()),
                State::Authenticating(state) => Some(state.handshake.suite.to_string()),
                State::Responding(state) => Some(state.handshake.suite.to_string()),
                State::Established(state) => Some(state.suite.to_string()),
                State::Sent(_) | State::Closing(_) | State::Gone(_) => None,
            },
            rekey_at: if let State::Established(state) = &self.state { state.rekey_at } else { None },
            children: if let State::Established(state) = &self.state { state.infos().collect() } else { Vec::new() },
        })
    }
}

impl State {
    /// For what the peer sends at present.
    fn opener(&self) -> Option<&Opener> {
        match self {
            State::Exchanging(state) => Some(&state.handshake.keys.opener),
            State::Authenticating(state) => Some(&state.handshake.keys.opener),
            State::Responding(state) => Some(&state.handshake.keys.opener),
            State::Established(state) => Some(&state.keys.opener),
            State::Closing(state) => Some(&state.keys.opener),
            State::Sent(_) | State::Gone(_) => None,
        }
    }

    /// Whether a request of this exchange may come now. Others are dropped unseen: they have no answer that would help.
    fn serves(&self, exchange: Exchange) -> bool {
        match self {
            State::Responding(_) => [Exchange::IKE_INTERMEDIATE, Exchange::IKE_AUTH].contains(&exchange),
            State::Established(_) | State::Closing(_) => {
                [Exchange::CREATE_CHILD_SA, Exchange::INFORMATIONAL, Exchange::IKE_FOLLOWUP_KE].contains(&exchange)
            }
            State::Sent(_) | State::Exchanging(_) | State::Authenticating(_) | State::Gone(_) => false,
        }
    }
}

impl Core {
    pub(super) fn peer_name<'a>(&self, ctx: &'a Context) -> &'a str {
        self.peer.and_then(|peer| ctx.peers.get(&peer)).map_or("peer", |peer| peer.name.as_str())
    }

    /// Sends a request and waits for its response.
    pub(super) fn request(
        &mut self,
        ctx: &mut Context,
        now: Time,
        keys: &mut IkeKeys,
        exchange: Exchange,
        payloads: &[Payload],
        pace: Pace,
    ) -> Result<Plain, End> {
        let id = self.window.next_id().ok_or_else(|| {
            End::Closed(Reason::Incompatible("message IDs of the session are used up: a new one is due".to_owned()))
        })?;
        let plain = self.plain(exchange, false, id, payloads)?;
        let datagrams = self.seal(ctx, keys, &plain, self.path)?;
        trace::message(ctx, self, true, &plain.header, payloads);
        let datagrams = self.window.start(now, exchange, datagrams, pace, &mut ctx.rng);
        ctx.send(self.path, datagrams);
        Ok(plain)
    }

    /// Answers a request that has just verified.
    pub(super) fn respond(
        &mut self,
        ctx: &mut Context,
        keys: &mut IkeKeys,
        request: &Header,
        payloads: &[Payload],
    ) -> Result<Plain, End> {
        let plain = self.plain(request.exchange, true, request.message_id, payloads)?;
        let datagrams = self.seal(ctx, keys, &plain, self.from)?;
        trace::message(ctx, self, true, &plain.header, payloads);
        ctx.send(self.from, self.window.respond(datagrams));
        Ok(plain)
    }

    /// Answers with the fault's notify alone.
    pub(super) fn respond_fault(
        &mut self,
        ctx: &mut Context,
        keys: &mut IkeKeys,
        request: &Header,
        fault: Fault,
    ) -> Result<(), End> {
        self.respond(ctx, keys, request, &[Payload::Notify(fault.notify())]).map(|_| ())
    }

    fn plain(&self, exchange: Exchange, response: bool, message_id: u32, payloads: &[Payload]) -> Result<Plain, End> {
        let header = Header {
            spi_initiator: self.spis.initiator,
            spi_responder: self.spis.responder,
            exchange,
            from_initiator: self.role == Role::Initiator,
            response,
            message_id,
        };
        Plain::new(header, payloads).map_err(too_long)
    }

    fn seal(&self, ctx: &Context, keys: &mut IkeKeys, plain: &Plain, path: Path) -> Result<Vec<Vec<u8>>, End> {
        if self.fragmentation {
            let room = fragment::room(ctx.limits.fragment_size, path.remote.ip());
            fragment::split(&mut keys.sealer, plain, room).map_err(too_long)
        } else {
            keys.sealer.seal(plain).map(|datagram| vec![datagram]).map_err(too_long)
        }
    }

    /// Forgets an inbound SPI.
    pub(super) fn release_spi(&mut self, ctx: &mut Context, spi: u32) {
        self.child_spis.retain(|&reserved| reserved != spi);
        ctx.release(spi);
    }

    pub(super) fn reserve_spi(&mut self, ctx: &mut Context) -> u32 {
        let spi = ctx.reserve_spi();
        self.child_spis.push(spi);
        spi
    }

    /// No longer half-open.
    pub(super) fn leave_half_open(&mut self, ctx: &mut Context) {
        if let Some(source) = self.half_open.take() {
            ctx.half_open.leave(source);
        }
    }

    /// The SA has ended by a request of the peer; our answer stays a while, should it be lost.
    pub(super) fn over(&mut self, ctx: &mut Context, now: Time, reason: Reason) -> State {
        ctx.emit(Event::Closed { sa: self.id, peer: self.peer, reason });
        self.window.answered();
        self.release(ctx);
        State::Gone(now + LINGER)
    }

    fn release(&mut self, ctx: &mut Context) {
        self.leave_half_open(ctx);
        for spi in self.child_spis.drain(..) {
            ctx.release(spi);
        }
    }
}

/// Configured names and suites can make a message too long, a peer cannot.
pub(super) fn too_long(_: TooLong) -> End {
    End::Closed(Reason::Incompatible("our own message would be too long: fewer suites, please".to_owned()))
}

/// How long the last response of an SA can be asked for again.
pub(super) const LINGER: Duration = Duration::from_secs(10);
