use proptest::prelude::*;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn path(segments: &[&str]) -> Vec<Ipv6Addr> {
    segments.iter().map(|text| text.parse().unwrap()).collect()
}

/// Fact sheet 4.7: written out by hand from RFC 8754 §2.
#[test]
fn three_segments_reduced_and_full() {
    let path = path(&["fc00:1::e", "fc00:2::e", "fc00:3::46"]);
    let mut out = vec![0xaa];
    assert_eq!(emit(&path, true, ip::IN_IPV6, &mut out), ROUTING);
    let reduced = "aa 2904040201000000 fc000003000000000000000000000046 fc00000200000000000000000000000e";
    assert_eq!(out, hex(reduced));
    out.clear();
    assert_eq!(emit(&path, false, ip::IN_IPV4, &mut out), ROUTING);
    let full = "0406040202000000 fc000003000000000000000000000046 fc00000200000000000000000000000e
                fc00000100000000000000000000000e";
    assert_eq!(out, hex(full));
}

/// What Linux 6.18 wrote on the wire (captures/srv6): `encap seg6 mode encap.red` and `encap` with the same path.
#[test]
fn as_linux_writes_it() {
    let loops = ["fcbb:2::1", "fcbb:3::e", "fcbb:2::1", "fcbb:3::d6"];
    let cases = [
        (
            &loops[..],
            true,
            41,
            "2906040302000000 fcbb00030000000000000000000000d6 fcbb0002000000000000000000000001
                                fcbb000300000000000000000000000e",
        ),
        (
            &loops[..],
            false,
            41,
            "2908040303000000 fcbb00030000000000000000000000d6 fcbb0002000000000000000000000001
                                 fcbb000300000000000000000000000e fcbb0002000000000000000000000001",
        ),
        (&["fcbb:2::1", "fcbb:3::40"][..], true, 4, "0402040100000000 fcbb0003000000000000000000000040"),
        (&["fcbb:3::d6"][..], true, 41, ""),
    ];
    for (segments, reduced, next, expected) in cases {
        let mut out = Vec::new();
        let named = emit(&path(segments), reduced, next, &mut out);
        assert_eq!(named, if expected.is_empty() { next } else { ROUTING });
        assert_eq!(out, hex(expected));
        assert_eq!(overhead(segments.len(), reduced), ip::HEADER6_LEN + out.len());
    }
}

