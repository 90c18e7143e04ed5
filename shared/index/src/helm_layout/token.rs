//! The tokens on a line of Helm's layout. `None` means that only the general reader supports it.

use memchr::{memchr, memchr_iter, memchr2, memchr2_iter};

/// The longest key, in bytes. YAML allows 1024 characters; Helm writes keys longer than 128 in another form.
const MAX_KEY: usize = 256;

/// What the rest of a line starts with.
pub(super) enum Token<'l> {
    /// A key, and the text after its colon.
    Pair(Text<'l>, &'l [u8]),
    /// A scalar without a key.
    Scalar,
}

/// A text as it is written.
#[derive(Clone, Copy)]
pub(super) struct Text<'l> {
    written: &'l [u8],
    /// Whether it contains escape sequences.
    has_escapes: bool,
}

impl<'l> Text<'l> {
    /// The text, if it has no escape sequences.
    pub(super) fn verbatim(self) -> Option<&'l str> {
        if self.has_escapes {
            return None;
        }
        std::str::from_utf8(self.written).ok()
    }
}

/// The text after an opening quote.
pub(super) enum Quoted<'l> {
    /// A text that ends on its line, and the rest of the line.
    Terminated(Text<'l>, &'l [u8]),
    /// A text that continues on the next line.
    Unterminated,
}

/// How many spaces the line starts with.
#[inline]
pub(super) fn indent(line: &[u8]) -> usize {
    const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
    let mut count = 0;
    let mut rest = line;
    // Eight at a time, since this runs for every line.
    while let Some((eight, more)) = rest.split_first_chunk::<8>() {
        let others = u64::from_le_bytes(*eight) ^ SPACES;
        if others != 0 {
            return count + others.trailing_zeros() as usize / 8;
        }
        count += 8;
        rest = more;
    }
    count + rest.iter().take_while(|b| **b == b' ').count()
}

/// Whether this starts with a dash.
pub(super) fn is_item(text: &[u8]) -> bool {
    matches!(text, [b'-', b' ', ..])
}

pub(super) fn is_blank(text: &[u8]) -> bool {
    indent(text) == text.len()
}

/// The key at the start of the text and the text after its colon, if the key has no quotes and spaces.
#[inline]
pub(super) fn simple_key(text: &[u8]) -> Option<(Text<'_>, &[u8])> {
    if !starts_simple_key(*text.first()?) {
        return None;
    }
    match text.split_at_checked(find(text, b": #")?)? {
        (written, [b':', value @ ..]) if written.len() <= MAX_KEY && separates(value) => {
            let has_escapes = false;
            Some((Text { written, has_escapes }, value))
        }
        _ => None,
    }
}

/// Finds the key at the start of the text that [`simple_key`] does not support.
pub(super) fn split(text: &[u8]) -> Option<Token<'_>> {
    if let quote @ (b'"' | b'\'') = text.first()? {
        return match quoted(text.get(1..)?, *quote)? {
            Quoted::Terminated(text, [b':', value @ ..]) => pair(text, value),
            Quoted::Terminated(..) | Quoted::Unterminated => Some(Token::Scalar),
        };
    }
    if !starts_plain(text) {
        return Some(Token::Scalar);
    }
    let Some(at) = memchr_iter(b':', text).find(|at| text.get(at + 1..).is_none_or(separates)) else {
        return Some(Token::Scalar);
    };
    let (written, value) = (text.get(..at)?, text.get(at + 1..)?);
    let has_escapes = false;
    // `<<` merges; after the start of a comment there is no key.
    let is_key = written != b"<<" && is_plain_text(written) && !written.ends_with(b" ");
    is_key.then_some(())?;
    pair(Text { written, has_escapes }, value)
}

fn pair<'l>(key: Text<'l>, value: &'l [u8]) -> Option<Token<'l>> {
    (separates(value) && key.written.len() <= MAX_KEY).then_some(Token::Pair(key, value))
}

/// Whether a colon before this text ends a key.
fn separates(following: &[u8]) -> bool {
    matches!(following, [] | [b' ', ..])
}

fn starts_simple_key(first: u8) -> bool {
    first.is_ascii_alphanumeric() || matches!(first, b'_' | b'.' | b'/')
}

