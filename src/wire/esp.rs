//! The layout of an ESP packet with an AEAD cipher (RFC 4303 §2, RFC 4106 §3, RFC 7634 §2), without ESN:
//!
//! ```text
//! SPI 4 | sequence number 4 | IV 8 | encrypted( payload [TFC] | padding 0–255 | pad length 1 | next header 1 ) | ICV 16
//! ```
#![warn(clippy::indexing_slicing)]

/// SPI, sequence number and explicit IV.
pub const HEADER_LEN: usize = 16;
pub const IV_LEN: usize = 8;
pub const ICV_LEN: usize = 16;
/// What the ICV covers besides the encrypted part: SPI and sequence number (RFC 4106 §5, RFC 7634 §2.1).
pub const AAD_LEN: usize = 8;

/// Octets of the ESP packet for a payload of `inner` octets, with the least padding (RFC 4303 §2.4).
pub const fn sealed_len(inner: usize) -> usize {
    HEADER_LEN + (inner + TRAILER_LEN).next_multiple_of(4) + ICV_LEN
}

/// An ESP packet taken apart; nothing of it is authenticated yet.
#[derive(Debug)]
pub struct Parts<'a> {
    pub sequence: u32,
    pub aad: [u8; AAD_LEN],
    pub iv: [u8; IV_LEN],
    pub encrypted: &'a mut [u8],
    pub icv: [u8; ICV_LEN],
}

/// The SPI, which names the SA.
pub fn spi(packet: &[u8]) -> Option<u32> {
    packet.first_chunk().copied().map(u32::from_be_bytes)
}

/// Takes a packet apart; `None` if it is too short to hold the trailer.
pub fn split(packet: &mut [u8]) -> Option<Parts<'_>> {
    let (&mut aad, rest) = packet.split_first_chunk_mut::<AAD_LEN>()?;
    let (&mut iv, rest) = rest.split_first_chunk_mut::<IV_LEN>()?;
    let (encrypted, &mut icv) = rest.split_last_chunk_mut::<ICV_LEN>()?;
    let [_, _, _, _, sequence @ ..] = aad;
    (encrypted.len() >= TRAILER_LEN).then_some(Parts {
        sequence: u32::from_be_bytes(sequence),
        aad,
        iv,
        encrypted,
        icv,
    })
}

/// SPI and sequence number as they stand on the wire, which is also the AAD.
pub fn aad(spi: u32, sequence: u32) -> [u8; AAD_LEN] {
    ((u64::from(spi) << 32) | u64::from(sequence)).to_be_bytes()
}

/// Padding, pad length and next header for a payload of `inner` octets.
pub fn push_trailer(packet: &mut Vec<u8>, inner: usize, next_header: u8) {
    let trailer: &[u8] = match (inner + TRAILER_LEN) % 4 {
        0 => &[0],
        1 => &[1, 2, 3, 3],
        2 => &[1, 2, 2],
        _ => &[1, 1],
    };
    packet.extend_from_slice(trailer);
    packet.push(next_header);
}

/// The length of the payload (with TFC padding, if any) and the next header, of a decrypted part.
///
/// `None` if the padding is longer than the content or is not 1, 2, 3 … (RFC 4303 §2.4).
pub fn parse_trailer(plain: &[u8]) -> Option<(usize, u8)> {
    let (rest, &[pad_length, next_header]) = plain.split_last_chunk::<TRAILER_LEN>()?;
    let payload = rest.len().checked_sub(usize::from(pad_length))?;
    let padding = rest.get(payload..)?;
    padding.iter().copied().eq(1..=pad_length).then_some((payload, next_header))
}

/// Pad length and next header.
const TRAILER_LEN: usize = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_of_the_table_for_a_path_of_1500_octets() {
        assert_eq!(sealed_len(1438) + 28, 1500);
        assert_eq!(sealed_len(1418) + 48, 1500);
        assert!(sealed_len(1439) + 28 > 1500);
        assert_eq!(sealed_len(1430) + 28, 1492);
        assert_eq!(sealed_len(1198) + 48, 1280);
    }

    #[test]
    fn every_trailer_ends_on_a_word_and_is_read_back() {
        for inner in 0..64 {
            let mut plain = vec![0xab; inner];
            push_trailer(&mut plain, inner, 41);
            assert_eq!(plain.len() % 4, 0);
            assert_eq!(HEADER_LEN + plain.len() + ICV_LEN, sealed_len(inner));
            assert_eq!(parse_trailer(&plain), Some((inner, 41)));
        }
    }

    #[test]
    fn longer_padding_than_needed_is_fine_and_a_lie_is_not() {
        let long: Vec<u8> = (1..=255).chain([255, 59]).collect();
        assert_eq!(parse_trailer(&long), Some((0, 59)));
        assert_eq!(parse_trailer(&long[1..]), None, "longer than the content");
        assert_eq!(parse_trailer(&[9, 1, 3, 2, 4]), None, "padding that is not 1, 2");
        assert_eq!(parse_trailer(&[4]), None);
        assert_eq!(parse_trailer(&[0, 4]), Some((0, 4)));
    }

    #[test]
    fn a_packet_is_taken_apart_where_the_rfc_says() {
        let mut packet: Vec<u8> = (0..36).collect();
        assert_eq!(spi(&packet), Some(0x0001_0203));
        let parts = split(&mut packet).unwrap();
        assert_eq!(parts.sequence, 0x0405_0607);
        assert_eq!(parts.aad, aad(0x0001_0203, 0x0405_0607));
        assert_eq!(parts.iv, [8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(parts.encrypted, [16, 17, 18, 19]);
        assert_eq!(parts.icv[0], 20);
        assert!(split(&mut packet[..33]).is_none());
        assert!(split(&mut packet[..34]).is_some());
    }

    proptest! {
        #[test]
        fn no_input_panics(mut octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_trailer(&octets);
            let _ = spi(&octets);
            let _ = split(&mut octets);
        }
    }
}
