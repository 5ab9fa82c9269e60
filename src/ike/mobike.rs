//! MOBIKE (RFC 4555): a session goes on when the address of either side changes, and when a NAT appears or vanishes.
//!
//! The side that began the first IKE SA of the session leads (RFC 4555 §2): it alone says which addresses are in use, by
//! UPDATE_SA_ADDRESSES. The other side says that its own has changed, and the leader decides. IKE messages move nothing by
//! themselves (§3.8), so that any path can be tried; ESP that verified does, as without MOBIKE.

use std::net::{IpAddr, SocketAddr};

use super::context::Context;
use super::established::Established;
use super::event::{Event, Reason};
use super::keymat::IkeKeys;
use super::natd;
use super::payloads;
use super::sa::{Core, End};
use super::window::MOVING;
use crate::path::Path;
use crate::time::Time;
use crate::wire::ike::{Exchange, Notify, NotifyType, Payload};

/// What an IKE SA keeps for it.
#[derive(Clone, Default)]
pub(super) struct Mobike {
    /// Both sides speak it.
    pub(super) on: bool,
    /// We began the first IKE SA of the session.
    leads: bool,
    /// Where else the peer can be reached, by its own word.
    others: Vec<IpAddr>,
    /// The peer's address that both sides agreed on last.
    agreed: Option<SocketAddr>,
    /// How the peer sees us: its NAT_DETECTION_DESTINATION_IP.
    seen: Option<Vec<u8>>,
    /// The peer has to hear of the path in use.
    tell: bool,
    /// The peer says that it is somewhere else: whether it answers there has to be seen (§3.7).
    check: bool,
    /// Of the request under way.
    asked: Option<Asked>,
}

#[derive(Clone)]
struct Asked {
    cookie: [u8; 16],
    path: Path,
}

/// What this side announces in IKE_AUTH. We tell no further addresses: what a router has beside the one in use lies in the
/// mesh, or behind the same way out.
pub(super) fn supported() -> Payload {
    Payload::Notify(Notify::new(NotifyType::MOBIKE_SUPPORTED, []))
}

impl Mobike {
    /// By the peer's IKE_AUTH, of which the payloads are.
    pub(super) fn agree(&mut self, leads: bool, remote: SocketAddr, peer: &[Payload]) {
        self.on = payloads::notify(peer, NotifyType::MOBIKE_SUPPORTED).is_some();
        self.leads = leads;
        self.agreed = Some(remote);
        self.learn(peer);
    }

    /// How the peer sees us, by its IKE_SA_INIT.
    pub(super) fn seen(&mut self, peer: &[Payload]) {
        self.seen = payloads::notify(peer, NotifyType::NAT_DETECTION_DESTINATION_IP).map(|notify| notify.data.clone());
    }

    /// For an IKE SA that takes the place of this one. What NAT detection says depends on its SPIs: the first answer tells.
    pub(super) fn inherit(&self) -> Mobike {
        Mobike { tell: self.tell || self.asked.is_some(), asked: None, seen: None, ..self.clone() }
    }

    /// There is a request to make.
    pub(super) fn is_due(&self) -> bool {
        self.tell || self.check
    }

    /// Whether a message has the peer's other addresses in it; then they are known (§3.6).
    fn learn(&mut self, peer: &[Payload]) -> bool {
        let mut told = false;
        let mut others = Vec::new();
        for notify in payloads::notifies(peer) {
            let address = match notify.kind {
                NotifyType::ADDITIONAL_IP4_ADDRESS => array(&notify.data).map(|octets: [u8; 4]| IpAddr::from(octets)),
                NotifyType::ADDITIONAL_IP6_ADDRESS => array(&notify.data).map(|octets: [u8; 16]| IpAddr::from(octets)),
                NotifyType::NO_ADDITIONAL_ADDRESSES => None,
                _ => continue,
            };
            told = true;
            others.extend(address);
        }
        others.truncate(OTHERS);
        if told {
            self.others = others;
        }
        told
    }
}

impl Core {
    /// Whether the peer has to be looked for where the message being handled came from.
    pub(super) fn follows(&self, ctx: &Context, path: Path) -> bool {
        !self.mobike.on && (!ctx.from_inside || path.remote.ip() == self.path.remote.ip())
    }

