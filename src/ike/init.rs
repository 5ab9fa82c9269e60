//! IKE_SA_INIT as initiator (RFC 7296 §1.2): the request, the detours over COOKIE and INVALID_KE_PAYLOAD, the answer.
//!
//! Nothing protects these answers. One that would end the attempt only casts a doubt on it: the request goes on for a short
//! grace, and an answer that is acceptable still wins (RFC 7296 §2.21.1).

use std::time::Duration;

use super::context::Context;
use super::error::refusal;
use super::event::{Reason, Role};
use super::handshake::Handshake;
use super::intermediate;
use super::keymat::{IkeKeys, IntAuth, Seed, Suite};
use super::natd;
use super::sa::{Core, End, State, Step, too_long};
use super::window::FIRST;
use super::{payloads, propose, trace};
use crate::config::plan::{IkeSuite, PostQuantum};
use crate::crypto::kex;
use crate::path::Path;
use crate::time::Time;
use crate::wire::ike::{Exchange, Header, Ke, Notify, NotifyType, Payload, encode_clear};
use crate::wire::udpencap;

/// The initiator waits for the response.
pub(super) struct Sent {
    offered: Vec<IkeSuite>,
    /// Of the request, but for the cookie.
    payloads: Vec<Payload>,
    /// As last sent: AUTH covers it (RFC 7296 §2.6).
    request: Vec<u8>,
    exchange: kex::Initiator,
    nonce: Vec<u8>,
    cookie: Option<Vec<u8>>,
    /// Requests sent anew because the peer asked for it.
    detours: u32,
    /// When the attempt is given up, and what for.
    doubt: Option<(Time, Reason)>,
}

pub(super) fn start(core: &mut Core, ctx: &mut Context, now: Time) -> Step {
    let offered = ctx.suites(core.peer).ike.clone();
    let Some(suite) = offered.first() else {
        return Err(End::Closed(Reason::Incompatible(
            "no IKE suite with ML-KEM in our config, which requires it".to_owned(),
        )));
    };
    let exchange = kex::Initiator::generate(suite.exchange, &mut ctx.rng);
    let nonce = ctx.rng.array::<32>().to_vec();
    let mut payloads = vec![Payload::Sa(propose::offer_ike(&offered)), ke(&exchange), Payload::Nonce(nonce.clone())];
    payloads.extend(natd::notifies(core.spis, core.path.remote, &mut ctx.rng));
    payloads.extend(capabilities(offered.iter().any(|suite| !suite.additional.is_empty())));
    let request = Vec::new();
    let mut sent =
        Box::new(Sent { offered, payloads, request, exchange, nonce, cookie: None, detours: 0, doubt: None });
    sent.encode(core, ctx)?;
    let datagrams = core.window.start(now, Exchange::IKE_SA_INIT, vec![sent.request.clone()], FIRST, &mut ctx.rng);
    ctx.send(core.path, datagrams);
    Ok(State::Sent(sent))
}

/// What this side announces, in either role (RFC 7383 §2.3, RFC 7427 §4, RFC 8420 §2, RFC 9242 §3.1).
pub(super) fn capabilities(intermediate: bool) -> Vec<Payload> {
    let mut notifies = vec![
        Notify::new(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, []),
        Notify::new(NotifyType::SIGNATURE_HASH_ALGORITHMS, payloads::IDENTITY_HASH),
    ];
    if intermediate {
        notifies.push(Notify::new(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, []));
    }
    notifies.into_iter().map(Payload::Notify).collect()
}

impl Sent {
    #[expect(clippy::too_many_arguments, reason = "the parts of one unprotected message")]
    pub(super) fn response(
        self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        path: Path,
        header: &Header,
        payloads: Vec<Payload>,
        octets: &[u8],
    ) -> Step {
        trace::message(ctx, core, false, header, &payloads);
        if let Some(cookie) = payloads::notify(&payloads, NotifyType::COOKIE) {
            return self.cookie(core, ctx, now, cookie.data.clone());
        }
        if let Some(error) = payloads::error(&payloads) {
            if error.kind == NotifyType::INVALID_KE_PAYLOAD {
                return self.other_method(core, ctx, now, &error.data);
            }
            let reason = refusal(core.peer_name(ctx), &ctx.fingerprint, error.kind);
            return Ok(self.doubt(now, reason));
        }
        match self.judge(ctx.suites(core.peer).post_quantum, header, &payloads) {
            Ok(suite) => self.accept(core, ctx, now, path, header, &payloads, octets, suite),
            Err(reason) => Ok(self.doubt(now, reason)),
        }
    }

