//! The key schedule (RFC 7296 §2.13, §2.14, §2.17; RFC 9370 §2.2.2; RFC 9242 §3.3.2).
//!
//! [`IkeKeys`] is one generation of an IKE SA's keys. IKE_SA_INIT makes the first one; each IKE_INTERMEDIATE with a key exchange
//! makes the next by [`IkeKeys::update`]. The old generation stays valid for retransmissions of its own exchange, so the caller
//! keeps it until the next message (RFC 9242 §3.3.1). A generation owns its [`Sealer`]: its IV counter exists once.

use super::endpoint::Role;
use super::seal::{Opener, Plain, Sealer};
use crate::crypto::aead::Cipher;
use crate::crypto::prf::Prf;
use crate::crypto::secret::Secret;

/// The algorithms that protect an IKE SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    pub cipher: Cipher,
    pub prf: Prf,
}

/// What IKE_SA_INIT fixes for every generation of keys.
#[derive(Clone, Debug)]
pub struct Seed {
    pub nonce_initiator: Vec<u8>,
    pub nonce_responder: Vec<u8>,
    pub spi_initiator: u64,
    pub spi_responder: u64,
}

/// One generation of SK_* keys, seen from one side.
pub struct IkeKeys {
    /// For what this side sends.
    pub sealer: Sealer,
    /// For what the peer sends.
    pub opener: Opener,
}

/// Keys of a Child SA: `cipher.keymat_len()` octets per direction, named by who sends.
#[derive(Debug)]
pub struct ChildKeys {
    /// From the initiator of the exchange to its responder.
    pub initiator: Secret,
    pub responder: Secret,
}

impl IkeKeys {
    /// `SKEYSEED = prf(Ni | Nr, g^ir)` and the first generation, as `role` sees it.
    pub fn initial(suite: Suite, role: Role, shared: &Secret, seed: &Seed) -> IkeKeys {
        let _ = (suite, role, shared, seed);
        todo!()
    }

    /// `SKEYSEED(n) = prf(SK_d(n-1), SK(n) | Ni | Nr)` and the generation after an additional key exchange (RFC 9370 §2.2.2).
    pub fn update(&self, shared: &Secret, seed: &Seed) -> IkeKeys {
        let _ = (shared, seed);
        todo!()
    }

    pub fn suite(&self) -> Suite {
        todo!()
    }

    /// `KEYMAT = prf+(SK_d, [SK(0) |] Ni | Nr [| SK(1) | …])` (RFC 7296 §2.17, RFC 9370 §2.2.4); `shared` is empty for the first
    /// Child SA, whose nonces are those of IKE_SA_INIT.
    pub fn child(
        &self,
        cipher: Cipher,
        nonce_initiator: &[u8],
        nonce_responder: &[u8],
        shared: &[Secret],
    ) -> ChildKeys {
        let _ = (cipher, nonce_initiator, nonce_responder, shared);
        todo!()
    }

    /// `prf(SK_px, data)` with the SK_p of `side`: of the identity in AUTH (RFC 7296 §2.15) and inside [`IntAuth`].
    pub fn mac_p(&self, side: Role, data: &[&[u8]]) -> Secret {
        let _ = (side, data);
        todo!()
    }
}

/// What AUTH says about the IKE_INTERMEDIATE exchanges that took place (RFC 9242 §3.3.2).
#[derive(Clone, Debug, Default)]
pub struct IntAuth {
    initiator: Option<Secret>,
    responder: Option<Secret>,
}

impl IntAuth {
    /// Takes in one IKE_INTERMEDIATE message of `sender`, in order. `keys` are those that protected it.
    pub fn absorb(&mut self, keys: &IkeKeys, sender: Role, message: &Plain) {
        let _ = (keys, sender, message, &self.initiator, &self.responder);
        todo!()
    }

    /// `IntAuth_iN | IntAuth_rN | message ID of the first IKE_AUTH`; empty if there was no IKE_INTERMEDIATE.
    pub fn trailer(&self, auth_message_id: u32) -> Vec<u8> {
        let _ = auth_message_id;
        todo!()
    }
}
