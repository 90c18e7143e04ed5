//! Each row has a field of an Application, what a HelmOp has in its place, and which fields have a note.

use serde_json::{Value, json};

use super::CONVERSION;
use crate::create::{
    ChartFlags,
    batch::Batch,
    note::Gap,
    objects::{
        Objects, Settings,
        testing::{self, input, refusals, settings, settled},
    },
    report,
};

const SOURCE: &str =
    "  source: {repoURL: 'https://charts.example.com/', chart: web, targetRevision: 1.2.3}\n";
const AUTOMATED: &str = "  syncPolicy: {automated: {prune: true, selfHeal: true}}\n";

fn metadata(more: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: web, namespace: argocd, finalizers: \
         [resources-finalizer.argocd.argoproj.io]{more}}}\nspec:\n"
    )
}

/// An Application with nothing that needs a note, except for what is given.
fn app(spec: &str) -> String {
    let own = metadata("") + "  project: default\n" + spec;
    let of_argo = "  destination: {server: 'https://kubernetes.default.svc', namespace: shop}\n";
    let parts = [
        (" destination:", of_argo),
        (" source", SOURCE),
        (" syncPolicy:", AUTOMATED),
    ];
    let missing = parts.iter().filter(|(name, _)| !spec.contains(name));
    own + &missing.map(|(_, part)| *part).collect::<String>()
}

fn check(spec: &str, expected: &[(&str, Value)], noted: &[&str]) {
    testing::check(&CONVERSION, &app(spec), expected, noted);
}

fn with_helm(helm: &str) -> String {
    SOURCE.replace("}\n", &format!(", helm: {helm}}}\n"))
}

/// The same for fields of `helm`.
fn check_helm(helm: &str, pointer: &str, expected: Value, noted: &str) {
    let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
    check(&with_helm(helm), &[(pointer, expected)], &noted);
}

fn refuse(spec: &str, gap: Gap, part: &str) {
    testing::check_refusal(&CONVERSION, &app(spec), gap, part);
}

#[test]
fn defaults_of_argo_cd_are_written() {
    let action = json!({ "crds": "CreateReplace", "retries": 5, "retryInterval": "31s" });
    let expected = json!({
        "defaultNamespace": "shop",
        "helm": {
            "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3", "releaseName": "web", "takeOwnership": true,
        },
        "lifecycle": {
            "install": action, "upgrade": action, "wait": { "disable": true }, "drift": { "mode": "enabled" },
            "uninstall": { "deletionPropagation": "foreground" },
        },
    });
    check("", &[("/spec", expected)], &[]);
    check("  unknown: 1\n", &[], &["spec.unknown"]);
}

#[test]
fn a_chart_is_found_where_argo_cd_finds_it() {
    for (source, repo, name, version, noted) in [
        (
            "repoURL: ghcr.io/org/charts, chart: web, targetRevision: 1.2.3",
            "oci://ghcr.io/org/charts/web",
            Value::Null,
            json!("1.2.3"),
            "",
        ),
        (
            "repoURL: 'oci://h/charts/web', targetRevision: 1.2.3, path: .",
            "oci://h/charts/web",
            Value::Null,
            json!("1.2.3"),
            "",
        ),
        (
            "repoURL: 'oci://h/charts/web', targetRevision: 1.2.3, path: ./",
            "oci://h/charts/web",
            Value::Null,
            json!("1.2.3"),
            "",
        ),
        (
            "repoURL: 'oci://h/charts/web', chart: web, targetRevision: 1.2.3",
            "oci://h/charts/web",
            Value::Null,
            json!("1.2.3"),
            "",
        ),
        (
            "repoURL: 'oci://h/charts', chart: web, targetRevision: 1.2.3",
            "oci://h/charts/web",
            Value::Null,
            json!("1.2.3"),
            "spec.source.chart",
        ),
        (
            "repoURL: 'https://h', chart: web, targetRevision: '*'",
            "https://h",
            json!("web"),
            Value::Null,
            "",
        ),
        (
            "repoURL: 'https://h', chart: web",
            "https://h",
            json!("web"),
            Value::Null,
            "",
        ),
        (
            "repoURL: 'https://h', chart: web, targetRevision: '>=1 <2'",
            "https://h",
            json!("web"),
            json!(">=1 <2"),
            "",
        ),
    ] {
        let expected = [
            ("/spec/helm/repo", json!(repo)),
            ("/spec/helm/chart", name),
            ("/spec/helm/version", version),
        ];
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check(&format!("  source: {{{source}}}\n"), &expected, &noted);
    }
    let range = SOURCE.replace("1.2.3", "1.x");
    let polled = |interval| [("/spec/pollingInterval", interval)];
    check(&range, &polled(json!("3m")), &[]);
    check(SOURCE, &polled(Value::Null), &[]);
    let by_hand = format!("{range}  syncPolicy: {{}}\n");
    check(&by_hand, &polled(Value::Null), &["spec.syncPolicy.automated"]);
}

