//! Stateless cookies (RFC 7296 §2.6): `version | prf(secret, Ni | address | SPIi)`.
//!
//! The port stays out: a NAT may change it between the two requests. A secret is made anew after a minute, when one is needed, and
//! the one before it holds for one more.

use std::net::IpAddr;
use std::time::Duration;

use crate::crypto::prf::Prf;
use crate::crypto::rng::Rng;
use crate::crypto::secret::Secret;
use crate::time::Time;

pub(super) struct Cookies {
    version: u8,
    current: Secret,
    previous: Option<Secret>,
    since: Time,
}

/// What a cookie is bound to.
#[derive(Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) address: IpAddr,
    pub(super) spi_initiator: u64,
}

impl Cookies {
    pub(super) fn new(now: Time, rng: &mut Rng) -> Cookies {
        Cookies { version: 0, current: fresh(rng), previous: None, since: now }
    }

    pub(super) fn issue(&mut self, now: Time, rng: &mut Rng, claim: Claim<'_>) -> Vec<u8> {
        self.rotate(now, rng);
        cookie(self.version, &self.current, claim)
    }

    pub(super) fn verify(&mut self, now: Time, rng: &mut Rng, claim: Claim<'_>, given: &[u8]) -> bool {
        self.rotate(now, rng);
        let secret = match given.first() {
            Some(&version) if version == self.version => Some(&self.current),
            Some(&version) if version == self.version.wrapping_sub(1) => self.previous.as_ref(),
            _ => None,
        };
        secret.is_some_and(|secret| {
            let right = cookie(given.first().copied().unwrap_or_default(), secret, claim);
            // Without an early exit, so that the time says nothing about the octets.
            right.len() == given.len() && right.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
        })
    }

    fn rotate(&mut self, now: Time, rng: &mut Rng) {
        let age = now.since(self.since);
        if age >= SECRET_LIFE {
            let old = std::mem::replace(&mut self.current, fresh(rng));
            self.previous = (age < SECRET_LIFE * 2).then_some(old);
            self.version = self.version.wrapping_add(1);
            self.since = now;
        }
    }
}

fn fresh(rng: &mut Rng) -> Secret {
    Secret::new(rng.array::<32>().to_vec())
}

fn cookie(version: u8, secret: &Secret, claim: Claim<'_>) -> Vec<u8> {
    let address = match claim.address.to_canonical() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mac = Prf::HmacSha2_256.mac(secret, &[claim.nonce, &address, &claim.spi_initiator.to_be_bytes()]);
    let mut cookie = vec![version];
    cookie.extend_from_slice(&mac);
    cookie
}

const SECRET_LIFE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_holds_for_its_claim_and_its_time_only() {
        let mut rng = Rng::from_number(1);
        let mut cookies = Cookies::new(Time::ZERO, &mut rng);
        let claim = Claim { nonce: &[7; 32], address: "192.0.2.1".parse().unwrap(), spi_initiator: 5 };
        let cookie = cookies.issue(Time::ZERO, &mut rng, claim);
        assert!((1..=64).contains(&cookie.len()), "RFC 7296 §3.10.1");

        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert!(cookies.verify(at(1), &mut rng, claim, &cookie));
        for other in [
            Claim { nonce: &[8; 32], ..claim },
            Claim { address: "192.0.2.2".parse().unwrap(), ..claim },
            Claim { spi_initiator: 6, ..claim },
        ] {
            assert!(!cookies.verify(at(1), &mut rng, other, &cookie));
        }
        for at_octet in 0..cookie.len() {
            let mut flipped = cookie.clone();
            flipped[at_octet] ^= 1;
            assert!(!cookies.verify(at(1), &mut rng, claim, &flipped));
        }
        assert!(!cookies.verify(at(1), &mut rng, claim, &[]));
        assert!(!cookies.verify(at(1), &mut rng, claim, &cookie[..32]));

        assert!(cookies.verify(at(61), &mut rng, claim, &cookie), "the secret before the present one");
        assert!(!cookies.verify(at(122), &mut rng, claim, &cookie));
    }

    #[test]
    fn a_secret_that_lay_unused_is_not_kept() {
        let mut rng = Rng::from_number(1);
        let mut cookies = Cookies::new(Time::ZERO, &mut rng);
        let claim = Claim { nonce: &[7; 32], address: "2001:db8::1".parse().unwrap(), spi_initiator: 5 };
        let cookie = cookies.issue(Time::ZERO, &mut rng, claim);
        assert!(!cookies.verify(Time::ZERO + Duration::from_secs(1000), &mut rng, claim, &cookie));
    }
}
