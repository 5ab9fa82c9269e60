//! How much an SA may still carry before its keys are to be replaced. It goes on carrying beyond that.

#[derive(Clone, Copy, Debug)]
pub(super) struct Budget(u64);

impl Budget {
    pub(super) const ENDLESS: Budget = Budget(u64::MAX);

    pub(super) fn of(octets: u64) -> Budget {
        Budget(octets)
    }

    /// Whether these octets have used it up; true for exactly one packet.
    pub(super) fn spend(&mut self, octets: usize) -> bool {
        let had = self.0 > 0;
        self.0 = self.0.saturating_sub(octets as u64);
        had && self.0 == 0
    }
}
