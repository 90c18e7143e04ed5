//! Templates, regular expressions and YAML give the same results as in Go.
//!
//! The tables are generated with `make truth` from the inputs in `tests/truth/gotmpl` of the repository.
#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

use std::collections::HashMap;

use gotmpl::{Budget, Context, Delimiters, Template, go_json, regexp, yaml};
use serde_json::Value;

const README: &str = include_str!("../README.md");
/// Template, and its output, `!` for an error or `!utf8` for an output that is not UTF-8.
const TEMPLATES: &str = include_str!("truth/templates.tsv");
/// The data of the templates.
const CONTEXT: &str = include_str!("truth/context.json");
/// A text, then each expression with its matches and groups in that text, or with its error.
const REGEXP: &str = include_str!("truth/regexp.tsv");
/// Values, and the document that is written.
const EMIT: &str = include_str!("truth/emit.tsv");
/// Document, what kubectl reads, how Helm writes the document for a post-renderer, and what kubectl reads of that; `!` for an error.
const READ: &str = include_str!("truth/read.tsv");

/// Templates with the intended differences, which README.md explains: the output here, or a part of the error.
const DIFFERENT: &[(&str, Result<&str, &str>)] = &[
    // Sprig returns the text of the error.
    (r#"${ b64dec "YQ" }"#, Err("illegal base64")),
    (r#"${ b64dec "Y Q==" }"#, Err("illegal base64")),
    (r#"${ b64dec "Pz8-Pg==" }"#, Err("illegal base64")),
    (r#"${ b64dec "_w==" }"#, Err("illegal base64")),
    (r#"${ b32dec "me======" }"#, Err("illegal base32")),
    (r#"${ b32dec "ME" }"#, Err("illegal base32")),
    // Texts are UTF-8.
    (r#"${ "\xff" | len }"#, Err("not valid UTF-8")),
    (r#"${ toJson "\xff" }"#, Err("not valid UTF-8")),
    // Complex numbers.
    ("${ 1i }", Err("bad number syntax")),
    // A number with decimals where a function takes an integer.
    ("${ until 3.0 }|${ until 1e0 }", Err("expected int; got float64")),
    ("${ round 1.5 1.0 }", Err("expected int; got float64")),
    // Verbs of printf.
    (r#"${ printf "%#v" (list 1 "a") }"#, Err("not supported")),
    (r#"${ printf "%#v" (dict "a" 1) }"#, Err("not supported")),
    (
        r#"${ printf "%#g|%#.3g|%#.0f" 1.0 1.0 2.0 }"#,
        Err("not supported"),
    ),
    (
        r#"${ printf "%x|%X|%b|%.2x" 1.5 -0.25 1.0 3.14159 }"#,
        Err("not supported"),
    ),
    (
        r#"${ printf "%[2]d %[1]d|%[1]v %v|%[3]d|%[0]d|%[x]d|%[1]" 1 2 }"#,
        Err("not supported"),
    ),
    (
        r#"${ printf "%[2]*[1]d|%[3]*.[2]*[1]f" 12.0 2 6 }"#,
        Err("not supported"),
    ),
    (r#"${ printf "%[1]d %d %[1]d" 1 2 }"#, Err("not supported")),
    (r#"${ printf "%s" .ClusterValues.zone }"#, Err("not supported")),
    (r#"${ printf "%d" (semver "1") }"#, Err("not supported")),
    (r#"${ printf "%100000000d" 1 }"#, Err("too large")),
    // Groups of a regular expression with the same name.
    (
        r#"${ regexReplaceAll "(?P<n>a)(?P<n>b)" "ab" "$n" }"#,
        Err("not supported"),
    ),
    // Longer than a whole number of hours.
    (r#"${ durationRound "2562047h47m16.854775807s" }"#, Ok("0s")),
    // Methods of versions.
    (
        r#"${ (semver "1.2.3").IncPatch.IncPatch.IncMajor.Original }|${ ((semver "v1.2.3").IncPatch).Original }"#,
        Ok("2.0.0|v1.2.4"),
    ),
    (
        r#"${ (semver "1.2.3").SetPrerelease "a" }"#,
        Err("wrong number of args"),
    ),
    (
        r#"${ (semver "1.2.3").SetMetadata "a.b" }"#,
        Err("wrong number of args"),
    ),
    (
        r#"${ (semver "1.2.3").MarshalText }"#,
        Err("can't evaluate field"),
    ),
    (r#"${ (semver "1.2.3").Value }"#, Err("can't evaluate field")),
];

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

fn render(template: &str, data: &Value) -> Result<String, String> {
    let budget = Budget::default();
    let context = Context::new(data, &budget).unwrap();
    Template::parse(template, Delimiters::new("${", "}"), &budget)
        .and_then(|template| template.render(&context, &budget))
        .map(|rendered| rendered.text)
        .map_err(|error| error.to_string())
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

#[test]
fn templates_render_as_in_go() {
    let data: Value = serde_json::from_str(CONTEXT).unwrap();
    let mut intended: HashMap<&str, _> = DIFFERENT.iter().copied().collect();
    let mut differences = Vec::new();
    for line in TEMPLATES.lines() {
        let (template, expected) = line.split_once('\t').unwrap();
        let template = text(template);
        let rendered = render(&template, &data);
        let same = match (intended.remove(&*template), expected) {
            (Some(Ok(output)), _) => rendered.as_deref() == Ok(output),
            (Some(Err(message)), _) => rendered.as_ref().is_err_and(|error| error.contains(message)),
            (None, "!" | "!utf8") => rendered.is_err(),
            (None, output) => rendered.as_ref() == Ok(&text(output)),
        };
        if !same {
            differences.push(format!(
                "{template}\n    Go:   {expected}\n    here: {rendered:?}"
            ));
        }
    }
    assert_none(&differences);
    assert!(intended.is_empty(), "not in the table: {intended:?}");
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
            let integer = go_json::number(number).parse::<i64>();
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
        (TEMPLATES.lines().count(), "templates"),
        // The first line is the text.
        (REGEXP.lines().count() - 1, "regular expressions"),
        (EMIT.lines().count(), "documents written"),
        (READ.lines().count(), "read"),
    ] {
        let expected = format!("{} {what}", grouped(rows));
        assert!(words.contains(&expected), "README.md has not: {expected}");
    }
}
