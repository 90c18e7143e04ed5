//! The lines of the document, in blocks.

use std::io::Read;
use std::ops::Range;

use memchr::{memchr3_iter, memrchr};

use super::super::FastReadError;
use super::super::source::Source;

/// How much is read at a time, and the longest supported line. The longest lines that Helm writes have a text without a space.
const BUFFER: usize = 64 * 1024;

/// Returns the lines, several at a time.
pub(super) struct Lines<'s, R> {
    source: &'s mut Source<R>,
    buffer: Vec<u8>,
    /// The bytes that are read and not returned yet.
    pending: Range<usize>,
    has_ended: bool,
}

impl<'s, R: Read> Lines<'s, R> {
    pub(super) fn new(source: &'s mut Source<R>) -> Self {
        Self {
            source,
            buffer: vec![0; BUFFER],
            pending: 0..0,
            has_ended: false,
        }
    }

    /// The next complete lines; the last one of the document may have no line break. `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, FastReadError> {
        self.buffer.copy_within(self.pending.clone(), 0);
        self.pending = 0..self.pending.len();
        let mut end = None;
        while end.is_none() && !self.has_ended {
            let space = self.buffer.get_mut(self.pending.end..).unwrap_or_default();
            if space.is_empty() {
                return Err(FastReadError::Unsupported);
            }
            let count = self.source.read(space)?;
            self.has_ended = count == 0;
            let fresh = space.get(..count).unwrap_or_default();
            end = memrchr(b'\n', fresh).map(|at| self.pending.end + at + 1);
            self.pending.end += count;
        }
        let end = end.unwrap_or(self.pending.end);
        self.pending.start = end;
        match self.buffer.get(..end) {
            None | Some([]) => Ok(None),
            Some(lines) if is_printable(lines) => Ok(Some(lines)),
            Some(_) => Err(FastReadError::Unsupported),
        }
    }
}

/// Whether this is UTF-8 without characters that YAML forbids or that some parsers treat as line breaks.
fn is_printable(lines: &[u8]) -> bool {
    let mut has_control = false;
    let mut all = 0;
    for &byte in lines {
        has_control |= (byte < b' ' && byte != b'\n') || byte == 0x7F;
        all |= byte;
    }
    !has_control && (all.is_ascii() || is_printable_beyond_ascii(lines))
}

fn is_printable_beyond_ascii(lines: &[u8]) -> bool {
    std::str::from_utf8(lines).is_ok()
        && memchr3_iter(0xC2, 0xE2, 0xEF, lines).all(|at| {
            !matches!(
                lines.get(at..).unwrap_or_default(),
                // Control characters including NEL, the separators of lines and paragraphs, the byte order mark and
                // noncharacters.
                [0xC2, 0x80..=0x9F, ..]
                    | [0xE2, 0x80, 0xA8 | 0xA9, ..]
                    | [0xEF, 0xBB, 0xBF, ..]
                    | [0xEF, 0xBF, 0xBE | 0xBF, ..]
            )
        })
}