    pub(super) fn timeout(self: Box<Self>, now: Time) -> Step {
        match &self.doubt {
            Some((until, reason)) if *until <= now => Err(End::Closed(reason.clone())),
            _ => Ok(State::Sent(self)),
        }
    }

    pub(super) fn due(&self) -> Option<(Time, &'static str)> {
        self.doubt.as_ref().map(|(until, _)| (*until, "grace of an IKE_SA_INIT"))
    }

    /// RFC 7296 §2.6: the same request once more, with the cookie in front.
    fn cookie(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, cookie: Vec<u8>) -> Step {
        if !COOKIE_LEN.contains(&cookie.len()) {
            ctx.count("ike_bad_cookie");
            return Ok(State::Sent(self));
        }
        if self.cookie.as_ref() == Some(&cookie) {
            return Ok(State::Sent(self));
        }
        if self.detours >= DETOURS {
            return Ok(self.doubt(now, Reason::PeerMisbehaved("peer keeps asking for cookies".to_owned())));
        }
        self.cookie = Some(cookie);
        self.again(core, ctx, now)
    }

    /// RFC 7296 §1.2: the same proposals, and a KE payload of the method that the peer wants, if we offered it.
    fn other_method(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, wanted: &[u8]) -> Step {
        let wanted = <[u8; 2]>::try_from(wanted).ok().map(u16::from_be_bytes);
        let offers = |method: &kex::Method| self.offered.iter().any(|suite| suite.exchange == *method);
        let method = wanted.and_then(propose::method_of).filter(offers);
        let Some(method) = method else {
            let reason = Reason::Incompatible("peer wants a key exchange that we did not offer".to_owned());
            return Ok(self.doubt(now, reason));
        };
        if method == self.exchange.method() {
            return Ok(State::Sent(self));
        }
        if self.detours >= DETOURS {
            return Ok(self.doubt(now, Reason::PeerMisbehaved("peer keeps asking for other key exchanges".to_owned())));
        }
        self.exchange = kex::Initiator::generate(method, &mut ctx.rng);
        for payload in &mut self.payloads {
            if let Payload::Ke(_) = payload {
                *payload = ke(&self.exchange);
            }
        }
        self.again(core, ctx, now)
    }

    fn again(mut self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
        self.detours += 1;
        self.encode(core, ctx)?;
        let datagrams = core.window.restart(now, vec![self.request.clone()], &mut ctx.rng);
        ctx.send(core.path, datagrams);
        Ok(State::Sent(self))
    }

    fn encode(&mut self, core: &Core, ctx: &Context) -> Result<(), End> {
        let header = Header {
            spi_initiator: core.spis.initiator,
            spi_responder: 0,
            exchange: Exchange::IKE_SA_INIT,
            from_initiator: true,
            response: false,
            message_id: 0,
        };
        let cookie = self.cookie.iter().map(|cookie| Payload::Notify(Notify::new(NotifyType::COOKIE, cookie.clone())));
        let payloads: Vec<Payload> = cookie.chain(self.payloads.iter().cloned()).collect();
        self.request = encode_clear(&header, &payloads).map_err(too_long)?;
        trace::message(ctx, core, true, &header, &payloads);
        Ok(())
    }

    fn doubt(mut self: Box<Self>, now: Time, reason: Reason) -> State {
        // The first deadline stands, or a stranger could hold the attempt up for ever; the newest reason is the likeliest.
        let until = self.doubt.take().map_or(now + GRACE, |(until, _)| until);
        self.doubt = Some((until, reason));
        State::Sent(self)
    }

