//! Hyphen ranges: `1.2 - 1.4` becomes `>= 1.2, <= 1.4 ` in the text, before anything else is parsed.
//!
//! Masterminds replaces text, with effects that a grammar would not have: blanks around a range are lost, so
//! `3 1 - 2` fails where `3, 1 - 2` does not; `1 - 2>3` needs no separator; a range may consume a `||`.

use std::borrow::Cow;
use std::iter::repeat_n;

use super::grammar::{is_numeral, skip_blanks};
use crate::version::scan;

/// A text with its ranges replaced, and a map back to the original text.
pub(super) struct Rewritten<'a> {
    original: &'a str,
    text: Cow<'a, str>,
    /// One per byte of `text`; empty until something is replaced.
    origins: Vec<Origin>,
}

/// The origin of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Offset in the original text; for an inserted byte, that of the byte it was inserted before.
    pub(super) at: usize,
    /// Whether the byte was inserted for a range.
    pub(super) inserted: bool,
}

/// A range in the text: its versions and where they start in `whole`.
struct Range<'a> {
    whole: &'a str,
    from: &'a str,
    from_at: usize,
    to: &'a str,
    to_at: usize,
}

pub(super) fn rewrite(original: &str) -> Rewritten<'_> {
    let mut rewritten = Rewritten {
        original,
        text: Cow::Borrowed(original),
        origins: Vec::new(),
    };
    let mut rest = original;
    while let Some((range, after)) = next_range(rest) {
        rewritten.replace(&range);
        rest = after;
    }
    rewritten
}

impl Rewritten<'_> {
    pub(super) fn original(&self) -> &str {
        self.original
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The origin of byte `at` of the text.
    pub(super) fn origin(&self, at: usize) -> Origin {
        if matches!(self.text, Cow::Borrowed(_)) {
            return Origin { at, inserted: false };
        }
        self.origins.get(at).copied().unwrap_or(Origin {
            at: self.original.len(),
            inserted: false,
        })
    }

    /// Replaces the first occurrence of the text of `range`. In texts such as `0 - 1 - 2, 1 - 2` that may be another
    /// occurrence than the one that was found; Masterminds does the same.
    fn replace(&mut self, range: &Range<'_>) {
        let Some(start) = self.text.find(range.whole) else {
            return;
        };
        let end = start + range.whole.len();
        let copied = |at: usize, text: &str| (start + at..start + at + text.len()).map(|at| self.origin(at));
        let inserted = |at: usize, text: &str| {
            repeat_n(
                Origin {
                    inserted: true,
                    ..self.origin(start + at)
                },
                text.len(),
            )
        };
        let origins: Vec<Origin> = (0..start)
            .map(|at| self.origin(at))
            .chain(inserted(range.from_at, ">= "))
            .chain(copied(range.from_at, range.from))
            .chain(inserted(range.from_at + range.from.len(), ", <= "))
            .chain(copied(range.to_at, range.to))
            .chain(inserted(range.to_at + range.to.len(), " "))
            .chain((end..self.text.len()).map(|at| self.origin(at)))
            .collect();
        self.origins = origins;
        self.text
            .to_mut()
            .replace_range(start..end, &format!(">= {}, <= {} ", range.from, range.to));
    }
}

/// The first range in `text` and what follows it.
fn next_range(text: &str) -> Option<(Range<'_>, &str)> {
    // Most constraints have no hyphen; a text has at most some hundred bytes, so trying each position is cheap.
    if !text.contains('-') {
        return None;
    }
    text.char_indices()
        .find_map(|(at, _)| text.get(at..).and_then(range_at_start))
}

fn range_at_start(text: &str) -> Option<(Range<'_>, &str)> {
    let left = skip_blanks(text);
    let (from, rest) = scan::version(left, is_numeral)?;
    let right = some_blanks(some_blanks(rest)?.strip_prefix('-')?)?;
    let (to, rest) = scan::version(right, is_numeral)?;
    let rest = skip_blanks(rest);
    let offset = |part: &str| text.len() - part.len();
    let whole = text.get(..offset(rest))?;
    let range = Range {
        whole,
        from: from.whole,
        from_at: offset(left),
        to: to.whole,
        to_at: offset(right),
    };
    Some((range, rest))
}

/// `text` without its leading blanks; `None` if there are none.
fn some_blanks(text: &str) -> Option<&str> {
    Some(skip_blanks(text)).filter(|rest| rest.len() < text.len())
}
