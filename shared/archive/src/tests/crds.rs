//! What is accepted in folders of CRDs.

use super::build::{LIMITS, Tar};
use crate::{ArchiveError, CrdProblem, check_crds};

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.example.com\n\
    spec:\n  group: example.com\n";
const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: a\nrules:\n- apiGroups: ['*']\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: sh.helm.release.v1.victim.v9}\ntype: helm.sh/release.v1\n";

/// The same CRD in JSON, on two lines.
fn json(kind: &str, more: &str) -> String {
    format!(
        "{{\"apiVersion\":\"apiextensions.k8s.io/v1\",\n\"kind\":\"{kind}\",\"metadata\":{{\"items\":[]}}{more}}}"
    )
}

/// The problem of a file in the folder of CRDs.
fn problem(content: impl AsRef<[u8]>) -> Option<CrdProblem> {
    let archive = Tar::chart().file("web/crds/a.yaml", content).tgz();
    match check_crds(&*archive, LIMITS) {
        Ok(()) => None,
        Err(ArchiveError::Crds { path, problem }) => {
            assert_eq!(path, "web/crds/a.yaml");
            Some(problem)
        }
        Err(error) => panic!("{error}"),
    }
}

fn kind(api_version: &str, kind: &str) -> CrdProblem {
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    CrdProblem::Kind { api_version, kind }
}

const fn line(line: usize) -> CrdProblem {
    CrdProblem::Line { line }
}

fn field(field: &str) -> CrdProblem {
    let field = field.to_owned();
    CrdProblem::Field { field }
}

#[test]
fn crds_and_other_objects_are_accepted_however_tools_write_them() {
    let quoted = CRD
        .replace(
            "CustomResourceDefinition",
            "'CustomResourceDefinition' # a comment",
        )
        .replace("apiextensions.k8s.io/v1", "\"apiextensions.k8s.io/v1beta1\"");
    let texts = [
        String::new(),
        "# nothing\n---\n  # more\n".to_owned(),
        CRD.to_owned(),
        quoted,
        format!("\u{feff}# Copyright\n\n--- # Source: web/crds/a.yaml\n{CRD}status: {{}}\n---\n---\n{CRD}"),
        CRD.replace('\n', "\r\n"),
        format!("{CRD}  description: |\n    kind: Secret\n\n  # kind: Secret\n    ---\n"),
        json("CustomResourceDefinition", ""),
        format!(
            " {0}\n{0}\n---\n{0}\n---\n{CRD}",
            json("CustomResourceDefinition", "")
        ),
        format!(
            "{CRD}---\n{ROLE}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  kind: Secret\n"
        ),
        format!("{CRD}...\n\n# more\n---\n{CRD}... \n"),
        // The largest document of a chart may be a line of JSON.
        json(
            "CustomResourceDefinition",
            &format!(",\"spec\":[{}1]", "1,".repeat(20_000)),
        ),
    ];
    for text in texts {
        assert_eq!(problem(&text), None, "{text}");
    }
}

#[test]
fn a_secret_is_refused_wherever_it_is() {
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}",
        CRD.replace('\n', "\n  ")
    );
    let secret = kind("v1", "Secret");
    for (text, expected) in [
        (SECRET.to_owned(), secret.clone()),
        (format!("{CRD}---\n{SECRET}"), secret.clone()),
        (
            format!("{}\n---\n{SECRET}", json("CustomResourceDefinition", "")),
            secret,
        ),
        (
            format!("{}{}", json("CustomResourceDefinition", ""), json("Secret", "")),
            kind("apiextensions.k8s.io/v1", "Secret"),
        ),
        (list.clone(), kind("v1", "List")),
        (
            list.replace("kind: List", "kind: SecretList"),
            kind("v1", "SecretList"),
        ),
        ("metadata: {name: a}\n".to_owned(), kind("", "")),
        ("{}".to_owned(), kind("", "")),
    ] {
        assert_eq!(problem(&text), Some(expected), "{text}");
    }
}

/// Kubernetes reads whatever has `items` as a list of other objects.
#[test]
fn an_object_that_is_a_list_is_refused() {
    let items = "items:\n- kind: Secret\n";
    assert_eq!(problem(format!("{CRD}{items}")), Some(field("items")));
    for more in [",\"items\":[{\"kind\":\"Secret\"}]", ",\"Items\":[]"] {
        let name = more.split('"').nth(1).unwrap();
        let crd = json("CustomResourceDefinition", more);
        assert_eq!(problem(crd), Some(field(name)));
    }
}

