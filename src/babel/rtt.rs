//! Round-trip times from the timestamps of Hello and IHU (RFC 9616 §3): no clock needs to be set, all is modulo 2³².

use std::time::Duration;

use crate::time::Time;
use crate::wire::babel::Stamps;

#[derive(Default)]
pub(super) struct Rtt {
    /// The neighbour's last Hello: its own stamp, and our clock at its arrival.
    hello: Option<(u32, Time)>,
    /// In microseconds, and when it was last confirmed.
    smoothed: Option<(u32, Time)>,
    /// How far samples are from the average, on average.
    deviation: u32,
    trend: Option<Trend>,
}

/// Samples in a row that all say that the path has changed.
///
/// Averaging alone takes half a minute to see that a path of 264 ms has become one of 4 ms, in many small changes that all have
/// to be told to the neighbours. Noise does not miss by a third, or on a quiet path by four times its usual deviation, on the
/// same side, three times in a row: then the middle one of these samples is believed, at once and whole. Before that, a sample
/// counts only as far as it is credible.
#[derive(Clone, Copy)]
struct Trend {
    rising: bool,
    /// The last ones but the newest, oldest first.
    earlier: [Option<u32>; 2],
}

impl Rtt {
    /// Takes what a packet carried: the stamp of its Hello and, for us, the stamps of its IHU. They count together only.
    pub(super) fn receive(&mut self, now: Time, hello: Option<u32>, ihu: Option<Stamps>) {
        let Some(stamp) = hello else { return };
        let before = self.hello.replace((stamp, now));
        if before.is_some_and(|(before, _)| stamp.wrapping_sub(before) > SANE) {
            // The neighbour's clock went back, or stood still for minutes: it restarted, or the packet is a late one.
            return;
        }
        if let Some(sample) = ihu.and_then(|ihu| sample(now, stamp, ihu)) {
            self.take(now, sample);
        }
    }

    /// What an IHU sent now tells the neighbour about its last Hello.
    pub(super) fn echo(&self, now: Time) -> Option<Stamps> {
        let (origin, arrival) = self.hello.filter(|(_, arrival)| now.since(*arrival) <= VALID)?;
        Some(Stamps { origin, receive: arrival.stamp() })
    }

    /// `None` without any sample in the last three minutes.
    pub(super) fn smoothed(&self, now: Time) -> Option<Duration> {
        let (micros, at) = self.smoothed?;
        (now.since(at) <= VALID).then(|| Duration::from_micros(u64::from(micros)))
    }

    fn take(&mut self, now: Time, sample: u32) {
        let Some((old, _)) = self.smoothed.filter(|(_, at)| now.since(*at) <= VALID) else {
            self.trend = None;
            self.deviation = sample / 12;
            self.smoothed = Some((sample, now));
            return;
        };
        let quiet = self.deviation < QUIET;
        let credible = NOISE + if quiet { (4 * self.deviation).min(old / 3) } else { old / 3 };
        let (rising, distance) = (sample > old, sample.abs_diff(old));
        let trend = self.trend.filter(|trend| trend.rising == rising);
        let [first, second] = trend.map_or([None, None], |trend| trend.earlier);
        let value = if distance <= credible {
            self.trend = None;
            self.deviates(distance);
            smooth(old, sample)
        } else if let (Some(first), Some(second)) = (first, second) {
            self.trend = None;
            middle(first, second, sample)
        } else {
            if self.trend.is_some_and(|trend| trend.rising != rising) {
                // Once too high, then too low: it is noise that has grown.
                self.deviates(distance);
            }
            self.trend = Some(Trend { rising, earlier: [second, Some(sample)] });
            smooth(old, sample.clamp(old.saturating_sub(credible), old.saturating_add(credible)))
        };
        self.smoothed = Some((value, now));
    }

    fn deviates(&mut self, distance: u32) {
        self.deviation = self.deviation - self.deviation / 8 + distance / 8;
    }
}

fn middle(a: u32, b: u32, c: u32) -> u32 {
    a.min(b).max(a.max(b).min(c))
}

/// RFC 9616 §3: the time since our Hello left, less the time the neighbour kept it; `None` if that cannot be true.
fn sample(now: Time, hello: u32, ihu: Stamps) -> Option<u32> {
    let ours = now.stamp().wrapping_sub(ihu.origin);
    let theirs = hello.wrapping_sub(ihu.receive);
    // Clocks of unequal speed may make a short round trip negative.
    (ours <= SANE && theirs <= SANE).then(|| ours.saturating_sub(theirs))
}

fn smooth(old: u32, sample: u32) -> u32 {
    let step = u64::from(old.abs_diff(sample)) * NEW_PER_256 / 256;
    let step = u32::try_from(step).unwrap_or(0);
    if sample > old { old + step } else { old - step }
}

