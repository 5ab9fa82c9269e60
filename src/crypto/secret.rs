//! Octets that are wiped when dropped and never printed.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

/// Key material. Its `Debug` shows only the length.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub fn new(octets: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(octets))
    }
}

impl From<&[u8]> for Secret {
    fn from(octets: &[u8]) -> Secret {
        Secret::new(octets.to_vec())
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} octets)", self.0.len())
    }
}

impl zeroize::ZeroizeOnDrop for Secret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_octet() {
        assert_eq!(format!("{:?}", Secret::new(vec![0xab; 32])), "Secret(32 octets)");
    }

    /// What holds the octets wipes them, its spare capacity included; `zeroize` proves that about itself.
    #[test]
    fn the_octets_are_wiped_when_dropped() {
        fn wiped<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let secret = Secret::from(&b"key"[..]);
        wiped(&secret.0);
        wiped(&secret);
    }
}