/// For another parser there can be another object in it.
#[test]
fn what_parsers_read_differently_is_refused() {
    for (text, expected) in [
        // The last value counts, or none.
        (format!("{CRD}kind: CustomResourceDefinition\n"), line(7)),
        // The keys of a mapping need not be plain texts.
        (format!("{CRD}\"kind\": Secret\n"), line(7)),
        (format!("{CRD}kind : Secret\n"), line(7)),
        (format!("{CRD}? kind\n: Secret\n"), line(7)),
        (format!("{CRD}<<: {{kind: Secret}}\n"), line(7)),
        (format!("{CRD}!!str kind: Secret\n"), line(7)),
        // A text in several lines.
        (
            format!("kind: CustomResourceDefinition\n  Secret\n{CRD}"),
            line(2),
        ),
        // A mapping that does not start at the start of its line.
        (format!("  kind: Secret\n{CRD}"), line(1)),
        (format!("\tkind: Secret\n{CRD}"), line(1)),
        (format!("{{kind: Secret}}\n{CRD}"), line(1)),
        // Other ends of documents.
        (format!("{CRD}...\nmetadata: {{}}\n"), line(8)),
        (format!("{CRD}...\n%YAML 1.1\n---\n{CRD}"), line(8)),
        (format!("--- {{kind: Secret}}\n{CRD}"), line(1)),
        (format!("%YAML 1.1\n---\n{CRD}"), line(1)),
        // Lines for YAML 1.1 only, also after a separator.
        (format!("{CRD}# more\u{2028}kind: Secret\n"), line(7)),
        (format!("--- # more\u{85}kind: Secret\n{CRD}"), line(1)),
        (format!("{CRD}# more\rkind: Secret\n"), line(7)),
        (json("CustomResourceDefinition", ",\"KIND\":\"Secret\""), line(1)),
        (format!("kind: A\n- Secret\n{CRD}"), line(2)),
        (format!("- kind: Secret\n{CRD}"), line(1)),
        // What follows the JSON.
        (
            format!("{}\nkind: Secret\n", json("CustomResourceDefinition", "")),
            line(3),
        ),
    ] {
        assert_eq!(problem(&text), Some(expected), "{text:?}");
    }
    assert_eq!(problem(b"kind: \xff"), Some(CrdProblem::NotText));
}

#[test]
fn all_folders_that_helm_reads_are_checked() {
    let inner = Tar::chart().file("web/charts/db/crds/a/b.YML", SECRET).tgz();
    let deep = Tar::chart().file("web/charts/inner-1.tgz", &inner).tgz();
    for (path, content, expected) in [
        ("web/crds/a.yaml", SECRET.as_bytes(), "web/crds/a.yaml"),
        ("web/crds/more/a.JSON", SECRET.as_bytes(), "web/crds/more/a.JSON"),
        // Equal without case, as Go compares it.
        ("web/crds/a.jſon", SECRET.as_bytes(), "web/crds/a.jſon"),
        (
            "web/charts/db/charts/x/crds/a.yaml",
            SECRET.as_bytes(),
            "web/charts/db/charts/x/crds/a.yaml",
        ),
        (
            "web/charts/deep-1.tgz",
            &*deep,
            "web/charts/deep-1.tgz in the archive: web/charts/inner-1.tgz in the archive: web/charts/db/crds/a/b.YML",
        ),
    ] {
        let archive = Tar::chart().file(path, content).tgz();
        let message = check_crds(&*archive, LIMITS).unwrap_err().to_string();
        let expected = format!(
            "{expected} in the archive contains an object of kind \"Secret\" and apiVersion \"v1\"; a folder crds is for \
             CustomResourceDefinitions, and must not have Secrets or lists, so move it to the folder templates of the chart"
        );
        assert_eq!(message, expected);
    }
}

#[test]
fn what_helm_does_not_read_there_may_be_anything() {
    let archive = [
        "web/crds/README.md",
        "web/crds/yaml",
        "web/crds/a.yaml.bak",
        "web/templates/crds/a.yaml",
        "web/files/crds/a.yaml",
        "web/crds.yaml",
        "web/charts/_old/crds/a.yaml",
        "web/charts/.cache/crds/a.yaml",
        "web/charts/crds/a.yaml",
    ]
    .into_iter()
    .fold(Tar::chart(), |tar, path| tar.file(path, SECRET));
    check_crds(&*archive.tgz(), LIMITS).unwrap();
}

#[test]
fn the_limits_are_those_of_the_archive() {
    let large = Tar::chart()
        .file("web/crds/a.yaml", vec![b' '; (64 << 10) + 1])
        .tgz();
    let error = check_crds(&*large, LIMITS).unwrap_err();
    assert!(matches!(error, ArchiveError::FileTooLarge { .. }), "{error}");
    let nested = (0..3).fold(Tar::chart().tgz(), |inner, _| {
        Tar::chart().file("web/charts/a-1.tgz", inner).tgz()
    });
    let error = check_crds(&*nested, LIMITS).unwrap_err();
    assert!(matches!(error, ArchiveError::TooDeep { .. }), "{error}");
    let whole = Tar::chart().file("web/crds/a.yaml", CRD).tgz();
    let error = check_crds(&whole[..whole.len() - 1], LIMITS).unwrap_err();
    assert!(matches!(error, ArchiveError::Gzip(_)), "{error}");
}
