//! What is passed over, and what is no index.

use std::fmt::Write as _;

use super::*;

/// An index of `web` with one good entry and this.
fn with_entry(entry: &str) -> String {
    format!("entries:\n  web:\n  - {{name: web, version: 0.1.0}}\n  - {entry}\n")
}

#[test]
fn a_broken_entry_is_passed_over_and_counted() {
    for entry in [
        "null",
        "~",
        "text",
        "[]",
        "{}",
        "{name: web}",
        "{name: web, version: }",
        "{name: web, version: \"\"}",
        "{name: web, version: nonsense}",
        "{name: web, version: [1.0.0]}",
        "{name: web, version: {a: b}}",
        // Numbers and switches are no text.
        "{name: web, version: 1.10}",
        "{name: web, version: 1}",
        "{name: web, version: yes}",
        "{name: web, version: !!float \"1.10\"}",
        "{name: 1.5, version: 1.0.0}",
        "{name: web, version: 1.0.0, digest: 12}",
        "{name: web, version: 1.0.0, created: 2026}",
        "{name: web, version: 1.0.0, created: {}}",
        "{version: 1.0.0}",
        "{name: null, version: 1.0.0}",
        "{name: \"\\u0001\", version: 1.0.0}",
        "{name: a/web, version: 1.0.0}",
        "{name: .., version: 1.0.0}",
        "{name: web, version: 1.0.0, type: plugin}",
        "{name: web, version: 1.0.0, deprecated: \"true\"}",
        "{name: web, version: 1.0.0, deprecated: 1}",
        "{name: web, version: 1.0.0, urls: a}",
        "{name: web, version: 1.0.0, urls: {a: b}}",
        "{name: web, version: 1.0.0, urls: [1]}",
        "{name: web, version: 1.0.0, urls: [[a]]}",
        "{name: web, version: 1.0.0, maintainers: [{name: a}, null]}",
        "{name: web, version: 1.0.0, maintainers: [a]}",
        "{name: web, version: 1.0.0, maintainers: {}}",
        "{name: web, version: 1.0.0, dependencies: [null]}",
        "{name: web, version: 1.0.0, dependencies: [[]]}",
        "{name: web, version: 1.0.0, dependencies: [{name: a, alias: \"a b\"}]}",
        "{name: web, version: 1.0.0, dependencies: [{name: a, alias: 1}]}",
        "{name: web, version: 1.0.0, dependencies: a}",
    ] {
        let index = read_web(&with_entry(entry));
        assert_eq!((index.charts["web"].len(), index.skipped), (1, 1), "{entry}");
    }
    let long = with_entry(&format!(
        "{{name: web, version: 1.0.0, urls: [{}]}}",
        "u".repeat(9000)
    ));
    assert_eq!(read_web(&long).skipped, 1);
}

#[test]
fn an_entry_that_helm_accepts_is_kept() {
    for entry in [
        "{name: other, version: 1.0.0}",
        "{name: web, version: 2026-01-02}",
        "{name: web, version: v1}",
        "{name: web, version: \"1.10\"}",
        "{name: web, version: '1.10', type: library}",
        "{name: web, version: !!str 1.10, type: ''}",
        "{name: web, version: 1.0.0, type: application, deprecated: off}",
        "{name: web, version: 1.0.0, urls: null, created: null, digest: ~, deprecated: }",
        "{name: web, version: 1.0.0, urls: [null, \"\"], maintainers: null, dependencies: }",
        "{name: web, version: 1.0.0, created: 2026-01-02T03:04:05Z, digest: 1e999}",
        "{name: web, version: 1.0.0, maintainers: [{}], dependencies: [{name: a}, {name: a, alias: null}, {alias: b-1_C}]}",
        // These Helm would not.
        "{name: web, version: 1.0.0, created: yesterday, unknown: [1, 2]}",
    ] {
        let index = read_web(&with_entry(entry));
        assert_eq!((index.charts["web"].len(), index.skipped), (2, 0), "{entry}");
    }
}

#[test]
fn a_chart_without_versions_is_listed() {
    for (text, skipped) in [
        ("null", 0),
        ("", 0),
        ("[]", 0),
        ("text", 1),
        ("{a: b}", 1),
        ("[null, a]", 2),
    ] {
        let index = read_web(&format!("entries:\n  web: {text}\n  other: [null]\n"));
        assert_eq!(
            (index.charts["web"].as_slice(), index.skipped),
            (&[][..], skipped),
            "{text}"
        );
    }
    for text in [
        "entries:\n",
        "entries: {}\n",
        "entries: null\napiVersion: v1\n",
        "{\"entries\":null}",
    ] {
        assert_eq!(read_web(text), Index::default(), "{text:?}");
    }
}

