//! The only door to randomness: a ChaCha20 generator with a seed from outside.
//!
//! The daemon seeds it once from the operating system ([`Rng::from_os`]); tests and the simulation give a number, and
//! everything that follows is the same in every run.

use rand_core::{Rng as _, SeedableRng};

pub struct Rng(chacha20::ChaCha20Rng);

impl Rng {
    pub fn from_seed(seed: [u8; 32]) -> Rng {
        Rng(chacha20::ChaCha20Rng::from_seed(seed))
    }

    /// A seed for tests.
    pub fn from_number(seed: u64) -> Rng {
        Rng(chacha20::ChaCha20Rng::seed_from_u64(seed))
    }

    /// Seeds from the operating system, waiting for its generator to be ready after boot.
    pub fn from_os() -> Result<Rng, getrandom::Error> {
        let mut seed = [0; 32];
        #[expect(clippy::disallowed_methods, reason = "this is the door")]
        getrandom::fill(&mut seed)?;
        Ok(Rng::from_seed(seed))
    }

    /// An independent generator; what is drawn from one does not change the other.
    pub fn fork(&mut self) -> Rng {
        Rng::from_seed(self.array())
    }

    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill_bytes(buffer);
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub fn u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`, zero if `bound` is zero. The bias is below 2⁻³², which is enough for jitter.
    pub fn below(&mut self, bound: u32) -> u32 {
        let wide = u64::from(self.u32()) * u64::from(bound);
        u32::try_from(wide >> 32).unwrap_or(0)
    }

    /// For crates that want a generator of `rand_core`'s kind.
    pub fn inner(&mut self) -> &mut (impl rand_core::CryptoRng + use<>) {
        &mut self.0
    }
}