#[test]
fn what_is_no_chart_is_refused() {
    let git = "repoURL: 'https://git.example.com/a'";
    for (spec, gap, part) in [
        (
            format!("  source: {{{git}, path: a, targetRevision: 1.x, tagPrefix: web-}}\n"),
            Gap::Unpublished,
            "spec.source.tagPrefix: tags with a prefix are no versions here",
        ),
        (
            format!("  source: {{{git}, path: ../a}}\n"),
            Gap::Valid,
            "spec.chartSource.git.path: Invalid value",
        ),
        (
            "  source: {repoURL: 'oci://h/apps', targetRevision: 1.2.3, path: apps/web}\n".to_owned(),
            Gap::Unpublished,
            "spec.source.path: a folder of an artifact is not converted: write a HelmOp with \"apps/web\" in spec.chartSource.oci",
        ),
        (
            format!("  source: {{{git}, path: a, kustomize: {{}}}}\n"),
            Gap::Source,
            "spec.source: only Helm charts become HelmOps",
        ),
        (
            format!("  source: {{{git}, path: a, directory: {{recurse: true}}}}\n"),
            Gap::Source,
            "spec.source: only Helm charts",
        ),
        (
            format!("  source: {{{git}, path: a, plugin: {{name: b}}}}\n"),
            Gap::Source,
            "spec.source: only Helm charts",
        ),
        (
            format!("  sources: [{{{git}, path: a}}, {{{git}, path: b}}]\n"),
            Gap::Source,
            "spec.sources[1]: only Helm charts",
        ),
        (
            "  sources: [{repoURL: 'https://h', chart: a}, {repoURL: 'https://h', chart: b}]\n".to_owned(),
            Gap::Source,
            "spec.sources: a HelmOp has one chart",
        ),
        (
            "  sourceHydrator: {drySource: {path: a}}\n".to_owned(),
            Gap::Unpublished,
            "spec.sourceHydrator: objects that are rendered into Git",
        ),
        (
            "  sources: []\n".to_owned(),
            Gap::Unpublished,
            "spec.source: an Application has a source",
        ),
        (
            SOURCE.replace("1.2.3", "1.10"),
            Gap::Valid,
            "1.10 is a number; write it in quotes",
        ),
        (
            "  source: {repoURL: 'https://h', chart: 5, targetRevision: 1.2.3}\n".to_owned(),
            Gap::Valid,
            "spec.source.chart: 5 is a number; write it in quotes",
        ),
        (
            "  source: {repoURL: 5, chart: web, targetRevision: 1.2.3}\n".to_owned(),
            Gap::Valid,
            "spec.source.repoURL: 5 is a number; write it in quotes",
        ),
        (
            "  source: {chart: web, targetRevision: 1.2.3}\n".to_owned(),
            Gap::Chart,
            "spec.source.repoURL: Required value: the URL of the repository",
        ),
        (
            "  source: {targetRevision: 1.2.3, helm: {values: 'a: 1'}}\n".to_owned(),
            Gap::Unpublished,
            "spec.source.repoURL: Required value: the URL of the repository",
        ),
        (SOURCE.replace("1.2.3", "main"), Gap::Valid, "spec.helm.version"),
    ] {
        refuse(&spec, gap, part);
    }
    // Flags name where the chart of a folder is published.
    let text = app(&format!(
        "  source: {{{git}, path: charts/web, helm: {{values: 'a: 1'}}}}\n"
    ));
    let objects = Objects::of(input(&CONVERSION, &[("a.yaml", &text)], false), settings()).unwrap();
    let batch = published(objects.batch(None).unwrap());
    let helm = json!(batch.drafts[0].helmop.spec.bundle.options.helm);
    assert_eq!(
        (&helm["chart"], &helm["values"]),
        (&json!("web"), &json!({ "a": 1 }))
    );
}

/// The first HelmOp, with flags that name where its chart is published.
fn published(mut batch: Batch) -> Batch {
    let flags = ChartFlags {
        repo: Some("https://charts.example.com".to_owned()),
        version: Some("1.2.3".to_owned()),
        ..ChartFlags::default()
    };
    flags.apply(&mut batch.drafts[0].helmop).unwrap();
    batch.settle(&[]);
    batch
}

#[test]
fn a_folder_in_git_may_be_a_chart() {
    let git = "repoURL: 'https://git.example.com/a.git', path: ./charts/web/";
    let [path, revision] = ["spec.source.path", "spec.source.targetRevision"];
    let source = |reference: Value| {
        let mut source = json!({ "url": "https://git.example.com/a.git", "path": "charts/web" });
        if !reference.is_null() {
            source["ref"] = reference;
        }
        source
    };
    for (more, reference, noted) in [
        (", helm: {valueFiles: [prod.yaml]}", Value::Null, &[][..]),
        (", targetRevision: HEAD, helm: {}", Value::Null, &[]),
        ("", Value::Null, &[path]),
        (
            ", targetRevision: main, helm: {}",
            json!({ "branch": "main" }),
            &[],
        ),
        (
            ", targetRevision: prod, helm: {}",
            json!({ "branch": "prod" }),
            &[revision],
        ),
        (", targetRevision: 1.x, helm: {}", json!({ "semver": "1.x" }), &[]),
        (
            ", targetRevision: v1.2, helm: {}",
            json!({ "tag": "v1.2" }),
            &[revision],
        ),
        (
            ", targetRevision: refs/tags/a, helm: {}",
            json!({ "tag": "a" }),
            &[],
        ),
        (", tagPrefix: web-, helm: {}", Value::Null, &[]),
    ] {
        let expected = [
            ("/spec/chartSource/git", source(reference)),
            ("/spec/pollingInterval", json!("3m")),
            ("/spec/helm/chart", Value::Null),
        ];
        check(&format!("  source: {{{git}{more}}}\n"), &expected, noted);
    }
    let ssh = "  source: {repoURL: 'git@git.example.com:a', path: ., helm: {values: 'a: 1'}}\n";
    let expected = json!({ "url": "git@git.example.com:a" });
    check(ssh, &[("/spec/chartSource/git", expected)], &[]);
    let outside = format!("  source: {{{git}, helm: {{valueFiles: [/charts/web/a.yaml, /b.yaml]}}}}\n");
    let expected = [("/spec/helm/valuesFiles", json!(["a.yaml"]))];
    check(&outside, &expected, &["spec.source.helm.valueFiles!"]);
}

