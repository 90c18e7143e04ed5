//! Indexes that Helm did not write, with one deviation each. [`read_web`] asserts that both readers agree.

use super::*;

#[test]
fn any_layout_of_yaml_is_read() {
    for (case, text) in [
        (
            "flow",
            "entries: {web: [{name: web, version: 1.0.0}, {name: web, version: 2.0.0}]}",
        ),
        (
            "flow over lines",
            "entries: {\n  web: [\n    {name: web,\nversion: 1.0.0},\n  {\"name\":web, \"version\":\"2.0.0\"}]\n}\n",
        ),
        (
            "quoted keys",
            "\"entries\":\n  'web':\n  - \"name\": web\n    \"v\\x65rsion\": 1.0.0\n  - name: web\n    'version': '2.0.0'\n",
        ),
        (
            "explicit keys",
            "? entries\n: ? web\n  : - ? name\n      : web\n      ? version\n      : 1.0.0\n    - {name: web, version: 2.0.0}\n",
        ),
        (
            "indented lists",
            "entries:\n    web:\n        - name: web\n          version: 1.0.0\n        - name: web\n          version: 2.0.0\n",
        ),
        (
            "dashes alone",
            "entries:\n  web:\n  -\n    name: web\n    version: 1.0.0\n  -   name: web\n      version: 2.0.0\n",
        ),
        (
            "entries first",
            "entries:\n  web:\n  - name: web\n    version: 1.0.0\n  - version: 2.0.0\n    name: web\napiVersion: v1\n",
        ),
        (
            "entries last, others before",
            "apiVersion: v1\nother: [1, {entries: 2}]\nentries:\n  other:\n  - name: web\n    version: 9.0.0\n  web:\n  - name: web\n    version: 1.0.0\n  - name: web\n    version: 2.0.0\n",
        ),
        (
            "no break at the end",
            "entries:\n  web:\n  - name: web\n    version: 1.0.0\n  - name: web\n    version: 2.0.0",
        ),
        (
            "CRLF",
            "entries:\r\n  web:\r\n  - name: web\r\n    version: 1.0.0\r\n  - name: web\r\n    version: 2.0.0\r\n",
        ),
        (
            "BOM",
            "\u{feff}entries:\n  web:\n  - name: web\n    version: 1.0.0\n  - name: web\n    version: 2.0.0\n",
        ),
        (
            "tabs",
            "entries:\n  web:\t# a tab\n  - name:\tweb\n    version: \t1.0.0\t\n  - {\tname: web,\tversion: 2.0.0\t}\n",
        ),
        (
            "comments",
            "# first\nentries: # all\n  # of web\n  web:\n  - name: web # the chart\n    # its version\n    version: 1.0.0 # first\n# in between\n  - name: web\n    version: 2.0.0\n# last",
        ),
        (
            "blank lines",
            "\n\nentries:\n\n  web:\n   \n  - name: web\n\n    version: 1.0.0\n      \n  - name: web\n    version: 2.0.0\n\n\n",
        ),
        (
            "markers",
            "---\nentries:\n  web:\n  - name: web\n    version: 1.0.0\n  - name: web\n    version: 2.0.0\n...\n",
        ),
        (
            "a directive",
            "%YAML 1.2\n--- # begins\nentries:\n  web:\n  - name: web\n    version: 1.0.0\n  - name: web\n    version: 2.0.0\n",
        ),
        (
            "a second document",
            "entries:\n  web: [{name: web, version: 1.0.0}, {name: web, version: 2.0.0}]\n---\nentries: {web: [{name: web, version: 3.0.0}]}\n",
        ),
        (
            "tags",
            "!!map\nentries: !!map\n  web: !!seq\n  - !chart\n    name: !!str web\n    version: !!str 1.0.0\n  - {name: web, version: ! 2.0.0}\n",
        ),
        (
            "texts over lines",
            "entries:\n  web:\n  - version:\n      1.0.0\n    name: |-\n      web\n  - name: >-\n\n      web\n    version: \"2.\\\n      0.0\"\n",
        ),
        (
            "a block in a list",
            "entries:\n  web:\n  - name: web\n    urls:\n    - |\n      a\n    version: 1.0.0\n  - name: web\n    sources:\n    - |2\n       a\n      b\n    - c\n    version: 2.0.0\n",
        ),
        (
            "a key of several lines",
            "entries:\n  ? a\n    key\n  : - version: 3.0.0\n  web:\n  - {name: web, version: 1.0.0}\n  - {name: web, version: 2.0.0, ? [a, b] : version, keywords: {? {a: b} : version}}\n",
        ),
        (
            "keys in other cases",
            "Entries:\n  web:\n  - NAME: web\n    Version: 1.0.0\n  - {name: web, VERSION: 2.0.0}\n",
        ),
    ] {
        assert_eq!(versions(text), ["1.0.0", "2.0.0"], "{case}");
    }
}

