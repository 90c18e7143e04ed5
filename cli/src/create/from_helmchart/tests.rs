//! Each row has a field of a HelmChart, what a HelmOp has in its place, and which fields have a note.

use serde_json::{Value, json};

use super::CONVERSION;
use crate::create::{
    note::Gap,
    objects::testing::{self, input, refusals, settings, settled},
    report,
};

const SOURCE: &str = "  repo: https://charts.example.com/\n  chart: web\n  version: 1.2.3\n";

fn chart(spec: &str) -> String {
    format!(
        "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: web, namespace: kube-system}}\nspec:\n{spec}"
    )
}

fn config(spec: &str) -> String {
    format!(
        "---\napiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {{name: web, namespace: kube-system}}\nspec:\n{spec}"
    )
}

fn check(text: &str, expected: &[(&str, Value)], noted: &[&str]) {
    testing::check(&CONVERSION, text, expected, noted);
}

/// The same for fields beside those of the chart.
fn check_more(more: &str, expected: &[(&str, Value)], noted: &[&str]) {
    check(&chart(&format!("{SOURCE}{more}")), expected, noted);
}

#[test]
fn a_release_keeps_name_and_namespace() {
    let expected = json!({
        "defaultNamespace": "kube-system",
        "helm": {
            "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3", "releaseName": "web", "takeOwnership": true,
        },
        "lifecycle": {
            "install": { "retries": 1000, "remediation": "uninstall" },
            "upgrade": { "retries": 1000, "remediation": "uninstall" },
            "wait": { "disable": true },
        },
    });
    check_more("", &[("/spec", expected)], &[]);
    for (more, expected, noted) in [
        (
            "  targetNamespace: shop\n",
            ("/spec/defaultNamespace", json!("shop")),
            "",
        ),
        (
            "  createNamespace: true\n",
            ("/spec/createNamespace", Value::Null),
            "",
        ),
        (
            "  createNamespace: false\n",
            ("/spec/createNamespace", json!(false)),
            "",
        ),
        (
            "  takeOwnership: false\n",
            ("/spec/helm/takeOwnership", json!(true)),
            "",
        ),
        ("  driver: secret\n", ("/spec/helm/releaseName", json!("web")), ""),
        (
            "  driver: configmap\n",
            ("/spec/helm/releaseName", json!("web")),
            "spec.driver",
        ),
        (
            "  jobImage: a\n  podSecurityContext: {a: 1}\n  securityContext: {a: 1}\n",
            ("/spec/helm/releaseName", json!("web")),
            "",
        ),
        (
            "  unknown: 1\n",
            ("/spec/helm/releaseName", json!("web")),
            "spec.unknown",
        ),
    ] {
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check_more(more, &[expected], &noted);
    }
}

#[test]
fn labels_of_k3s_are_left_out() {
    let text = chart(SOURCE).replace(
        "namespace: kube-system}",
        "namespace: kube-system, labels: {team: shop, objectset.rio.cattle.io/hash: a, notrio.cattle.io/x: a, fleet.cattle.io/x: b}, annotations: \
         {helmcharts.cattle.io/managed-by: helm-controller}}",
    );
    let labels = json!({ "team": "shop", "fleet.cattle.io/x": "b", "notrio.cattle.io/x": "a" });
    let expected = [
        ("/metadata/labels", labels),
        ("/metadata/annotations", Value::Null),
    ];
    check(&text, &expected, &[]);
    let text = text.replace(
        "helmcharts.cattle.io/managed-by: helm-controller",
        "helmcharts.helm.cattle.io/unmanaged: 'true'",
    );
    check(
        &text,
        &[("/spec/lifecycle/suspend", json!(true))],
        &["metadata.annotations"],
    );
}

#[test]
fn a_chart_is_found_where_k3s_finds_it() {
    for (spec, repo, name, version) in [
        (
            "  chart: oci://h/web\n  version: 1.2.3\n",
            json!("oci://h/web"),
            Value::Null,
            json!("1.2.3"),
        ),
        (
            "  repo: oci://h/charts\n  chart: web\n",
            json!("oci://h/charts/web"),
            Value::Null,
            Value::Null,
        ),
        // A version says nothing about an archive.
        (
            "  chart: https://h/web-1.tgz\n  version: 1.2.3\n",
            Value::Null,
            json!("https://h/web-1.tgz"),
            Value::Null,
        ),
        (
            "  repo: https://h\n  chart: web\n  version: 1.x\n",
            json!("https://h"),
            json!("web"),
            json!("1.x"),
        ),
    ] {
        let expected = [
            ("/spec/helm/repo", repo),
            ("/spec/helm/chart", name),
            ("/spec/helm/version", version),
            ("/spec/pollingInterval", Value::Null),
        ];
        check(&chart(spec), &expected, &[]);
    }
}

