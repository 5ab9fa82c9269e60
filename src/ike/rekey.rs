//! CREATE_CHILD_SA in both roles: new Child SAs, and Child SAs and IKE SAs that take the place of old ones (RFC 7296 §1.3, §2.8).
//!
//! Make before break. Whoever asked for the new SA sends on it at once and deletes the old one; the other side goes on sending on
//! the old one until that DELETE, so that no lost answer costs a packet. A session keeps its [`super::event::SaId`] when its IKE SA
//! is rekeyed: the old IKE SA gets another one for its last messages.

use std::collections::VecDeque;

use super::child::{self, Verdict};
use super::closing::{Closing, PATIENCE};
use super::collide::{self, Ruling};
use super::context::Context;
use super::create::{self, Giving, Half, Making, Nonces, Purpose, Spi, What};
use super::error::{Fault, rekey_refusal};
use super::established::{Established, Fate, LAST_REFUSED, child_of, release};
use super::event::{Event, Reason, Role};
use super::keymat::{IkeKeys, Seed, Suite};
use super::natd::Spis;
use super::sa::{Core, End, LINGER, Sa, State, Step};
use super::seal::Plain;
use super::window::{LATER, Window, jitter};
use super::{payloads, propose};
use crate::child_sa::ChildSa;
use crate::config::plan::{IkeSuite, Suites};
use crate::crypto::kex::{self, Method};
use crate::time::Time;
use crate::wire::ike::{Exchange, Notify, NotifyType, Payload, Protocol};

/// An IKE SA that takes the place of another.
pub(super) struct NewIke {
    keys: IkeKeys,
    suite: IkeSuite,
    spis: Spis,
    role: Role,
}

/// What becomes of the old IKE SA.
pub(super) enum Old {
    WeDelete,
    PeerDeletes,
    /// The peer has deleted it.
    Gone,
}

/// What an answer to us comes to.
enum Answer {
    Refused(Option<NotifyType>, Reason),
    /// The peer believes that it agreed, but nothing can be made of it.
    Broken(Reason),
    Agreed(Box<Half>),
}

impl Established {
    /// Makes the request.
    pub(super) fn start(&mut self, core: &mut Core, ctx: &mut Context, now: Time, purpose: Purpose) -> Result<(), End> {
        let nonce = ctx.rng.array::<32>().to_vec();
        let methods = self.methods(purpose);
        let exchange = methods.first().map(|&method| kex::Initiator::generate(method, &mut ctx.rng));
        let middle = || [Payload::Nonce(nonce.clone())].into_iter().chain(exchange.as_ref().map(create::ke));
        let (spi, request) = match purpose {
            Purpose::Ike => {
                let spi = ctx.new_ike_spi();
                self.rekey_at = None;
                let sa = Payload::Sa(propose::offer_rekey(&self.suite, spi));
                (Spi::Ike(spi), [sa].into_iter().chain(middle()).collect::<Vec<_>>())
            }
            Purpose::NewChild | Purpose::Child(_) => {
                let spi_in = core.reserve_spi(ctx);
                let [sa, initiator, responder] =
                    child::offer(&ctx.suites(core.peer).esp, spi_in, &methods, purpose != Purpose::NewChild);
                let rekey =
                    self.children.iter_mut().find(|child| purpose == Purpose::Child(child.spi_in)).map(|child| {
                        child.rekey_at = None;
                        let spi = child.spi_in.to_be_bytes().to_vec();
                        let kind = NotifyType::REKEY_SA;
                        Payload::Notify(Notify { protocol: Protocol::ESP, spi, kind, data: Vec::new() })
                    });
                let request = rekey.into_iter().chain([sa]).chain(middle()).chain([initiator, responder]);
                (Spi::Child(spi_in), request.collect())
            }
        };
        self.making = Some(Making { purpose, spi, nonce, exchange, half: None, crossed: None });
        core.request(ctx, now, &mut self.keys, Exchange::CREATE_CHILD_SA, &request, LATER).map(|_| ())
    }

