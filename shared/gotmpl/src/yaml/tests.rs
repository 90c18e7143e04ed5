use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Quota, ReadError, emit};
use crate::go_json;

fn read(text: &str) -> Result<Value, ReadError> {
    super::read(text, &mut Quota::default())
}

#[test]
fn expanded_aliases_are_limited() {
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

/// With an insertion sort this would take a hundred times as long.
#[test]
fn many_keys_are_sorted_quickly() {
    let values: Map<String, Value> = (0..100_000_u32)
        .map(|number| (format!("{:x}", number.wrapping_mul(2_654_435_761)), Value::Null))
        .collect();
    let text = emit(&values).unwrap();
    assert_eq!(text.lines().count(), 100_000);
}

#[test]
fn integers_of_64_bits_keep_their_digits() {
    let text =
        "a: 9007199254740993\nb: 80.0\nc: 1.5\nd: 0x10\ne: 18446744073709551615\nf: -9223372036854775808\n";
    let value = super::read_exact(text, &mut Quota::default()).unwrap();
    let expected = json!({
        "a": 9_007_199_254_740_993_i64, "b": 80, "c": 1.5, "d": 16, "e": 18_446_744_073_709_551_615.0, "f": i64::MIN,
    });
    assert_eq!(value, expected);
    let emitted = super::emit_exact(value.as_object().unwrap()).unwrap();
    assert_eq!(
        emitted,
        "a: 9007199254740993\nb: 80\nc: 1.5\nd: 16\ne: 1.8446744073709552e+19\nf: -9223372036854775808\n"
    );
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
            // Negative zero loses its sign.
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
    /// So values without templates need not be emitted and read.
    #[test]
    fn emitted_values_are_read_back_unchanged(values in values()) {
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
