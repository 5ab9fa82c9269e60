//! An established IKE SA: its Child SAs, what is due on it, and the requests we make.
//!
//! Without a Child SA one is asked for, with back-off: 1 to 5 s at first, then up to three quarters of a minute. Child SAs and the
//! IKE SA are rekeyed by time (RFC 7296 §2.8); a refused rekeying leaves what stands and is tried again, at least once a minute.

use std::time::Duration;

use super::child;
use super::closing::Closing;
use super::collide::{Doing, Target};
use super::context::Context;
use super::create::{Giving, Half, Making, Purpose, Spi, What};
use super::error::Fault;
use super::event::{ChildInfo, Event, Reason, Role};
use super::keymat::IkeKeys;
use super::rekey::NewIke;
use super::sa::{Core, End, State, Step};
use super::seal::Plain;
use super::window::{LATER, PROBE, jitter};
use super::{info, natd, payloads, trace};
use crate::child_sa::ChildSa;
use crate::config::plan::IkeSuite;
use crate::crypto::kex::Method;
use crate::time::Time;
use crate::wire::ike::{Delete, Exchange, NotifyType, Payload, Protocol};

pub(super) struct Established {
    pub(super) keys: IkeKeys,
    pub(super) suite: IkeSuite,
    pub(super) children: Vec<Child>,
    /// Our CREATE_CHILD_SA under way.
    pub(super) making: Option<Making>,
    /// The peer's, which more key exchanges have to follow.
    pub(super) giving: Option<Giving>,
    /// The peer has rekeyed this IKE SA while our own rekeying is under way.
    pub(super) held: Option<NewIke>,
    /// When a Child SA is asked for, for there is none.
    pub(super) ask: Option<Time>,
    pub(super) backoff: Duration,
    /// Whether it is asked for with a key exchange of its own; changes when the peer refuses the proposal.
    pub(super) exchange: Option<Method>,
    /// When the IKE SA is rekeyed, and how long to wait after a refusal.
    pub(super) rekey_at: Option<Time>,
    pub(super) rekey_wait: Duration,
    /// Inbound SPIs of Child SAs to be deleted, and those of the DELETE under way.
    pub(super) deletes: Vec<u32>,
    pub(super) deleting: Vec<u32>,
    /// Why there is no Child SA.
    pub(super) why: Option<Reason>,
}

pub(super) struct Child {
    pub(super) spi_in: u32,
    pub(super) spi_out: u32,
    pub(super) rekey_at: Option<Time>,
    pub(super) rekey_wait: Duration,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stands,
    /// The peer has rekeyed it and is to delete it; we do when its time is over.
    Replaced {
        by: u32,
        until: Time,
    },
    /// We delete it.
    Closing,
}

impl Established {
    pub(super) fn new(keys: IkeKeys, suite: IkeSuite, ctx: &mut Context, now: Time) -> Established {
        Established {
            keys,
            suite,
            children: Vec::new(),
            making: None,
            giving: None,
            held: None,
            ask: None,
            backoff: FIRST_BACKOFF,
            exchange: None,
            rekey_at: ctx.end_of_life(now, ctx.rekey.ike),
            rekey_wait: FIRST_REFUSED,
            deletes: Vec::new(),
            deleting: Vec::new(),
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
            Exchange::INFORMATIONAL => info::request(self, core, ctx, now, request, &payloads),
            Exchange::CREATE_CHILD_SA => match self.give(core, ctx, &payloads) {
                Ok((purpose, half, answer)) => self.agreed(core, ctx, now, request, purpose, half, answer),
                Err(fault) => self.fault(core, ctx, now, request, fault),
            },
            _ => match self.giving.as_mut().ok_or(Fault::NoState).and_then(|giving| giving.follow(ctx, &payloads)) {
                Ok(answer) => {
                    core.respond(ctx, &mut self.keys, &request.header, &answer)?;
                    match self.giving.take_if(|giving| giving.half.todo.is_empty()) {
                        Some(Giving { purpose, half, .. }) => self.given(core, ctx, now, purpose, half),
                        None => Ok(State::Established(self)),
                    }
                }
                Err(fault) => self.fault(core, ctx, now, request, fault),
            },
        }
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
        if let Err(reason) = core.addresses_answered(ctx, &payloads) {
            ctx.emit(Event::Closed { sa: core.id, peer: core.peer, reason });
            return Closing::start(self.keys, core, ctx, now, None);
        }
        let mut state = if self.making.is_some() {
            self.answered(core, ctx, now, &payloads)?
        } else {
            for spi_in in std::mem::take(&mut self.deleting) {
                self.child_gone(core, ctx, now, spi_in, Reason::ClosedByUs);
            }
            self
        };
        state.miss_child(core, ctx, now);
        state.advance(core, ctx, now)?;
        Ok(State::Established(state))
    }

