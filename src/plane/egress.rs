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
}

impl Egress {
    /// A single datagram outside any train (IKE).
    pub fn push_datagram(&mut self, path: Path, datagram: Vec<u8>) {
        self.trains.push(Train { path, tos: 0, stride: datagram.len(), data: datagram });
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

    /// Forgets everything, keeping the buffers.
    pub fn clear(&mut self) {
        self.trains.clear();
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
}
