//! SHA-256 as text.

use std::io::{self, Write};

use bounded_text::hex;
use ring::digest::{Context, SHA256, digest};

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

/// Computes the digest of what is written to an output.
pub struct HashingWriter<W> {
    output: W,
    digest: Context,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    /// Of an output that has nothing yet.
    pub fn new(output: W) -> Self {
        Self {
            output,
            digest: Context::new(&SHA256),
            bytes: 0,
        }
    }

    /// Flushes the output, and returns it with the digest and the number of its bytes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<(W, String, u64)> {
        self.output.flush()?;
        Ok((self.output, hex(self.digest.finish().as_ref()), self.bytes))
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        if let Some(written) = bytes.get(..count) {
            self.digest.update(written);
            self.bytes += written.len() as u64;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_output_takes_is_counted() {
        let mut room = [0; 3];
        let mut writer = HashingWriter::new(&mut room[..]);
        assert_eq!(writer.write(b"abcd").unwrap(), 3);
        assert!(writer.write_all(b"d").is_err());
        let (_, digest, bytes) = writer.finish().unwrap();
        assert_eq!((digest, bytes), (sha256_hex(b"abc"), 3));
    }

    #[test]
    fn digests_are_those_of_sha256sum() {
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), digits);
        assert_eq!(short_sha256_hex(b"abc", 6), "ba7816");
        assert_eq!(short_sha256_hex(b"abc", 99), digits);
    }
}
