//! The PRFs of IKEv2 (RFC 4868) and `prf+` (RFC 7296 §2.13).

use super::secret::Secret;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prf {
    HmacSha2_256,
    HmacSha2_384,
    HmacSha2_512,
}

impl Prf {
    /// Length of the output and preferred length of the key, in octets.
    pub const fn len(self) -> usize {
        match self {
            Prf::HmacSha2_256 => 32,
            Prf::HmacSha2_384 => 48,
            Prf::HmacSha2_512 => 64,
        }
    }

    /// `prf(key, parts[0] | parts[1] | …)`
    pub fn mac(self, key: &[u8], parts: &[&[u8]]) -> Secret {
        let _ = (key, parts);
        todo!()
    }

    /// `prf+(key, seed[0] | seed[1] | …)`, the first `len` octets; at most 255 blocks.
    pub fn expand(self, key: &[u8], seed: &[&[u8]], len: usize) -> Secret {
        let _ = (key, seed, len);
        todo!()
    }
}