#[test]
fn text_that_looks_like_keys_is_text() {
    for description in [
        "|\n      version: 9.9.9\n      urls: [x]",
        "|+\n\n      version: 9.9.9\n\n",
        ">2-\n       folded\n      version: 9.9.9",
        "\"a\n      version: 9.9.9\n\n      b\"",
        "'a\n      ''version'': 9.9.9'",
        "a\n      version:9.9.9\n      - name",
        "\"version: \\\"9.9.9\\\"\n      # no comment\"",
        "|\n      # no comment\n    # a comment",
    ] {
        let text =
            format!("entries:\n  web:\n  - name: web\n    description: {description}\n    version: 1.0.0\n");
        assert_eq!(versions(&text), ["1.0.0"], "{description}");
    }
}

#[test]
fn nested_fields_of_the_same_name_are_ignored() {
    let text = "\
entries:
  web:
  - dependencies:
    - name: a
      version: 9.9.9
      urls: [x]
    annotations: {version: 8.8.8, deprecated: true}
    maintainers: [{name: m, version: 7.7.7}]
    name: web
    urls: [web.tgz, y.tgz]
    version: 1.0.0
version: 6.6.6
";
    let index = read_web(text);
    let expected = IndexEntry {
        version: "1.0.0".into(),
        url: "web.tgz".into(),
        ..IndexEntry::default()
    };
    assert_eq!(index.charts["web"], [expected]);
}

#[test]
fn layouts_similar_to_helms_are_read_by_the_general_reader() {
    for fields in [
        "<<:\n      version: 2.0.0\n    a: b",
        "version:\n      2.0.0",
        "version: 2.0.0\n      -rc.1",
        "version: |-\n      2.0.0",
        "version: \"2.0.\\x30\"",
        "version: '2.0.0''a'",
        "version: 2.0.0 # a comment",
        "a: \"\\ud800\"",
        "a: \"b\\\n      c\"",
        "a: \u{80}",
        "a: \"\u{9f}\"",
        "a: \u{feff}b",
        "a: |2\n     # less",
        "a: |\n       \n      less",
        "a: b\n    # ends it\n      c",
        "a: b: c",
        "a: b\n      c: d",
        "a: b\n   c: d",
        "a: 'b\n    c'",
        "a: [b]",
        "a: {b: c}",
        "a: !!str b",
        "a: &b c",
        "a: - b",
        "a: @b",
        "? a\n    : b",
        "- a",
        "a: \tb",
        "a b : c",
    ] {
        let text = format!("entries:\n  web:\n  - name: web\n    {fields}\n");
        assert!(read_fast_only(text.as_bytes(), &web()).is_none(), "{fields}");
    }
    for text in [
        "--- # a\na: b\n",
        "... a: b\n",
        "--- a: b\n",
        "%TAG ! b:\n---\na: b\n",
        " a: b\n",
        "a: b\n---\nc: d\n",
    ] {
        assert!(read_fast_only(text.as_bytes(), &web()).is_none(), "{text}");
    }
}

