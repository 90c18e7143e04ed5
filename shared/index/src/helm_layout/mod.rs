//! The fast reader of YAML in the layout that Helm writes.
//!
//! It processes the lines with a stack of indentations. It supports, and verifies: block mappings and sequences, keys on one
//! line, scalars that are plain, quoted or in blocks, `[]` and `{}`. It stops at anything else: anchors and aliases, tags,
//! flow collections, `? ` keys, directives, several documents, tabs and other control characters, comments after a value,
//! inconsistent indentation. It also stops if a relevant text cannot be copied verbatim. So it never has to interpret YAML in
//! ambiguous cases, and does not report errors in the document.

mod lines;
mod scanner;
mod token;

use std::io::Read;

use memchr::memchr_iter;

use super::FastReadError;
use super::collect::Collector;
use super::source::Source;
use lines::Lines;
use scanner::Scanner;

/// Reads the document to its end, or stops at something unsupported.
pub(super) fn read<R: Read>(
    source: &mut Source<R>,
    collector: &mut Collector<'_>,
) -> Result<(), FastReadError> {
    let mut lines = Lines::new(source);
    let mut scanner = Scanner::new(collector);
    while let Some(block) = lines.next()? {
        let mut start = 0;
        for end in memchr_iter(b'\n', block) {
            let line = block.get(start..end);
            line.and_then(|line| scanner.line(line))
                .ok_or(FastReadError::Unsupported)?;
            start = end + 1;
        }
        // Only the last line of the document can be without a line break.
        if let Some(line @ [_, ..]) = block.get(start..) {
            scanner.line(line).ok_or(FastReadError::Unsupported)?;
        }
    }
    scanner.end().ok_or(FastReadError::Unsupported)
}