#[test]
fn a_chart_that_no_one_else_can_read_is_refused() {
    for (spec, gap, part) in [
        (
            "  chart: https://%{KUBERNETES_API}%/static/charts/web-1.tgz\n",
            Gap::Unpublished,
            "spec.chart: k3s serves this chart from its own files",
        ),
        (
            "  chartContent: H4sI\n",
            Gap::Unpublished,
            "spec.chartContent: a chart that is in the object itself cannot be deployed by a HelmOp: publish it",
        ),
        (
            "  chart: stable/web\n",
            Gap::Chart,
            "spec.chart: \"stable/web\" has no repository; set --repo",
        ),
        (
            "  repo: https://h\n",
            Gap::Unpublished,
            "spec.chart: a HelmChart has a chart",
        ),
        (
            "  repo: https://h\n  chart: web\n  version: 1.10\n",
            Gap::Valid,
            "1.10 is a number; write it in quotes",
        ),
        (
            "  repo: https://h\n  chart: 5\n",
            Gap::Valid,
            "spec.chart: 5 is a number; write it in quotes",
        ),
        (
            "  repo: 5\n  chart: web\n",
            Gap::Valid,
            "spec.repo: 5 is a number; write it in quotes",
        ),
        (
            "  repo: https://h\n  chart: web\n  helmVersion: v2\n",
            Gap::Valid,
            "spec.helmVersion: k3s does not deploy a chart for Helm v2",
        ),
        (
            "  repo: https://h\n  chart: web\n  failurePolicy: never\n",
            Gap::Valid,
            "\"never\" is no policy; write abort, reinstall or retry",
        ),
        (
            "  repo: https://h\n  chart: web\n  timeout: 5 minutes\n",
            Gap::Valid,
            "spec.timeout: \"5 minutes\" is no duration",
        ),
    ] {
        testing::check_refusal(&CONVERSION, &chart(spec), gap, part);
    }
    let text = chart("  chartContent: H4sI\n").replace(
        "namespace: kube-system}",
        "namespace: kube-system, annotations: {helm.cattle.io/chart-url: 'https://h/web-1.tgz'}}",
    );
    let part = "it is from https://h/web-1.tgz: set --chart https://h/web-1.tgz";
    testing::check_refusal(&CONVERSION, &text, Gap::Unpublished, part);
}

#[test]
fn credentials_become_one_secret() {
    let object = |kind: &str, name: &str, data: &str| {
        format!(
            "---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: kube-system}}\n{data}\n"
        )
    };
    let login = object("Secret", "login", "stringData: {username: a, password: b}");
    let docker =
        "stringData: {.dockerconfigjson: '{\"auths\":{\"h\":{\"username\":\"c\",\"password\":\"d\"}}}'}";
    let docker = object("Secret", "docker", docker);
    let trusted = object("ConfigMap", "ca", "data: {a: \"x\\n\", b: z}");
    for (spec, objects, expected, noted) in [
        (
            "  authSecret: {name: login}\n",
            &login,
            json!({ "username": "a", "password": "b" }),
            "",
        ),
        (
            "  chart: oci://h/web\n  dockerRegistrySecret: {name: docker}\n",
            &docker,
            json!({ "username": "c", "password": "d" }),
            "",
        ),
        (
            "  repoCAConfigMap: {name: ca}\n  repoCA: first\n",
            &trusted,
            json!({ "cacerts": "first\nx\nz" }),
            "",
        ),
        (
            "  chart: oci://h/web\n  plainHTTP: true\n",
            &String::new(),
            json!({ "basicHTTP": "true" }),
            "",
        ),
        ("  plainHTTP: true\n", &String::new(), Value::Null, ""),
        (
            "  authSecret: {name: login}\n",
            &String::new(),
            Value::Null,
            "spec.authSecret",
        ),
        (
            "  authPassCredentials: true\n",
            &String::new(),
            Value::Null,
            "spec.authPassCredentials",
        ),
    ] {
        let source = if spec.contains("oci://") { "" } else { SOURCE };
        let text = chart(&format!("{source}{spec}")) + objects;
        let batch = settled(input(&CONVERSION, &[("a.yaml", &text)], false), settings(), &[]);
        let draft = &batch.drafts[0];
        let data = draft
            .objects
            .first()
            .map_or(Value::Null, |secret| secret["stringData"].clone());
        assert_eq!(data, expected, "{spec}");
        let paths: Vec<_> = draft.notes.iter().map(|note| &*note.path).collect();
        assert_eq!(paths.join(" "), noted, "{spec}");
        let is_named = !draft.helmop.spec.helm_secret_name.is_empty();
        assert_eq!(
            is_named,
            !expected.is_null() || noted == "spec.authSecret",
            "{spec}"
        );
    }
    let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n";
    let ca_bundle = json!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIK");
    let alone = format!("  repoCA: |\n    {}\n", pem.trim_end().replace('\n', "\n    "));
    let expected = [
        ("/spec/caBundle", ca_bundle),
        ("/spec/helmSecretName", Value::Null),
    ];
    check_more(&alone, &expected, &[]);
    check_more(
        "  insecureSkipTLSVerify: true\n",
        &[("/spec/insecureSkipTLSVerify", json!(true))],
        &[],
    );
}

