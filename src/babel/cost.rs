//! The cost of a link: (16 + RTT cost) ÷ delivery ratio, in whole numbers.

use std::time::Duration;

use crate::config::plan::Tuning;

impl Tuning {
    /// Rounded to the nearest.
    fn rtt_cost(&self, rtt: Duration) -> u64 {
        let span = self.rtt_max.saturating_sub(self.rtt_min).as_micros();
        let over = rtt.saturating_sub(self.rtt_min).as_micros().min(span);
        let most = u128::from(self.rtt_cost);
        // Without a span it is a step.
        let cost = (most * over + span / 2).checked_div(span);
        u64::try_from(cost.unwrap_or(if rtt > self.rtt_min { most } else { 0 })).unwrap_or(u64::from(self.rtt_cost))
    }

    /// What a packet pays on a link from which `received` of the last `expected` Hellos came; always finite.
    ///
    /// A neighbour may ask for less traffic by a `txcost` above the usual 96, in that proportion (RFC 8966 §3.4.3); what is
    /// below counts as usual, so that our own 16 and the 96 of BIRD and babeld mean the same.
    pub(super) fn link_cost(&self, rtt: Option<Duration>, received: u32, expected: u32, txcost: u16) -> u16 {
        let base = match rtt {
            Some(rtt) => u64::from(BASE) + self.rtt_cost(rtt),
            None => u64::from(USUAL),
        };
        let (received, expected) = (u64::from(received.max(1)), u64::from(expected.max(received).max(1)));
        let numerator = base * expected * u64::from(txcost.max(USUAL));
        let denominator = received * u64::from(USUAL);
        u16::try_from((numerator + denominator / 2) / denominator).unwrap_or(u16::MAX).min(u16::MAX - 1)
    }
}

const BASE: u16 = 16;
/// The `txcost` that asks for nothing special; also the cost of a link whose round-trip time is unknown, about that of 21 ms.
const USUAL: u16 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn link_cost(rtt: Option<Duration>, received: u32, expected: u32, txcost: u16) -> u16 {
        Tuning::default().link_cost(rtt, received, expected, txcost)
    }

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

    /// RFC 9616 §4 with its own parameters: 10 ms, 120 ms, 150.
    #[test]
    fn counts_as_it_is_told() {
        let (rtt_min, rtt_max) = (Duration::from_millis(10), Duration::from_millis(120));
        let tuning = Tuning { rtt_min, rtt_max, rtt_cost: 150, ..Tuning::default() };
        for (milliseconds, cost) in [(9, 0), (10, 0), (40, 41), (65, 75), (80, 95), (120, 150), (900, 150)] {
            assert_eq!(tuning.link_cost(Some(Duration::from_millis(milliseconds)), 1, 1, 96), 16 + cost);
        }
        let step = Tuning { rtt_max: rtt_min, ..tuning };
        assert_eq!([10, 11].map(|ms| step.link_cost(Some(Duration::from_millis(ms)), 1, 1, 96)), [16, 166]);
        let flat = Tuning { rtt_cost: 0, ..tuning };
        assert_eq!(flat.link_cost(Some(Duration::from_secs(9)), 1, 1, 96), 16);
    }
}
