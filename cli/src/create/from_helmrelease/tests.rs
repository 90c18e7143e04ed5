//! Golden tests: `cli/tests/golden/helmrelease/NAME.yaml` becomes `NAME.helmop.yaml`.

use std::{fs, path::PathBuf};

use helmops_core::admit::ValidHelmOp;

use super::*;
use crate::create::{Gap, text};

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "helmrelease"]
        .iter()
        .collect()
}

/// Set `UPDATE_GOLDEN=1` to write the expected files again.
#[test]
fn helmreleases_become_helmops() {
    let mut names: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .filter(|name| !name.ends_with(".helmop"))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        let given = fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
        let drafts = FromHelmRelease::of(&given, Some("fleet-default"))
            .unwrap()
            .drafts(None)
            .unwrap();
        let mut drafts = drafts;
        for draft in &mut drafts {
            draft.helmop.metadata.namespace = Some("fleet-default".to_owned());
            if draft.gap() == Gap::None {
                let checked = ValidHelmOp::try_from(&draft.helmop);
                assert!(checked.is_ok(), "{name}: {:?}", checked.err());
            }
        }
        let text = text::documents(&drafts).unwrap();
        let file = folder().join(format!("{name}.helmop.yaml"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap();
        assert_eq!(text, expected, "{name}");
    }
}

/// Every field of a HelmRelease that is not converted has a note: the fields of all golden files, under another name.
#[test]
fn no_field_is_lost_without_a_note() {
    let unknown = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\nspec:\n  chart:\n    spec:\n      chart: web\n      new: 1\n      sourceRef: {kind: HelmRepository, name: a, other: 2}\n  install: {fast: true, remediation: {x: 1}, strategy: {why: 2}}\n  upgrade: {slow: true}\n  test: {z: 1, filters: [{name: a, q: 1}]}\n  uninstall: {u: 1}\n  rollback: {r: 1}\n  driftDetection: {d: 1, ignore: [{paths: [], i: 1, target: {t: 1}}]}\n  dependsOn: [{name: a, w: 1}]\n  healthCheckExprs: [{current: a, h: 1}]\n  valuesFrom: [{kind: Secret, name: a, v: 1}]\n  waitStrategy: {s: 1}\n  another: 1\n";
    let drafts = FromHelmRelease::of(unknown, None).unwrap().drafts(None).unwrap();
    let paths: Vec<_> = drafts[0].notes.iter().map(|note| note.path.as_str()).collect();
    for path in [
        "spec.chart.spec.new",
        "spec.chart.spec.sourceRef.other",
        "spec.install.fast",
        "spec.install.remediation.x",
        "spec.install.strategy.why",
        "spec.upgrade.slow",
        "spec.test.z",
        "spec.test.filters[0].q",
        "spec.uninstall.u",
        "spec.rollback.r",
        "spec.driftDetection.d",
        "spec.driftDetection.ignore[0].i",
        "spec.driftDetection.ignore[0].target.t",
        "spec.dependsOn[0].w",
        "spec.healthCheckExprs[0].h",
        "spec.valuesFrom[0].v",
        "spec.waitStrategy.s",
        "spec.another",
    ] {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
}

#[test]
fn several_helmreleases_keep_their_names() {
    let one = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: b}\n";
    let all = FromHelmRelease::of(one, None).unwrap();
    let names: Vec<_> = all
        .drafts(None)
        .unwrap()
        .iter()
        .map(|draft| draft.name().to_owned())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let error = all.drafts(Some("c")).unwrap_err();
    assert_eq!(
        error.message,
        "the file has 2 HelmReleases, and \"c\" can be the name of one only"
    );
    let error = FromHelmRelease::of("a: 1\n", None).unwrap_err();
    assert_eq!(error.message, "there is no HelmRelease of helm.toolkit.fluxcd.io");
}

const REPOSITORY: &str = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: shop}\n\
                          spec: {url: 'https://charts.example.com', secretRef: {name: login}}\n---\n";

fn release(namespace: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  chart: \
         {{spec: {{chart: web, version: 1.2.3, sourceRef: {{kind: HelmRepository, name: charts, namespace: shop}}}}}}\n{more}---\n"
    )
}

fn secret(namespace: &str, name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n{data}\n---\n")
}

fn drafts(text: &str) -> Vec<Draft> {
    FromHelmRelease::of(text, Some("fleet-default"))
        .unwrap()
        .drafts(None)
        .unwrap()
}

