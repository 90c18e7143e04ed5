//! What a message must not contain of an object, which may be a Secret, or of values that a schema refuses.

use helmops_release::{error_text::without_long_values, object::ObjectId};

use super::FailureReason;

/// Before a value of another type than expected.
const GOT: &str = ", got ";

/// A text without such values.
pub(super) fn redacted(text: &str, reason: FailureReason, object: Option<&ObjectId>) -> String {
    if reason == FailureReason::ValuesInvalid {
        return lines(text, without_invalid);
    }
    let text = without_long_values(text);
    if object.is_some_and(|object| object.kind == "Secret") {
        return lines(&text, without_other_type);
    }
    text
}

fn lines(text: &str, redact: fn(&str) -> String) -> String {
    text.lines().map(redact).collect::<Vec<_>>().join("\n")
}

/// `.stringData.a: expected string, got &{12345}`, without the value.
fn without_other_type(line: &str) -> String {
    match line.split_once(GOT) {
        Some((before, _)) => format!("{before}{GOT}another type"),
        None => line.to_owned(),
    }
}

/// `- at '/password': 'hunter2' does not match pattern '^.{12}'`, without the value: the path and the rule are enough.
fn without_invalid(line: &str) -> String {
    let Some((path, error)) = line
        .trim_start()
        .strip_prefix("- at ")
        .and_then(|line| line.split_once("': "))
    else {
        return line.to_owned();
    };
    let rule = |what: &str| Some(format!("the value{what}{}", error.rsplit_once(what)?.1));
    let format = || {
        let (name, _) = error.rsplit_once(" is not valid ")?.1.split_once(':')?;
        Some(format!("the value is not valid {name}"))
    };
    let bound = || {
        let (keyword, bound) = error.split_once(": got ")?;
        // The others are about lengths and types.
        let is_value = [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ]
        .contains(&keyword);
        let (_, bound) = bound.split_once(", want ").filter(|_| is_value)?;
        Some(format!("{keyword}: want {bound}"))
    };
    let redacted = rule(" does not match pattern ").or_else(format).or_else(bound);
    redacted.map_or_else(|| line.to_owned(), |error| format!("- at {path}': {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_schemas_have_the_path_and_the_rule() {
        for (line, expected) in [
            (
                "- at '/password': 'hunter2-very-secret' does not match pattern '^[0-9]+$'",
                "- at '/password': the value does not match pattern '^[0-9]+$'",
            ),
            (
                "- at '/mail': 'a is not valid x: b' is not valid email: missing @ in 'a'",
                "- at '/mail': the value is not valid email",
            ),
            (
                "- at '/pin': maximum: got 98765, want 9,999",
                "- at '/pin': maximum: want 9,999",
            ),
            (
                "- at '/a/0': got string, want number",
                "- at '/a/0': got string, want number",
            ),
            (
                "- at '/name': minLength: got 3, want 8",
                "- at '/name': minLength: got 3, want 8",
            ),
            (
                "- at '': missing property 'user'",
                "- at '': missing property 'user'",
            ),
            ("web:", "web:"),
        ] {
            let text = format!("values don't meet the specifications of the schema(s):\n{line}");
            let expected = format!("values don't meet the specifications of the schema(s):\n{expected}");
            assert_eq!(redacted(&text, FailureReason::ValuesInvalid, None), expected);
        }
    }
}
