//! Who a node is in IKE (RFC 7296 §3.5): FQDN, e-mail address, IP address, KEY_ID or DER-DN, and how a person writes it.
//!
//! The text is strongSwan's: `moon.example`, `admin@moon.example`, `192.0.2.1`, `keyid:moon`, `C=CH, O=Moon, CN=moon.example`; with
//! `fqdn:`, `email:`, `keyid:`, `ipv4:`, `ipv6:` or `dn:` in front where the text alone would be read as another kind, and `#` with
//! hexadecimal digits for octets that are no text.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

mod dn;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Ipv4,
    Fqdn,
    Email,
    Ipv6,
    Dn,
    KeyId,
}

/// An identity as it travels: its kind and the octets of the ID payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    kind: Kind,
    octets: Vec<u8>,
}

/// The same for identities that mean the same: letters of names are not told apart by case, DNs not by their string types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Kind, Vec<u8>);

impl Identity {
    pub fn fqdn(name: &str) -> Identity {
        Identity { kind: Kind::Fqdn, octets: name.as_bytes().to_vec() }
    }

    /// From an ID payload; `None` for kinds that nobody here can have, and for octets that do not fit the kind.
    pub fn from_wire(id_type: u8, octets: &[u8]) -> Option<Identity> {
        let kind = KINDS.iter().find(|(_, number, _)| *number == id_type)?.0;
        let fits = match kind {
            Kind::Ipv4 => octets.len() == 4,
            Kind::Ipv6 => octets.len() == 16,
            Kind::Fqdn | Kind::Email | Kind::KeyId => !octets.is_empty() && octets.len() <= MAX_OCTETS,
            Kind::Dn => octets.len() <= MAX_OCTETS && dn::parse(octets).is_some(),
        };
        fits.then(|| Identity { kind, octets: octets.to_vec() })
    }

    /// ID type and data of the ID payload.
    pub fn to_wire(&self) -> (u8, &[u8]) {
        let number = KINDS.iter().find(|(kind, ..)| *kind == self.kind).map_or(0, |(_, number, _)| *number);
        (number, &self.octets)
    }

    pub fn key(&self) -> Key {
        let octets = match self.kind {
            Kind::Fqdn | Kind::Email => self.octets.to_ascii_lowercase(),
            Kind::Dn => dn::parse(&self.octets).map_or_else(|| self.octets.clone(), |parts| dn::normalised(&parts)),
            Kind::Ipv4 | Kind::Ipv6 | Kind::KeyId => self.octets.clone(),
        };
        Key(self.kind, octets)
    }

