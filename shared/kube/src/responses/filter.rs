//! Changes JSON on its way from the API server, without decoding it, in parts of any size.

use helmops_api::json::Scanner;

/// Levels of nesting that are passed on. Decoders of JSON accept 128, of which a list or an event of a watch takes three. No real object has
/// more than 40 (docs/limits.md).
const MAX_DEPTH: u32 = 120;
/// What stands for a value that is removed. In place of `managedFields` it means that there are none.
const NULL: &[u8] = b"null";
/// The field with the managed fields, and the one that it is in.
const MANAGED_FIELDS: &[u8] = b"managedFields";
const METADATA: &[u8] = b"metadata";

/// Replaces values by null: all that is nested too deeply, and `metadata.managedFields` unless they are wanted.
///
/// Text that is no JSON comes out as some text that is no JSON.
#[derive(Debug, Default)]
pub struct Filter {
    keeps_managers: bool,
    scanner: Scanner,
    depth: u32,
    /// Which of the containers around this place are the value of a key `metadata`, the innermost in the lowest bit.
    metadata: u128,
    /// The start of the last text, longer than the longest key that counts. The API server does not escape the letters of these keys.
    text: Vec<u8>,
    /// The next value is that of the key in `text`.
    is_field: bool,
    /// Levels below the start of a value that is removed; 0 outside of one.
    removed: u64,
}

/// What a byte means for the output.
enum Step {
    Nothing,
    /// A value that is removed starts with it.
    Removes,
    /// A value that is removed ends with it.
    Removed,
}

impl Filter {
    /// At the start of a response.
    pub fn new(keeps_managers: bool) -> Self {
        Self {
            keeps_managers,
            ..Self::default()
        }
    }

    /// What the next part becomes; `None` if it is to stay as it is.
    pub fn changed(&mut self, part: &[u8]) -> Option<Vec<u8>> {
        let bytes = |from: usize, to: usize| part.get(from..to).unwrap_or_default();
        // A part may start in a value that is removed.
        let mut out = (self.removed > 0).then(Vec::new);
        // What was not copied yet, and the text that this place is in, start here.
        let (mut from, mut text, mut next) = (0, 0, 0);
        while let Some((at, byte)) = self.scanner.next(part, next) {
            next = at + 1;
            if byte == b'"' && self.scanner.is_text() {
                self.text.clear();
                text = next;
            } else if byte == b'"' {
                self.extend_text(bytes(text, at));
            }
            match self.step(byte) {
                Step::Nothing => {}
                Step::Removes => {
                    let out = out.get_or_insert_with(|| Vec::with_capacity(part.len()));
                    out.extend_from_slice(bytes(from, at));
                    out.extend_from_slice(NULL);
                }
                Step::Removed => from = next,
            }
        }
        if self.scanner.is_text() {
            self.extend_text(bytes(text, part.len()));
        }
        if self.removed == 0
            && let Some(out) = &mut out
        {
            out.extend_from_slice(bytes(from, part.len()));
        }
        out
    }

    fn extend_text(&mut self, text: &[u8]) {
        let missing = (MANAGED_FIELDS.len() + 1).saturating_sub(self.text.len());
        self.text.extend_from_slice(text.get(..missing).unwrap_or(text));
    }

    fn step(&mut self, byte: u8) -> Step {
        let is_start = matches!(byte, b'{' | b'[');
        let is_end = matches!(byte, b'}' | b']');
        if self.removed > 0 {
            self.removed += u64::from(is_start);
            self.removed -= u64::from(is_end);
            return if self.removed == 0 {
                Step::Removed
            } else {
                Step::Nothing
            };
        }
        let is_field = std::mem::replace(&mut self.is_field, byte == b':');
        let is_field = |name: &[u8]| is_field && self.text == name;
        if is_start {
            let is_managers = self.metadata & 1 == 1 && is_field(MANAGED_FIELDS);
            if self.depth >= MAX_DEPTH || is_managers && !self.keeps_managers {
                self.removed = 1;
                return Step::Removes;
            }
            let is_metadata = byte == b'{' && is_field(METADATA);
            self.depth += 1;
            self.metadata = self.metadata << 1 | u128::from(is_metadata);
        } else if is_end {
            self.depth = self.depth.saturating_sub(1);
            self.metadata >>= 1;
        }
        Step::Nothing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// What a text becomes if it arrives in parts of this size.
    fn filtered(text: &str, size: usize, keeps_managers: bool) -> String {
        let mut filter = Filter::new(keeps_managers);
        let mut out = Vec::new();
        for part in text.as_bytes().chunks(size.max(1)) {
            out.extend(filter.changed(part).unwrap_or_else(|| part.to_vec()));
        }
        String::from_utf8(out).unwrap()
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", r#"{"f:a":"#.repeat(levels), "{}") + &"}".repeat(levels)
    }

    #[test]
    fn managed_fields_are_removed_wherever_parts_end() {
        let text = r#"{"kind":"List","items":[{"metadata":{"name":"a","managedFields":[{"x":"]}\"{","f":{}}],"labels":{"managedFields":"x"}},
            "spec":{"managedFields":[1],"template":{"metadata":{"managedFields" : null}},"text":"\"metadata\":{\"managedFields\":[]}"}}],
            "metadata":{"managedFields":"odd"}}"#;
        let expected = text.replace(r#"[{"x":"]}\"{","f":{}}]"#, "null");
        for size in 1..text.len() {
            assert_eq!(filtered(text, size, false), expected, "{size}");
            assert_eq!(filtered(text, size, true), text, "{size}");
        }
    }

    #[test]
    fn what_is_nested_too_deeply_is_null_and_all_others_stay() {
        for levels in [0, 50, 116, 117, 118, 119, 120, 200, 10_000] {
            let text = format!(
                r#"{{"items":[{{"metadata":{{"name":"deep"}},"spec":{}}},{{"metadata":{{"name":"other"}},"spec":{{"a":[1,"{{"]}}}}]}}"#,
                nested(levels)
            );
            let out = filtered(&text, 7, false);
            assert_eq!(out == text, levels + 4 <= 120, "{levels}");
            let list: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(
                list["items"][1],
                json!({ "metadata": { "name": "other" }, "spec": { "a": [1, "{"] } })
            );
            assert_eq!(list["items"][0]["metadata"]["name"], "deep");
        }
    }

    #[test]
    fn each_event_of_a_watch_is_filtered() {
        let event = r#"{"type":"ADDED","object":{"metadata":{"managedFields":[{}]}}}"#;
        let text = format!("{event}\n{event}\n");
        let expected = text.replace("[{}]", "null");
        assert_eq!(filtered(&text, 5, false), expected);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            let key = prop_oneof![
                Just("metadata".to_owned()),
                Just("managedFields".to_owned()),
                ".{0,15}"
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// The same with a decoder.
    fn without(value: &mut Value, is_metadata: bool) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| without(item, false)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    if is_metadata && key == "managedFields" && (value.is_object() || value.is_array()) {
                        *value = Value::Null;
                    }
                    without(value, key == "metadata");
                }
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn it_does_what_a_decoder_would_do(value in json(), size in 1_usize..40, is_pretty in any::<bool>()) {
            let text = if is_pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let mut expected = value.clone();
            without(&mut expected, false);
            let found: Value = serde_json::from_str(&filtered(&text, size, false)).unwrap();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(filtered(&text, size, true), text);
        }

        #[test]
        fn no_text_makes_it_fail(text in any::<Vec<u8>>(), size in 1_usize..40) {
            let mut filter = Filter::new(false);
            for part in text.chunks(size) {
                filter.changed(part);
            }
        }
    }
}
