//! Hex for test vectors.

/// Blanks are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    let (pairs, rest) = digits.as_chunks();
    assert!(rest.is_empty(), "odd number of digits");
    pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low).unwrap()).collect()
}