#[test]
fn a_git_server_gets_other_logins() {
    let source = |url: &str| format!("  source: {{repoURL: '{url}', path: web, helm: {{values: 'a: 1'}}}}\n");
    let [https, ssh] = ["https://git.example.com/a.git", "ssh://git@git.example.com/a.git"];
    for (url, data, expected, name, skips, noted) in [
        (
            https,
            "username: a, password: b",
            json!({ "username": "a", "password": "b" }),
            "own",
            false,
            "",
        ),
        (
            https,
            "password: t",
            json!({ "username": "x-access-token", "password": "t" }),
            "own",
            false,
            "",
        ),
        (
            https,
            "bearerToken: t, insecure: 'true'",
            json!({ "bearerToken": "t" }),
            "own",
            true,
            "",
        ),
        (
            https,
            "tlsClientCertData: a, tlsClientCertKey: b",
            Value::Null,
            "",
            false,
            "spec.source.repoURL",
        ),
        (
            ssh,
            "sshPrivateKey: k, insecure: 'true'",
            Value::Null,
            "own",
            false,
            "spec.source.repoURL",
        ),
    ] {
        // Argo CD finds it, although it is written in another way.
        let own = if url == ssh {
            "git@Git.example.com:/a"
        } else {
            "https://GIT.example.com/a"
        };
        let text = app(&source(url)) + &secret("own", "repository", own, data);
        let batch = settled(input(&CONVERSION, &[("a.yaml", &text)], false), settings(), &[]);
        let [draft] = &batch.drafts[..] else {
            panic!("{:?}", refusals(&batch))
        };
        let found = draft.objects.first();
        let found = found.map_or(Value::Null, |secret| secret["stringData"].clone());
        assert_eq!(found, expected, "{data}");
        let git = draft.helmop.spec.git().unwrap();
        assert_eq!(
            git.secret_ref.as_ref().map_or("", |secret| &secret.name),
            name,
            "{data}"
        );
        assert_eq!(draft.helmop.spec.helm_secret_name, "");
        assert_eq!(draft.helmop.spec.insecure_skip_tls_verify, skips, "{data}");
        let paths: Vec<_> = draft.notes.iter().map(|note| &*note.path).collect();
        assert_eq!(paths.join(" "), noted, "{data}");
        // What holds for the Git server does not for another one.
        let objects = Objects::of(input(&CONVERSION, &[("a.yaml", &text)], false), settings()).unwrap();
        let batch = published(objects.batch(None).unwrap());
        let [draft] = &batch.drafts[..] else {
            panic!("{:?}", refusals(&batch))
        };
        assert!(!draft.helmop.spec.insecure_skip_tls_verify, "{data}");
        assert_eq!(draft.objects, Vec::<Value>::new(), "{data}");
    }
}

#[test]
fn other_sources_are_not_deployed() {
    let chart = "{repoURL: 'https://h', chart: web, targetRevision: 1.2.3}";
    let git = "repoURL: 'https://git.example.com/a', targetRevision: main";
    check(
        &format!("  source: {{path: x}}\n  sources: [{chart}, {{{git}, ref: values}}]\n"),
        &[("/spec/helm/chart", json!("web"))],
        &[],
    );
    check(
        &format!("  sources: [{chart}, {{{git}, path: more}}]\n"),
        &[],
        &["spec.sources[1]!"],
    );
    check(
        &format!("  sources: [{{{git}, ref: values, x: 1}}, {chart}]\n"),
        &[],
        &["spec.sources[0].x"],
    );
}

#[test]
fn values_have_the_precedence_of_argo_cd() {
    for (helm, expected) in [
        ("{values: 'a: 1'}", json!({ "a": 1 })),
        ("{values: 'a: 1', valuesObject: {b: 2}}", json!({ "b": 2 })),
        ("{values: 'a: 1', valuesObject: {}}", Value::Null),
        (
            "{valuesObject: {a: 1, b: 1}, parameters: [{name: b, value: '2'}]}",
            json!({ "a": 1, "b": 2 }),
        ),
        (
            "{parameters: [{name: a.b, value: 'true'}, {name: a.c, value: 'true', forceString: true}]}",
            json!({ "a": { "b": true, "c": "true" } }),
        ),
        (
            "{parameters: [{name: a, value: x}, {name: a, value: z}]}",
            json!({ "a": "z" }),
        ),
        // Texts are set after all others.
        (
            "{parameters: [{name: a, value: '1', forceString: true}, {name: a, value: '2'}]}",
            json!({ "a": "1" }),
        ),
        (
            "{parameters: [{name: a, value: 'x,b=1'}, {name: c, value: '{x,z}'}, {name: d, value: 'x\\,z'}]}",
            json!({ "a": "x,b=1", "c": ["x", "z"], "d": "x,z" }),
        ),
        (
            "{parameters: [{name: 'a\\.b', value: 'null'}, {name: 'c[1]', value: 1.5e3}]}",
            Value::Null,
        ),
        (
            "{parameters: [{name: 'a\\.b', value: 'null'}, {name: 'c[1]', value: x}, {name: d, value: $$x}]}",
            json!({ "a.b": null, "c": [null, "x"], "d": "$x" }),
        ),
        ("{parameters: [{name: a}]}", json!({ "a": "" })),
        ("{valuesObject: {a: '${x}'}}", json!({ "a": "${x}" })),
    ] {
        if helm.contains("1.5e3") {
            refuse(&with_helm(helm), Gap::Valid, "write it in quotes");
        } else {
            check_helm(helm, "/spec/helm/values", expected, "");
        }
    }
    check_helm(
        "{valuesObject: {a: '${x}'}}",
        "/spec/helm/disablePreProcess",
        json!(true),
        "",
    );
    for (helm, gap, part) in [
        (
            "{values: 'a'}",
            Gap::Valid,
            "spec.source.helm.values: the text is no mapping of values",
        ),
        (
            "{valuesObject: [a]}",
            Gap::Source,
            "spec.source.helm.valuesObject: this is no mapping",
        ),
        (
            "{parameters: [{name: 'a[x]', value: b}]}",
            Gap::Valid,
            "parameters[0].name: Helm cannot set \"a[x]\": an index is not a number",
        ),
        (
            "{parameters: [{name: a, value: 'x-$ARGOCD_APP_NAME'}]}",
            Gap::Variable,
            "parameters[0].value: Argo CD replaces \"$ARGOCD_APP_NAME\"",
        ),
        (
            "{version: v2}",
            Gap::Valid,
            "spec.source.helm.version: Helm v2 is not supported",
        ),
    ] {
        refuse(&with_helm(helm), gap, part);
    }
}

