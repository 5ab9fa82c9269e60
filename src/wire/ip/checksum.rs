//! The Internet checksum: the one's complement sum of 16-bit words (RFC 1071), and its adjustment (RFC 1624).

use std::net::Ipv6Addr;

/// A sum under way. Pieces are added as if they stood one behind the other, each but the last of an even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The pseudo-header of IPv6 (RFC 8200 §8.1): `length` is that of the upper-layer packet.
    pub fn pseudo6(source: Ipv6Addr, destination: Ipv6Addr, length: u32, protocol: u8) -> Sum {
        let sum = Sum::default().plus(&source.octets()).plus(&destination.octets());
        Sum(sum.0 + u64::from(length) + u64::from(protocol))
    }

    #[must_use]
    pub fn plus(self, octets: &[u8]) -> Sum {
        let (words, tail) = octets.as_chunks::<4>();
        // 2³² words fit before it overflows: a sum of 32-bit words folds to the same as one of 16-bit words. It is made in
        // the machine's own order, which the compiler has vector instructions for, and turned once (RFC 1071 §2 (B)).
        let native = words.iter().fold(0, |sum, &word| sum + u64::from(u32::from_ne_bytes(word)));
        let mut sum = self.0 + u64::from(u16::from_be_bytes(fold(native).to_ne_bytes()));
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(tail) {
            *to = *from;
        }
        sum += u64::from(u32::from_be_bytes(last));
        Sum(sum)
    }

    /// The checksum; zero if the octets held a right one already.
    pub fn finish(self) -> u16 {
        !fold(self.0)
    }
}

/// The checksum after one 16-bit word changed (RFC 1624 §3, equation 3).
pub fn adjust(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(folded) => return folded,
            Err(_) => sum = (sum & 0xffff) + (sum >> 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn example_of_rfc_1071() {
        // §3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        assert_eq!(Sum::default().plus(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).finish(), !0xddf2);
    }

    #[test]
    fn nothing_sums_to_nothing() {
        assert_eq!(Sum::default().finish(), 0xffff);
        assert_eq!(Sum::default().plus(&[0xff; 40]).finish(), 0);
    }

    proptest! {
        #[test]
        fn equals_the_definition_at_every_length(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut sum = 0_u32;
            for pair in octets.chunks(2) {
                sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                sum = (sum & 0xffff) + (sum >> 16);
            }
            prop_assert_eq!(u32::from(Sum::default().plus(&octets).finish()), !sum & 0xffff);
        }

        #[test]
        fn pieces_of_even_length_add_up(octets in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..100_usize) {
            let cut = (cut * 2).min(octets.len() & !1);
            let pieces = Sum::default().plus(&octets[..cut]).plus(&octets[cut..]);
            prop_assert_eq!(pieces.finish(), Sum::default().plus(&octets).finish());
        }
    }
}