    /// Without looking at a word for the kind in front.
    fn bare(&self) -> String {
        let text = || match std::str::from_utf8(&self.octets) {
            Ok(text) if !text.starts_with('#') && text.trim() == text && !text.contains(char::is_control) => {
                text.to_owned()
            }
            _ => format!("#{}", self.octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>()),
        };
        match self.kind {
            Kind::Ipv4 => {
                <[u8; 4]>::try_from(&*self.octets).map_or_else(|_| text(), |it| Ipv4Addr::from(it).to_string())
            }
            Kind::Ipv6 => {
                <[u8; 16]>::try_from(&*self.octets).map_or_else(|_| text(), |it| Ipv6Addr::from(it).to_string())
            }
            Kind::Dn => dn::parse(&self.octets).and_then(|parts| dn::text(&parts)).unwrap_or_else(text),
            Kind::Fqdn | Kind::Email | Kind::KeyId => text(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = self.bare();
        if guess(&bare) == Some(self.kind) && !bare.starts_with('#') {
            return f.write_str(&bare);
        }
        let word = KINDS.iter().find(|(kind, ..)| *kind == self.kind).map_or("", |(.., word)| word);
        write!(f, "{word}:{bare}")
    }
}

impl FromStr for Identity {
    type Err = String;

    /// The error is a sentence for whoever wrote the text.
    fn from_str(text: &str) -> Result<Identity, String> {
        let prefixed = text.split_once(':').and_then(|(word, rest)| {
            let word = word.to_ascii_lowercase();
            let alias = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word.as_str(), |(_, word)| word);
            Some((KINDS.iter().find(|(.., known)| *known == alias)?.0, rest))
        });
        let (kind, rest) = match prefixed {
            Some(found) => found,
            // As strongSwan writes them.
            None => match text.split_at_checked(2) {
                Some(("@#", _)) => (Kind::KeyId, text.get(1..).unwrap_or_default()),
                Some(("@@", rest)) => (Kind::Email, rest),
                _ if text.starts_with('@') => (Kind::Fqdn, text.get(1..).unwrap_or_default()),
                _ => (guess(text).ok_or(HINT)?, text),
            },
        };
        let octets = match rest.strip_prefix('#') {
            Some(digits) => unhex(digits).ok_or("expected an even number of hexadecimal digits after #")?,
            None => match kind {
                Kind::Ipv4 => rest.parse::<Ipv4Addr>().map_err(|_| "not an IPv4 address")?.octets().to_vec(),
                Kind::Ipv6 => rest.parse::<Ipv6Addr>().map_err(|_| "not an IPv6 address")?.octets().to_vec(),
                Kind::Dn => dn::encode(rest)?,
                Kind::Fqdn | Kind::Email | Kind::KeyId => rest.as_bytes().to_vec(),
            },
        };
        let number = KINDS.iter().find(|(known, ..)| *known == kind).map_or(0, |(_, number, _)| *number);
        Identity::from_wire(number, &octets).ok_or_else(|| {
            if octets.is_empty() {
                "the identity is empty".to_owned()
            } else if octets.len() > MAX_OCTETS {
                format!("an identity has at most {MAX_OCTETS} octets")
            } else {
                "these octets are no identity of this kind".to_owned()
            }
        })
    }
}

/// The kind of a text without a word for it in front; `None` where strongSwan would take anything for a KEY_ID.
fn guess(text: &str) -> Option<Kind> {
    let has_word = || {
        let (word, _) = text.split_once(':')?;
        let word = word.to_ascii_lowercase();
        let known = KINDS.iter().map(|(.., word)| *word).chain(ALIASES.iter().map(|(alias, _)| *alias));
        known.into_iter().find(|known| *known == word)
    };
    if has_word().is_some() || text.starts_with('@') {
        None
    } else if text.contains('=') {
        Some(Kind::Dn)
    } else if text.contains('@') {
        Some(Kind::Email)
    } else if text.contains(':') {
        text.parse::<Ipv6Addr>().ok().map(|_| Kind::Ipv6)
    } else if text.parse::<Ipv4Addr>().is_ok() {
        Some(Kind::Ipv4)
    } else {
        Some(Kind::Fqdn)
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        digits.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect::<Option<_>>()?;
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

/// Each with its number (RFC 7296 §3.5) and the word that may stand in front of it.
const KINDS: [(Kind, u8, &str); 6] = [
    (Kind::Ipv4, 1, "ipv4"),
    (Kind::Fqdn, 2, "fqdn"),
    (Kind::Email, 3, "email"),
    (Kind::Ipv6, 5, "ipv6"),
    (Kind::Dn, 9, "dn"),
    (Kind::KeyId, 11, "keyid"),
];
/// Other words that strongSwan and people use.
const ALIASES: [(&str, &str); 5] =
    [("dns", "fqdn"), ("rfc822", "email"), ("userfqdn", "email"), ("asn1dn", "dn"), ("key_id", "keyid")];
const HINT: &str = "not an identity: write fqdn:, email:, keyid:, ipv4:, ipv6: or dn: in front of it";
const MAX_OCTETS: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wire(text: &str) -> (u8, Vec<u8>) {
        let identity: Identity = text.parse().unwrap();
        let (kind, octets) = identity.to_wire();
        (kind, octets.to_vec())
    }

    #[test]
    fn texts_are_read_as_strongswan_reads_them() {
        for (text, kind, octets) in [
            ("moon.example", 2, &b"moon.example"[..]),
            ("@moon.example", 2, b"moon.example"),
            ("fqdn:192.0.2.1", 2, b"192.0.2.1"),
            ("admin@moon.example", 3, b"admin@moon.example"),
            ("@@moon", 3, b"moon"),
            ("email:moon", 3, b"moon"),
            ("rfc822:moon", 3, b"moon"),
            ("192.0.2.1", 1, &[192, 0, 2, 1]),
            ("ipv4:192.0.2.1", 1, &[192, 0, 2, 1]),
            ("2001:db8::1", 5, &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            ("keyid:moon", 11, b"moon"),
            ("keyid:#00ff", 11, &[0, 0xff]),
            ("@#00Ff", 11, &[0, 0xff]),
        ] {
            assert_eq!(wire(text), (kind, octets.to_vec()), "{text}");
        }
    }

    /// Subject of a certificate that strongSwan 6.1 made: `pki --self --dn "C=CH, O=Moon Ltd., CN=møøn.example, E=a@moon.example"`.
    #[test]
    fn a_dn_is_the_der_that_strongswan_makes() {
        let (kind, octets) = wire("C=CH, O=Moon Ltd., CN=møøn.example, E=a@moon.example");
        let made = concat!(
            "3059310b300906035504061302434831123010060355040a13094d6f6f6e204c74642e3117301506035504030c0e6dc3b8c3b86e2e",
            "6578616d706c65311d301b06092a864886f70d010901160e61406d6f6f6e2e6578616d706c65",
        );
        assert_eq!((kind, octets), (9, unhex(made).unwrap()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("", "the identity is empty"),
            ("keyid:", "the identity is empty"),
            ("a:b:c", HINT),
            ("ipv4:2001:db8::1", "not an IPv4 address"),
            ("keyid:#0", "expected an even number of hexadecimal digits after #"),
            ("keyid:#xy", "expected an even number of hexadecimal digits after #"),
            ("ipv4:#00", "these octets are no identity of this kind"),
            ("CN=", "CN is empty"),
            (
                "XY=moon",
                "unknown part \"XY\" of a DN; known: C, ST, L, STREET, O, OU, CN, SN, GN, T, SERIALNUMBER, DC, UID, E",
            ),
        ] {
            assert_eq!(text.parse::<Identity>().unwrap_err(), message, "{text}");
        }
        assert!("x".repeat(513).parse::<Identity>().unwrap_err().contains("at most"));
    }

    #[test]
    fn case_and_string_types_do_not_tell_identities_apart() {
        let key = |text: &str| text.parse::<Identity>().unwrap().key();
        assert_eq!(key("Moon.Example"), key("moon.example"));
        assert_ne!(key("moon.example"), key("keyid:moon.example"));
        assert_ne!(key("keyid:Moon"), key("keyid:moon"));
        assert_eq!(key("C=ch, CN=Moon"), key("C=CH,CN=moon"));
        assert_ne!(key("CN=moon, C=CH"), key("C=CH, CN=moon"));
        // The same CN as UTF8String.
        let utf8 = unhex("300f310d300b06035504030c046d6f6f6e").unwrap();
        assert_eq!(Identity::from_wire(9, &utf8).unwrap().key(), key("CN=moon"));
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_written(kind in prop::sample::select(vec![1_u8, 2, 3, 5, 9, 11, 13]), octets in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(identity) = Identity::from_wire(kind, &octets) {
                prop_assert_eq!(identity.to_string().parse::<Identity>(), Ok(identity));
            }
        }

        #[test]
        fn any_text_is_an_identity_or_an_error(text in "\\PC{0,40}") {
            if let Ok(identity) = text.parse::<Identity>() {
                let shown = identity.to_string();
                prop_assert_eq!(shown.parse::<Identity>().map(|again| again.key()), Ok(identity.key()), "{}", shown);
            }
        }
    }
}
