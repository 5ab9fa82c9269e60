//! The one question and the one answer of DNS (RFC 1035 §4) that a stub needs: A and AAAA in class IN.
//!
//! Reading never panics, follows compression pointers only backwards and a bounded number of times, and takes nothing
//! that does not belong to the question: identifier, question, and the chain of CNAMEs from the name asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    A,
    Aaaa,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// NXDOMAIN: final.
    NoName,
    /// Another response code: the next server may know better.
    Code(u8),
}

/// A query; `None` if DNS cannot hold the name.
pub(super) fn query(name: &str, kind: Kind, id: u16) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(64);
    message.extend_from_slice(&id.to_be_bytes());
    // RD; one question
    message.extend_from_slice(&[0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(&encode_name(name)?);
    message.extend_from_slice(&kind.code().to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    Some(message)
}

/// Reads a response; `None` if it is not a well-formed answer to this question.
pub(super) fn read_answer(message: &[u8], name: &str, kind: Kind, id: u16) -> Option<Result<Vec<IpAddr>, Refusal>> {
    let flags = read_u16(message, 2)?;
    if read_u16(message, 0)? != id || flags & QR == 0 || read_u16(message, 4)? != 1 {
        return None;
    }
    let mut wanted = encode_name(name)?;
    let (asked, mut at) = read_name(message, 12)?;
    if asked != wanted || read_u16(message, at)? != kind.code() || read_u16(message, at + 2)? != CLASS_IN {
        return None;
    }
    at += 4;
    match flags & 0x000f {
        0 => {}
        3 => return Some(Err(Refusal::NoName)),
        code => return Some(Err(Refusal::Code(u8::try_from(code).unwrap_or(0)))),
    }
    let mut records = Vec::new();
    for _ in 0..read_u16(message, 6)? {
        // A truncated answer (TC) ends early: what is there is good enough for us.
        let Some((record, next)) = read_record(message, at) else { break };
        records.push(record);
        at = next;
    }
    // CNAMEs come in any order in practice; each can lead on only once.
    for _ in 0..records.len() {
        let Some(next) = records.iter().find(|record| record.kind == CNAME && record.owner == wanted) else { break };
        let Some((target, _)) = read_name(message, next.data_at) else { break };
        wanted = target;
    }
    let own = records.iter().filter(|record| record.kind == kind.code() && record.owner == wanted);
    Some(Ok(own.filter_map(|record| read_address(message, record, kind)).take(MOST).collect()))
}

pub(super) fn code_name(code: u8) -> &'static str {
    match code {
        1 => "format error",
        2 => "server failure",
        4 => "not implemented",
        5 => "query refused",
        _ => "error",
    }
}

impl Kind {
    fn code(self) -> u16 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 28,
        }
    }
}

struct Record {
    owner: Vec<u8>,
    kind: u16,
    data_at: usize,
    length: usize,
}

fn read_record(message: &[u8], at: usize) -> Option<(Record, usize)> {
    let (owner, at) = read_name(message, at)?;
    let kind = read_u16(message, at)?;
    let class = read_u16(message, at + 2)?;
    let length = usize::from(read_u16(message, at + 8)?);
    let data_at = at + 10;
    message.get(data_at..data_at + length)?;
    let kind = if class == CLASS_IN { kind } else { 0 };
    Some((Record { owner, kind, data_at, length }, data_at + length))
}

fn read_address(message: &[u8], record: &Record, kind: Kind) -> Option<IpAddr> {
    let data = message.get(record.data_at..record.data_at + record.length)?;
    match kind {
        Kind::A => <[u8; 4]>::try_from(data).ok().map(|octets| Ipv4Addr::from(octets).into()),
        Kind::Aaaa => <[u8; 16]>::try_from(data).ok().map(|octets| Ipv6Addr::from(octets).into()),
    }
}

/// A name as labels with their lengths, in lower case, with the root at its end (RFC 1035 §3.1).
fn encode_name(name: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(name.len() + 2);
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        octets.push(u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?);
        octets.extend(label.bytes().map(|octet| octet.to_ascii_lowercase()));
    }
    octets.push(0);
    (octets.len() <= LONGEST_NAME).then_some(octets)
}

