//! The header before each packet of a TUN device with `IFF_VNET_HDR`: `struct virtio_net_hdr`, 10 octets in the machine's
//! own order (virtio 1.2 §5.1.6, `<linux/virtio_net.h>`). It tells of work left undone: a checksum, or cutting into segments.
#![warn(clippy::indexing_slicing)]

pub const LEN: usize = 10;

/// All zero: a packet as it would be on a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vnet {
    /// The checksum field holds the sum of the pseudo-header only, and the rest from `start` on is to be added.
    pub checksum: Option<Checksum>,
    pub segments: Option<Segments>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Where the transport header begins.
    pub start: u16,
    /// Where in the transport header the checksum stands.
    pub offset: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    pub kind: Kind,
    /// Octets of payload in each packet but the last one.
    pub size: u16,
    /// Octets before the payload. From the kernel only a hint.
    pub header: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tcp4,
    Tcp6,
    /// UDP of either family.
    Udp,
}

impl Vnet {
    /// `None` for kinds of segments that nobody has asked the kernel for.
    pub fn parse(octets: [u8; LEN]) -> Option<Vnet> {
        let [flags, kind, h0, h1, s0, s1, c0, c1, o0, o1] = octets;
        let word = |a, b| u16::from_ne_bytes([a, b]);
        let checksum = Checksum { start: word(c0, c1), offset: word(o0, o1) };
        let segments = |kind| Some(Segments { kind, size: word(s0, s1), header: word(h0, h1) });
        Some(Vnet {
            checksum: (flags & NEEDS_CSUM != 0).then_some(checksum),
            // A segment with CWR is told by the TCP header anyway.
            segments: match kind & !ECN {
                NONE => None,
                TCP4 => segments(Kind::Tcp4),
                TCP6 => segments(Kind::Tcp6),
                UDP => segments(Kind::Udp),
                _ => return None,
            },
        })
    }

    pub fn emit(self) -> [u8; LEN] {
        let (kind, size, header) = match self.segments {
            None => (NONE, 0, 0),
            Some(Segments { kind: Kind::Tcp4, size, header }) => (TCP4, size, header),
            Some(Segments { kind: Kind::Tcp6, size, header }) => (TCP6, size, header),
            Some(Segments { kind: Kind::Udp, size, header }) => (UDP, size, header),
        };
        let flags = if self.checksum.is_some() { NEEDS_CSUM } else { 0 };
        let Checksum { start, offset } = self.checksum.unwrap_or(Checksum { start: 0, offset: 0 });
        let [h0, h1] = header.to_ne_bytes();
        let [s0, s1] = size.to_ne_bytes();
        let [c0, c1] = start.to_ne_bytes();
        let [o0, o1] = offset.to_ne_bytes();
        [flags, kind, h0, h1, s0, s1, c0, c1, o0, o1]
    }
}

const NEEDS_CSUM: u8 = 1;
const NONE: u8 = 0;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_packet_as_on_a_wire_is_all_zero() {
        assert_eq!(Vnet::default().emit(), [0; LEN]);
        assert_eq!(Vnet::parse([0; LEN]), Some(Vnet::default()));
        // DATA_VALID asks for nothing.
        assert_eq!(Vnet::parse([2, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Vnet::default()));
        assert_eq!(Vnet::parse([0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None, "UFO");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_tcp_packet_of_the_kernel() {
        let octets = [1, 0x81, 0x34, 0, 0x44, 0x05, 0x14, 0, 0x10, 0];
        let expected = Vnet {
            checksum: Some(Checksum { start: 20, offset: 16 }),
            segments: Some(Segments { kind: Kind::Tcp4, size: 1348, header: 52 }),
        };
        assert_eq!(Vnet::parse(octets), Some(expected));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(octets: [u8; LEN]) {
            if let Some(vnet) = Vnet::parse(octets) {
                prop_assert_eq!(Vnet::parse(vnet.emit()), Some(vnet));
            }
        }
    }
}