    pub(super) fn timeout(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
        self.advance(core, ctx, now)?;
        Ok(State::Established(self))
    }

    pub(super) fn due(&self, core: &Core) -> Option<(Time, &'static str)> {
        let giving = self.giving.as_ref().map(|giving| (giving.deadline, "end of a half-done rekeying"));
        let replaced = self.children.iter().filter_map(|child| match child.fate {
            Fate::Replaced { until, .. } => Some((until, "end of a rekeyed Child SA")),
            Fate::Stands | Fate::Closing => None,
        });
        let at_any_time = giving.into_iter().chain(replaced).min();
        if core.window.busy() {
            return at_any_time;
        }
        let ask = self.ask.map(|at| (at, "next request for a Child SA"));
        let rekey = self.rekey_at.map(|at| (at, "rekeying of an IKE SA"));
        let standing = self.children.iter().filter(|child| child.fate == Fate::Stands);
        let child = standing.filter_map(|child| child.rekey_at).min().map(|at| (at, "rekeying of a Child SA"));
        [at_any_time, ask, rekey, child].into_iter().flatten().min()
    }

    pub(super) fn probe(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        if core.window.busy() {
            core.window.hurry(now, PROBE_TIME);
            return Ok(());
        }
        // RFC 4555 §3.8: what the peer answers shows whether a NAT has moved us.
        let nat = natd::notifies(core.spis, core.path.remote, &mut ctx.rng);
        let request = if core.mobike.on { nat.as_slice() } else { &[] };
        core.request(ctx, now, &mut self.keys, Exchange::INFORMATIONAL, request, PROBE).map(|_| ())
    }

    /// The Child SAs that stand are to be rekeyed now.
    pub(super) fn rekey_children(&mut self, now: Time) {
        for child in self.children.iter_mut().filter(|child| child.fate == Fate::Stands) {
            child.rekey_at = Some(now);
        }
    }

