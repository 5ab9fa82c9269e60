//! Monotonic time as a plain number, so that the core is a pure function of its inputs.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Microseconds since an origin of the caller's choice (the daemon: its own start; the simulation: zero).
///
/// Only differences mean anything. Nothing in wattle depends on wall-clock time: routers boot without one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Time = Time(0);

    pub const fn from_micros(micros: u64) -> Time {
        Time(micros)
    }

    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The time since `earlier`, zero if that lies in the future.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The clock as Babel's timestamps carry it: microseconds modulo 2³² (RFC 9616 §3).
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2³² is the format")]
    pub const fn stamp(self) -> u32 {
        self.0 as u32
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, rhs: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
