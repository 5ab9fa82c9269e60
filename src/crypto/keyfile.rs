//! Key files: PKCS#8 and SubjectPublicKeyInfo (RFC 5958, RFC 8410), as OpenSSL and strongSwan's `pki` write them.
//!
//! Reading takes PEM, bare base64 and DER, with whatever line ends, blanks and byte-order mark an editor left. PKCS#8 may be of
//! version 1 or 2 (with the public key). Writing gives PEM of version 1, which every tool reads.

use base64ct::{Base64, Encoding};
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey};
use ed25519_dalek::{SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use super::sign::{PrivateKey, PublicKey};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not an Ed25519 private key in PKCS#8 (make one with: wattle keygen FILE)")]
    NotPrivate,
    #[error("not an Ed25519 public key (print one with: wattle pubkey FILE)")]
    NotPublic,
}

/// Takes CRLF, trailing blanks and a missing last newline.
pub fn parse_private(text: &[u8]) -> Result<PrivateKey, KeyError> {
    let der = decode(text, PRIVATE_LABEL).ok_or(KeyError::NotPrivate)?;
    let key = SigningKey::from_pkcs8_der(&der).map_err(|_| KeyError::NotPrivate)?;
    Ok(PrivateKey::from_seed(key.as_bytes()))
}

pub fn parse_public(text: &str) -> Result<PublicKey, KeyError> {
    let der = decode(text.as_bytes(), PUBLIC_LABEL).ok_or(KeyError::NotPublic)?;
    let key = VerifyingKey::from_public_key_der(&der).map_err(|_| KeyError::NotPublic)?;
    PublicKey::from_bytes(key.to_bytes()).ok_or(KeyError::NotPublic)
}

/// A PEM file.
pub fn private_pem(key: &PrivateKey) -> Zeroizing<String> {
    let mut der = Zeroizing::new([0; PRIVATE_PREFIX.len() + 32]);
    der.iter_mut().zip(PRIVATE_PREFIX.iter().chain(key.seed())).for_each(|(to, from)| *to = *from);
    let base64 = Zeroizing::new(Base64::encode_string(&*der));
    Zeroizing::new(pem(PRIVATE_LABEL, &base64))
}

pub fn public_pem(key: &PublicKey) -> String {
    pem(PUBLIC_LABEL, &public_base64(key))
}

/// Bare base64 of the SubjectPublicKeyInfo: what goes into `public_key` of the configuration.
pub fn public_base64(key: &PublicKey) -> String {
    Base64::encode_string(&public_der(key))
}

/// The SubjectPublicKeyInfo (RFC 8410 §4).
pub(super) fn public_der(key: &PublicKey) -> Vec<u8> {
    [PUBLIC_PREFIX, key.as_bytes()].concat()
}

/// Both kinds of key fit into one line of at most 64 characters (RFC 7468 §2).
fn pem(label: &str, base64: &str) -> String {
    format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
}

/// The DER inside PEM or base64, or `text` itself if it is DER.
fn decode(text: &[u8], label: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() > MAX_FILE {
        return None;
    }
    if text.first() == Some(&DER_SEQUENCE) {
        return Some(Zeroizing::new(text.to_vec()));
    }
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let armoured = text.split_once(&format!("-----BEGIN {label}-----"));
    let inner = match armoured {
        Some((_, rest)) => rest.split_once(&format!("-----END {label}-----"))?.0,
        None => text,
    };
    let mut base64 = Zeroizing::new(Vec::with_capacity(inner.len()));
    base64.extend(inner.bytes().filter(|octet| !octet.is_ascii_whitespace()));
    let mut der = Zeroizing::new(vec![0; base64.len()]);
    let len = Base64::decode(&*base64, &mut der).ok()?.len();
    der.truncate(len);
    Some(der)
}

const PRIVATE_LABEL: &str = "PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";
/// A PKCS#8 of version 1 up to the seed (RFC 8410 §7).
const PRIVATE_PREFIX: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const PUBLIC_PREFIX: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// Of DER, and never the first character of a base64 key: `0` would start octets above 0xd0.
const DER_SEQUENCE: u8 = 0x30;
/// A key takes 120 octets; the rest is for comments around it.
const MAX_FILE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410 §10.3, first and second example: version 1, and version 2 with attributes and the public key.
    const V1: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
    const V2: &str = "-----BEGIN PRIVATE KEY-----
MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
Z9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PRIVATE KEY-----
";
    /// RFC 8410 §10.1
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

    #[test]
    fn rfc_8410_examples() {
        let (v1, v2) = (parse_private(V1.as_bytes()).unwrap(), parse_private(V2.as_bytes()).unwrap());
        let public = parse_public(PUBLIC).unwrap();
        assert_eq!((v1.public(), v2.public()), (public, public));
        assert_eq!(*private_pem(&v1), V1);
        assert_eq!(*private_pem(&v2), V1);
        assert_eq!(public_pem(&public), PUBLIC);
        assert_eq!(public_base64(&public), "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
    }

    #[test]
    fn files_as_editors_leave_them() {
        let bare = |pem: &str| pem.lines().filter(|line| !line.starts_with('-')).collect::<String>();
        let changes: [fn(&str) -> String; 6] = [
            |text| text.replace('\n', "\r\n"),
            |text| text.replace('\n', "  \t\n"),
            |text| text.trim_end().to_owned(),
            |text| format!("\u{feff}{text}"),
            |text| format!("\n\n  {text}\n\n"),
            str::to_owned,
        ];
        for change in changes {
            for form in [V1.to_owned(), V2.to_owned(), bare(V1), bare(V2)] {
                assert!(parse_private(change(&form).as_bytes()).is_ok(), "{:?}", change(&form));
            }
            for form in [PUBLIC.to_owned(), bare(PUBLIC)] {
                assert!(parse_public(&change(&form)).is_ok(), "{:?}", change(&form));
            }
        }
        assert!(parse_public(&format!("the key of riga:\n{PUBLIC}{V1}")).is_ok());
        assert!(parse_private(&decode(V2.as_bytes(), PRIVATE_LABEL).unwrap()).is_ok());
    }

    #[test]
    fn what_is_no_key() {
        let rsa = "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAM==";
        let x25519 = PUBLIC.replace("K2Vw", "K2Vu");
        let weak = public_pem_of([0; 32]);
        for text in ["", "\n", "hello", rsa, &x25519, &weak, V1, "-----BEGIN PUBLIC KEY-----\nMCow", &PUBLIC[..80]] {
            assert_eq!(parse_public(text), Err(KeyError::NotPublic), "{text:?}");
        }
        let of_another = V2.replace("Z9w7", "Z9w8");
        let huge = "A".repeat(MAX_FILE + 1);
        for text in ["", "0", "hello", &of_another, &V1.replace("K2Vw", "K2Vu"), PUBLIC, &V1[..60], &huge] {
            assert_eq!(parse_private(text.as_bytes()).unwrap_err(), KeyError::NotPrivate, "{text:.80?}");
        }
        assert_eq!(parse_private(b"\xff\xfe\x00").unwrap_err(), KeyError::NotPrivate);
    }

    fn public_pem_of(key: [u8; 32]) -> String {
        pem(PUBLIC_LABEL, &Base64::encode_string(&[PUBLIC_PREFIX, &key].concat()))
    }

    #[test]
    fn fingerprint_is_that_of_the_public_key_info() {
        let key = parse_public(PUBLIC).unwrap();
        assert_eq!(key.fingerprint().len(), "SHA256:".len() + 43);
        assert_eq!(key.fingerprint(), parse_private(V2.as_bytes()).unwrap().public().fingerprint());
    }

    proptest::proptest! {
        #[test]
        fn keys_round_trip(seed: [u8; 32]) {
            let key = PrivateKey::from_seed(&seed);
            let again = parse_private(private_pem(&key).as_bytes()).unwrap();
            proptest::prop_assert_eq!(again.public(), key.public());
            proptest::prop_assert_eq!(parse_public(&public_base64(&key.public())), Ok(key.public()));
        }

        #[test]
        fn arbitrary_octets_never_panic(text: Vec<u8>) {
            let _ = parse_private(&text);
            let _ = parse_public(&String::from_utf8_lossy(&text));
        }
    }
}
