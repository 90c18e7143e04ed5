//! Random names and numbers.

use std::hash::{BuildHasher, RandomState};

/// 16 random hexadecimal digits, valid in the name of an object.
///
/// The standard library seeds its hashers with randomness of the operating system, so no crate is needed.
pub fn word() -> String {
    format!("{:016x}", RandomState::new().hash_one("word"))
}

/// A reproducible random number generator: the same seed gives the same numbers (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        // Bounds are small, so the bias towards small numbers is negligible.
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(self.number() % bound).unwrap_or_default()
    }
}
