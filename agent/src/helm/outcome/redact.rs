//! What a message must not contain: objects, which may be Secrets, and values of Secrets.

use helmops_release::{error_text::without_long_values, object::ObjectId};

/// Before a value of another type than expected.
const GOT: &str = ", got ";

/// A text without such values.
pub(super) fn redacted(text: &str, object: Option<&ObjectId>) -> String {
    let text = without_long_values(text);
    if object.is_some_and(|object| object.kind == "Secret") {
        return without_values(&text);
    }
    text
}

/// `.stringData.a: expected string, got &{12345}`, without the value, in each line.
fn without_values(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(GOT) {
        Some((before, _)) => format!("{before}{GOT}another type"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
