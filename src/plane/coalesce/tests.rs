#![expect(
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    reason = "small numbers; one oddity at a time"
)]

use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;

/// What distinguishes packets of a stream.
#[derive(Clone, Copy, Debug)]
struct Packet {
    ipv6: bool,
    flow: u8,
    sequence: u32,
    identification: u16,
    length: usize,
    oddity: Oddity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oddity {
    None,
    Push,
    Fin,
    Cwr,
    Ecn,
    HopLimit,
    Acknowledgement,
    Window,
    Options,
    BadChecksum,
    BadHeader,
    Fragment,
    Udp,
}

fn build(packet: Packet) -> Vec<u8> {
    let Packet { ipv6, flow, sequence, identification, length, oddity } = packet;
    let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8 ^ flow).collect();
    let hops = if oddity == Oddity::HopLimit { 9 } else { 64 };
    let ip = if ipv6 {
        let mut ip = etherparse::Ipv6Header { hop_limit: hops, ..Default::default() };
        ip.source = [0xfd; 16];
        ip.destination = [flow; 16];
        ip.traffic_class = if oddity == Oddity::Ecn { 3 } else { 0 };
        etherparse::IpHeaders::Ipv6(ip, Default::default())
    } else {
        let mut ip =
            etherparse::Ipv4Header::new(0, hops, etherparse::IpNumber::TCP, [10, 1, 0, 1], [10, 2, 0, flow]).unwrap();
        ip.identification = identification;
        ip.ecn = if oddity == Oddity::Ecn { 3.try_into().unwrap() } else { 0.try_into().unwrap() };
        etherparse::IpHeaders::Ipv4(ip, Default::default())
    };
    let mut octets = Vec::new();
    if oddity == Oddity::Udp {
        PacketBuilder::ip(ip).udp(1, 2).write(&mut octets, &payload).unwrap();
        return octets;
    }
    let window = if oddity == Oddity::Window { 99 } else { 500 };
    let number = if oddity == Oddity::Acknowledgement { 8 } else { 7 };
    let stamp = if oddity == Oddity::Options { 6 } else { 5 };
    let mut tcp = PacketBuilder::ip(ip).tcp(1000, 2000, sequence, window).ack(number);
    tcp = tcp.options(&[etherparse::TcpOptionElement::Timestamp(stamp, 4)]).unwrap();
    tcp = match oddity {
        Oddity::Push => tcp.psh(),
        Oddity::Fin => tcp.fin(),
        Oddity::Cwr => tcp.cwr(),
        _ => tcp,
    };
    tcp.write(&mut octets, &payload).unwrap();
    match oddity {
        Oddity::BadChecksum => *octets.last_mut().unwrap() ^= 1,
        Oddity::BadHeader if !ipv6 => octets[11] ^= 1,
        Oddity::Fragment if !ipv6 => {
            octets[6] = 0x20;
            octets[10..12].copy_from_slice(&[0, 0]);
            let sum = Sum::default().plus(&octets[..20]).finish();
            octets[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
    octets
}

/// The writes that a batch becomes.
fn merge(packets: &[Vec<u8>]) -> Vec<([u8; vnet::LEN], Vec<u8>)> {
    let mut octets = packets.concat();
    let ends: Vec<usize> = packets
        .iter()
        .scan(0, |end, packet| {
            *end += packet.len();
            Some(*end)
        })
        .collect();
    let mut coalescer = Coalescer::default();
    coalescer.merge(&mut octets, &ends);
    let mut writes = Vec::new();
    coalescer.each(&octets, |header, pieces| writes.push((*header, pieces.concat())));
    writes
}

fn split(writes: &[([u8; vnet::LEN], Vec<u8>)]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (header, packet) in writes {
        if *header == [0; vnet::LEN] {
            packets.push(packet.clone());
        } else {
            cut(header, packet, |head, payload| packets.push([head, payload].concat()));
        }
    }
    packets
}

fn run(ipv6: bool, lengths: &[usize]) -> Vec<Packet> {
    let mut sequence = 0xffff_f000_u32;
    let mut identification = 0xfffe_u16;
    let mut packets = Vec::new();
    for &length in lengths {
        packets.push(Packet { ipv6, flow: 1, sequence, identification, length, oddity: Oddity::None });
        sequence = sequence.wrapping_add(length as u32);
        identification = identification.wrapping_add(1);
    }
    packets
}

#[test]
fn a_run_is_one_write_as_the_kernel_makes_them() {
    for ipv6 in [false, true] {
        let mut lengths = vec![1348; 43];
        lengths.push(1);
        let packets: Vec<Vec<u8>> = run(ipv6, &lengths).into_iter().map(build).collect();
        let writes = merge(&packets);
        let [(header, packet)] = &writes[..] else { panic!("{} writes", writes.len()) };
        let (kind, head) = if ipv6 { (Kind::Tcp6, 72) } else { (Kind::Tcp4, 52) };
        let vnet = Vnet::parse(*header).unwrap();
        assert_eq!(vnet.segments, Some(Segments { kind, size: 1348, header: head }));
        assert_eq!(vnet.checksum, Some(Checksum { start: head - 32, offset: 16 }));
        assert_eq!(packet.len(), usize::from(head) + 43 * 1348 + 1);
        // What the kernel would do if it had no segments to make: finish the checksum.
        let mut whole = packet.clone();
        assert!(super::super::seg::finish_checksum(&vnet, &Header::parse(&whole).unwrap(), &mut whole));
        let sliced = etherparse::SlicedPacket::from_ip(&whole).unwrap();
        let Some(etherparse::TransportSlice::Tcp(tcp)) = sliced.transport else { panic!() };
        let sum = match sliced.net.unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
            }
            etherparse::NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
            _ => panic!(),
        };
        assert_eq!(sum.unwrap(), tcp.checksum());
        assert_eq!(split(&writes), packets);
    }
}

#[test]
fn a_push_and_a_shorter_packet_end_a_run() {
    for (odd, expected) in [(Oddity::Push, 2), (Oddity::None, 1)] {
        let mut packets = run(false, &[100; 6]);
        packets[2].oddity = odd;
        assert_eq!(merge(&packets.into_iter().map(build).collect::<Vec<_>>()).len(), expected);
    }
    let packets: Vec<Vec<u8>> = run(false, &[100, 100, 60, 60, 100]).into_iter().map(build).collect();
    assert_eq!(merge(&packets).iter().map(|(_, octets)| octets.len()).collect::<Vec<_>>(), [312, 112, 152]);
}

#[test]
fn what_is_unusual_or_damaged_is_left_alone() {
    use Oddity::*;
    for ipv6 in [false, true] {
        for oddity in [Fin, Cwr, Ecn, HopLimit, Acknowledgement, Window, Options, BadChecksum, BadHeader, Fragment, Udp]
        {
            if ipv6 && matches!(oddity, BadHeader | Fragment) {
                continue;
            }
            for at in 0..3 {
                let mut packets = run(ipv6, &[100; 3]);
                packets[at].oddity = oddity;
                let packets: Vec<Vec<u8>> = packets.into_iter().map(build).collect();
                let writes = merge(&packets);
                assert!(writes.contains(&([0; vnet::LEN], packets[at].clone())), "{oddity:?} at {at}");
                assert_eq!(split(&writes), packets, "{oddity:?} at {at}");
            }
        }
    }
}

#[test]
fn never_more_than_the_length_fields_hold() {
    for size in [1400, 9000, 30_000, 100] {
        let packets: Vec<Vec<u8>> = run(false, &vec![size; 200]).into_iter().map(build).collect();
        let writes = merge(&packets);
        assert!(writes.iter().all(|(_, packet)| packet.len() <= 65_535));
        assert!(writes.len() <= 200 / (65_483 / size).min(64) + 1);
        assert_eq!(split(&writes), packets);
    }
}

fn oddity() -> impl Strategy<Value = Oddity> {
    use Oddity::*;
    prop_oneof![
        20 => Just(None),
        3 => Just(Push),
        5 => prop::sample::select(vec![
            Fin, Cwr, Ecn, HopLimit, Acknowledgement, Window, Options, BadChecksum, BadHeader, Fragment, Udp
        ]),
    ]
}

proptest! {
    /// Case F7: cutting what was merged gives every packet back, and those of one flow in their order.
    #[test]
    fn cutting_gives_back_what_was_merged(
        steps in proptest::collection::vec((any::<bool>(), 0..3_u8, 1..4_usize, oddity(), 0..12_u8), 0..120),
    ) {
        let mut next = [[(0xffff_ff00_u32, 0xfff0_u16); 3]; 2];
        let mut packets = Vec::new();
        for (ipv6, flow, length, oddity, jump) in steps {
            let (sequence, identification) = &mut next[usize::from(ipv6)][usize::from(flow)];
            // Now and then something is lost, or comes twice.
            if jump == 0 {
                *sequence = sequence.wrapping_add(300);
            } else if jump == 1 {
                *identification = identification.wrapping_add(1);
            }
            let length = length * 100;
            packets.push(build(Packet { ipv6, flow, sequence: *sequence, identification: *identification, length, oddity }));
            *sequence = sequence.wrapping_add(length as u32);
            *identification = identification.wrapping_add(1);
        }
        let back = split(&merge(&packets));
        let flow_of = |packet: &[u8]| if packet[0] >> 4 == 4 { packet[12..20].to_vec() } else { packet[8..40].to_vec() };
        let mut flows: Vec<Vec<u8>> = packets.iter().map(|packet| flow_of(packet)).collect();
        flows.sort();
        flows.dedup();
        prop_assert_eq!(back.len(), packets.len());
        for flow in flows {
            // UDP goes its own way.
            for udp in [false, true] {
                let of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                    let is_udp = |packet: &[u8]| if packet[0] >> 4 == 4 { packet[9] == 17 } else { packet[6] == 17 };
                    all.iter().filter(|packet| flow_of(packet) == flow && is_udp(packet) == udp).cloned().collect()
                };
                prop_assert_eq!(of(&back), of(&packets));
            }
        }
    }

    #[test]
    fn no_input_panics(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 0..20)) {
        let back: usize = merge(&packets).iter().map(|(_, octets)| octets.len()).sum();
        prop_assert_eq!(back, packets.concat().len());
    }
}
