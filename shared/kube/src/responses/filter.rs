//! Changes JSON on its way from the API server, without decoding it: a state machine over bytes, in parts of any size.

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
#[derive(Debug)]
pub struct Filter {
    keeps_managers: bool,
    place: Place,
    depth: u32,
    /// The containers around this place, the innermost in the lowest bit: which of them are objects.
    objects: u128,
    /// Of these, which are the value of a key `metadata`.
    metadata: u128,
    /// The last key, as far as it is as long as the longest one that counts.
    key: Vec<u8>,
}

/// Where the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Between tokens, where a text is a value.
    Value,
    /// Between tokens, where a text is a key.
    Key,
    /// In a text.
    Text { is_key: bool, is_escaped: bool },
    /// Before a value that is removed.
    Removed,
    /// In a value that is removed, this many levels below its start.
    Skipped {
        levels: u64,
        is_text: bool,
        is_escaped: bool,
    },
}

impl Filter {
    /// At the start of a response.
    pub fn new(keeps_managers: bool) -> Self {
        Self {
            keeps_managers,
            place: Place::Value,
            depth: 0,
            objects: 0,
            metadata: 0,
            key: Vec::new(),
        }
    }

    /// What the next part becomes; `None` if it is to stay as it is.
    pub fn changed(&mut self, part: &[u8]) -> Option<Vec<u8>> {
        let mut changed = None;
        // What was not copied yet starts here.
        let mut from = 0;
        let mut at = 0;
        while let Some(byte) = part.get(at).copied() {
            let was = self.place;
            if let Place::Text {
                is_key,
                is_escaped: false,
            } = was
            {
                // Most of a response is text.
                let rest = part.get(at..).unwrap_or_default();
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b'"' | b'\\'))
                    .unwrap_or(rest.len());
                if is_key {
                    self.extend_key(rest.get(..end).unwrap_or_default());
                }
                at += end;
                let Some(end) = part.get(at).copied() else { break };
                self.end_text(is_key, end);
                at += 1;
                continue;
            }
            let is_skipped = self.step(byte);
            if is_skipped && !matches!(was, Place::Skipped { .. }) {
                let out = changed.get_or_insert_with(|| Vec::with_capacity(part.len()));
                out.extend_from_slice(part.get(from..at).unwrap_or_default());
                out.extend_from_slice(NULL);
            }
            if is_skipped {
                from = at + 1;
            }
            at += 1;
        }
        // A part may start in a value that is removed.
        let changed = changed.or_else(|| (from > 0).then(Vec::new));
        changed.map(|mut out| {
            out.extend_from_slice(part.get(from..).unwrap_or_default());
            out
        })
    }

    fn extend_key(&mut self, text: &[u8]) {
        let missing = (MANAGED_FIELDS.len() + 1).saturating_sub(self.key.len());
        self.key.extend_from_slice(text.get(..missing).unwrap_or(text));
    }

    fn end_text(&mut self, is_key: bool, byte: u8) {
        self.place = match byte {
            b'\\' => {
                if is_key {
                    // A key with an escape is none of those that count: the API server does not escape their letters.
                    self.extend_key(b"\\");
                }
                Place::Text {
                    is_key,
                    is_escaped: true,
                }
            }
            _ if is_key => Place::Key,
            _ => Place::Value,
        };
    }

    /// Takes one byte outside of a text. Returns whether it is removed.
    fn step(&mut self, byte: u8) -> bool {
        match self.place {
            Place::Text { is_key, .. } => {
                self.place = Place::Text {
                    is_key,
                    is_escaped: false,
                };
                false
            }
            Place::Skipped {
                levels,
                is_text,
                is_escaped,
            } => self.skip(byte, levels, is_text, is_escaped),
            Place::Removed => self.start_removal(byte),
            Place::Value | Place::Key => self.token(byte),
        }
    }

    fn token(&mut self, byte: u8) -> bool {
        match byte {
            b'"' => {
                let is_key = self.place == Place::Key;
                if is_key {
                    self.key.clear();
                }
                self.place = Place::Text {
                    is_key,
                    is_escaped: false,
                };
            }
            b'{' | b'[' if self.depth >= MAX_DEPTH => {
                self.place = Place::Skipped {
                    levels: 1,
                    is_text: false,
                    is_escaped: false,
                };
                return true;
            }
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'}' | b']' => self.close(),
            b',' => {
                self.place = if self.objects & 1 == 1 {
                    Place::Key
                } else {
                    Place::Value
                }
            }
            b':' => {
                let is_removed = !self.keeps_managers && self.metadata & 1 == 1 && self.key == MANAGED_FIELDS;
                self.place = if is_removed { Place::Removed } else { Place::Value };
            }
            _ => {}
        }
        false
    }

    fn open(&mut self, is_object: bool) {
        let is_metadata = is_object && self.objects & 1 == 1 && self.key == METADATA;
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        self.metadata = self.metadata << 1 | u128::from(is_metadata);
        self.key.clear();
        self.place = if is_object { Place::Key } else { Place::Value };
    }

    const fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        self.metadata >>= 1;
        self.place = Place::Value;
    }

    fn start_removal(&mut self, byte: u8) -> bool {
        match byte {
            b'{' | b'[' => {
                self.place = Place::Skipped {
                    levels: 1,
                    is_text: false,
                    is_escaped: false,
                };
                true
            }
            b' ' | b'\t' | b'\n' | b'\r' => false,
            // Null, or no JSON that an API server writes: it has one byte or more, and is passed on.
            _ => {
                self.place = Place::Value;
                self.token(byte)
            }
        }
    }

    fn skip(&mut self, byte: u8, levels: u64, is_text: bool, is_escaped: bool) -> bool {
        let (levels, is_text, is_escaped) = match byte {
            _ if is_escaped => (levels, true, false),
            b'\\' if is_text => (levels, true, true),
            b'"' => (levels, !is_text, false),
            b'{' | b'[' if !is_text => (levels.saturating_add(1), false, false),
            b'}' | b']' if !is_text => (levels.saturating_sub(1), false, false),
            _ => (levels, is_text, false),
        };
        self.place = if levels == 0 {
            Place::Value
        } else {
            Place::Skipped {
                levels,
                is_text,
                is_escaped,
            }
        };
        true
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