#[test]
fn settings_of_helm_keep_their_meaning() {
    let name = "/spec/helm/releaseName";
    for (helm, pointer, expected, noted) in [
        ("{releaseName: other}", name, json!("other"), ""),
        ("{namespace: shop}", name, json!("web"), ""),
        (
            "{namespace: other}",
            name,
            json!("web"),
            "spec.source.helm.namespace!",
        ),
        (
            "{skipCrds: true}",
            "/spec/lifecycle/upgrade/crds",
            json!("Skip"),
            "",
        ),
        (
            "{skipCrds: false}",
            "/spec/lifecycle/install/crds",
            json!("CreateReplace"),
            "",
        ),
        (
            "{skipSchemaValidation: true}",
            "/spec/helm/skipSchemaValidation",
            json!(true),
            "",
        ),
        ("{skipTests: true, version: v3}", name, json!("web"), ""),
        (
            "{passCredentials: true}",
            name,
            json!("web"),
            "spec.source.helm.passCredentials",
        ),
        (
            "{kubeVersion: 1.30.0}",
            name,
            json!("web"),
            "spec.source.helm.kubeVersion!",
        ),
        (
            "{apiVersions: [v1/Service]}",
            name,
            json!("web"),
            "spec.source.helm.apiVersions!",
        ),
        ("{apiVersions: []}", name, json!("web"), ""),
        (
            "{fileParameters: [{name: a, path: b}]}",
            name,
            json!("web"),
            "spec.source.helm.fileParameters!",
        ),
        ("{other: 1}", name, json!("web"), "spec.source.helm.other"),
        (
            "{valueFiles: [a.yaml, ./b/c.yaml], ignoreMissingValueFiles: true}",
            "/spec/helm/valuesFiles",
            json!(["a.yaml", "b/c.yaml"]),
            "",
        ),
        (
            "{ignoreMissingValueFiles: true}",
            "/spec/lifecycle/ignoreMissingValuesFiles",
            json!(true),
            "",
        ),
        (
            "{valueFiles: [a.yaml, 'https://h/b.yaml']}",
            "/spec/helm/valuesFiles",
            json!(["a.yaml"]),
            "spec.source.helm.valueFiles!",
        ),
    ] {
        check_helm(helm, pointer, expected, noted);
    }
}

/// Every field of an Application that is not converted has a note.
#[test]
fn no_field_is_lost_without_a_note() {
    let spec = "  source: {repoURL: 'https://h', chart: web, targetRevision: 1.2.3, a: 1, helm: {b: 1, parameters: [{name: x, c: 1}]}}\n  destination: \
                {name: in-cluster, namespace: shop, d: 1}\n  syncPolicy: {e: 1, automated: {prune: true, f: 1}, retry: {g: 1, backoff: {h: 1}}, \
                managedNamespaceMetadata: {i: 1}}\n  ignoreDifferences: [{kind: A, j: 1}]\n  k: 1\n";
    let expected = [
        "spec.destination.d",
        "spec.ignoreDifferences[0].j",
        "spec.k",
        "spec.source.a",
        "spec.source.helm.b",
        "spec.source.helm.parameters[0].c",
        "spec.syncPolicy.automated.f",
        "spec.syncPolicy.e",
        "spec.syncPolicy.managedNamespaceMetadata",
        "spec.syncPolicy.managedNamespaceMetadata.i",
        "spec.syncPolicy.retry.backoff.h",
        "spec.syncPolicy.retry.g",
    ];
    check(spec, &[], &expected);
}

/// The values of another source are in Git, and a folder that is converted may have them.
#[test]
fn a_null_has_the_position_of_its_value() {
    let with = |helm: &str| {
        app(&format!(
            "  sources:\n  - {{repoURL: 'https://git.example.com/a', ref: values}}\n  - repoURL: https://h\n    chart: web\n    targetRevision: 1.2.3\n    \
             helm:\n      {helm}\n"
        ))
    };
    for (helm, expected) in [
        (
            "valuesObject: {a: {b: null}}",
            "a.yaml:12:26 spec.helm.values.a.b",
        ),
        ("values: 'a: {b: null}'", "a.yaml:12:7 spec.helm.values.a.b"),
        (
            "parameters: [{name: a.b, value: 'null'}]",
            "a.yaml:12:32 spec.helm.values.a.b",
        ),
        ("valueFiles: [$values/b.yaml]", "b.yaml:2:3 spec.helm.values.a.b"),
    ] {
        let text = with(helm);
        let files = [("a.yaml", &*text), ("b.yaml", "a:\n  b:\n")];
        testing::check_nulls(&CONVERSION, &files, &[expected]);
    }
}

