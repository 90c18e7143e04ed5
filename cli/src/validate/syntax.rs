//! Syntax errors: where they are, and how to fix them.

use go_formats::yaml::{LocatedError, ReadError, place::Span};

use serde::de::IgnoredAny;

use super::source::Source;

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
    described(source, of_json(source, offset, at).unwrap_or((at, message)))
}

/// The error of a document that is JSON up to an offset of the source, and followed by something that is not.
pub fn after_json(source: &Source, offset: usize, at: usize) -> Option<SyntaxError> {
    of_json(source, offset, at).map(|error| described(source, error))
}

fn described(source: &Source, (at, message): (usize, String)) -> SyntaxError {
    let line = source.line_of(at);
    if let Some(tab) = tab_in_indentation(source, line.start, line.end) {
        return SyntaxError {
            message: "a tab in the indentation; YAML allows only spaces".to_owned(),
            fix: "replace the tab with spaces".to_owned(),
            span: tab,
        };
    }
    let text = source.slice(Span {
        start: line.start,
        end: line.end,
    });
    let before = text.get(..at.saturating_sub(line.start)).unwrap_or(text);
    // A character, or nothing at the end of the line.
    let marked = text.get(before.len()..).and_then(|rest| rest.chars().next());
    let end = at + marked.map_or(0, char::len_utf8);
    SyntaxError {
        fix: fix(&message, text, before).to_owned(),
        message,
        span: Span { start: at, end },
    }
}

/// Where a text in JSON is invalid, and why. Flow style of YAML looks like it, so only a file that ends in `.json`, or an error that JSON
/// does not have earlier, is one of JSON.
fn of_json(source: &Source, offset: usize, at: usize) -> Option<(usize, String)> {
    let text = source.text().get(offset..)?;
    let is_file = source.file.to_ascii_lowercase().ends_with(".json");
    if !is_file && !text.trim_start().strip_prefix('{')?.trim_start().starts_with('"') {
        return None;
    }
    let error = serde_json::Deserializer::from_str(text)
        .into_iter::<IgnoredAny>()
        .find_map(Result::err)?;
    let start = source.line_start(
        source
            .region(Span {
                start: offset,
                end: offset,
            })
            .line
            + error.line().checked_sub(1)?,
    );
    // The column is that of a byte, and relative to the text only in its first line.
    let before = if error.line() == 1 { offset } else { start };
    let found = (before + error.column().saturating_sub(1)).min(source.text().len());
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&position).unwrap_or(&message);
    (is_file || found >= at).then(|| (found, format!("not valid JSON: {message}")))
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

/// What to do, with the line, and what is in it before the position.
fn fix(message: &str, line: &str, before: &str) -> &'static str {
    let has = |text: &str| message.contains(text);
    let is_after = |quote: char| has("did not find expected") && before.trim_end().ends_with(quote);
    if line.contains("{{") {
        "this looks like a template of a Helm chart; validate what it renders: helm template … | kubectl helmop validate -f -"
    } else if has("escape") {
        "write \\\\ for a backslash, or use single quotes, in which a backslash has no meaning"
    } else if is_after('\'') {
        "write '' for a ' in single quotes, or put the whole value in double quotes"
    } else if is_after('"') {
        "write \\\" for a \" in double quotes, or put the whole value in single quotes"
    } else if has("quoted scalar") {
        "close the quotes"
    } else if has("mapping values are not allowed") {
        "put a text that contains \": \" in quotes, or align the key with those above it"
    } else if has("block mapping") || has("simple key") || has("indentation") {
        "align the key with the others of its mapping, with spaces, and end each key with a colon"
    } else if has("block collection") || has("block sequence") {
        "align the - of each item of a list"
    } else if has("flow") {
        "close each [ and {, and separate items with commas"
    } else if has("alias") || has("anchor") {
        "define the anchor (&name) in this document, before it is used"
    } else if has("not valid JSON") {
        ""
    } else if has("cannot start any token") {
        "put a text that starts with this character in quotes"
    } else if has("control character") {
        "remove the character, or write its escape, such as \\u0000, in double quotes"
    } else if has("document start") {
        "write --- in a line of its own before the next document"
    } else if has("%YAML directive") || has("YAML document") {
        "remove the line that starts with %"
    } else if has("cannot be a key") {
        "put the key in quotes"
    } else {
        ""
    }
}
