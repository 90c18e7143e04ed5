//! Entries that are skipped, and documents that are not an index.

use std::fmt::Write as _;

use super::*;

/// An index of `web` with a valid entry and this one.
fn with_entry(entry: &str) -> String {
    format!("entries:\n  web:\n  - {{name: web, version: 0.1.0}}\n  - {entry}\n")
}

#[test]
fn an_invalid_entry_is_skipped_and_counted() {
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
        // Numbers and booleans are not text.
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
        // Helm rejects this one.
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
fn a_document_that_is_not_an_index_is_described() {
    let many = format!("a: {}\n", "b".repeat(300));
    for (text, expected) in [
        ("", DocumentKind::Empty),
        (" \n\n", DocumentKind::Empty),
        ("# nothing\n", DocumentKind::Empty),
        ("---\n", DocumentKind::Empty),
        ("null\n", DocumentKind::Empty),
        (
            "<!DOCTYPE html><html><body>Sign in: now</body></html>",
            DocumentKind::WebPage,
        ),
        (
            "\n <?xml version=\"1.0\"?>\n<Error>\n\t<Code>NoSuchKey</Code></Error>",
            DocumentKind::WebPage,
        ),
        ("<html>\n<body>Not found</body>\n", DocumentKind::WebPage),
        ("- a\n", DocumentKind::List),
        ("[{\"entries\": {}}]", DocumentKind::List),
        ("Not Found\n", DocumentKind::Text("Not Found".into())),
        ("404\n", DocumentKind::Text("404".into())),
        ("apiVersion: v1\n", DocumentKind::NoEntries(None)),
        ("{}", DocumentKind::NoEntries(None)),
        (
            "{\"message\": \"not found\"}",
            DocumentKind::NoEntries(Some("not found".into())),
        ),
        (
            "error: no such repository\nstatus: 404\n",
            DocumentKind::NoEntries(Some("no such repository".into())),
        ),
        (
            "{\"errors\":[{\"code\":\"X\"}],\"message\":404}",
            DocumentKind::NoEntries(None),
        ),
        (many.as_str(), DocumentKind::NoEntries(None)),
        ("entries: []\n", DocumentKind::InvalidEntries),
        ("entries: 1\n", DocumentKind::InvalidEntries),
        ("{\"entries\":[]}", DocumentKind::InvalidEntries),
    ] {
        for layout in [Layout::Any, Layout::General] {
            match read(text.as_bytes(), &web(), layout) {
                Err(IndexError::NotAnIndex(found)) => assert_eq!(found, expected, "{text:?}"),
                other => panic!("{other:?} for {text:?}"),
            }
        }
    }
}

#[test]
fn quoted_text_of_the_document_is_truncated() {
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
fn a_truncated_document_is_an_error_even_after_the_chart() {
    for rest in [
        "annotations: \"started",
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
fn invalid_yaml_is_reported_with_its_position() {
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
                Err(IndexError::Malformed(message)) => assert!(message.starts_with("line "), "{message}"),
                other => panic!("{other:?} for {rest:?}"),
            }
        }
    }
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
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
fn alias_expansion_is_bounded() {
    let repeated =
        |text: &str| read(text.as_bytes(), &web(), Layout::General).map(|index| index.charts["web"].len());
    // A list of a thousand entries, repeated a thousand times.
    let thousand = "{name: web, version: 1.0.0}, ".repeat(1000);
    let bomb = format!(
        "a: &a {{x: [{thousand}]}}\nentries: {{web: [{}]}}\n",
        "*a, ".repeat(1000)
    );
    assert!(matches!(repeated(&bomb), Err(IndexError::TooManyAliases)));
    // Irrelevant aliases are not expanded.
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
fn a_text_beyond_the_bound_is_an_error() {
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
            matches!(error, IndexError::UnsupportedLayout | IndexError::TextTooLong),
            "{error}"
        );
    }
}

#[test]
fn too_many_versions_are_an_error() {
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
    let invalid = too_many + "a: \"b";
    let error = read(invalid.as_bytes(), &web(), Layout::Any).unwrap_err();
    assert!(matches!(error, IndexError::UnsupportedLayout), "{error}");
    // Versions of other charts and replaced versions do not count.
    let half = list("web", 1200);
    let valid = format!("entries:\n{other}{half}{half}");
    let index = read(valid.as_bytes(), &web(), Layout::Any).unwrap();
    assert_eq!(index.charts["web"].len(), 1200);
}