#[test]
fn aliases_are_expanded() {
    for (case, text) in [
        (
            "a value",
            "v: &v 1.0.0\nentries: {web: [{name: &n web, version: *v}, {name: *n, version: 2.0.0}]}\n",
        ),
        (
            "a key",
            "entries: {web: [{&k version: 1.0.0, name: web}, {*k : 2.0.0, name: web}]}\n",
        ),
        (
            "an entry",
            "a: &a {name: web, version: 1.0.0}\nentries:\n  web:\n  - *a\n  - {name: web, version: 2.0.0}\n",
        ),
        (
            "a list",
            "entries:\n  other: &l\n  - {name: web, version: 1.0.0}\n  - {name: web, version: 2.0.0}\n  web: *l\n",
        ),
        (
            "entries",
            "e: &e\n  web:\n  - &a {name: web, version: 1.0.0}\n  - {name: web, version: 2.0.0}\nentries: *e\n",
        ),
        (
            "within one another",
            "a: &a {name: web, version: &v 1.0.0}\nl: &l [*a, {name: web, version: 2.0.0}]\nentries: {web: *l, v: *v}\n",
        ),
        (
            "the latest of a name",
            "a: &a 3.0.0\nb: &a 1.0.0\nentries: {web: [{name: web, version: *a}, {name: web, version: 2.0.0}]}\n",
        ),
        (
            "in an irrelevant value",
            "a: &a [1, &b 2]\nb: [*a, *b]\nentries: {web: [{name: web, version: 1.0.0, keywords: *a}, {name: web, version: 2.0.0}], other: *a}\n",
        ),
    ] {
        assert_eq!(versions(text), ["1.0.0", "2.0.0"], "{case}");
    }
}

#[test]
fn merged_keys_do_not_replace_own_keys() {
    let entry = |text: &str| {
        let index = read_web(&format!(
            "b: &b {{name: web, version: 1.0.0, urls: [b], digest: b}}\nc: &c {{urls: [c], created: c, <<: *b}}\nentries: {{web: [{text}]}}\n"
        ));
        let entry = index.charts["web"].first().cloned().unwrap_or_default();
        [entry.version, entry.url, entry.digest, entry.created].join(" ")
    };
    assert_eq!(entry("{<<: *b}"), "1.0.0 b b ");
    assert_eq!(entry("{<<: *b, version: 2.0.0}"), "2.0.0 b b ");
    assert_eq!(entry("{version: 2.0.0, <<: *b, urls: [d, e]}"), "2.0.0 d b ");
    assert_eq!(entry("{<<: [*c, *b]}"), "1.0.0 c b c");
    assert_eq!(entry("{<<: [*b, {created: d, digest: d}]}"), "1.0.0 b b d");
    assert_eq!(entry("{\"<<\": *b, name: web, version: 2.0.0}"), "2.0.0   ");
    assert_eq!(
        entry("{name: web, version: 2.0.0, dependencies: [{<<: {alias: a}}]}"),
        "2.0.0   "
    );
    // Invalid, as in Helm.
    assert_eq!(entry("{<<: 1, name: web, version: 1.0.0}"), "   ");
    assert_eq!(entry("{<<: [*b, x], name: web}"), "   ");
    assert_eq!(entry("{<<: [[*b]], name: web, version: 1.0.0}"), "   ");
    assert_eq!(
        versions("e: &e {web: [{name: web, version: 1.0.0}], b: []}\nentries: {b: [1], <<: *e}\n"),
        ["1.0.0"]
    );
    assert_eq!(
        versions("e: &e {entries: {web: []}}\nentries: {web: [{name: web, version: 1.0.0}]}\n<<: *e\n"),
        ["1.0.0"]
    );
}