    /// Ends what has had its time, and makes the request that is due if none is under way.
    pub(super) fn advance(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        self.expire(core, ctx, now);
        if core.window.busy() {
            return Ok(());
        }
        if core.mobike.is_due() {
            return core.ask_addresses(ctx, now, &mut self.keys);
        }
        if !self.deletes.is_empty() {
            self.deleting = std::mem::take(&mut self.deletes);
            let delete = Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis: self.deleting.clone() });
            return core.request(ctx, now, &mut self.keys, Exchange::INFORMATIONAL, &[delete], LATER).map(|_| ());
        }
        if self.ask.is_some_and(|at| at <= now) {
            return self.ask(core, ctx, now);
        }
        while let Some(at) = self
            .children
            .iter()
            .position(|child| child.fate == Fate::Stands && child.rekey_at.is_some_and(|rekey_at| rekey_at <= now))
        {
            let Some(spi_in) = self.children.get(at).map(|child| child.spi_in) else { break };
            // The peer is about to do the same; or it has just made this one, and may not have heard that we agreed.
            let half_done = self.giving.as_ref().is_some_and(|giving| giving.purpose == Purpose::Child(spi_in));
            if !half_done && !self.replaces(spi_in) {
                return self.start(core, ctx, now, Purpose::Child(spi_in));
            }
            if let Some(child) = self.children.get_mut(at) {
                child.rekey_at = Some(now + jitter(POSTPONED, &mut ctx.rng));
            }
        }
        if self.rekey_at.is_some_and(|at| at <= now) {
            // RFC 7296 §2.25.2: the peer would have to refuse it.
            if self.giving.is_some() || self.children.iter().any(|child| child.fate != Fate::Stands) {
                self.rekey_at = Some(now + jitter(POSTPONED, &mut ctx.rng));
            } else {
                return self.start(core, ctx, now, Purpose::Ike);
            }
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        self.ask = None;
        self.start(core, ctx, now, Purpose::NewChild)
    }

    /// `standby`: it is not to be sent on before [`Event::ChildUse`].
    pub(super) fn child_up(&mut self, core: &Core, ctx: &mut Context, now: Time, child: ChildSa, standby: bool) {
        self.children.push(Child {
            spi_in: child.spi_in,
            spi_out: child.spi_out,
            rekey_at: ctx.end_of_life(now, ctx.rekey.child),
            rekey_wait: FIRST_REFUSED,
            fate: Fate::Stands,
        });
        self.ask = None;
        self.backoff = FIRST_BACKOFF;
        self.why = None;
        ctx.emit(Event::ChildUp { sa: core.id, child, standby });
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
                self.deletes.push(spi_in);
            }
        }
        if self.children.is_empty() {
            self.why = Some(reason.clone());
            self.ask_later(core, ctx, now);
            ctx.emit(Event::ChildDown { sa: core.id, spi_in: None, reason });
        }
    }

    /// The peer deleted the Child SA on which it receives by `spi_out`; ours of the pair is returned if it is to be named in the
    /// answer.
    pub(super) fn child_deleted(&mut self, core: &mut Core, ctx: &mut Context, now: Time, spi_out: u32) -> Option<u32> {
        let child = self.children.iter().find(|child| child.spi_out == spi_out)?;
        let (spi_in, fate) = (child.spi_in, child.fate);
        // RFC 7296 §2.25.1: both delete it, so each knows already.
        let crossing = self.deleting.contains(&spi_in);
        self.deletes.retain(|queued| *queued != spi_in);
        if let Fate::Replaced { by, .. } = fate
            && self.children.iter().any(|child| child.spi_in == by)
        {
            ctx.emit(Event::ChildUse { sa: core.id, spi_in: by });
        }
        self.child_gone(core, ctx, now, spi_in, Reason::ClosedByPeer);
        self.miss_child(core, ctx, now);
        (!crossing).then_some(spi_in)
    }

    /// RFC 7296 §1.5: what we send on `spi_out` finds nothing at the peer. Told inside the SA it is true, and our half goes as well;
    /// a Child SA that is being replaced goes anyway.
    pub(super) fn child_missing(&mut self, spi_out: u32) {
        let rekeyed = match self.making.as_ref().map(|making| making.purpose) {
            Some(Purpose::Child(spi_in)) => Some(spi_in),
            Some(Purpose::NewChild | Purpose::Ike) | None => None,
        };
        let standing = self.children.iter_mut().filter(|child| child.fate == Fate::Stands);
        for child in standing.filter(|child| child.spi_out == spi_out && Some(child.spi_in) != rekeyed) {
            child.fate = Fate::Closing;
            self.deletes.push(child.spi_in);
        }
    }

    pub(super) fn child_gone(&mut self, core: &mut Core, ctx: &mut Context, now: Time, spi_in: u32, reason: Reason) {
        core.release_spi(ctx, spi_in);
        // What was to take the place of another is gone, so the other one stays.
        for other in &mut self.children {
            if matches!(other.fate, Fate::Replaced { by, .. } if by == spi_in) {
                other.fate = Fate::Stands;
                other.rekey_at = Some(now + jitter(other.rekey_wait, &mut ctx.rng));
            }
        }
        if let Some(at) = self.children.iter().position(|child| child.spi_in == spi_in) {
            self.children.remove(at);
            if self.children.is_empty() {
                self.why = Some(reason.clone());
            }
            ctx.emit(Event::ChildDown { sa: core.id, spi_in: Some(spi_in), reason });
        }
    }

    /// Forgets a half-done exchange of the peer.
    pub(super) fn drop_giving(&mut self, core: &mut Core, ctx: &mut Context) {
        if let Some(Giving { half: Half { what: What::Child { spi_in, .. }, .. }, .. }) = self.giving.take() {
            core.release_spi(ctx, spi_in);
        }
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
        match &self.why {
            _ if !self.children.is_empty() => "established".to_owned(),
            Some(why) => format!("established, no data tunnel: {why}"),
            None => "established, no data tunnel".to_owned(),
        }
    }

    pub(super) fn infos(&self) -> impl Iterator<Item = ChildInfo> + '_ {
        self.children.iter().map(|child| ChildInfo {
            spi_in: child.spi_in,
            spi_out: child.spi_out,
            rekey_at: child.rekey_at,
            leaving: child.fate != Fate::Stands,
        })
    }

    pub(super) fn doing(&self) -> Doing {
        match &self.making {
            Some(making) => {
                let followed = making.half.is_some();
                match making.purpose {
                    Purpose::NewChild => Doing::Creating,
                    Purpose::Child(spi_in) => Doing::RekeyingChild { spi_in, followed },
                    Purpose::Ike => Doing::RekeyingIke { followed },
                }
            }
            None if self.deletes.is_empty() && self.deleting.is_empty() => Doing::Nothing,
            None => Doing::DeletingChild,
        }
    }

    pub(super) fn target(&self, spi_out: u32) -> Target {
        match self.children.iter().find(|child| child.spi_out == spi_out) {
            Some(Child { spi_in, fate: Fate::Stands, .. }) => Target::Standing { spi_in: *spi_in },
            Some(Child { fate: Fate::Replaced { .. } | Fate::Closing, .. }) => Target::Leaving,
            None => Target::Unknown,
        }
    }

    /// Whether it takes the place of one that the peer has not deleted yet.
    fn replaces(&self, spi_in: u32) -> bool {
        self.children.iter().any(|old| matches!(old.fate, Fate::Replaced { by, .. } if by == spi_in))
    }

    fn expire(&mut self, core: &mut Core, ctx: &mut Context, now: Time) {
        if self.giving.as_ref().is_some_and(|giving| giving.deadline <= now) {
            self.drop_giving(core, ctx);
        }
        let mut over = Vec::new();
        for child in &mut self.children {
            if let Fate::Replaced { by, until } = child.fate
                && until <= now
            {
                child.fate = Fate::Closing;
                over.push((child.spi_in, by));
            }
        }
        for (old, by) in over {
            if self.children.iter().any(|child| child.spi_in == by) {
                ctx.emit(Event::ChildUse { sa: core.id, spi_in: by });
            }
            self.deletes.push(old);
        }
    }

    /// Sees to it that a Child SA is asked for, if there is none.
    fn miss_child(&mut self, core: &Core, ctx: &mut Context, now: Time) {
        if self.children.is_empty() && self.making.is_none() && self.ask.is_none() {
            self.ask_later(core, ctx, now);
        }
    }

    fn ask_later(&mut self, core: &Core, ctx: &mut Context, now: Time) {
        // The responder waits longer at first: a childless initiator (RFC 6023) asks at once.
        let wait = match core.role {
            Role::Responder if self.backoff == FIRST_BACKOFF => RESPONDER_BACKOFF,
            Role::Initiator | Role::Responder => self.backoff,
        };
        self.ask = Some(now + jitter(wait, &mut ctx.rng));
        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
    }
}

