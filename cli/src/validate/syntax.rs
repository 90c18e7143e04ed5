//! Syntax errors: where they are, and how to fix them.

use gotmpl::yaml::{LocatedError, ReadError, place::Span};

use super::source::Source;

/// A syntax error.
#[derive(Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub fix: String,
    /// Where it is.
    pub span: Span,
}

/// Describes the error of a document that starts at `offset` of the source.
pub fn describe(source: &Source, offset: usize, error: &LocatedError) -> SyntaxError {
    let at = error.at + offset;
    let message = match &error.error {
        ReadError::Invalid { message, .. } => format!("not valid YAML: {message}"),
        error @ (ReadError::TooManyNodes { .. } | ReadError::TooManyBytes { .. }) => {
            format!("the document is too large: {error}")
        }
    };
    let line = source.line_of(at);
    if let Some(tab) = tab_in_indentation(source, line.start, line.end) {
        return SyntaxError {
            message: "a tab in the indentation; YAML allows only spaces".to_owned(),
            fix: "replace the tab with spaces".to_owned(),
            span: tab,
        };
    }
    let end = if at < line.end { at + 1 } else { at };
    SyntaxError {
        fix: fix(
            &message,
            source.slice(Span {
                start: line.start,
                end: line.end,
            }),
        )
        .to_owned(),
        message,
        span: Span { start: at, end },
    }
}

/// The tabs before the first other character of a line.
fn tab_in_indentation(source: &Source, start: usize, end: usize) -> Option<Span> {
    let line = source.slice(Span { start, end });
    let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
    let first = line.get(..indentation)?.find('\t')?;
    Some(Span {
        start: start + first,
        end: start + indentation,
    })
}

fn fix(message: &str, line: &str) -> &'static str {
    let has = |text: &str| message.contains(text);
    if line.contains("{{") {
        "this looks like a template of a Helm chart; validate what it renders: helm template … | kubectl helmop validate -f -"
    } else if has("quoted scalar") || has("unexpected end of stream") {
        "close the quotes"
    } else if has("mapping values are not allowed") {
        "put a text that contains \": \" in quotes, or align the key with those above it"
    } else if has("block mapping") || has("simple key") || has("expected <block end>") || has("indentation") {
        "align the key with the others of its mapping, with spaces, and end each key with a colon"
    } else if has("block sequence") || has("block collection") {
        "align the - of each item of a list"
    } else if has("flow") || has("bracket") {
        "close each [ and {, and separate items with commas"
    } else if has("alias") || has("anchor") {
        "define the anchor (&name) in this document, before it is used"
    } else if has("escape") {
        "use single quotes, in which a backslash has no meaning"
    } else if has("cannot start any token") || has("unexpected character") || has("reserved") {
        "put a text that starts with this character in quotes"
    } else if has("cannot be a key") {
        "put the key in quotes"
    } else {
        ""
    }
}