    /// The ways to the peer's other addresses, once the one in use does not answer: the leader tries them all.
    pub(super) fn detours(&self) -> Vec<Path> {
        let tried = self.mobike.leads && self.mobike.on;
        let others = self.mobike.others.iter().filter(|other| tried && **other != self.path.remote.ip());
        let port = self.path.remote.port();
        others.map(|&other| Path { local: None, remote: SocketAddr::new(other, port), ..self.path }).collect()
    }

    /// A response has come over one of these: that is the way from now on.
    pub(super) fn take_detour(&mut self, ctx: &mut Context) {
        let (from, (_, tries)) = (self.from, self.window.under_way().unwrap_or((Exchange::INFORMATIONAL, 0)));
        let elsewhere = from.remote.ip() != self.path.remote.ip();
        if tries > 1
            && elsewhere
            && !ctx.from_inside
            && self.detours().iter().any(|detour| detour.remote == from.remote)
        {
            self.path = from;
            self.mobike.tell = true;
            self.moved(ctx);
        }
    }

    pub(super) fn moved(&self, ctx: &mut Context) {
        ctx.emit(Event::Moved { sa: self.id, path: self.path, behind_nat: self.behind_nat });
    }

    /// What a request of the peer says of addresses, and what of that belongs into the answer.
    pub(super) fn addresses_told(&mut self, ctx: &mut Context, request: &[Payload]) -> Vec<Payload> {
        let has = |kind| payloads::notify(request, kind).is_some();
        let before = (self.path, self.behind_nat);
        let mut answer = Vec::new();
        if self.mobike.on {
            let told = self.mobike.learn(request);
            if self.mobike.leads {
                // The peer's address has changed, or it tries another one: it is for us to say so.
                if told && self.mobike.agreed != Some(self.from.remote) && !ctx.from_inside {
                    self.path = self.from;
                    self.mobike.tell = true;
                }
            } else if has(NotifyType::UPDATE_SA_ADDRESSES) {
                match self.refuse_update(ctx, request) {
                    Some(refusal) => answer.push(Payload::Notify(Notify::new(refusal, []))),
                    None => self.update(),
                }
            }
            if has(NotifyType::NAT_DETECTION_DESTINATION_IP) {
                self.detect_nat(ctx, request);
                answer.extend(natd::notifies(self.spis, self.from.remote, &mut ctx.rng));
            }
        }
        answer.extend(payloads::notify(request, NotifyType::COOKIE2).cloned().map(Payload::Notify));
        if before != (self.path, self.behind_nat) {
            self.moved(ctx);
        }
        answer
    }

    fn refuse_update(&self, ctx: &Context, request: &[Payload]) -> Option<NotifyType> {
        // A tunnel inside itself is no way.
        if ctx.from_inside && self.from.remote.ip() != self.path.remote.ip() {
            return Some(NotifyType::UNACCEPTABLE_ADDRESSES);
        }
        let untouched = payloads::notify(request, NotifyType::NO_NATS_ALLOWED)?;
        let seen = ctx.local(&self.from).map(|local| ends(self.from.remote, local));
        (seen.as_ref() != Some(&untouched.data)).then_some(NotifyType::UNEXPECTED_NAT_DETECTED)
    }

    fn update(&mut self) {
        self.mobike.check = self.mobike.agreed.is_none_or(|agreed| agreed.ip() != self.from.remote.ip());
        self.mobike.agreed = Some(self.from.remote);
        self.path = self.from;
    }

    fn detect_nat(&mut self, ctx: &Context, payloads: &[Payload]) {
        let destination = NotifyType::NAT_DETECTION_DESTINATION_IP;
        if self.from.remote == self.path.remote && payloads::notify(payloads, destination).is_some() {
            self.behind_nat = natd::behind_nat(payloads, self.spis, ctx.local(&self.from));
        }
    }

