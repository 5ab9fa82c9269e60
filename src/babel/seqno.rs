//! Sequence numbers compare modulo 2¹⁶ (RFC 8966 §3.2.1).

/// Whether `a` comes after `b`.
pub(super) fn is_newer(a: u16, b: u16) -> bool {
    (1..0x8000).contains(&a.wrapping_sub(b))
}

#[cfg(test)]
mod tests {
    use super::is_newer;

    #[test]
    fn wraps() {
        assert!(is_newer(1, 0) && is_newer(0, 0xffff) && is_newer(0x7fff, 0) && is_newer(0x0100, 0xff00));
        assert!(!is_newer(0, 0) && !is_newer(0, 1) && !is_newer(0x8000, 0) && !is_newer(0, 0x8000));
    }
}