#[test]
fn says_what_a_document_is_instead() {
    let many = format!("a: {}\n", "b".repeat(300));
    for (text, instead) in [
        ("", Instead::Empty),
        (" \n\n", Instead::Empty),
        ("# nothing\n", Instead::Empty),
        ("---\n", Instead::Empty),
        ("null\n", Instead::Empty),
        (
            "<!DOCTYPE html><html><body>Sign in: now</body></html>",
            Instead::WebPage,
        ),
        (
            "\n <?xml version=\"1.0\"?>\n<Error>\n\t<Code>NoSuchKey</Code></Error>",
            Instead::WebPage,
        ),
        ("<html>\n<body>Not found</body>\n", Instead::WebPage),
        ("- a\n", Instead::List),
        ("[{\"entries\": {}}]", Instead::List),
        ("Not Found\n", Instead::Text("Not Found".into())),
        ("404\n", Instead::Text("404".into())),
        ("apiVersion: v1\n", Instead::NoEntries(None)),
        ("{}", Instead::NoEntries(None)),
        (
            "{\"message\": \"not found\"}",
            Instead::NoEntries(Some("not found".into())),
        ),
        (
            "error: no such repository\nstatus: 404\n",
            Instead::NoEntries(Some("no such repository".into())),
        ),
        (
            "{\"errors\":[{\"code\":\"X\"}],\"message\":404}",
            Instead::NoEntries(None),
        ),
        (many.as_str(), Instead::NoEntries(None)),
        ("entries: []\n", Instead::OddEntries),
        ("entries: 1\n", Instead::OddEntries),
        ("{\"entries\":[]}", Instead::OddEntries),
    ] {
        for layout in [Layout::Any, Layout::General] {
            match read(text.as_bytes(), &web(), layout) {
                Err(IndexError::NotAnIndex(found)) => assert_eq!(found, instead, "{text:?}"),
                other => panic!("{other:?} for {text:?}"),
            }
        }
    }
}

#[test]
fn foreign_text_is_quoted_in_part() {
    let long = format!("{{\"message\": \"{}\"}}", "ä".repeat(1000));
    let error = read(long.as_bytes(), &web(), Layout::Any)
        .unwrap_err()
        .to_string();
    assert!(error.len() < 400 && error.contains("ää…\""), "{error}");
    let error = read(&b"go\x1b[0m away"[..], &web(), Layout::Any)
        .unwrap_err()
        .to_string();
    assert!(!error.contains('\x1b'), "{error}");
    let error = read(&b"Not Found"[..], &web(), Layout::Any)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the document is not a Helm repository index: it is plain text, \"Not Found\"; check that `index.yaml` is what is \
         at the URL"
    );
}

#[test]
fn a_document_that_breaks_off_is_told_even_behind_the_chart() {
    for rest in [
        "annotations: \"begun",
        "annotations: {a: b",
        "annotations: [a",
        "annota",
        "a: 'b\n\n",
    ] {
        let text = format!("{HELM}{rest}");
        for layout in [Layout::Any, Layout::General] {
            let error = read(text.as_bytes(), &web(), layout).unwrap_err();
            assert!(matches!(error, IndexError::CutOff(_)), "{rest}: {error:?}");
        }
    }
    let json = "{\"entries\":{\"web\":[{\"name\":\"web\",\"version\":\"1.0.0\"}]},\"a\":\"b";
    for end in 1..json.len() {
        let error = read(&json.as_bytes()[..end], &web(), Layout::Any).unwrap_err();
        assert!(
            matches!(error, IndexError::CutOff(_)),
            "{}: {error:?}",
            &json[..end]
        );
    }
}

#[test]
fn what_is_no_yaml_is_told_with_its_place() {
    for rest in [
        "a: b: c\n",
        "\ta: b\n",
        "a: *b\n",
        "  a: b\n",
        "a: [}\n",
        "a: \"\\z\"\n",
        "a: \u{1}\n",
        "- a\n",
    ] {
        let text = format!("{HELM}{rest}");
        for layout in [Layout::Any, Layout::General] {
            match read(text.as_bytes(), &web(), layout) {
                Err(IndexError::Malformed(told)) => assert!(told.starts_with("line "), "{told}"),
                other => panic!("{other:?} for {rest:?}"),
            }
        }
    }
}

