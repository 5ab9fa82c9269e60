//! What a batch produced: trains of datagrams for the wire, packets for the TUN device, and news for the node.
//!
//! A train holds datagrams of one size to one place, back to back, as `UDP_SEGMENT` wants them: sealing writes straight
//! into it. Memory is bounded because the daemon drains an `Egress` before it reads more.

use crate::path::{LinkId, Path};

/// Datagrams for one destination in one buffer: all of `stride` octets, the last one may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    pub path: Path,
    /// Traffic class (DSCP and ECN) of the outer header, the same for all.
    pub tos: u8,
    pub stride: usize,
    pub data: Vec<u8>,
}

/// Something in a batch that is the node's to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// A Babel packet: link-local source, UDP port 6696 both ways, checked.
    Babel { link: LinkId, from: std::net::Ipv6Addr, to: std::net::Ipv6Addr, payload: Vec<u8> },
    /// The newest authenticated packet of this link came from another address.
    Moved { link: LinkId, path: Path },
    /// An ICMPv6 message to our End SID from `from`, while the plane is told to listen.
    Message { from: std::net::Ipv6Addr, message: Vec<u8> },
    /// The outbound SA has used half of its sequence numbers: time for a new one. Said once for each SA.
    Worn { link: LinkId },
}

#[derive(Default)]
pub struct Egress {
    pub trains: Vec<Train>,
    /// Inner packets for the TUN device, back to back; `inner_ends` holds the end of each.
    pub inner: Vec<u8>,
    pub inner_ends: Vec<usize>,
    pub control: Vec<Control>,
    /// Trains before this place take nothing more.
    closed: usize,
    /// Empty buffers of trains that are gone, at most [`SPARE_BUFFERS`].
    spare: Vec<Vec<u8>>,
}

impl Egress {
    /// A single datagram outside any train (IKE): it may be too big for the path, and then only goes through alone.
    pub fn push_datagram(&mut self, path: Path, datagram: Vec<u8>) {
        self.trains.push(Train { path, tos: 0, stride: datagram.len(), data: datagram });
        self.closed = self.trains.len();
    }

    pub fn push_inner(&mut self, packet: &[u8]) {
        self.inner.extend_from_slice(packet);
        self.inner_ends.push(self.inner.len());
    }

    /// The inner packets, in order.
    pub fn inner_packets(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.inner_ends.iter().copied());
        starts.zip(&self.inner_ends).map(|(start, &end)| &self.inner[start..end])
    }

    /// The buffer that the next datagram of `size` octets to `path` is appended to, at once and whole.
    ///
    /// That is the last train to `path`, if the datagram fits into it, or a new one: what goes to one path stays in order.
    pub fn train(&mut self, path: Path, tos: u8, size: usize) -> &mut Vec<u8> {
        let searched = self.closed.max(self.trains.len().saturating_sub(SEARCHED));
        let recent = self.trains.iter().skip(searched).rposition(|train| train.path == path);
        let at = match recent.map(|at| searched + at) {
            Some(at) if self.trains[at].takes(tos, size) => at,
            Some(_) | None => {
                let data = self.spare.pop().unwrap_or_default();
                self.trains.push(Train { path, tos, stride: size, data });
                self.trains.len() - 1
            }
        };
        &mut self.trains[at].data
    }

    /// Octets that wait to be sent: what bounds a batch.
    pub fn octets(&self) -> usize {
        self.trains.iter().map(|train| train.data.len()).sum()
    }

    /// Forgets everything, keeping some of the buffers.
    pub fn clear(&mut self) {
        for mut train in self.trains.drain(..) {
            if self.spare.len() < SPARE_BUFFERS && train.data.capacity() > 0 {
                train.data.clear();
                self.spare.push(train.data);
            }
        }
        self.closed = 0;
        self.inner.clear();
        self.inner_ends.clear();
        self.control.clear();
    }
}

impl Train {
    /// The datagrams, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.data.chunks(self.stride.max(1))
    }

    /// Not if the last one is a shorter one already: it must stay the last.
    fn takes(&self, tos: u8, size: usize) -> bool {
        self.tos == tos
            && size <= self.stride
            && self.data.len() + size <= MAX_OCTETS
            && self.data.len() < self.stride * MAX_DATAGRAMS
            && self.data.len().is_multiple_of(self.stride)
    }
}

