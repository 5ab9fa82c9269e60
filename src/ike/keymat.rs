//! The key schedule (RFC 7296 §2.13, §2.14, §2.17; RFC 9370 §2.2.2; RFC 9242 §3.3.2).
//!
//! [`IkeKeys`] is one generation of an IKE SA's keys. IKE_SA_INIT makes the first one; each IKE_INTERMEDIATE with a key exchange
//! makes the next by [`IkeKeys::update`]. The old generation stays valid for retransmissions of its own exchange, so the caller
//! keeps it until the next message (RFC 9242 §3.3.1). A generation owns its [`Sealer`]: its IV counter exists once.

use super::endpoint::Role;
use super::seal::{Opener, Plain, Sealer};
use crate::crypto::aead::{Cipher, IV_LEN};
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
    suite: Suite,
    role: Role,
    d: Secret,
    p_initiator: Secret,
    p_responder: Secret,
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
        let nonces = Secret::new([&*seed.nonce_initiator, &*seed.nonce_responder].concat());
        let skeyseed = suite.prf.mac(&nonces, &[shared]);
        IkeKeys::derive(suite, role, &skeyseed, seed)
    }

    /// `SKEYSEED(n) = prf(SK_d(n-1), SK(n) | Ni | Nr)` and the generation after an additional key exchange (RFC 9370 §2.2.2).
    pub fn update(&self, shared: &Secret, seed: &Seed) -> IkeKeys {
        let skeyseed = self.suite.prf.mac(&self.d, &[shared, &seed.nonce_initiator, &seed.nonce_responder]);
        IkeKeys::derive(self.suite, self.role, &skeyseed, seed)
    }

    /// The first generation of the IKE SA that takes this one's place (RFC 7296 §2.18, RFC 9370 §2.2.4):
    /// `SKEYSEED = prf(SK_d, SK(0) | Ni | Nr | SK(1) | …)` by the old PRF. `seed` has the nonces and SPIs of the rekeying.
    pub fn rekey(&self, suite: Suite, role: Role, shared: &[Secret], seed: &Seed) -> IkeKeys {
        let skeyseed = self.rekey_seed(&seed.nonce_initiator, &seed.nonce_responder, shared);
        IkeKeys::derive(suite, role, &skeyseed, seed)
    }

    fn rekey_seed(&self, nonce_initiator: &[u8], nonce_responder: &[u8], shared: &[Secret]) -> Secret {
        self.suite.prf.mac(&self.d, &seed_of_new(nonce_initiator, nonce_responder, shared))
    }

    fn derive(suite: Suite, role: Role, skeyseed: &Secret, seed: &Seed) -> IkeKeys {
        let sk = Sk::derive(suite, skeyseed, seed);
        let (ours, theirs) = match role {
            Role::Initiator => (&sk.e_initiator, &sk.e_responder),
            Role::Responder => (&sk.e_responder, &sk.e_initiator),
        };
        #[expect(clippy::expect_used, reason = "Sk cuts the keys to the cipher's length")]
        let (sealer, opener) =
            (Sealer::new(suite.cipher, ours, FIRST_IV).zip(Opener::new(suite.cipher, theirs))).expect("length of SK_e");
        IkeKeys { sealer, opener, suite, role, d: sk.d, p_initiator: sk.p_initiator, p_responder: sk.p_responder }
    }

    pub fn suite(&self) -> Suite {
        self.suite
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
        let seed = seed_of_new(nonce_initiator, nonce_responder, shared);
        let keymat = self.suite.prf.expand(&self.d, &seed, 2 * cipher.keymat_len());
        let (initiator, responder) = keymat.split_at(cipher.keymat_len());
        ChildKeys { initiator: Secret::from(initiator), responder: Secret::from(responder) }
    }

    /// `prf(SK_px, data)` with the SK_p of `side`: of the identity in AUTH (RFC 7296 §2.15) and inside [`IntAuth`].
    pub fn mac_p(&self, side: Role, data: &[&[u8]]) -> Secret {
        let key = match side {
            Role::Initiator => &self.p_initiator,
            Role::Responder => &self.p_responder,
        };
        self.suite.prf.mac(key, data)
    }
}

/// `[SK(0) |] Ni | Nr [| SK(1) | …]`
fn seed_of_new<'a>(nonce_initiator: &'a [u8], nonce_responder: &'a [u8], shared: &'a [Secret]) -> Vec<&'a [u8]> {
    let (first, additional) = shared.split_at(shared.len().min(1));
    let first = first.iter().map(|secret| &**secret);
    let additional = additional.iter().map(|secret| &**secret);
    first.chain([nonce_initiator, nonce_responder]).chain(additional).collect()
}

/// `SK_d | SK_ai | SK_ar | SK_ei | SK_er | SK_pi | SK_pr`; with an AEAD there is no SK_a (RFC 7296 §2.14, RFC 5282 §7.1).
struct Sk {
    d: Secret,
    e_initiator: Secret,
    e_responder: Secret,
    p_initiator: Secret,
    p_responder: Secret,
}

impl Sk {
    fn derive(suite: Suite, skeyseed: &Secret, seed: &Seed) -> Sk {
        let (prf_len, key_len) = (suite.prf.len(), suite.cipher.keymat_len());
        let spis = [seed.spi_initiator.to_be_bytes(), seed.spi_responder.to_be_bytes()].concat();
        let parts = [&*seed.nonce_initiator, &*seed.nonce_responder, &spis];
        let stream = suite.prf.expand(skeyseed, &parts, 3 * prf_len + 2 * key_len);
        let mut rest = &*stream;
        let mut cut = |len: usize| {
            let (key, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            Secret::from(key)
        };
        Sk {
            d: cut(prf_len),
            e_initiator: cut(key_len),
            e_responder: cut(key_len),
            p_initiator: cut(prf_len),
            p_responder: cut(prf_len),
        }
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
        let chain = match sender {
            Role::Initiator => &mut self.initiator,
            Role::Responder => &mut self.responder,
        };
        let previous = chain.as_deref().unwrap_or_default();
        *chain = Some(keys.mac_p(sender, &[previous, &message.associated(), message.octets()]));
    }

    /// `IntAuth_iN | IntAuth_rN | message ID of the first IKE_AUTH`; empty if there was no IKE_INTERMEDIATE.
    pub fn trailer(&self, auth_message_id: u32) -> Vec<u8> {
        match (&self.initiator, &self.responder) {
            (Some(initiator), Some(responder)) => [&**initiator, &**responder, &auth_message_id.to_be_bytes()].concat(),
            _ => Vec::new(),
        }
    }
}

/// Any start would do; 0 is left out so that an IV of zeros never looks like a field that was forgotten.
const FIRST_IV: [u8; IV_LEN] = 1_u64.to_be_bytes();

#[cfg(test)]
mod tests;