#[test]
fn what_is_no_utf8_is_told() {
    let bad = [HELM.as_bytes(), b"a: \"\xff\"\n"].concat();
    let cut = [HELM.as_bytes(), "a: ä".as_bytes()].concat();
    for text in [
        b"\xff\xfea\0:\0".as_slice(),
        b"\xfe\xff\0a\0:",
        b"a\0:\0 \0",
        b"\0a\0:",
        b"\x1f\x8b\x08\0\0",
        &bad,
        &cut[..cut.len() - 1],
        b"{\"a\": \"\xc3\x28\"}",
    ] {
        for layout in [Layout::Any, Layout::General] {
            let error = read(text, &web(), layout).unwrap_err();
            assert!(matches!(error, IndexError::NotUtf8(_)), "{error:?}");
        }
    }
}

#[test]
fn aliases_have_bounds() {
    let repeated =
        |text: &str| read(text.as_bytes(), &web(), Layout::General).map(|index| index.charts["web"].len());
    // A list of a thousand entries, a thousand times.
    let thousand = "{name: web, version: 1.0.0}, ".repeat(1000);
    let bomb = format!(
        "a: &a {{x: [{thousand}]}}\nentries: {{web: [{}]}}\n",
        "*a, ".repeat(1000)
    );
    assert!(matches!(repeated(&bomb), Err(IndexError::TooManyAliases)));
    // So it is where it does not matter.
    let unused = format!(
        "a: &a [{thousand}]\nb: [{}]\nentries: {{web: []}}\n",
        "*a, ".repeat(1000)
    );
    assert_eq!(repeated(&unused).unwrap(), 0);
    let laughs = "a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nentries: {web: [{name: web, version: 1.0.0, urls: *c}]}\n";
    assert_eq!(read_web(laughs).skipped, 1);

    let large = format!("a: &a [{}]\n", "{name: web, version: 1.0.0}, ".repeat(10_000));
    assert_eq!(repeated(&format!("{large}entries: {{web: []}}\n")).unwrap(), 0);
    assert!(matches!(
        repeated(&format!("{large}entries: {{web: *a}}\n")),
        Err(IndexError::TooManyAliases)
    ));

    let own = "entries: &e\n  web: [{name: web, version: 1.0.0}]\n  other: []\n  web: *e\n";
    assert!(matches!(repeated(own), Err(IndexError::Malformed(_))));
}

#[test]
fn no_text_is_longer_than_the_bound() {
    for text in [
        format!("a: {}\nentries: {{}}\n", "x".repeat(2 << 20)),
        format!("entries: {{}}\na: {}\n", "x ".repeat(1 << 20)),
        format!("a: |\n{}\nentries: {{}}\n", "  x\n".repeat(1 << 19)),
        format!("entries: {{}}\n{}", "# x\n".repeat(1 << 19)),
        format!("{{\"a\": \"{}\", \"entries\": {{}}}}", "x".repeat(2 << 20)),
        format!("{{{}\"entries\": {{}}}}", " ".repeat(2 << 20)),
    ] {
        let error = read(text.as_bytes(), &web(), Layout::General).unwrap_err();
        assert!(matches!(error, IndexError::TextTooLong), "{error}");
        let error = read(text.as_bytes(), &web(), Layout::Any).unwrap_err();
        assert!(
            matches!(error, IndexError::OddLayout | IndexError::TextTooLong),
            "{error}"
        );
    }
}

#[test]
fn no_more_versions_are_kept_than_the_bound_allows() {
    let url = "u".repeat(8000);
    let list = |chart: &str, versions: usize| {
        let mut text = format!("  {chart}:\n");
        for version in 0..versions {
            writeln!(
                text,
                "  - name: web\n    urls:\n    - {url}\n    version: 1.0.{version}"
            )
            .unwrap();
        }
        text
    };
    let (web_list, other) = (list("web", 2200), list("other", 2200));
    let too_many = format!("entries:\n{web_list}");
    let error = read(too_many.as_bytes(), &web(), Layout::Any).unwrap_err();
    assert!(matches!(error, IndexError::TooManyVersions), "{error}");
    let broken = too_many + "a: \"b";
    let error = read(broken.as_bytes(), &web(), Layout::Any).unwrap_err();
    assert!(matches!(error, IndexError::OddLayout), "{error}");
    // Those of other charts, or replaced ones, do not count.
    let half = list("web", 1200);
    let fine = format!("entries:\n{other}{half}{half}");
    let index = read(fine.as_bytes(), &web(), Layout::Any).unwrap();
    assert_eq!(index.charts["web"].len(), 1200);
}
