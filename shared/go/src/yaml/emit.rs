//! The emitter.

use std::cmp::Ordering;

use bounded_text::is_control;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    order::compare,
    resolve::{Resolved, resolve},
    scalar::{Readers, Style, escape, is_break, is_printable, style},
};
use crate::{json, number};

/// The column after which a text continues on the next line, at a space.
const WIDTH: usize = 80;
/// The maximum length in bytes of a key on the same line as its value.
const MAX_KEY: usize = 128;
const INDENT: usize = 2;
/// Maximum bytes of values that [`emit`] writes.
pub const MAX_TEXT: usize = 2 << 20;
/// Maximum bytes of an object. The API server accepts 3 MiB of JSON.
pub const MAX_OBJECT: usize = 32 << 20;

/// The values would be too long as YAML.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the values would have more than {limit} bytes as YAML; make them shorter or flatter")]
pub struct TooLong {
    /// The maximum.
    limit: usize,
}

/// Emits values as YAML. It is recursive; values that `serde_json` has decoded are never too deep for it.
///
/// # Errors
/// If the text would have more than 2 MiB: indentation can make it much longer than the values.
pub fn emit(values: &Map<String, Value>) -> Result<String, TooLong> {
    let mut emitter = Emitter::new(Readers::Go, None);
    emitter.object(values);
    emitter.finish()
}

/// Emits an object or a list of them: integers have all their digits, so that [`read_exact`](super::read_exact) reads them again, and what readers for other
/// languages would take for something else is quoted. No character of it controls a terminal: those are escaped.
///
/// # Errors
/// If the text would have more than 32 MiB.
pub fn emit_exact(value: &Value) -> Result<String, TooLong> {
    Emitter::new(Readers::All, None).emitted(value)
}

/// A string or key, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedText {
    /// The path, such as `image.tags[0]`.
    pub path: String,
    /// The string or key itself.
    pub text: String,
}

/// The string or key at an offset in the output of [`emit`], in bytes: for an error about the output.
pub fn text_at(values: &Map<String, Value>, offset: usize) -> Option<LocatedText> {
    let mut emitter = Emitter::new(Readers::Go, Some(offset));
    emitter.object(values);
    emitter.found
}

struct Emitter {
    out: String,
    column: usize,
    /// Whether the last character is white space, so no separator is needed.
    is_after_space: bool,
    /// Whether the line contains only indentation and `-` so far.
    is_in_indentation: bool,
    /// For those of other programs integers keep all digits.
    readers: Readers,
    /// The offset whose path is searched for.
    offset: Option<usize>,
    path: Vec<String>,
    found: Option<LocatedText>,
}

impl Emitter {
    const fn new(readers: Readers, offset: Option<usize>) -> Self {
        Self {
            out: String::new(),
            column: 0,
            is_after_space: true,
            is_in_indentation: true,
            readers,
            offset,
            path: Vec::new(),
            found: None,
        }
    }

    fn emitted(mut self, value: &Value) -> Result<String, TooLong> {
        match value {
            Value::Object(entries) => self.object(entries),
            Value::Array(items) if !items.is_empty() => {
                self.list(items, 0);
                self.indentation(0);
            }
            other => {
                self.value(other, 0, false);
                self.indentation(0);
            }
        }
        self.finish()
    }

    fn finish(self) -> Result<String, TooLong> {
        if self.is_too_long() {
            return Err(TooLong { limit: self.limit() });
        }
        Ok(self.out)
    }

    fn object(&mut self, values: &Map<String, Value>) {
        if values.is_empty() {
            self.indicator("{}", true, false, false);
        } else {
            self.mapping(values, 0);
        }
        self.indentation(0);
    }

    const fn is_too_long(&self) -> bool {
        self.out.len() > self.limit()
    }

    const fn limit(&self) -> usize {
        match self.readers {
            Readers::Go => MAX_TEXT,
            Readers::All => MAX_OBJECT,
        }
    }

    fn enter(&mut self, step: impl FnOnce() -> String) {
        if self.offset.is_some() {
            self.path.push(step());
        }
    }

    fn mapping(&mut self, entries: &Map<String, Value>, indent: usize) {
        for (key, value) in sorted(entries.iter().collect()) {
            if self.is_too_long() {
                return;
            }
            let is_first = self.path.is_empty();
            self.enter(|| if is_first { key.clone() } else { format!(".{key}") });
            self.indentation(indent);
            if key.contains('\n') || key.contains(is_break) || key.len() > MAX_KEY {
                self.indicator("?", true, false, true);
                self.text(key, indent, false);
                self.indentation(indent);
                self.indicator(":", true, false, true);
            } else {
                self.text(key, indent, true);
                self.indicator(":", false, false, false);
            }
            self.value(value, indent, true);
            self.path.pop();
        }
    }

    fn value(&mut self, value: &Value, indent: usize, is_in_mapping: bool) {
        match value {
            Value::Null => self.plain("null"),
            Value::Bool(value) => self.plain(if *value { "true" } else { "false" }),
            Value::Number(value) if self.readers == Readers::All && !value.is_f64() => {
                self.plain(&value.to_string());
            }
            Value::Number(value) => {
                let text = number_text(value.as_f64().unwrap_or_default());
                // Readers for Python need a point in a number with an exponent.
                match text.split_once('e') {
                    Some((mantissa, exponent)) if self.readers == Readers::All && !mantissa.contains('.') => {
                        self.plain(&format!("{mantissa}.0e{exponent}"));
                    }
                    _ => self.plain(&text),
                }
            }
            Value::String(text) => self.text(text, indent, false),
            Value::Array(items) if items.is_empty() => self.indicator("[]", true, false, false),
            Value::Object(entries) if entries.is_empty() => self.indicator("{}", true, false, false),
            Value::Array(items) => {
                // A list in a mapping is not indented, unless it starts on the line of a complex key's colon.
                let is_flush = is_in_mapping && !self.is_in_indentation;
                self.list(items, if is_flush { indent } else { indent + INDENT });
            }
            Value::Object(entries) => self.mapping(entries, indent + INDENT),
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if self.is_too_long() {
                return;
            }
            self.enter(|| format!("[{index}]"));
            self.indentation(indent);
            self.indicator("-", true, false, true);
            self.value(item, indent, false);
            self.path.pop();
        }
    }

