//! Words that nobody else has.

use std::hash::{BuildHasher, RandomState};

/// 16 hexadecimal digits, fit for the name of an object.
///
/// The standard library keys its hashers from the operating system's randomness: no crate is needed for this.
pub fn word() -> String {
    format!("{:016x}", RandomState::new().hash_one("word"))
}
