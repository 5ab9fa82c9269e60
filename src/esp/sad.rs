//! The inbound half of the SA database (RFC 4301 §4.4.2): SPI → SA and the link it belongs to.

use super::{InCount, InSa};
use crate::path::LinkId;

/// Sorted by SPI: we choose them, so nobody can make lookups slow, and with some dozens of SAs a search beats a hash.
#[derive(Debug, Default)]
pub struct Sad {
    spis: Vec<u32>,
    /// In step with `spis`. Boxed, so that sorting does not leave copies of keys behind.
    sas: Vec<(LinkId, Box<InSa>)>,
}

impl Sad {
    /// Adds an SA, in place of one with the same SPI.
    pub fn insert(&mut self, spi: u32, link: LinkId, sa: InSa) {
        let entry = (link, Box::new(sa));
        match self.spis.binary_search(&spi) {
            Ok(at) => self.sas[at] = entry,
            Err(at) => {
                self.spis.insert(at, spi);
                self.sas.insert(at, entry);
            }
        }
    }

    pub fn lookup(&mut self, spi: u32) -> Option<(LinkId, &mut InSa)> {
        let at = self.spis.binary_search(&spi).ok()?;
        self.sas.get_mut(at).map(|(link, sa)| (*link, &mut **sa))
    }

    pub fn count(&self, spi: u32) -> Option<InCount> {
        let at = self.spis.binary_search(&spi).ok()?;
        self.sas.get(at).map(|(_, sa)| sa.count())
    }

    /// Removes the SA if it is this link's.
    pub fn remove(&mut self, spi: u32, link: LinkId) {
        if let Ok(at) = self.spis.binary_search(&spi)
            && self.sas[at].0 == link
        {
            self.spis.remove(at);
            self.sas.remove(at);
        }
    }

    pub fn remove_link(&mut self, link: LinkId) {
        for at in (0..self.spis.len()).rev() {
            if self.sas[at].0 == link {
                self.spis.remove(at);
                self.sas.remove(at);
            }
        }
    }
}
