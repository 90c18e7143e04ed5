//! Decompression, up to a limit.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use crate::digest::Sha256;

/// The bytes that are decompressed at a time.
const CHUNK: usize = 32 << 10;

/// What was decompressed.
pub struct Decompressed {
    /// The first bytes, as many as were to be kept.
    pub bytes: Vec<u8>,
    /// The SHA-256 sum of all bytes.
    pub sha256: String,
}

/// Why it cannot be decompressed.
pub struct GunzipError {
    /// Whether there are too many bytes.
    pub is_limit: bool,
    /// What is wrong, for a message.
    pub cause: String,
}

/// Decompresses gzip to at most `limit` bytes, of which the first `kept` are in memory afterwards.
pub fn gunzip(compressed: impl Read, limit: u64, kept: u64) -> Result<Decompressed, GunzipError> {
    let mut decoder = MultiGzDecoder::new(compressed);
    let (mut bytes, mut digest, mut count) = (Vec::new(), Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = decoder.read(&mut chunk)?;
        let Some(read) = chunk.get(..read).filter(|read| !read.is_empty()) else {
            break;
        };
        let room = usize::try_from(kept.saturating_sub(count)).unwrap_or(usize::MAX);
        count += read.len() as u64;
        if count > limit {
            return Err(GunzipError {
                is_limit: true,
                cause: String::new(),
            });
        }
        digest.add(read);
        bytes.extend(read.iter().take(room));
    }
    Ok(Decompressed {
        bytes,
        sha256: digest.hex(),
    })
}

impl From<io::Error> for GunzipError {
    fn from(error: io::Error) -> Self {
        Self {
            is_limit: false,
            cause: format!("it is not compressed with gzip, or damaged: {error}"),
        }
    }
}