/// Argo CD takes a version by its text, also with a `v`.
#[test]
fn only_what_can_change_is_polled() {
    for (version, expected) in [
        ("1.x", json!("3m")),
        ("1.2.3", Value::Null),
        ("v1.2.3", Value::Null),
        ("v1.2", json!("3m")),
    ] {
        let spec = SOURCE.replace("1.2.3", version);
        check(&spec, &[("/spec/pollingInterval", expected)], &[]);
    }
}

#[test]
fn files_of_values_are_found_in_the_folder() {
    let values = |files: &str, more: &[(&str, &str)]| {
        let sources = format!(
            "  sources: [{{repoURL: 'https://h', chart: web, targetRevision: 1.2.3, helm: {{valueFiles: [{files}], values: 'b: own'}}}}, {{repoURL: \
             'https://git.example.com/a', ref: values}}]\n"
        );
        let text = app(&sources);
        let all: Vec<_> = [("apps/web.yaml", &*text)]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        let batch = settled(input(&CONVERSION, &all, true), settings(), &[]);
        match batch.drafts.first() {
            Some(draft) => {
                let helm = json!(draft.helmop.spec.bundle.options.helm);
                let paths: Vec<_> = draft.notes.iter().map(|note| note.path.clone()).collect();
                assert!(
                    paths.iter().all(|path| path == "spec.sources[0].helm.valueFiles"),
                    "{paths:?}"
                );
                format!(
                    "{} {} left out {}",
                    helm["values"], helm["valuesFiles"], batch.left_out.others
                )
            }
            None => refusals(&batch).into_iter().map(|(_, text)| text).collect(),
        }
    };
    let base = ("envs/base.yaml", "a: base\nb: base\nc: base\n");
    let prod = ("envs/prod.yaml", "a: prod\n");
    let encrypted = ("envs/base.yaml", "a: ENC[x]\nsops: {mac: x}\n");
    let of_kind = ("envs/base.yaml", "kind: DaemonSet\n");
    let both = "'$values/envs/base.yaml', '$values/envs/prod.yaml'";
    assert_eq!(
        values(both, &[base, prod]),
        r#"{"a":"prod","b":"own","c":"base"} null left out 0"#
    );
    assert_eq!(
        values(&format!("x.yaml, {both}"), &[base, prod]),
        r#"{"a":"prod","b":"own","c":"base"} ["x.yaml"] left out 0"#
    );
    assert_eq!(
        values("'$values/envs/base.yaml'", &[of_kind]),
        r#"{"b":"own","kind":"DaemonSet"} null left out 0"#
    );
    let repo = [("repo/envs/base.yaml", base.1), ("repo/envs/prod.yaml", prod.1)];
    assert_eq!(
        values(both, &repo),
        r#"{"a":"prod","b":"own","c":"base"} null left out 0"#
    );
    for (files, more, part) in [
        (
            both,
            &[base][..],
            "\"$values/envs/prod.yaml\" is in https://git.example.com/a, and not in the chart: convert the folder with its files",
        ),
        (
            "'$values/envs/base.yaml', x.yaml",
            &[base],
            "\"x.yaml\" is not in the chart, or overrides a file that is not",
        ),
        (
            "'$other/envs/base.yaml'",
            &[base],
            "\"$other/envs/base.yaml\" is not in the chart",
        ),
        (
            "'$values/envs/base.yaml'",
            &[encrypted],
            "\"$values/envs/base.yaml\" is encrypted with SOPS: decrypt it",
        ),
        (
            "'$values/envs/*.yaml'",
            &[base],
            "\"$values/envs/*.yaml\" names several files of https://git.example.com/a",
        ),
        (
            "'$values/base.yaml'",
            &[base, ("other/base.yaml", "a: 1\n")],
            "may be each of envs/base.yaml, other/base.yaml: convert the folder",
        ),
    ] {
        let found = values(files, more);
        assert!(found.contains(part), "{found}");
    }
}

#[test]
fn the_cluster_is_that_of_the_flags() {
    let destination = |text: &str| format!("  destination: {{{text}}}\n");
    for (text, noted) in [
        ("name: in-cluster, namespace: shop", ""),
        ("server: 'https://kubernetes.default.svc/', namespace: shop", ""),
        ("name: prod, namespace: shop", "spec.destination.name!"),
        (
            "server: 'https://192.0.2.1:6443', namespace: shop",
            "spec.destination.server!",
        ),
        ("name: in-cluster", "spec.destination.namespace"),
    ] {
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check(&destination(text), &[], &noted);
    }
    let text = app(&destination("name: prod, namespace: shop"));
    let of = |clusters: &[&str]| {
        let settings = Settings {
            clusters: clusters.iter().copied().map(str::to_owned).collect(),
            ..settings()
        };
        settled(input(&CONVERSION, &[("a.yaml", &text)], false), settings, &[])
            .drafts
            .len()
    };
    assert_eq!((of(&["prod"]), of(&["test"]), of(&["prod", "test"])), (1, 0, 0));
}

