//! IKE_SA_INIT as responder (RFC 7296 §1.2, §2.6): limits and cookies first, then the choice, and only then a key exchange.
//!
//! Whoever asks is a stranger: replies are no larger than what they answer until an SA is made, and without one nothing is kept.

use std::net::IpAddr;

use super::context::Context;
use super::cookie::Claim;
use super::error::Fault;
use super::event::{Reason, Role, SaId};
use super::handshake::{Handshake, Responding};
use super::init::{capabilities, no_ml_kem};
use super::keymat::{IkeKeys, IntAuth, Seed, Suite};
use super::mobike::Mobike;
use super::natd::{self, Spis};
use super::sa::{Core, Sa, State};
use super::window::Window;
use super::{payloads, propose, trace};
use crate::config::plan::IkeSuite;
use crate::crypto::kex;
use crate::path::Path;
use crate::time::Time;
use crate::wire::ike::{
    Chain, Exchange, Header, Ke, NONCE_LEN, Notify, NotifyType, ParseError, Payload, Proposal, encode_clear,
};

/// A request for a new IKE SA.
pub(super) struct Request<'a> {
    pub(super) now: Time,
    pub(super) path: Path,
    pub(super) header: Header,
    pub(super) chain: Chain<'a>,
    pub(super) octets: &'a [u8],
    /// SHA-256 of `octets`.
    pub(super) digest: [u8; 32],
}

/// The longest IKE_SA_INIT that is looked at; it is stored, for AUTH covers it.
pub(super) const MAX_REQUEST: usize = 4096;

/// Answers the request; an SA comes of it if all is well. `sa` and `spi` are for it.
pub(super) fn accept(ctx: &mut Context, request: &Request<'_>, sa: SaId, spi: u64) -> Option<Sa> {
    let address = request.path.remote.ip();
    let (total, from) = (ctx.half_open.total(), ctx.half_open.from(address));
    if total >= ctx.limits.half_open_total || from >= ctx.limits.half_open_per_source {
        ctx.count("ike_half_open_limit");
        return None;
    }
    let payloads = match request.chain.payloads() {
        Ok(payloads) => payloads,
        Err(error @ ParseError::UnsupportedCritical(_)) => {
            if ctx.replies.take(request.now) {
                reply(ctx, request, Fault::from(error).notify());
            }
            ctx.count("ike_unsupported_critical");
            return None;
        }
        Err(ParseError::InvalidSyntax(_)) => {
            ctx.count("ike_malformed_init");
            return None;
        }
    };
    let (Some(offered), Some(ke), Some(nonce)) =
        (payloads::sa(&payloads), payloads::ke(&payloads), payloads::nonce(&payloads))
    else {
        ctx.count("ike_malformed_init");
        return None;
    };
    if !NONCE_LEN.contains(&nonce.len()) {
        ctx.count("ike_malformed_init");
        return None;
    }
    let claim = Claim { nonce, address, spi_initiator: request.header.spi_initiator };
    if (total >= ctx.limits.cookie_total || from >= ctx.limits.cookie_per_source)
        && !paid(ctx, request, &payloads, claim)
    {
        let cookie = ctx.cookies.issue(request.now, &mut ctx.rng, claim);
        reply(ctx, request, Notify::new(NotifyType::COOKIE, cookie));
        ctx.count("ike_cookie_asked");
        return None;
    }
    let (suite, proposal) = match choose(ctx, address, &payloads, offered) {
        Ok(choice) => choice,
        Err(reason) => {
            reply(ctx, request, Fault::NoProposal.notify());
            ctx.count("ike_no_proposal_chosen");
            ctx.refuse(request.now, request.path, None, reason);
            return None;
        }
    };
    let method = propose::method_id(suite.exchange);
    if ke.method != method {
        reply(ctx, request, Fault::OtherMethod(method).notify());
        ctx.count("ike_other_ke_method");
        return None;
    }
    let spis = Spis { initiator: request.header.spi_initiator, responder: spi };
    let has = |kind| payloads::notify(&payloads, kind).is_some();
    let half_open = |ctx: &mut Context| Core {
        id: sa,
        role: Role::Responder,
        spis,
        path: request.path,
        from: request.path,
        peer: None,
        began: request.now,
        since: request.now,
        window: Window::default(),
        fragmentation: has(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED),
        behind_nat: natd::behind_nat(&payloads, Spis { responder: 0, ..spis }, ctx.local(&request.path)),
        mobike: Mobike::default(),
        child_spis: Vec::new(),
        half_open: Some(ctx.half_open.enter(address)),
        init_digest: Some(request.digest),
    };
    let deadline = request.now + ctx.limits.half_open_life;
    ctx.key_exchanges += 1;
    let Ok((public, shared)) = kex::respond(suite.exchange, &ke.data, &mut ctx.rng) else {
        ctx.count("ike_bad_public_value");
        // It has cost us as much as a good one, so it counts as one: towards cookies and the limits of its source.
        return Some(Sa { core: half_open(ctx), state: State::Gone(deadline) });
    };

    let nonce_responder = ctx.rng.array::<32>().to_vec();
    let mut answer = vec![
        Payload::Sa(vec![proposal]),
        Payload::Ke(Ke { method, data: public }),
        Payload::Nonce(nonce_responder.clone()),
    ];
    answer.extend(natd::notifies(spis, request.path.remote, &mut ctx.rng));
    answer.extend(capabilities(has(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED)));
    answer.push(Payload::Notify(Notify::new(NotifyType::CHILDLESS_IKEV2_SUPPORTED, [])));
    let header = Header { spi_responder: spi, ..reply_header(request) };
    let init_response = encode_clear(&header, &answer).ok()?;

    let seed = Seed {
        nonce_initiator: nonce.to_vec(),
        nonce_responder,
        spi_initiator: spis.initiator,
        spi_responder: spis.responder,
    };
    let protection = Suite { cipher: suite.cipher, prf: suite.prf };
    let mut core = half_open(ctx);
    trace::message(ctx, &core, false, &request.header, &payloads);
    trace::message(ctx, &core, true, &header, &answer);
    core.window.noted(request.octets);
    ctx.send(request.path, core.window.respond(vec![init_response.clone()]));
    let handshake = Handshake {
        keys: IkeKeys::initial(protection, Role::Responder, &shared, &seed),
        seed,
        suite,
        int_auth: IntAuth::default(),
        done: 0,
        init_request: request.octets.to_vec(),
        init_response,
    };
    Some(Sa { core, state: State::Responding(Box::new(Responding { handshake, deadline })) })
}

