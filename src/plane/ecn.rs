//! ECN where a tunnel ends (RFC 6040 §4.2). Where it begins the outer field is a copy of the inner one (§4.1, normal mode).

/// The inner ECN field after decapsulation; `None` where the packet must be dropped: the network says "congestion" and the
/// inner packet's sender would not hear it. Only the low two bits of either argument count.
pub fn combine(inner: u8, outer: u8) -> Option<u8> {
    match (inner & MASK, outer & MASK) {
        (NOT_ECT, CE) => None,
        (NOT_ECT, _) => Some(NOT_ECT),
        (CE, _) | (_, CE) => Some(CE),
        (ECT1, _) | (_, ECT1) => Some(ECT1),
        (_, _) => Some(ECT0),
    }
}

/// The ECN bits of a traffic class.
pub const MASK: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT1: u8 = 0b01;
const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040, figure 4: rows are the inner field, columns the outer one.
    #[test]
    fn all_sixteen_cases() {
        let columns = [NOT_ECT, ECT0, ECT1, CE];
        let rows = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT0, [Some(ECT0), Some(ECT0), Some(ECT1), Some(CE)]),
            (ECT1, [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)]),
            (CE, [Some(CE), Some(CE), Some(CE), Some(CE)]),
        ];
        for (inner, results) in rows {
            for (outer, expected) in columns.into_iter().zip(results) {
                assert_eq!(combine(inner, outer), expected, "{inner:02b} in {outer:02b}");
                assert_eq!(combine(0xfc | inner, 0xb8 | outer), expected, "DSCP does not matter");
            }
        }
    }
}
