//! TCP (RFC 9293), only the one thing that a tunnel changes: the maximum segment size of a SYN.
//!
//! The checksum is adjusted (RFC 1624), never made anew: what arrived damaged stays visibly damaged.
#![warn(clippy::indexing_slicing)]

use super::ip::checksum;

pub const TCP: u8 = 6;

/// Lowers the MSS option of a segment with SYN to `mss`; returns whether it was larger.
pub fn clamp_mss(segment: &mut [u8], mss: u16) -> bool {
    let Some((at, old)) = mss_option(segment).filter(|(_, old)| *old > mss) else { return false };
    let Some([first, second]) = segment.get_mut(at..at + 2) else { return false };
    [*first, *second] = mss.to_be_bytes();
    let Some([high, low]) = segment.get_mut(CHECKSUM..CHECKSUM + 2) else { return false };
    let sum = u16::from_be_bytes([*high, *low]);
    // Behind an odd number of octets its halves belong to two words, each to the other half.
    let (old, new) = if at % 2 == 0 { (old, mss) } else { (old.swap_bytes(), mss.swap_bytes()) };
    [*high, *low] = checksum::adjust(sum, old, new).to_be_bytes();
    true
}

/// Where the value of the MSS option of a SYN stands, and what it is (RFC 9293 §3.2).
fn mss_option(segment: &[u8]) -> Option<(usize, u16)> {
    if segment.get(FLAGS)? & SYN == 0 {
        return None;
    }
    let end = usize::from(segment.get(DATA_OFFSET)? >> 4) * 4;
    let header = segment.get(..end)?;
    let mut at = HEADER_LEN;
    // Each turn goes on by one octet or more.
    loop {
        match *header.get(at)? {
            END => return None,
            NOP => at += 1,
            MSS if *header.get(at + 1)? == 4 => {
                return Some((at + 2, u16::from_be_bytes([*header.get(at + 2)?, *header.get(at + 3)?])));
            }
            _ => at += usize::from(*header.get(at + 1)?).max(2),
        }
    }
}

const HEADER_LEN: usize = 20;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const SYN: u8 = 0x02;
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;

#[cfg(test)]
mod tests {
    use etherparse::{TcpHeader, TcpOptionElement};
    use proptest::prelude::*;

    use super::*;

    const SOURCE: [u8; 4] = [10, 66, 0, 1];
    const DESTINATION: [u8; 4] = [10, 66, 0, 2];

    fn segment(options: &[TcpOptionElement], syn: bool) -> Vec<u8> {
        let mut tcp = TcpHeader::new(40000, 80, 12345, 64240);
        tcp.syn = syn;
        tcp.set_options(options).unwrap();
        tcp.checksum = tcp.calc_checksum_ipv4_raw(SOURCE, DESTINATION, &[]).unwrap();
        tcp.to_bytes().to_vec()
    }

    fn is_right(segment: &[u8]) -> bool {
        let (tcp, rest) = TcpHeader::from_slice(segment).unwrap();
        tcp.checksum == tcp.calc_checksum_ipv4_raw(SOURCE, DESTINATION, rest).unwrap()
    }

    fn mss_of(segment: &[u8]) -> Option<u16> {
        let (tcp, _) = TcpHeader::from_slice(segment).unwrap();
        tcp.options_iterator()
            .filter_map(Result::ok)
            .find_map(|option| if let TcpOptionElement::MaximumSegmentSize(mss) = option { Some(mss) } else { None })
    }

    #[test]
    fn only_a_larger_mss_of_a_syn_is_lowered_and_the_checksum_stays_right() {
        use TcpOptionElement::{MaximumSegmentSize, Noop, SelectiveAcknowledgementPermitted, WindowScale};
        for before in [vec![], vec![Noop], vec![WindowScale(7)], vec![Noop, SelectiveAcknowledgementPermitted]] {
            for (mss, wanted) in [(1460, 1360), (65535, 1360), (1361, 1360), (1360, 1360), (536, 536), (0, 0)] {
                let options: Vec<_> = before.iter().cloned().chain([MaximumSegmentSize(mss)]).collect();
                let mut syn = segment(&options, true);
                assert_eq!(clamp_mss(&mut syn, 1360), mss > 1360);
                assert_eq!(mss_of(&syn), Some(wanted), "{options:?}");
                assert!(is_right(&syn), "{options:?}");
                let mut ack = segment(&options, false);
                assert!(!clamp_mss(&mut ack, 1360), "not a SYN");
            }
        }
        assert!(!clamp_mss(&mut segment(&[], true), 1360));
    }

    #[test]
    fn damage_stays_visible() {
        let mut syn = segment(&[TcpOptionElement::MaximumSegmentSize(1460)], true);
        syn[16] ^= 0x40;
        assert!(clamp_mss(&mut syn, 1360) && !is_right(&syn));
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic_or_change_more_than_two_places(mut octets in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(flags) = octets.get_mut(FLAGS) {
                *flags |= SYN;
            }
            let before = octets.clone();
            let changed = clamp_mss(&mut octets, 1360);
            let differ = before.iter().zip(&octets).filter(|(a, b)| a != b).count();
            prop_assert!(differ <= 4 && (changed || differ == 0));
        }
    }
}