    /// The response to our CREATE_CHILD_SA or IKE_FOLLOWUP_KE.
    pub(super) fn answered(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        payloads: &[Payload],
    ) -> Result<Box<Established>, End> {
        let Some(mut making) = self.making.take() else { return Ok(self) };
        let answer = match making.half.take() {
            None => self.first_answer(ctx.suites(core.peer), &mut making, payloads),
            Some(half) => next_answer(&mut making, half, payloads),
        };
        let mut half = match answer {
            Answer::Agreed(half) => *half,
            Answer::Refused(kind, reason) => return self.refused(core, ctx, now, &making, kind, reason),
            Answer::Broken(reason) => return self.broken(core, ctx, now, &making, reason),
        };
        let loses =
            making.crossed.as_ref().is_some_and(|theirs| collide::ours_loses(half.nonces.both(), theirs.both()));
        if let Some(method) = half.todo.pop_front() {
            if loses {
                // RFC 9370 §2.2.4: nothing has been made yet, so there is nothing to take back.
                release(core, ctx, making.spi);
                self.try_again_later(ctx, now, making.purpose);
                return Ok(self);
            }
            let Some(link) = payloads::notify(payloads, NotifyType::ADDITIONAL_KEY_EXCHANGE) else {
                let reason = Reason::PeerMisbehaved("rekeying: peer does not go on with the key exchanges".to_owned());
                return self.broken(core, ctx, now, &making, reason);
            };
            let exchange = kex::Initiator::generate(method, &mut ctx.rng);
            let request = [create::ke(&exchange), create::link(&link.data)];
            making.exchange = Some(exchange);
            making.half = Some(half);
            self.making = Some(making);
            core.request(ctx, now, &mut self.keys, Exchange::IKE_FOLLOWUP_KE, &request, LATER)?;
            return Ok(self);
        }
        if let Some(child) = child_of(&self.keys, Role::Initiator, &half) {
            self.child_made(core, ctx, now, making.purpose, child, loses);
            return Ok(self);
        }
        let Some(new) = new_ike(&self.keys, Role::Initiator, half) else { return Ok(self) };
        if loses {
            // RFC 7296 §2.8.2: we take back what we made; the peer's is, or will be, what stays.
            end_new(core, ctx, now, new, &Old::WeDelete);
            return match self.held.take() {
                Some(held) => Ok(self.switch(core, ctx, now, held, &Old::PeerDeletes)),
                None => {
                    self.try_again_later(ctx, now, Purpose::Ike);
                    Ok(self)
                }
            };
        }
        let redundant = self.held.take();
        let state = self.switch(core, ctx, now, new, &Old::WeDelete);
        if let Some(redundant) = redundant {
            end_new(core, ctx, now, redundant, &Old::PeerDeletes);
        }
        Ok(state)
    }

    /// Agrees to a CREATE_CHILD_SA of the peer.
    pub(super) fn give(
        &mut self,
        core: &mut Core,
        ctx: &mut Context,
        payloads: &[Payload],
    ) -> Result<(Purpose, Half, Vec<Payload>), Fault> {
        let doing = self.doing();
        let rekeys_ike =
            |offered: &[_]| offered.iter().any(|one: &crate::wire::ike::Proposal| one.protocol == Protocol::IKE);
        let (purpose, ruling) = if payloads::sa(payloads).is_some_and(rekeys_ike) {
            (Purpose::Ike, collide::on_rekey_ike(doing))
        } else if let Some(rekeyed) = payloads::notify(payloads, NotifyType::REKEY_SA) {
            let spi = rekeyed.spi.as_slice().try_into().map_err(|_| Fault::Syntax("SPI of REKEY_SA"))?;
            let spi_out = u32::from_be_bytes(spi);
            let target = self.target(spi_out);
            let collide::Target::Standing { spi_in } = target else {
                let unknown = collide::on_rekey_child(doing, target) == Ruling::NotFound;
                return Err(if unknown { Fault::NoChild(spi_out) } else { Fault::Busy });
            };
            (Purpose::Child(spi_in), collide::on_rekey_child(doing, target))
        } else {
            (Purpose::NewChild, collide::on_create(doing, core.role))
        };
        if [Ruling::Busy, Ruling::NotFound].contains(&ruling) {
            return Err(Fault::Busy);
        }
        let (half, answer) = if purpose == Purpose::Ike {
            self.give_ike(core, ctx, payloads)?
        } else if self.children.len() >= ctx.limits.children {
            return Err(Fault::NoAdditional);
        } else {
            child::give(core, ctx, None, payloads)?
        };
        if ruling == Ruling::Cross
            && let Some(making) = &mut self.making
        {
            let nonces = &half.nonces;
            let (initiator, responder) = (nonces.initiator.clone(), nonces.responder.clone());
            making.crossed = Some(Nonces { initiator, responder });
        }
        Ok((purpose, half, answer))
    }

