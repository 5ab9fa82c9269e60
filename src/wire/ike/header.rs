//! The IKE header (RFC 7296 §3.1).

use super::Exchange;

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
