//! Writes packs.

use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};

use crate::{ObjectFormat, ObjectId, ObjectKind};

/// An entry of a pack.
#[derive(Clone, Debug)]
pub enum Packed {
    /// An object.
    Object(ObjectKind, Vec<u8>),
    /// A delta to the entry with this number, which is before it.
    OffsetDelta(usize, Vec<u8>),
    /// A delta to an object.
    NamedDelta(ObjectId, Vec<u8>),
}

/// A pack of these entries.
pub fn pack(format: ObjectFormat, entries: &[Packed]) -> Vec<u8> {
    let number = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let mut pack = [&b"PACK\0\0\0\x02"[..], &number.to_be_bytes()].concat();
    let mut starts = Vec::new();
    for entry in entries {
        let start = pack.len();
        match entry {
            Packed::Object(kind, content) => {
                let kind = match kind {
                    ObjectKind::Commit => 1,
                    ObjectKind::Tree => 2,
                    ObjectKind::Blob => 3,
                    ObjectKind::Tag => 4,
                };
                head(&mut pack, kind, content.len());
                compress(&mut pack, content);
            }
            Packed::OffsetDelta(base, delta) => {
                head(&mut pack, 6, delta.len());
                distance(&mut pack, start - starts.get(*base).copied().unwrap_or_default());
                compress(&mut pack, delta);
            }
            Packed::NamedDelta(base, delta) => {
                head(&mut pack, 7, delta.len());
                pack.extend_from_slice(base.as_bytes());
                compress(&mut pack, delta);
            }
        }
        starts.push(start);
    }
    let hash = format.digest(&pack);
    pack.extend_from_slice(hash.as_bytes());
    pack
}

fn head(pack: &mut Vec<u8>, kind: u8, len: usize) {
    let mut byte = kind << 4 | low(len, 4);
    let mut rest = len >> 4;
    while rest > 0 {
        pack.push(byte | 0x80);
        byte = low(rest, 7);
        rest >>= 7;
    }
    pack.push(byte);
}

fn distance(pack: &mut Vec<u8>, distance: usize) {
    let mut bytes = vec![low(distance, 7)];
    let mut rest = distance >> 7;
    while rest > 0 {
        rest -= 1;
        bytes.push(low(rest, 7) | 0x80);
        rest >>= 7;
    }
    bytes.reverse();
    pack.extend_from_slice(&bytes);
}

/// The lowest bits of a number.
fn low(number: usize, bits: u32) -> u8 {
    u8::try_from(number & ((1 << bits) - 1)).unwrap_or_default()
}

fn compress(pack: &mut Vec<u8>, content: &[u8]) {
    let mut encoder = ZlibEncoder::new(pack, Compression::default());
    // To memory, it never fails.
    let _ = encoder.write_all(content);
    let _ = encoder.finish();
}