#[test]
fn of_duplicate_keys_the_last_is_used() {
    assert_eq!(
        versions(
            "entries:\n  web:\n  - name: web\n    version: 1.10\n    version: 0.1.0\n    version: 0.2.0\n"
        ),
        ["0.2.0"]
    );
    assert_eq!(
        versions(
            "entries:\n  web:\n  - name: web\n    version: 1.0.0\n  web:\n  - name: web\n    version: 2.0.0\n"
        ),
        ["2.0.0"]
    );
    let text = "entries: {web: [{name: web, version: 1.0.0, urls: [a], urls: [b], deprecated: true, deprecated: null}]}\nentries: {b: []}\n";
    let index = read_web(text);
    let entry = &index.charts["web"][0];
    assert_eq!(
        (entry.url.as_str(), entry.deprecated),
        ("b", false),
        "and two `entries` are merged"
    );
}

#[test]
fn json_is_read_by_the_fast_reader() {
    let text = "\u{feff} {\"entries\"\n:{\"w\\u0065b\":[{\"name\":\"web\",\"version\":\"1.0.0\",\"urls\":[\"\\ud83d\\ude80\\/w\",\"x\"],\n\t\"deprecated\":true,\"extra\":[1,-2.5e3,null,false,{}]}]},\"apiVersion\":\"v1\"} \n";
    let index = read_fast_only(text.as_bytes(), &web())
        .expect("it is JSON")
        .unwrap();
    let expected = IndexEntry {
        version: "1.0.0".into(),
        url: "🚀/w".into(),
        deprecated: true,
        ..IndexEntry::default()
    };
    assert_eq!(index.charts["web"], [expected]);
    assert_eq!(read_web(text), index);
    for text in [
        "{\"entries\":{\"web\":[{\"name\":\"web\",\"version\":\"1.0.0\"}]},}",
        "{entries: {\"web\": [{\"name\": 'web', \"version\": 1.0.0}]}}",
        "{\"entries\":{\"web\":[{\"name\":\"web\",\"version\":\"1.0.0\"}]}} # a comment",
    ] {
        assert!(read_fast_only(text.as_bytes(), &web()).is_none(), "{text}");
        assert_eq!(versions(text), ["1.0.0"]);
    }
}

#[test]
fn json_may_contain_characters_that_yaml_forbids() {
    for field in [
        "\"description\":\"\u{7f}\u{80}\u{9f}\u{fffe}\u{ffff}\"",
        "\"\u{7f}\":{\"\u{85}\u{feff}\u{2028}\":\"\\u007f\"}",
    ] {
        let text =
            format!("{{\"entries\":{{\"web\":[{{\"name\":\"web\",\"version\":\"1.0.0\",{field}}}]}}}}");
        assert_eq!(versions(&text), ["1.0.0"], "{field}");
    }
    for url in ["\u{7f}", "\\u007f"] {
        let text = format!(
            "{{\"entries\":{{\"web\":[{{\"name\":\"web\",\"version\":\"1.0.0\",\"urls\":[\"{url}\"]}}]}}}}"
        );
        assert_eq!(read_web(&text).charts["web"].len(), 1, "{url}");
    }
    assert!(read(&b"a: \"\x7f\""[..], &web(), Layout::Any).is_err());
}

#[test]
fn unsupported_json_is_read_by_the_general_reader() {
    let long = "k".repeat(1100);
    let gap = " ".repeat(1100);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for field in [
        "\"x\":\"\\ud800\"".to_owned(),
        format!("\"{long}\":1"),
        format!("\"x\"{gap}:1"),
        format!("\"x\":{deep}"),
        "\"x\":1e999".to_owned(),
    ] {
        let text = format!("{{\"entries\":{{\"web\":[{{\"name\":\"web\",{field}}}]}}}}");
        assert!(read_fast_only(text.as_bytes(), &web()).is_none(), "{field}");
        assert_eq!(
            comparable(read(text.as_bytes(), &web(), Layout::Any)),
            read_generally(text.as_bytes(), &web())
        );
    }
}
