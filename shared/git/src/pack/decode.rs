//! The content of one object, from its delta and those that this is based on.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Pack, PackError, delta,
    entry::{Content, Entry},
    inflate::Inflater,
};
use crate::ObjectKind;

/// Decompressed objects that are kept because others may be based on them, in bytes.
pub const CACHE: usize = 8 << 20;
/// What an object costs besides its content: in the cache, and when it is decompressed, in bytes.
const OVERHEAD: usize = 256;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its content.
    pub content: Arc<[u8]>,
}

/// What decoding needs besides the pack.
#[derive(Default)]
pub struct Decoder {
    inflater: Inflater,
    /// The number of the pack that is decoded, of those that share this.
    pub pack: usize,
    cache: BTreeMap<(usize, usize), Object>,
    cached: usize,
    decoded: u64,
}

impl Decoder {
    /// Counts what is decompressed, or passed on.
    pub fn count(&mut self, bytes: u64, limit: u64) -> Result<(), PackError> {
        self.decoded = self.decoded.saturating_add(bytes);
        if self.decoded > limit {
            return Err(PackError::TooMuch { limit });
        }
        Ok(())
    }

    fn keep(&mut self, at: usize, object: &Object) {
        let bytes = object.content.len() + OVERHEAD;
        if self.cached + bytes > CACHE {
            self.cache.clear();
            self.cached = 0;
        }
        if bytes <= CACHE && self.cache.insert((self.pack, at), object.clone()).is_none() {
            self.cached += bytes;
        }
    }

    /// Passes the content of an entry to `output`, and returns how many bytes of the pack it takes.
    pub fn pass(
        &mut self,
        pack: &Pack,
        entry: &Entry,
        output: impl FnMut(&[u8]),
    ) -> Result<usize, PackError> {
        self.count(entry.size.saturating_add(OVERHEAD as u64), pack.limits.decoded)?;
        self.inflater.stream(compressed(pack, entry), entry.size, output)
    }

    fn content(&mut self, pack: &Pack, entry: &Entry) -> Result<Vec<u8>, PackError> {
        let limit = pack.limits.object;
        if entry.size > limit as u64 {
            return Err(PackError::ObjectTooLarge {
                size: entry.size,
                limit,
            });
        }
        self.count(entry.size.saturating_add(OVERHEAD as u64), pack.limits.decoded)?;
        self.inflater.content(compressed(pack, entry), entry.size)
    }
}

fn compressed<'p>(pack: &'p Pack, entry: &Entry) -> &'p [u8] {
    pack.bytes.get(entry.data..).unwrap_or_default()
}

/// The object of an entry, whose bases are resolved.
pub fn object(pack: &Pack, at: usize, decoder: &mut Decoder) -> Result<Object, PackError> {
    let (mut deltas, mut next) = (Vec::new(), at);
    let mut object = loop {
        if let Some(object) = decoder.cache.get(&(decoder.pack, next)) {
            break object.clone();
        }
        let entry = pack
            .entries
            .get(next)
            .ok_or(PackError::Damaged("an entry is missing"))?;
        match entry.content {
            Content::Object(kind) => {
                let content = decoder.content(pack, entry)?.into();
                break Object { kind, content };
            }
            Content::Delta(base) => {
                deltas.push((next, entry));
                next = base;
            }
            Content::DeltaTo(_) => return Err(PackError::Damaged("the base of a delta is missing")),
        }
    };
    decoder.keep(next, &object);
    for (at, entry) in deltas.into_iter().rev() {
        let delta = decoder.content(pack, entry)?;
        decoder.count(delta::result_size(&delta)?, pack.limits.decoded)?;
        object.content = delta::apply(&object.content, &delta, pack.limits.object)?.into();
        decoder.keep(at, &object);
    }
    Ok(object)
}
