//! JSON in templates: `toJson`, `fromJson` and their variants.

use std::borrow::Cow;

use go_formats::json;

use super::{
    heap::{Heap, check_depth},
    value::Value,
};

/// The layout of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// On one line, with `<`, `>` and `&` escaped.
    Plain,
    /// On one line, without these escapes.
    Raw,
    /// Indented by two spaces.
    Pretty,
}

/// Writes a value as JSON.
pub fn encode(heap: &Heap, value: &Value, layout: Layout) -> Result<String, String> {
    let mut out = String::new();
    write(heap, &mut out, value, layout, 0)?;
    Ok(out)
}

fn write(heap: &Heap, out: &mut String, value: &Value, layout: Layout, depth: usize) -> Result<(), String> {
    check_depth(depth)?;
    heap.charge_steps(1)?;
    heap.meter
        .check_text(out.len().saturating_sub(super::budget::MAX_TEXT / 2))?;
    match value {
        Value::Nil => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) | Value::Int64(number) => out.push_str(&number.to_string()),
        Value::Float(number) if number.is_finite() => out.push_str(&json::number(*number)),
        Value::Float(_) => return Err("json: unsupported value: NaN or infinity".to_owned()),
        Value::Str(text) => {
            heap.charge_write(text.len())?;
            json::string(out, text, layout != Layout::Raw);
        }
        Value::Version(version) => json::string(out, &version.to_string(), layout != Layout::Raw),
        Value::List(list) => {
            let list = heap.list_of(*list)?;
            if list.is_nil {
                out.push_str("null");
                return Ok(());
            }
            let items = &list.items;
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index, layout, depth + 1);
                write(heap, out, item, layout, depth + 1)?;
            }
            close(out, items.is_empty(), layout, depth);
            out.push(']');
        }
        Value::Map(map) => {
            let entries = &heap.map_of(*map)?.entries;
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                separate(out, index, layout, depth + 1);
                json::string(out, key, layout != Layout::Raw);
                out.push_str(if layout == Layout::Pretty { ": " } else { ":" });
                write(heap, out, value, layout, depth + 1)?;
            }
            close(out, entries.is_empty(), layout, depth);
            out.push('}');
        }
    }
    Ok(())
}

/// Replaces each escaped half of a character, such as `\ud83d` alone, by `\ufffd`, as Go does when it decodes JSON.
pub fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        at = start + 2;
        match surrogate(text, start) {
            Some(0xd800..=0xdbff) if matches!(surrogate(text, start + 6), Some(0xdc00..=0xdfff)) => {
                at = start + 12;
            }
            Some(_) => {
                at = start + 6;
                out.push_str(text.get(copied..start).unwrap_or_default());
                out.push_str("\\ufffd");
                copied = at;
            }
            None => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The code of an escape sequence at a position, if it is half of a character.
fn surrogate(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    matches!(code, 0xd800..=0xdfff).then_some(code)
}

fn separate(out: &mut String, index: usize, layout: Layout, depth: usize) {
    if index > 0 {
        out.push(',');
    }
    if layout == Layout::Pretty {
        new_line(out, depth);
    }
}

fn close(out: &mut String, is_empty: bool, layout: Layout, depth: usize) {
    if layout == Layout::Pretty && !is_empty {
        new_line(out, depth);
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}