/// What one send with `UDP_SEGMENT` takes: 64 datagrams on older kernels, and less than 65 507 octets.
const MAX_DATAGRAMS: usize = 44;
const MAX_OCTETS: usize = 64_000;
/// Further back nobody looks for a train to append to: a bound on the work for each packet.
const SEARCHED: usize = 16;
const SPARE_BUFFERS: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::SocketId;

    fn path(port: u16) -> Path {
        Path { socket: SocketId(0), local: None, remote: ([192, 0, 2, 1], port).into() }
    }

    fn put(egress: &mut Egress, port: u16, tos: u8, datagram: &[u8]) {
        egress.train(path(port), tos, datagram.len()).extend_from_slice(datagram);
    }

    fn lengths(egress: &Egress) -> Vec<Vec<usize>> {
        egress.trains.iter().map(|train| train.datagrams().map(<[u8]>::len).collect()).collect()
    }

    #[test]
    fn equal_sizes_share_a_train_and_a_shorter_one_ends_it() {
        let mut egress = Egress::default();
        for size in [100, 100, 60, 60, 100, 20] {
            put(&mut egress, 1, 0, &vec![1; size]);
        }
        assert_eq!(lengths(&egress), [vec![100, 100, 60], vec![60], vec![100, 20]]);
    }

    #[test]
    fn paths_and_marks_do_not_mix() {
        let mut egress = Egress::default();
        put(&mut egress, 1, 0, &[1; 100]);
        put(&mut egress, 2, 0, &[2; 100]);
        put(&mut egress, 1, 0, &[1; 100]);
        put(&mut egress, 1, 0xb8, &[1; 100]);
        put(&mut egress, 1, 0, &[1; 100]);
        let marks: Vec<_> = egress.trains.iter().map(|train| (train.path.remote.port(), train.tos)).collect();
        assert_eq!(marks, [(1, 0), (2, 0), (1, 0xb8), (1, 0)]);
        assert_eq!(lengths(&egress), [vec![100, 100], vec![100], vec![100], vec![100]]);
    }

    #[test]
    fn a_train_is_no_longer_than_one_send() {
        let mut egress = Egress::default();
        for _ in 0..100 {
            put(&mut egress, 1, 0, &[0; 100]);
            put(&mut egress, 2, 0, &[0; 9000]);
        }
        for train in &egress.trains {
            assert!(train.data.len() <= 64_000 && train.datagrams().count() <= 44);
        }
        let counts: Vec<_> = lengths(&egress).iter().map(Vec::len).filter(|&n| n > 7).collect();
        assert_eq!(counts, [44, 44, 12]);
    }

    #[test]
    fn one_larger_than_a_train_is_a_train_of_its_own() {
        let mut egress = Egress::default();
        put(&mut egress, 1, 0, &vec![0; 65_000]);
        put(&mut egress, 1, 0, &vec![0; 65_000]);
        assert_eq!(lengths(&egress), [[65_000], [65_000]]);
    }

    #[test]
    fn a_single_datagram_stays_alone_and_in_its_place() {
        let mut egress = Egress::default();
        put(&mut egress, 1, 0, &[1; 100]);
        egress.push_datagram(path(1), vec![2; 200]);
        put(&mut egress, 1, 0, &[3; 100]);
        put(&mut egress, 1, 0, &[4; 100]);
        assert_eq!(lengths(&egress), [vec![100], vec![200], vec![100, 100]]);
        egress.clear();
        put(&mut egress, 1, 0, &[5; 100]);
        put(&mut egress, 1, 0, &[6; 100]);
        assert_eq!(lengths(&egress), [[100, 100]]);
    }

    #[test]
    fn buffers_are_used_again_and_not_hoarded() {
        let mut egress = Egress::default();
        for port in 0..100 {
            put(&mut egress, port, 0, &[0; 1000]);
        }
        egress.push_inner(&[1, 2, 3]);
        egress.control.push(Control::Worn { link: LinkId(1) });
        egress.clear();
        assert!(egress.trains.is_empty() && egress.inner_packets().next().is_none() && egress.control.is_empty());
        assert_eq!(egress.spare.len(), SPARE_BUFFERS);
        let kept = egress.spare[SPARE_BUFFERS - 1].as_ptr();
        put(&mut egress, 7, 0, &[0; 1000]);
        assert_eq!(egress.trains[0].data.as_ptr(), kept);
        assert_eq!(egress.trains[0].data.len(), 1000);
    }

    proptest! {
        #[test]
        fn what_goes_to_a_path_stays_in_order_and_whole(
            datagrams in proptest::collection::vec((0..24_u16, 0..2_u8, 8..40_usize), 0..300),
        ) {
            let mut egress = Egress::default();
            let mut sent: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 24];
            for (i, &(port, tos, size)) in datagrams.iter().enumerate() {
                let mut datagram = vec![0; size];
                datagram[..8].copy_from_slice(&(i as u64).to_be_bytes());
                put(&mut egress, port, tos, &datagram);
                sent[usize::from(port)].push(datagram);
            }
            let mut came: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 24];
            for train in &egress.trains {
                prop_assert!(train.data.len() <= MAX_OCTETS && train.datagrams().count() <= MAX_DATAGRAMS);
                came[usize::from(train.path.remote.port())].extend(train.datagrams().map(<[u8]>::to_vec));
            }
            prop_assert_eq!(came, sent);
        }
    }
}