/// Whether a plain scalar can start like this, outside flow collections.
#[inline]
pub(super) fn starts_plain(text: &[u8]) -> bool {
    match text {
        [first, ..] if starts_simple_key(*first) => true,
        [b'-' | b'?' | b':', next, ..] => *next != b' ',
        [
            b'-' | b'?' | b':' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>'
            | b'\'' | b'"' | b'%' | b'@' | b'`' | b' ',
            ..,
        ]
        | [] => false,
        _ => true,
    }
}

/// Whether this contains text only: neither a key nor a comment.
#[inline]
pub(super) fn is_plain_text(text: &[u8]) -> bool {
    find(text, b":#").is_none() || is_plain_text_with_indicators(text)
}

fn is_plain_text_with_indicators(text: &[u8]) -> bool {
    memchr2_iter(b':', b'#', text).all(|at| match text.get(at) {
        Some(b':') => !text.get(at + 1..).is_none_or(separates),
        _ => at > 0 && text.get(at - 1) != Some(&b' '),
    })
}

/// The position of the first of some bytes. Most texts are too short for a vector search to pay off.
#[inline]
fn find<const N: usize>(text: &[u8], bytes: &[u8; N]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let (eights, rest) = text.as_chunks::<8>();
    for (count, eight) in eights.iter().enumerate() {
        let found = bytes.iter().fold(0, |found, byte| {
            // Zero at each occurrence of the byte. The borrow affects only bytes after the first occurrence.
            let others = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([*byte; 8]);
            found | (others.wrapping_sub(ONES) & !others & HIGHS)
        });
        if found != 0 {
            return Some(count * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| bytes.contains(byte))?;
    Some(eights.len() * 8 + at)
}

/// Parses the text after an opening quote.
#[inline]
pub(super) fn quoted(text: &[u8], quote: u8) -> Option<Quoted<'_>> {
    let mut at = 0;
    let mut has_escapes = false;
    loop {
        let rest = text.get(at..)?;
        let next = match quote {
            b'"' => memchr2(b'"', b'\\', rest),
            _ => memchr(quote, rest),
        };
        let Some(next) = next else {
            return Some(Quoted::Unterminated);
        };
        at += next;
        let length = match text.get(at..)? {
            [b'\\', escape @ ..] => 1 + escape_length(escape)?,
            [b'\'', b'\'', ..] => 2,
            _ => {
                let (written, rest) = (text.get(..at)?, text.get(at + 1..)?);
                let text = Text { written, has_escapes };
                return Some(Quoted::Terminated(text, rest));
            }
        };
        has_escapes = true;
        at += length;
    }
}

/// Length of an escape sequence, without its backslash.
fn escape_length(escape: &[u8]) -> Option<usize> {
    let digits = match escape.first()? {
        b'0' | b'a' | b'b' | b't' | b'n' | b'v' | b'f' | b'r' | b'e' | b' ' | b'"' | b'/' | b'\\' | b'N'
        | b'_' | b'L' | b'P' => return Some(1),
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let digits = escape.get(1..=digits)?;
    let code = digits.iter().try_fold(0_u32, |code, digit| {
        Some(code << 4 | char::from(*digit).to_digit(16)?)
    })?;
    // Surrogates are not characters.
    char::from_u32(code)?;
    Some(1 + digits.len())
}

/// A block scalar.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// The column of its text, if known.
    indent: Option<usize>,
    /// The length of the longest of its leading blank lines.
    widest: usize,
}

impl Block {
    /// Parses the header; `parent` is the column of the key or dash.
    pub(super) fn parse(header: &[u8], parent: usize) -> Option<Self> {
        let (digit, rest) = match header.get(1..)? {
            [digit @ b'1'..=b'9', b'+' | b'-', rest @ ..]
            | [b'+' | b'-', digit @ b'1'..=b'9', rest @ ..]
            | [digit @ b'1'..=b'9', rest @ ..] => (Some(digit - b'0'), rest),
            [b'+' | b'-', rest @ ..] | rest => (None, rest),
        };
        let indent = digit.map(|digit| parent + usize::from(digit));
        is_blank(rest).then_some(Self { indent, widest: 0 })
    }

    /// Adds a line; returns whether it is part of the block.
    pub(super) fn add_line(&mut self, indent: usize, text: &[u8], parent: usize) -> Option<bool> {
        if text.is_empty() {
            self.widest = self.widest.max(indent);
            return Some(true);
        }
        let column = self.indent.unwrap_or(indent.max(self.widest).max(parent + 1));
        if indent >= column {
            self.indent = Some(column);
            return Some(true);
        }
        // An indentation in between is invalid.
        (indent <= parent).then_some(false)
    }
}