    /// Starts a line with its indentation, unless the current position is the start of that line.
    fn indentation(&mut self, indent: usize) {
        if !self.is_in_indentation || self.column > indent || (self.column == indent && !self.is_after_space)
        {
            self.new_line();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.is_after_space = true;
        self.is_in_indentation = true;
    }

    fn indicator(&mut self, text: &str, needs_space: bool, is_space: bool, keeps_indentation: bool) {
        if needs_space && !self.is_after_space {
            self.put(' ');
        }
        self.out.push_str(text);
        self.column += text.len();
        self.is_after_space = is_space;
        self.is_in_indentation &= keeps_indentation;
    }

    fn plain(&mut self, text: &str) {
        if !self.is_after_space {
            self.put(' ');
        }
        self.out.push_str(text);
        self.column += text.len();
        self.is_after_space = false;
        self.is_in_indentation = false;
    }

    fn text(&mut self, text: &str, indent: usize, is_key: bool) {
        let start = self.out.len();
        // The content of a mapping or list is indented below its key or dash.
        let indent = indent + INDENT;
        match style(text, is_key, self.readers) {
            Style::Plain => {
                if !self.is_after_space {
                    self.put(' ');
                }
                self.words(text, indent, is_key, Self::put);
            }
            Style::Single => {
                self.indicator("'", true, false, false);
                self.words(text, indent, is_key, |emitter, c| {
                    if c == '\'' {
                        emitter.put('\'');
                    }
                    emitter.put(c);
                });
                self.indicator("'", false, false, false);
            }
            Style::Double => self.double(text, indent, is_key),
            Style::Literal => self.literal(text, indent),
        }
        self.is_after_space = self.column == 0;
        self.is_in_indentation = self.column == 0;
        let is_match = self
            .offset
            .is_some_and(|offset| (start..self.out.len()).contains(&offset));
        if is_match {
            self.found = Some(LocatedText {
                path: self.path.concat(),
                text: text.to_owned(),
            });
        }
    }

    /// Writes words, and breaks a long line at a space between them.
    fn words(&mut self, text: &str, indent: usize, is_key: bool, mut write: impl FnMut(&mut Self, char)) {
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            let can_break = !is_key && c == ' ' && !after_space && self.column > WIDTH && index > 0;
            if can_break && next.is_some_and(|next| next != ' ') {
                self.is_in_indentation = false;
                self.indentation(indent);
            } else {
                self.is_in_indentation = false;
                write(self, c);
            }
            after_space = c == ' ';
        }
    }

    fn double(&mut self, text: &str, indent: usize, is_key: bool) {
        self.indicator("\"", true, false, false);
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            let can_break = !is_key && c == ' ' && !after_space && self.column > WIDTH && index > 0;
            match next {
                Some(next) if can_break => {
                    self.is_in_indentation = false;
                    self.indentation(indent);
                    if next == ' ' {
                        self.put('\\');
                    }
                }
                _ if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') => self.escape(c),
                _ if self.readers == Readers::All && is_control(c) => self.escape(c),
                _ => self.put(c),
            }
            after_space = c == ' ';
        }
        self.indicator("\"", false, false, false);
    }

    fn escape(&mut self, c: char) {
        let escape = escape(c);
        self.column += escape.len();
        self.out.push_str(&escape);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false, false);
        if text.starts_with(' ') || text.starts_with(is_break) {
            self.put('2');
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next()) {
            (false, _) => self.put('-'),
            (true, Some(previous)) if !is_break(previous) => {}
            (true, _) => self.put('+'),
        }
        self.new_line();
        self.is_in_indentation = true;
        self.is_after_space = true;
        let mut at_line_start = true;
        for c in text.chars() {
            if is_break(c) {
                self.out.push(c);
                self.column = 0;
                self.is_in_indentation = true;
                at_line_start = true;
                continue;
            }
            if std::mem::take(&mut at_line_start) {
                self.indentation(indent);
            }
            self.put(c);
            self.is_in_indentation = false;
        }
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }
}

/// The entries, sorted by key.
///
/// This is a merge sort, because `sort` may panic if the order is not total, and this one is not for some numbers.
fn sorted<'v>(mut entries: Vec<(&'v String, &'v Value)>) -> Vec<(&'v String, &'v Value)> {
    if entries.len() < 2 {
        return entries;
    }
    let right = sorted(entries.split_off(entries.len() / 2));
    let left = sorted(entries);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        if compare(other.0, one.0) == Ordering::Less {
            merged.extend(right.next());
        } else {
            merged.extend(left.next());
        }
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

/// A number as it is emitted after a round trip through JSON.
fn number_text(value: f64) -> String {
    let text = json::number(value);
    match resolve(&text) {
        Resolved::Int(number) => number.to_string(),
        Resolved::Unsigned(number) => number.to_string(),
        Resolved::Float(number) => number::print_float(number),
        Resolved::Null | Resolved::Bool(_) | Resolved::Timestamp | Resolved::Text => text,
    }
}
