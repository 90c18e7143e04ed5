//! The fast readers and the general one agree on every document.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index as Position, select};

use super::render::{Value, json, text, yaml};
use super::*;

/// The two requested charts.
const CHARTS: [&str; 2] = ["web", "on"];

fn any_text() -> impl Strategy<Value = String> {
    let words = vec("[a-z]{1,9}", 0..40).prop_map(|words| words.join(" "));
    let bits = vec(
        select(
            &[
                "a", " ", ": ", " #", "- ", "\n", "'", "\"", "\\", "{", "é", "🚀", "\t", "\u{85}", ":",
            ][..],
        ),
        0..12,
    )
    .prop_map(|bits| bits.concat());
    let picked = select(
        &[
            "",
            "1.10",
            "true",
            "null",
            "~",
            "<<",
            "...",
            "---",
            "-",
            "y",
            "https://a.example.com/b#c",
            "\u{feff}a",
        ][..],
    )
    .prop_map(str::to_owned);
    prop_oneof![
        words,
        bits,
        picked,
        "[ -~]{0,30}",
        "\\PC{0,9}",
        "([ -~]{0,20}\n){1,4}[a-z]{0,3}\n{0,2}"
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => any_text().prop_map(Value::Text), 1 => any::<bool>().prop_map(Value::Bool), 1 => Just(Value::Null)];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let list = vec(inner.clone(), 0..3).prop_map(Value::List);
        let map = vec(("[a-z./]{1,6}|[ -~]{1,9}|version|entries", inner), 0..3).prop_map(Value::Map);
        prop_oneof![list, map]
    })
}

/// A field of an entry; always a valid one if Helm has written the document.
fn field(is_by_helm: bool) -> impl Strategy<Value = (String, Value)> {
    let version = "[0-2]\\.[0-9]{1,2}\\.[0-9]{1,2}(-rc\\.[0-9])?|v[0-9]\\.[0-9]|[0-9]\\.[0-9]0|[a-z]{0,2}";
    let valid = prop_oneof![
        3 => version.prop_map(|version| ("version", text(version))),
        2 => Just(("name", text("web"))),
        2 => vec("[a-z]{1,6}-[0-9]\\.tgz|https://[a-z]{1,9}\\.example\\.com/[a-z]{1,80}", 0..3)
            .prop_map(|urls| ("urls", Value::List(urls.into_iter().map(Value::Text).collect()))),
        1 => "[0-9a-f]{64}".prop_map(|digest| ("digest", text(digest))),
        1 => Just(("created", text("2026-01-02T03:04:05.678Z"))),
        1 => any::<bool>().prop_map(|deprecated| ("deprecated", Value::Bool(deprecated))),
        1 => select(&["application", "library", "plugin"][..]).prop_map(|kind| ("type", text(kind))),
        1 => vec(prop_oneof![9 => Just(Value::Map(vec![("name".into(), text("a"))])), 1 => Just(Value::Null)], 0..3)
            .prop_map(|people| ("maintainers", Value::List(people))),
        1 => vec("[a-z]{1,3}|[a-z ]{2}".prop_map(|alias| Value::Map(vec![("name".into(), text("a")), ("alias".into(), text(alias))])), 0..2)
            .prop_map(|dependencies| ("dependencies", Value::List(dependencies))),
    ];
    let other = (
        select(&["description", "annotations", "keywords", "home"][..]),
        any_value(),
    );
    let any_typed = (
        select(&["version", "urls", "name", "digest", "deprecated", "type"][..]),
        any_value(),
    );
    let (valid_weight, any_weight) = if is_by_helm { (1, 0) } else { (3, 1) };
    prop_oneof![5 * valid_weight => valid, 2 * valid_weight => other, any_weight => any_typed]
        .prop_map(|(key, value)| (key.to_owned(), value))
}

