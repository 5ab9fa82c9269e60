//! Fragments in any order and number; those of a real peer are in `tests/captures.rs`.

use proptest::prelude::*;

use super::*;
use crate::crypto::aead::Cipher;
use crate::crypto::rng::Rng;
use crate::wire::ike::{Body, Exchange, Ke, Message, Payload, transform};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;

const HEADER: Header = Header {
    spi_initiator: 1,
    spi_responder: 2,
    exchange: Exchange::IKE_INTERMEDIATE,
    from_initiator: true,
    response: false,
    message_id: 1,
};

fn sealer() -> Sealer {
    Sealer::new(CIPHER, &[7; 36], [0; 8]).unwrap()
}

fn opener() -> Opener {
    Opener::new(CIPHER, &[7; 36]).unwrap()
}

/// The request with an ML-KEM-768 key: 1249 octets when sealed whole.
fn request() -> Plain {
    request_of(1184)
}

fn request_of(octets: usize) -> Plain {
    let ke = Ke { method: transform::ML_KEM_768, data: Rng::from_number(5).array::<60_000>()[..octets].to_vec() };
    Plain::new(HEADER, &[Payload::Ke(ke)]).unwrap()
}

/// Cut into exactly `total` fragments, as even as can be.
fn cut(message: &Plain, total: u16) -> Vec<Vec<u8>> {
    let (mut sealer, len) = (sealer(), message.octets().len());
    let bound = |number: u16| len * usize::from(number) / usize::from(total);
    let chunk = |number| &message.octets()[bound(number - 1)..bound(number)];
    (1..=total).map(|number| sealer.seal_fragment(message, (number, total), chunk(number)).unwrap()).collect()
}

const OVERHEAD: usize = SK_HEAD_LEN + FRAGMENT_NUMBERS_LEN + SEAL_LEN;

fn add(reassembly: &mut Reassembly, datagram: &[u8]) -> Result<Option<Plain>, Refused> {
    match Message::parse(datagram).unwrap().body {
        Body::Skf(fragment) => reassembly.add(&opener(), &fragment),
        Body::Clear(_) | Body::Sk(_) => panic!("not SKF"),
    }
}

/// How many octets are held, and in how many fragments.
fn held(reassembly: &Reassembly) -> (usize, usize) {
    reassembly.0.as_ref().map_or((0, 0), |set| (set.len(), set.chunks.len()))
}

/// Field case A3: 40 and 64 fragments in random order, each twice, are one message.
#[test]
fn many_tiny_fragments_in_any_order_each_twice() {
    for (total, seed) in [(40, 1), (64, 2), (64, 3), (2, 4), (1, 5), (149, 6)] {
        let message = request();
        let mut fragments = cut(&message, total);
        fragments.extend(fragments.clone());
        let mut rng = Rng::from_number(seed);
        for place in (1..fragments.len()).rev() {
            fragments.swap(place, usize::try_from(rng.below(u32::try_from(place).unwrap() + 1)).unwrap());
        }
        let mut reassembly = Reassembly::default();
        let mut joined = Vec::new();
        for fragment in fragments {
            joined.extend(add(&mut reassembly, &fragment).unwrap());
            if !joined.is_empty() {
                break; // The caller gives no more fragments of this message ID.
            }
        }
        assert_eq!(joined.len(), 1, "{total}");
        assert_eq!(joined[0].octets(), message.octets());
        assert_eq!((joined[0].associated(), joined[0].header), (message.associated(), HEADER));
        assert_eq!(held(&reassembly), (0, 0));
    }
}

/// Field case A3: a total is a claim, not a reason to reserve anything.
#[test]
fn a_huge_total_is_refused() {
    let message = request();
    let mut reassembly = Reassembly::default();
    for total in [MAX_FRAGMENTS + 1, u16::MAX] {
        let fragment = sealer().seal_fragment(&message, (1, total), &message.octets()[..20]).unwrap();
        assert_eq!(add(&mut reassembly, &fragment).err(), Some(Refused::TooMany));
        assert_eq!(held(&reassembly), (0, 0));
    }
    let fragment = sealer().seal_fragment(&message, (1, MAX_FRAGMENTS), &message.octets()[..20]).unwrap();
    assert!(add(&mut reassembly, &fragment).unwrap().is_none());
    assert_eq!(held(&reassembly), (20, 1));
}

/// Field case A3: what is never completed goes when the caller says so.
#[test]
fn all_but_the_last_and_then_silence() {
    let fragments = cut(&request(), 40);
    let mut reassembly = Reassembly::default();
    for fragment in &fragments[..39] {
        assert!(add(&mut reassembly, fragment).unwrap().is_none());
    }
    assert_eq!(held(&reassembly).1, 39);
    reassembly.clear();
    assert_eq!(held(&reassembly), (0, 0));
    assert!(add(&mut reassembly, &fragments[39]).unwrap().is_none());
}

#[test]
fn nothing_is_stored_before_it_verified() {
    let fragments = cut(&request(), 3);
    let mut reassembly = Reassembly::default();
    let mut forged = fragments[0].clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(add(&mut reassembly, &forged).err(), Some(Refused::Forged));
    assert_eq!(held(&reassembly), (0, 0));
    // Nor does a forged fragment push out what has been collected.
    assert!(add(&mut reassembly, &fragments[0]).unwrap().is_none());
    let mut of_more = fragments[1].clone();
    of_more[35] = 9;
    assert_eq!(add(&mut reassembly, &of_more).err(), Some(Refused::Forged));
    let mut other_number = fragments[1].clone();
    other_number[33] = 3;
    assert_eq!(add(&mut reassembly, &other_number).err(), Some(Refused::Forged));
    assert!(add(&mut reassembly, &fragments[1]).unwrap().is_none());
    assert!(add(&mut reassembly, &fragments[2]).unwrap().is_some());
}

