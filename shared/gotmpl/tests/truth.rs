//! Templates give the same results as in Go.
//!
//! The tables are generated with `make truth` from the inputs in `tests/truth/gotmpl` of the repository.
#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

use std::collections::HashMap;

use gotmpl::{Budget, Context, Delimiters, Template};
use serde_json::Value;

const README: &str = include_str!("../README.md");
/// Template, and its output, `!` for an error or `!utf8` for an output that is not UTF-8.
const TEMPLATES: &str = include_str!("truth/templates.tsv");
/// The data of the templates.
const CONTEXT: &str = include_str!("truth/context.json");

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

/// Groups digits by three.
fn grouped(number: usize) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

#[test]
fn the_readme_has_the_number_of_rows() {
    let words: String = README.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = format!("{} templates", grouped(TEMPLATES.lines().count()));
    assert!(words.contains(&expected), "README.md has not: {expected}");
}
