//! The replay window (RFC 4303 §3.4.3) as a ring of bit blocks (RFC 6479): moving it clears blocks instead of shifting bits.

/// A window of `(BLOCKS - 1) * 64` sequence numbers: the highest seen and those just below it.
#[derive(Clone, Debug)]
pub struct Window<const BLOCKS: usize> {
    highest: u32,
    ring: [u64; BLOCKS],
}

/// Why a sequence number is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Zero, which no sender uses without ESN (RFC 4303 §3.3.3).
    Zero,
    /// Below the window: it may be new, but nobody can tell any more.
    Old,
    Seen,
}

impl<const BLOCKS: usize> Window<BLOCKS> {
    /// How many sequence numbers it tells apart: `highest - WIDTH + 1` is the lowest one taken.
    pub const WIDTH: u32 = width(BLOCKS);

    /// The highest sequence number that was committed; zero before the first.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// Whether a sequence number would be new. Changes nothing: the packet is not authenticated yet.
    pub fn check(&self, sequence: u32) -> Result<(), Replay> {
        if sequence == 0 {
            Err(Replay::Zero)
        } else if sequence > self.highest {
            Ok(())
        } else if self.highest - sequence >= Self::WIDTH {
            Err(Replay::Old)
        } else if self.ring[Self::slot(sequence)] & bit(sequence) != 0 {
            Err(Replay::Seen)
        } else {
            Ok(())
        }
    }

    /// Marks the sequence number of an authenticated packet that [`Window::check`] has let through.
    pub fn commit(&mut self, sequence: u32) {
        if sequence > self.highest {
            let (from, to) = (self.highest / BITS, sequence / BITS);
            // The last `BLOCKS` of the blocks in between are all that the ring holds.
            for block in (from + 1..=to).rev().take(BLOCKS) {
                self.ring[block as usize % BLOCKS] = 0;
            }
            self.highest = sequence;
        }
        self.ring[Self::slot(sequence)] |= bit(sequence);
    }

    fn slot(sequence: u32) -> usize {
        (sequence / BITS) as usize % BLOCKS
    }
}

impl<const BLOCKS: usize> Default for Window<BLOCKS> {
    fn default() -> Self {
        const { assert!(BLOCKS >= 2) };
        Window { highest: 0, ring: [0; BLOCKS] }
    }
}

const BITS: u32 = 64;

#[expect(clippy::cast_possible_truncation, reason = "a ring of 2³² blocks fits no memory")]
const fn width(blocks: usize) -> u32 {
    (blocks as u32 - 1) * BITS
}

fn bit(sequence: u32) -> u64 {
    1 << (sequence % BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::crypto::rng::Rng;

    /// Says the same with a set of all numbers seen.
    #[derive(Default)]
    struct Model {
        seen: BTreeSet<u32>,
    }

    impl Model {
        fn check(&self, sequence: u32, width: u32) -> Result<(), Replay> {
            let highest = self.seen.last().copied().unwrap_or(0);
            match sequence {
                0 => Err(Replay::Zero),
                _ if u64::from(sequence) + u64::from(width) <= u64::from(highest) => Err(Replay::Old),
                _ if self.seen.contains(&sequence) => Err(Replay::Seen),
                _ => Ok(()),
            }
        }
    }

    fn agrees<const BLOCKS: usize>(steps: &[Step]) {
        let mut window = Window::<BLOCKS>::default();
        let mut model = Model::default();
        let width = Window::<BLOCKS>::WIDTH;
        for step in steps {
            let highest = window.highest();
            let sequence = match *step {
                Step::Ahead(by) => highest.saturating_add(by),
                Step::Behind(by) => highest.saturating_sub(by),
                Step::Blocks(blocks, by) => highest.saturating_add(blocks * BITS).saturating_add_signed(by),
                Step::Edge(by) => highest.saturating_sub(width).saturating_add_signed(by),
                Step::At(sequence) => sequence,
            };
            let verdict = window.check(sequence);
            assert_eq!(verdict, model.check(sequence, width), "{sequence} with {highest} highest");
            if verdict.is_ok() {
                window.commit(sequence);
                model.seen.insert(sequence);
                assert_eq!(window.check(sequence), Err(Replay::Seen));
            }
            assert_eq!(window.highest(), model.seen.last().copied().unwrap_or(0));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ahead(u32),
        Behind(u32),
        Blocks(u32, i32),
        Edge(i32),
        At(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..4_u32).prop_map(Step::Ahead),
            4 => (0..200_u32).prop_map(Step::Behind),
            2 => (0..6000_u32).prop_map(Step::Behind),
            2 => (0..70_u32, -1..=1_i32).prop_map(|(blocks, by)| Step::Blocks(blocks, by)),
            2 => (-2..=2_i32).prop_map(Step::Edge),
            1 => any::<u32>().prop_map(Step::Ahead),
            1 => (0..10_u32).prop_map(Step::At),
            1 => (u32::MAX - 5..=u32::MAX).prop_map(Step::At),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec(step(), 1..400)) {
            agrees::<2>(&steps);
            agrees::<3>(&steps);
            agrees::<16>(&steps);
            agrees::<65>(&steps);
        }
    }

    /// Case G1: from 10 000 on, all of the window once, in any order, and nothing twice.
    #[test]
    fn takes_a_whole_window_in_any_order() {
        type Wide = Window<65>;
        assert_eq!(Wide::WIDTH, 4096);
        let mut window = Wide::default();
        window.commit(10_000);
        let mut below: Vec<u32> = (10_000 - Wide::WIDTH + 1..10_000).collect();
        let mut rng = Rng::from_number(6479);
        for i in (1..below.len()).rev() {
            below.swap(i, rng.below(u32::try_from(i).unwrap() + 1) as usize);
        }
        for &sequence in &below {
            assert_eq!(window.check(sequence), Ok(()));
            window.commit(sequence);
        }
        assert_eq!(window.check(10_000 - Wide::WIDTH), Err(Replay::Old));
        for sequence in below.into_iter().chain([10_000]) {
            assert_eq!(window.check(sequence), Err(Replay::Seen));
        }
        let far = 10_000 + (1 << 31);
        assert_eq!(window.check(far), Ok(()));
        window.commit(far);
        assert_eq!(window.check(far), Err(Replay::Seen));
        assert_eq!(window.check(far - 1), Ok(()), "a jump clears the whole ring");
        assert_eq!(window.check(far - Wide::WIDTH + 1), Ok(()));
        assert_eq!(window.check(10_000), Err(Replay::Old));
    }

    #[test]
    fn zero_is_never_new() {
        let mut window = Window::<2>::default();
        assert_eq!(window.check(0), Err(Replay::Zero));
        window.commit(1);
        assert_eq!(window.check(0), Err(Replay::Zero));
    }
}