/// RFC 7383 §2.5.2: a peer that finds the path too narrow cuts finer.
#[test]
fn a_higher_total_starts_anew_and_a_lower_one_is_late() {
    let (message, mut reassembly) = (request(), Reassembly::default());
    let (coarse, fine) = (cut(&message, 2), cut(&message, 4));
    assert!(add(&mut reassembly, &coarse[0]).unwrap().is_none());
    assert!(add(&mut reassembly, &fine[3]).unwrap().is_none());
    assert_eq!(held(&reassembly).1, 1);
    assert_eq!(add(&mut reassembly, &coarse[1]).err(), Some(Refused::LowerTotal));
    for fragment in &fine[1..3] {
        assert!(add(&mut reassembly, fragment).unwrap().is_none());
    }
    assert_eq!(add(&mut reassembly, &fine[0]).unwrap().unwrap().octets(), message.octets());
}

#[test]
fn one_message_at_a_time() {
    let (first, mut reassembly) = (request(), Reassembly::default());
    let second = Plain::new(Header { message_id: 2, ..HEADER }, &request().payloads().unwrap()).unwrap();
    assert!(add(&mut reassembly, &cut(&first, 3)[0]).unwrap().is_none());
    let fragments = cut(&second, 2);
    assert!(add(&mut reassembly, &fragments[1]).unwrap().is_none());
    assert_eq!(held(&reassembly).1, 1);
    assert_eq!(add(&mut reassembly, &fragments[0]).unwrap().unwrap().header.message_id, 2);
}

#[test]
fn octets_are_limited() {
    let (message, mut reassembly) = (request_of(MAX_OCTETS + 1), Reassembly::default());
    let fragments = split(&mut sealer(), &message, 1232).unwrap();
    let refusals: Vec<Refused> = fragments.iter().filter_map(|fragment| add(&mut reassembly, fragment).err()).collect();
    assert_eq!(refusals, [Refused::TooLarge]);

    let largest = request_of(MAX_OCTETS - 8);
    assert_eq!(largest.octets().len(), MAX_OCTETS);
    let mut reassembly = Reassembly::default();
    let fragments = split(&mut sealer(), &largest, 1232).unwrap();
    let joined: Vec<Plain> = fragments.iter().filter_map(|fragment| add(&mut reassembly, fragment).unwrap()).collect();
    assert_eq!(joined[0].octets(), largest.octets());
}

#[test]
fn an_empty_fragment_counts() {
    let (message, mut reassembly) = (request(), Reassembly::default());
    let (first, rest) = message.octets().split_at(100);
    let mut sealer = sealer();
    let mut fragments = |chunks: [&[u8]; 3]| {
        (1..)
            .zip(chunks)
            .map(|(number, chunk)| sealer.seal_fragment(&message, (number, 3), chunk).unwrap())
            .collect::<Vec<_>>()
    };
    let chunks = fragments([first, &[], rest]);
    assert!(add(&mut reassembly, &chunks[0]).unwrap().is_none());
    assert!(add(&mut reassembly, &chunks[2]).unwrap().is_none());
    assert_eq!(add(&mut reassembly, &chunks[1]).unwrap().unwrap().octets(), message.octets());
}

#[test]
fn room_under_the_limit() {
    assert_eq!(room(1280, [192, 0, 2, 1].into()), 1280 - 20 - 8 - 4);
    assert_eq!(room(1280, std::net::Ipv6Addr::LOCALHOST.into()), 1280 - 40 - 8 - 4);
    assert_eq!(room(1280, std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()), 1280 - 20 - 8 - 4);
    assert_eq!(room(10, [192, 0, 2, 1].into()), 0);
}

#[test]
fn splitting() {
    let message = request();
    let whole = sealer().seal(&message).unwrap();
    assert_eq!(whole.len(), 1249);
    assert_eq!(split(&mut sealer(), &message, 1249).unwrap(), [whole]);
    let two = split(&mut sealer(), &message, 1248).unwrap();
    assert_eq!(two.iter().map(Vec::len).collect::<Vec<_>>(), [1248, OVERHEAD + 5]);
    // The first inner payload is named once (RFC 7383 §2.5).
    assert_eq!([two[0][28], two[1][28]], [34, 0]);

    let empty = Plain::new(HEADER, &[]).unwrap();
    assert_eq!(split(&mut sealer(), &empty, 57).unwrap()[0].len(), 57);
    for too_narrow in [0, 1, OVERHEAD, OVERHEAD + 4] {
        assert_eq!(split(&mut sealer(), &message, too_narrow), Err(TooLong), "{too_narrow}");
    }
    assert_eq!(split(&mut sealer(), &message, OVERHEAD + 5).unwrap().len(), 239);
}

proptest! {
    #[test]
    fn splitting_and_collecting_round_trip(len in 0..3000_usize, room in 100..1500_usize) {
        let message = request_of(len);
        let datagrams = split(&mut sealer(), &message, room).unwrap();
        let mut reassembly = Reassembly::default();
        let mut joined = None;
        for datagram in datagrams.iter().rev() {
            prop_assert!(datagram.len() <= room && joined.is_none());
            joined = match Message::parse(datagram).unwrap().body {
                Body::Skf(fragment) => reassembly.add(&opener(), &fragment).unwrap(),
                Body::Sk(sealed) => Some(opener().open(&sealed).unwrap()),
                Body::Clear(_) => None,
            };
        }
        let joined = joined.unwrap();
        prop_assert_eq!((joined.octets(), joined.associated()), (message.octets(), message.associated()));
    }
}
