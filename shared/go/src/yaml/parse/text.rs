//! The text of a scalar while it is read.

use std::{borrow::Cow, ops::Range};

/// A piece of the source as long as that is possible, so that most scalars are not copied.
#[derive(Debug)]
pub struct Text<'t> {
    source: &'t str,
    range: Range<usize>,
    owned: Option<String>,
}

impl<'t> Text<'t> {
    pub const fn new(source: &'t str) -> Self {
        Self {
            source,
            range: 0..0,
            owned: None,
        }
    }

    /// Adds a piece of the source.
    pub fn push_range(&mut self, range: Range<usize>) {
        if self.owned.is_none() && (self.range.is_empty() || self.range.end == range.start) {
            if self.range.is_empty() {
                self.range.start = range.start;
            }
            self.range.end = range.end;
        } else {
            let source = self.source;
            self.push(source.get(range).unwrap_or_default());
        }
    }

    /// Adds another text.
    pub fn push(&mut self, text: &str) {
        if !text.is_empty() {
            self.owned().push_str(text);
        }
    }

    fn owned(&mut self) -> &mut String {
        let (source, range) = (self.source, self.range.clone());
        self.owned
            .get_or_insert_with(|| source.get(range).unwrap_or_default().to_owned())
    }

    pub fn finish(self) -> Cow<'t, str> {
        match self.owned {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(self.source.get(self.range).unwrap_or_default()),
        }
    }
}

/// White space that may be folded: what is between two words of a scalar.
#[derive(Debug, Default)]
pub struct Gap<'t> {
    /// Spaces and tabs, if there is no line break.
    blanks: Range<usize>,
    first_break: &'t str,
    more_breaks: String,
    has_break: bool,
}

impl<'t> Gap<'t> {
    pub const fn has_break(&self) -> bool {
        self.has_break
    }

    /// A line break whose own text is left out.
    pub const fn escaped_break(&mut self) {
        self.has_break = true;
    }

    /// Adds a space or a tab at a position.
    pub fn blank(&mut self, at: usize) {
        if self.has_break {
            return;
        }
        if self.blanks.is_empty() {
            self.blanks = at..at;
        }
        self.blanks.end = at + 1;
    }

    pub fn line_break(&mut self, text: &'t str) {
        if self.has_break {
            self.more_breaks.push_str(text);
        } else {
            self.blanks = 0..0;
            self.first_break = text;
            self.has_break = true;
        }
    }

    /// Adds it to a text, with a single line break as a space. Then it is empty.
    pub fn fold_into(&mut self, text: &mut Text<'t>) {
        let gap = std::mem::take(self);
        if !gap.has_break {
            if !gap.blanks.is_empty() {
                text.push_range(gap.blanks);
            }
        } else if gap.first_break.starts_with('\n') {
            text.push(if gap.more_breaks.is_empty() {
                " "
            } else {
                &gap.more_breaks
            });
        } else {
            text.push(gap.first_break);
            text.push(&gap.more_breaks);
        }
    }
}
