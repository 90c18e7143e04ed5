//! Random names and numbers.

/// 16 random hexadecimal digits, valid in the name of an object.
pub fn word() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// A reproducible random number generator: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }
}
