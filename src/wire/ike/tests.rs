//! What a peer may send, well or badly formed; the messages of a real peer are in `tests/captures.rs`.

use proptest::collection::vec;
use proptest::prelude::*;

use super::hex::hex;
use super::*;

/// A case of `tests/data/ike_cases.txt`: IKE_SA_INIT requests with one thing wrong each.
fn case(name: &str) -> Vec<u8> {
    let cases = include_str!("../../../tests/data/ike_cases.txt");
    let mut lines = cases.lines().skip_while(|line| line.split(' ').next() != Some(name));
    hex(lines.nth(1).unwrap())
}

/// What comes of a clear message.
fn clear(datagram: &[u8]) -> Result<Vec<Payload>, ParseError> {
    match Message::parse(datagram).unwrap().body {
        Body::Clear(chain) => chain.payloads(),
        Body::Sk(_) | Body::Skf(_) => panic!("protected"),
    }
}

fn invalid(datagram: &[u8]) -> &'static str {
    match clear(datagram) {
        Err(ParseError::InvalidSyntax(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn kinds(payloads: &[Payload]) -> Vec<PayloadType> {
    payloads.iter().map(Payload::kind).collect()
}

const HEADER: Header = Header {
    spi_initiator: 0xa1a2_a3a4_a5a6_a7a8,
    spi_responder: 0,
    exchange: Exchange::IKE_SA_INIT,
    from_initiator: true,
    response: false,
    message_id: 0,
};

#[test]
fn a_good_request() {
    let payloads = clear(&case("K1")).unwrap();
    assert_eq!(kinds(&payloads), [PayloadType::SA, PayloadType::KE, PayloadType::NONCE]);
    assert_eq!(Message::parse(&case("K1")).unwrap().header, HEADER);
    assert_eq!(encode_clear(&HEADER, &payloads).unwrap(), case("K1"));
}

#[test]
fn lengths_that_lie() {
    for name in ["K2", "K3"] {
        assert_eq!(invalid(&case(name)), "length of a payload", "{name}");
    }
    for name in ["K4", "K5"] {
        assert_eq!(Message::parse(&case(name)).unwrap_err(), Garbage::Length, "{name}");
    }
    assert_eq!(invalid(&case("K6")), "proposal too short");
    assert_eq!(invalid(&case("K7")), "number of transforms in a proposal");
    assert_eq!(invalid(&case("K8")), "length of a proposal or transform");
    assert_eq!(invalid(&case("K9")), "nonce not of 16 to 256 octets");
    assert_eq!(invalid(&case("K10")), "nonce not of 16 to 256 octets");
    assert_eq!(invalid(&case("K13")), "notify too short");
    let mut trailing = case("K1");
    trailing.push(0);
    assert_eq!(Message::parse(&trailing).unwrap_err(), Garbage::Length);
    let mut header_only = trailing;
    header_only[24..28].copy_from_slice(&[0, 0, 0, 28]);
    assert_eq!(Message::parse(&header_only).unwrap_err(), Garbage::Length);
    assert_eq!(invalid(&header_only[..28]), "length of a payload");
}

/// Their form is right; the key exchange refuses them: see `crypto::kex`.
#[test]
fn bad_public_values_are_not_the_codecs_business() {
    let mut rng = crate::crypto::rng::Rng::from_number(1);
    for (name, len) in [("K11", 32), ("K12", 31)] {
        let Payload::Ke(ke) = &clear(&case(name)).unwrap()[1] else { panic!("not KE") };
        assert_eq!((ke.method, ke.data.len()), (transform::X25519, len));
        assert!(crate::crypto::kex::respond(crate::crypto::kex::Method::X25519, &ke.data, &mut rng).is_err());
    }
}

#[test]
fn unknown_payloads() {
    assert_eq!(clear(&case("K14")), Err(ParseError::UnsupportedCritical(PayloadType(200))));
    let payloads = clear(&case("K15")).unwrap();
    assert_eq!(payloads[0], Payload::Unknown(Unknown { kind: PayloadType(200), critical: false, body: Vec::new() }));
    assert_eq!(payloads[1..], clear(&case("K1")).unwrap());
    // RFC 7296 §2.5: the bit means nothing on the payloads of that document.
    let mut critical_sa = case("K1");
    critical_sa[29] = 0x80;
    assert_eq!(clear(&critical_sa), clear(&case("K1")));
}

#[test]
fn headers_nobody_answers() {
    assert_eq!(Message::parse(&case("K17")).unwrap_err(), Garbage::ZeroSpi);
    assert_eq!(Message::parse(&case("K18")).unwrap_err(), Garbage::NewVersion(HEADER));
    let mut ikev1 = case("K1");
    ikev1[17] = 0x10;
    assert_eq!(Message::parse(&ikev1).unwrap_err(), Garbage::OldVersion);
    for len in 0..28 {
        assert_eq!(Message::parse(&case("K1")[..len]).unwrap_err(), Garbage::Short, "{len}");
    }
    let mut minor = case("K1");
    minor[17] = 0x2f;
    minor[19] |= 0x10;
    assert_eq!(Message::parse(&minor).unwrap().header, HEADER);
}

#[test]
fn one_octet_less_is_never_a_message() {
    for number in (2..=15).chain([17, 18, 19, 20]) {
        let datagram = case(&format!("K{number}"));
        assert!(Message::parse(&datagram[..datagram.len() - 1]).is_err(), "K{number}");
    }
}

#[test]
fn fragment_numbers() {
    assert_eq!(Message::parse(&case("K19")).unwrap_err(), Garbage::FragmentNumber);
    assert_eq!(Message::parse(&case("K20")).unwrap_err(), Garbage::FragmentNumber);
    let mut good = case("K20");
    good[33] = 2;
    let Body::Skf(fragment) = Message::parse(&good).unwrap().body else { panic!("not SKF") };
    assert_eq!((fragment.number, fragment.total, fragment.sealed.associated), (2, 2, &good[..36]));
    let none_of_none = [&good[..32], &[0; 4], &good[36..]].concat();
    assert_eq!(Message::parse(&none_of_none).unwrap_err(), Garbage::FragmentNumber);
}

/// RFC 7634 appendix B
const SEALED: &str = "c0c1c2c3c4c5c6c7 d0d1d2d3d4d5d6d7 2e202500 00000009 00000045 29000029
    1011121314151617 610394701f8d017f7c12924889 6b71bfe25236efd7cdc67066906315b2";

#[test]
fn sealed_messages_come_apart() {
    let datagram = hex(SEALED);
    let Body::Sk(sealed) = Message::parse(&datagram).unwrap().body else { panic!("not SK") };
    assert_eq!(sealed.first, PayloadType::NOTIFY);
    assert_eq!((sealed.associated, &sealed.iv[..]), (&datagram[..32], &datagram[32..40]));
    assert_eq!((sealed.ciphertext, &sealed.icv[..]), (&datagram[40..53], &datagram[53..]));
}

#[test]
fn sealed_messages_cut_short() {
    let datagram = hex(SEALED);
    // Down to one octet of ciphertext, the pad length.
    for len in 28..datagram.len() {
        let mut short = datagram[..len].to_vec();
        short[27] = u8::try_from(len).unwrap();
        if len >= 32 {
            short[31] = u8::try_from(len - 28).unwrap();
        }
        let parsed = Message::parse(&short);
        if len < 28 + 4 + 8 + 1 + 16 {
            assert_eq!(parsed.unwrap_err(), Garbage::Sealed, "{len}");
        } else {
            assert!(parsed.is_ok(), "{len}");
        }
    }
    for (place, value) in [(31, 0x28), (31, 0x2a), (30, 1)] {
        let mut other = datagram.clone();
        other[place] = value;
        assert_eq!(Message::parse(&other).unwrap_err(), Garbage::Sealed);
    }
}

#[test]
fn an_encrypted_payload_stands_alone() {
    let mut behind_a_nonce = case("K1");
    behind_a_nonce[28] = PayloadType::SK.0;
    assert_eq!(invalid(&behind_a_nonce), "encrypted payload among others");
    let nested = Chain { first: PayloadType::SKF, octets: &[0, 0, 0, 4] };
    assert_eq!(nested.payloads(), Err(ParseError::InvalidSyntax("encrypted payload among others")));
}

#[test]
fn chains_end() {
    let looping: Vec<u8> = [PayloadType::VENDOR.0, 0, 0, 4].repeat(129);
    let chain = Chain { first: PayloadType::VENDOR, octets: &looping };
    assert_eq!(chain.payloads(), Err(ParseError::InvalidSyntax("too many payloads")));
    let after_the_end = Chain { first: PayloadType::NONE, octets: &[0; 4] };
    assert_eq!(after_the_end.payloads(), Err(ParseError::InvalidSyntax("octets after the last payload")));
    assert_eq!(Chain { first: PayloadType::NONE, octets: &[] }.payloads(), Ok(Vec::new()));
}

/// One payload with its generic header, of which the next payload octet is anything.
fn sample(kind: PayloadType, octets: &str) -> Payload {
    let mut octets = hex(octets);
    octets[0] = 0;
    let mut payloads = Chain { first: kind, octets: &octets }.payloads().unwrap();
    let payload = payloads.pop().unwrap();
    assert_eq!(encode_chain(std::slice::from_ref(&payload)).unwrap(), (kind, octets));
    payload
}

#[test]
fn samples() {
    let encr = Transform::with_key_length(TransformType::ENCR, transform::AES_GCM_16, 256);
    let no_esn = Transform::new(TransformType::ESN, transform::ESN_NO);
    let spi = vec![0xc1, 0xc2, 0xc3, 0xc4];
    let esp =
        |transforms| Proposal { number: 1, protocol: Protocol::ESP, spi: vec![0xc1, 0xc2, 0xc3, 0xc4], transforms };
    let sa_init =
        "22000030 0000002c 01010004 0300000c 01000014 800e0100 03000008 02000005 03000008 0400001f 00000008 06000024";
    let transforms = vec![
        encr.clone(),
        Transform::new(TransformType::PRF, transform::HMAC_SHA2_256),
        Transform::new(TransformType::KE, transform::X25519),
        Transform::new(TransformType::ADDKE1, transform::ML_KEM_768),
    ];
    let ike = Proposal { number: 1, protocol: Protocol::IKE, spi: Vec::new(), transforms };
    assert_eq!(sample(PayloadType::SA, sa_init), Payload::Sa(vec![ike]));
    assert_eq!(
        sample(PayloadType::SA, "2c000024 00000020 01030402 c1c2c3c4 0300000c01000014800e0100 0000000805000000"),
        Payload::Sa(vec![esp(vec![encr, no_esn.clone()])])
    );
    let chacha = Transform::new(TransformType::ENCR, transform::CHACHA20_POLY1305);
    assert_eq!(
        sample(PayloadType::SA, "2c000020 0000001c 01030402 c1c2c3c4 030000080100001c 0000000805000000"),
        Payload::Sa(vec![esp(vec![chacha, no_esn])])
    );
    let any = format!(
        "2d000040 02000000 07000010 0000ffff 00000000 ffffffff 08000028 0000ffff {} {}",
        "00".repeat(16),
        "ff".repeat(16)
    );
    assert_eq!(sample(PayloadType::TSI, &any), Payload::TsI(vec![TrafficSelector::ANY_V4, TrafficSelector::ANY_V6]));
    let rekey = Notify { protocol: Protocol::ESP, spi, kind: NotifyType::REKEY_SA, data: Vec::new() };
    assert_eq!(sample(PayloadType::NOTIFY, "2100000c 03044009 c1c2c3c4"), Payload::Notify(rekey));
    let child = Delete::Child { protocol: Protocol::ESP, spis: vec![0xc1c2_c3c4] };
    assert_eq!(sample(PayloadType::DELETE, "0000000c 03040001 c1c2c3c4"), Payload::Delete(child));
    assert_eq!(sample(PayloadType::DELETE, "00000008 01000000"), Payload::Delete(Delete::Ike));
}

#[test]
fn what_nobody_here_knows_is_kept() {
    // A transform of type 241 with ID 0x1234 and attributes 99 (short) and 100 (long), a selector of type 9.
    let sa = "00000024 00000020 01010001 00000018 f1001234 80630007 00640004 01020304 80648000";
    let Payload::Sa(proposals) = sample(PayloadType::SA, sa) else { panic!("not SA") };
    let attributes =
        vec![Attribute::Short(99, 7), Attribute::Long(100, vec![1, 2, 3, 4]), Attribute::Short(100, 0x8000)];
    assert_eq!(proposals[0].transforms, [Transform { kind: TransformType(241), id: 0x1234, attributes }]);
    assert_eq!(proposals[0].transforms[0].key_length(), None);
    let other = TrafficSelector::Other { kind: 9, protocol: 17, body: vec![1, 2] };
    assert_eq!(sample(PayloadType::TSR, "0000000e 01000000 09110006 0102"), Payload::TsR(vec![other]));
}

#[test]
fn reserved_octets_of_an_identity_are_kept() {
    let id = Id { kind: id_type::FQDN, reserved: [1, 2, 3], data: b"a".to_vec() };
    assert_eq!(sample(PayloadType::IDI, "00000009 02010203 61"), Payload::IdI(id));
}

#[test]
fn badly_formed_bodies() {
    let bad: [(PayloadType, &str); 17] = [
        (PayloadType::KE, "00000007 001f00"),
        (PayloadType::IDI, "00000007 020000"),
        (PayloadType::CERT, "00000004"),
        (PayloadType::AUTH, "00000007 0e0000"),
        (PayloadType::NOTIFY, "00000007 000040"),
        (PayloadType::SA, "00000004"),
        (PayloadType::SA, "00000008 00000004"),
        (PayloadType::SA, "0000000c 02000008 01010000"),
        (PayloadType::SA, "00000014 00000008 01010000 00000008 02010000"),
        (PayloadType::SA, "00000014 00000010 01010001 03000008 01000014"),
        (PayloadType::SA, "00000018 00000014 01010001 0000000c 01000014 800e01"),
        (PayloadType::TSI, "00000008 01000000"),
        (PayloadType::TSI, "00000018 00000000 07000010 0000ffff 00000000 ffffffff"),
        (PayloadType::TSI, "00000019 01000000 07000011 0000ffff 00000000 ffffffff 00"),
        (PayloadType::TSI, "00000018 01000000 08000010 0000ffff 00000000 ffffffff"),
        (PayloadType::DELETE, "0000000c 03040002 c1c2c3c4"),
        (PayloadType::DELETE, "0000000c 01040001 c1c2c3c4"),
    ];
    for (kind, octets) in bad {
        let mut octets = hex(octets);
        if octets.len() != usize::from(octets[3]) {
            octets[3] = u8::try_from(octets.len()).unwrap();
        }
        let parsed = Chain { first: kind, octets: &octets }.payloads();
        assert!(matches!(parsed, Err(ParseError::InvalidSyntax(_))), "{kind} {octets:02x?} {parsed:?}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let huge = |len| [Payload::Vendor(vec![0; len])];
    assert!(encode_chain(&huge(65531)).is_ok());
    assert_eq!(encode_chain(&huge(65532)), Err(TooLong));
    let notify = Notify { spi: vec![0; 256], ..Notify::new(NotifyType::COOKIE, []) };
    assert_eq!(encode_chain(&[Payload::Notify(notify)]), Err(TooLong));
    let selectors = vec![TrafficSelector::ANY_V4; 256];
    assert_eq!(encode_chain(&[Payload::TsI(selectors)]), Err(TooLong));
}

fn octets(len: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), len)
}

fn attribute() -> impl Strategy<Value = Attribute> {
    let kind = 0..0x8000_u16;
    prop_oneof![
        (kind.clone(), any::<u16>()).prop_map(|(kind, value)| Attribute::Short(kind, value)),
        (kind, octets(0..9)).prop_map(|(kind, value)| Attribute::Long(kind, value)),
    ]
}

fn proposal() -> impl Strategy<Value = Proposal> {
    let transform = (any::<u8>(), any::<u16>(), vec(attribute(), 0..3)).prop_map(|(kind, id, attributes)| Transform {
        kind: TransformType(kind),
        id,
        attributes,
    });
    (any::<u8>(), any::<u8>(), octets(0..9), vec(transform, 0..9)).prop_map(|(number, protocol, spi, transforms)| {
        Proposal { number, protocol: Protocol(protocol), spi, transforms }
    })
}

fn selector() -> impl Strategy<Value = TrafficSelector> {
    prop_oneof![
        (any::<u8>(), any::<(u16, u16)>(), any::<(std::net::Ipv4Addr, std::net::Ipv4Addr)>())
            .prop_map(|(protocol, ports, addresses)| TrafficSelector::V4 { protocol, ports, addresses }),
        (any::<u8>(), any::<(u16, u16)>(), any::<(std::net::Ipv6Addr, std::net::Ipv6Addr)>())
            .prop_map(|(protocol, ports, addresses)| TrafficSelector::V6 { protocol, ports, addresses }),
        (9..=255_u8, any::<u8>(), octets(0..20)).prop_map(|(kind, protocol, body)| TrafficSelector::Other {
            kind,
            protocol,
            body
        }),
    ]
}

fn payload() -> impl Strategy<Value = Payload> {
    let id = || {
        (any::<u8>(), any::<[u8; 3]>(), octets(0..30)).prop_map(|(kind, reserved, data)| Id { kind, reserved, data })
    };
    let cert = || (any::<u8>(), octets(0..50)).prop_map(|(encoding, data)| Cert { encoding, data });
    let notify = (any::<u8>(), octets(0..9), any::<u16>(), octets(0..30)).prop_map(|(protocol, spi, kind, data)| {
        Payload::Notify(Notify { protocol: Protocol(protocol), spi, kind: NotifyType(kind), data })
    });
    let child = (2..=255_u8, vec(any::<u32>(), 0..5))
        .prop_map(|(protocol, spis)| Payload::Delete(Delete::Child { protocol: Protocol(protocol), spis }));
    prop_oneof![
        vec(proposal(), 1..4).prop_map(Payload::Sa),
        (any::<u16>(), octets(0..60)).prop_map(|(method, data)| Payload::Ke(Ke { method, data })),
        id().prop_map(Payload::IdI),
        id().prop_map(Payload::IdR),
        cert().prop_map(Payload::Cert),
        cert().prop_map(Payload::CertReq),
        (any::<u8>(), octets(0..80)).prop_map(|(method, data)| Payload::Auth(Auth { method, data })),
        octets(NONCE_LEN).prop_map(Payload::Nonce),
        notify,
        Just(Payload::Delete(Delete::Ike)),
        child,
        octets(0..30).prop_map(Payload::Vendor),
        vec(selector(), 0..4).prop_map(Payload::TsI),
        vec(selector(), 0..4).prop_map(Payload::TsR),
        (54..=255_u8, octets(0..30)).prop_map(|(kind, body)| Payload::Unknown(Unknown {
            kind: PayloadType(kind),
            critical: false,
            body
        })),
    ]
}

proptest! {
    #[test]
    fn payloads_round_trip(payloads in vec(payload(), 0..8), flags: [bool; 2], exchange: u8, message_id: u32) {
        let header = Header {
            from_initiator: flags[0],
            response: flags[1],
            exchange: Exchange(exchange),
            message_id,
            ..HEADER
        };
        let datagram = encode_clear(&header, &payloads).unwrap();
        prop_assert_eq!(Message::parse(&datagram).unwrap().header, header);
        prop_assert_eq!(clear(&datagram), Ok(payloads));
    }

    /// Whatever decodes at all encodes to something that decodes to the same.
    #[test]
    fn arbitrary_chains_never_panic(first: u8, octets in octets(0..300)) {
        if let Ok(payloads) = (Chain { first: PayloadType(first), octets: &octets }).payloads() {
            let (first, again) = encode_chain(&payloads).unwrap();
            prop_assert_eq!((Chain { first, octets: &again }).payloads(), Ok(payloads));
        }
    }

    #[test]
    fn arbitrary_bodies_never_panic(kind in 33..=48_u8, critical: bool, body in octets(0..200)) {
        let _ = Payload::parse(PayloadType(kind), critical, &body);
    }

    #[test]
    fn changed_messages_never_panic(name in 1..=15_u8, changes in vec((0..200_usize, any::<u8>()), 1..6)) {
        let mut datagram = case(&format!("K{name}"));
        for (place, value) in changes {
            if let Some(octet) = datagram.get_mut(place) {
                *octet = value;
            }
        }
        if let Ok(Message { body: Body::Clear(chain), .. }) = Message::parse(&datagram) {
            let _ = chain.payloads();
        }
    }

    #[test]
    fn arbitrary_datagrams_never_panic(datagram in octets(0..120)) {
        let _ = Message::parse(&datagram);
    }
}