#[test]
fn values_have_the_precedence_of_k3s() {
    let values = "  valuesContent: |\n    a: {b: content, c: content, d: content, e: content}\n  values: {a: {c: values, d: values, e: values}}\n  set: {a.e: set}\n";
    let text = chart(&format!("{SOURCE}{values}"))
        + &config("  valuesContent: 'a: {d: config, e: config}'\n  values: {f: '${x}'}\n");
    let expected = json!({ "a": { "b": "content", "c": "values", "d": "config", "e": "set" }, "f": "${x}" });
    check(
        &text,
        &[
            ("/spec/helm/values", expected),
            ("/spec/helm/disablePreProcess", json!(true)),
        ],
        &[],
    );
    for (more, gap, part) in [
        (
            "  valuesContent: 'a'\n",
            Gap::Valid,
            "spec.valuesContent: the text is no mapping of values",
        ),
        (
            "  valuesContent: 'a: ['\n",
            Gap::Valid,
            "spec.valuesContent: the text is no valid YAML",
        ),
        (
            "  valuesContent: 'a: global.fleet.clusterLabels.x'\n",
            Gap::Valid,
            "spec.valuesContent: a HelmOp replaces a text",
        ),
        (
            "  set: {a: 1.5}\n",
            Gap::Valid,
            "spec.set.a: 1.5 is a number; write it in quotes",
        ),
        (
            "  set: {a: true}\n",
            Gap::Valid,
            "spec.set.a: true is true or false; write it in quotes",
        ),
        (
            "  set: {'a[x]': b}\n",
            Gap::Valid,
            "spec.set.a[x]: Helm cannot set it: an index is not a number",
        ),
    ] {
        testing::check_refusal(&CONVERSION, &chart(&format!("{SOURCE}{more}")), gap, part);
    }
}

/// k3s decides by the text which of them are no texts.
#[test]
fn values_of_set_have_the_types_of_k3s() {
    for (set, expected) in [
        (
            "a.b: 'true', c: 'False', d: 'NULL', e: 5",
            json!({ "a": { "b": true }, "c": false, "d": null, "e": 5 }),
        ),
        (
            "a: '5', b: '1.5', c: '', d: '007'",
            json!({ "a": "5", "b": "1.5", "c": "", "d": "007" }),
        ),
        (
            "a: 'x,y', b: 'x\\,y', c: '{x,y}'",
            json!({ "a": "x,y", "b": "x,y", "c": ["x,y"] }),
        ),
        ("'a[0]': x, 'b\\.c': z", json!({ "a": ["x"], "b.c": "z" })),
        // Texts after all others.
        ("'a.b': 1, a: x", json!({ "a": "x" })),
    ] {
        check_more(
            &format!("  set: {{{set}}}\n"),
            &[("/spec/helm/values", expected)],
            &[],
        );
    }
}

