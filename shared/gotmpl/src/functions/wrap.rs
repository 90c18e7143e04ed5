//! Word wrap, and functions of `goutils` that work on bytes.

/// Breaks a text into lines of at most `width` bytes.
pub fn wrap(text: &str, width: usize, line_end: &str, breaks_words: bool) -> Result<String, String> {
    let line_end = if line_end.is_empty() { "\n" } else { line_end };
    let width = width.max(1);
    if (text.len() / width + 1).saturating_mul(line_end.len()) > super::super::budget::MAX_TEXT {
        return Err("the text would be too long".to_owned());
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut offset = 0;
    while text.len() - offset > width {
        let rest = text.as_bytes().get(offset..).unwrap_or_default();
        if rest.first() == Some(&b' ') {
            offset += 1;
            continue;
        }
        let window = rest.get(..=width).unwrap_or(rest);
        let last_space = window.iter().rposition(|byte| *byte == b' ');
        let next_space = || {
            rest.iter()
                .skip(width)
                .position(|byte| *byte == b' ')
                .map(|index| index + width)
        };
        let (length, skip) = match last_space {
            Some(space) => (space, 1),
            None if breaks_words => (width, 0),
            // A last word that is too long takes the rest of the text.
            None => (next_space().unwrap_or(rest.len()), 1),
        };
        out.push_str(piece(text, offset, offset + length)?);
        out.push_str(line_end);
        if offset + length == text.len() {
            out.truncate(out.len() - line_end.len());
            return Ok(out);
        }
        offset += length + skip;
    }
    out.push_str(piece(text, offset, text.len())?);
    Ok(out)
}

fn piece(text: &str, start: usize, end: usize) -> Result<&str, String> {
    let number = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
    slice(text, number(start), number(end))
}

/// Removes spaces. Go's function treats each byte as a character.
pub fn without_spaces(text: &str) -> String {
    if !text.bytes().any(is_space) {
        return text.to_owned();
    }
    text.bytes()
        .filter(|byte| !is_space(*byte))
        .map(char::from)
        .collect()
}

/// The first byte of each word.
pub fn initials(text: &str) -> String {
    let mut after_space = true;
    text.bytes()
        .filter(|byte| {
            let is_first = after_space && !is_space(*byte);
            after_space = is_space(*byte);
            is_first
        })
        .map(char::from)
        .collect()
}

/// `unicode.IsSpace` of the character with this code.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ' | 0x85 | 0xa0)
}

/// A piece of a text, by bytes.
pub fn slice(text: &str, start: i64, end: i64) -> Result<&str, String> {
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match bounds {
        Some((start, end)) if start <= end && end <= text.len() => text
            .get(start..end)
            .ok_or_else(|| "the requested bytes of the text cut a character in two".to_owned()),
        _ => Err("slice bounds out of range of the text".to_owned()),
    }
}