#[test]
fn a_policy_decides_about_drift_and_retries() {
    let interval = |seconds: &str| json!({ "crds": "CreateReplace", "retries": 2, "retryInterval": seconds });
    let install = "/spec/lifecycle/install";
    let automated = "automated: {prune: true}";
    for (policy, pointer, expected, noted) in [
        (
            "automated: {prune: true, selfHeal: false}",
            "/spec/lifecycle/drift",
            Value::Null,
            "",
        ),
        (
            "automated: {selfHeal: true}",
            "/spec/lifecycle/drift/mode",
            json!("enabled"),
            "spec.syncPolicy.automated.prune",
        ),
        (
            "automated: {prune: true, allowEmpty: true, enabled: true}",
            install,
            json!({ "crds": "CreateReplace", "retries": 5, "retryInterval": "31s" }),
            "",
        ),
        (
            "automated: {selfHeal: true, enabled: false}",
            "/spec/lifecycle/drift",
            Value::Null,
            "spec.syncPolicy.automated",
        ),
        (
            "",
            install,
            json!({ "crds": "CreateReplace" }),
            "spec.syncPolicy.automated",
        ),
        (
            "retry: {limit: 2}",
            install,
            interval("8s"),
            "spec.syncPolicy.automated",
        ),
    ] {
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check(
            &format!("  syncPolicy: {{{policy}}}\n"),
            &[(pointer, expected)],
            &noted,
        );
    }
    for (retry, expected, noted) in [
        ("limit: 2, refresh: true", interval("8s"), ""),
        ("limit: 2, backoff: {duration: '10'}", interval("15s"), ""),
        (
            "limit: 2, backoff: {duration: 10s, factor: 1, maxDuration: 5m}",
            interval("10s"),
            "",
        ),
        (
            "limit: 2, backoff: {duration: 10s, maxDuration: 5s}",
            interval("5s"),
            "",
        ),
        (
            "limit: 2, backoff: {duration: 2m, maxDuration: '0'}",
            interval("60s"),
            "",
        ),
        ("limit: 0", json!({ "crds": "CreateReplace" }), ""),
        (
            "limit: -1",
            json!({ "crds": "CreateReplace", "retries": 1000, "retryInterval": "60s" }),
            "spec.syncPolicy.retry.limit",
        ),
        (
            "other: 1",
            json!({ "crds": "CreateReplace" }),
            "spec.syncPolicy.retry.other",
        ),
    ] {
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check(
            &format!("  syncPolicy: {{{automated}, retry: {{{retry}}}}}\n"),
            &[(install, expected.clone()), ("/spec/lifecycle/upgrade", expected)],
            &noted,
        );
    }
    let often = format!("  syncPolicy: {{{automated}, retry: {{limit: 2, backoff: {{duration: often}}}}}}\n");
    refuse(
        &often,
        Gap::Valid,
        "spec.syncPolicy.retry.backoff.duration: \"often\" is no duration",
    );
}

#[test]
fn options_keep_their_meaning() {
    let created = "/spec/createNamespace";
    let options = "spec.syncPolicy.syncOptions";
    // That of the finalizer.
    let propagation = "/spec/lifecycle/uninstall/deletionPropagation";
    for (option, pointer, expected, noted) in [
        ("CreateNamespace=true", created, Value::Null, ""),
        ("CreateNamespace=false", created, json!(false), ""),
        ("Replace=true", "/spec/helm/force", json!(true), ""),
        ("Replace=false", "/spec/helm/force", Value::Null, ""),
        ("Delete=false", "/spec/lifecycle/onDelete", json!("Keep"), ""),
        ("ServerSideApply=true", created, Value::Null, ""),
        ("ApplyOutOfSyncOnly=true", created, Value::Null, ""),
        ("SkipDryRunOnMissingResource=true", created, Value::Null, ""),
        ("PruneLast=true", created, Value::Null, ""),
        ("Validate=false", created, Value::Null, ""),
        ("Prune=true", created, Value::Null, ""),
        ("Prune=false", created, Value::Null, options),
        ("Delete=confirm", created, Value::Null, options),
        ("PrunePropagationPolicy=background", created, Value::Null, ""),
        (
            "PrunePropagationPolicy=foreground",
            propagation,
            json!("foreground"),
            options,
        ),
        (
            "PrunePropagationPolicy=orphan",
            propagation,
            json!("foreground"),
            options,
        ),
        ("FailOnSharedResource=true", created, Value::Null, options),
        ("FailOnSharedResource=false", created, Value::Null, ""),
        ("RespectIgnoreDifferences=true", created, Value::Null, ""),
        ("New=true", created, Value::Null, options),
    ] {
        let spec = AUTOMATED.replace("}}", &format!("}}, syncOptions: ['{option}']}}"));
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check(&spec, &[(pointer, expected)], &noted);
    }
    let ignored = "  ignoreDifferences: [{kind: Deployment, jsonPointers: [/spec/replicas]}]\n";
    let respected = AUTOMATED.replace("}}", "}, syncOptions: [RespectIgnoreDifferences=true]}");
    check(&format!("{ignored}{respected}"), &[], &[options]);
    let metadata = "managedNamespaceMetadata: {labels: {a: b}, annotations: {c: d}}";
    let field = "spec.syncPolicy.managedNamespaceMetadata";
    let with = |more: &str| AUTOMATED.replace("}}", &format!("}}, {more}{metadata}}}"));
    let expected = [
        ("/spec/namespaceLabels", json!({ "a": "b" })),
        ("/spec/namespaceAnnotations", json!({ "c": "d" })),
    ];
    check(
        &with("syncOptions: [CreateNamespace=true], "),
        &expected,
        &[field],
    );
    check(&with(""), &[("/spec/namespaceLabels", Value::Null)], &[field]);
}

