//! Fragmentation of IPv4 packets by a router (RFC 791 §3.2): a tunnel cuts what is too big before it encrypts.

use super::{HEADER4_LEN, Header, Malformed, Sum};

/// Don't fragment, more fragments, and the offset in units of 8 octets, in [`field`].
pub const DONT_FRAGMENT: u16 = 0x4000;
pub const MORE_FRAGMENTS: u16 = 0x2000;
pub const OFFSET: u16 = 0x1fff;

/// Flags and fragment offset of an IPv4 packet; zero if it is too short to have them.
pub fn field(packet: &[u8]) -> u16 {
    match packet {
        [_, _, _, _, _, _, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

/// Cuts an IPv4 packet into fragments of at most `mtu` octets, handing each to `each` until that fails.
///
/// `buffer` is scratch space. Whether the packet may be cut (DF) is the caller's question. An `mtu` that does not hold the
/// header and 8 octets is an error of length.
pub fn cut<E: From<Malformed>>(
    packet: &[u8],
    mtu: usize,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let header = Header::parse(packet)?;
    let whole = packet.get(..header.header).ok_or(Malformed::Truncated)?;
    let mut payload = header.payload(packet);
    let flags = field(packet) & !(OFFSET | MORE_FRAGMENTS);
    let mut offset = field(packet) & OFFSET;
    let more_behind = field(packet) & MORE_FRAGMENTS != 0;
    let mut first = true;
    loop {
        buffer.clear();
        if first {
            buffer.extend_from_slice(whole);
        } else {
            push_later_header(buffer, whole);
        }
        let room = mtu.saturating_sub(buffer.len());
        let (piece, rest) = if payload.len() <= room { (payload, &[][..]) } else { payload.split_at(room & !7) };
        if piece.is_empty() && !rest.is_empty() {
            return Err(Malformed::Length.into());
        }
        let more = if more_behind || !rest.is_empty() { MORE_FRAGMENTS } else { 0 };
        finish_header(buffer, piece.len(), flags | more | (offset & OFFSET))?;
        buffer.extend_from_slice(piece);
        each(buffer)?;
        if rest.is_empty() {
            return Ok(());
        }
        offset = offset.wrapping_add(u16::try_from(piece.len() / 8).map_err(|_| Malformed::Length)?);
        payload = rest;
        first = false;
    }
}

/// The header of every fragment but the first: of the options only those whose copied flag is set (RFC 791 §3.1).
fn push_later_header(buffer: &mut Vec<u8>, whole: &[u8]) {
    let (fixed, mut options) = whole.split_at(HEADER4_LEN.min(whole.len()));
    buffer.extend_from_slice(fixed);
    while let [kind, rest @ ..] = options {
        // End of list has no length, no-operation neither; a broken one ends the walk.
        let length = match (*kind, rest.first()) {
            (END_OF_OPTIONS, _) => break,
            (NO_OPERATION, _) => 1,
            (_, Some(&length)) if length >= 2 => usize::from(length),
            (_, _) => break,
        };
        let Some((option, behind)) = options.split_at_checked(length) else { break };
        if kind & COPIED != 0 {
            buffer.extend_from_slice(option);
        }
        options = behind;
    }
    buffer.resize(buffer.len().next_multiple_of(4), END_OF_OPTIONS);
}

/// Header length, total length, fragment field and checksum of the header in `buffer`.
fn finish_header(buffer: &mut [u8], payload: usize, field: u16) -> Result<(), Malformed> {
    let words = u8::try_from(buffer.len() / 4).map_err(|_| Malformed::Length)?;
    let [l0, l1] = u16::try_from(buffer.len() + payload).map_err(|_| Malformed::Length)?.to_be_bytes();
    let [f0, f1] = field.to_be_bytes();
    if let [b0, _, b2, b3, _, _, b6, b7, _, _, b10, b11, ..] = buffer {
        (*b0, *b2, *b3, *b6, *b7, *b10, *b11) = (0x40 | words, l0, l1, f0, f1, 0, 0);
    }
    let sum = Sum::default().plus(buffer).finish().to_be_bytes();
    if let [_, _, _, _, _, _, _, _, _, _, b10, b11, ..] = buffer {
        [*b10, *b11] = sum;
    }
    Ok(())
}

const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

#[cfg(test)]
mod tests {
    use etherparse::Ipv4Slice;
    use proptest::prelude::*;

    use super::*;

    fn packet(options: &[u8], field: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0xb8, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
        packet.extend_from_slice(options);
        finish_header(&mut packet, payload.len(), field).unwrap();
        packet.extend_from_slice(payload);
        packet
    }

    fn fragments(packet: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut all = Vec::new();
        cut(packet, mtu, &mut Vec::new(), |fragment| {
            all.push(fragment.to_vec());
            Ok(())
        })
        .map(|()| all)
    }

    #[test]
    fn options_are_copied_only_where_their_flag_says_so() {
        // Record route (7, not copied), no-operation, router alert (0x94, copied).
        let options = [7, 3, 4, 1, 0x94, 4, 0, 0];
        let cut = fragments(&packet(&options, 0, &[9; 100]), 68).unwrap();
        assert_eq!(cut[0][20..28], options);
        assert_eq!(cut[1][20..24], [0x94, 4, 0, 0]);
        assert_eq!(cut[1][0], 0x46);
    }

    #[test]
    fn a_broken_option_list_ends_the_walk() {
        for options in [[0x94, 0, 0, 0], [0x94, 9, 0, 0], [1, 1, 1, 0x94], [0x94, 1, 0, 0]] {
            assert_eq!(fragments(&packet(&options, 0, &[9; 100]), 68).unwrap()[1][0], 0x45, "{options:?}");
        }
    }

    #[test]
    fn a_fragment_can_be_cut_again() {
        let cut = fragments(&packet(&[], MORE_FRAGMENTS | 10, &[7; 64]), 60).unwrap();
        let fields: Vec<u16> = cut.iter().map(|fragment| field(fragment)).collect();
        assert_eq!(fields, [MORE_FRAGMENTS | 10, MORE_FRAGMENTS | 15]);
        assert_eq!(cut[1].len(), 20 + 24);
    }

    #[test]
    fn no_room_for_eight_octets_is_an_error() {
        assert_eq!(fragments(&packet(&[], 0, &[7; 64]), 27), Err(Malformed::Length));
        assert_eq!(fragments(&packet(&[], 0, &[7; 64]), 28).unwrap().len(), 8);
    }

    proptest! {
        #[test]
        fn reassembled_it_is_the_packet_again(length in 0..4000_usize, mtu in 68..1500_usize) {
            let payload: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let whole = packet(&[], 0, &payload);
            let cut = fragments(&whole, mtu).unwrap();
            let mut joined = Vec::new();
            for (i, fragment) in cut.iter().enumerate() {
                prop_assert!(fragment.len() <= mtu);
                let parsed = Ipv4Slice::from_slice(fragment).unwrap();
                let header = parsed.header();
                prop_assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
                prop_assert_eq!(header.identification(), 0x1234);
                prop_assert_eq!(usize::from(header.fragments_offset().value()) * 8, joined.len());
                prop_assert_eq!(header.more_fragments(), i + 1 < cut.len());
                joined.extend_from_slice(&fragment[20..]);
            }
            prop_assert_eq!(joined, payload);
        }

        #[test]
        fn no_input_panics(octets in proptest::collection::vec(any::<u8>(), 0..200), mtu in 0..100_usize) {
            let _ = fragments(&octets, mtu);
        }
    }
}