/// Releases the inbound SPI that an exchange of ours had reserved.
pub(super) fn release(core: &mut Core, ctx: &mut Context, spi: Spi) {
    if let Spi::Child(spi_in) = spi {
        core.release_spi(ctx, spi_in);
    }
}

/// As responder of IKE_AUTH or CREATE_CHILD_SA, or as initiator: both have agreed, and all key exchanges are done.
pub(super) fn child_of(keys: &IkeKeys, role: Role, half: &Half) -> Option<ChildSa> {
    let What::Child { choice, spi_in } = &half.what else { return None };
    let nonces = (half.nonces.initiator.as_slice(), half.nonces.responder.as_slice());
    Some(child::derive(keys, role, choice, *spi_in, nonces, &half.shared))
}

/// The life of a request that turned out to be a probe.
const PROBE_TIME: Duration = Duration::from_secs(4);
const FIRST_BACKOFF: Duration = Duration::from_millis(1500);
const RESPONDER_BACKOFF: Duration = Duration::from_secs(4);
const LAST_BACKOFF: Duration = Duration::from_secs(45);
/// After a refused rekeying: doubles up to [`LAST_BACKOFF`].
pub(super) const FIRST_REFUSED: Duration = Duration::from_secs(5);
pub(super) const LAST_REFUSED: Duration = LAST_BACKOFF;
const POSTPONED: Duration = Duration::from_secs(2);