#[test]
fn differences_are_ignored_as_pointers() {
    let ignore = "/spec/lifecycle/drift/ignore";
    for (entry, expected, field) in [
        (
            "group: apps, kind: Deployment, name: a.b, namespace: shop, jsonPointers: [/spec/replicas], jqPathExpressions: [.spec.paused]",
            json!([{ "paths": ["/spec/replicas", "/spec/paused"], "target": { "group": "apps", "kind": "Deployment", "name": "a\\.b", "namespace": "shop" } }]),
            "",
        ),
        (
            "group: '*', kind: '*', jsonPointers: [/a]",
            json!([{ "paths": ["/a"] }]),
            "",
        ),
        (
            "kind: Secret, jqPathExpressions: ['.data[]']",
            Value::Null,
            "jqPathExpressions",
        ),
        (
            "kind: Secret, managedFieldsManagers: [a]",
            Value::Null,
            "managedFieldsManagers",
        ),
        (
            "kind: Secret, jsonPointers: [/a], other: 1",
            json!([{ "paths": ["/a"], "target": { "kind": "Secret" } }]),
            "other",
        ),
    ] {
        let path = format!("spec.ignoreDifferences[0].{field}");
        let spec = format!("  ignoreDifferences: [{{{entry}}}]\n");
        let is_lost = matches!(field, "jqPathExpressions" | "managedFieldsManagers");
        let refused = format!("{path}!");
        let noted: Vec<_> = [if is_lost { &*refused } else { &*path }]
            .into_iter()
            .filter(|_| !field.is_empty())
            .collect();
        check(
            &spec,
            &[
                (ignore, expected.clone()),
                ("/spec/lifecycle/drift/mode", json!("enabled")),
            ],
            &noted,
        );
        // Drift that is only reported changes nothing.
        let noted: Vec<_> = [&*path].into_iter().filter(|_| !field.is_empty()).collect();
        check(
            &format!("{spec}  syncPolicy: {{automated: {{prune: true}}}}\n"),
            &[(ignore, expected)],
            &noted,
        );
    }
    refuse(
        "  ignoreDifferences: [{group: '*.example.com', kind: A, jsonPointers: [/a]}]\n",
        Gap::Valid,
        "a HelmOp has patterns in name and namespace only",
    );
    refuse(
        "  ignoreDifferences: [{kind: A, jsonPointers: [a]}]\n",
        Gap::Valid,
        "spec.lifecycle.drift.ignore[0].paths[0]",
    );
}

#[test]
fn metadata_of_argo_cd_has_notes() {
    let field = "metadata.annotations";
    for (annotation, noted) in [
        ("argocd.argoproj.io/sync-wave: '3'", field),
        ("argocd.argoproj.io/sync-wave: '0'", ""),
        ("argocd.argoproj.io/refresh: normal", ""),
        (
            "notifications.argoproj.io/subscribe.on-sync-failed.slack: a",
            field,
        ),
        ("argocd-image-updater.argoproj.io/image-list: a", field),
        ("argocd.argoproj.io/skip-reconcile: 'true'", field),
    ] {
        let text = app("").replace(
            &metadata(""),
            &metadata(&format!(
                ", annotations: {{{annotation}, argoproj.io/x: a, notargoproj.io/x: shop}}"
            )),
        );
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        let suspended = annotation.contains("skip").then_some(true);
        let expected = [
            ("/metadata/annotations", json!({ "notargoproj.io/x": "shop" })),
            ("/spec/lifecycle/suspend", json!(suspended)),
        ];
        testing::check(&CONVERSION, &text, &expected, &noted);
    }
    let keep = json!("Keep");
    for (finalizers, on_delete, propagation, noted) in [
        (
            "[resources-finalizer.argocd.argoproj.io]",
            Value::Null,
            json!("foreground"),
            "",
        ),
        (
            "[resources-finalizer.argocd.argoproj.io/foreground]",
            Value::Null,
            json!("foreground"),
            "",
        ),
        (
            "[other, resources-finalizer.argocd.argoproj.io/background, resources-finalizer.argocd.argoproj.io]",
            Value::Null,
            Value::Null,
            "",
        ),
        (
            "[resources-finalizer.argocd.argoproj.io/other]",
            keep.clone(),
            Value::Null,
            "metadata.finalizers",
        ),
        ("[other]", keep.clone(), Value::Null, "metadata.finalizers"),
        ("[]", keep, Value::Null, "metadata.finalizers"),
    ] {
        let text = app("").replace("[resources-finalizer.argocd.argoproj.io]", finalizers);
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        let expected = [
            ("/spec/lifecycle/onDelete", on_delete),
            ("/spec/lifecycle/uninstall/deletionPropagation", propagation),
        ];
        testing::check(&CONVERSION, &text, &expected, &noted);
    }
    let history = "/spec/helm/maxHistory";
    for (spec, expected, noted) in [
        ("  revisionHistoryLimit: 3\n", json!(3), ""),
        (
            "  revisionHistoryLimit: 0\n",
            Value::Null,
            "spec.revisionHistoryLimit",
        ),
        ("  info: [{name: a, value: b}]\n", Value::Null, "spec.info"),
    ] {
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check(spec, &[(history, expected)], &noted);
    }
    let text = app("").replace("project: default", "project: shop");
    testing::check(&CONVERSION, &text, &[], &["spec.project"]);
    let text = app("") + "operation: {sync: {}}\nstatus: {x: 1}\n";
    testing::check(&CONVERSION, &text, &[], &["operation"]);
}

const LOGIN: &str = "username: a, password: b";

/// A Secret of Argo CD.
fn secret(name: &str, kind: &str, url: &str, data: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: argocd, labels: {{argocd.argoproj.io/secret-type: \
         {kind}}}}}\nstringData: {{url: '{url}', type: helm, {data}}}\n"
    )
}

