//! JSON as Go's `encoding/json` writes it.
//!
//! For hashes of JSON that a Go program computes too, where every byte matters: keys are sorted by bytes, numbers are
//! `float64` in their shortest form, and `<`, `>` and `&` are escaped.

use std::fmt::Write as _;

use serde_json::Value;

/// Writes a value as `json.Marshal` writes what Go has decoded as `interface{}`, where every number is a `float64`.
///
/// It is recursive; values that `serde_json` has decoded are never too deep for it.
///
/// ```
/// use go_formats::json::encode;
///
/// let value = serde_json::json!({ "b": [1.0, 1e-7], "a": "x & y" });
/// assert_eq!(encode(&value), r#"{"a":"x \u0026 y","b":[1,1e-7]}"#);
/// ```
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => out.push_str(&number(value.as_f64().unwrap_or_default())),
        Value::String(text) => string(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            // Sorted here, because serde_json may be built with a map that is not.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                string(out, key, true);
                out.push(':');
                write(out, value);
            }
            out.push('}');
        }
    }
}

/// Writes a finite `float64`: without an exponent from 0.000001 up to 1e21.
pub fn number(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        return match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
            _ => text,
        };
    }
    format!("{number}")
}

/// Appends a string in quotes. Go escapes `<`, `>` and `&` by default (`escapes_html`), so that JSON can be embedded in HTML.
pub fn string(out: &mut String, text: &str, escapes_html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' if escapes_html => escape(out, c),
            '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => escape(out, c),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, c: char) {
    // Writing into a string cannot fail.
    _ = write!(out, "\\u{:04x}", u32::from(c));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_by_go() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.000_001, "0.000001"),
            (0.000_000_999, "9.99e-7"),
            (1e-10, "1e-10"),
            (123_456_789_012.0, "123456789012"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn integers_beyond_53_bits_are_rounded_as_go_decodes_them() {
        assert_eq!(encode(&json!(9_007_199_254_740_993_u64)), "9007199254740992");
    }

    #[test]
    fn keys_are_sorted_by_bytes_and_html_is_escaped() {
        let value = json!({ "é": 1, "z": "<a&b>\u{2028}\u{1}\u{7f}\n\"\\", "Z": [null, true] });
        assert_eq!(
            encode(&value),
            r#"{"Z":[null,true],"z":"\u003ca\u0026b\u003e\u2028\u0001"#.to_owned()
                + "\u{7f}"
                + r#"\n\"\\","é":1}"#
        );
    }
}
