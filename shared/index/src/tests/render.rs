//! Writes values as YAML: in Helm's layout, or with given deviations from it.

use std::fmt::Write as _;

use super::super::scalar::{Scalar, ScalarType};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

pub(super) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

/// The column at which Helm folds lines.
const WIDTH: usize = 80;

/// Writes a document. `deviations` has the deviation from Helm's layout for each point where one is possible: 0, or no
/// element, is Helm's layout.
pub(super) fn yaml(document: &Value, deviations: &[u8]) -> String {
    let mut writer = Writer {
        deviations: deviations.iter().copied().collect(),
        out: String::new(),
    };
    match writer.deviation(12) {
        1 => writer.out.push_str("---\n"),
        2 => writer.out.push('\u{feff}'),
        3 => writer.out.push_str("# made by a test\n\n"),
        _ => {}
    }
    match document {
        Value::Map(pairs) => writer.map(pairs, 0),
        other => writer.flow(other),
    }
    match writer.deviation(12) {
        1 => writer.out.replace('\n', "\r\n"),
        2 => writer.out + "# end\n",
        3 if !writer.out.ends_with("\n\n") => writer.out + "\n",
        _ => writer.out,
    }
}

/// Writes a document as JSON. `blanks` selects the white space between its tokens.
pub(super) fn json(value: &Value, blanks: &[u8]) -> String {
    let mut blanks = blanks.iter().cycle();
    let mut out = String::new();
    write_json(value, &mut out, &mut || match blanks.next().unwrap_or(&0) % 6 {
        1 => " ",
        2 => "\n",
        3 => "\r\n\t",
        _ => "",
    });
    out
}

fn write_json(value: &Value, out: &mut String, blank: &mut impl FnMut() -> &'static str) {
    *out += blank();
    match value {
        Value::Null => *out += "null",
        Value::Bool(value) => *out += &value.to_string(),
        Value::Text(text) => *out += &serde_json::to_string(text).unwrap(),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                *out += if at > 0 { "," } else { "" };
                write_json(item, out, blank);
            }
            out.push(']');
        }
        Value::Map(pairs) => {
            out.push('{');
            for (at, (key, value)) in pairs.iter().enumerate() {
                *out += if at > 0 { "," } else { "" };
                write_json(&text(key), out, blank);
                *out += ":";
                write_json(value, out, blank);
            }
            out.push('}');
        }
    }
    *out += blank();
}

struct Writer {
    deviations: std::collections::VecDeque<u8>,
    out: String,
}

