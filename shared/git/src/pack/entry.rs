//! The head of a pack and of each of its entries.

use super::PackError;
use crate::{ObjectFormat, ObjectId, ObjectKind};

/// What a pack begins with; its version and the number of entries follow, with four bytes each.
const MAGIC: &[u8; 4] = b"PACK";
/// Length of the head of a pack, in bytes.
pub const HEAD: usize = 12;

/// An entry of a pack.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where it begins.
    pub start: usize,
    /// Where its compressed content begins.
    pub data: usize,
    /// The size of its content: of an object, or of a delta.
    pub size: u64,
    /// What its content is.
    pub content: Content,
}

/// What the content of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// An object.
    Object(ObjectKind),
    /// A delta to the entry with this number.
    Delta(usize),
    /// A delta to the object of this name, which may follow.
    DeltaTo(ObjectId),
}

/// The head of an entry, before the number of its base is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// It is an object.
    None(ObjectKind),
    /// The entry this many bytes before it.
    Before(u64),
    /// The object of this name.
    Named(ObjectId),
}

/// The number of entries of a pack.
pub fn number(pack: &[u8]) -> Result<u32, PackError> {
    let no_pack = PackError::Damaged("it does not begin as a pack does");
    let Some((MAGIC, rest)) = pack.split_first_chunk::<4>() else {
        return Err(no_pack);
    };
    let Some((version, rest)) = rest.split_first_chunk::<4>() else {
        return Err(no_pack);
    };
    match (u32::from_be_bytes(*version), rest.first_chunk::<4>()) {
        (2 | 3, Some(number)) => Ok(u32::from_be_bytes(*number)),
        _ => Err(PackError::Damaged("its version is neither 2 nor 3")),
    }
}

/// Reads the head of an entry: its size, its base, and the length of the head.
pub fn head(bytes: &[u8], format: ObjectFormat) -> Result<(u64, Base, usize), PackError> {
    let mut cursor = Cursor(bytes);
    let first = cursor.byte()?;
    let mut size = u64::from(first & 0x0f);
    let (mut shift, mut next) = (4, first);
    while next & 0x80 != 0 {
        next = cursor.byte()?;
        size |= shifted(next & 0x7f, shift)?;
        shift += 7;
    }
    let base = match first >> 4 & 7 {
        1 => Base::None(ObjectKind::Commit),
        2 => Base::None(ObjectKind::Tree),
        3 => Base::None(ObjectKind::Blob),
        4 => Base::None(ObjectKind::Tag),
        6 => Base::Before(distance(&mut cursor)?),
        7 => {
            let id = cursor.take(format.len())?;
            Base::Named(ObjectId::from_bytes(format, id).ok_or(END)?)
        }
        _ => return Err(PackError::Damaged("an entry is of an unknown kind")),
    };
    Ok((size, base, bytes.len() - cursor.0.len()))
}

const END: PackError = PackError::Damaged("it ends within an entry");

/// A distance: seven bits in each byte, the highest first, and one more for each byte that follows.
fn distance(cursor: &mut Cursor<'_>) -> Result<u64, PackError> {
    let mut byte = cursor.byte()?;
    let mut distance = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = cursor.byte()?;
        let more = distance
            .checked_add(1)
            .and_then(|distance| distance.checked_mul(128));
        distance = more.ok_or(END)? | u64::from(byte & 0x7f);
    }
    Ok(distance)
}

/// Seven bits at a position of a number.
pub fn shifted(bits: u8, shift: u32) -> Result<u64, PackError> {
    // Ten bytes would have more than 64 bits.
    if shift > 56 {
        return Err(PackError::Damaged("a size is too large"));
    }
    Ok(u64::from(bits) << shift)
}

/// Bytes that are read from their start.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, PackError> {
        let (first, rest) = self.0.split_first().ok_or(END)?;
        self.0 = rest;
        Ok(*first)
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], PackError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(END)?;
        self.0 = rest;
        Ok(taken)
    }
}
