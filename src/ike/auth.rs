//! IKE_AUTH, both roles (RFC 7296 §1.2, §2.15; RFC 8420): names, keys known beforehand, and the first Child SA.
//!
//! The key that counts is the one the configuration gives to the name. A raw public key (RFC 7670) goes along only for the
//! sentence a person reads when the two differ.

use super::child::{self, Verdict};
use super::closing::Closing;
use super::context::Context;
use super::error::{Fault, no_child, refusal, sentence};
use super::established::{Established, child_of};
use super::event::{Event, Known, Reason, Role};
use super::handshake::{Handshake, Responding};
use super::mobike;
use super::sa::{Core, End, State, Step};
use super::seal::Plain;
use super::signature::{BadAuth, SignedOctets};
use super::window::LATER;
use super::{payloads, trace};
use crate::config::plan::PostQuantum;
use crate::crypto::sign::PublicKey;
use crate::identity::Identity;
use crate::path::PeerId;
use crate::time::Time;
use crate::wire::ike::{Auth, Cert, Exchange, Id, NotifyType, Payload, cert_encoding};

/// The initiator waits for the response.
pub(super) struct Authenticating {
    pub(super) handshake: Handshake,
    message_id: u32,
    /// On which the first Child SA is to receive.
    spi_in: u32,
}

/// As initiator: all key exchanges are done.
pub(super) fn start(mut handshake: Handshake, core: &mut Core, ctx: &mut Context, now: Time) -> Step {
    let message_id = core.window.next_id().unwrap_or_default();
    let Some(known) = core.peer.and_then(|peer| ctx.peers.get(&peer)) else {
        return Err(End::Closed(Reason::ClosedByUs));
    };
    let (id, wanted) = (payload(&known.local_id), payload(&known.remote_id));
    let auth = signed(&handshake, Role::Initiator, &id, message_id).sign(&ctx.private_key);
    let spi_in = core.reserve_spi(ctx);
    let mut request = vec![Payload::IdI(id), Payload::Cert(our_key(ctx)), Payload::IdR(wanted), Payload::Auth(auth)];
    request.extend(child::offer(&ctx.suites(core.peer).esp, spi_in, &[], false));
    request.push(mobike::supported());
    core.request(ctx, now, &mut handshake.keys, Exchange::IKE_AUTH, &request, LATER)?;
    Ok(State::Authenticating(Box::new(Authenticating { handshake, message_id, spi_in })))
}

impl Authenticating {
    pub(super) fn response(self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, response: &Plain) -> Step {
        core.window.answered();
        let payloads = response
            .payloads()
            .map_err(|error| End::Closed(Reason::PeerMisbehaved(format!("IKE_AUTH of the peer: {error}"))))?;
        trace::message(ctx, core, false, &response.header, &payloads);
        let (Some(id), Some(auth)) = (payloads::id_responder(&payloads), payloads::auth(&payloads)) else {
            return Err(End::Closed(match payloads::error(&payloads) {
                Some(error) => refusal(core.peer_name(ctx), &ctx.fingerprint, error.kind),
                None => Reason::PeerMisbehaved("IKE_AUTH of the peer: no proof of identity in it".to_owned()),
            }));
        };
        let Some((peer, known)) = core.peer.and_then(|peer| Some((peer, ctx.peers.get(&peer)?))) else {
            return Err(End::Closed(Reason::ClosedByUs));
        };
        let checked = if identity(id).is_none_or(|identity| identity.key() != known.remote_id.key()) {
            Err(sentence(format!("peer says it is '{}', config expects '{}'", words(id), known.remote_id)))
        } else {
            let signed = signed(&self.handshake, Role::Responder, id, self.message_id);
            verify(&signed, known, auth, &payloads)
        };
        if let Err(reason) = checked {
            return self.refuse(core, ctx, now, Reason::AuthFailed(reason));
        }
        self.establish(core, ctx, now, peer, &payloads)
    }

    /// RFC 7296 §2.21.2: the responder believes that the SA stands, so it is told.
    fn refuse(self: Box<Self>, core: &mut Core, ctx: &mut Context, now: Time, reason: Reason) -> Step {
        ctx.emit(Event::Closed { sa: core.id, peer: core.peer, reason });
        Closing::start(self.handshake.keys, core, ctx, now, Some(Fault::Authentication))
    }