/// A name in the form of [`encode_name`], and where what follows it starts (RFC 1035 §4.1.4).
fn read_name(message: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut octets = Vec::new();
    let mut end = None;
    loop {
        let length = *message.get(at)?;
        match length {
            0 => {
                octets.push(0);
                return (octets.len() <= LONGEST_NAME).then(|| (octets, end.unwrap_or(at + 1)));
            }
            1..=0x3f => {
                let label = message.get(at + 1..at + 1 + usize::from(length))?;
                octets.push(length);
                octets.extend(label.iter().map(u8::to_ascii_lowercase));
                at += 1 + usize::from(length);
            }
            0xc0.. => {
                let target = usize::from(read_u16(message, at)? & 0x3fff);
                end.get_or_insert(at + 2);
                // Only backwards: so it ends.
                if target >= at {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
        if octets.len() > LONGEST_NAME {
            return None;
        }
    }
}

fn read_u16(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}

/// More addresses of one name are not looked at.
pub(super) const MOST: usize = 16;
const LONGEST_NAME: usize = 255;
const CLASS_IN: u16 = 1;
const CNAME: u16 = 5;
const QR: u16 = 0x8000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer of a real server's shape: the owner compressed, a CNAME first, then the address of its target.
    fn answer(kind: Kind, id: u16) -> Vec<u8> {
        let mut message = query("VPN.example", kind, id).unwrap();
        message[2] = 0x81;
        message[3] = 0x80;
        message[7] = 2;
        let cname = *b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x07\x04host\xc0\x10";
        let target = u8::try_from(message.len() + 12).unwrap();
        message.extend_from_slice(&cname);
        message.extend_from_slice(&[0xc0, target, 0, u8::try_from(kind.code()).unwrap(), 0, 1, 0, 0, 0, 60, 0]);
        match kind {
            Kind::A => message.extend_from_slice(&[4, 192, 0, 2, 1]),
            Kind::Aaaa => {
                message.push(16);
                message.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
            }
        }
        message
    }

    #[test]
    fn follows_a_chain() {
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(read_answer(&answer(Kind::A, 7), "vpn.EXAMPLE.", Kind::A, 7), Some(Ok(vec![v4])));
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(read_answer(&answer(Kind::Aaaa, 7), "vpn.example", Kind::Aaaa, 7), Some(Ok(vec![v6])));
    }

    #[test]
    fn refuses_what_was_not_asked() {
        let message = answer(Kind::A, 7);
        assert_eq!(read_answer(&message, "vpn.example", Kind::A, 8), None);
        assert_eq!(read_answer(&message, "other.example", Kind::A, 7), None);
        assert_eq!(read_answer(&message, "vpn.example", Kind::Aaaa, 7), None);
        assert_eq!(read_answer(&query("vpn.example", Kind::A, 7).unwrap(), "vpn.example", Kind::A, 7), None);
        let mut stranger = message;
        // The CNAME now belongs to another owner, so the address is nobody's.
        let at = query("vpn.example", Kind::A, 7).unwrap().len();
        stranger[at + 1] = 0x10;
        assert_eq!(read_answer(&stranger, "vpn.example", Kind::A, 7), Some(Ok(vec![])));
    }

    #[test]
    fn response_codes() {
        for (code, expected) in [(3, Refusal::NoName), (2, Refusal::Code(2)), (5, Refusal::Code(5))] {
            let mut message = query("vpn.example", Kind::A, 1).unwrap();
            message[2] = 0x81;
            message[3] = 0x80 | code;
            assert_eq!(read_answer(&message, "vpn.example", Kind::A, 1), Some(Err(expected)));
        }
    }

    #[test]
    fn names_that_dns_cannot_hold() {
        for name in ["", ".", "a..b", &"a".repeat(64), &format!("{}a", "a.".repeat(127))] {
            assert_eq!(query(name, Kind::A, 1), None, "{name}");
        }
        assert!(query(&"a.".repeat(126), Kind::A, 1).is_some());
    }

    #[test]
    fn pointers_do_not_circle() {
        let mut message = query("a.example", Kind::A, 1).unwrap();
        message[2] = 0x80;
        message[7] = 1;
        let here = u8::try_from(message.len()).unwrap();
        message.extend_from_slice(&[0xc0, here, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]);
        assert_eq!(read_answer(&message, "a.example", Kind::A, 1), Some(Ok(vec![])));
    }

    proptest! {
        #[test]
        fn never_panics(message: Vec<u8>, cut in 0usize..80, flips in proptest::collection::vec((0usize..80, any::<u8>()), 0..4)) {
            let _ = read_answer(&message, "vpn.example", Kind::A, 7);
            let mut real = answer(Kind::Aaaa, 7);
            for (at, value) in flips {
                if let Some(octet) = real.get_mut(at) {
                    *octet = value;
                }
            }
            real.truncate(cut.max(12));
            let _ = read_answer(&real, "vpn.example", Kind::Aaaa, 7);
        }
    }
}