#[test]
fn a_login_is_found_by_its_url() {
    let login = LOGIN;
    for (secrets, expected, noted) in [
        (
            secret("own", "repository", "https://charts.example.com", login),
            "own",
            "",
        ),
        (
            secret("own", "repository", "https://other.example.com", login),
            "",
            "",
        ),
        (
            secret("own", "repository", "https://charts.example.com/", login)
                + &secret("all", "repo-creds", "https://charts.example.com/", login),
            "own",
            "",
        ),
        (
            secret("near", "repo-creds", "https://charts.example", login)
                + &secret("all", "repo-creds", "https://charts", login),
            "near",
            "",
        ),
        (
            secret("own", "cluster", "https://charts.example.com", login),
            "",
            "",
        ),
        (
            secret(
                "own",
                "repository",
                "https://charts.example.com",
                "username: 'ENC[x]'",
            ),
            "",
            "spec.source.repoURL",
        ),
        (
            secret(
                "own",
                "repository",
                "https://charts.example.com",
                "tlsClientCertData: a",
            ),
            "",
            "spec.source.repoURL",
        ),
    ] {
        let text = app("") + &secrets;
        let batch = settled(input(&CONVERSION, &[("a.yaml", &text)], false), settings(), &[]);
        let draft = &batch.drafts[0];
        assert_eq!(draft.helmop.spec.helm_secret_name, expected, "{secrets}");
        let data = draft.objects.first().map(|object| object["stringData"].clone());
        assert_eq!(
            data,
            (!expected.is_empty()).then(|| json!({ "username": "a", "password": "b" })),
            "{secrets}"
        );
        let paths: Vec<_> = draft.notes.iter().map(|note| &*note.path).collect();
        assert_eq!(paths.join(" "), noted, "{secrets}");
    }
    let registry = app("  source: {repoURL: h/charts, chart: web, targetRevision: 1.2.3}\n")
        + &secret(
            "own",
            "repository",
            "h/charts",
            "insecure: 'true', insecureOCIForceHttp: 'true'",
        );
    let batch = settled(
        input(&CONVERSION, &[("a.yaml", &registry)], false),
        settings(),
        &[],
    );
    let draft = &batch.drafts[0];
    assert!(draft.helmop.spec.insecure_skip_tls_verify);
    assert_eq!(draft.objects[0]["stringData"], json!({ "basicHTTP": "true" }));
}

/// The credentials with the longest URL complete it.
#[test]
fn a_repository_without_a_login_is_completed() {
    let login_of_all = json!({ "username": "a", "password": "b" });
    let with_login = |more: Value| {
        let mut data = login_of_all.clone();
        json_patch::merge(&mut data, &more);
        data
    };
    let proxy = |address: &str| json!({ "proxyAddress": address });
    let lost = "spec.source.repoURL";
    for (own, expected, noted, skips) in [
        ("name: x", login_of_all.clone(), "", false),
        ("username: ''", login_of_all.clone(), "", false),
        (
            "username: c",
            json!({ "username": "c", "password": "" }),
            "",
            false,
        ),
        ("insecure: 'true'", login_of_all.clone(), "", true),
        ("bearerToken: c", Value::Null, lost, false),
        (
            "tlsClientCertData: c, tlsClientCertKey: d",
            json!({ "tls.crt": "c", "tls.key": "d" }),
            "",
            false,
        ),
        ("tlsClientCertKey: d", login_of_all.clone(), lost, false),
        (
            "proxy: 'http://p:3128'",
            with_login(proxy("http://p:3128")),
            "",
            false,
        ),
        (
            "proxy: 'https://u:x%40y@p:3128/'",
            with_login(json!({
                "proxyAddress": "https://p:3128/", "proxyUsername": "u", "proxyPassword": "x@y",
            })),
            "",
            false,
        ),
        (
            "proxy: u@p",
            with_login(json!({ "proxyAddress": "http://p", "proxyUsername": "u", "proxyPassword": "" })),
            "",
            false,
        ),
        ("proxy: 'socks5://p'", login_of_all.clone(), lost, false),
        ("proxy: p, noProxy: h", with_login(proxy("http://p")), lost, false),
    ] {
        let text = app("")
            + &secret("own", "repository", "https://charts.example.com", own)
            + &secret(
                "all",
                "repo-creds",
                "https://charts",
                "username: no, password: no",
            )
            + &secret(
                "near",
                "repo-creds",
                "https://charts.example",
                &format!("{LOGIN}, insecure: 'true'"),
            );
        let batch = settled(input(&CONVERSION, &[("a.yaml", &text)], false), settings(), &[]);
        let draft = &batch.drafts[0];
        let secret = draft.objects.first();
        let data = secret.map_or(Value::Null, |secret| secret["stringData"].clone());
        let paths: Vec<_> = draft.notes.iter().map(|note| &*note.path).collect();
        assert_eq!((data, paths.join(" ")), (expected, noted.to_owned()), "{own}");
        assert_eq!(draft.helmop.spec.insecure_skip_tls_verify, skips, "{own}");
        let name = secret.map_or(Value::Null, |secret| secret["metadata"]["name"].clone());
        assert!(name.is_null() || name == "own", "{name}");
    }
}

#[test]
fn what_makes_applications_is_refused() {
    let set = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: web, namespace: argocd}\nspec: {template: {}}\n";
    let part = "a.yaml:2:1: ApplicationSet argocd/web: it makes Applications: convert these";
    testing::check_refusal(&CONVERSION, set, Gap::Source, part);
    // One of the same name is another object.
    let both = app("") + "---\n" + set;
    let batch = settled(input(&CONVERSION, &[("a.yaml", &both)], false), settings(), &[]);
    assert_eq!((batch.drafts.len(), batch.refused.len()), (1, 1));
    let text = report::plain(&batch);
    assert!(
        text.contains("2 Applications: 1 converted (1 with warnings), 1 refused"),
        "{text}"
    );
}

#[test]
fn an_incomplete_application_is_a_patch_of_a_whole_one_only() {
    for (spec, is_always_patch) in [
        ("  project: a\n", true),
        ("  source: {targetRevision: 2.0.0}\n", false),
        ("  source: {helm: {valuesObject: {a: 1}}}\n", false),
        ("  sources: [{chart: web}]\n", false),
    ] {
        testing::check_patch(&CONVERSION, &app(SOURCE), &(metadata("") + spec), is_always_patch);
    }
}
