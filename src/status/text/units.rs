//! Numbers as a person reads them.

/// `34s`, `7m`, `5h`, `3d`: the largest unit alone.
pub(super) fn age(us: u64) -> String {
    let (count, unit, _) = largest(us / 1_000_000);
    format!("{count}{unit}")
}

/// `34s`, `7m 12s`, `3d 4h`: the two largest units.
pub(super) fn duration(us: u64) -> String {
    let (count, unit, rest) = largest(us / 1_000_000);
    match largest(rest) {
        (0, ..) => format!("{count}{unit}"),
        (second, smaller, _) => format!("{count}{unit} {second}{smaller}"),
    }
}

fn largest(seconds: u64) -> (u64, char, u64) {
    for (unit, name) in [(86_400, 'd'), (3600, 'h'), (60, 'm')] {
        if seconds >= unit {
            return (seconds / unit, name, seconds % unit);
        }
    }
    (seconds, 's', 0)
}

/// `0.42 ms`, `2.4 ms`, `265 ms`, `12 s`.
pub(super) fn rtt(us: Option<u64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 1000 => format!("0.{:02} ms", us / 10),
        Some(us) if us < 10_000 => format!("{}.{} ms", us / 1000, us / 100 % 10),
        Some(us) if us < 10_000_000 => format!("{} ms", us / 1000),
        Some(us) => format!("{} s", us / 1_000_000),
    }
}

/// `0 %`, `<1 %`, `12 %`.
pub(super) fn percent(share: Option<f32>) -> String {
    match share {
        None => "-".to_owned(),
        Some(share) if share > 0.0 && share < 0.01 => "<1 %".to_owned(),
        Some(share) => format!("{:.0} %", share.clamp(0.0, 1.0) * 100.0),
    }
}

/// `980`, `4.1 k`, `310 M`, `1.2 G`; powers of 1000.
pub(super) fn amount(count: u64) -> String {
    let mut unit: u64 = 1;
    for letter in ["", " k", " M", " G", " T", " P"] {
        let whole = count / unit;
        if whole < 1000 {
            let tenth = count % unit * 10 / unit;
            return if whole < 10 && unit > 1 {
                format!("{whole}.{tenth}{letter}")
            } else {
                format!("{whole}{letter}")
            };
        }
        unit *= 1000;
    }
    format!("{} E", count / unit)
}

/// `124 Mbit/s`.
pub(super) fn rate(bits: u64) -> String {
    let text = amount(bits);
    if text.contains(' ') { format!("{text}bit/s") } else { format!("{text} bit/s") }
}

/// `1 peer`, `5 peers`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_durations() {
        let second = 1_000_000;
        assert_eq!(age(0), "0s");
        assert_eq!(age(59 * second), "59s");
        assert_eq!(age(3599 * second), "59m");
        assert_eq!(age(100 * 3600 * second), "4d");
        assert_eq!(duration(34 * second), "34s");
        assert_eq!(duration(60 * second), "1m");
        assert_eq!(duration((3 * 86_400 + 4 * 3600 + 59) * second), "3d 4h");
        assert_eq!(duration((86_400 + 59) * second), "1d 59s");
        assert_eq!(age(u64::MAX), "213503982d");
    }

    #[test]
    fn round_trip_times() {
        assert_eq!(rtt(None), "-");
        assert_eq!(rtt(Some(0)), "0.00 ms");
        assert_eq!(rtt(Some(420)), "0.42 ms");
        assert_eq!(rtt(Some(2449)), "2.4 ms");
        assert_eq!(rtt(Some(9999)), "9.9 ms");
        assert_eq!(rtt(Some(265_400)), "265 ms");
        assert_eq!(rtt(Some(12_000_000)), "12 s");
    }

    #[test]
    fn shares() {
        assert_eq!(percent(None), "-");
        assert_eq!(percent(Some(0.0)), "0 %");
        assert_eq!(percent(Some(0.004)), "<1 %");
        assert_eq!(percent(Some(0.126)), "13 %");
        assert_eq!(percent(Some(1.0)), "100 %");
    }

    #[test]
    fn amounts() {
        assert_eq!(amount(0), "0");
        assert_eq!(amount(999), "999");
        assert_eq!(amount(1000), "1.0 k");
        assert_eq!(amount(4_149), "4.1 k");
        assert_eq!(amount(310_000_000), "310 M");
        assert_eq!(amount(1_290_000_000), "1.2 G");
        assert_eq!(amount(u64::MAX), "18 E");
        assert_eq!(rate(124_000_000), "124 Mbit/s");
        assert_eq!(rate(12), "12 bit/s");
    }
}
