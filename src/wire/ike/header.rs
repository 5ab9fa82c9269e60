//! The IKE header (RFC 7296 §3.1).

use super::cursor::Cursor;
use super::{Exchange, Garbage, PayloadType, TooLong};

/// Length of the IKE header in octets.
pub const IKE_HEADER_LEN: usize = 28;

/// The fields of the IKE header that mean something; version, length and next payload are the codec's own business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Never zero.
    pub spi_initiator: u64,
    /// Zero in the first request, and in the answers that make no state.
    pub spi_responder: u64,
    pub exchange: Exchange,
    /// The sender is the original initiator of this IKE SA (flag I), in requests and responses alike.
    pub from_initiator: bool,
    pub response: bool,
    pub message_id: u32,
}

impl Header {
    /// Gives the next payload's type and the octets after the header as well.
    pub(super) fn parse(datagram: &[u8]) -> Result<(Header, PayloadType, &[u8]), Garbage> {
        let mut cursor = Cursor::new(datagram);
        let (
            Some(spi_initiator),
            Some(spi_responder),
            Some([next, version, exchange, flags]),
            Some(message_id),
            Some(length),
        ) = (cursor.u64(), cursor.u64(), cursor.array(), cursor.u32(), cursor.u32())
        else {
            return Err(Garbage::Short);
        };
        let header = Header {
            spi_initiator,
            spi_responder,
            exchange: Exchange(exchange),
            from_initiator: flags & FLAG_INITIATOR != 0,
            response: flags & FLAG_RESPONSE != 0,
            message_id,
        };
        // The minor version and the V flag say nothing about this message (RFC 7296 §2.5).
        match version >> 4 {
            _ if spi_initiator == 0 => Err(Garbage::ZeroSpi),
            0 | 1 => Err(Garbage::OldVersion),
            2 if usize::try_from(length) != Ok(datagram.len()) => Err(Garbage::Length),
            2 => Ok((header, PayloadType(next), cursor.rest())),
            _ => Err(Garbage::NewVersion(header)),
        }
    }

    /// The header of a message of `length` octets in all.
    pub fn encode(&self, next: PayloadType, length: usize) -> Result<[u8; IKE_HEADER_LEN], TooLong> {
        let length = u32::try_from(length).map_err(|_| TooLong)?;
        let initiator = if self.from_initiator { FLAG_INITIATOR } else { 0 };
        let response = if self.response { FLAG_RESPONSE } else { 0 };
        let mut octets = [0; IKE_HEADER_LEN];
        let fields = (self.spi_initiator.to_be_bytes().into_iter())
            .chain(self.spi_responder.to_be_bytes())
            .chain([next.0, VERSION, self.exchange.0, initiator | response])
            .chain(self.message_id.to_be_bytes())
            .chain(length.to_be_bytes());
        octets.iter_mut().zip(fields).for_each(|(octet, field)| *octet = field);
        Ok(octets)
    }
}

const VERSION: u8 = 0x20;
const FLAG_INITIATOR: u8 = 0x08;
const FLAG_RESPONSE: u8 = 0x20;
