//! The quick reader of YAML as Helm writes it.
//!
//! It goes through the lines with a stack of indentations. What it takes for granted, it checks: block mappings and
//! sequences, keys on one line, scalars plain, quoted or in blocks, `[]` and `{}`. At anything else it gives up: anchors
//! and aliases, tags, flow collections, `? ` keys, directives, several documents, tabs and other control characters,
//! comments behind a value, indentation that fits nowhere. It also gives up where a text that matters needs more than to
//! be copied. So it never decides what YAML means in a doubtful case, and need not tell what is wrong with a document.

mod lines;
mod scanner;
mod token;

use std::io::Read;

use memchr::memchr_iter;

use super::Stop;
use super::collect::Collector;
use super::source::Source;
use lines::Lines;
use scanner::Scanner;

/// Reads the document to its end, or gives up.
pub(super) fn read<R: Read>(source: &mut Source<R>, collector: &mut Collector<'_>) -> Result<(), Stop> {
    let mut lines = Lines::new(source);
    let mut scanner = Scanner::new(collector);
    while let Some(piece) = lines.next()? {
        let mut start = 0;
        for end in memchr_iter(b'\n', piece) {
            let line = piece.get(start..end);
            line.and_then(|line| scanner.line(line)).ok_or(Stop::Odd)?;
            start = end + 1;
        }
        // Only the last line of the document can be without a line break.
        if let Some(line @ [_, ..]) = piece.get(start..) {
            scanner.line(line).ok_or(Stop::Odd)?;
        }
    }
    scanner.end().ok_or(Stop::Odd)
}
