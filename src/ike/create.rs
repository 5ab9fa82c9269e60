//! CREATE_CHILD_SA and the IKE_FOLLOWUP_KE exchanges after it (RFC 7296 §1.3, RFC 9370 §2.2.4), as far as both purposes share
//! them: what has been agreed on, and the key exchanges that are still to come.

use std::collections::VecDeque;

use super::context::Context;
use super::error::Fault;
use super::natd::Spis;
use super::payloads;
use super::propose::{self, EspChoice};
use crate::config::plan::IkeSuite;
use crate::crypto::kex::{self, Method};
use crate::crypto::secret::Secret;
use crate::time::Time;
use crate::wire::ike::{Ke, Notify, NotifyType, Payload};

/// What an exchange is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    NewChild,
    /// In the place of the Child SA that receives by this SPI.
    Child(u32),
    Ike,
}

pub(super) struct Nonces {
    pub(super) initiator: Vec<u8>,
    pub(super) responder: Vec<u8>,
}

impl Nonces {
    pub(super) fn both(&self) -> [&[u8]; 2] {
        [&self.initiator, &self.responder]
    }
}

/// Agreed on; complete when no key exchange is left to do.
pub(super) struct Half {
    pub(super) what: What,
    pub(super) nonces: Nonces,
    pub(super) shared: Vec<Secret>,
    pub(super) todo: VecDeque<Method>,
}

pub(super) enum What {
    Child { choice: EspChoice, spi_in: u32 },
    Ike { suite: IkeSuite, spis: Spis },
}

/// Of ours, under way.
pub(super) struct Making {
    pub(super) purpose: Purpose,
    pub(super) spi: Spi,
    pub(super) nonce: Vec<u8>,
    /// The key exchange of the request under way.
    pub(super) exchange: Option<kex::Initiator>,
    /// Once the peer has agreed.
    pub(super) half: Option<Half>,
    /// The peer rekeys the same, and we have agreed: its nonces and ours (RFC 7296 §2.8.1).
    pub(super) crossed: Option<Nonces>,
}

/// Which SPI of ours the new SA is to have.
#[derive(Clone, Copy)]
pub(super) enum Spi {
    Child(u32),
    Ike(u64),
}

/// Of the peer's, waiting for its next IKE_FOLLOWUP_KE.
pub(super) struct Giving {
    pub(super) purpose: Purpose,
    pub(super) half: Half,
    /// What the peer has to send back.
    pub(super) link: Vec<u8>,
    pub(super) deadline: Time,
}

impl Giving {
    /// Answers one additional key exchange. The link of the next one is in the answer, if there is one to come.
    pub(super) fn follow(&mut self, ctx: &mut Context, request: &[Payload]) -> Result<Vec<Payload>, Fault> {
        let linked = payloads::notify(request, NotifyType::ADDITIONAL_KEY_EXCHANGE);
        if linked.is_none_or(|notify| notify.data != self.link) {
            return Err(Fault::NoState);
        }
        let method = self.half.todo.pop_front().ok_or(Fault::NoState)?;
        let ke = payloads::ke(request).filter(|ke| ke.method == propose::method_id(method));
        let ke = ke.ok_or(Fault::Syntax("another key exchange than agreed"))?;
        ctx.key_exchanges += 1;
        let (data, secret) =
            kex::respond(method, &ke.data, &mut ctx.rng).map_err(|_| Fault::Syntax("bad public value"))?;
        self.half.shared.push(secret);
        let mut answer = vec![Payload::Ke(Ke { method: ke.method, data })];
        if !self.half.todo.is_empty() {
            self.link = new_link(ctx);
            answer.push(link(&self.link));
        }
        Ok(answer)
    }
}

pub(super) fn new_link(ctx: &mut Context) -> Vec<u8> {
    ctx.rng.array::<8>().to_vec()
}

pub(super) fn link(data: &[u8]) -> Payload {
    Payload::Notify(Notify::new(NotifyType::ADDITIONAL_KEY_EXCHANGE, data))
}

pub(super) fn ke(exchange: &kex::Initiator) -> Payload {
    Payload::Ke(Ke { method: propose::method_id(exchange.method()), data: exchange.public().to_vec() })
}
