//! A Child SA as IKE hands it over and ESP takes it: the only form in which traffic keys travel.

use crate::crypto::aead::Cipher;
use crate::crypto::kex::Method;
use crate::crypto::secret::Secret;

/// Both directions, ready to be installed: inbound first, then outbound.
#[derive(Debug)]
pub struct ChildSa {
    pub cipher: Cipher,
    /// The key exchanges that its keys come from beside those of the IKE SA (PFS), in order.
    pub exchanges: Vec<Method>,
    pub spi_in: u32,
    pub spi_out: u32,
    /// `cipher.keymat_len()` octets each.
    pub key_in: Secret,
    pub key_out: Secret,
}

impl ChildSa {
    /// As a proposal is written: `aes256gcm16-x25519-ke1_mlkem768`.
    pub fn suite(&self) -> String {
        let mut suite = self.cipher.name().to_owned();
        for (number, method) in self.exchanges.iter().enumerate() {
            let place = if number == 0 { String::new() } else { format!("ke{number}_") };
            suite.push_str(&format!("-{place}{}", method.name()));
        }
        suite
    }
}
