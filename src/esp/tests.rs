//! Vectors that others made, and what must hold for every packet.

use proptest::prelude::*;
use serde::Deserialize;

use super::replay::Replay;
use super::*;
use crate::crypto::aead::Cipher;
use crate::crypto::rng::Rng;
use crate::crypto::secret::Secret;
use crate::path::LinkId;
use crate::wire::esp;

const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn key(cipher: Cipher) -> Secret {
    Secret::new((0x80..).take(cipher.keymat_len() - 4).chain([0xa0, 0xa1, 0xa2, 0xa3]).collect())
}

fn pair(cipher: Cipher) -> (OutSa, InSa) {
    (OutSa::new(cipher, 0x0102_0304, &key(cipher)).unwrap(), InSa::new(cipher, &key(cipher)).unwrap())
}

fn sealed(out: &mut OutSa, inner: &[u8], next_header: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    out.number().unwrap().seal(inner, next_header, &mut packet);
    packet
}

/// Payload and next header.
fn opened(sa: &mut InSa, packet: &[u8]) -> Result<(Vec<u8>, u8), Refusal> {
    let mut packet = packet.to_vec();
    let content = sa.open(&mut packet)?.content.expect("the padding is right");
    Ok((content.payload.to_vec(), content.next_header))
}

/// strongSwan made these.
#[derive(Deserialize)]
struct Captured {
    capture: String,
    frame: u32,
    cipher: String,
    key: String,
    packet: String,
    next_header: u8,
    inner: String,
}

#[test]
fn opens_what_strongswan_sealed_and_nothing_of_it_twice() {
    let captured: Vec<Captured> = serde_json::from_str(include_str!("../../tests/data/esp.json")).unwrap();
    assert!(captured.len() > 20);
    for one in captured {
        let name = format!("{} frame {}", one.capture, one.frame);
        let cipher = CIPHERS.into_iter().find(|cipher| cipher.name() == one.cipher).unwrap();
        let mut sa = InSa::new(cipher, &Secret::new(unhex(&one.key))).unwrap();
        let packet = unhex(&one.packet);
        assert_eq!(opened(&mut sa, &packet), Ok((unhex(&one.inner), one.next_header)), "{name}");
        assert_eq!(opened(&mut sa, &packet), Err(Refusal::Replay(Replay::Seen)), "{name}");
    }
}

/// RFC 7634 appendix A, and the same input with the other ciphers.
#[test]
fn the_example_of_rfc_7634() {
    let plain = unhex(concat!(
        "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec1000073627",
        "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
    ));
    assert_eq!(plain.len(), 84);
    let expected = [
        (Cipher::ChaCha20Poly1305, "24039428b97f417e3c13753a4f05087b", "76aaa8266b7fb0f7b11b369907e1ad43"),
        (Cipher::Aes256Gcm, "d140c4841e61600dbb54118f0a2df633", "61855ac69a1beead8429154f7d25fe66"),
        (Cipher::Aes128Gcm, "d446c4a70a4adc2a89f092d53c553de6", "44749abc374844eabbb7280bd78ff488"),
    ];
    for (cipher, start, icv) in expected {
        let mut packet = unhex("01020304000000051011121314151617");
        packet.extend_from_slice(&plain);
        packet.extend_from_slice(&[1, 2, 2, 4]);
        let aead = crate::crypto::aead::Aead::new(cipher, &key(cipher)).unwrap();
        let (head, data) = packet.split_at_mut(16);
        let tag = aead.seal(unhex("1011121314151617").try_into().unwrap(), &head[..8], data);
        assert_eq!(tag[..], unhex(icv));
        packet.extend_from_slice(&tag);
        assert_eq!(packet[16..32], unhex(start));
        assert_eq!(packet.len(), 140 - 20);
        let mut sa = InSa::new(cipher, &key(cipher)).unwrap();
        assert_eq!(opened(&mut sa, &packet), Ok((plain.clone(), 4)), "{}", cipher.name());
    }
}

#[test]
fn every_length_goes_through() {
    let payload: Vec<u8> = (0..=1500_u32).map(|i| u8::try_from(i % 253).unwrap()).collect();
    for cipher in CIPHERS {
        let (mut out, mut sa) = pair(cipher);
        for length in 0..=1500 {
            let inner = &payload[..length];
            let packet = sealed(&mut out, inner, 41);
            assert_eq!((packet.len() % 4, packet.len()), (0, esp::sealed_len(length)));
            assert_eq!(opened(&mut sa, &packet), Ok((inner.to_vec(), 41)), "{length} octets");
        }
    }
}

#[test]
fn damage_is_refused_and_leaves_the_sa_as_it_was() {
    for cipher in CIPHERS {
        let (mut out, mut sa) = pair(cipher);
        opened(&mut sa, &sealed(&mut out, b"first", 4)).unwrap();
        let packet = sealed(&mut out, b"an inner packet", 4);
        for length in 0..packet.len() {
            let expected = if length < 34 { Refusal::Runt } else { Refusal::Forged };
            assert_eq!(opened(&mut sa, &packet[..length]), Err(expected), "cut to {length}");
        }
        // The SPI is in the AAD, too: the SAD chose the SA by it, but the ICV covers it.
        for bit in 0..packet.len() * 8 {
            let mut bad = packet.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let refusal = opened(&mut sa, &bad).unwrap_err();
            assert!(matches!(refusal, Refusal::Forged | Refusal::Replay(_)), "bit {bit}: {refusal:?}");
        }
        let mut last = packet.clone();
        last[4..8].fill(0xff);
        assert_eq!(opened(&mut sa, &last), Err(Refusal::Forged));
        assert_eq!(opened(&mut sa, &packet), Ok((b"an inner packet".to_vec(), 4)), "nothing has moved the window");
    }
}

