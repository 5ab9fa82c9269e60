//! Merging inner packets for the TUN device: runs of one TCP flow become one super-packet, which the kernel takes at the
//! price of one.
//!
//! Only such packets are merged as the device would have cut from one (see `seg`), of which the kernel's own GRO would make
//! the same: cutting the result gives back every octet. Their checksums are verified first, for merging would hide damage.
//! Packets of one flow stay in order. Nothing is moved: a run is a list of pieces.

use std::ops::Range;

use super::seg::Cut;
use crate::wire::ip::{self, Header, Sum, fragment};
use crate::wire::vnet::{self, Checksum, Kind, Segments, Vnet};

/// Works on one batch after the other, and keeps its memory.
#[derive(Default)]
pub struct Coalescer {
    runs: Vec<Run>,
    pieces: Vec<Piece>,
}

/// Octets of the batch, and the piece of the same run that comes next.
struct Piece {
    octets: Range<usize>,
    next: Option<usize>,
}

struct Run {
    /// Where its first packet begins, whose head becomes that of all.
    start: usize,
    shape: Shape,
    /// Octets of payload of the first packet, which no other exceeds.
    size: usize,
    /// Octets of payload altogether.
    payload: usize,
    count: usize,
    last_piece: usize,
    first_piece: usize,
    next_sequence: u32,
    next_identification: u16,
    push: bool,
    /// The first packet's checksums have been verified.
    verified: bool,
    /// It may still grow.
    open: bool,
}

/// What is needed of a TCP packet's headers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    ipv4: bool,
    /// Where the TCP header begins, and where it ends.
    transport: usize,
    head: usize,
}

impl Coalescer {
    /// Finds the runs in a batch of packets: `octets`, cut at `ends`. Heads of merged packets are changed in place.
    pub fn merge(&mut self, octets: &mut [u8], ends: &[usize]) {
        self.runs.clear();
        self.pieces.clear();
        let mut start = 0;
        for &end in ends {
            self.add(octets, start..end);
            start = end;
        }
        for run in self.runs.iter().filter(|run| run.count > 1) {
            run.finish(octets);
        }
    }

