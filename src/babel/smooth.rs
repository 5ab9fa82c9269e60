//! A number that follows another one slowly (RFC 8966 A.3), without floating point: equal on every machine.

use std::time::Duration;

use crate::time::Time;

/// Follows a metric with the given half-life; in 256ths, so that the last unit is reached too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Smoothed {
    value: u32,
    at: Time,
}

impl Smoothed {
    pub(super) fn new(now: Time, value: u32) -> Smoothed {
        Smoothed { value: value.saturating_mul(UNIT), at: now }
    }

    /// The value at `now`, in 256ths, if `target` has been followed since the last [`Smoothed::follow`].
    pub(super) fn value(&self, now: Time, target: u16, half_life: Duration) -> u32 {
        let target = u32::from(target) * UNIT;
        let rest = halve(self.value.abs_diff(target), now.since(self.at), half_life);
        if self.value > target { target + rest } else { target - rest }
    }

    /// The lower of two that were fixed at the same time.
    pub(super) fn min(self, other: Smoothed) -> Smoothed {
        if other.value < self.value { other } else { self }
    }

    /// Fixes the value at `now`, before the target changes.
    pub(super) fn follow(&mut self, now: Time, target: u16, half_life: Duration) {
        *self = Smoothed { value: self.value(now, target, half_life), at: now };
    }
}

/// What is left of a difference: exact at whole half-lives, on a straight line between them.
fn halve(difference: u32, elapsed: Duration, half_life: Duration) -> u32 {
    let half_life = half_life.as_micros().max(1);
    let halves = u32::try_from(elapsed.as_micros() / half_life).unwrap_or(u32::MAX);
    let difference = u128::from(difference.checked_shr(halves).unwrap_or(0));
    let into = elapsed.as_micros() % half_life;
    u32::try_from(difference - difference * into / (2 * half_life)).unwrap_or(0)
}

/// In 256ths.
pub(super) const UNIT: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_arrives() {
        let half = Duration::from_secs(8);
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        let falling = Smoothed::new(at(0), 1000);
        assert_eq!(falling.value(at(0), 200, half), 1000 * 256);
        assert_eq!(falling.value(at(4), 200, half), 800 * 256);
        assert_eq!(falling.value(at(8), 200, half), 600 * 256);
        assert_eq!(falling.value(at(16), 200, half), 400 * 256);
        assert_eq!(falling.value(at(160), 200, half), 200 * 256);
        let mut rising = Smoothed::new(at(0), 0);
        rising.follow(at(8), 100, half);
        assert_eq!(rising.value(at(16), 0, half), 25 * 256);
        assert_eq!(Smoothed::new(at(9), 7).value(at(8), 7, half), 7 * 256, "a clock that stands still");
    }
}
