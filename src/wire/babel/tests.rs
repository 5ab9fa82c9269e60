use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::prelude::*;

use super::*;

const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x0211, 0x2233, 0x4455, 0x6677);
const ID: RouterId = [1, 2, 3, 4, 5, 6, 7, 8];
const VIA_V6: Origin = Origin { router_id: ID, next_hop: IpAddr::V6(FROM) };

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|d| u8::try_from(d).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn packet(body: &[u8]) -> Vec<u8> {
    let mut packet = vec![42, 2];
    packet.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    packet.extend(body);
    packet
}

fn emit(tlvs: &[Tlv]) -> Vec<u8> {
    let mut packet = Packet::new(65_535, FROM);
    for tlv in tlvs {
        assert!(packet.push(tlv));
    }
    packet.finish()
}

fn read(payload: &[u8]) -> Vec<Result<Tlv, Malformed>> {
    parse(payload, FROM).unwrap().collect()
}

fn to(net: &str) -> Prefix {
    Prefix::to(net.parse().unwrap())
}

fn update(prefix: Prefix, metric: u16) -> Update {
    Update { prefix: Some(prefix), interval: 1600, seqno: 7, metric, origin: Some(VIA_V6) }
}

/// Written as given, and read back as the same values.
#[track_caller]
fn sample(hex: &str, tlvs: &[Tlv]) {
    let expected = packet(&octets(hex));
    assert_eq!(emit(tlvs), expected);
    assert_eq!(read(&expected), tlvs.iter().cloned().map(Ok).collect::<Vec<_>>());
}

#[test]
fn samples() {
    let hello = Hello { unicast: false, seqno: 0x0102, interval: 400, stamp: Some(0x1122_3344) };
    sample("040c0000 0102 0190 0304 11223344", &[Tlv::Hello(hello)]);
    let stamps = Stamps { origin: 0x5566_7788, receive: 0x99aa_bbcc };
    let ihu = Ihu { address: Some(IpAddr::V6(FROM)), rxcost: 96, interval: 1200, stamps: Some(stamps) };
    sample("0518 03 00 0060 04b0 0211223344556677 0308 55667788 99aabbcc", &[Tlv::Ihu(ihu)]);
    sample(
        "060a 0000 0102030405060708
         0812 02 80 40 00 0640 0007 0060 20010db800010002
         080b 02 00 40 07 0640 0007 0060 03",
        &[Tlv::Update(update(to("2001:db8:1:2::/64"), 96)), Tlv::Update(update(to("2001:db8:1:3::/64"), 96))],
    );
    let omitted = "060a 0000 0102030405060708
         0812 02 80 40 00 0640 0007 0060 20010db800010002
         080c 02 00 40 06 0640 0007 0060 0003";
    let both = [update(to("2001:db8:1:2::/64"), 96), update(to("2001:db8:1:3::/64"), 96)];
    assert_eq!(read(&packet(&octets(omitted))), both.map(|update| Ok(Tlv::Update(update))), "one octet less omitted");
    let specific = Prefix::new("::/0".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()).unwrap();
    sample(
        "060a 0000 0102030405060708 0813 02 00 00 00 0640 0007 0080 8007 30 20010db80001",
        &[Tlv::Update(update(specific, 128))],
    );
    let origin = Some(Origin { router_id: ID, next_hop: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)) });
    sample(
        "060a 0000 0102030405060708 0706 01 00 0a000001 080d 01 00 18 00 0640 0007 0000 0a0102",
        &[Tlv::Update(Update { origin, ..update(to("10.1.2.0/24"), 0) })],
    );
    sample(
        "060a 0000 0102030405060708 080d 04 00 18 00 0640 0007 0000 0a0103",
        &[Tlv::Update(update(to("10.1.3.0/24"), 0))],
    );
    let everything = Update { prefix: None, interval: 0xffff, seqno: 7, metric: INFINITY, origin: None };
    sample("080a 00 00 00 00 ffff 0007 ffff", &[Tlv::Update(everything)]);
    sample("0902 00 00", &[Tlv::RouteRequest { prefix: None }]);
    let request = SeqnoRequest { prefix: to("2001:db8:1:2::/64"), seqno: 8, hop_count: 64, router_id: ID };
    sample("0a16 02 40 0008 40 00 0102030405060708 20010db800010002", &[Tlv::SeqnoRequest(request)]);
    sample(
        "0206 0000 abcd 0064 0302 abcd",
        &[Tlv::AckRequest { opaque: 0xabcd, interval: 100 }, Tlv::Ack { opaque: 0xabcd }],
    );
}

