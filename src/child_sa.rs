//! A Child SA as IKE hands it over and ESP takes it: the only form in which traffic keys travel.

use crate::crypto::aead::Cipher;
use crate::crypto::secret::Secret;

/// Both directions, ready to be installed: inbound first, then outbound.
#[derive(Debug)]
pub struct ChildSa {
    pub cipher: Cipher,
    pub spi_in: u32,
    pub spi_out: u32,
    /// `cipher.keymat_len()` octets each.
    pub key_in: Secret,
    pub key_out: Secret,
}
