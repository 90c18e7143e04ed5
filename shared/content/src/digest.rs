//! SHA-256 as text.

use bounded_text::hex;
use ring::digest::{Context, SHA256};

/// Hashes what is added to it.
#[derive(Clone)]
pub struct Sha256(Context);

impl Sha256 {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The 64 digits, in lower case.
    pub fn hex(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

/// The digest of some bytes.
pub fn sha256(bytes: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.add(bytes);
    digest.hex()
}

/// Whether a text is such a digest.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_digit)
}

/// Whether a byte is a hexadecimal digit in lower case.
pub const fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
