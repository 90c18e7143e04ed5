//! Regular expressions, YAML and values that are set at a path give the same results as in Go.
//!
//! The tables are generated with `make truth` from the inputs in `tests/truth/go` of the repository.
#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

use go_formats::{
    json, regexp,
    strvals::{self, Kind},
    yaml,
};
use serde_json::{Map, Value};

const README: &str = include_str!("../README.md");
/// A text, then each expression with its matches and groups in that text, or with its error.
const REGEXP: &str = include_str!("truth/regexp.tsv");
/// Values, and the document that is written.
const EMIT: &str = include_str!("truth/emit.tsv");
/// Document, what kubectl reads, how Helm writes the document for a post-renderer, and what kubectl reads of that; `!` for an error.
const READ: &str = include_str!("truth/read.tsv");

/// Values, path, value, how it is read, and the values after that; `!` for an error.
const STRVALS: &str = include_str!("truth/strvals.tsv");

/// Documents that are read here as JSON, in which they are valid: kubectl reads JSON as such.
const JSON_ESCAPES: &[&str] = &[
    "a: \"\\ud83d\\ude00\"\n",
    "a: \"\\0\\a\\b\\t\\n\\v\\f\\r\\e\\ \\\"\\/\\\\\\N\\_\\L\\P\"\n",
];

/// An empty collection as a key: an error, but Go takes it for the document, and ignores what follows.
const EMPTY_KEY: &str = "{}*x &x <<: ";

/// Expressions that are errors here, some only when the result of `rewrite_with_groups` is compiled; see the module `regexp`.
const REJECTED_EXPRESSIONS: &[&str] = &[
    // Names of groups.
    "(?P<name>a)(?<1name>b)(c)",
    "(?P<1>a)",
    "(?P<a>a)(?P<a>b)",
    "(?<a>a)(?P<a>b)",
    // A repetition after flags.
    "a(?i)*",
    // Surrogates.
    r"\x{d800}",
    r"\p{Cs}",
    // Names of categories: long ones, and unknown ones, which are an error in Go too.
    r"\p{Letter}",
    r"\p{Foo}",
    r"\pX",
    r"\PX",
];

fn text(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap()
}

/// Fails with all differences, so that one run shows them.
fn assert_none(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Start and end of each group of a match, and -1 for a group that takes no part in it.
type Groups = Vec<i64>;

fn matches(expression: &str, sample: &str) -> Result<Vec<Groups>, String> {
    let (rewritten, _) = regexp::rewrite_with_groups(expression).map_err(|error| error.to_string())?;
    let regex = regex::Regex::new(&rewritten).map_err(|error| error.to_string())?;
    let position = |at: usize| i64::try_from(at).unwrap();
    Ok(regex
        .captures_iter(sample)
        .map(|found| {
            found
                .iter()
                .flat_map(|group| {
                    group.map_or([-1, -1], |group| [position(group.start()), position(group.end())])
                })
                .collect()
        })
        .collect())
}

#[test]
fn expressions_match_the_same_texts_as_in_go() {
    let mut lines = REGEXP.lines();
    let sample = text(lines.next().unwrap());
    let mut differences = Vec::new();
    for line in lines {
        let [expression, class, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let expression = text(expression);
        let expected = match class {
            "ok" => Ok(serde_json::from_str::<Option<Vec<Groups>>>(expected)
                .unwrap()
                .unwrap_or_default()),
            _ => Err(text(expected)),
        };
        let found = matches(&expression, &sample);
        let same = if REJECTED_EXPRESSIONS.contains(&&*expression) {
            found.is_err()
        } else {
            found == expected
        };
        if !same {
            differences.push(format!(
                "{expression}\n    Go:   {expected:?}\n    here: {found:?}"
            ));
        }
    }
    assert_none(&differences);
}

#[test]
fn values_are_emitted_as_in_go() {
    for line in EMIT.lines() {
        let (values, document) = line.split_once('\t').unwrap();
        let values = serde_json::from_str(values).unwrap();
        // Go writes such a text without quotes, and reads it as a merge key.
        let emitted = yaml::emit(&values).unwrap().replace("\"<<\"", "<<");
        assert_eq!(emitted, text(document));
    }
}

#[test]
fn what_is_emitted_is_read_back() {
    let values = EMIT.lines().map(|line| line.split_once('\t').unwrap().0);
    let read = READ.lines().flat_map(|line| line.split('\t').skip(1).step_by(2));
    for object in values.chain(read).filter(|column| column.starts_with('{')) {
        let object: Value = serde_json::from_str(object).unwrap();
        let emitted = yaml::emit_exact(&object).unwrap();
        assert_eq!(read_back(&emitted), Some(normalized(object)), "{emitted}");
    }
}

/// Numbers as Go's JSON writes them: `1.0` is an integer, and zero has no sign.
fn normalized(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            let number = number.as_f64().unwrap() + 0.0;
            let integer = json::number(number).parse::<i64>();
            integer.map_or_else(|_| number.into(), Value::from)
        }
        Value::Array(items) => items.into_iter().map(normalized).collect(),
        Value::Object(entries) => entries
            .into_iter()
            .map(|(key, value)| (key, normalized(value)))
            .collect(),
        other => other,
    }
}

