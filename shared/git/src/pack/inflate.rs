//! Decompresses the streams in a pack.

use flate2::{Decompress, FlushDecompress, Status};

use super::PackError;

/// Bytes that are decompressed at a time.
pub const CHUNK: usize = 16 << 10;

/// Decompresses streams, one after the other.
pub struct Inflater {
    stream: Decompress,
    chunk: Vec<u8>,
}

impl Default for Inflater {
    fn default() -> Self {
        Self {
            stream: Decompress::new(true),
            chunk: vec![0; CHUNK],
        }
    }
}

impl Inflater {
    /// Decompresses the stream at the start of `input`, which has to have this size then. Returns how many bytes of the input it takes.
    pub fn stream(
        &mut self,
        input: &[u8],
        size: u64,
        mut output: impl FnMut(&[u8]),
    ) -> Result<usize, PackError> {
        self.stream.reset(true);
        loop {
            let (consumed, produced) = (self.stream.total_in(), self.stream.total_out());
            let rest = input.get(length(consumed)..).unwrap_or_default();
            let status = self
                .stream
                .decompress(rest, &mut self.chunk, FlushDecompress::None)
                .map_err(|_| PackError::Damaged("an object cannot be decompressed"))?;
            let new = length(self.stream.total_out() - produced);
            if self.stream.total_out() > size {
                return Err(PackError::Damaged("an object is larger than it says"));
            }
            output(self.chunk.get(..new).unwrap_or_default());
            match status {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {
                    if new == 0 && self.stream.total_in() == consumed {
                        return Err(PackError::Damaged("it ends within an object"));
                    }
                }
            }
        }
        if self.stream.total_out() < size {
            return Err(PackError::Damaged("an object is smaller than it says"));
        }
        Ok(length(self.stream.total_in()))
    }

    /// The content of the stream at the start of `input`.
    pub fn content(&mut self, input: &[u8], size: u64) -> Result<Vec<u8>, PackError> {
        let mut content = Vec::with_capacity(length(size));
        self.stream(input, size, |part| content.extend_from_slice(part))?;
        Ok(content)
    }
}

/// A number of bytes in memory.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
