//! The characters of the document, decoded incrementally.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use super::super::MAX_TOKEN_LEN;
use super::super::error::IndexError;
use super::super::json::is_json_only;
use super::super::source::Source;

/// How much is read at a time, in bytes.
const BUFFER: usize = 16 * 1024;

/// The state that the reader shares with the iterator of characters, which its parser owns.
#[derive(Default)]
pub(super) struct InputState {
    error: RefCell<Option<IndexError>>,
    has_ended: Cell<bool>,
    /// How many characters were read.
    read: Cell<usize>,
    /// How many of them at the last event.
    at_last_event: Cell<usize>,
}

impl InputState {
    /// Takes the error of the input, if there is one.
    pub(super) fn take_error(&self) -> Option<IndexError> {
        self.error.take()
    }

    /// Whether the parser has read the document to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Whether the document ends after this many characters.
    pub(super) fn ends_at(&self, characters: usize) -> bool {
        self.has_ended.get() && self.read.get() == characters
    }

    /// Notes that the parser has returned an event.
    pub(super) fn note_event(&self) {
        self.at_last_event.set(self.read.get());
    }
}

/// The characters; ends at the first error.
pub(super) struct Chars<R> {
    source: Source<R>,
    state: Rc<InputState>,
    /// Whether the document may be JSON, which allows characters that YAML forbids.
    may_be_json: bool,
    buffer: Vec<u8>,
    at: usize,
}

impl<R: Read> Chars<R> {
    pub(super) fn new(source: Source<R>, state: Rc<InputState>) -> Self {
        Self {
            may_be_json: source.first() == Some(b'{'),
            source,
            state,
            buffer: Vec::with_capacity(BUFFER),
            at: 0,
        }
    }

    /// Buffers at least `count` bytes, unless the input ends before.
    fn fill(&mut self, count: usize) -> Result<(), IndexError> {
        while self.buffer.len() < self.at + count {
            let mut fresh = [0; BUFFER];
            let read = self.source.read(&mut fresh).map_err(IndexError::Input)?;
            if read == 0 {
                self.state.has_ended.set(true);
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
            Some(character) if self.may_be_json && is_json_only(character) => {
                Ok(Some(char::REPLACEMENT_CHARACTER))
            }
            Some(character) => Ok(Some(character)),
            None => Err(IndexError::NotUtf8(
                "some bytes in it are not valid UTF-8; save it as UTF-8",
            )),
        }
    }

    fn read_char(&mut self) -> Result<Option<char>, IndexError> {
        let read = self.state.read.get();
        if read - self.state.at_last_event.get() >= MAX_TOKEN_LEN {
            return Err(IndexError::TextTooLong);
        }
        let character = match self.buffer.get(self.at) {
            Some(ascii @ 0..=0x7E) => {
                self.at += 1;
                Some(char::from(*ascii))
            }
            _ => self.decode()?,
        };
        self.state.read.set(read + usize::from(character.is_some()));
        Ok(character)
    }
}

impl<R: Read> Iterator for Chars<R> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.read_char() {
            Ok(character) => character,
            Err(error) => {
                self.state.error.replace(Some(error));
                None
            }
        }
    }
}
