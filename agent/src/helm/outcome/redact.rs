//! What a message must not contain: objects, which may be Secrets, and values of Secrets.

use helmops_release::object::ObjectId;

/// Before a value that the API server quotes. It quotes the whole object if a patch does not fit.
const VALUE: &str = "Invalid value: \"";
/// The longest quoted value that is kept, in bytes.
const MAX_VALUE: usize = 200;
/// Before a value of another type than expected.
const GOT: &str = ", got ";

/// A text without such values.
pub(super) fn redacted(text: &str, object: Option<&ObjectId>) -> String {
    let text = without_objects(text);
    if object.is_some_and(|object| object.kind == "Secret") {
        return without_values(&text);
    }
    text
}

/// Replaces long quoted values.
fn without_objects(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(VALUE) {
        let (value, after) = after.split_at(closing_quote(after));
        out.push_str(before);
        out.push_str(VALUE);
        out.push_str(if value.len() > MAX_VALUE { "…" } else { value });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The offset of the quote that ends a text quoted by Go.
fn closing_quote(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// `.stringData.a: expected string, got &{12345}`, without the value, in each line.
fn without_values(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(GOT) {
        Some((before, _)) => format!("{before}{GOT}another type"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