#[test]
fn secrets_with_values_stay_in_their_order() {
    let secrets = "  valuesSecrets: [{name: s, keys: [x, z]}]\n";
    let ignored = "  valuesSecrets: [{name: s, keys: [x], ignoreUpdates: true}]\n";
    let content = "  valuesContent: 'a: 1'\n";
    let key = |key: &str| json!({ "secretKeyRef": { "name": "s", "key": key } });
    let reference = |key: &str| json!({ "kind": "Secret", "name": "s", "valuesKey": key });
    let below = json!([reference("x"), reference("z")]);
    let over = json!([key("x"), key("z")]);
    let field = "spec.valuesSecrets";
    for (own, of_config, expected_below, expected_over, noted) in [
        (secrets.to_owned(), "", below.clone(), Value::Null, field),
        (
            format!("{secrets}  set: {{a: b}}\n"),
            "",
            below.clone(),
            Value::Null,
            field,
        ),
        (secrets.to_owned(), content, below, Value::Null, field),
        (
            format!("{content}{secrets}"),
            "",
            Value::Null,
            over.clone(),
            field,
        ),
        (content.to_owned(), secrets, Value::Null, over.clone(), field),
        (
            String::new(),
            &*format!("{content}{secrets}"),
            Value::Null,
            over.clone(),
            field,
        ),
        (
            format!("{content}{secrets}  set: {{a: b}}\n"),
            "",
            Value::Null,
            over.clone(),
            "spec.valuesSecrets!",
        ),
        (
            format!("{content}{secrets}"),
            content,
            Value::Null,
            over,
            "spec.valuesSecrets!",
        ),
        (
            ignored.to_owned(),
            "",
            json!([{ "kind": "Secret", "name": "s", "valuesKey": "x", "optional": true }]),
            Value::Null,
            field,
        ),
        (
            format!("{content}{ignored}"),
            "",
            Value::Null,
            json!([key("x")]),
            field,
        ),
        // Without a key it is not used.
        (
            "  valuesSecrets: [{name: s}]\n".to_owned(),
            "",
            Value::Null,
            Value::Null,
            "",
        ),
    ] {
        let of_config = if of_config.is_empty() {
            String::new()
        } else {
            config(of_config)
        };
        let text = chart(&format!("{SOURCE}{own}")) + &of_config;
        let expected = [
            ("/spec/lifecycle/valuesFrom", expected_below),
            ("/spec/helm/valuesFrom", expected_over),
        ];
        let mut noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        if noted == ["spec.valuesSecrets!"] {
            noted.insert(0, field);
        }
        check(&text, &expected, &noted);
    }
    let policy = ("/spec/lifecycle/valuesFromPolicy", json!("NextRelease"));
    check_more(ignored, &[policy], &[field]);
    let elsewhere = ("/spec/lifecycle/valuesFrom/0/namespace", json!("kube-system"));
    check_more(
        &format!("  targetNamespace: shop\n{secrets}"),
        &[elsewhere],
        &[field],
    );
}