/// The packet S1 of the field cases, by another encoder.
#[test]
fn a_packet_is_read() {
    let packet = hex("6000000000602b40fd660000000000000000000000000001fd66000000000001000000000000000e
        2906040202000000fd660000000000030000000000000046fd66000000000002000000000000000e
        fd66000000000001000000000000000e
        6000000000003b40fd00000a000000000000000000000001fd00000b000000000000000000000001");
    let header = Header::parse(&packet).unwrap();
    let found = chain(&header, &packet).unwrap();
    assert_eq!((found.upper, found.upper_at), (ip::IN_IPV6, 96));
    let routing = found.routing.unwrap();
    assert_eq!((routing.named_at, routing.at, routing.length, routing.left), (6, 40, 56, 2));
    assert_eq!(routing.next(&packet), Ok("fd66:0:0:2::e".parse().unwrap()));
}

/// A packet with an SRH of this fixed part, behind it `rest`.
fn with_srh(units: u8, left: u8, last: u8, rest: &[u8]) -> Vec<u8> {
    let (from, to) = (Ipv6Addr::from(1), Ipv6Addr::from(2));
    let payload = u16::try_from(8 + rest.len()).unwrap();
    let mut packet = ip::header6(from, to, 0, 64, ROUTING, payload).to_vec();
    packet.extend_from_slice(&[59, units, 4, left, last, 0, 0, 0]);
    packet.extend_from_slice(rest);
    packet
}

fn next(packet: &[u8]) -> Option<Result<Ipv6Addr, Fault>> {
    let header = Header::parse(packet).unwrap();
    Some(chain(&header, packet)?.routing?.next(packet))
}

#[test]
fn lists_that_contradict_themselves() {
    let two = [[1; 16], [2; 16]].concat();
    let first = Ipv6Addr::from([1; 16]);
    assert_eq!(next(&with_srh(4, 1, 1, &two)), Some(Ok(first)));
    assert_eq!(next(&with_srh(4, 3, 1, &two)), Some(Err(Fault::List)), "Segments Left beyond Last Entry + 1");
    assert_eq!(next(&with_srh(4, 255, 1, &two)), Some(Err(Fault::List)));
    assert_eq!(next(&with_srh(4, 1, 2, &two)), Some(Err(Fault::List)), "Last Entry beyond the header");
    assert_eq!(next(&with_srh(4, 1, 255, &two)), Some(Err(Fault::List)));
    assert_eq!(next(&with_srh(0, 1, 0, &[])), Some(Err(Fault::List)), "no list at all");
    assert_eq!(next(&with_srh(255, 1, 1, &two)), None, "longer than the packet");
    assert_eq!(next(&with_srh(5, 1, 1, &two)), None);
    // Reduced: Segments Left = Last Entry + 1 is fine.
    assert_eq!(next(&with_srh(4, 2, 1, &two)), Some(Ok(Ipv6Addr::from([2; 16]))));
    let many = vec![3; 17 * 16];
    assert_eq!(next(&with_srh(34, 1, 16, &many)), Some(Err(Fault::TooMany)));
    assert_eq!(next(&with_srh(32, 1, 15, &many[16..])), Some(Ok(Ipv6Addr::from([3; 16]))));
}

#[test]
fn tlvs_stay_inside() {
    let tlv = |octets: [u8; 8]| next(&with_srh(3, 1, 0, &[&[1; 16][..], &octets].concat()));
    let fine = Some(Ok(Ipv6Addr::from([1; 16])));
    assert_eq!(tlv([4, 6, 0, 0, 0, 0, 0, 0]), fine, "PadN");
    assert_eq!(tlv([0; 8]), fine, "Pad1");
    assert_eq!(tlv([200, 2, 1, 2, 4, 2, 0, 0]), fine, "unknown ones are ignored");
    assert_eq!(tlv([4, 7, 0, 0, 0, 0, 0, 0]), Some(Err(Fault::Tlv)));
    assert_eq!(tlv([4, 5, 0, 0, 0, 0, 0, 9]), Some(Err(Fault::Tlv)), "no length");
}

#[test]
fn functions_are_the_code_points() {
    let locator: Ipv6Net = "fd66:0:0:3::/64".parse().unwrap();
    assert_eq!(sid(locator, END_DT46), "fd66:0:0:3::14".parse::<Ipv6Addr>().unwrap());
    assert_eq!(function(locator, sid(locator, END)), Some(END));
    assert_eq!(function(locator, "fd66:0:0:3:0:1::1".parse().unwrap()), None);
    assert_eq!(behaviour(END_DT46), Some(Behaviour::Decapsulate { v4: true, v6: true }));
    assert_eq!(behaviour(0), None);
    let flavours = (0..=u16::MAX).filter(|&f| matches!(behaviour(f), Some(Behaviour::End { .. }))).count();
    assert_eq!(flavours, 8);
}

proptest! {
    /// Every path is read back segment by segment, and its length is what was promised.
    #[test]
    fn what_is_written_is_read(segments in proptest::collection::vec(any::<u128>(), 1..=16), reduced: bool, inner: u8) {
        let segments: Vec<Ipv6Addr> = segments.into_iter().map(Ipv6Addr::from).collect();
        let mut srh = Vec::new();
        let named = emit(&segments, reduced, inner, &mut srh);
        prop_assert_eq!(overhead(segments.len(), reduced), 40 + srh.len());
        if srh.is_empty() {
            prop_assert!(reduced && segments.len() == 1 && named == inner);
            return Ok(());
        }
        let length = u16::try_from(srh.len()).unwrap();
        let mut packet = ip::header6(Ipv6Addr::from(1), segments[0], 0, 64, named, length).to_vec();
        packet.extend_from_slice(&srh);
        for expected in &segments[1..] {
            let header = Header::parse(&packet).unwrap();
            let routing = chain(&header, &packet);
            // Whatever stands behind may itself look like an extension header.
            let Some(routing) = routing.and_then(|chain| chain.routing) else { return Ok(()) };
            prop_assert_eq!(routing.next(&packet), Ok(*expected));
            packet[40 + LEFT_AT] -= 1;
        }
        prop_assert_eq!(packet[40 + LEFT_AT], 0);
    }

    #[test]
    fn nothing_panics(payload in proptest::collection::vec(any::<u8>(), 0..400), next: u8) {
        for next in [next, ROUTING, 0, 60] {
            let length = u16::try_from(payload.len()).unwrap();
            let mut packet = ip::header6(Ipv6Addr::from(1), Ipv6Addr::from(2), 0, 64, next, length).to_vec();
            packet.extend_from_slice(&payload);
            let header = Header::parse(&packet).unwrap();
            if let Some(found) = chain(&header, &packet) {
                prop_assert!(found.upper_at <= packet.len());
                if let Some(routing) = found.routing.filter(|routing| routing.left > 0) {
                    let _ = routing.next(&packet);
                }
            }
        }
    }
}
