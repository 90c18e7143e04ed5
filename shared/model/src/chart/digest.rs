//! SHA-256 as text.

use bounded_text::hex;
use ring::digest::{SHA256, digest};

/// SHA-256, as 64 hexadecimal digits in lower case.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// The first digits of [`sha256_hex`].
pub fn short_sha256_hex(bytes: &[u8], digits: usize) -> String {
    let mut hex = sha256_hex(bytes);
    hex.truncate(digits);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256sum() {
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), digits);
        assert_eq!(short_sha256_hex(b"abc", 6), "ba7816");
        assert_eq!(short_sha256_hex(b"abc", 99), digits);
    }
}