    /// Answers, and waits for more key exchanges if there are any.
    #[expect(clippy::too_many_arguments, reason = "the parts of one answer")]
    pub(super) fn agreed(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        request: &Plain,
        purpose: Purpose,
        half: Half,
        mut answer: Vec<Payload>,
    ) -> Step {
        // A peer that begins anew has given up what it had begun.
        self.drop_giving(core, ctx);
        if half.todo.is_empty() {
            core.respond(ctx, &mut self.keys, &request.header, &answer)?;
            return self.given(core, ctx, now, purpose, half);
        }
        let link = create::new_link(ctx);
        answer.push(create::link(&link));
        self.giving = Some(Giving { purpose, half, link, deadline: now + HALF_DONE });
        core.respond(ctx, &mut self.keys, &request.header, &answer)?;
        Ok(State::Established(self))
    }

    /// All that the peer's new SA needs has come.
    pub(super) fn given(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        purpose: Purpose,
        half: Half,
    ) -> Step {
        if let Some(child) = child_of(&self.keys, Role::Responder, &half) {
            let by = child.spi_in;
            let old = self.children.iter_mut().find(|old| purpose == Purpose::Child(old.spi_in));
            let standby = old.is_some();
            if let Some(old) = old.filter(|old| old.fate == Fate::Stands) {
                old.fate = Fate::Replaced { by, until: now + PATIENCE };
            }
            self.child_up(core, ctx, now, child, standby);
            return Ok(State::Established(self));
        }
        let Some(new) = new_ike(&self.keys, Role::Responder, half) else { return Ok(State::Established(self)) };
        if self.making.is_some() {
            self.held = Some(new);
            return Ok(State::Established(self));
        }
        Ok(State::Established(self.switch(core, ctx, now, new, &Old::PeerDeletes)))
    }

    /// The session goes on under the new IKE SA, with its Child SAs (RFC 7296 §2.8).
    pub(super) fn switch(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        new: NewIke,
        old: &Old,
    ) -> Box<Established> {
        self.drop_giving(core, ctx);
        if let Some(making) = self.making.take() {
            release(core, ctx, making.spi);
        }
        let mut next = successor(core, now, &new);
        next.child_spis = std::mem::take(&mut core.child_spis);
        let mut state = Established::new(new.keys, new.suite, ctx, now);
        state.children = self.children;
        state.ask = self.ask;
        state.backoff = self.backoff;
        state.exchange = self.exchange;
        state.why = self.why;
        state.deletes = self.deletes;
        state.deletes.append(&mut self.deleting);
        bear(std::mem::replace(core, next), ctx, now, self.keys, old);
        ctx.emit(Event::Rekeyed { sa: core.id, suite: state.suite.to_string() });
        Box::new(state)
    }

    fn methods(&self, purpose: Purpose) -> Vec<Method> {
        match purpose {
            Purpose::NewChild => self.exchange.into_iter().collect(),
            Purpose::Child(_) | Purpose::Ike => self.suite.exchanges().collect(),
        }
    }

    /// The response to CREATE_CHILD_SA.
    fn first_answer(&self, suites: &Suites, making: &mut Making, payloads: &[Payload]) -> Answer {
        let rekeying = making.purpose != Purpose::NewChild;
        let broken =
            |what: &str| Answer::Broken(Reason::PeerMisbehaved(format!("CREATE_CHILD_SA of the peer: {what}")));
        if rekeying && let Some(error) = payloads::error(payloads) {
            return Answer::Refused(Some(error.kind), rekey_refusal(error.kind));
        }
        let methods = self.methods(making.purpose);
        let (what, todo): (What, VecDeque<Method>) = match making.spi {
            Spi::Child(spi_in) => match child::verdict(&suites.esp, &methods, rekeying, payloads) {
                Verdict::Given(choice) => {
                    if choice.exchange.is_none() {
                        making.exchange = None;
                    }
                    let todo = choice.additional().collect();
                    (What::Child { choice, spi_in }, todo)
                }
                Verdict::Refused(reason) => {
                    return Answer::Refused(payloads::error(payloads).map(|error| error.kind), reason);
                }
                Verdict::Broken(reason) => return Answer::Broken(reason),
            },
            Spi::Ike(initiator) => {
                let answer = payloads::sa(payloads).and_then(|answer| propose::answered_rekey(&self.suite, answer));
                let Some(responder) = answer else { return broken("no proposal of ours in it") };
                let spis = Spis { initiator, responder };
                (What::Ike { suite: self.suite.clone(), spis }, self.suite.additional.iter().copied().collect())
            }
        };
        let Some(responder) = payloads::nonce(payloads) else { return broken("no nonce in it") };
        let nonces = Nonces { initiator: making.nonce.clone(), responder: responder.to_vec() };
        let half = Half { what, nonces, shared: Vec::new(), todo };
        next_answer(making, half, payloads)
    }

