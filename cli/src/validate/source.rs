//! Lines and columns of a text.

use std::ops::Range;

use go_formats::yaml::place::Span;
use serde::Serialize;

/// Characters of a line that are kept around the offending text.
const KEPT: usize = 160;

/// A region of a file. Lines and columns start at 1; columns count characters. The end is that after the last character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Its first line.
    pub line: usize,
    /// The column of its first character.
    pub column: usize,
    /// Its last line.
    pub end_line: usize,
    /// The column after its last character.
    pub end_column: usize,
}

/// A line of a file, with the offending text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The line, or the part of it around the offending text.
    pub text: String,
    /// The offending text, in bytes of `text`.
    pub marked: Range<usize>,
    /// Whether something before `text` is left out.
    pub is_cut_before: bool,
    /// Whether something after `text` is left out.
    pub is_cut_after: bool,
}

/// A text, and where its lines start.
#[derive(Debug)]
pub struct Source {
    /// The name of the file.
    pub file: String,
    text: String,
    starts: Vec<usize>,
}

impl Source {
    pub fn new(file: String, text: String) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { file, text, starts }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a range.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Lines and columns of a range. A range outside of the text is at its end.
    pub fn region(&self, span: Span) -> Region {
        let (line, column) = self.position(span.start);
        let (end_line, end_column) = self.position(span.end.max(span.start));
        Region {
            line,
            column,
            end_line,
            end_column,
        }
    }

    /// Where a line starts, counted from 1; the end of the text for one that does not exist.
    pub fn line_start(&self, line: usize) -> usize {
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index));
        start.copied().unwrap_or(self.text.len())
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let at = self.boundary(at);
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self
            .starts
            .get(line.saturating_sub(1))
            .copied()
            .unwrap_or_default();
        let before = self.text.get(start..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// The offset, or the start of the character that it is in.
    fn boundary(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// The line in which a range starts, without its line break, as bytes of the text.
    pub fn line_of(&self, at: usize) -> Range<usize> {
        let at = self.boundary(at);
        let index = self.starts.partition_point(|start| *start <= at);
        let start = self
            .starts
            .get(index.saturating_sub(1))
            .copied()
            .unwrap_or_default();
        let end = self.starts.get(index).map_or(self.text.len(), |next| next - 1);
        let line = self.text.get(start..end).unwrap_or_default();
        start..start + line.trim_end_matches('\r').len()
    }

    /// The line in which a range starts, with the part of the range that is in this line.
    pub fn line(&self, span: Span) -> Line {
        let line = self.line_of(span.start);
        let start = self.boundary(span.start).clamp(line.start, line.end);
        let end = self.boundary(span.end).clamp(start, line.end);
        let text = self.text.get(line.clone()).unwrap_or_default();
        let (start, end) = (start - line.start, end - line.start);
        let from = back(text, start, KEPT);
        let to = forth(text, end.min(forth(text, start, KEPT)), KEPT);
        Line {
            text: text.get(from..to).unwrap_or_default().to_owned(),
            marked: start - from..end.min(to) - from,
            is_cut_before: from > 0,
            is_cut_after: to < text.len(),
        }
    }
}

/// The offset that is a number of characters before another one.
fn back(text: &str, at: usize, count: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before
        .char_indices()
        .rev()
        .take(count)
        .last()
        .map_or(at, |(at, _)| at)
}

/// The offset that is a number of characters after another one.
fn forth(text: &str, at: usize, count: usize) -> usize {
    let after = text.get(at..).unwrap_or_default();
    at + after.char_indices().nth(count).map_or(after.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(text: &str, start: usize, end: usize) -> (usize, usize, usize, usize) {
        let source = Source::new("a.yaml".to_owned(), text.to_owned());
        let region = source.region(Span { start, end });
        (region.line, region.column, region.end_line, region.end_column)
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(region("a: é: x\n", 0, 1), (1, 1, 1, 2));
        assert_eq!(region("a: éx\nb", 5, 6), (1, 5, 1, 6));
        assert_eq!(region("a\nbc\n", 3, 4), (2, 2, 2, 3));
        assert_eq!(region("a\nbc\n", 0, 4), (1, 1, 2, 3));
        assert_eq!(region("a\n", 2, 2), (2, 1, 2, 1));
        assert_eq!(region("a", 9, 20), (1, 2, 1, 2));
        assert_eq!(region("é", 1, 1), (1, 1, 1, 1), "in a character");
        assert_eq!(region("", 0, 0), (1, 1, 1, 1));
    }

    #[test]
    fn long_lines_are_cut_around_the_offending_text() {
        let text = format!("{}HERE{}\r\nnext", "ü".repeat(500), "b".repeat(500));
        let source = Source::new("a.yaml".to_owned(), text);
        let line = source.line(Span {
            start: 1000,
            end: 1004,
        });
        assert_eq!(&line.text[line.marked.clone()], "HERE");
        assert!(line.is_cut_before && line.is_cut_after);
        assert_eq!(line.text.chars().count(), 324);
        let whole = source.line(Span {
            start: 1000,
            end: 1600,
        });
        assert_eq!(whole.text[whole.marked.clone()].len(), 4 + 316);
        let last = source.line(Span {
            start: 1507,
            end: 1507,
        });
        assert_eq!((last.text.as_str(), last.marked), ("next", 1..1));
    }
}
