//! What Go writes and reads.
//!
//! `written.jsonl` and `read.jsonl` were made with `sigs.k8s.io/yaml` 1.6.0.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Room, Unreadable, emit};
use crate::targeting::go_json;

fn read(text: &str) -> Result<Value, Unreadable> {
    super::read(text, &mut Room::default())
}

#[derive(Deserialize)]
struct Written {
    values: Map<String, Value>,
    text: String,
}

#[derive(Deserialize)]
struct Read {
    text: String,
    means: Option<String>,
}

#[test]
fn values_are_written_as_go_writes_them() {
    for line in include_str!("written.jsonl").lines() {
        let case: Written = serde_json::from_str(line).unwrap();
        assert_eq!(emit(&case.values).unwrap(), case.text);
    }
}

#[test]
fn texts_mean_what_they_mean_in_go() {
    for line in include_str!("read.jsonl").lines() {
        let case: Read = serde_json::from_str(line).unwrap();
        let read = read(&case.text).map(|value| go_json::encode(&value));
        match case.means {
            Some(means) => assert_eq!(read, Ok(means), "{:?}", case.text),
            None => assert!(read.is_err(), "{:?} is {read:?}", case.text),
        }
    }
}

#[test]
fn what_aliases_stand_for_is_bounded() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (one, next) in ('a'..='y').zip('b'..='z') {
        let list = format!("*{one},").repeat(9);
        text = [text, format!("{next}: &{next} [{list}]\n")].concat();
    }
    let error = read(&text).unwrap_err().to_string();
    assert!(error.contains("nodes"), "{error}");
    let text = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a,".repeat(1000));
    let error = read(&text).unwrap_err().to_string();
    assert!(error.contains("bytes"), "{error}");
    assert!(read(&text.replace("*a,", "a,")).is_ok());
    assert!(read("a: &a [*a]").is_err());
    assert!(read(&"[".repeat(5000)).is_err());
}

/// By the algorithm: with insertion it would take a hundred times as long.
#[test]
fn many_keys_are_sorted() {
    let values: Map<String, Value> = (0..100_000_u32)
        .map(|number| (format!("{:x}", number.wrapping_mul(2_654_435_761)), Value::Null))
        .collect();
    let text = emit(&values).unwrap();
    assert_eq!(text.lines().count(), 100_000);
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n\té]{0,40}",
        "(a|b| |:|#|-|'|\"|\\$\\{|\\}|\n|word ){0,30}",
        "([0-9_.:+-]|e|x|yes|no|~|null){0,8}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number))),
        any::<f64>().prop_filter_map("a number", |number| {
            // A zero loses its sign.
            serde_json::Number::from_f64(number + 0.0).map(Value::from)
        }),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(texts(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// So values without templates need neither.
    #[test]
    fn what_is_written_reads_as_it_was(values in values()) {
        let values = Map::from_iter([("values".to_owned(), values)]);
        let text = emit(&values).unwrap();
        let back = read(&text);
        prop_assert_eq!(
            back.map_or_else(|error| error.to_string(), |back| go_json::encode(&back)),
            go_json::encode(&Value::Object(values)),
            "{}", text
        );
    }
}