    fn refused(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        making: &Making,
        kind: Option<NotifyType>,
        reason: Reason,
    ) -> Result<Box<Established>, End> {
        if making.crossed.is_some() {
            // RFC 7296 §2.25: the peer has gone on with its own.
            release(core, ctx, making.spi);
            if let Some(held) = self.held.take() {
                return Ok(self.switch(core, ctx, now, held, &Old::PeerDeletes));
            }
            self.try_again_later(ctx, now, making.purpose);
            return Ok(self);
        }
        match (making.purpose, making.spi) {
            (Purpose::NewChild, Spi::Child(spi_in)) => {
                if let Some(NotifyType::NO_PROPOSAL_CHOSEN | NotifyType::INVALID_KE_PAYLOAD) = kind {
                    // The peer wants a key exchange for its Child SAs, or it wants none.
                    self.exchange = if self.exchange.is_none() { Some(Method::X25519) } else { None };
                }
                self.child_refused(core, ctx, now, Some(spi_in), reason, false);
            }
            (Purpose::Child(old), _) if kind == Some(NotifyType::CHILD_SA_NOT_FOUND) => {
                release(core, ctx, making.spi);
                // RFC 7296 §2.25: the peer has it no more.
                self.child_gone(core, ctx, now, old, Reason::ClosedByPeer);
                if self.children.is_empty() {
                    self.ask = Some(now);
                }
            }
            (purpose, spi) => {
                release(core, ctx, spi);
                self.try_again_later(ctx, now, purpose);
                if kind != Some(NotifyType::TEMPORARY_FAILURE) {
                    let ike = purpose == Purpose::Ike;
                    ctx.emit(Event::RekeyRefused { sa: core.id, ike, reason });
                }
            }
        }
        Ok(self)
    }

    /// The peer believes in something that we cannot have.
    fn broken(
        mut self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        making: &Making,
        reason: Reason,
    ) -> Result<Box<Established>, End> {
        match making.spi {
            Spi::Child(spi_in) => {
                self.child_refused(core, ctx, now, Some(spi_in), reason, true);
                self.try_again_later(ctx, now, making.purpose);
                Ok(self)
            }
            Spi::Ike(_) => Err(End::Closed(reason)),
        }
    }

    fn try_again_later(&mut self, ctx: &mut Context, now: Time, purpose: Purpose) {
        let (at, wait) = match purpose {
            Purpose::NewChild => return,
            Purpose::Ike => (&mut self.rekey_at, &mut self.rekey_wait),
            Purpose::Child(spi_in) => match self.children.iter_mut().find(|child| child.spi_in == spi_in) {
                Some(child) => (&mut child.rekey_at, &mut child.rekey_wait),
                None => return,
            },
        };
        *at = Some(now + jitter(*wait, &mut ctx.rng));
        *wait = (*wait * 2).min(LAST_REFUSED);
    }

    /// As initiator.
    fn child_made(&mut self, core: &Core, ctx: &mut Context, now: Time, purpose: Purpose, child: ChildSa, loses: bool) {
        let new = child.spi_in;
        self.child_up(core, ctx, now, child, loses);
        let leaving = if loses { Some(new) } else { None };
        let leaving = leaving.or(match purpose {
            Purpose::Child(old) => Some(old),
            Purpose::NewChild | Purpose::Ike => None,
        });
        if let Some(child) = self.children.iter_mut().find(|child| Some(child.spi_in) == leaving) {
            child.fate = Fate::Closing;
            self.deletes.push(child.spi_in);
        }
    }

