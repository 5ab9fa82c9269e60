use etherparse::{NetHeaders, PacketHeaders, TcpHeader, TcpOptionElement, TransportHeader};

use super::*;

fn syn(packet: PacketBuilderOf, mss: u16, syn: bool) -> Vec<u8> {
    let mut tcp = TcpHeader::new(40000, 443, 1, 64240);
    (tcp.syn, tcp.ack) = (syn, !syn);
    tcp.set_options(&[TcpOptionElement::Noop, TcpOptionElement::MaximumSegmentSize(mss)]).unwrap();
    let mut octets = Vec::new();
    packet.tcp_header(tcp).write(&mut octets, &[]).unwrap();
    octets
}

type PacketBuilderOf = etherparse::PacketBuilderStep<etherparse::IpHeaders>;

fn four(from: u8, to: u8) -> PacketBuilderOf {
    PacketBuilder::ipv4(host4(from), host4(to), 64)
}

fn six(from: u8, to: u8) -> PacketBuilderOf {
    PacketBuilder::ipv6(host6(from), host6(to), 64)
}

/// The MSS that the receiver sees, with a checksum that it takes.
fn seen(packet: &[u8]) -> u16 {
    let headers = PacketHeaders::from_ip_slice(packet).unwrap();
    let Some(TransportHeader::Tcp(tcp)) = headers.transport else { panic!("not TCP") };
    let payload = headers.payload.slice();
    let wanted = match headers.net.unwrap() {
        NetHeaders::Ipv4(ip, _) => tcp.calc_checksum_ipv4(&ip, payload),
        NetHeaders::Ipv6(ip, _) => tcp.calc_checksum_ipv6(&ip, payload),
        NetHeaders::Arp(_) => panic!("ARP"),
    };
    assert_eq!(tcp.checksum, wanted.unwrap());
    let mss = tcp
        .options_iterator()
        .filter_map(Result::ok)
        .find_map(|option| if let TcpOptionElement::MaximumSegmentSize(mss) = option { Some(mss) } else { None });
    mss.expect("an MSS")
}

/// Node 1, whose device takes larger packets than node 2's: it does not clamp on the way out.
fn roomy() -> (Plane, Plane) {
    let mut a = Plane::new(9000);
    a.set_addresses(vec![address4(1), address6(1)]);
    route(&mut a, &routes(&[(1, Target::Local), (2, via(2))]));
    let mut b = node(2, &routes(&[(1, via(1)), (2, Target::Local)]));
    connect((&mut a, 1), (&mut b, 2), Cipher::Aes128Gcm, 1);
    (a, b)
}

#[test]
fn a_syn_offers_what_fits_both_ways() {
    let (mut a, mut b) = roomy();
    for (there, back, wanted) in [
        (syn(four(1, 2), 8960, true), syn(four(2, 1), 8960, true), 1360),
        (syn(six(1, 2), 8940, true), syn(six(2, 1), 8940, true), 1340),
    ] {
        // In from the mesh at node 2, whose device is the narrow one, and out through it.
        let arrived = inner(&pass(1, &outbound(&mut a, &there), &mut b));
        assert_eq!(seen(&arrived[0]), wanted);
        let left = inner(&pass(2, &outbound(&mut b, &back), &mut a));
        assert_eq!(seen(&left[0]), wanted);
    }
}

#[test]
fn what_fits_and_what_is_no_syn_stays_as_it_is() {
    let (mut a, mut b) = two(Cipher::Aes128Gcm);
    for packet in
        [syn(four(1, 2), 1360, true), syn(six(1, 2), 1220, true), syn(four(1, 2), 1460, false), udp4(1, 2, 0, 64, 40)]
    {
        assert_eq!(inner(&pass(1, &outbound(&mut a, &packet), &mut b)), [packet]);
    }
}

#[test]
fn behind_extension_headers_too_but_not_in_later_fragments() {
    let (mut a, mut b) = two(Cipher::Aes128Gcm);
    let plain = syn(six(1, 2), 8940, true);
    // Eight octets of destination options in front of the TCP header.
    let mut packet = plain[..40].to_vec();
    packet[5] += 8;
    packet[6] = 60;
    packet.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend(&plain[40..]);
    let arrived = inner(&pass(1, &outbound(&mut a, &packet), &mut b));
    assert_eq!(seen(&arrived[0]), 1340);

    // A fragment of which the octets only look like a SYN.
    let mut fragment = syn(four(1, 2), 8960, true);
    clear_df(&mut fragment);
    fragment[7] = 1;
    fragment[10..12].copy_from_slice(&[0, 0]);
    let sum = ip::Sum::default().plus(&fragment[..20]).finish();
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(inner(&pass(1, &outbound(&mut a, &fragment), &mut b)), [fragment]);
}
