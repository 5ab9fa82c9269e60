//! Names a node derives from its keys: its Babel router-id and the link-local addresses of its tunnels.
//!
//! Nothing on the wire depends on the rule: peers learn both from what they receive. It only has to be stable over
//! restarts, distinct, and different at the two ends of a tunnel.

use std::net::Ipv6Addr;

use crate::crypto::digest::sha256;
use crate::crypto::sign::PublicKey;

/// The router-id (RFC 8966 §2.4): eight octets that no other node has, never all zeros or all ones.
pub(super) fn router_id(key: &PublicKey) -> [u8; 8] {
    let id = first8(&sha256(&[b"babel-id", key.as_bytes()]));
    if id == [0; 8] || id == [0xff; 8] { *b"\0wattle\0" } else { id }
}

/// Our link-local address on tunnel number `index` to `peer`: an interface identifier that claims no global uniqueness
/// (RFC 4291 §2.5.1).
pub(super) fn link_local(own: &PublicKey, peer: &PublicKey, index: u32) -> Ipv6Addr {
    let mut id = first8(&sha256(&[b"babel-ll", own.as_bytes(), peer.as_bytes(), &index.to_be_bytes()]));
    id[0] &= !0x02;
    if id == [0; 8] {
        id[7] = 1;
    }
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    octets[8..].copy_from_slice(&id);
    Ipv6Addr::from(octets)
}

fn first8(digest: &[u8; 32]) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&digest[..8]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::sign::PrivateKey;

    #[test]
    fn the_two_ends_and_every_index_differ() {
        let (a, b) = (PrivateKey::from_seed(&[1; 32]).public(), PrivateKey::from_seed(&[2; 32]).public());
        let all = [link_local(&a, &b, 0), link_local(&b, &a, 0), link_local(&a, &b, 1)];
        assert!(all.iter().all(|address| address.is_unicast_link_local()));
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        assert_ne!(router_id(&a), router_id(&b));
        assert_eq!(router_id(&a), router_id(&a));
    }
}
