//! The fast reader of JSON. JSON is YAML, but faster to parse as JSON.
//!
//! It stops where JSON and YAML differ: at long keys, and at characters that YAML forbids, if they matter. Errors in the
//! document are reported by the general reader.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::FastReadError;
use super::collect::{Collection, Collector};
use super::scalar::{Scalar, ScalarType};
use super::source::Source;

/// How much is read at a time, in bytes.
const BUFFER: usize = 16 * 1024;

/// How many bytes there may be between the ends of two values. The general reader allows twice as many.
const MAX_TOKEN_LEN: usize = super::MAX_TOKEN_LEN / 2;

/// How many bytes a key may have, up to its colon. The general reader allows 1024.
const MAX_KEY: usize = 1000;

/// Reads the document to its end, or stops at something unsupported.
pub(super) fn read<R: Read>(
    source: &mut Source<R>,
    collector: &mut Collector<'_>,
) -> Result<(), FastReadError> {
    let progress = Progress::default();
    let bytes = CountingReader {
        source,
        progress: &progress,
        buffer: vec![0; BUFFER],
        at: 0,
        end: 0,
    };
    let mut deserializer = serde_json::Deserializer::from_reader(bytes);
    let node = Node {
        collector,
        progress: &progress,
        key_at: None,
    };
    let result = node
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    match (result, progress.error.take()) {
        (_, Some(error)) => Err(FastReadError::Input(error)),
        (Ok(()), None) => Ok(()),
        (Err(_), None) => Err(FastReadError::Unsupported),
    }
}

/// The position of the deserializer.
#[derive(Default)]
struct Progress {
    at: Cell<usize>,
    /// Where the last value ended.
    last_value: Cell<usize>,
    error: Cell<Option<io::Error>>,
}

impl Progress {
    fn end_value(&self) {
        self.last_value.set(self.at.get());
    }
}

/// Counts the bytes that are read.
struct CountingReader<'s, R> {
    source: &'s mut Source<R>,
    progress: &'s Progress,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.end {
            self.at = 0;
            self.end = 0;
            match self.source.read(&mut self.buffer) {
                Ok(count) => self.end = count,
                Err(error) => {
                    self.progress.error.set(Some(error));
                    return Err(io::ErrorKind::Other.into());
                }
            }
        }
        let mut ready = self.buffer.get(self.at..self.end).unwrap_or_default();
        let count = ready.read(out)?;
        self.at += count;
        let at = self.progress.at.get() + count;
        self.progress.at.set(at);
        if at - self.progress.last_value.get() > MAX_TOKEN_LEN {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(count)
    }
}

/// The next node: a key, a value or an item.
struct Node<'c, 'w, 'm> {
    collector: &'c mut Collector<'w>,
    progress: &'m Progress,
    /// Where the key of this value starts, if it has one.
    key_at: Option<usize>,
}

impl<'w, 'm> Node<'_, 'w, 'm> {
    fn next(&mut self, key_at: Option<usize>) -> Node<'_, 'w, 'm> {
        Node {
            collector: self.collector,
            progress: self.progress,
            key_at,
        }
    }

    fn take(self, scalar: Scalar<'_>) {
        self.progress.end_value();
        self.collector.scalar(scalar);
    }

    fn open(&mut self, collection: Collection) {
        self.progress.end_value();
        self.collector.open(collection);
    }

    fn close(self) {
        self.progress.end_value();
        self.collector.close();
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.key_at {
            Some(at) if self.progress.at.get() - at > MAX_KEY => Err(D::Error::custom("a long key")),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Node<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.open(Collection::Mapping);
        loop {
            let key_at = self.progress.at.get();
            if map.next_key_seed(self.next(None))?.is_none() {
                break;
            }
            map.next_value_seed(self.next(Some(key_at)))?;
        }
        self.close();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.open(Collection::Sequence);
        while items.next_element_seed(self.next(None))?.is_some() {}
        self.close();
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if self.collector.is_relevant() && text.contains(is_json_only) {
            return Err(E::custom("a character that YAML forbids"));
        }
        self.take(Scalar::text(text));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.take(Scalar::NULL);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.take(Scalar::with("", ScalarType::Bool(value)));
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.take(Scalar::with("", ScalarType::Other));
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.take(Scalar::with("", ScalarType::Other));
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.take(Scalar::with("", ScalarType::Other));
        Ok(())
    }
}

/// Whether JSON allows this character in a string, and YAML does not.
pub(super) fn is_json_only(character: char) -> bool {
    matches!(character, '\u{7F}'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}')
}
