//! Distinguished names as DER (X.501; the attributes of RFC 4519 that certificates use): to and from text.

/// OID and value of each part, in order; the tag of the value's string type is kept apart.
pub(super) type Parts<'a> = Vec<(&'a [u8], u8, &'a [u8])>;

/// `C=CH, O=Moon, CN=moon.example`, in that order; a backslash takes the next character as it is.
pub(super) fn encode(text: &str) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    for part in split(text) {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, found \"{part}\""))?;
        let (name, value) = (name.trim(), unescaped(value.trim()));
        let known = ATTRIBUTES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, oid) = known.ok_or_else(|| {
            let names: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
            format!("unknown part \"{name}\" of a DN; known: {}", names.join(", "))
        })?;
        if value.is_empty() {
            return Err(format!("{name} is empty"));
        }
        let tag = match *oid {
            EMAIL => IA5_STRING,
            _ if value.bytes().all(is_printable) => PRINTABLE_STRING,
            _ => UTF8_STRING,
        };
        let pair = [tlv(OID, oid)?, tlv(tag, value.as_bytes())?].concat();
        content.extend(tlv(SET, &tlv(SEQUENCE, &pair)?)?);
    }
    tlv(SEQUENCE, &content)
}

/// Sets of more than one attribute are not supported: nobody uses them for hosts.
pub(super) fn parse(der: &[u8]) -> Option<Parts<'_>> {
    let (mut sets, rest) = take(SEQUENCE, der)?;
    let mut parts = Vec::new();
    while !sets.is_empty() {
        let (set, behind) = take(SET, sets)?;
        let (pair, more) = take(SEQUENCE, set)?;
        let (oid, value) = take(OID, pair)?;
        let (tag, _) = value.split_first()?;
        let (text, end) = take(*tag, value)?;
        if !more.is_empty() || !end.is_empty() || text.is_empty() {
            return None;
        }
        parts.push((oid, *tag, text));
        sets = behind;
    }
    (rest.is_empty() && !parts.is_empty()).then_some(parts)
}

/// `None` if a part has no name here, or is encoded otherwise than [`encode`] would.
pub(super) fn text(parts: &Parts<'_>) -> Option<String> {
    let part = |&(oid, tag, value): &(&[u8], u8, &[u8])| {
        let (name, _) = ATTRIBUTES.iter().find(|(_, known)| *known == oid)?;
        let value = std::str::from_utf8(value).ok().filter(|value| !value.contains(char::is_control))?;
        let usual = match oid {
            EMAIL => IA5_STRING,
            _ if value.bytes().all(is_printable) => PRINTABLE_STRING,
            _ => UTF8_STRING,
        };
        let escaped = value.replace('\\', "\\\\").replace(',', "\\,");
        (tag == usual && value.trim() == value && !value.starts_with('#')).then(|| format!("{name}={escaped}"))
    };
    Some(parts.iter().map(part).collect::<Option<Vec<_>>>()?.join(", "))
}

/// Octets that are equal for names that mean the same.
pub(super) fn normalised(parts: &Parts<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    for (oid, _, value) in parts {
        for field in [oid.to_vec(), value.to_ascii_lowercase()] {
            octets.extend((field.len() as u64).to_be_bytes());
            octets.extend(field);
        }
    }
    octets
}

/// At commas that no backslash stands before.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut escaped = false;
    for c in text.chars() {
        escaped = c == '\\' && !escaped;
        if !escaped {
            plain.push(c);
        }
    }
    plain
}

/// RFC 5280 §4.1.2.4 with X.680: the characters of a PrintableString.
fn is_printable(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&octet)
}

fn tlv(tag: u8, content: &[u8]) -> Result<Vec<u8>, String> {
    let length = match u16::try_from(content.len()).map(u16::to_be_bytes) {
        Ok([0, low @ 0..0x80]) => vec![low],
        Ok([0, low]) => vec![0x81, low],
        Ok([high, low]) => vec![0x82, high, low],
        Err(_) => return Err("this DN is too long".to_owned()),
    };
    Ok([&[tag], &*length, content].concat())
}

/// The content of the value in front, if it has this tag, and what is behind it.
fn take(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match der {
        [first, low @ 0..=0x7f, rest @ ..] if *first == tag => (usize::from(*low), rest),
        [first, 0x81, low @ 0x80..=0xff, rest @ ..] if *first == tag => (usize::from(*low), rest),
        [first, 0x82, high @ 1..=0xff, low, rest @ ..] if *first == tag => {
            (usize::from(u16::from_be_bytes([*high, *low])), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

const EMAIL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01];
const ATTRIBUTES: &[(&str, &[u8])] = &[
    ("C", &[0x55, 4, 6]),
    ("ST", &[0x55, 4, 8]),
    ("L", &[0x55, 4, 7]),
    ("STREET", &[0x55, 4, 9]),
    ("O", &[0x55, 4, 10]),
    ("OU", &[0x55, 4, 11]),
    ("CN", &[0x55, 4, 3]),
    ("SN", &[0x55, 4, 4]),
    ("GN", &[0x55, 4, 42]),
    ("T", &[0x55, 4, 12]),
    ("SERIALNUMBER", &[0x55, 4, 5]),
    ("DC", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19]),
    ("UID", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01]),
    ("E", EMAIL),
];
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