#[test]
fn a_login_that_cannot_be_read_is_not_converted() {
    for (data, gap) in [
        ("data: {username: dXNlcg==, password: cGFzcw==}", Gap::None),
        ("data: {username: user, password: cGFzcw==}", Gap::Source),
        (
            "data: {username: dXNlcg==, password: 'ENC[AES256_GCM,data:x,type:str]'}",
            Gap::Source,
        ),
        (
            "stringData: {username: user, password: 'ENC[AES256_GCM,data:x,type:str]'}",
            Gap::Source,
        ),
        ("data: {username: dXNlcg==, password: /w==}", Gap::Source),
        (
            "data: {username: dXNlcg==, password: cGFzcw==, store: /w==}",
            Gap::None,
        ),
    ] {
        let text = REPOSITORY.to_owned() + &release("shop", "web", "") + &secret("shop", "login", data);
        assert_eq!(drafts(&text)[0].gap(), gap, "{data}");
    }
    // Values too.
    let values = "  valuesFrom: [{kind: Secret, name: values}]\n";
    let encrypted = secret("shop", "values", "data: {values.yaml: 'ENC[x]'}");
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    let text = REPOSITORY.to_owned() + &release("shop", "web", values) + &login + &encrypted;
    assert_eq!(drafts(&text)[0].gap(), Gap::Source);
}

#[test]
fn an_object_that_several_helmops_need_is_created_once() {
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    let text = REPOSITORY.to_owned() + &login + &release("shop", "web", "") + &release("shop", "other", "");
    let found = drafts(&text);
    let counts: Vec<_> = found.iter().map(|draft| draft.objects.len()).collect();
    assert_eq!(counts, [1, 0]);
    for draft in &found {
        assert_eq!(draft.gap(), Gap::None, "{:?}", draft.notes);
        assert_eq!(draft.helmop.spec.helm_secret_name, "login");
    }
}

#[test]
fn what_cannot_be_in_one_namespace_is_noted() {
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    let text = REPOSITORY.to_owned() + &login + &release("shop", "web", "") + &release("other", "web", "");
    let found = drafts(&text);
    assert_eq!((found[0].gap(), found[1].gap()), (Gap::None, Gap::Source));
    let note = found[1].notes.last().unwrap();
    assert_eq!(
        (&*note.object, &*note.path),
        ("HelmRelease other/web", "metadata.name")
    );
    assert!(
        note.text
            .starts_with("HelmRelease shop/web becomes HelmOp \"web\" too"),
        "{note}"
    );

    let values = "  valuesFrom: [{kind: Secret, name: login}]\n";
    let other = secret("other", "login", "stringData: {values.yaml: 'a: 1'}");
    let text = REPOSITORY.to_owned()
        + &login
        + &other
        + &release("shop", "web", "")
        + &release("other", "api", values);
    let found = drafts(&text);
    assert_eq!((found[0].gap(), found[1].gap()), (Gap::None, Gap::Source));
    let is_conflict = |note: &&Note| note.text.contains("another Secret \"login\" with other content");
    assert_eq!(found[1].notes.iter().filter(is_conflict).count(), 1);
}

/// In Flux a later entry overrides an earlier one. In a HelmOp a Secret overrides all ConfigMaps, because those become inline values.
#[test]
fn a_secret_that_a_later_configmap_overrides_is_noted() {
    let from = |entries: &str, secret_values: &str, more: &str| {
        let login = secret("shop", "login", "stringData: {username: a, password: b}");
        let values = secret(
            "shop",
            "s",
            &format!("stringData: {{values.yaml: '{secret_values}'}}"),
        );
        let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {values.yaml: 'replicas: 2', n: '3'}\n---\n";
        let more = format!("  valuesFrom: [{entries}]\n{more}");
        let text = REPOSITORY.to_owned() + &login + &values + config + &release("shop", "web", &more);
        let found = drafts(&text);
        let is_order = |note: &&Note| note.text.contains("in Flux it is the other way round");
        found[0]
            .notes
            .iter()
            .filter(is_order)
            .map(|note| note.path.clone())
            .collect::<Vec<_>>()
    };
    let (secret, config) = ("{kind: Secret, name: s}", "{kind: ConfigMap, name: c}");
    let single = "{kind: ConfigMap, name: c, valuesKey: n, targetPath: replicas}";
    for (entries, values, expected) in [
        (
            format!("{secret}, {config}"),
            "replicas: 1",
            &["spec.valuesFrom[0]"][..],
        ),
        (format!("{config}, {secret}"), "replicas: 1", &[]),
        (format!("{secret}, {config}"), "other: 1", &[]),
        (
            format!("{secret}, {single}"),
            "replicas: 1",
            &["spec.valuesFrom[0]"],
        ),
        (
            format!("{config}, {secret}, {config}"),
            "replicas: 1",
            &["spec.valuesFrom[1]"],
        ),
    ] {
        assert_eq!(from(&entries, values, ""), expected, "{entries} {values}");
    }
    assert_eq!(
        from(secret, "replicas: 1", "  values: {replicas: 5}\n"),
        ["spec.valuesFrom[0]"]
    );
    // The content of an object that is not in the file may set anything.
    assert_eq!(
        from(&format!("{{kind: Secret, name: unknown}}, {config}"), "", ""),
        ["spec.valuesFrom[0]"]
    );
}

