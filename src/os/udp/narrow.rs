//! Peers to whom trains do not go through in one piece: mostly because the path to them takes less than a datagram, which
//! the kernel cuts up only for single ones. They are tried again after ever more trains, for paths grow as well.

use std::net::SocketAddr;

#[derive(Debug, Default)]
pub(super) struct Narrow {
    peers: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    remote: SocketAddr,
    /// Trains that are still to be sent singly.
    left: u32,
    pause: u32,
}

impl Narrow {
    /// Whether the next train may go in one piece.
    pub(super) fn lets_pass(&mut self, remote: SocketAddr) -> bool {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.remote == remote) else { return true };
        let passes = peer.left == 0;
        peer.left = peer.left.saturating_sub(1);
        passes
    }

    /// The kernel refused a train.
    pub(super) fn note(&mut self, remote: SocketAddr) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.remote == remote) {
            peer.pause = (peer.pause * 2).min(LONGEST);
            peer.left = peer.pause;
            return;
        }
        if self.peers.len() == MOST {
            self.peers.remove(0);
        }
        self.peers.push(Peer { remote, left: SHORTEST, pause: SHORTEST });
    }

    /// A train went through.
    pub(super) fn forget(&mut self, remote: SocketAddr) {
        self.peers.retain(|peer| peer.remote != remote);
    }
}

const SHORTEST: u32 = 16;
const LONGEST: u32 = 4096;
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u16) -> SocketAddr {
        ([192, 0, 2, 1], number).into()
    }

    #[test]
    fn tries_grow_rare_but_never_end() {
        let mut narrow = Narrow::default();
        let mut tries = 0;
        for _ in 0..100_000 {
            if narrow.lets_pass(peer(1)) {
                tries += 1;
                narrow.note(peer(1));
            }
            assert!(narrow.lets_pass(peer(2)), "others are not concerned");
        }
        assert!((20..40).contains(&tries), "{tries}");
        narrow.forget(peer(1));
        assert!(narrow.lets_pass(peer(1)) && narrow.lets_pass(peer(1)));
    }

    #[test]
    fn remembers_a_bounded_number() {
        let mut narrow = Narrow::default();
        for number in 0..100 {
            narrow.note(peer(number));
        }
        assert_eq!(narrow.peers.len(), MOST);
        assert!(!narrow.lets_pass(peer(99)) && narrow.lets_pass(peer(0)));
    }
}
