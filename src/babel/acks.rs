//! Acknowledgements that we wait for (RFC 8966 §3.3, §3.7.2): whoever has an urgent update need not hear it again.

use std::collections::VecDeque;

use super::neighbour::NeighbourId;

/// Those asked for on one link.
pub(super) struct Acks {
    next: u16,
    /// By number, who has not answered yet.
    waiting: VecDeque<(u16, Vec<NeighbourId>)>,
}

impl Acks {
    pub(super) fn new(first: u16) -> Acks {
        Acks { next: first, waiting: VecDeque::new() }
    }

    /// A number to ask these neighbours under; `None` if there is nobody to ask.
    pub(super) fn ask(&mut self, neighbours: Vec<NeighbourId>) -> Option<u16> {
        if neighbours.is_empty() {
            return None;
        }
        self.next = self.next.wrapping_add(1);
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((self.next, neighbours));
        Some(self.next)
    }

    /// A neighbour has answered; `true` if it was the last one.
    pub(super) fn received(&mut self, from: NeighbourId, opaque: u16) -> bool {
        let Some(at) = self.waiting.iter().position(|(number, _)| *number == opaque) else { return false };
        let Some((_, missing)) = self.waiting.get_mut(at) else { return false };
        missing.retain(|id| *id != from);
        let all = missing.is_empty();
        if all {
            self.waiting.remove(at);
        }
        all
    }
}

/// Older ones are given up: their updates are repeated anyway.
const MAX_WAITING: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_when_everybody_has_answered() {
        let (a, b) = (NeighbourId(1), NeighbourId(2));
        let mut acks = Acks::new(0xffff);
        assert_eq!(acks.ask(Vec::new()), None);
        let first = acks.ask(vec![a, b]).unwrap();
        let second = acks.ask(vec![a]).unwrap();
        assert!(!acks.received(a, first) && !acks.received(a, first), "the same one twice");
        assert!(acks.received(a, second) && !acks.received(a, second));
        assert!(!acks.received(b, 77) && acks.received(b, first));
        for _ in 0..100 {
            acks.ask(vec![a]);
        }
        assert_eq!(acks.waiting.len(), MAX_WAITING);
    }
}
