//! Packets for the TUN device: what is merged and cut again is what it was, in the order of its flow; and whatever a device says
//! of a super-packet, cutting it ends.

use wattle::plane::coalesce::{Coalescer, cut};
use wattle::wire::ip::{Header, Sum};
use wattle::wire::vnet::{self, Vnet};

use super::input::Input;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 {
        let mut packets = Vec::new();
        let mut streams = [[Stream { sequence: 0xffff_f000, identification: 0xfff0 }; 2]; 2];
        while !input.is_empty() && packets.len() < 200 {
            packets.push(packet(&mut input, &mut streams));
        }
        merged_and_cut(&packets);
    } else {
        any_cut(&mut input);
    }
}

#[derive(Clone, Copy)]
struct Stream {
    sequence: u32,
    identification: u16,
}

/// A packet of a stream, or nearly.
fn packet(input: &mut Input<'_>, streams: &mut [[Stream; 2]; 2]) -> Vec<u8> {
    let [kind, damage] = input.array();
    let (ipv6, flow) = (kind & 1 != 0, kind >> 1 & 1);
    let stream = &mut streams[usize::from(ipv6)][usize::from(flow)];
    let payload: usize = [0, 1, 100, 100, 101, 1348, 1348, 9000][usize::from(kind >> 2 & 7)];
    let flags = [0x10, 0x10, 0x10, 0x10, 0x18, 0x11, 0x02, 0x90][usize::from(kind >> 5)];
    let mut tcp = vec![0, 7, 0, flow];
    tcp.extend(stream.sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    tcp.extend((0..payload).map(|at| at.to_le_bytes()[0] ^ flow));
    let length = u16::try_from(tcp.len()).unwrap();
    let mut octets = if ipv6 {
        let [high, low] = length.to_be_bytes();
        let mut head = vec![0x60, 0, 0, 0, high, low, 6, 64];
        head.extend([0xfd; 31]);
        head.push(flow);
        head
    } else {
        let mut head = vec![0x45, 0];
        head.extend((length + 20).to_be_bytes());
        head.extend(stream.identification.to_be_bytes());
        head.extend([0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, flow]);
        head
    };
    let head = octets.len();
    octets.extend(tcp);
    // Some come with something changed, and then the checksums put right, or not.
    let mut fix = true;
    if damage & 0x0f == 0x0f {
        input.damage(&mut octets);
        fix = damage & 0x10 == 0;
    }
    if fix {
        finish(&mut octets, head);
    }
    stream.sequence = stream.sequence.wrapping_add(u32::try_from(payload).unwrap());
    stream.identification = stream.identification.wrapping_add(1);
    octets
}

fn finish(octets: &mut [u8], head: usize) {
    if octets.len() < head + 20 {
        return;
    }
    let addresses = if head == 20 { &octets[12..20] } else { &octets[8..40] };
    let length = u32::try_from(octets.len() - head).unwrap().to_be_bytes();
    let pseudo = Sum::default().plus(addresses).plus(&length).plus(&[0, 6]);
    octets[head + 16..head + 18].copy_from_slice(&[0, 0]);
    let sum = pseudo.plus(&octets[head..]).finish();
    octets[head + 16..head + 18].copy_from_slice(&sum.to_be_bytes());
    if head == 20 {
        octets[10..12].copy_from_slice(&[0, 0]);
        let sum = Sum::default().plus(&octets[..20]).finish();
        octets[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn merged_and_cut(packets: &[Vec<u8>]) {
    let mut octets = packets.concat();
    let mut ends: Vec<usize> = Vec::new();
    for packet in packets {
        ends.push(ends.last().unwrap_or(&0) + packet.len());
    }
    let mut coalescer = Coalescer::default();
    coalescer.merge(&mut octets, &ends);
    let mut back: Vec<Vec<u8>> = Vec::new();
    coalescer.each(&octets, |header, pieces| {
        let whole = pieces.concat();
        assert!(*header == [0; vnet::LEN] || whole.len() <= 65_535);
        if *header == [0; vnet::LEN] {
            back.push(whole);
        } else {
            let before = back.len();
            cut(header, &whole, |head, payload| back.push([head, payload].concat()));
            assert!(back.len() - before >= 2, "a super-packet of less than two");
        }
    });
    // One flow after the other: between flows the order may change.
    let sorted = |packets: &[Vec<u8>]| {
        let mut packets = packets.to_vec();
        packets.sort_by_key(|packet| flow(packet));
        packets
    };
    let (back, sent) = (sorted(&back), sorted(packets));
    let differs = back.iter().zip(&sent).position(|(back, sent)| back != sent);
    assert_eq!(differs.map(|at| (&back[at], &sent[at])), None);
    assert_eq!(back.len(), sent.len());
}

/// Protocol, addresses and ports, if it is a whole packet.
fn flow(packet: &[u8]) -> Option<(u8, Vec<u8>, Vec<u8>)> {
    let header = Header::parse(packet).ok()?;
    let addresses = if header.is_ipv4() { packet.get(12..20) } else { packet.get(8..40) };
    let ports = header.payload(packet).get(..4);
    Some((header.protocol, addresses?.to_vec(), ports.unwrap_or_default().to_vec()))
}

fn any_cut(input: &mut Input<'_>) {
    let header: [u8; vnet::LEN] = input.array();
    let packet = input.take(usize::MAX);
    let (mut count, mut octets) = (0, 0);
    cut(&header, packet, |head, payload| {
        count += 1;
        octets += payload.len();
        let whole = [head, payload].concat();
        let parsed = Header::parse(&whole).expect("it was an IP packet before it was cut");
        assert_eq!(parsed.length, whole.len());
    });
    if count > 0 {
        let size = Vnet::parse(header).and_then(|vnet| vnet.segments).expect("only segments are cut").size;
        assert!(octets <= packet.len() && count <= octets.div_ceil(size.into()).max(1));
    }
}
