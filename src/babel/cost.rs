//! The cost of a link: (16 + RTT cost) ÷ delivery ratio, in whole numbers.

use std::time::Duration;

/// RFC 9616 §4: linear from 0 at 1 ms to 4000 at 1 s, and 4000 beyond, rounded to the nearest.
pub(super) fn rtt_cost(rtt: Duration) -> u32 {
    let over = rtt.clamp(RTT_MIN, RTT_MAX).saturating_sub(RTT_MIN).as_micros();
    let span = (RTT_MAX - RTT_MIN).as_micros();
    u32::try_from((u128::from(RTT_COST_MAX) * over + span / 2) / span).unwrap_or(RTT_COST_MAX)
}

/// What a packet pays on a link from which `received` of the last `expected` Hellos came; always finite.
///
/// A neighbour may ask for less traffic by a `txcost` above the usual 96, in that proportion (RFC 8966 §3.4.3); what is below
/// counts as usual, so that our own 16 and the 96 of BIRD and babeld mean the same.
pub(super) fn link_cost(rtt: Option<Duration>, received: u32, expected: u32, txcost: u16) -> u16 {
    let base = match rtt {
        Some(rtt) => u64::from(BASE + rtt_cost(rtt)),
        None => u64::from(USUAL),
    };
    let (received, expected) = (u64::from(received.max(1)), u64::from(expected.max(received).max(1)));
    let numerator = base * expected * u64::from(txcost.max(USUAL));
    let denominator = received * u64::from(USUAL);
    u16::try_from((numerator + denominator / 2) / denominator).unwrap_or(u16::MAX).min(u16::MAX - 1)
}

/// The cost that an IHU carries while we hear the neighbour (RFC 8966 A.2.1): free of RTT, which each side measures itself.
/// BIRD and babeld add their RTT penalty to it, as we do to our base cost, so that all count alike.
pub(super) const RXCOST: u16 = 16;

/// The `txcost` that asks for nothing special; also the cost of a link whose round-trip time is unknown, about that of 21 ms.
const USUAL: u16 = 96;
const BASE: u32 = RXCOST as u32;
const RTT_MIN: Duration = Duration::from_millis(1);
const RTT_MAX: Duration = Duration::from_secs(1);
const RTT_COST_MAX: u32 = 4000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_table() {
        let table = [
            (0, 16),
            (1, 16),
            (10, 52),
            (20, 92),
            (40, 172),
            (50, 212),
            (60, 252),
            (80, 332),
            (90, 372),
            (100, 412),
            (120, 492),
            (200, 813),
            (265, 1073),
            (1000, 4016),
            (60_000, 4016),
        ];
        for (milliseconds, cost) in table {
            assert_eq!(link_cost(Some(Duration::from_millis(milliseconds)), 16, 16, 96), cost, "{milliseconds} ms");
        }
    }

    #[test]
    fn grows_with_loss_and_stays_finite() {
        let rtt = Some(Duration::from_millis(40));
        assert_eq!(link_cost(rtt, 8, 16, 96), 344);
        assert_eq!(link_cost(rtt, 15, 16, 96), 183);
        assert_eq!(link_cost(rtt, 3, 3, 96), 172);
        assert_eq!(link_cost(rtt, 16, 16, 192), 344);
        assert_eq!(link_cost(rtt, 16, 16, 1), 172);
        assert_eq!(link_cost(None, 16, 16, 96), 96);
        assert_eq!(link_cost(Some(Duration::from_secs(60)), 0, 16, 0xfffe), 0xfffe);
    }
}