/// Whether a valid cookie is in front (RFC 7296 §2.6).
fn paid(ctx: &mut Context, request: &Request<'_>, payloads: &[Payload], claim: Claim<'_>) -> bool {
    let Some(Payload::Notify(first)) = payloads.first() else { return false };
    first.kind == NotifyType::COOKIE && ctx.cookies.verify(request.now, &mut ctx.rng, claim, &first.data)
}

fn choose(
    ctx: &Context,
    from: IpAddr,
    payloads: &[Payload],
    offered: &[Proposal],
) -> Result<(IkeSuite, Proposal), Reason> {
    if !payloads::takes_ed25519(payloads) {
        return Err(Reason::Incompatible("it does not take Ed25519 signatures (RFC 8420)".to_owned()));
    }
    // RFC 9242 §3.1: without the notify there is no IKE_INTERMEDIATE, and without that no additional key exchange.
    let intermediate = payloads::notify(payloads, NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED).is_some();
    let mut possible = ctx.acceptable(from);
    let required = possible.iter().all(IkeSuite::is_post_quantum);
    possible.retain(|suite| intermediate || suite.additional.is_empty());
    propose::choose_ike(&possible, offered).ok_or_else(|| {
        if required && !(intermediate && propose::has_ml_kem(offered)) {
            no_ml_kem()
        } else {
            Reason::Incompatible("none of its IKE proposals is among our suites: compare both configs".to_owned())
        }
    })
}

fn reply_header(request: &Request<'_>) -> Header {
    Header {
        spi_initiator: request.header.spi_initiator,
        spi_responder: 0,
        exchange: Exchange::IKE_SA_INIT,
        from_initiator: false,
        response: true,
        message_id: 0,
    }
}

/// A notify that makes no state.
fn reply(ctx: &mut Context, request: &Request<'_>, notify: Notify) {
    if let Ok(message) = encode_clear(&reply_header(request), &[Payload::Notify(notify)]) {
        ctx.send(request.path, &[message]);
    }
}
