//! Prints values as `%v` of Go's `fmt` does.

use go_formats::number::print_float;

use super::{
    heap::{Heap, check_depth},
    value::Value,
};

/// Prints the value of an action.
pub fn print(heap: &Heap, value: &Value) -> Result<String, String> {
    if matches!(value, Value::Nil) {
        return Ok("<no value>".to_owned());
    }
    display(heap, value)
}

/// `%v`
pub fn display(heap: &Heap, value: &Value) -> Result<String, String> {
    let mut out = String::new();
    write(heap, &mut out, value, 0)?;
    heap.meter.allocate(out.len())?;
    Ok(out)
}

fn write(heap: &Heap, out: &mut String, value: &Value, depth: usize) -> Result<(), String> {
    check_depth(depth)?;
    heap.charge_steps(1)?;
    heap.meter.check_text(out.len())?;
    match value {
        Value::Nil => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) | Value::Int64(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&print_float(*number)),
        Value::Str(text) => {
            heap.charge_read(text.len())?;
            heap.meter.check_text(out.len().saturating_add(text.len()))?;
            out.push_str(text);
        }
        Value::Version(version) => out.push_str(&version.to_string()),
        Value::List(list) => {
            out.push('[');
            for (index, item) in heap.list_of(*list)?.items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write(heap, out, item, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push_str("map[");
            for (index, (key, value)) in heap.map_of(*map)?.entries.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(heap, out, value, depth + 1)?;
            }
            out.push(']');
        }
    }
    Ok(())
}

/// `%q` of a string.
pub fn quote(text: &str) -> String {
    quote_with(text, false)
}

/// `%q` of a string; `%+q` for ASCII only.
pub fn quote_with(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        escape(&mut out, c, '"', ascii);
    }
    out.push('"');
    out
}

/// `%q` of a number: a character; `%+q` for ASCII only.
pub fn quote_char(c: char, ascii: bool) -> String {
    let mut out = "'".to_owned();
    escape(&mut out, c, '\'', ascii);
    out.push('\'');
    out
}

fn escape(out: &mut String, c: char, quote: char, ascii: bool) {
    use std::fmt::Write as _;

    match c {
        '\\' => out.push_str("\\\\"),
        c if c == quote => out.extend(['\\', c]),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if is_printable(c) && (c.is_ascii() || !ascii) => out.push(c),
        // Writing into a string cannot fail.
        c if u32::from(c) < 0x80 => _ = write!(out, "\\x{:02x}", u32::from(c)),
        c if u32::from(c) < 0x1_0000 => _ = write!(out, "\\u{:04x}", u32::from(c)),
        c => _ = write!(out, "\\U{:08x}", u32::from(c)),
    }
}

/// `unicode.IsPrint`, derived from the standard library, which escapes what is not printable and a few combining characters.
pub fn is_printable(c: char) -> bool {
    match c {
        ' ' => true,
        // Other spaces are not printable in Go.
        c if c.is_whitespace() || c.is_control() => false,
        '\'' | '"' | '\\' => true,
        c => c.is_ascii_graphic() || (u32::from(c) > 0x7f && !is_escaped(c)),
    }
}

fn is_escaped(c: char) -> bool {
    // Combining letters are printable in Go; `escape_debug` escapes them only at the start of a text.
    let text = String::from_iter(['a', c]);
    text.escape_debug().nth(1) == Some('\\')
}
