//! Texts that are no objects as they should be: what is wrong, where, and how to fix it.

use super::*;

const SPEC: &str =
    "spec: {helm: {repo: 'https://h', chart: c, version: 1.2.3}, targets: [{clusterSelector: {}}]}\n";

/// The only problem of a file: its reason, the text that it marks, its field, its message and its fix.
fn problem(file: &str, text: &str) -> (&'static str, String, String, String, String) {
    let report = validate(
        &[Input::Text(file.to_owned(), text.to_owned())],
        Options::default(),
    );
    let [problem] = &*report.problems else {
        panic!("{text}: {report:#?}");
    };
    assert_eq!(problem.severity, Severity::Error, "{text}");
    let marked = marked(text, problem.region.unwrap());
    (
        problem.reason,
        marked,
        problem.field.clone(),
        problem.message.clone(),
        problem.fix.clone(),
    )
}

#[test]
fn a_list_whose_items_are_repeated_loses_none_silently() {
    let text = format!(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: fleet.cattle.io/v1alpha1\n  kind: HelmOp\n  metadata: {{name: bad}}\nitems:\n- \
         apiVersion: fleet.cattle.io/v1alpha1\n  kind: HelmOp\n  metadata: {{name: good}}\n  {SPEC}"
    );
    let (reason, marked, field, ..) = problem("a.yaml", &text);
    assert_eq!((reason, &*marked, &*field), ("DuplicateKey", "items", "items"));
    // Those of an item are found once, as before.
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  kind: ConfigMap\n";
    assert_eq!(problem("a.yaml", text).0, "DuplicateKey");
}

#[test]
fn a_list_without_a_kind_is_no_object() {
    let helmop =
        format!("- apiVersion: fleet.cattle.io/v1alpha1\n  kind: HelmOp\n  metadata: {{name: a}}\n  {SPEC}");
    let (reason, marked, _, message, _) = problem("a.yaml", &helmop);
    assert_eq!((reason, &*marked), ("InvalidKind", "-"));
    assert!(message.contains("kubectl rejects"), "{message}");
    let json = r#"[{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"HelmOp"}]"#;
    assert_eq!(problem("a.json", json).0, "InvalidKind");
    // Lists of anything else are no objects of Kubernetes, such as the values of a chart.
    let report = of_text("- a: 1\n- kind: HelmOp of a user\n- 5\n");
    assert_eq!((report.errors, report.skipped), (0, 1));
}

#[test]
fn a_part_of_a_value_with_several_lines_is_found() {
    let text = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {name: a}\nspec:\n  helm:\n    repo: https://h\n    \
                chart: c\n    version: 1.2.3\n    values:\n      x: |\n        line1\n        ok ${ .ClusterName }\n        now ${ .Nope y\n        \
                line4\n  targets: [{clusterSelector: {}}]\n";
    let (reason, marked, field, ..) = problem("a.yaml", text);
    assert_eq!(
        (reason, &*marked, &*field),
        ("InvalidValues", "${ .Nope y", "spec.helm.values.x")
    );
    let folded = text.replace("x: |", "x: >-");
    assert_eq!(problem("a.yaml", &folded).1, "${ .Nope y");
}

#[test]
fn metadata_that_does_not_decode_is_located() {
    for (metadata, field, marked, message) in [
        (
            "ownerReferences: [1]",
            "metadata.ownerReferences",
            "ownerReferences",
            "expected OwnerReference",
        ),
        (
            "deletionTimestamp: nope",
            "metadata.deletionTimestamp",
            "nope",
            "invalid",
        ),
        (
            "generation: x",
            "metadata.generation",
            "x",
            "invalid type: string",
        ),
    ] {
        let text = format!(
            "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: a, {metadata}}}\n{SPEC}"
        );
        let found = problem("a.yaml", &text);
        assert_eq!((found.0, &*found.1, &*found.2), ("InvalidType", marked, field));
        assert!(
            found.3.contains(message) && !found.3.contains("column"),
            "{}",
            found.3
        );
    }
    // The rest of the object is checked nevertheless.
    let text =
        format!("apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: A_, uid: 5}}\n{SPEC}")
            .replace("1.2.3", "foo");
    let reasons: Vec<_> = of_text(&text)
        .problems
        .iter()
        .map(|problem| problem.reason)
        .collect();
    assert_eq!(reasons, ["InvalidName", "InvalidType", "InvalidVersion"]);
}

#[test]
fn hints_fit_the_syntax_error() {
    for (file, text, marked, message, fix) in [
        (
            "a.yaml",
            "a: \"\\q\"\n",
            "\\",
            "unknown escape",
            "write \\\\ for a backslash",
        ),
        (
            "a.yaml",
            "a: 'it's'\n",
            "s",
            "did not find expected key",
            "write '' for a '",
        ),
        (
            "a.yaml",
            "a: \"b\" c\n",
            "c",
            "did not find expected key",
            "write \\\" for a \"",
        ),
        ("a.yaml", "a: \"b\nc: 1\n", "", "", "close the quotes"),
        (
            "a.json",
            "{\"a\": 1,\n \"b\": 2,,\n}",
            ",",
            "not valid JSON: key must be a string",
            "",
        ),
        (
            "a.json",
            "{\"a\": 1 \"b\": 2}",
            "\"",
            "not valid JSON: expected `,` or `}`",
            "",
        ),
        (
            "a.yaml",
            "{\"a\": b, c: [}",
            "}",
            "not valid YAML",
            "close each [ and {",
        ),
        ("a.json", "{\"a\": 1}\n{\"b\": 2} more", "m", "not valid JSON", ""),
    ] {
        let found = problem(file, text);
        assert_eq!(found.0, "InvalidSyntax");
        if !marked.is_empty() {
            assert_eq!(found.1, marked, "{text}");
        }
        assert!(found.3.contains(message), "{text}: {}", found.3);
        assert!(
            found.4.starts_with(fix) && found.4.is_empty() == fix.is_empty(),
            "{text}: {}",
            found.4
        );
    }
}

#[test]
fn a_kind_or_version_that_is_no_text_is_not_missing() {
    let kind = format!("apiVersion: fleet.cattle.io/v1alpha1\nkind: [HelmOp]\nmetadata: {{name: a}}\n{SPEC}");
    let (reason, _, field, message, fix) = problem("a.yaml", &kind);
    assert_eq!(
        (reason, &*field, &*message),
        ("InvalidKind", "kind", "Invalid value: the kind must be a text")
    );
    assert!(fix.starts_with("write one of HelmOp"), "{fix}");
    let version = format!("apiVersion: 1\nkind: HelmOp\nmetadata: {{name: a}}\n{SPEC}");
    let (reason, marked, field, message, _) = problem("a.yaml", &version);
    assert_eq!((reason, &*marked, &*field), ("InvalidKind", "1", "apiVersion"));
    assert_eq!(message, "Invalid value: the apiVersion must be a text");
}

#[test]
fn an_unknown_field_is_an_error() {
    let text = format!("apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: a}}\n{SPEC}")
        .replace("helm: {", "pausd: true, helm: {");
    let (reason, marked, field, _, fix) = problem("a.yaml", &text);
    assert_eq!(
        (reason, &*marked, &*field, &*fix),
        ("UnknownField", "pausd", "spec.pausd", "did you mean paused?")
    );
}
