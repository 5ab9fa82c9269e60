//! Plain hashes: SHA-1 for NAT detection (RFC 7296 §2.23), SHA-256 for fingerprints and cookies.

use sha2::digest::Digest;

/// `SHA-1(parts[0] | parts[1] | …)`. Fit for NAT detection only.
pub fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    hash::<sha1::Sha1>(parts).finalize().into()
}

pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    hash::<sha2::Sha256>(parts).finalize().into()
}

fn hash<D: Digest>(parts: &[&[u8]]) -> D {
    parts.iter().fold(D::new(), D::chain_update)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nat_detection_hashes() {
        let spis = 0x0102_0304_0506_0708_u64.to_be_bytes();
        let v4 = sha1(&[&spis, &[0; 8], &[192, 0, 2, 1], &500_u16.to_be_bytes()]);
        assert_eq!(v4, *b"\x64\x4b\x45\x75\x45\x5b\xd6\xfc\xc1\xef\xe2\xbe\x81\x62\xa9\x21\x8e\x44\x8e\x5f");
        let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets();
        let responder = 0x1112_1314_1516_1718_u64.to_be_bytes();
        let v6 = sha1(&[&spis, &responder, &address, &4500_u16.to_be_bytes()]);
        assert_eq!(v6, *b"\x1e\xe2\x44\x23\xbf\x8f\x59\x51\x5e\x02\x65\xc6\xd0\xf0\x8b\xe3\xd0\x38\xf7\xe5");
    }

    #[test]
    fn parts_are_one_message() {
        assert_eq!(sha256(&[b"ab", b"", b"c"]), sha256(&[b"abc"]));
        assert_eq!(sha256(&[b"abc"])[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
