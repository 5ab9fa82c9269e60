//! What a datagram on an IKE/ESP port is (RFC 3948 §2): one octet keeps a NAT open, four zero octets announce IKE, anything
//! else begins with an SPI. On port 500 there is nothing but IKE, and no marker.
#![warn(clippy::indexing_slicing)]

use std::net::SocketAddr;

/// Where IKE begins, unless somebody knows better (RFC 7296 §2), and where it goes on, with ESP (§2.23).
pub const IKE_PORT: u16 = 500;
pub const NAT_TRAVERSAL_PORT: u16 = 4500;

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

/// Whether datagrams between these two ports are IKE messages without marker. A NAT may have changed the peer's port, so
/// that either of them tells; strongSwan and others go by the same rule.
pub fn is_bare(local: Option<u16>, remote: u16) -> bool {
    remote == IKE_PORT || local == Some(IKE_PORT)
}

/// Where a session that begins at this address goes on.
pub fn floated(remote: SocketAddr) -> SocketAddr {
    let port = if remote.port() == IKE_PORT { NAT_TRAVERSAL_PORT } else { remote.port() };
    SocketAddr::new(remote.ip(), port)
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
    fn port_500_at_either_end_has_no_marker_and_moves_on() {
        assert!(is_bare(Some(4500), 500) && is_bare(Some(500), 61000) && is_bare(None, 500));
        assert!(!is_bare(Some(4500), 4500) && !is_bare(None, 4500) && !is_bare(Some(14500), 61000));
        assert_eq!(floated("[2001:db8::1]:500".parse().unwrap()), "[2001:db8::1]:4500".parse().unwrap());
        assert_eq!(floated("192.0.2.1:14500".parse().unwrap()), "192.0.2.1:14500".parse().unwrap());
    }

    #[test]
    fn fewer_than_four_octets_are_nothing() {
        for length in 0..4 {
            assert_eq!(classify(&[0, 0, 0][..length.min(3)]), Kind::Runt, "{length} octets");
        }
    }
}