impl Writer {
    /// The next deviation, below `count`.
    fn deviation(&mut self, count: u8) -> u8 {
        self.deviations.pop_front().unwrap_or(0) % count
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// Optionally writes a blank line or a comment.
    fn filler(&mut self, indent: usize) {
        if self.out.ends_with("\n\n") {
            // It would be part of the block before it.
            return;
        }
        match self.deviation(40) {
            1 => self.out.push('\n'),
            2 => {
                self.indent(indent);
                self.out.push_str("# a: comment\n");
            }
            3 => self.out.push_str("   \n"),
            _ => {}
        }
    }

    fn map(&mut self, pairs: &[(String, Value)], indent: usize) {
        for (at, pair) in pairs.iter().enumerate() {
            if at > 0 {
                self.filler(indent);
            }
            self.indent(indent);
            self.pair(pair, indent);
        }
    }

    fn pair(&mut self, (key, value): &(String, Value), indent: usize) {
        self.key(key);
        self.out.push(':');
        match value {
            Value::List(items) if !items.is_empty() && self.deviation(10) != 1 => {
                self.out.push('\n');
                let more = [0, 2, 4, 1][usize::from(self.deviation(4))];
                for item in items {
                    self.filler(indent);
                    self.item(item, indent + more);
                }
            }
            Value::Map(pairs) if !pairs.is_empty() && self.deviation(10) != 1 => {
                self.out.push('\n');
                let more = [2, 2, 4, 1][usize::from(self.deviation(4))];
                self.map(pairs, indent + more);
            }
            other => {
                let gap = 1 + usize::from(self.deviation(20) == 1);
                self.indent(gap);
                self.inline(other, indent);
            }
        }
    }

    fn item(&mut self, item: &Value, indent: usize) {
        self.indent(indent);
        self.item_inline(item, indent);
    }

    fn item_inline(&mut self, item: &Value, indent: usize) {
        self.out.push('-');
        let gap = 1 + usize::from(self.deviation(8) == 1);
        self.indent(gap);
        let inner = indent + 1 + gap;
        match item {
            Value::Map(pairs) if !pairs.is_empty() && self.deviation(10) != 1 => {
                self.pair(&pairs[0], inner);
                for pair in &pairs[1..] {
                    self.filler(inner);
                    self.indent(inner);
                    self.pair(pair, inner);
                }
            }
            Value::List(items) if !items.is_empty() && self.deviation(10) != 1 => {
                self.item_inline(&items[0], inner);
                for item in &items[1..] {
                    self.item(item, inner);
                }
            }
            other => self.inline(other, indent),
        }
    }

    /// Writes a value on the rest of the line, and on more lines if necessary; `indent` is that of the key or dash.
    fn inline(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => {
                let null = ["null", "~", ""][usize::from(self.deviation(3))];
                self.out.push_str(null);
            }
            Value::Bool(value) => {
                let words = [["false", "off"], ["true", "Yes"]][usize::from(*value)];
                let word = words[usize::from(self.deviation(6) == 1)];
                self.out.push_str(word);
            }
            Value::Text(text) => self.text(text, indent),
            Value::List(_) | Value::Map(_) => self.flow(value),
        }
        if self.deviation(30) == 1 && !self.out.ends_with('\n') {
            self.out.push_str(" # comment");
        }
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn key(&mut self, key: &str) {
        match self.deviation(10) {
            1 => self.out.push_str(&double_quoted(key)),
            2 if is_printable(key) => self.out.push_str(&single_quoted(key)),
            _ if is_plain(key) => self.out.push_str(key),
            _ => self.out.push_str(&double_quoted(key)),
        }
    }

    fn text(&mut self, text: &str, indent: usize) {
        let style = self.deviation(10);
        let width = [WIDTH, WIDTH, 20, 5][usize::from(self.deviation(4))];
        let quoted = match style {
            1 => double_quoted(text),
            2 if is_printable(text) => single_quoted(text),
            3 if is_plain(text) => text.to_owned(),
            _ if can_be_literal(text) => return self.literal(text, indent),
            _ if is_plain(text) => text.to_owned(),
            _ if is_printable(text) && Scalar::plain(text).scalar_type() == ScalarType::Text => {
                single_quoted(text)
            }
            _ => double_quoted(text),
        };
        self.fold(&quoted, indent, width);
    }

    /// Breaks lines at single spaces.
    fn fold(&mut self, text: &str, indent: usize, width: usize) {
        let mut column = self.out.len() - self.out.rfind('\n').map_or(0, |at| at + 1);
        let mut before = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let is_single = character == ' '
                && before.is_some_and(|before| !matches!(before, ' ' | '\\' | '"' | '\''))
                && characters
                    .peek()
                    .is_some_and(|next| !matches!(next, ' ' | '"' | '\'' | '#'));
            if is_single && column > width {
                self.out.push('\n');
                if self.deviation(20) == 1 {
                    // A blank line would stand for a line break.
                    self.indent(1);
                }
                self.indent(indent + 2);
                column = indent + 2;
            } else {
                self.out.push(character);
                column += 1;
            }
            before = Some(character);
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        let ends = text.len() - text.trim_end_matches('\n').len();
        let hint = if text.starts_with([' ', '\n']) { "2" } else { "" };
        let chomp = ["-", "", "+"][ends.min(2)];
        writeln!(self.out, "|{hint}{chomp}").unwrap();
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                self.indent(indent + 2);
            }
            self.out.push_str(line);
            self.out.push('\n');
        }
    }

    fn flow(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(&value.to_string()),
            Value::Text(text) => {
                let is_word = is_plain(text) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
                let written = if is_word {
                    text.clone()
                } else {
                    double_quoted(text)
                };
                self.out.push_str(&written);
            }
            Value::List(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.flow(item);
                }
                self.out.push(']');
            }
            Value::Map(pairs) => {
                self.out.push('{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.out.push_str(&double_quoted(key));
                    self.out.push_str(": ");
                    self.flow(value);
                }
                self.out.push('}');
            }
        }
    }
}

fn is_printable(text: &str) -> bool {
    text.chars().all(|c| matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{10000}'..))
}

fn is_plain(text: &str) -> bool {
    let has_plain_start =
        text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '(' | '<' | '='));
    has_plain_start
        && is_printable(text)
        && !(text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']))
        && !matches!(text, "..." | "<<")
        && Scalar::plain(text).scalar_type() == ScalarType::Text
}

fn can_be_literal(text: &str) -> bool {
    text.contains('\n')
        && text.split('\n').all(is_printable)
        && !text.trim_end_matches('\n').is_empty()
        // Go writes this form, but a line of spaces before the first text is ambiguous.
        && !text.split('\n').any(|line| !line.is_empty() && line.trim_start_matches(' ').is_empty())
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn double_quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            _ if is_printable(character.encode_utf8(&mut [0; 4])) => quoted.push(character),
            '\0'..='\u{ff}' => write!(quoted, "\\x{:02x}", u32::from(character)).unwrap(),
            '\u{100}'..='\u{ffff}' => write!(quoted, "\\u{:04X}", u32::from(character)).unwrap(),
            _ => write!(quoted, "\\U{:08x}", u32::from(character)).unwrap(),
        }
    }
    quoted.push('"');
    quoted
}
