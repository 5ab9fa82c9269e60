//! NAT detection (RFC 7296 §2.23).
//!
//! wattle has no ESP outside UDP. So its NAT_DETECTION_SOURCE_IP never fits: the peer takes us for one behind a NAT and must
//! encapsulate, which is what "forced UDP encapsulation" means everywhere. NAT_DETECTION_DESTINATION_IP is true.

use std::net::{IpAddr, SocketAddr};

use super::payloads;
use crate::crypto::digest::sha1;
use crate::crypto::rng::Rng;
use crate::wire::ike::{Notify, NotifyType, Payload};

/// The SPIs of an IKE SA, as the message that carries the notifies has them.
#[derive(Clone, Copy)]
pub(super) struct Spis {
    pub(super) initiator: u64,
    pub(super) responder: u64,
}

/// The two notifies of a message to `remote`.
pub(super) fn notifies(spis: Spis, remote: SocketAddr, rng: &mut Rng) -> [Payload; 2] {
    let source: [u8; 20] = rng.array();
    [
        Payload::Notify(Notify::new(NotifyType::NAT_DETECTION_SOURCE_IP, source)),
        Payload::Notify(Notify::new(NotifyType::NAT_DETECTION_DESTINATION_IP, hash(spis, remote))),
    ]
}

/// Whether the peer's notifies say that we are behind a NAT; `local` is the address on which the message arrived, if known.
///
/// A peer without NAT detection says nothing. Not knowing our own address counts as a NAT: a needless keepalive costs an octet.
pub(super) fn behind_nat(payloads: &[Payload], spis: Spis, local: Option<SocketAddr>) -> bool {
    let Some(destination) = payloads::notify(payloads, NotifyType::NAT_DETECTION_DESTINATION_IP) else { return false };
    local.is_none_or(|local| destination.data != hash(spis, local))
}

fn hash(spis: Spis, address: SocketAddr) -> [u8; 20] {
    let port = address.port().to_be_bytes();
    let (initiator, responder) = (spis.initiator.to_be_bytes(), spis.responder.to_be_bytes());
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => sha1(&[&initiator, &responder, &v4.octets(), &port]),
        IpAddr::V6(v6) => sha1(&[&initiator, &responder, &v6.octets(), &port]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// Computed by an independent implementation.
    #[test]
    fn hashes_match_the_vectors() {
        let request = Spis { initiator: 0x0102_0304_0506_0708, responder: 0 };
        assert_eq!(hex(&hash(request, "192.0.2.1:500".parse().unwrap())), "644b4575455bd6fcc1efe2be8162a9218e448e5f");
        let response = Spis { responder: 0x1112_1314_1516_1718, ..request };
        let address = "[2001:db8::1]:4500".parse().unwrap();
        assert_eq!(hex(&hash(response, address)), "1ee24423bf8f59515e0265c6d0f08be3d038f7e5");
    }

    #[test]
    fn the_destination_tells_and_the_source_never_fits() {
        let spis = Spis { initiator: 1, responder: 2 };
        let remote: SocketAddr = "192.0.2.1:4500".parse().unwrap();
        let sent = notifies(spis, remote, &mut Rng::from_number(1));
        assert!(!behind_nat(&sent, spis, Some(remote)));
        assert!(behind_nat(&sent, spis, Some("10.0.0.1:4500".parse().unwrap())));
        assert!(behind_nat(&sent, spis, Some("192.0.2.1:4501".parse().unwrap())));
        assert!(behind_nat(&sent, spis, None));
        assert!(!behind_nat(&[], spis, None));
        let Payload::Notify(source) = &sent[0] else { panic!("a notify") };
        assert_ne!(source.data, hash(spis, remote));
    }
}
