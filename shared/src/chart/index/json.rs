//! The reader of JSON, which is YAML but quicker to read as what it is.
//!
//! It gives up where JSON and YAML differ: at long keys, and at characters that YAML forbids, where they matter. Whatever
//! is wrong with a document, the general reader tells.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::Stop;
use super::collect::{Collection, Collector};
use super::scalar::{Meaning, Scalar};
use super::source::Source;

/// How much is read at a time, in bytes.
const BUFFER: usize = 16 * 1024;

/// How many bytes may pass without a value that ends. The general reader allows twice as many.
const MAX_QUIET: usize = super::MAX_QUIET / 2;

/// How many bytes a key may take, with what is between it and its colon. The general reader allows 1024.
const MAX_KEY: usize = 1000;

/// Reads the document to its end, or gives up.
pub(super) fn read<R: Read>(source: &mut Source<R>, collector: &mut Collector<'_>) -> Result<(), Stop> {
    let meter = Meter::default();
    let bytes = Metered {
        source,
        meter: &meter,
        buffer: vec![0; BUFFER],
        at: 0,
        end: 0,
    };
    let mut deserializer = serde_json::Deserializer::from_reader(bytes);
    let node = Node {
        collector,
        meter: &meter,
        key_at: None,
    };
    let result = node
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    match (result, meter.fault.take()) {
        (_, Some(fault)) => Err(Stop::Input(fault)),
        (Ok(()), None) => Ok(()),
        (Err(_), None) => Err(Stop::Odd),
    }
}

/// Where the deserializer is.
#[derive(Default)]
struct Meter {
    at: Cell<usize>,
    /// Where the last value ended.
    noted: Cell<usize>,
    fault: Cell<Option<io::Error>>,
}

impl Meter {
    fn note(&self) {
        self.noted.set(self.at.get());
    }
}

/// Counts the bytes that are taken.
struct Metered<'s, R> {
    source: &'s mut Source<R>,
    meter: &'s Meter,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.end {
            self.at = 0;
            self.end = 0;
            match self.source.read(&mut self.buffer) {
                Ok(count) => self.end = count,
                Err(error) => {
                    self.meter.fault.set(Some(error));
                    return Err(io::ErrorKind::Other.into());
                }
            }
        }
        let mut ready = self.buffer.get(self.at..self.end).unwrap_or_default();
        let count = ready.read(out)?;
        self.at += count;
        let at = self.meter.at.get() + count;
        self.meter.at.set(at);
        if at - self.meter.noted.get() > MAX_QUIET {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(count)
    }
}

/// The next node: a key, a value or an item.
struct Node<'c, 'w, 'm> {
    collector: &'c mut Collector<'w>,
    meter: &'m Meter,
    /// Where the key of this value begins, if it has one.
    key_at: Option<usize>,
}

impl<'w, 'm> Node<'_, 'w, 'm> {
    fn next(&mut self, key_at: Option<usize>) -> Node<'_, 'w, 'm> {
        Node {
            collector: self.collector,
            meter: self.meter,
            key_at,
        }
    }

    fn take(self, scalar: Scalar<'_>) {
        self.meter.note();
        self.collector.scalar(scalar);
    }

    fn open(&mut self, what: Collection) {
        self.meter.note();
        self.collector.open(what);
    }

    fn close(self) {
        self.meter.note();
        self.collector.close();
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.key_at {
            Some(at) if self.meter.at.get() - at > MAX_KEY => Err(D::Error::custom("a long key")),
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
            let key_at = self.meter.at.get();
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
        if self.collector.listens() && text.contains(is_json_alone) {
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
        self.take(Scalar::with("", Meaning::Bool(value)));
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.take(Scalar::with("", Meaning::Other));
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.take(Scalar::with("", Meaning::Other));
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.take(Scalar::with("", Meaning::Other));
        Ok(())
    }
}

/// Whether JSON allows this in a text, and YAML does not.
pub(super) fn is_json_alone(character: char) -> bool {
    matches!(character, '\u{7F}'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}')
}