#[test]
fn a_failure_is_treated_as_by_k3s() {
    let reinstalled = |retries: i64, last: Value| {
        let mut policy = json!({ "retries": retries, "remediation": "uninstall" });
        if !last.is_null() {
            policy["remediateLastFailure"] = last;
        }
        policy
    };
    let of_config = config("  failurePolicy: retry\n");
    for (more, other, expected, noted) in [
        (
            "  failurePolicy: reinstall\n",
            "",
            reinstalled(1000, Value::Null),
            "",
        ),
        ("  backOffLimit: 3\n", "", reinstalled(3, json!(false)), ""),
        ("  backOffLimit: 5000\n", "", reinstalled(1000, json!(false)), ""),
        (
            "  failurePolicy: retry\n  backOffLimit: 3\n",
            "",
            json!({ "retries": 3 }),
            "",
        ),
        ("  failurePolicy: abort\n", "", json!({}), "spec.failurePolicy"),
        (
            "  failurePolicy: abort\n",
            &of_config,
            json!({ "retries": 1000 }),
            "",
        ),
    ] {
        let text = chart(&format!("{SOURCE}{more}")) + other;
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        let expected = [
            ("/spec/lifecycle/install", expected.clone()),
            ("/spec/lifecycle/upgrade", expected),
        ];
        check(&text, &expected, &noted);
    }
    for (more, pointer, expected, noted) in [
        ("  timeout: 10m\n", "/spec/helm/timeoutSeconds", json!(600), ""),
        ("  timeout: 5m0s\n", "/spec/helm/timeoutSeconds", Value::Null, ""),
        (
            "  bootstrap: true\n",
            "/spec/helm/chart",
            json!("web"),
            "spec.bootstrap!",
        ),
        (
            "  bootstrap: false\n  helmVersion: v3\n",
            "/spec/helm/chart",
            json!("web"),
            "",
        ),
        (
            "  serverSide: auto\n  forceConflicts: false\n",
            "/spec/helm/chart",
            json!("web"),
            "",
        ),
        (
            "  serverSide: 'false'\n",
            "/spec/lifecycle/upgrade/serverSideApply",
            json!("disabled"),
            "",
        ),
        (
            "  serverSide: 'true'\n",
            "/spec/lifecycle/install/serverSideApply",
            json!("enabled"),
            "",
        ),
        (
            "  forceConflicts: true\n",
            "/spec/helm/chart",
            json!("web"),
            "spec.forceConflicts",
        ),
    ] {
        let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
        check_more(more, &[(pointer, expected)], &noted);
    }
    let overridden =
        chart(&format!("{SOURCE}  forceConflicts: true\n")) + &config("  forceConflicts: false\n");
    check(&overridden, &[], &[]);
}

#[test]
fn a_null_has_the_position_of_its_value() {
    for (more, expected) in [
        ("  values: {a: {b: null}}\n", "a.yaml:8:16 spec.helm.values.a.b"),
        (
            "  valuesContent: 'a: {b: null}'\n",
            "a.yaml:8:3 spec.helm.values.a.b",
        ),
        ("  set: {a.b: 'null'}\n", "a.yaml:8:9 spec.helm.values.a.b"),
    ] {
        let text = chart(&format!("{SOURCE}{more}"));
        testing::check_nulls(&CONVERSION, &[("a.yaml", &text)], &[expected]);
    }
}

/// Every field of a HelmChart that is not converted has a note.
#[test]
fn no_field_is_lost_without_a_note() {
    let more = "  authSecret: {a: 1}\n  dockerRegistrySecret: {b: 1}\n  repoCAConfigMap: {c: 1}\n  valuesSecrets: [{name: s, d: 1}]\n  e: 1\n";
    let text = chart(&format!("{SOURCE}{more}")) + &config("  f: 1\n  valuesSecrets: [{g: 1}]\n");
    let expected = [
        "spec.authSecret.a",
        "spec.dockerRegistrySecret.b",
        "spec.e",
        "spec.f",
        "spec.repoCAConfigMap.c",
        "spec.valuesSecrets[0].d",
        "spec.valuesSecrets[0].g",
    ];
    check(&text, &[], &expected);
}

#[test]
fn an_incomplete_helmchart_is_a_patch_of_a_whole_one_only() {
    for (spec, is_always_patch) in [
        ("  version: 2.0.0\n", true),
        ("  repo: https://h\n", true),
        ("  chart: web\n  version: 2.0.0\n", false),
    ] {
        testing::check_patch(&CONVERSION, &chart(SOURCE), &chart(spec), is_always_patch);
    }
}

/// Without its HelmChart nothing is known about the chart.
#[test]
fn a_config_without_its_chart_is_named() {
    let alone = config("  valuesContent: 'a: 1'\n");
    let error = super::Objects::of(input(&CONVERSION, &[("a.yaml", &alone)], true), settings()).unwrap_err();
    assert_eq!(
        error.message,
        "there is no HelmChart of helm.cattle.io with a chart"
    );
    let other = alone.replace("name: web", "name: traefik");
    let files = [("a.yaml", &*chart(SOURCE)), ("b.yaml", &*other)];
    let batch = settled(input(&CONVERSION, &files, true), settings(), &[]);
    assert_eq!(refusals(&batch), []);
    let text = report::plain(&batch);
    let expected =
        "warning: b.yaml:3:1: HelmChartConfig kube-system/traefik: its HelmChart is not in the files";
    assert!(text.contains(expected), "{text}");
    let fields = config("  bootstrap: true\n");
    check(&(chart(SOURCE) + &fields), &[], &["spec.bootstrap"]);
}
