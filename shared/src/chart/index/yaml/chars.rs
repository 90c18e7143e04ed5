//! The characters of the document, decoded as they come.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use super::super::MAX_QUIET;
use super::super::error::IndexError;
use super::super::json::is_json_alone;
use super::super::source::Source;

/// How much is read at a time, in bytes.
const BUFFER: usize = 16 * 1024;

/// What the reader and the characters that its parser draws must tell each other.
#[derive(Default)]
pub(super) struct Feed {
    fault: RefCell<Option<IndexError>>,
    has_ended: Cell<bool>,
    /// How many characters were drawn.
    drawn: Cell<usize>,
    /// How many of them at the last event.
    noted: Cell<usize>,
}

impl Feed {
    /// What went wrong with the input, if anything did.
    pub(super) fn fault(&self) -> Option<IndexError> {
        self.fault.take()
    }

    /// Whether the parser has seen the end of the document.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Whether the document ends behind this many characters.
    pub(super) fn ends_at(&self, characters: usize) -> bool {
        self.has_ended.get() && self.drawn.get() == characters
    }

    /// The parser has made an event of the characters so far.
    pub(super) fn note_event(&self) {
        self.noted.set(self.drawn.get());
    }
}

/// The characters; after a fault there are none.
pub(super) struct Chars<R> {
    source: Source<R>,
    feed: Rc<Feed>,
    /// Whether the document may be JSON, which allows characters that YAML forbids.
    may_be_json: bool,
    buffer: Vec<u8>,
    at: usize,
}

impl<R: Read> Chars<R> {
    pub(super) fn new(source: Source<R>, feed: Rc<Feed>) -> Self {
        Self {
            may_be_json: source.first() == Some(b'{'),
            source,
            feed,
            buffer: Vec::with_capacity(BUFFER),
            at: 0,
        }
    }

    /// Makes sure that a number of bytes is there, unless the input ends before.
    fn fill(&mut self, count: usize) -> Result<(), IndexError> {
        while self.buffer.len() < self.at + count {
            let mut fresh = [0; BUFFER];
            let read = self.source.read(&mut fresh).map_err(IndexError::Input)?;
            if read == 0 {
                self.feed.has_ended.set(true);
                return Ok(());
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            self.buffer.extend(fresh.iter().take(read));
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<Option<char>, IndexError> {
        self.fill(1)?;
        let Some(first) = self.buffer.get(self.at) else {
            return Ok(None);
        };
        let width = match first {
            0x00..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
        };
        self.fill(width)?;
        let character = self
            .buffer
            .get(self.at..self.at + width)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .and_then(|text| text.chars().next());
        self.at += width;
        match character {
            Some(character) if self.may_be_json && is_json_alone(character) => {
                Ok(Some(char::REPLACEMENT_CHARACTER))
            }
            Some(character) => Ok(Some(character)),
            None => Err(IndexError::NotUtf8(
                "some bytes in it are no characters; save it as UTF-8",
            )),
        }
    }

    fn draw(&mut self) -> Result<Option<char>, IndexError> {
        let drawn = self.feed.drawn.get();
        if drawn - self.feed.noted.get() >= MAX_QUIET {
            return Err(IndexError::TextTooLong);
        }
        let character = match self.buffer.get(self.at) {
            Some(ascii @ 0..=0x7E) => {
                self.at += 1;
                Some(char::from(*ascii))
            }
            _ => self.decode()?,
        };
        self.feed.drawn.set(drawn + usize::from(character.is_some()));
        Ok(character)
    }
}

impl<R: Read> Iterator for Chars<R> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.draw() {
            Ok(character) => character,
            Err(fault) => {
                self.feed.fault.replace(Some(fault));
                None
            }
        }
    }
}
