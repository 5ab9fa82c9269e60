//! Plain hashes: SHA-1 for NAT detection (RFC 7296 §2.23), SHA-256 for fingerprints and cookies.

/// `SHA-1(parts[0] | parts[1] | …)`. Fit for NAT detection only.
pub fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let _ = parts;
    todo!()
}

pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let _ = parts;
    todo!()
}
