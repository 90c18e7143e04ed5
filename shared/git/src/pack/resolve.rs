//! Names the objects of deltas, from their bases on: each delta is decoded once, whatever their order and the length of their chains.

use super::{
    Pack, PackError,
    decode::{self, Decoder},
    entry::Content,
    index::check,
};
use crate::ObjectId;

/// How many deltas may follow each other. Git writes at most this many.
pub const MAX_CHAIN: usize = 4095;

/// Deltas by their bases.
struct Waiting {
    by_entry: Vec<(usize, usize)>,
    by_name: Vec<(ObjectId, usize)>,
}

/// A delta whose base is known.
struct Ready {
    at: usize,
    base: usize,
    depth: usize,
    /// The object of its base is larger than allowed, and so is not decoded.
    is_too_large: bool,
}

/// Names the objects of all deltas.
pub fn resolve(
    pack: &mut Pack,
    decoder: &mut Decoder,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), PackError> {
    let waiting = Waiting::new(pack);
    let mut ready = waiting.on_objects(pack);
    let (mut resolved, mut is_one_unnamed) = (0, false);
    while let Some(delta) = ready.pop() {
        check(is_stopped)?;
        if delta.depth > MAX_CHAIN {
            return Err(PackError::Damaged("too many deltas follow each other"));
        }
        resolved += 1;
        if let Some(entry) = pack.entries.get_mut(delta.at) {
            entry.content = Content::Delta(delta.base);
        }
        let name = if delta.is_too_large {
            None
        } else {
            name(pack, delta.at, decoder)?
        };
        is_one_unnamed |= name.is_none();
        let next = |at: usize| Ready {
            at,
            base: delta.at,
            depth: delta.depth + 1,
            is_too_large: name.is_none(),
        };
        ready.extend(waiting.on_entry(delta.at).map(next));
        // Another entry with the same object has had them.
        if let Some(name) = name.filter(|name| pack.index.add(*name, delta.at)) {
            ready.extend(waiting.on_name(name).map(next));
        }
    }
    // A base without a name is one of those that are too large, as far as can be known. Whether what is based on it is needed shows later.
    if resolved < waiting.by_entry.len() + waiting.by_name.len() && !is_one_unnamed {
        return Err(PackError::Damaged("the base of a delta is missing"));
    }
    Ok(())
}

/// The name of a delta's object; `None` if that is too large. Whether it is needed shows later.
fn name(pack: &Pack, at: usize, decoder: &mut Decoder) -> Result<Option<ObjectId>, PackError> {
    match decode::object(pack, at, decoder) {
        Ok(object) => Ok(Some(ObjectId::of(pack.format, object.kind, &object.content))),
        Err(PackError::ObjectTooLarge { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Waiting {
    fn new(pack: &Pack) -> Self {
        let (mut by_entry, mut by_name) = (Vec::new(), Vec::new());
        for (at, entry) in pack.entries.iter().enumerate() {
            match entry.content {
                Content::Object(_) => {}
                Content::Delta(base) => by_entry.push((base, at)),
                Content::DeltaTo(id) => by_name.push((id, at)),
            }
        }
        by_entry.sort_unstable();
        by_name.sort_unstable();
        Self { by_entry, by_name }
    }

    /// Those whose base is no delta.
    fn on_objects(&self, pack: &Pack) -> Vec<Ready> {
        let is_object = |base: &usize| {
            let entry = pack.entries.get(*base);
            entry.is_some_and(|entry| matches!(entry.content, Content::Object(_)))
        };
        let named = self.by_name.iter();
        let named = named.filter_map(|(id, at)| Some((pack.index.get(*id)?, *at)));
        let by_entry = self.by_entry.iter().filter(|(base, _)| is_object(base)).copied();
        let first = |(base, at)| Ready {
            at,
            base,
            depth: 1,
            is_too_large: false,
        };
        by_entry.chain(named).map(first).collect()
    }

    fn on_entry(&self, base: usize) -> impl Iterator<Item = usize> {
        let start = self.by_entry.partition_point(|(other, _)| *other < base);
        let all = self.by_entry.iter().skip(start);
        all.take_while(move |(other, _)| *other == base)
            .map(|(_, at)| *at)
    }

    fn on_name(&self, base: ObjectId) -> impl Iterator<Item = usize> {
        let start = self.by_name.partition_point(|(other, _)| *other < base);
        let all = self.by_name.iter().skip(start);
        all.take_while(move |(other, _)| *other == base)
            .map(|(_, at)| *at)
    }
}