/// RFC 9616 §3: older or later than three minutes is not a measurement.
const VALID: Duration = Duration::from_secs(180);
const SANE: u32 = 180_000_000;
/// RFC 9616 §4: α = 0.836.
const NEW_PER_256: u64 = 42;
/// Microseconds that scheduling alone may add.
const NOISE: u32 = 2_000;
/// A path whose samples deviate by less than this, on average, is quiet.
const QUIET: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// A neighbour whose clock is `offset` ahead of ours keeps our Hello 100 ms.
    fn exchange(rtt: &mut Rtt, now: Time, trip: u32, offset: u32) {
        let hello = now.stamp().wrapping_sub(trip / 2).wrapping_add(offset);
        let origin = now.stamp().wrapping_sub(trip).wrapping_sub(100_000);
        rtt.receive(now, Some(hello), Some(Stamps { origin, receive: hello.wrapping_sub(100_000) }));
    }

    #[test]
    fn smooths_as_computed() {
        let mut value = 40_000;
        for expected in [66_250, 88_193, 106_536, 121_869, 134_687] {
            value = smooth(value, 200_000);
            assert_eq!(value, expected);
        }
        assert_eq!(smooth(200_000, 40_000), 173_750);
    }

    #[test]
    fn measures_across_the_wrap_of_either_clock() {
        // 20 s before our microseconds wrap; the neighbour's wrap 30 s later than ours.
        let start = Time::from_micros((1 << 32) - 20_000_000);
        let mut rtt = Rtt::default();
        for step in 0..20 {
            let now = start + Duration::from_secs(4 * step);
            exchange(&mut rtt, now, 24_000, 0_u32.wrapping_sub(30_000_000));
            assert_eq!(rtt.smoothed(now), Some(Duration::from_millis(24)), "step {step}");
        }
    }

    #[test]
    fn impossible_samples_are_skipped() {
        let now = seconds(1000);
        let sample = |origin: u32, receive: u32, hello: u32| {
            let mut rtt = Rtt::default();
            rtt.receive(now, Some(hello), Some(Stamps { origin, receive }));
            rtt.smoothed(now).map(|rtt| rtt.as_micros())
        };
        assert_eq!(sample(999_980_000, 5, 5), Some(20_000));
        assert_eq!(sample(1_000_000_001, 5, 5), None, "our Hello comes from the future");
        assert_eq!(sample(760_000_000, 5, 5), None, "our Hello is four minutes old");
        assert_eq!(sample(999_980_000, 6, 5), None, "it answered before it received");
        assert_eq!(sample(999_980_000, 0, 50_000), Some(0), "it kept the Hello longer than the trip took");
        assert_eq!(sample(940_000_000, 5, 5), Some(60_000_000));
        assert_eq!(sample(1_000_000_000, 5, 5), Some(0));
        let mut rtt = Rtt::default();
        rtt.receive(now, None, Some(Stamps { origin: 999_980_000, receive: 5 }));
        assert!(rtt.smoothed(now).is_none() && rtt.echo(now).is_none(), "no stamped Hello in the same packet");
    }

    #[test]
    fn a_restarted_neighbour_costs_one_sample() {
        let mut rtt = Rtt::default();
        exchange(&mut rtt, seconds(500), 20_000, 0);
        exchange(&mut rtt, seconds(504), 90_000, 0_u32.wrapping_sub(490_000_000));
        assert_eq!(rtt.smoothed(seconds(504)), Some(Duration::from_millis(20)));
        assert_eq!(rtt.echo(seconds(504)).unwrap().receive, 504_000_000);
        exchange(&mut rtt, seconds(508), 20_000, 0_u32.wrapping_sub(490_000_000));
        assert_eq!(rtt.smoothed(seconds(508)), Some(Duration::from_millis(20)));
    }

    #[test]
    fn believes_a_large_lasting_change_at_the_third_sample() {
        let mut rtt = Rtt::default();
        exchange(&mut rtt, seconds(0), 264_000, 0);
        for (at, trip) in [(4, 6_000), (8, 4_000), (12, 5_000)] {
            assert!(rtt.smoothed(seconds(at)).unwrap() > Duration::from_millis(180), "{at}");
            exchange(&mut rtt, seconds(at), trip, 0);
        }
        assert_eq!(rtt.smoothed(seconds(12)), Some(Duration::from_millis(5)));
    }

    /// On a path that is always the same, ten milliseconds are no noise.
    #[test]
    fn believes_a_small_lasting_change_of_a_quiet_path() {
        let mut rtt = Rtt::default();
        for step in 0..20 {
            exchange(&mut rtt, seconds(4 * step), 60_000 + 500 * u32::try_from(step % 3).unwrap(), 0);
        }
        for (at, trip) in [(80, 50_000), (84, 50_500)] {
            exchange(&mut rtt, seconds(at), trip, 0);
            assert!(rtt.smoothed(seconds(at)).unwrap() > Duration::from_millis(57), "{at}");
        }
        exchange(&mut rtt, seconds(88), 50_200, 0);
        assert_eq!(rtt.smoothed(seconds(88)), Some(Duration::from_micros(50_200)));
    }

    #[test]
    fn outliers_count_little() {
        let mut rtt = Rtt::default();
        for (step, trip) in (0..60).zip([60_000, 300_000, 300_000, 55_000, 65_000, 48_000].into_iter().cycle()) {
            exchange(&mut rtt, seconds(4 * step), trip, 0);
            assert!(rtt.smoothed(seconds(4 * step)).unwrap() < Duration::from_millis(80));
        }
    }

    #[test]
    fn forgets_after_three_minutes() {
        let mut rtt = Rtt::default();
        exchange(&mut rtt, seconds(0), 20_000, 0);
        assert!(rtt.smoothed(seconds(180)).is_some() && rtt.echo(seconds(180)).is_some());
        assert!(rtt.smoothed(seconds(181)).is_none() && rtt.echo(seconds(181)).is_none());
    }
}