fn read_back(document: &str) -> Option<Value> {
    let value = yaml::read_exact(document, &mut yaml::Quota::default()).ok()?;
    Some(normalized(value))
}

fn expected(column: &str) -> Option<Value> {
    (column != "!").then(|| normalized(serde_json::from_str(column).unwrap()))
}

#[test]
fn documents_are_read_as_in_go() {
    let mut differences = Vec::new();
    for line in READ.lines() {
        let columns: Vec<_> = line.split('\t').collect();
        for pair in columns.chunks_exact(2) {
            let [document, column] = pair else {
                panic!("{line}")
            };
            let found = read_back(&text(document));
            let is_same = if JSON_ESCAPES.contains(&&*text(document)) {
                found.is_some()
            } else if text(document) == EMPTY_KEY {
                found.is_none()
            } else {
                found == expected(column)
            };
            if !is_same {
                differences.push(format!("{document}\n    Go:   {column}\n    here: {found:?}"));
            }
        }
    }
    assert_none(&differences);
}

/// Helm's templates have numbers of one type.
#[test]
fn values_of_templates_are_those_of_objects_with_numbers_as_floats() {
    fn floats(value: Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(items) => items.into_iter().map(floats).collect(),
            Value::Object(entries) => entries
                .into_iter()
                .map(|(key, value)| (key, floats(value)))
                .collect(),
            other => other,
        }
    }
    for line in READ.lines() {
        let document = text(line.split('\t').next().unwrap());
        let read = yaml::read(&document, &mut yaml::Quota::default()).ok();
        assert_eq!(read, read_back(&document).map(floats), "{document:?}");
    }
}

/// Groups digits by three.
fn grouped(number: usize) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

#[test]
fn the_readme_has_the_numbers_of_rows() {
    let words: String = README.split_whitespace().collect::<Vec<_>>().join(" ");
    for (rows, what) in [
        // The first line is the text.
        (REGEXP.lines().count() - 1, "regular expressions"),
        (EMIT.lines().count(), "documents written"),
        (READ.lines().count(), "read"),
    ] {
        let expected = format!("{} {what}", grouped(rows));
        assert!(words.contains(&expected), "README.md has not: {expected}");
    }
}

#[test]
fn values_are_set_at_a_path_as_in_helm() {
    let mut differences = Vec::new();
    for line in STRVALS.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [before, path, value, kind, outcome, expected] = columns[..] else {
            panic!("{line}")
        };
        let mut values: Map<String, Value> = serde_json::from_str(before).unwrap();
        let kind = match kind {
            "typed" => Kind::Typed,
            "text" => Kind::Text,
            _ => Kind::Verbatim,
        };
        let set = strvals::set(&mut values, &text(path), &text(value), kind);
        let is_same = match set {
            Ok(()) => {
                outcome == "ok"
                    && Value::Object(values.clone()) == serde_json::from_str::<Value>(expected).unwrap()
            }
            Err(_) => outcome == "!",
        };
        if !is_same {
            differences.push(format!("{line}: {set:?} {}", Value::Object(values)));
        }
    }
    assert_none(&differences);
}