fn entry(is_by_helm: bool) -> impl Strategy<Value = Value> {
    let fields = vec(field(is_by_helm), 0..8).prop_map(|mut fields| {
        if fields.len() > 2 && !fields.iter().any(|(key, _)| key == "name") {
            fields.push(("name".to_owned(), text("web")));
        }
        let mut names = ChartFilter::new();
        fields.retain(|(key, _)| names.insert(key.clone()));
        Value::Map(fields)
    });
    let arbitrary = if is_by_helm {
        Just(Value::Null).boxed()
    } else {
        any_value().boxed()
    };
    prop_oneof![12 => fields, 1 => Just(Value::Null), 1 => arbitrary]
}

fn document(is_by_helm: bool) -> impl Strategy<Value = Value> {
    let arbitrary = if is_by_helm {
        Just(Value::Null).boxed()
    } else {
        any_value().boxed()
    };
    let versions =
        prop_oneof![9 => vec(entry(is_by_helm), 0..4).prop_map(Value::List), 1 => arbitrary.clone()];
    let charts = vec(
        (
            select(&["web", "on", "other", "a b", "é", "1.10", "message"][..]),
            versions,
        ),
        0..5,
    )
    .prop_map(|charts| {
        let mut names = ChartFilter::new();
        let charts = charts
            .into_iter()
            .map(|(name, versions)| (name.to_owned(), versions));
        Value::Map(charts.filter(|(name, _)| names.insert(name.clone())).collect())
    });
    let entries = prop_oneof![15 => charts, 1 => arbitrary];
    (
        entries,
        vec(("apiVersion|generated|serverInfo|[a-z ]{1,5}", any_value()), 0..3),
        any::<Position>(),
    )
        .prop_map(|(entries, mut others, at)| {
            others.insert(at.index(others.len() + 1), ("entries".to_owned(), entries));
            Value::Map(others)
        })
}

fn deviations() -> impl Strategy<Value = Vec<u8>> {
    let rare = vec(prop_oneof![9 => Just(0), 1 => any::<u8>()], 0..300);
    prop_oneof![vec(any::<u8>(), 0..300), rare.clone(), rare]
}

/// The expected result for a document, computed from its value.
fn expected(document: &Value) -> Comparable {
    let Value::Map(fields) = document else {
        panic!("every document is a mapping");
    };
    let mut index = Index::default();
    match fields.iter().find(|(key, _)| key == "entries") {
        Some((_, Value::Map(charts))) => {
            for (name, versions) in charts.iter().filter(|(name, _)| CHARTS.contains(&name.as_str())) {
                let list = index.charts.entry(name.clone()).or_default();
                match versions {
                    Value::List(entries) => {
                        for entry in entries {
                            match expected_entry(entry) {
                                Some(entry) => list.push(entry),
                                None => index.skipped += 1,
                            }
                        }
                    }
                    Value::Null => {}
                    _ => index.skipped += 1,
                }
            }
            Ok(index)
        }
        Some((_, Value::Null)) => Ok(index),
        _ => comparable(Err(IndexError::NotAnIndex(DocumentKind::InvalidEntries))),
    }
}

fn expected_entry(entry: &Value) -> Option<IndexEntry> {
    let Value::Map(fields) = entry else { return None };
    let field = |name: &str| {
        fields
            .iter()
            .find(|(key, _)| key == name)
            .map_or(&Value::Null, |(_, value)| value)
    };
    let string = |value: &Value| match value {
        Value::Null => Some(String::new()),
        Value::Text(text) => Some(text.clone()),
        Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
    };
    let list = |name| match field(name) {
        Value::Null => Some(vec![]),
        Value::List(items) => Some(items.clone()),
        Value::Bool(_) | Value::Text(_) | Value::Map(_) => None,
    };
    let name = string(field("name"))?;
    let kind = string(field("type"))?;
    let urls: Vec<String> = list("urls")?.iter().map(string).collect::<Option<_>>()?;
    let is_map = |value: &Value| matches!(value, Value::Map(_));
    let alias = |value: &Value| match value {
        Value::Map(fields) => fields
            .iter()
            .find(|(key, _)| key == "alias")
            .map_or(Some(String::new()), |(_, alias)| string(alias)),
        _ => None,
    };
    let aliases: Vec<String> = list("dependencies")?.iter().map(alias).collect::<Option<_>>()?;
    let entry = IndexEntry {
        version: string(field("version"))?,
        digest: string(field("digest"))?,
        url: urls.into_iter().find(|url| !url.is_empty()).unwrap_or_default(),
        created: string(field("created"))?,
        deprecated: match field("deprecated") {
            Value::Bool(deprecated) => *deprecated,
            Value::Null => false,
            Value::Text(_) | Value::List(_) | Value::Map(_) => return None,
        },
        details: None,
    };
    let is_valid = masterminds_semver::Version::parse(&entry.version).is_ok()
        && name.chars().any(|c| !c.is_control())
        && !name.contains('/')
        && ![".", ".."].contains(&name.as_str())
        && ["", "application", "library"].contains(&kind.as_str())
        && list("maintainers")?.iter().all(is_map)
        && aliases.iter().all(|alias| {
            alias
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        });
    is_valid.then_some(entry)
}