#[test]
fn packets_of_other_programs() {
    let text = include_str!("../../../tests/data/babel/interop.txt");
    let mut kinds = [0; 7];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split(' ');
        let (_, from, payload) = (fields.next(), fields.next().unwrap(), fields.next().unwrap());
        let from = Ipv6Addr::from(<[u8; 16]>::try_from(octets(from)).unwrap());
        for tlv in parse(&octets(payload), from).unwrap() {
            match tlv.unwrap() {
                Tlv::Hello(hello) => {
                    assert!(hello.stamp.is_some() && !hello.unicast);
                    kinds[0] += 1;
                }
                Tlv::Ihu(ihu) => {
                    assert!(ihu.stamps.is_some() && ihu.address.is_some());
                    kinds[1] += 1;
                }
                Tlv::Update(Update { prefix: None, metric, .. }) => {
                    assert_eq!(metric, INFINITY);
                    kinds[2] += 1;
                }
                Tlv::Update(Update { prefix: Some(prefix), metric, origin, .. }) => {
                    assert_eq!(metric == INFINITY, origin.is_none());
                    if let Some(origin) = origin {
                        assert_eq!(origin.next_hop, IpAddr::V6(from), "{prefix}");
                    }
                    kinds[if prefix.is_source_specific() { 3 } else { 4 }] += 1;
                }
                Tlv::RouteRequest { prefix: None } => kinds[5] += 1,
                Tlv::RouteRequest { prefix: Some(_) } => kinds[6] += 1,
                other @ (Tlv::SeqnoRequest(_) | Tlv::AckRequest { .. } | Tlv::Ack { .. }) => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(kinds, [7, 3, 3, 9, 18, 3, 3]);
}

#[test]
fn the_first_packet_of_babeld_in_full() {
    let text = include_str!("../../../tests/data/babel/interop.txt");
    let payload = text.lines().nth(1).unwrap().rsplit(' ').next().unwrap();
    let tlvs: Vec<Tlv> = read(&octets(payload)).into_iter().map(Result::unwrap).collect();
    let id = [0, 0, 0, 0, 10, 70, 1, 1];
    let route = |prefix| {
        let origin = Some(Origin { router_id: id, next_hop: IpAddr::V6(FROM) });
        Tlv::Update(Update { prefix: Some(prefix), interval: 400, seqno: 1, metric: 0, origin })
    };
    let specific = |to: &str, from: &str| Prefix::new(to.parse().unwrap(), from.parse().unwrap()).unwrap();
    assert_eq!(tlvs[0], Tlv::Hello(Hello { unicast: false, seqno: 1, interval: 100, stamp: Some(0x8352_5d2c) }));
    assert!(matches!(tlvs[1], Tlv::Update(Update { prefix: None, metric: INFINITY, .. })));
    assert_eq!(tlvs[2], Tlv::RouteRequest { prefix: None });
    assert_eq!(tlvs[3], route(to("10.70.1.1/32")));
    assert_eq!(tlvs[4], route(specific("::/0", "fd70:a::/32")));
    assert_eq!(tlvs[5], route(to("fd70:1::1/128")));
    assert_eq!(tlvs.len(), 6);
}

/// Every odd packet of the validation table, followed by a good Hello in the same packet.
#[test]
fn validation_table() {
    use Malformed as M;
    let text = include_str!("../../../tests/data/babel/validation.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let good = Hello { unicast: false, seqno: 99, interval: 400, stamp: None };
    let mut seen = 0;
    for case in lines.chunks(2) {
        let mut body = octets(case[1])[4..].to_vec();
        body.extend(octets("0406 0000 0063 0190"));
        let mut items = read(&packet(&body));
        assert_eq!(items.pop(), Some(Ok(Tlv::Hello(good))), "{}: the Hello after it counts", case[0]);
        let name = case[0].split(' ').next().unwrap();
        let errors: Vec<M> = items.iter().filter_map(|item| item.clone().err()).collect();
        let good: Vec<&Tlv> = items.iter().filter_map(|item| item.as_ref().ok()).collect();
        let (malformed, values): (&[M], usize) = match name {
            "B7" | "B8" | "B11" | "B12" => (&[], 1),
            "B10" => (&[M::ZeroInterval], 1),
            "B13" => (&[M::NoRouterId], 0),
            "B14" => (&[M::ZeroInterval], 0),
            "B15" | "B16" => (&[M::PrefixLength], 0),
            "B17" => (&[M::NoDefaultPrefix], 0),
            "B18" => (&[M::WildcardUpdate], 0),
            "B19" | "B20" | "B21" => (&[M::SourcePrefix], 0),
            "B22" => (&[M::RouterId], 0),
            "B23" => (&[M::HopCount], 0),
            "B25" => (&[M::AddressEncoding], 0),
            "B26" => (&[], 1),
            "B28" => (&[M::RouterId, M::NoRouterId], 0),
            other => panic!("{other}"),
        };
        assert_eq!((errors.as_slice(), good.len()), (malformed, values), "{}", case[0]);
        match name {
            "B8" => assert!(matches!(good[0], Tlv::Hello(Hello { interval: 0, seqno: 1, .. }))),
            "B11" | "B12" => {
                assert!(
                    matches!(good[0], Tlv::Update(u) if u.metric == INFINITY && u.prefix == Some(to("10.1.2.0/24")))
                );
            }
            "B26" => assert!(matches!(good[0], Tlv::Update(u) if u.prefix == Some(to("2001:db8:1:3::/64")))),
            _ => {}
        }
        seen += 1;
    }
    assert_eq!(seen, 19);
}

fn updates(body: &str) -> Vec<(String, RouterId)> {
    read(&packet(&octets(body)))
        .into_iter()
        .filter_map(|item| match item {
            Ok(Tlv::Update(Update { prefix: Some(prefix), origin: Some(origin), .. })) => {
                Some((prefix.to_string(), origin.router_id))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_router_id_comes_from_the_address() {
    let v6 = updates("081a 02 40 80 00 0640 0007 0060 20010db8000100021122334455667788");
    assert_eq!(v6, [("2001:db8:1:2:1122:3344:5566:7788/128".into(), octets("1122334455667788").try_into().unwrap())]);
    let v4 = updates("080e 04 40 20 00 0640 0007 0060 0a010203");
    assert_eq!(v4, [("10.1.2.3/32".into(), [0, 0, 0, 0, 10, 1, 2, 3])]);
    let none = updates("060a 0000 0102030405060708 0812 02 40 40 00 0640 0007 0060 20010db800010002");
    assert!(none.is_empty(), "the low half of a /64 is zero, which is no router-id");
}

#[test]
fn default_prefixes_are_apart() {
    let id = "060a 0000 0102030405060708 0706 01 00 0a000001";
    let both = updates(&format!("{id} 080e 01 80 20 00 0640 0007 0060 0a010203 080b 04 00 20 03 0640 0007 0060 09"));
    assert_eq!(both.len(), 1, "encoding 4 has no default prefix yet");
    let one = updates(&format!("{id} 080e 01 80 20 00 0640 0007 0060 0a010203 080b 01 00 20 03 0640 0007 0060 09"));
    assert_eq!(one[1].0, "10.1.2.9/32");
    let other = updates(&format!("{id} 080e 04 80 20 00 0640 0007 0060 0a010203 080b 04 00 20 03 0640 0007 0060 09"));
    assert_eq!(other[1].0, "10.1.2.9/32");
}

#[test]
fn ignored_tlvs_change_the_state_all_the_same() {
    let ignored = "081c 02 c0 80 00 0640 0007 0060 20010db8000100021122334455667788 fe00";
    let after = updates(&format!("{ignored} 080e 02 00 40 04 0640 0007 0060 00990001"));
    assert_eq!(after, [("2001:db8:99:1::/64".into(), octets("1122334455667788").try_into().unwrap())]);
}

#[test]
fn a_retraction_needs_nothing_but_a_prefix() {
    let items = read(&packet(&octets("080d 01 00 18 00 0000 0007 ffff 0a0102")));
    let Ok(Tlv::Update(update)) = &items[0] else { panic!() };
    assert_eq!((update.prefix, update.origin), (Some(to("10.1.2.0/24")), None));
}

#[test]
fn an_ipv4_update_needs_an_ipv4_next_hop() {
    let items = read(&packet(&octets("060a 0000 0102030405060708 080d 01 00 18 00 0640 0007 0060 0a0102")));
    assert_eq!(items, [Err(Malformed::NoNextHop)]);
}

#[test]
fn sub_tlvs() {
    let hello = |sub: &str| {
        let body = octets(&format!("0000 0102 0190 {sub}"));
        let mut tlv = vec![4, u8::try_from(body.len()).unwrap()];
        tlv.extend(body);
        read(&packet(&tlv)).pop()
    };
    let stamp = |item: Option<Result<Tlv, Malformed>>| match item {
        Some(Ok(Tlv::Hello(hello))) => hello.stamp,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        stamp(hello("00 0102 0000 03061122334455 66")),
        Some(0x1122_3344),
        "padding, and a stamp that is too long"
    );
    assert_eq!(stamp(hello("0303112233")), None, "a stamp that is too short");
    assert_eq!(stamp(hello("7f01aa")), None, "unknown");
    assert_eq!(hello("8001aa"), None, "mandatory and not for a Hello");
    assert_eq!(hello("0305112233"), Some(Err(Malformed::SubTlvLength)));
}

#[test]
fn headers_and_trailers() {
    let hello = "0406000001020190";
    assert_eq!(parse(&octets("2b020008"), FROM).err(), Some(Malformed::Header));
    assert_eq!(parse(&octets("2a030008"), FROM).err(), Some(Malformed::Header));
    assert_eq!(parse(&octets("2a02"), FROM).err(), Some(Malformed::Header));
    assert_eq!(parse(&octets("2a020009 0406000001020190"), FROM).err(), Some(Malformed::BodyLength));
    assert_eq!(read(&octets(&format!("2a020008{hello}{hello}"))).len(), 1, "what follows the body is a trailer");
    assert_eq!(read(&octets("2a02000400010000")).len(), 0, "padding");
    let lied = read(&packet(&octets(&format!("{hello}0440{hello}"))));
    assert_eq!(lied[1..], [Err(Malformed::TlvLength)]);
    assert_eq!(read(&packet(&octets(&format!("c803aabbcc{hello}")))).len(), 1, "an unknown TLV is skipped");
}

#[test]
fn a_full_packet_takes_no_more_and_stays_whole() {
    let mut packet = Packet::new(512, FROM);
    let mut count = 0;
    while packet.push(&Tlv::Update(update(Prefix::host(IpAddr::V6(Ipv6Addr::from(count << 64))), 1))) {
        count += 1;
    }
    let payload = packet.finish();
    assert!(payload.len() <= 512 && payload.len() > 480);
    assert_eq!(read(&payload).iter().filter(|item| item.is_ok()).count(), usize::try_from(count).unwrap());
}

fn net() -> impl Strategy<Value = IpNet> {
    prop_oneof![
        (any::<u32>(), 0..=32_u8).prop_map(|(a, l)| IpNet::V4(Ipv4Net::new(a.into(), l).unwrap().trunc())),
        // Few distinct octets, so that prefixes share some.
        (prop::array::uniform16(0..3_u8), 0..=128_u8)
            .prop_map(|(a, l)| IpNet::V6(Ipv6Net::new(a.into(), l).unwrap().trunc())),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (net(), net()).prop_map(|(to, from)| Prefix::new(to, from).unwrap_or(Prefix::to(to)))
}

fn router_id() -> impl Strategy<Value = RouterId> {
    any::<RouterId>().prop_filter("valid", is_router_id)
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    prop_oneof![
        any::<u64>().prop_map(|low| Ipv6Addr::from((0xfe80 << 112) | u128::from(low))),
        any::<u128>().prop_map(Ipv6Addr::from),
    ]
}

fn an_update() -> impl Strategy<Value = Tlv> {
    let finite = (prefix(), 1_u16.., any::<u16>(), 0..INFINITY, router_id(), v6(), any::<u32>()).prop_map(
        |(prefix, interval, seqno, metric, router_id, v6, v4)| {
            let v4 = prefix.is_ipv4() && v4 % 2 == 0;
            let next_hop = if v4 { IpAddr::V4(u32::from(seqno).into()) } else { IpAddr::V6(v6) };
            let origin = Some(Origin { router_id, next_hop });
            Update { prefix: Some(prefix), interval, seqno, metric, origin }
        },
    );
    let retraction = (prop::option::of(prefix()), any::<u16>(), any::<u16>())
        .prop_map(|(prefix, interval, seqno)| Update { prefix, interval, seqno, metric: INFINITY, origin: None });
    prop_oneof![3 => finite, 1 => retraction].prop_map(Tlv::Update)
}

fn tlv() -> impl Strategy<Value = Tlv> {
    let stamps = prop::option::of((any::<u32>(), any::<u32>()).prop_map(|(o, r)| Stamps { origin: o, receive: r }));
    let address =
        prop::option::of(prop_oneof![any::<u32>().prop_map(|a| IpAddr::V4(a.into())), v6().prop_map(IpAddr::V6)]);
    prop_oneof![
        8 => an_update(),
        1 => (any::<u16>(), 1_u16..).prop_map(|(opaque, interval)| Tlv::AckRequest { opaque, interval }),
        1 => any::<u16>().prop_map(|opaque| Tlv::Ack { opaque }),
        1 => (any::<bool>(), any::<u16>(), any::<u16>(), any::<Option<u32>>())
            .prop_map(|(unicast, seqno, interval, stamp)| Tlv::Hello(Hello { unicast, seqno, interval, stamp })),
        1 => (address, any::<u16>(), 1_u16.., stamps)
            .prop_map(|(address, rxcost, interval, stamps)| Tlv::Ihu(Ihu { address, rxcost, interval, stamps })),
        1 => prop::option::of(prefix()).prop_map(|prefix| Tlv::RouteRequest { prefix }),
        1 => (prefix(), any::<u16>(), 1_u8.., router_id()).prop_map(|(prefix, seqno, hop_count, router_id)| {
            Tlv::SeqnoRequest(SeqnoRequest { prefix, seqno, hop_count, router_id })
        }),
    ]
}

proptest! {
    #[test]
    fn round_trip(tlvs in prop::collection::vec(tlv(), 0..40)) {
        let items: Vec<Tlv> = read(&emit(&tlvs)).into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(items, tlvs);
    }

    #[test]
    fn arbitrary_octets(body in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse(&body, FROM).map(Iterator::count);
        prop_assert!(read(&packet(&body)).len() <= body.len());
    }

    #[test]
    fn damaged_packets(tlvs in prop::collection::vec(tlv(), 1..20), at: prop::sample::Index, to: u8, cut: prop::sample::Index) {
        let mut payload = emit(&tlvs);
        let at = at.index(payload.len());
        payload[at] = to;
        let _ = parse(&payload, FROM).map(Iterator::count);
        payload.truncate(cut.index(payload.len()));
        let _ = parse(&payload, FROM).map(Iterator::count);
    }
}