    fn establish(
        self: Box<Self>,
        core: &mut Core,
        ctx: &mut Context,
        now: Time,
        peer: PeerId,
        payloads: &[Payload],
    ) -> Step {
        let Authenticating { handshake, spi_in, .. } = *self;
        core.mobike.agree(true, core.path.remote, payloads);
        announce(core, ctx, now, peer, &handshake);
        let mut state = Established::new(handshake.keys, handshake.suite, ctx, now);
        match child::verdict(&ctx.suites(core.peer).esp, &[], false, payloads) {
            Verdict::Given(choice) => {
                let seed = &handshake.seed;
                let nonces = (seed.nonce_initiator.as_slice(), seed.nonce_responder.as_slice());
                let child = child::derive(&state.keys, Role::Initiator, &choice, spi_in, nonces, &[]);
                state.child_up(core, ctx, now, child, false);
            }
            Verdict::Refused(reason) => state.child_refused(core, ctx, now, Some(spi_in), reason, false),
            Verdict::Broken(reason) => state.child_refused(core, ctx, now, Some(spi_in), reason, true),
        }
        state.advance(core, ctx, now)?;
        Ok(State::Established(Box::new(state)))
    }
}

/// As responder: all key exchanges are done, and the initiator says who it is.
pub(super) fn respond(
    state: Box<Responding>,
    core: &mut Core,
    ctx: &mut Context,
    now: Time,
    request: &Plain,
    payloads: &[Payload],
) -> Step {
    let message_id = request.header.message_id;
    let (peer, local_id) = match identify(&state.handshake, ctx, message_id, payloads) {
        Ok(known) => known,
        Err(reason) => {
            let name = payloads::id_initiator(payloads).map(words);
            ctx.count("ike_authentication_failed");
            ctx.refuse(now, core.path, name, Reason::AuthFailed(reason));
            let mut state = state;
            core.respond_fault(ctx, &mut state.handshake.keys, &request.header, Fault::Authentication)?;
            return Ok(state.linger(now));
        }
    };
    core.peer = Some(peer);
    let Responding { mut handshake, .. } = *state;
    let id = payload(&local_id);
    let auth = signed(&handshake, Role::Responder, &id, message_id).sign(&ctx.private_key);
    let mut answer = vec![Payload::IdR(id), Payload::Cert(our_key(ctx)), Payload::Auth(auth)];
    // RFC 7296 §2.21.2: the first Child SA may fail by itself; RFC 6023: it may not be asked for.
    let child = payloads::sa(payloads).map(|_| child::give(core, ctx, Some(&handshake.seed), payloads));
    let outcome = match child {
        Some(Ok((half, given))) => {
            answer.extend(given);
            child_of(&handshake.keys, Role::Responder, &half).ok_or_else(no_child)
        }
        Some(Err(fault)) => {
            let notify = fault.notify();
            let reason = child::our_refusal(fault);
            answer.push(Payload::Notify(notify));
            Err(reason)
        }
        None => Err(no_child()),
    };
    core.mobike.agree(false, core.path.remote, payloads);
    answer.extend(core.mobike.on.then(mobike::supported));
    core.respond(ctx, &mut handshake.keys, &request.header, &answer)?;
    core.leave_half_open(ctx);
    if payloads::notify(payloads, NotifyType::INITIAL_CONTACT).is_some() {
        ctx.alone = Some((peer, core.began));
    }
    announce(core, ctx, now, peer, &handshake);
    let mut state = Established::new(handshake.keys, handshake.suite, ctx, now);
    match outcome {
        Ok(child) => state.child_up(core, ctx, now, child, false),
        Err(reason) => state.child_refused(core, ctx, now, None, reason, false),
    }
    Ok(State::Established(Box::new(state)))
}

fn announce(core: &mut Core, ctx: &mut Context, now: Time, peer: PeerId, handshake: &Handshake) {
    core.peer = Some(peer);
    core.since = now;
    ctx.emit(Event::Established {
        sa: core.id,
        peer,
        role: core.role,
        path: core.path,
        suite: handshake.suite.to_string(),
        began: core.began,
        behind_nat: core.behind_nat,
    });
}