#[test]
fn hooks_have_the_longest_timeout_of_installation_and_upgrade() {
    for (more, expected) in [
        ("", 0),
        ("  timeout: 30m\n", 1_800),
        ("  timeout: 5m\n", 0),
        ("  timeout: 1500ms\n", 2),
        ("  install: {timeout: 2m}\n", 0),
        ("  timeout: 1m\n  install: {timeout: 2m}\n", 120),
        ("  timeout: 10m\n  upgrade: {timeout: 20m}\n", 1_200),
    ] {
        let found = drafts(&release("shop", "web", more));
        let helm = found[0].helmop.spec.bundle.options.helm.as_ref().unwrap();
        assert_eq!(helm.timeout_seconds, expected, "{more}");
    }
}

#[test]
fn a_suspended_helmrelease_becomes_a_suspended_helmop_with_a_note() {
    let notes = |more: &str| {
        let found = drafts(&release("shop", "web", more));
        let about = found[0].notes.iter().find(|note| note.path == "spec.suspend");
        about.map(|note| note.text.clone())
    };
    let text = notes("  suspend: true\n").unwrap();
    assert!(text.contains("kubectl helmop resume"), "{text}");
    assert_eq!(notes("  suspend: false\n"), None);
}

/// As `kubectl get secret -o yaml` prints it.
#[test]
fn an_object_of_a_cluster_can_be_created_again() {
    let printed = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: shop\n  uid: 1-2\n  resourceVersion: '7'\n  \
                   creationTimestamp: 2026-01-01T00:00:00Z\n  managedFields: [{manager: kubectl}]\n  ownerReferences: [{uid: 3-4}]\n  \
                   labels: {team: shop, kustomize.toolkit.fluxcd.io/name: apps}\n  \
                   annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}\nstringData: {values.yaml: 'a: 1'}\n---\n";
    let more = "  valuesFrom: [{kind: Secret, name: s}]\n";
    let found = drafts(&(printed.to_owned() + &release("shop", "web", more)));
    let metadata = &found[0].objects[0]["metadata"];
    let expected =
        serde_json::json!({ "name": "s", "namespace": "fleet-default", "labels": { "team": "shop" } });
    assert_eq!(*metadata, expected);
}

#[test]
fn an_inline_value_of_the_first_level_overrides_a_target_path() {
    let config =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {count: '3'}\n---\n";
    for (path, inline, expected, is_noted) in [
        ("replicas", "{replicas: 5}", r#"{"replicas":5}"#, false),
        ("replicas", "{other: 5}", r#"{"other":5,"replicas":3}"#, false),
        (
            "web.replicas",
            "{web: {replicas: 5}}",
            r#"{"web":{"replicas":3}}"#,
            true,
        ),
        (
            "web.replicas",
            "{web: {other: 5}}",
            r#"{"web":{"other":5,"replicas":3}}"#,
            false,
        ),
    ] {
        let from = format!("{{kind: ConfigMap, name: c, valuesKey: count, targetPath: {path}}}");
        let more = format!("  valuesFrom: [{from}]\n  values: {inline}\n");
        let found = drafts(&(config.to_owned() + &release("shop", "web", &more)));
        let helm = found[0].helmop.spec.bundle.options.helm.as_ref().unwrap();
        assert_eq!(
            helm.values.as_ref().unwrap().as_str(),
            expected,
            "{path} {inline}"
        );
        let notes = found[0]
            .notes
            .iter()
            .any(|note| note.text.contains("inline values set"));
        assert_eq!(notes, is_noted, "{path} {inline}");
    }
}
