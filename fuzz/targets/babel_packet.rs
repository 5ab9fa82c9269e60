//! Octets to Babel TLVs: no panic, and what was understood survives being written and read again.

use std::net::Ipv6Addr;

use wattle::wire::babel::{Packet, Tlv, parse};

const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);

pub(crate) fn run(data: &[u8]) {
    let Ok(tlvs) = parse(data, FROM) else { return };
    let tlvs: Vec<Tlv> = tlvs.filter_map(Result::ok).collect();
    assert!(tlvs.len() <= data.len());
    let mut packet = Packet::new(usize::MAX, FROM);
    let fitting = tlvs.iter().take_while(|tlv| packet.push(tlv)).count();
    let octets = packet.finish();
    let again: Vec<Tlv> = parse(&octets, FROM).expect("a packet").map(|tlv| tlv.expect("a TLV")).collect();
    assert_eq!(again, tlvs[..fitting]);
}