    /// Whether this is an answer to go on with.
    fn judge(&self, policy: PostQuantum, header: &Header, payloads: &[Payload]) -> Result<IkeSuite, Reason> {
        let misbehaved = |what: &str| Reason::PeerMisbehaved(format!("IKE_SA_INIT of the peer: {what}"));
        let answer = payloads::sa(payloads).ok_or_else(|| misbehaved("no proposal in it"))?;
        let Some(suite) = propose::answered_ike(&self.offered, answer) else {
            return Err(match policy {
                PostQuantum::Required if !propose::has_ml_kem(answer) => no_ml_kem(),
                PostQuantum::Required | PostQuantum::Preferred => {
                    Reason::PeerMisbehaved("peer chose an IKE proposal that we did not offer".to_owned())
                }
            });
        };
        let intermediate = payloads::notify(payloads, NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED).is_some();
        if !suite.additional.is_empty() && !intermediate {
            return Err(misbehaved("additional key exchange without IKE_INTERMEDIATE (RFC 9370)"));
        }
        if header.spi_responder == 0 {
            return Err(misbehaved("no SPI of its own"));
        }
        if payloads::nonce(payloads).is_none() {
            return Err(misbehaved("no nonce in it"));
        }
        let ke = payloads::ke(payloads).ok_or_else(|| misbehaved("no key exchange in it"))?;
        if ke.method != propose::method_id(suite.exchange) || suite.exchange != self.exchange.method() {
            return Err(misbehaved("its key exchange is not the one it chose"));
        }
        if !payloads::takes_ed25519(payloads) {
            return Err(Reason::Incompatible("peer does not take Ed25519 signatures (RFC 8420)".to_owned()));
        }
        Ok(suite)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one unprotected message")]
    fn accept(
        self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        path: Path,
        header: &Header,
        payloads: &[Payload],
        octets: &[u8],
        suite: IkeSuite,
    ) -> Step {
        let nonce_responder = payloads::nonce(payloads).unwrap_or_default().to_vec();
        let public = payloads::ke(payloads).map(|ke| ke.data.as_slice()).unwrap_or_default();
        let shared = self
            .exchange
            .finish(public)
            .map_err(|error| End::Closed(Reason::PeerMisbehaved(format!("IKE_SA_INIT of the peer: {error}"))))?;
        core.window.answered();
        core.since = now;
        core.spis.responder = header.spi_responder;
        core.fragmentation = payloads::notify(payloads, NotifyType::IKEV2_FRAGMENTATION_SUPPORTED).is_some();
        core.behind_nat = natd::behind_nat(payloads, core.spis, ctx.local(&path));
        core.mobike.seen(payloads);
        if core.path.remote == path.remote && core.path.socket == path.socket {
            core.path.local = path.local;
        }
        // RFC 7296 §2.23: there is a NAT, for we always say so.
        core.path.remote = udpencap::floated(core.path.remote);
        let seed = Seed {
            nonce_initiator: self.nonce,
            nonce_responder,
            spi_initiator: core.spis.initiator,
            spi_responder: core.spis.responder,
        };
        let protection = Suite { cipher: suite.cipher, prf: suite.prf };
        let handshake = Handshake {
            keys: IkeKeys::initial(protection, Role::Initiator, &shared, &seed),
            seed,
            suite,
            int_auth: IntAuth::default(),
            done: 0,
            init_request: self.request,
            init_response: octets.to_vec(),
        };
        intermediate::proceed(handshake, core, ctx, now)
    }
}

/// What an SA without ML-KEM is refused with, if the config requires it.
pub(super) fn no_ml_kem() -> Reason {
    Reason::Incompatible("peer did not agree to ML-KEM, which our config requires".to_owned())
}

fn ke(exchange: &kex::Initiator) -> Payload {
    Payload::Ke(Ke { method: propose::method_id(exchange.method()), data: exchange.public().to_vec() })
}

/// How long an attempt goes on after an answer that would end it.
const GRACE: Duration = Duration::from_secs(2);
/// How often a peer may ask for another request.
const DETOURS: u32 = 5;
/// RFC 7296 §2.6.
const COOKIE_LEN: std::ops::RangeInclusive<usize> = 1..=64;