    fn give_ike(&self, core: &Core, ctx: &mut Context, payloads: &[Payload]) -> Result<(Half, Vec<Payload>), Fault> {
        let offered = payloads::sa(payloads).ok_or(Fault::Syntax("no SA payload"))?;
        let (Some(ke), Some(nonce)) = (payloads::ke(payloads), payloads::nonce(payloads)) else {
            return Err(Fault::Syntax("no KE payload or no nonce"));
        };
        // One PRF a session: implementations differ on which one makes the new keys (RFC 7296 §2.18).
        let known = &ctx.suites(core.peer).ike;
        let ours: Vec<IkeSuite> = known.iter().filter(|suite| suite.prf == self.suite.prf).cloned().collect();
        let spi = ctx.new_ike_spi();
        let (suite, theirs, answer) = propose::choose_rekey(&ours, offered, spi).ok_or(Fault::NoProposal)?;
        let method = propose::method_id(suite.exchange);
        if ke.method != method {
            return Err(Fault::OtherMethod(method));
        }
        ctx.key_exchanges += 1;
        let (data, secret) =
            kex::respond(suite.exchange, &ke.data, &mut ctx.rng).map_err(|_| Fault::Syntax("bad public value"))?;
        let responder = ctx.rng.array::<32>().to_vec();
        let answer = vec![
            Payload::Sa(vec![answer]),
            Payload::Nonce(responder.clone()),
            Payload::Ke(crate::wire::ike::Ke { method, data }),
        ];
        let todo = suite.additional.iter().copied().collect();
        let what = What::Ike { suite, spis: Spis { initiator: theirs, responder: spi } };
        let nonces = Nonces { initiator: nonce.to_vec(), responder };
        Ok((Half { what, nonces, shared: vec![secret], todo }, answer))
    }
}

/// The key exchange that any response carries.
fn next_answer(making: &mut Making, mut half: Half, payloads: &[Payload]) -> Answer {
    if let Some(error) = payloads::error(payloads) {
        return Answer::Refused(Some(error.kind), rekey_refusal(error.kind));
    }
    if let Some(exchange) = making.exchange.take() {
        let method = propose::method_id(exchange.method());
        let ke = payloads::ke(payloads).filter(|ke| ke.method == method);
        let Some(secret) = ke.and_then(|ke| exchange.finish(&ke.data).ok()) else {
            let what = "CREATE_CHILD_SA of the peer: no good key exchange in it";
            return Answer::Broken(Reason::PeerMisbehaved(what.to_owned()));
        };
        half.shared.push(secret);
    }
    Answer::Agreed(Box::new(half))
}

fn new_ike(keys: &IkeKeys, role: Role, half: Half) -> Option<NewIke> {
    let What::Ike { suite, spis } = half.what else { return None };
    let seed = Seed {
        nonce_initiator: half.nonces.initiator,
        nonce_responder: half.nonces.responder,
        spi_initiator: spis.initiator,
        spi_responder: spis.responder,
    };
    let protection = Suite { cipher: suite.cipher, prf: suite.prf };
    Some(NewIke { keys: keys.rekey(protection, role, &half.shared, &seed), suite, spis, role })
}

/// What the new IKE SA has of the old one: everything but SPIs, message IDs and the role (RFC 7296 §2.18).
fn successor(core: &Core, now: Time, new: &NewIke) -> Core {
    Core {
        id: core.id,
        role: new.role,
        spis: new.spis,
        path: core.path,
        from: core.from,
        peer: core.peer,
        began: core.began,
        since: now,
        window: Window::default(),
        fragmentation: core.fragmentation,
        behind_nat: core.behind_nat,
        mobike: core.mobike.inherit(),
        child_spis: Vec::new(),
        half_open: None,
        init_digest: None,
    }
}

/// A new IKE SA that lost against the peer's, or ours.
fn end_new(core: &Core, ctx: &mut Context, now: Time, new: NewIke, who: &Old) {
    let short_lived = successor(core, now, &new);
    bear(short_lived, ctx, now, new.keys, who);
}

/// Hands an IKE SA that only has to end to the endpoint.
fn bear(mut core: Core, ctx: &mut Context, now: Time, keys: IkeKeys, who: &Old) {
    let state = match who {
        Old::WeDelete => Closing::start(keys, &mut core, ctx, now, None),
        Old::PeerDeletes => Ok(Closing::wait(keys, now)),
        Old::Gone => {
            core.window.answered();
            Ok(State::Gone(now + LINGER))
        }
    };
    if let Ok(state) = state {
        ctx.born.push(Sa { core, state });
    }
}

/// How long a half-done exchange of the peer is kept.
const HALF_DONE: std::time::Duration = std::time::Duration::from_secs(20);
