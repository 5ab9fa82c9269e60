//! What a datagram on an IKE/ESP port is (RFC 3948 §2): one octet keeps a NAT open, four zero octets announce IKE, anything
//! else begins with an SPI.
#![warn(clippy::indexing_slicing)]

/// Stands where ESP has its SPI, which is never zero (RFC 3948 §2.2).
pub const NON_ESP_MARKER: [u8; 4] = [0; 4];

/// A whole NAT keepalive (RFC 3948 §2.3).
pub const KEEPALIVE: [u8; 1] = [0xff];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    Keepalive,
    /// An IKE message; the marker is already off.
    Ike(&'a [u8]),
    /// ESP: the datagram as it is.
    Esp,
    /// Too short to be any of them.
    Runt,
}

/// Tells what a datagram is, from its first octets and its length only.
pub fn classify(datagram: &[u8]) -> Kind<'_> {
    if datagram == KEEPALIVE {
        return Kind::Keepalive;
    }
    match datagram.split_first_chunk::<4>() {
        Some((&NON_ESP_MARKER, message)) if !message.is_empty() => Kind::Ike(message),
        Some((spi, rest)) if *spi != NON_ESP_MARKER && rest.len() >= SEQUENCE_LEN => Kind::Esp,
        Some(_) | None => Kind::Runt,
    }
}

const SEQUENCE_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_octet_is_a_keepalive_only_if_it_is_ff() {
        assert_eq!(classify(&[0xff]), Kind::Keepalive);
        assert_eq!(classify(&[0x00]), Kind::Runt);
        assert_eq!(classify(&[0xff, 0xff]), Kind::Runt);
    }

    #[test]
    fn the_marker_announces_ike() {
        assert_eq!(classify(&[0, 0, 0, 0, 7, 8]), Kind::Ike(&[7, 8]));
        assert_eq!(classify(&[0, 0, 0, 0]), Kind::Runt);
    }

    #[test]
    fn an_spi_needs_a_sequence_number_behind_it() {
        assert_eq!(classify(&[0, 0, 1, 0, 0, 0, 0, 1]), Kind::Esp);
        assert_eq!(classify(&[0, 0, 1, 0, 0, 0, 0]), Kind::Runt);
        assert_eq!(classify(&[0xff; 8]), Kind::Esp);
    }

    #[test]
    fn fewer_than_four_octets_are_nothing() {
        for length in 0..4 {
            assert_eq!(classify(&[0, 0, 0][..length.min(3)]), Kind::Runt, "{length} octets");
        }
    }
}
