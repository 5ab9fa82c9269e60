//! Which of a neighbour's Hellos arrived (RFC 8966 §3.2.4, appendix A.1).

use std::time::Duration;

use crate::time::Time;

/// The last 16 expected Hellos of one kind, multicast or unicast.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The newest is the lowest bit; a one arrived.
    bits: u16,
    /// How many of the bits mean something.
    length: u32,
    expected: u16,
    interval: Duration,
    due: Option<Time>,
}

impl History {
    /// Counts a Hello; `interval` is what it promises, `None` for an unscheduled one. Returns whether the history had to
    /// start anew, because the neighbour did.
    pub(super) fn receive(&mut self, now: Time, seqno: u16, interval: Option<Duration>) -> bool {
        let ahead = seqno.wrapping_sub(self.expected).cast_signed();
        let restarted = self.length > 0 && ahead.unsigned_abs() > TOO_FAR;
        if restarted || self.length == 0 {
            (self.bits, self.length) = (0, 0);
        } else if ahead < 0 {
            // It sends more slowly than we thought: what we counted as lost was never sent.
            let extra = u32::from(ahead.unsigned_abs());
            self.bits = self.bits.checked_shr(extra).unwrap_or(0);
            self.length = self.length.saturating_sub(extra);
        } else {
            for _ in 0..ahead {
                self.shift(0);
            }
        }
        self.shift(1);
        self.expected = seqno.wrapping_add(1);
        if let Some(interval) = interval {
            self.interval = interval;
            self.due = Some(now + interval * 3 / 2);
        }
        restarted
    }

    /// Counts Hellos that should have come by now as lost.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(due) = self.due.filter(|due| *due <= now) {
            self.shift(0);
            self.expected = self.expected.wrapping_add(1);
            self.due = if self.bits == 0 { None } else { Some(due + self.interval) };
        }
    }

    /// When the next Hello counts as lost; `None` once all 16 are.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// (received, expected) among the last 16.
    pub(super) fn delivery(&self) -> (u32, u32) {
        (self.bits.count_ones(), self.length)
    }

    /// RFC 8966 A.2.1: two of the last three came.
    pub(super) fn is_good(&self) -> bool {
        (self.bits & 0b111).count_ones() >= 2
    }

    /// A link that lost nothing before is down when two Hellos in a row are missing, 10 s after the last with Hellos of 4 s;
    /// a lossy one only after three, or it would be down every minute.
    pub(super) fn is_silent(&self) -> bool {
        let before = self.bits >> 2;
        let lossless = before.count_ones() == self.length.saturating_sub(2);
        self.bits & 0b111 == 0 || (self.bits & 0b11 == 0 && lossless)
    }

    fn shift(&mut self, bit: u16) {
        self.bits = (self.bits << 1) | bit;
        self.length = (self.length + 1).min(u16::BITS);
    }
}

const TOO_FAR: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Option<Duration> = Some(Duration::from_secs(4));

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn counts_gaps_and_takes_them_back() {
        let mut history = History::default();
        assert!(!history.receive(at(0), 0xfffe, FOUR));
        assert!(!history.receive(at(4), 0xffff, FOUR));
        assert!(!history.receive(at(16), 2, FOUR), "0 and 1 are missing");
        assert_eq!((history.bits, history.length), (0b11001, 5));
        assert!(!history.receive(at(17), 1, None), "it was only late: forget what is newer than it");
        assert_eq!((history.bits, history.length), (0b1101, 4));
    }

    #[test]
    fn a_jump_starts_anew() {
        let mut history = History::default();
        for seqno in 0..20 {
            history.receive(at(0), seqno, FOUR);
        }
        assert_eq!(history.delivery(), (16, 16));
        assert!(!history.receive(at(0), 36, FOUR), "16 lost");
        assert_eq!(history.delivery(), (1, 16));
        assert!(history.receive(at(0), 54, FOUR), "17 ahead");
        assert_eq!(history.delivery(), (1, 1));
        assert!(history.receive(at(0), 38, FOUR), "17 back");
        assert!(!history.is_good() && !history.is_silent());
    }

    #[test]
    fn a_clean_link_is_silent_after_ten_seconds() {
        let mut history = History::default();
        history.receive(at(0), 1, FOUR);
        history.receive(at(4), 2, FOUR);
        assert_eq!(history.due(), Some(at(10)));
        history.expire(at(13));
        assert!(!history.is_silent() && history.due() == Some(at(14)));
        history.expire(at(14));
        assert!(history.is_silent());
    }

    #[test]
    fn a_lossy_link_is_silent_after_fourteen() {
        let mut history = History::default();
        for seqno in [1, 3, 4, 5] {
            history.receive(at(0), seqno, FOUR);
        }
        history.expire(at(10));
        assert!(!history.is_silent());
        history.expire(at(14));
        assert!(history.is_silent());
        assert!(!history.is_empty());
        history.expire(at(100_000));
        assert!(history.is_empty() && history.due().is_none());
        history.receive(at(100_000), 6, FOUR);
        assert!(!history.is_good(), "one after a long silence is not enough");
    }
}