    /// What is to be written, in order: the header for the device (all zero for a single packet) and the pieces.
    pub fn each<'a>(&self, octets: &'a [u8], mut f: impl FnMut(&[u8; vnet::LEN], &[&'a [u8]])) {
        for run in &self.runs {
            let mut pieces = [&[][..]; MOST_PIECES];
            let mut count = 0;
            let mut next = Some(run.first_piece);
            while let Some(piece) = next.and_then(|at| self.pieces.get(at)) {
                if let (Some(place), Some(octets)) = (pieces.get_mut(count), octets.get(piece.octets.clone())) {
                    *place = octets;
                    count += 1;
                }
                next = piece.next;
            }
            f(&run.vnet().emit(), pieces.get(..count).unwrap_or_default());
        }
    }

    fn add(&mut self, octets: &[u8], packet: Range<usize>) {
        let Some(whole) = octets.get(packet.clone()) else { return };
        let Ok(header) = Header::parse(whole) else { return self.open(packet, None, whole) };
        let candidate = candidate(&header, whole);
        let Some(shape) = candidate else {
            // It must not be overtaken by what comes later.
            match header.protocol {
                ip::TCP if is_plain(&header, whole) => self.close(octets, flow(header.is_ipv4(), whole)),
                ip::UDP | ip::ICMP | ip::ICMPV6 if !is_fragment(&header, whole) => {}
                _ => self.close(octets, None),
            }
            return self.open(packet, None, whole);
        };
        let flow = flow(shape.ipv4, whole);
        let found =
            self.runs.iter().rposition(|run| run.open && run.shape.ipv4 == shape.ipv4 && run.flow(octets) == flow);
        if let Some(run) = found.and_then(|at| self.runs.get_mut(at)) {
            if run.takes(octets, shape, whole) {
                let piece = Piece { octets: packet.start + shape.head..packet.end, next: None };
                let at = self.pieces.len();
                if let Some(last) = self.pieces.get_mut(run.last_piece) {
                    last.next = Some(at);
                }
                self.pieces.push(piece);
                run.append(at, shape, whole);
                return;
            }
            run.open = false;
        }
        self.open(packet, Some(shape), whole);
    }

    /// A run of a packet that joins none.
    fn open(&mut self, packet: Range<usize>, shape: Option<Shape>, whole: &[u8]) {
        let piece = self.pieces.len();
        let start = packet.start;
        self.pieces.push(Piece { octets: packet, next: None });
        let open = shape.is_some();
        let shape = shape.unwrap_or(Shape { ipv4: true, transport: 0, head: 0 });
        let size = whole.len() - shape.head;
        let push = open && flags(whole, shape) & PSH != 0;
        self.runs.push(Run {
            start,
            shape,
            size,
            payload: size,
            count: 1,
            first_piece: piece,
            last_piece: piece,
            next_sequence: sequence(whole, shape).wrapping_add(u32::try_from(size).unwrap_or(0)),
            next_identification: identification(whole).wrapping_add(1),
            push,
            verified: false,
            open: open && !push,
        });
    }

    /// Lets no run of this flow grow any more; of no flow at all if it cannot be told.
    fn close(&mut self, octets: &[u8], flow: Option<&[u8]>) {
        for run in self.runs.iter_mut().filter(|run| run.open) {
            if flow.is_none() || run.flow(octets) == flow {
                run.open = false;
            }
        }
    }
}

/// Takes a super-packet apart again, for a kernel that does not want it: the head and the payload of each packet.
pub fn cut(vnet: &[u8; vnet::LEN], packet: &[u8], mut f: impl FnMut(&[u8], &[u8])) {
    let (Some(vnet), Ok(header)) = (Vnet::parse(*vnet), Header::parse(packet)) else { return };
    let Some(mut cut) = Cut::new(&vnet, &header, packet) else { return };
    while let Some((head, payload)) = cut.next() {
        f(head, payload);
    }
}

impl Run {
    /// Addresses and ports of its packets.
    fn flow<'a>(&self, octets: &'a [u8]) -> Option<&'a [u8]> {
        flow(self.shape.ipv4, octets.get(self.start..)?)
    }

    /// Whether a packet of the same flow continues it. Verifies the checksums of both.
    fn takes(&mut self, octets: &[u8], shape: Shape, packet: &[u8]) -> bool {
        let Some(first) = octets.get(self.start..self.start + self.shape.head + self.size) else { return false };
        let payload = packet.len() - shape.head;
        let fits = shape == self.shape
            && payload <= self.size
            && self.payload == self.size * self.count
            && self.count < MOST_PIECES
            && shape.head + self.payload + payload <= LONGEST
            && sequence(packet, shape) == self.next_sequence
            && (!shape.ipv4 || identification(packet) == self.next_identification)
            && is_alike(first, packet, shape);
        if !fits || !is_undamaged(packet, shape) {
            return false;
        }
        self.verified = self.verified || is_undamaged(first, shape);
        self.verified
    }

    fn append(&mut self, piece: usize, shape: Shape, packet: &[u8]) {
        let payload = packet.len() - shape.head;
        self.last_piece = piece;
        self.payload += payload;
        self.count += 1;
        self.next_sequence = self.next_sequence.wrapping_add(u32::try_from(payload).unwrap_or(0));
        self.next_identification = self.next_identification.wrapping_add(1);
        self.push = flags(packet, shape) & PSH != 0;
        self.open = !self.push && payload == self.size;
    }

    /// Makes the first packet's head that of the super-packet; the checksum is left to the kernel.
    fn finish(&self, octets: &mut [u8]) {
        let Shape { ipv4, transport, head } = self.shape;
        let Some(octets) = octets.get_mut(self.start..self.start + head) else { return };
        let length = u16::try_from(head + self.payload).unwrap_or(u16::MAX);
        let segment = u16::try_from(head - transport + self.payload).unwrap_or(u16::MAX);
        let addresses = if ipv4 {
            octets[2..4].copy_from_slice(&length.to_be_bytes());
            octets[10..12].copy_from_slice(&[0, 0]);
            let sum = Sum::default().plus(&octets[..transport]).finish();
            octets[10..12].copy_from_slice(&sum.to_be_bytes());
            12..20
        } else {
            octets[4..6].copy_from_slice(&segment.to_be_bytes());
            8..40
        };
        let sum = Sum::default().plus(&octets[addresses]).plus(&[0, ip::TCP]).plus(&segment.to_be_bytes()).finish();
        if self.push {
            octets[transport + FLAGS] |= PSH;
        }
        octets[transport + CHECKSUM..transport + CHECKSUM + 2].copy_from_slice(&(!sum).to_be_bytes());
    }

    fn vnet(&self) -> Vnet {
        let narrow = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
        if self.count == 1 {
            return Vnet::default();
        }
        let Shape { ipv4, transport, head } = self.shape;
        let kind = if ipv4 { Kind::Tcp4 } else { Kind::Tcp6 };
        Vnet {
            checksum: Some(Checksum { start: narrow(transport), offset: narrow(CHECKSUM) }),
            segments: Some(Segments { kind, size: narrow(self.size), header: narrow(head) }),
        }
    }
}

