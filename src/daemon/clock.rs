//! The system's monotonic clock as [`Time`] since the start of the daemon, and back.

use std::time::{Duration, Instant};

use crate::time::Time;

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { start: Clock::instant() }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the daemon's clock")]
    pub(super) fn instant() -> Instant {
        Instant::now()
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO + Clock::instant().duration_since(self.start)
    }

    /// The moment at which the clock shows `time`; `None` beyond what the system can express.
    pub(super) fn at(&self, time: Time) -> Option<Instant> {
        self.start.checked_add(Duration::from_micros(time.micros()))
    }
}
