//! Decompression into memory, up to a limit.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use thiserror::Error;

use crate::digest::Sha256;

/// Decompresses gzip, in portions of any size.
pub struct Gunzip {
    decoder: MultiGzDecoder<Sink>,
}

/// What was decompressed.
pub struct Decompressed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their SHA-256 sum.
    pub sha256: String,
}

/// Why it cannot be decompressed.
pub struct GunzipError {
    /// Whether there are too many bytes.
    pub is_limit: bool,
    /// What is wrong, for a message.
    pub cause: String,
}

impl Gunzip {
    /// Decompresses to at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            decoder: MultiGzDecoder::new(Sink {
                bytes: Vec::new(),
                digest: Sha256::new(),
                limit,
            }),
        }
    }

    /// Adds compressed bytes.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), GunzipError> {
        Ok(self.decoder.write_all(bytes)?)
    }

    /// Ends the compressed bytes.
    pub fn finish(self) -> Result<Decompressed, GunzipError> {
        let sink = self.decoder.finish()?;
        Ok(Decompressed {
            bytes: sink.bytes,
            sha256: sink.digest.hex(),
        })
    }
}

impl From<io::Error> for GunzipError {
    fn from(error: io::Error) -> Self {
        let is_limit = error
            .get_ref()
            .is_some_and(<dyn std::error::Error + Send + Sync>::is::<OverLimit>);
        let cause = format!("it is not compressed with gzip, or damaged: {error}");
        Self { is_limit, cause }
    }
}

struct Sink {
    bytes: Vec<u8>,
    digest: Sha256,
    limit: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.limit {
            return Err(io::Error::other(OverLimit));
        }
        self.digest.add(bytes);
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The limit is reached.
#[derive(Debug, Error)]
#[error("the limit of the content is reached")]
struct OverLimit;
