//! The bytes of the document, with its start buffered.

use std::io::{self, ErrorKind, Read};

use super::Layout;

/// How much of the document's start is buffered for a restart. Layouts differ early: a document of another tool differs in its
/// first entry.
const MAX_BUFFERED: usize = 256 * 1024;

/// How many bytes are inspected at most before a reader is chosen: enough to skip a few blank lines.
const MAX_PEEK: usize = 4096;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The input, with its start buffered.
pub(super) struct Source<R> {
    input: R,
    /// The start of the document: all bytes read so far if `is_buffering`, otherwise those that are not consumed yet.
    head: Vec<u8>,
    /// How much of `head` is consumed.
    consumed: usize,
    /// Where the text starts, after a byte order mark.
    start: usize,
    is_buffering: bool,
}

impl<R: Read> Source<R> {
    /// Reads the first bytes.
    pub(super) fn open(input: R, layout: Layout) -> io::Result<Self> {
        let mut source = Self {
            input,
            head: Vec::new(),
            consumed: 0,
            start: 0,
            is_buffering: layout == Layout::Any,
        };
        while source.head.len() < MAX_PEEK && !source.can_detect_layout() {
            let mut chunk = [0; MAX_PEEK];
            let count = read_some(&mut source.input, &mut chunk)?;
            if count == 0 {
                break;
            }
            source.head.extend(chunk.iter().take(count));
        }
        if source.head.starts_with(BOM) {
            source.start = BOM.len();
            source.consumed = BOM.len();
        }
        Ok(source)
    }

    /// Whether enough bytes are read to detect the layout.
    fn can_detect_layout(&self) -> bool {
        self.head.len() > BOM.len() && self.first().is_some()
    }

    /// The first byte of the document that is not blank.
    pub(super) fn first(&self) -> Option<u8> {
        let text = self.head.strip_prefix(BOM).unwrap_or(&self.head);
        text.iter().copied().find(|b| !b.is_ascii_whitespace())
    }

    /// The encoding of the document, described, if it is not a supported one.
    pub(super) fn unsupported_encoding(&self) -> Option<&'static str> {
        match self.head.as_slice() {
            [0x1F, 0x8B, ..] => Some("it is compressed with gzip, but the server sends no Content-Encoding"),
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [0, _, ..] | [_, 0, ..] => {
                Some("it seems to be UTF-16 or UTF-32; save it as UTF-8")
            }
            _ => None,
        }
    }

    /// Restarts from the beginning, if it is still buffered. Possible only once.
    pub(super) fn rewind(&mut self) -> bool {
        self.consumed = self.start;
        std::mem::take(&mut self.is_buffering)
    }

    fn copy_buffered(&mut self, out: &mut [u8]) -> usize {
        let rest = self.head.get(self.consumed..).unwrap_or_default();
        let count = rest.len().min(out.len());
        for (to, from) in out.iter_mut().zip(rest) {
            *to = *from;
        }
        self.consumed += count;
        count
    }

    fn buffer(&mut self, bytes: &[u8]) {
        if self.is_buffering && self.head.len() + bytes.len() <= MAX_BUFFERED {
            self.head.extend_from_slice(bytes);
            self.consumed = self.head.len();
        } else {
            self.is_buffering = false;
            self.head = Vec::new();
            self.consumed = 0;
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.copy_buffered(out);
        if count > 0 || out.is_empty() {
            return Ok(count);
        }
        let count = read_some(&mut self.input, out)?;
        self.buffer(out.get(..count).unwrap_or_default());
        Ok(count)
    }
}

fn read_some(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(out) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