    /// What a response says of addresses. A reason, if the session cannot go on.
    pub(super) fn addresses_answered(&mut self, ctx: &mut Context, response: &[Payload]) -> Result<(), Reason> {
        let asked = self.mobike.asked.take();
        if !self.mobike.on {
            return Ok(());
        }
        let before = (self.path, self.behind_nat);
        let stale = asked.as_ref().is_some_and(|asked| !same_way(asked.path, self.path));
        if stale {
            // §3.5: the address has changed meanwhile, and the next request is about that.
            return Ok(());
        }
        if let Some(Asked { cookie, .. }) = &asked {
            let refused = [NotifyType::UNACCEPTABLE_ADDRESSES, NotifyType::UNEXPECTED_NAT_DETECTED];
            if refused.iter().any(|&kind| payloads::notify(response, kind).is_some()) {
                return Err(Reason::Incompatible("peer does not accept our new address".to_owned()));
            }
            if payloads::notify(response, NotifyType::COOKIE2).is_none_or(|notify| notify.data != cookie) {
                return Err(Reason::PeerMisbehaved("peer did not send our COOKIE2 back (RFC 4555)".to_owned()));
            }
            self.mobike.agreed = Some(self.path.remote);
        }
        if same_way(self.from, self.path) {
            self.path.local = self.from.local.or(self.path.local);
            self.detect_nat(ctx, response);
            let seen = payloads::notify(response, NotifyType::NAT_DETECTION_DESTINATION_IP);
            if let Some(seen) = seen
                && self.mobike.seen.as_ref() != Some(&seen.data)
            {
                // §3.8: a NAT has moved us. What has just been asked has told the peer.
                self.mobike.tell |= self.mobike.leads && asked.is_none() && self.mobike.seen.is_some();
                self.mobike.seen = Some(seen.data.clone());
            }
        }
        if before != (self.path, self.behind_nat) {
            self.moved(ctx);
        }
        Ok(())
    }

    /// The request that is due.
    pub(super) fn ask_addresses(&mut self, ctx: &mut Context, now: Time, keys: &mut IkeKeys) -> Result<(), End> {
        let kind = match (self.mobike.leads, self.mobike.tell) {
            (true, _) => Some(NotifyType::UPDATE_SA_ADDRESSES),
            (false, true) => Some(NotifyType::NO_ADDITIONAL_ADDRESSES),
            (false, false) => None,
        };
        let cookie: [u8; 16] = ctx.rng.array();
        let mut request: Vec<Payload> = kind.map(|kind| Payload::Notify(Notify::new(kind, []))).into_iter().collect();
        request.extend(natd::notifies(self.spis, self.path.remote, &mut ctx.rng));
        request.push(Payload::Notify(Notify::new(NotifyType::COOKIE2, cookie)));
        self.mobike.tell = false;
        self.mobike.check = false;
        self.mobike.asked = Some(Asked { cookie, path: self.path });
        self.request(ctx, now, keys, Exchange::INFORMATIONAL, &request, MOVING).map(|_| ())
    }
}

impl Established {
    /// Our own address has changed: the path in use is another one, and the peer is to know it at once.
    pub(super) fn relocated(&mut self, core: &mut Core, ctx: &mut Context, now: Time) -> Result<(), End> {
        core.mobike.tell = core.mobike.on;
        let path = core.path;
        if core.window.busy() {
            // §3.5: what is under way goes on over the new path.
            core.window.afresh(now, &mut ctx.rng);
            ctx.send(path, core.window.datagrams());
            return Ok(());
        }
        if core.mobike.on { self.advance(core, ctx, now) } else { self.probe(core, ctx, now) }
    }
}

/// The addresses and ports of NO_NATS_ALLOWED (RFC 4555 §4.2.6).
fn ends(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let mut octets = Vec::new();
    for end in [source, destination] {
        match end.ip().to_canonical() {
            IpAddr::V4(v4) => octets.extend(v4.octets()),
            IpAddr::V6(v6) => octets.extend(v6.octets()),
        }
    }
    octets.extend(source.port().to_be_bytes());
    octets.extend(destination.port().to_be_bytes());
    octets
}

/// What one of the two does not know cannot contradict the other.
fn same_way(one: Path, other: Path) -> bool {
    let locals_agree = one.local.is_none() || other.local.is_none() || one.local == other.local;
    one.remote == other.remote && one.socket == other.socket && locals_agree
}

fn array<const N: usize>(octets: &[u8]) -> Option<[u8; N]> {
    octets.try_into().ok()
}

/// So many further addresses of a peer are kept.
const OTHERS: usize = 8;
