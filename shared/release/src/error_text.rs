//! Errors of the API server, for people.

use helmops_api::json::Scanner;

/// Before a value that the API server prints: a text in quotes, which is the whole object if a patch does not fit, or a structure such as the
/// template of a Job, before the rule that it violates.
const VALUE: &str = "Invalid value: ";
/// The longest value that is kept, in bytes.
const MAX_VALUE: usize = 200;

/// An error without the long values in it: what is wrong comes after them, and they may be objects with Secrets.
pub fn without_long_values(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(VALUE) {
        let (value, after) = after.split_at(end_of_value(after));
        out.push_str(before);
        out.push_str(VALUE);
        out.push_str(match value.chars().next() {
            Some('"') if value.len() > MAX_VALUE => "\"…\"",
            Some('{') if value.len() > MAX_VALUE => "{…}",
            Some('[') if value.len() > MAX_VALUE => "[…]",
            _ => value,
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The length of the value at the start of a text: a text quoted by Go, or a structure in brackets. Others are short, and count as empty.
fn end_of_value(text: &str) -> usize {
    if !text.starts_with(['"', '{', '[']) {
        return 0;
    }
    let (mut scanner, mut depth, mut at) = (Scanner::default(), 0_u32, 0);
    while let Some((next, byte)) = scanner.next(text.as_bytes(), at) {
        at = next + 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && !scanner.is_text() {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_left_out_and_short_ones_stay() {
        let content = format!(r#"{{"a":"}}\"","list":[{}]}}"#, "null,".repeat(100));
        let text = |value: &str| {
            format!(
                "Job \"a\" is invalid: [spec.x: Invalid value: {value}: field is immutable, spec.y: Invalid value: [1]: no]"
            )
        };
        assert_eq!(without_long_values(&text(&content)), text("{…}"));
        assert_eq!(
            without_long_values(&text(&format!("\"{}\"", "x".repeat(300)))),
            text("\"…\"")
        );
        assert_eq!(without_long_values(&text("null")), text("null"));
        for text in [
            "Invalid value: {\"a\":",
            "Invalid value: ü: no",
            "Invalid value: ",
        ] {
            assert_eq!(without_long_values(text), text);
        }
    }
}