/// Who the initiator is, proved, and who we are to it; or why not, for a person.
fn identify(
    handshake: &Handshake,
    ctx: &Context,
    message_id: u32,
    payloads: &[Payload],
) -> Result<(PeerId, Identity), String> {
    let id = payloads::id_initiator(payloads).ok_or("it did not say who it is")?;
    let auth = payloads::auth(payloads).ok_or("no proof of identity in its IKE_AUTH")?;
    let signed = signed(handshake, Role::Initiator, id, message_id);
    let Some((peer, known)) = identity(id).and_then(|identity| ctx.peer_by_identity(&identity)) else {
        return Err(match proved_key(&signed, auth, payloads) {
            Some(key) => format!("not in nodes; its key is {}", key.fingerprint()),
            None => "not in nodes".to_owned(),
        });
    };
    verify(&signed, known, auth, payloads)?;
    // IKE_SA_INIT took what anybody may begin with.
    let suite = &handshake.suite;
    if known.suites.post_quantum == PostQuantum::Required && !suite.is_post_quantum() {
        return Err(format!("'{}' did not agree to ML-KEM, which our config requires", known.name));
    }
    if !known.suites.ike.contains(suite) {
        return Err(sentence(format!("{suite} is not among our proposals for '{}'", known.name)));
    }
    Ok((peer, known.local_id.clone()))
}

fn signed<'a>(handshake: &'a Handshake, signer: Role, id: &'a Id, auth_message_id: u32) -> SignedOctets<'a> {
    let (real_message, peer_nonce) = match signer {
        Role::Initiator => (&handshake.init_request, &handshake.seed.nonce_responder),
        Role::Responder => (&handshake.init_response, &handshake.seed.nonce_initiator),
    };
    SignedOctets {
        signer,
        keys: &handshake.keys,
        real_message,
        peer_nonce,
        id,
        int_auth: &handshake.int_auth,
        auth_message_id,
    }
}

fn verify(signed: &SignedOctets<'_>, known: &Known, auth: &Auth, payloads: &[Payload]) -> Result<(), String> {
    match signed.verify(&known.key, auth) {
        Ok(()) => Ok(()),
        Err(BadAuth::Signature) => {
            let (name, config) = (&known.name, known.key.fingerprint());
            Err(sentence(match proved_key(signed, auth, payloads) {
                Some(key) => format!("peer '{name}' signs with key {}, config has {config}", key.fingerprint()),
                None => format!("peer '{name}' signs with another key than {config} in config"),
            }))
        }
        Err(other @ (BadAuth::Method(_) | BadAuth::Algorithm)) => Err(other.to_string()),
    }
}

/// The key that really made the signature, if the peer sent it along.
fn proved_key(signed: &SignedOctets<'_>, auth: &Auth, payloads: &[Payload]) -> Option<PublicKey> {
    let key = payloads::raw_public_key(payloads)?.strip_prefix(&SUBJECT_PUBLIC_KEY_INFO)?;
    let key = PublicKey::from_bytes(key.try_into().ok()?)?;
    signed.verify(&key, auth).is_ok().then_some(key)
}

fn our_key(ctx: &Context) -> Cert {
    let mut data = SUBJECT_PUBLIC_KEY_INFO.to_vec();
    data.extend_from_slice(ctx.private_key.public().as_bytes());
    Cert { encoding: cert_encoding::RAW_PUBLIC_KEY, data }
}

fn identity(id: &Id) -> Option<Identity> {
    Identity::from_wire(id.kind, &id.data)
}

fn payload(identity: &Identity) -> Id {
    let (kind, data) = identity.to_wire();
    Id::new(kind, data)
}

/// An identity for a person; the peer chose it.
fn words(id: &Id) -> String {
    match identity(id) {
        Some(identity) => identity.to_string().escape_default().take(64).collect(),
        None => format!("identity of type {}", id.kind),
    }
}

/// What stands before the 32 octets of an Ed25519 key (RFC 8410 §4).
const SUBJECT_PUBLIC_KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
