//! Finds the entries of a pack, and computes the names of their objects.

use std::collections::BTreeMap;

use super::{
    Pack, PackError,
    decode::Decoder,
    entry::{Base, Content, Entry, HEAD, head},
    resolve::resolve,
};
use crate::{ObjectId, object::Hasher};

/// The entries by the names of their objects. Objects that are larger than allowed may be missing.
#[derive(Debug, Default)]
pub struct Index(BTreeMap<ObjectId, usize>);

impl Index {
    /// Adds an object. False if it is there already.
    pub fn add(&mut self, id: ObjectId, at: usize) -> bool {
        self.0.insert(id, at).is_none()
    }

    /// The entry of an object.
    pub fn get(&self, id: ObjectId) -> Option<usize> {
        self.0.get(&id).copied()
    }
}

/// Reads all entries of a pack, unless it has to stop.
pub fn build(pack: &mut Pack, number: u32, is_stopped: &dyn Fn() -> bool) -> Result<(), PackError> {
    let mut decoder = Decoder::default();
    let mut start = HEAD;
    for at in 0..number as usize {
        check(is_stopped)?;
        start = add(pack, at, start, &mut decoder)?;
    }
    if start != pack.bytes.len() {
        return Err(PackError::Damaged("more follows its last entry"));
    }
    resolve(pack, &mut decoder, is_stopped)
}

/// Whether to go on.
pub fn check(is_stopped: &dyn Fn() -> bool) -> Result<(), PackError> {
    if is_stopped() {
        return Err(PackError::Stopped);
    }
    Ok(())
}

/// Adds the entry that begins at `start`, and returns where it ends. An object gets its name.
fn add(pack: &mut Pack, at: usize, start: usize, decoder: &mut Decoder) -> Result<usize, PackError> {
    let (size, base, len) = head(pack.bytes.get(start..).unwrap_or_default(), pack.format)?;
    let content = match base {
        Base::None(kind) => Content::Object(kind),
        Base::Named(id) => Content::DeltaTo(id),
        Base::Before(distance) => Content::Delta(entry_at(&pack.entries, start, distance)?),
    };
    let entry = Entry {
        start,
        data: start + len,
        size,
        content,
    };
    let consumed = match content {
        Content::Object(kind) => {
            let mut hasher = Hasher::new(pack.format, kind, size);
            let consumed = decoder.pass(pack, &entry, |part| hasher.update(part))?;
            pack.index.add(hasher.finish(), at);
            consumed
        }
        Content::Delta(_) | Content::DeltaTo(_) => decoder.pass(pack, &entry, |_| {})?,
    };
    pack.entries.push(entry);
    Ok(entry.data + consumed)
}

/// The entry that begins this many bytes before.
fn entry_at(entries: &[Entry], start: usize, distance: u64) -> Result<usize, PackError> {
    let before = usize::try_from(distance)
        .ok()
        .and_then(|distance| start.checked_sub(distance));
    before
        .and_then(|before| entries.binary_search_by_key(&before, |entry| entry.start).ok())
        .ok_or(PackError::Damaged("the base of a delta is no entry"))
}