/// One change to a document.
#[derive(Clone, Debug)]
enum Damage {
    Reposition(Position, u8),
    Insert(Position, &'static str),
    Remove(Position, usize),
    Repeat(Position, Position, usize),
    MoveLine(Position, Position),
    Cut(Position),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Position>;
    let bits = select(
        &[
            " ", "  ", "\n", "\n\n", "- ", ": ", ":", "#", " #", "'", "\"", "\\", "|", "|2\n", ">-\n", "[",
            "]", "{}", ",", "&a ", "*a", "!", "? ", "\t", "\r", "~", "<<: ", "---\n", "...\n", "\n--- ",
            "\n... ", "%", "\u{85}", "\u{2028}", "\u{feff}", "\0", "é", "x", "-", "version:", "\n  ",
            "\n    ", "\n      ", "{", "}", "\"\n", "'\n", "- - a\n", "key:\n", "\\\n", "@", "`", "=",
            "\n# c\n", "\u{a0}",
        ][..],
    );
    prop_oneof![
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Reposition(at, byte)),
        6 => (at(), bits).prop_map(|(at, bits)| Damage::Insert(at, bits)),
        2 => (at(), 1..4_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => (at(), at(), 1..60_usize).prop_map(|(from, to, count)| Damage::Repeat(from, to, count)),
        2 => (at(), at()).prop_map(|(from, to)| Damage::MoveLine(from, to)),
        1 => at().prop_map(Damage::Cut),
    ]
}

fn apply(text: &mut Vec<u8>, damage: &Damage) {
    let position = |at: &Position, text: &[u8]| at.index(text.len() + 1);
    match damage {
        Damage::Reposition(at, byte) if !text.is_empty() => {
            let at = at.index(text.len());
            text[at] = *byte;
        }
        Damage::Reposition(..) => {}
        Damage::Insert(at, bits) => {
            let at = position(at, text);
            text.splice(at..at, bits.bytes());
        }
        Damage::Remove(at, count) => {
            let at = position(at, text);
            text.drain(at..text.len().min(at + count));
        }
        Damage::Repeat(from, to, count) => {
            let (from, to) = (position(from, text), position(to, text));
            let piece = text[from..text.len().min(from + count)].to_vec();
            text.splice(to..to, piece);
        }
        Damage::MoveLine(from, to) => {
            let mut lines: Vec<Vec<u8>> = text
                .split_inclusive(|b| *b == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            if !lines.is_empty() {
                let line = lines.remove(from.index(lines.len()));
                lines.insert(to.index(lines.len() + 1), line);
                *text = lines.concat();
            }
        }
        Damage::Cut(at) => text.truncate(position(at, text)),
    }
}

fn assert_agreement_when_damaged(text: String, damages: &[Damage]) -> Result<(), TestCaseError> {
    let mut text = text.into_bytes();
    for damage in damages {
        apply(&mut text, damage);
    }
    assert_agreement(&text)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{}", String::from_utf8_lossy(&text))))
}

fn assert_agreement(text: &[u8]) -> Result<(), TestCaseError> {
    let filter = filter(&CHARTS);
    let general = read_generally(text, &filter);
    // Unsupported encodings are detected before a reader is chosen.
    if Source::open(text, Layout::Any)
        .unwrap()
        .unsupported_encoding()
        .is_some()
    {
        return Ok(());
    }
    if let Some(fast) = read_fast_only(text, &filter) {
        prop_assert_eq!(&fast, &general, "fast and general differ");
        let pieces = Pieces {
            text,
            size: 1 + text.len() % 7,
            error: None,
        };
        prop_assert_eq!(read_fast_only(pieces, &filter), Some(fast), "in pieces");
    }
    let any = comparable(read(text, &filter, Layout::Any));
    prop_assert_eq!(any, general, "after a restart");
    Ok(())
}

/// Fragments of YAML in any order, after the start of an entry or alone.
fn fragments() -> impl Strategy<Value = String> {
    let bits = select(
        &[
            "\n",
            "\n  ",
            "\n    ",
            "\n      ",
            "\n  - ",
            "\n    - ",
            "\n- ",
            "\n   ",
            "\nentries:\n  web:\n",
            "  ",
            " ",
            "a",
            "b c",
            "version",
            "name",
            "urls",
            ": ",
            ":",
            ":\n",
            "- ",
            "-",
            "'",
            "\"",
            "\\",
            "\\u0041",
            "|",
            "|2",
            ">-",
            "+\n",
            "#",
            " # c",
            "[]",
            "[",
            "]",
            "{}",
            "{",
            "}",
            ",",
            "?",
            "? ",
            "&a ",
            "*a",
            "!!str ",
            "<<: *a",
            "<<",
            "null",
            "1.10",
            "2.0.0",
            "---",
            "...",
            "%",
            "@",
            "=",
            "é",
            "\u{a0}",
            "\u{2028}",
            "\t",
            "\r\n",
            "\u{feff}",
            "\n\n",
            "\n# c\n",
            "\n      # c",
            "''",
            "\"\"",
            "a: b",
            "'a': b",
            "\"a\": b",
        ][..],
    );
    let beginning = select(
        &[
            "",
            "entries:\n  web:\n  - name: web\n    version: 1.0.0\n    ",
            "a:\n",
            "a: b",
            "a: |",
            "a: \"b",
            "a:\n- b",
            "- ",
        ][..],
    );
    (beginning, vec(bits, 0..20)).prop_map(|(beginning, bits)| beginning.to_owned() + &bits.concat())
}

proptest! {
    #[test]
    fn documents_by_helm_are_read_by_the_fast_reader(document in document(true)) {
        let text = yaml(&document, &[]);
        let expected = expected(&document);
        prop_assert_eq!(read_generally(text.as_bytes(), &filter(&CHARTS)), expected.clone(), "{}", text);
        prop_assert_eq!(read_fast_only(text.as_bytes(), &filter(&CHARTS)), Some(expected), "{}", text);
    }

    #[test]
    fn documents_by_other_tools_are_read(document in document(false), deviations in deviations()) {
        let text = yaml(&document, &deviations);
        prop_assert_eq!(read_generally(text.as_bytes(), &filter(&CHARTS)), expected(&document), "{}", text);
        assert_agreement(text.as_bytes())?;
    }

    #[test]
    fn json_documents_are_read(document in document(false), blanks in vec(any::<u8>(), 0..50)) {
        let text = json(&document, &blanks);
        prop_assert_eq!(comparable(read(text.as_bytes(), &filter(&CHARTS), Layout::Any)), expected(&document), "{}", text);
        assert_agreement(text.as_bytes())?;
    }

    #[test]
    fn readers_agree_on_damaged_documents(
        document in document(false),
        deviations in deviations(),
        is_json in any::<bool>(),
        damages in vec(damage(), 1..5),
    ) {
        let render = if is_json { json } else { yaml };
        assert_agreement_when_damaged(render(&document, &deviations), &damages)?;
    }

    #[test]
    fn readers_agree_on_damaged_documents_by_helm(
        document in document(true),
        damages in vec(damage(), 1..3),
    ) {
        assert_agreement_when_damaged(yaml(&document, &[]), &damages)?;
    }

    #[test]
    fn readers_agree_on_any_text(text in fragments()) {
        assert_agreement(text.as_bytes())?;
    }
}
