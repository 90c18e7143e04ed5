//! The bytes of the document, pulled as they come.

use std::io::{self, ErrorKind, Read};

use super::Layout;

/// How much of the document's beginning is kept to start over from. What gives a layout away comes early: a document of
/// another tool differs in its first entry.
const KEPT: usize = 256 * 1024;

/// How many bytes are looked at before the first reader starts, at most: enough to see past a few blank lines.
const OPENING: usize = 4096;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The input, and its beginning.
pub(super) struct Source<R> {
    input: R,
    /// The beginning of the document: all that was pulled as long as `keeps`, otherwise what is still to be given out.
    head: Vec<u8>,
    /// How much of `head` has been given out.
    given: usize,
    /// Where the text starts, behind a byte order mark.
    start: usize,
    keeps: bool,
}

impl<R: Read> Source<R> {
    /// Pulls the first bytes.
    pub(super) fn open(input: R, layout: Layout) -> io::Result<Self> {
        let mut source = Self {
            input,
            head: Vec::new(),
            given: 0,
            start: 0,
            keeps: layout == Layout::Any,
        };
        while source.head.len() < OPENING && !source.has_begun() {
            let mut opening = [0; OPENING];
            let count = pull(&mut source.input, &mut opening)?;
            if count == 0 {
                break;
            }
            source.head.extend(opening.iter().take(count));
        }
        if source.head.starts_with(BOM) {
            source.start = BOM.len();
            source.given = BOM.len();
        }
        Ok(source)
    }

    /// Whether enough is there to tell what the document is.
    fn has_begun(&self) -> bool {
        self.head.len() > BOM.len() && self.first().is_some()
    }

    /// The first byte of the document that is not blank.
    pub(super) fn first(&self) -> Option<u8> {
        let text = self.head.strip_prefix(BOM).unwrap_or(&self.head);
        text.iter().copied().find(|b| !b.is_ascii_whitespace())
    }

    /// Says which encoding the document has, if it begins like one that is not read.
    pub(super) fn foreign_encoding(&self) -> Option<&'static str> {
        match self.head.as_slice() {
            [0x1F, 0x8B, ..] => Some("it is compressed with gzip, and the server does not say so"),
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [0, _, ..] | [_, 0, ..] => {
                Some("it seems to be UTF-16 or UTF-32; save it as UTF-8")
            }
            _ => None,
        }
    }

    /// Starts over, if the beginning is still there. Only once.
    pub(super) fn rewind(&mut self) -> bool {
        self.given = self.start;
        std::mem::take(&mut self.keeps)
    }

    fn give(&mut self, out: &mut [u8]) -> usize {
        let rest = self.head.get(self.given..).unwrap_or_default();
        let count = rest.len().min(out.len());
        for (to, from) in out.iter_mut().zip(rest) {
            *to = *from;
        }
        self.given += count;
        count
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.keeps && self.head.len() + bytes.len() <= KEPT {
            self.head.extend_from_slice(bytes);
            self.given = self.head.len();
        } else {
            self.keeps = false;
            self.head = Vec::new();
            self.given = 0;
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let given = self.give(out);
        if given > 0 || out.is_empty() {
            return Ok(given);
        }
        let count = pull(&mut self.input, out)?;
        self.keep(out.get(..count).unwrap_or_default());
        Ok(count)
    }
}

fn pull(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(out) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
