//! The MSS of TCP connections through a tunnel: lowered to what fits, for senders that never hear of "packet too big"
//! (RFC 2923 §2.1; common practice of PPPoE and VPN routers). Both ends' SYNs pass here, so both directions are covered.

use crate::wire::ip::{self, Header};
use crate::wire::tcp;

/// Whether a packet opens a TCP connection, from either end.
pub(super) fn is_syn(header: &Header, packet: &[u8]) -> bool {
    ip::transport(header, packet).is_some_and(|(protocol, segment)| {
        protocol == tcp::TCP && segment.get(13).is_some_and(|flags| flags & 0x02 != 0)
    })
}

/// Lowers the MSS of a SYN to what a packet of `mtu` octets has room for. Later segments are only looked at.
pub(super) fn clamp(header: &Header, packet: &mut [u8], mtu: u16) {
    if let Some((at, mss)) = segment(header, packet, mtu)
        && let Some(segment) = packet.get_mut(at..)
    {
        tcp::clamp_mss(segment, mss);
    }
}

/// The packet with a lower MSS, if it needs one.
pub(super) fn clamped(header: &Header, packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let (at, mss) = segment(header, packet, mtu)?;
    // SYNs are few: all others are not copied.
    let is_syn = packet.get(at + 13)? & 0x02 != 0;
    let mut copy = is_syn.then(|| packet.to_vec())?;
    tcp::clamp_mss(copy.get_mut(at..)?, mss).then_some(copy)
}

/// Where the TCP header stands, and the largest MSS.
fn segment(header: &Header, packet: &[u8], mtu: u16) -> Option<(usize, u16)> {
    let headers = if header.is_ipv4() { ip::HEADER4_LEN } else { ip::HEADER6_LEN };
    let (protocol, segment) = ip::transport(header, packet)?;
    // The segment reaches to the end of the packet.
    let at = header.length.checked_sub(segment.len())?;
    let mss = mtu.checked_sub(u16::try_from(headers).ok()?)?.checked_sub(20)?;
    (protocol == tcp::TCP).then_some((at, mss))
}
