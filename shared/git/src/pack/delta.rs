//! Applies a delta: instructions that copy parts of the base, and insert bytes.

use super::{
    PackError,
    entry::{Cursor, shifted},
};

/// What a copy without a length copies, in bytes.
const DEFAULT_LEN: usize = 0x1_0000;

/// The size of the result of a delta.
pub fn result_size(delta: &[u8]) -> Result<u64, PackError> {
    let mut cursor = Cursor(delta);
    number(&mut cursor)?;
    number(&mut cursor)
}

/// Applies a delta to its base. Its result has at most `limit` bytes.
pub fn apply(base: &[u8], delta: &[u8], limit: usize) -> Result<Vec<u8>, PackError> {
    let mut cursor = Cursor(delta);
    if number(&mut cursor)? != base.len() as u64 {
        return Err(PackError::Damaged("a delta is for another object"));
    }
    let size = number(&mut cursor)?;
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size <= limit)
        .ok_or(PackError::ObjectTooLarge { size, limit })?;
    let mut result = Vec::with_capacity(size);
    while !cursor.0.is_empty() {
        let part = match cursor.byte()? {
            0 => return Err(PackError::Damaged("a delta has an unknown instruction")),
            copy if copy & 0x80 != 0 => {
                let (offset, len) = (bits(&mut cursor, copy, 4)?, bits(&mut cursor, copy >> 4, 3)?);
                let len = if len == 0 { DEFAULT_LEN } else { len };
                base.get(offset..)
                    .and_then(|rest| rest.get(..len))
                    .ok_or(PackError::Damaged("a delta copies what its base does not have"))?
            }
            len => cursor.take(usize::from(len))?,
        };
        if result.len() + part.len() > size {
            return Err(PackError::Damaged("a delta has a larger result than it says"));
        }
        result.extend_from_slice(part);
    }
    if result.len() < size {
        return Err(PackError::Damaged("a delta has a smaller result than it says"));
    }
    Ok(result)
}

/// A number of up to `count` bytes, of which `present` has a bit for each that is there.
fn bits(cursor: &mut Cursor<'_>, present: u8, count: u32) -> Result<usize, PackError> {
    let mut value = 0;
    for at in 0..count {
        if present >> at & 1 == 1 {
            value |= usize::from(cursor.byte()?) << (8 * at);
        }
    }
    Ok(value)
}

/// A number: seven bits in each byte, the lowest first.
fn number(cursor: &mut Cursor<'_>) -> Result<u64, PackError> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = cursor.byte()?;
        value |= shifted(byte & 0x7f, shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &[u8] = b"the quick brown fox";

    #[test]
    fn parts_are_copied_and_inserted() {
        // "the ", "slow" inserted, " brown fox" from 9.
        let delta = [&[19, 18, 0x90, 4, 4][..], b"slow", &[0x91, 9, 10]].concat();
        assert_eq!(apply(BASE, &delta, 100).unwrap(), b"the slow brown fox");
        assert_eq!(result_size(&delta).unwrap(), 18);
    }

    #[test]
    fn a_copy_without_a_length_has_64_kib() {
        let base = vec![b'x'; 0x1_0000];
        let size = [0x80, 0x80, 0x04];
        let delta = [&size[..], &size, &[0x80]].concat();
        assert_eq!(apply(&base, &delta, 1 << 20).unwrap(), base);
    }

    #[test]
    fn damaged_deltas_are_errors() {
        for (delta, expected) in [
            (&[18, 1, 1, b'x'][..], "another object"),
            (&[19, 1, 0], "unknown instruction"),
            (&[19, 4, 0x91, 18, 4], "does not have"),
            (&[19, 1, 2, b'x', b'y'], "larger result"),
            (&[19, 3, 2, b'x', b'y'], "smaller result"),
            (&[19, 3, 3, b'x'], "within an entry"),
            (&[19, 0xff, 0xff, 0x7f], "bytes, and 100 is the limit"),
            (&[0xff; 12], "size is too large"),
            (&[], "within an entry"),
        ] {
            let error = apply(BASE, delta, 100).unwrap_err().to_string();
            assert!(error.contains(expected), "{delta:?}: {error}");
        }
    }
}