#[test]
fn only_a_higher_number_is_the_newest() {
    let (mut out, mut sa) = pair(Cipher::ChaCha20Poly1305);
    let packets: Vec<_> = (0..4).map(|_| sealed(&mut out, b"x", 4)).collect();
    let newest: Vec<bool> = [0, 2, 1, 3].map(|i: usize| sa.open(&mut packets[i].clone()).unwrap().newest).into();
    assert_eq!(newest, [true, true, false, true]);
}

#[test]
fn wrong_padding_is_the_peers_fault_and_counts_as_received() {
    let cipher = Cipher::ChaCha20Poly1305;
    let mut packet = esp::aad(0x0102_0304, 1).to_vec();
    packet.extend_from_slice(&[0; 8]);
    packet.extend_from_slice(&[0x45, 7, 7, 7, 7, 3, 4, 4]);
    let aead = crate::crypto::aead::Aead::new(cipher, &key(cipher)).unwrap();
    let (head, data) = packet.split_at_mut(16);
    let icv = aead.seal([0; 8], &head[..8], data);
    packet.extend_from_slice(&icv);
    let mut sa = InSa::new(cipher, &key(cipher)).unwrap();
    assert!(sa.open(&mut packet.clone()).unwrap().content.is_none());
    assert_eq!(opened(&mut sa, &packet), Err(Refusal::Replay(Replay::Seen)));
}

#[test]
fn numbers_end_before_they_repeat() {
    let (mut out, mut sa) = pair(Cipher::Aes128Gcm);
    out.skip_to((1 << 31) - 2);
    let halves: Vec<bool> = (0..4).map(|_| out.number().unwrap().is_half_way()).collect();
    assert_eq!(halves, [false, true, false, false]);
    out.skip_to(u32::MAX - 2);
    assert!(opened(&mut sa, &sealed(&mut out, b"x", 4)).is_ok());
    let last = sealed(&mut out, b"x", 4);
    assert_eq!(last[4..8], [0xff; 4]);
    assert!(opened(&mut sa, &last).is_ok());
    for _ in 0..3 {
        assert!(out.number().is_none());
    }
}

#[test]
fn the_first_packet_has_number_one_and_no_nonce_comes_twice() {
    let mut out = OutSa::new(Cipher::Aes256Gcm, 7, &key(Cipher::Aes256Gcm)).unwrap();
    let mut before = 0;
    for _ in 0..10_000 {
        let packet = sealed(&mut out, &[], 59);
        let sequence = u32::from_be_bytes(packet[4..8].try_into().unwrap());
        let iv = u64::from_be_bytes(packet[8..16].try_into().unwrap());
        assert_eq!(sequence, before + 1);
        assert_eq!(iv, u64::from(sequence), "strictly rising, hence never twice");
        before = sequence;
    }
}

#[test]
fn keys_of_another_length_are_refused() {
    for cipher in CIPHERS {
        for length in [0, 4, 16, 19, 21, 32, 35, 37] {
            let key = Secret::new(vec![1; length]);
            assert!(OutSa::new(cipher, 1, &key).is_none() && InSa::new(cipher, &key).is_none(), "{length} octets");
        }
    }
}

#[test]
fn debug_shows_no_key() {
    let (out, sa) = pair(Cipher::Aes256Gcm);
    assert_eq!(format!("{out:?} {sa:?}"), "OutSa(01020304, 0 sent) InSa(highest 0)");
}

#[test]
fn the_sad_finds_what_is_in_it() {
    let mut sad = Sad::default();
    let mut rng = Rng::from_number(4301);
    let spis: Vec<u32> = (0..50).map(|_| rng.u32()).collect();
    let sa = || InSa::new(Cipher::ChaCha20Poly1305, &key(Cipher::ChaCha20Poly1305)).unwrap();
    for (i, &spi) in (0..).zip(&spis) {
        sad.insert(spi, LinkId(i % 5), sa());
    }
    let link = |sad: &mut Sad, spi| sad.lookup(spi).map(|(link, _)| link.0);
    for (i, &spi) in (0..).zip(&spis) {
        assert_eq!(link(&mut sad, spi), Some(i % 5));
    }
    sad.remove(spis[0], LinkId(1));
    assert_eq!(link(&mut sad, spis[0]), Some(0), "another link's SA");
    sad.remove(spis[0], LinkId(0));
    assert_eq!(link(&mut sad, spis[0]), None);
    sad.insert(spis[1], LinkId(9), sa());
    assert_eq!(link(&mut sad, spis[1]), Some(9));
    sad.remove_link(LinkId(2));
    let left: Vec<_> = spis.iter().filter_map(|&spi| link(&mut sad, spi)).collect();
    assert_eq!((left.len(), left.contains(&2)), (39, false));
}

proptest! {
    #[test]
    fn no_datagram_panics(mut octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (_, mut sa) = pair(Cipher::ChaCha20Poly1305);
        prop_assert!(sa.open(&mut octets).is_err());
    }
}