/// A TCP packet with data and nothing unusual: no IP options or extension headers, no fragment, no flags but ACK and PSH.
fn candidate(header: &Header, packet: &[u8]) -> Option<Shape> {
    let ipv4 = header.is_ipv4();
    let tcp = packet.get(header.header..)?;
    if !is_plain(header, packet)
        || header.protocol != ip::TCP
        || header.length != packet.len()
        || tcp.len() < TCP_LENGTH
    {
        return None;
    }
    let length = usize::from(tcp[OFFSET] >> 4) * 4;
    let shape = Shape { ipv4, transport: header.header, head: header.header + length };
    let usual = tcp[FLAGS] & !PSH == ACK && tcp[OFFSET] & 0x0f == 0;
    (usual && length >= TCP_LENGTH && shape.head < packet.len()).then_some(shape)
}

/// Whether the transport header follows where it mostly does.
fn is_plain(header: &Header, packet: &[u8]) -> bool {
    !header.is_ipv4() || (header.header == ip::HEADER4_LEN && !is_fragment(header, packet))
}

fn is_fragment(header: &Header, packet: &[u8]) -> bool {
    header.is_ipv4() && fragment::field(packet) & (fragment::OFFSET | fragment::MORE_FRAGMENTS) != 0
}

/// Addresses and ports, of packets without IP options.
fn flow(ipv4: bool, packet: &[u8]) -> Option<&[u8]> {
    if ipv4 { packet.get(12..24) } else { packet.get(8..44) }
}

/// All of the headers but lengths, numbers, PSH and checksums.
fn is_alike(a: &[u8], b: &[u8], shape: Shape) -> bool {
    let same = |range: Range<usize>| a.get(range.clone()).is_some_and(|octets| b.get(range) == Some(octets));
    let t = shape.transport;
    let ip = if shape.ipv4 { same(0..2) && same(6..10) } else { same(0..4) && same(6..8) };
    // Acknowledgement, data offset; window; urgent pointer and options.
    ip && same(t + 8..t + 13) && same(t + 14..t + 16) && same(t + 18..shape.head)
}

fn is_undamaged(packet: &[u8], shape: Shape) -> bool {
    let Some((ip, tcp)) = packet.split_at_checked(shape.transport) else { return false };
    let addresses = if shape.ipv4 { ip.get(12..20) } else { ip.get(8..40) };
    let (Some(addresses), Ok(length)) = (addresses, u16::try_from(tcp.len())) else { return false };
    let sum = Sum::default().plus(addresses).plus(&[0, ip::TCP]).plus(&length.to_be_bytes()).plus(tcp);
    sum.finish() == 0 && (!shape.ipv4 || Sum::default().plus(ip).finish() == 0)
}

fn sequence(packet: &[u8], shape: Shape) -> u32 {
    packet.get(shape.transport + 4..).and_then(<[u8]>::first_chunk).map_or(0, |octets| u32::from_be_bytes(*octets))
}

fn identification(packet: &[u8]) -> u16 {
    packet.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |octets| u16::from_be_bytes(*octets))
}

fn flags(packet: &[u8], shape: Shape) -> u8 {
    packet.get(shape.transport + FLAGS).copied().unwrap_or(0)
}

const MOST_PIECES: usize = 64;
/// What the length fields hold.
const LONGEST: usize = 65_535;
const TCP_LENGTH: usize = 20;
const OFFSET: usize = 12;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

#[cfg(test)]
mod tests;
