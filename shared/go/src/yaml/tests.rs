use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Quota, ReadError, emit};
use crate::json;

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
    let emitted = super::emit_exact(&value).unwrap();
    assert_eq!(
        emitted,
        "a: 9007199254740993\nb: 80\nc: 1.5\nd: 16\ne: 1.8446744073709552e+19\nf: -9223372036854775808\n"
    );
}

#[test]
fn texts_that_other_readers_take_for_something_else_are_quoted() {
    let text = |text: &str| super::emit_exact(&json!([text])).unwrap();
    for quoted in [
        "<<",
        "=",
        "y",
        "N",
        "on",
        "Off",
        "yes",
        "~",
        "null",
        "",
        "1",
        "-1",
        "0o17",
        "017",
        "0b_",
        "0x_",
        "0xFF",
        "1_",
        "1__0",
        "+.5",
        "5.",
        "1e3",
        "1E+3",
        "1e",
        "1:20",
        "190:20:30.5",
        ".inf",
        "-.INF",
        ".NaN",
        "2026-01-02",
        "2026-13-01",
        "2026-1-2 x",
        "2026-01-02T",
        " a",
        "a ",
        "\ta",
        "a\u{85}b",
        "a\u{2028}b",
        "\u{feff}a",
        "a\rb",
        "a: b",
        "a #b",
        "- a",
        "? a",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "---",
        "[a",
        "{a",
        "'a",
        "\"a",
        "#a",
        "|a",
        ">a",
        "a:",
        ",a",
    ] {
        let emitted = text(quoted);
        assert!(
            emitted.starts_with("- \"") || emitted.starts_with("- '"),
            "{quoted:?}: {emitted}"
        );
        let key = super::emit_exact(&json!({ quoted: 1 })).unwrap();
        assert_eq!(
            super::read_exact(&key, &mut Quota::default()).unwrap(),
            json!({ quoted: 1 }),
            "{key}"
        );
    }
    for plain in [
        "a",
        "==",
        "<<<",
        "1.2.3",
        "10.0.0.1",
        "v1",
        "1.2.x",
        "80:443",
        "1e3f",
        "0xg",
        "none",
        "2026-01-02-a",
        "e3",
        ".a",
        "a.b",
        "-a",
        "a-1",
        "é",
    ] {
        assert_eq!(text(plain), format!("- {plain}\n"));
    }
}

#[test]
fn nothing_controls_a_terminal() {
    for c in ('\0'..=char::MAX).filter(|c| bounded_text::is_control(*c)) {
        for text in [
            format!("a{c}b"),
            format!("{c}"),
            format!("a\n{c}b\n"),
            format!(" {c}'\"\\ "),
        ] {
            let value = json!({ &text: [&text] });
            let emitted = super::emit_exact(&value).unwrap();
            assert!(!emitted.contains(bounded_text::is_control), "{emitted:?}");
            assert_eq!(
                super::read_exact(&emitted, &mut Quota::default()).unwrap(),
                value,
                "{emitted}"
            );
        }
    }
}

#[test]
fn numbers_with_an_exponent_have_a_point() {
    let emitted = super::emit_exact(&json!([1e22, 1.5e-7, -1e300, 0.5])).unwrap();
    assert_eq!(emitted, "- 1.0e+22\n- 1.5e-07\n- -1.0e+300\n- 0.5\n");
}

#[test]
fn a_node_counts_once_and_an_alias_what_it_stands_for() {
    let nodes = |text: &str| (1..100).find(|nodes| super::read(text, &mut Quota::new(*nodes, 1000)).is_ok());
    for (text, expected) in [
        ("a", 1),
        ("[[[[a]]]]", 5),
        ("{a: {b: {c: [d, e]}}}", 9),
        // The copy of an anchor, and each alias.
        ("- &a [x, y]\n", 7),
        ("- &a [x, y]\n- *a\n- *a\n", 13),
        ("a: &a {b: c}\nd: {<<: *a}\n", 14),
    ] {
        assert_eq!(nodes(text), Some(expected), "{text}");
    }
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
            back.map_or_else(|error| error.to_string(), |back| json::encode(&back)),
            json::encode(&Value::Object(values)),
            "{}", text
        );
    }
}
