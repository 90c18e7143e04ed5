//! Golden tests: `cli/tests/golden/helmrelease/NAME.yaml` becomes `NAME.helmop.yaml`, and `NAME.txt` has what standard error has.

use std::{fs, path::PathBuf};

use serde_json::json;

use super::*;
use crate::create::{
    ChartFlags,
    batch::Batch,
    draft::Draft,
    note::{Gap, Loss, Note, Position},
    objects::{
        Input, Objects, Settings,
        testing::{self, refusals, settings, settled},
    },
    report, text,
};

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "helmrelease"]
        .iter()
        .collect()
}

fn input(files: &[(&str, &str)], is_folder: bool) -> Input {
    testing::input(&CONVERSION, files, is_folder)
}

/// Of one file, before anything is refused.
fn drafts(text: &str) -> Vec<Draft> {
    let input = input(&[("a.yaml", text)], false);
    let source = Objects::of(input, settings()).unwrap();
    source.batch(None).unwrap().drafts
}

fn of_folder(files: &[(&str, &str)], accepted: &[Loss]) -> Batch {
    settled(input(files, true), settings(), accepted)
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
    assert!(names.len() >= 20, "{names:?}");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for name in names {
        let file = format!("{name}.yaml");
        let given = fs::read_to_string(folder().join(&file)).unwrap();
        // A first line such as `# --accept=verify` is the flag.
        let accepted: Vec<_> = given
            .lines()
            .filter_map(|line| line.strip_prefix("# --accept="))
            .flat_map(|names| names.split(','))
            .map(|name| <Loss as clap::ValueEnum>::from_str(name, false).unwrap())
            .collect();
        let batch = settled(input(&[(&file, &given)], false), settings(), &accepted);
        for (ending, found) in [
            ("helmop.yaml", text::documents(&batch.drafts).unwrap()),
            ("txt", report::plain(&batch)),
        ] {
            let file = folder().join(format!("{name}.{ending}"));
            if update && found.is_empty() {
                let _ = fs::remove_file(&file);
            } else if update {
                fs::write(&file, &found).unwrap();
            }
            let expected = fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(found, expected, "{name}.{ending}");
        }
    }
}

/// Every field of a HelmRelease that is not converted has a note: the fields of all golden files, under another name.
#[test]
fn no_field_is_lost_without_a_note() {
    let unknown = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\nspec:\n  chart:\n    spec:\n      chart: web\n      new: 1\n      sourceRef: {kind: HelmRepository, name: a, other: 2}\n  install: {fast: true, remediation: {x: 1}, strategy: {why: 2}}\n  upgrade: {slow: true}\n  test: {z: 1, filters: [{name: a, q: 1}]}\n  uninstall: {u: 1}\n  rollback: {r: 1}\n  driftDetection: {d: 1, ignore: [{paths: [], i: 1, target: {t: 1}}]}\n  dependsOn: [{name: a, w: 1}]\n  healthCheckExprs: [{current: a, h: 1}]\n  valuesFrom: [{kind: Secret, name: a, v: 1}]\n  waitStrategy: {s: 1}\n  another: 1\n";
    let drafts = drafts(unknown);
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
    let one = |name: &str| {
        format!("apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}}}\n---\n")
    };
    let text = one("a") + &one("b");
    let names: Vec<_> = drafts(&text)
        .iter()
        .map(|draft| draft.name().to_owned())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let of = |text: &str| Objects::of(input(&[("a.yaml", text)], false), settings());
    let error = of(&text).unwrap().batch(Some("c")).unwrap_err();
    assert_eq!(
        error.message,
        "there are 2 HelmReleases, and \"c\" can be the name of one only"
    );
    let error = of("a: 1\n").unwrap_err();
    assert_eq!(
        error.message,
        "there is no HelmRelease of helm.toolkit.fluxcd.io with a chart"
    );
}

#[test]
fn an_error_in_a_file_has_its_line() {
    let text = "# comment\napiVersion: v1\nkind: A\n---\nkind: HelmRelease\nspec:\n  chart: [\n";
    let error = Input::new(&CONVERSION, false)
        .add("a.yaml", text.to_owned())
        .unwrap_err();
    assert!(error.message.starts_with("a.yaml:"), "{}", error.message);
    let line: usize = error.message.split(':').nth(1).unwrap().parse().unwrap();
    assert!((7..=8).contains(&line), "{}", error.message);
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

#[test]
fn a_login_that_cannot_be_read_is_not_converted() {
    let of = |text: &str| settled(input(&[("a.yaml", text)], false), settings(), &[]);
    for (data, gap) in [
        ("data: {username: dXNlcg==, password: cGFzcw==}", None),
        ("data: {username: user, password: cGFzcw==}", Some(Gap::Source)),
        ("data: {username: dXNlcg==, password: /w==}", Some(Gap::Source)),
        (
            "data: {username: dXNlcg==, password: cGFzcw==, store: /w==}",
            None,
        ),
    ] {
        let text = REPOSITORY.to_owned() + &release("shop", "web", "") + &secret("shop", "login", data);
        let found = refusals(&of(&text));
        assert_eq!(found.first().map(|(gap, _)| *gap), gap, "{data} {found:?}");
    }
}

/// The Secret has to be created by the user: what is in the file is of no use.
#[test]
fn an_encrypted_secret_is_not_in_the_output() {
    let encrypted = secret(
        "shop",
        "login",
        "stringData: {username: user, password: 'ENC[AES256_GCM,data:x,type:str]'}",
    );
    let text = REPOSITORY.to_owned() + &release("shop", "web", "") + &encrypted;
    let batch = settled(input(&[("a.yaml", &text)], false), settings(), &[]);
    let draft = &batch.drafts[0];
    assert_eq!(
        (draft.objects.len(), &*draft.helmop.spec.helm_secret_name),
        (0, "login")
    );
    let noted = |part: &str| draft.notes.iter().any(|note| note.text.contains(part));
    assert!(
        noted("Secret \"login\" is encrypted; the namespace of the HelmOp needs"),
        "{:?}",
        draft.notes
    );
}

#[test]
fn an_object_that_several_helmops_need_is_created_once() {
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    let text = REPOSITORY.to_owned() + &login + &release("shop", "web", "") + &release("shop", "other", "");
    let found = settled(input(&[("a.yaml", &text)], false), settings(), &[]).drafts;
    let counts: Vec<_> = found.iter().map(|draft| draft.objects.len()).collect();
    assert_eq!(counts, [1, 0]);
    for draft in &found {
        assert_eq!(draft.helmop.spec.helm_secret_name, "login");
    }
}

#[test]
fn what_cannot_be_in_one_namespace_is_refused() {
    let of = |text: &str| settled(input(&[("a.yaml", text)], false), settings(), &[]);
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    let text = REPOSITORY.to_owned()
        + &login
        + &release("shop", "web", "")
        + &release("other", "web", "")
        + &release("other", "api", "");
    let found = of(&text);
    assert_eq!(found.drafts.len(), 1, "the third one has a name of its own");
    let refused = refusals(&found);
    assert_eq!(refused.len(), 2, "either could be meant: {refused:?}");
    let expected = "HelmRelease other/web: metadata.name: HelmRelease shop/web (a.yaml:13:12) becomes HelmOp \"web\" too";
    assert!(refused[1].1.contains(expected), "{refused:?}");

    let text = REPOSITORY.to_owned()
        + &login
        + &REPOSITORY.replace("namespace: shop", "namespace: other")
        + &secret("other", "login", "stringData: {username: c, password: d}")
        + &release("shop", "web", "")
        + &release("shop", "api", "").replace("charts, namespace: shop", "charts, namespace: other");
    let found = of(&text);
    assert_eq!(found.drafts.len(), 1);
    let refused = refusals(&found);
    assert!(
        matches!(&refused[..], [(Gap::Source, text)] if text.contains("another Secret \"login\" with other content")),
        "{refused:?}"
    );
}

/// What one of them lacks keeps the others from nothing, also not from a Secret that both need.
#[test]
fn one_that_is_refused_does_not_hold_up_the_others() {
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    let text = REPOSITORY.to_owned()
        + &login
        + &release("shop", "remote", "  kubeConfig: {secretRef: {name: a}}\n")
        + &release("shop", "web", "");
    let batch = settled(input(&[("a.yaml", &text)], false), settings(), &[]);
    let [draft] = &batch.drafts[..] else {
        panic!("{:?}", batch.refused)
    };
    assert_eq!((draft.name(), draft.objects.len()), ("web", 1));
    assert_eq!(
        batch.outcome().unwrap_err().message,
        "1 of 2 HelmReleases are not converted"
    );
    let accepted = settled(
        input(&[("a.yaml", &text)], false),
        settings(),
        &[Loss::KubeConfig],
    );
    assert_eq!((accepted.drafts.len(), accepted.outcome().is_ok()), (2, true));
}

#[test]
fn hooks_have_the_timeout_of_the_release() {
    for (more, expected) in [
        ("", 0),
        ("  timeout: 30m\n", 1_800),
        ("  timeout: 5m\n", 0),
        ("  timeout: 1500ms\n", 2),
        ("  install: {timeout: 2m}\n", 0),
        ("  timeout: 1m\n  install: {timeout: 2m}\n", 60),
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

const RELEASE: &str = "\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: shop}
spec: {chart: {spec: {chart: web, version: 1.2.3, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}}
";

fn repository(namespace: &str, url: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts{namespace}}}\nspec: {{url: '{url}'}}\n"
    )
}

#[test]
fn sources_are_found_across_the_files_of_a_folder() {
    let repo = |files: &[(&str, &str)]| {
        let batch = of_folder(files, &[]);
        let helm = batch.drafts.first()?.helmop.spec.bundle.options.helm.clone();
        helm.map(|helm| helm.repo)
    };
    let [near, far, exact, wrong] = [
        repository("", "https://near.example.com"),
        repository("", "https://far.example.com"),
        repository(", namespace: flux-system", "https://exact.example.com"),
        repository(", namespace: other", "https://wrong.example.com"),
    ];
    let web = ("apps/web/release.yaml", RELEASE);
    for (others, expected) in [
        (&[("z.yaml", &*exact)][..], Some("https://exact.example.com")),
        (
            &[("apps/web/repo.yaml", &near), ("z.yaml", &exact)],
            Some("https://exact.example.com"),
        ),
        (
            &[("apps/web/repo.yaml", &near), ("apps/api/repo.yaml", &far)],
            Some("https://near.example.com"),
        ),
        (&[("apps/web/repo.yaml", &wrong)], None),
        // None is nearer than the other.
        (&[("apps/a/repo.yaml", &near), ("apps/b/repo.yaml", &far)], None),
        // The same, twice.
        (
            &[("apps/a/repo.yaml", &near), ("apps/b/repo.yaml", &near)],
            Some("https://near.example.com"),
        ),
    ] {
        let files: Vec<_> = others.iter().copied().chain([web]).collect();
        assert_eq!(repo(&files).as_deref(), expected, "{others:?}");
    }
    let ambiguous = of_folder(&[("a/r.yaml", &near), ("b/r.yaml", &far), web], &[]);
    let refused = refusals(&ambiguous);
    assert!(
        matches!(&refused[..], [(Gap::Source, text)] if text.contains("is at a/r.yaml:2:1 and, with other content, at b/r.yaml:2:1")),
        "{refused:?}"
    );
}

#[test]
fn a_folder_has_more_than_helmreleases() {
    let exact = repository("", "https://charts.example.com");
    let patch = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\nspec: {values: {a: 1}}\n";
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: shop\npatches: [{path: patch.yaml}]\n";
    let batch = of_folder(
        &[
            ("release.yaml", RELEASE),
            ("repo.yaml", &exact),
            ("patch.yaml", patch),
            ("list.yaml", "- op: replace\n"),
            (
                "template.yaml",
                "kind: HelmRelease\nmetadata:\n  name: {{ .name }}\n  - x\n",
            ),
            ("deployment.yaml", "kind: Deployment\n"),
            ("kustomization.yaml", kustomization),
        ],
        &[],
    );
    let left_out = &batch.left_out;
    let files = |positions: &[Position]| positions.iter().map(|at| at.file.to_string()).collect::<Vec<_>>();
    assert_eq!(files(&left_out.not_yaml), ["template.yaml"]);
    assert_eq!((left_out.patches, &left_out.unmatched[..]), (1, &[][..]));
    assert_eq!(left_out.others, 3);
    assert_eq!(batch.outcome().map_err(|failure| failure.message), Ok(()));
    let text = report::plain(&batch);
    for part in [
        "warning: patch.yaml:2:1: HelmRelease shop/web: an incomplete HelmRelease of this name is a patch, which is not applied",
        "warning: kustomization.yaml:3:1: Kustomization: namespace: this is not applied",
        "warning: kustomization.yaml:4:1: Kustomization: patches: this is not applied",
        "1 HelmRelease: 1 converted (1 with warnings), 0 refused; left out: 1 incomplete, 3 other objects, 1 document without YAML",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_namespace_of_the_flag_replaces_no_other_one_silently() {
    let of = |release: &str, flag: Option<&str>| {
        let settings = Settings {
            target_namespace: flag.map(str::to_owned),
            ..settings()
        };
        let source = Objects::of(input(&[("a.yaml", release)], false), settings).unwrap();
        let draft = source.batch(None).unwrap().drafts.remove(0);
        let about = draft.notes.iter().find(|note| note.text.contains("namespace"));
        let namespace = draft.helmop.spec.bundle.options.default_namespace;
        (
            namespace,
            about.map_or_else(String::new, |note| note.text.clone()),
        )
    };
    let without = RELEASE.replace(", namespace: shop", "");
    let (namespace, note) = of(&without, None);
    assert_eq!(namespace, "default");
    assert!(
        note.starts_with("no namespace, so that of the release is \"default\": set --target-namespace"),
        "{note}"
    );
    assert_eq!(of(&without, Some("shop")), ("shop".to_owned(), String::new()));
    assert_eq!(of(RELEASE, Some("shop")), ("shop".to_owned(), String::new()));
    let (namespace, note) = of(RELEASE, Some("other"));
    assert_eq!(namespace, "other");
    assert!(
        note.starts_with("--target-namespace replaces namespace \"shop\""),
        "{note}"
    );
}

#[test]
fn a_dependency_in_another_namespace_is_noted_if_it_is_not_converted() {
    let notes = |more: &str| {
        let web = release("shop", "web", "  dependsOn: [{name: db, namespace: data}]\n");
        let found = drafts(&(REPOSITORY.to_owned() + &web + more));
        let is_about = |note: &&Note| note.path == "spec.dependsOn[0].namespace";
        found[0].notes.iter().filter(is_about).count()
    };
    assert_eq!(notes(""), 1);
    assert_eq!(notes(&release("data", "db", "")), 0);
    assert_eq!(notes(&release("other", "db", "")), 1);
}

#[test]
fn a_version_of_a_registry_stays_pinned() {
    let of = |reference: &str, more: &str| {
        let text = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: web, namespace: shop}}\nspec: {{interval: 1m, \
             url: 'oci://h/web', ref: {{{reference}}}{more}}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, \
             namespace: shop}}\nspec: {{chartRef: {{kind: OCIRepository, name: web}}}}\n"
        );
        let batch = settled(input(&[("a.yaml", &text)], false), settings(), &[]);
        match batch.drafts.first() {
            Some(draft) => {
                let helm = draft.helmop.spec.bundle.options.helm.clone().unwrap();
                let interval = draft.helmop.spec.polling_interval.clone();
                let filter = &draft.helmop.spec.semver_filter;
                format!(
                    "{} {} {}{filter}",
                    helm.repo,
                    helm.version,
                    interval.unwrap_or_default()
                )
            }
            None => format!("{:?}", refusals(&batch)[0].0),
        }
    };
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    for (reference, more, expected) in [
        ("tag: 1.2.3", "", "oci://h/web 1.2.3 ".to_owned()),
        (
            "tag: v1.2.3_build.1",
            "",
            "oci://h/web v1.2.3+build.1 ".to_owned(),
        ),
        ("semver: 1.x, tag: 2.0.0", "", "oci://h/web 1.x 1m".to_owned()),
        (
            &*format!("digest: '{digest}', tag: 1.2.3"),
            "",
            format!("oci://h/web@{digest} 1.2.3 "),
        ),
        (
            &*format!("digest: '{digest}'"),
            "",
            format!("oci://h/web@{digest}  "),
        ),
        (
            &*format!("digest: '{digest}', semver: 1.x"),
            "",
            format!("oci://h/web@{digest}  "),
        ),
        ("tag: main", "", "oci://h/web:main  1m".to_owned()),
        ("tag: main", ", suspend: true", "Field(Suspend)".to_owned()),
        ("tag: '${TAG}'", "", "Version".to_owned()),
        ("", "", "oci://h/web:latest  1m".to_owned()),
        (
            "semver: 1.x, semverFilter: '.*-rc.*'",
            "",
            "oci://h/web 1.x 1m.*-rc.*".to_owned(),
        ),
        (
            "tag: 1.2.3, semverFilter: '.*-rc.*'",
            "",
            "oci://h/web 1.2.3 ".to_owned(),
        ),
        ("semver: 1.x", ", suspend: true", "Field(Suspend)".to_owned()),
        ("tag: 1.2.3", ", suspend: true", "oci://h/web 1.2.3 ".to_owned()),
        ("tag: v1.2.3", ", suspend: true", "oci://h/web v1.2.3 ".to_owned()),
    ] {
        assert_eq!(of(reference, more), expected, "{reference}{more}");
    }
}

/// What would deploy something else has to be accepted by name.
#[test]
fn a_field_that_changes_what_is_deployed_is_refused() {
    for (more, loss) in [
        ("  kubeConfig: {secretRef: {name: a}}\n", Loss::KubeConfig),
        ("  upgrade: {preserveValues: true}\n", Loss::PreserveValues),
    ] {
        let text = repository(", namespace: shop", "https://charts.example.com")
            + "---\n"
            + &release("shop", "web", more);
        let of = |accepted: &[Loss]| settled(input(&[("a.yaml", &text)], false), settings(), accepted);
        let refused = of(&[]);
        let gaps: Vec<_> = refusals(&refused).iter().map(|(gap, _)| *gap).collect();
        assert_eq!(gaps, [Gap::Field(loss)], "{more}");
        let hint = format!("to convert it nevertheless, add --accept={}\n", loss.name());
        assert!(report::plain(&refused).contains(&hint), "{more}");
        assert_eq!(of(&[loss]).drafts.len(), 1, "{more}");
    }
}

/// Helm pulls the layer of one media type, whatever Flux does with it.
#[test]
fn another_layer_than_that_of_helm_is_refused() {
    let of = |selector: &str| {
        let text = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: web, namespace: shop}}\nspec: {{url: 'oci://h/web', \
             ref: {{tag: 1.2.3}}, layerSelector: {{{selector}}}}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: \
             {{name: web, namespace: shop}}\nspec: {{chartRef: {{kind: OCIRepository, name: web}}}}\n"
        );
        let accepted = settled(
            input(&[("a.yaml", &text)], false),
            settings(),
            &[Loss::LayerSelector],
        );
        assert_eq!(accepted.drafts.len(), 1, "{selector}");
        refusals(&of_file(&text))
    };
    for selector in [
        "mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy",
        "mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: extract",
        "mediaType: application/tar+gzip",
        "operation: copy",
    ] {
        assert_eq!(of(selector), [], "{selector}");
    }
    let refused = of("mediaType: application/x, operation: extract");
    let expected = "HelmRelease shop/web: OCIRepository shop/web: spec.layerSelector.mediaType: Flux deploys the layer application/x, a HelmOp the one \
                    that helm pull takes";
    assert!(
        matches!(&refused[..], [(Gap::Field(Loss::LayerSelector), text)] if text.contains(expected)),
        "{refused:?}"
    );
}

/// What `create` makes of a file and of flags about the chart.
fn flagged(text: &str, flags: &ChartFlags) -> Batch {
    let source = Objects::of(input(&[("a.yaml", text)], false), settings()).unwrap();
    let mut batch = source.batch(None).unwrap();
    for draft in &mut batch.drafts {
        flags.apply(&mut draft.helmop).unwrap();
    }
    batch.settle(&[]);
    batch
}

fn version(version: &str) -> ChartFlags {
    ChartFlags {
        version: Some(version.to_owned()),
        ..ChartFlags::default()
    }
}

fn of_file(text: &str) -> Batch {
    settled(input(&[("a.yaml", text)], false), settings(), &[])
}

#[test]
fn a_chart_in_git_needs_its_repository_or_flags() {
    let release = RELEASE.replace("HelmRepository", "GitRepository");
    let git = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: charts}\nspec: {url: 'https://git.example.com/a', ref: {name: \
               refs/pull/1/head}, secretRef: {name: login}, ignore: a}\n---\n";
    let login = secret("shop", "login", "stringData: {username: a, password: b}");
    for text in [&release, &(git.to_owned() + &login + &release)] {
        check_flags(text);
    }
}

fn check_flags(text: &str) {
    let of = |repo: bool, version: Option<&str>| {
        let flags = ChartFlags {
            repo: repo.then(|| "https://charts.example.com".to_owned()),
            version: version.map(str::to_owned),
            ..ChartFlags::default()
        };
        let batch = flagged(text, &flags);
        let gaps = refusals(&batch).into_iter().map(|(gap, _)| gap);
        (gaps.collect::<Vec<_>>(), batch)
    };
    for (repo, version) in [(false, None), (true, None), (false, Some("1.x"))] {
        let (gaps, _) = of(repo, version);
        assert_eq!(gaps, [Gap::Unpublished], "{repo} {version:?}");
    }
    let (gaps, batch) = of(true, Some("1.x"));
    assert_eq!(gaps, []);
    let text = report::plain(&batch);
    assert!(!text.contains("GitRepository"), "{text}");
    let draft = &batch.drafts[0];
    assert_eq!((draft.helmop.spec.git(), &draft.objects[..]), (None, &[][..]));
    assert_eq!(
        draft.helmop.spec.bundle.options.helm.as_ref().unwrap().chart,
        "web"
    );
}

#[test]
fn a_flag_fills_a_gap_without_a_trace() {
    let oci = |reference: &str, more: &str| {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: web, namespace: shop}}\nspec: {{interval: 1m, \
             url: 'oci://h/web', ref: {{{reference}}}{more}}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, \
             namespace: shop}}\nspec: {{chartRef: {{kind: OCIRepository, name: web}}}}\n"
        )
    };
    let variable = REPOSITORY.to_owned() + &release("shop", "web", "").replace("1.2.3", "'${VERSION}'");
    let secret = secret("shop", "login", "stringData: {username: a, password: b}");
    for (text, gap) in [
        (oci("tag: '${TAG}'", ""), Gap::Version),
        (oci("semver: 1.x", ", suspend: true"), Gap::Field(Loss::Suspend)),
        (variable + &secret, Gap::Version),
    ] {
        let refused = refusals(&of_file(&text));
        assert_eq!(refused.first().map(|(gap, _)| *gap), Some(gap), "{text}");
        let batch = flagged(&text, &version("6.6.0"));
        assert_eq!(batch.drafts[0].notes, [], "{text}");
        assert_eq!(batch.drafts[0].helmop.spec.polling_interval, None, "{text}");
    }
    let batch = flagged(&oci("tag: 1.2.3", ""), &version("6.x"));
    let interval = batch.drafts[0].helmop.spec.polling_interval.as_deref();
    assert_eq!(interval, Some("1m"), "a range of a flag is polled as in Flux");
}

#[test]
fn a_suspended_helmchart_keeps_its_version() {
    let chart = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmChart\nmetadata: {name: web, namespace: shop}\nspec: {chart: web, \
                 version: 1.x, suspend: true, sourceRef: {kind: HelmRepository, name: charts}}\n---\napiVersion: \
                 helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: shop}\nspec: {chartRef: {kind: HelmChart, name: web}}\n";
    let text = repository(", namespace: shop", "https://charts.example.com") + chart;
    let refused = refusals(&of_file(&text));
    assert!(
        matches!(&refused[..], [(Gap::Field(Loss::Suspend), text)] if text.contains("HelmRelease shop/web: HelmChart shop/web: spec.suspend")),
        "{refused:?}"
    );
    assert_eq!(flagged(&text, &version("1.2.3")).drafts.len(), 1);
}

#[test]
fn a_login_of_another_app_is_not_used() {
    let web = REPOSITORY.to_owned() + &release("shop", "web", "");
    let without = web.replace(", namespace: shop", "");
    for (release, file, namespace, is_used) in [
        (&without, "apps/web/c.yaml", "", true),
        (&without, "apps/web/more/c.yaml", ", namespace: shop", true),
        (&without, "apps/api/c.yaml", ", namespace: shop", false),
        (&without, "apps/webs/c.yaml", "", false),
        (&web, "apps/api/c.yaml", "", false),
        (&web, "apps/api/c.yaml", ", namespace: shop", true),
    ] {
        let login = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: login{namespace}}}\nstringData: {{username: a, password: b}}\n"
        );
        let batch = of_folder(&[("apps/web/r.yaml", release), (file, &login)], &[]);
        let draft = &batch.drafts[0];
        assert_eq!(draft.objects.len(), usize::from(is_used), "{file} {namespace}");
        let expected = format!("Secret \"login\" at {file}:2:1 is not used");
        let is_noted = draft.notes.iter().any(|note| note.text.starts_with(&expected));
        assert_eq!(is_noted, !is_used, "{file} {namespace}");
    }
}

#[test]
fn no_part_of_a_file_disappears() {
    let one = RELEASE;
    let other = RELEASE.replace("name: web,", "name: api,");
    let inline = "--- {kind: HelmRelease}\n";
    let twice = one.replace("namespace: shop}", "namespace: shop, name: api}");
    for (text, position) in [
        (format!("{one}{other}"), "a.yaml:6:1"),
        (format!("{one}...\n{other}"), "a.yaml:6:1"),
        (format!("{one}{inline}"), "a.yaml:5:1"),
        (twice, "a.yaml:3:40"),
    ] {
        let error = Input::new(&CONVERSION, false)
            .add("a.yaml", text.clone())
            .unwrap_err();
        assert!(error.message.starts_with(position), "{} {text}", error.message);
        let fine = repository(", namespace: flux-system", "https://charts.example.com")
            + "---\n"
            + &RELEASE.replace("name: web,", "name: db,");
        let batch = of_folder(&[("a.yaml", &text), ("b.yaml", &fine)], &[]);
        let lost = refusals(&batch)
            .into_iter()
            .filter(|(_, text)| text.starts_with(position));
        assert_eq!(lost.count(), 1, "{:?}", refusals(&batch));
        assert!(batch.drafts.iter().any(|draft| draft.name() == "db"), "{text}");
        assert!(batch.outcome().is_err());
    }
    // What is of no HelmRelease is only counted; settings of an editor are none.
    let settings = ("settings.json", "{ // comment\n\"a\": [}\n");
    let batch = of_folder(&[("a.yaml", "a: 1\na: 2\n"), ("b.yaml", RELEASE), settings], &[]);
    assert_eq!(batch.left_out.not_yaml.len(), 1);
    assert!(!report::plain(&batch).contains("settings.json"));
}

#[test]
fn a_helmrelease_that_is_no_yaml_is_refused() {
    let fine = repository(", namespace: flux-system", "https://charts.example.com") + "---\n" + RELEASE;
    let broken = "kind: HelmRelease\nmetadata: {name: api}\nspec:\n  values: *undefined\n";
    let batch = of_folder(&[("a.yaml", &fine), ("b.yaml", broken)], &[]);
    let refused = refusals(&batch);
    assert!(
        matches!(&refused[..], [(Gap::Source, text)] if text.starts_with("b.yaml:4:11: not valid YAML: ")),
        "{refused:?}"
    );
    assert_eq!(batch.drafts.len(), 1);
    let outcome = batch.outcome().map_err(|failure| failure.message);
    assert_eq!(outcome, Err("1 of 2 HelmReleases are not converted".to_owned()));
}

#[test]
fn what_waits_for_one_that_is_refused_is_noted() {
    let of = |namespace: &str, password| {
        let login = format!("stringData: {{username: u, password: {password}}}");
        REPOSITORY.replace("namespace: shop", &format!("namespace: {namespace}"))
            + &secret(namespace, "login", &login)
    };
    let other = release("shop", "h1", "").replace("charts, namespace: shop", "charts, namespace: n1");
    let waiting = release("shop", "h2", "  dependsOn: [{name: h1}]\n");
    let text = of("shop", "p") + &of("n1", "q") + &release("shop", "h0", "") + &other + &waiting;
    let batch = of_file(&text);
    let names: Vec<_> = batch
        .drafts
        .iter()
        .map(|draft| (draft.name(), draft.objects.len()))
        .collect();
    assert_eq!(names, [("h0", 1), ("h2", 0)], "{:?}", refusals(&batch));
    assert_eq!(batch.refused.len(), 1);
    let text = report::plain(&batch);
    let expected =
        "HelmRelease shop/h2: spec.dependsOn: it waits for HelmOp \"h1\", whose HelmRelease is refused";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn drift_targets_are_listed_and_not_matched() {
    let of = |target: &str| {
        let more =
            format!("  driftDetection: {{mode: enabled, ignore: [{{paths: [/x], target: {{{target}}}}}]}}\n");
        let draft = drafts(&release("shop", "web", &more)).remove(0);
        let is_refused = draft.notes.iter().any(|note| note.gap == Gap::Valid);
        let policy = draft.helmop.spec.bundle.options.lifecycle.unwrap().drift.unwrap();
        let kind = |rule: &helmops_api::lifecycle::DriftIgnore| {
            let target = rule.target.clone().unwrap_or_default();
            format!("{}/{}/{}", target.group, target.kind, target.name)
        };
        (
            policy.ignore.iter().map(kind).collect::<Vec<_>>().join(" "),
            is_refused,
        )
    };
    for (target, expected, is_refused) in [
        ("kind: Role", "/Role/", false),
        (
            "kind: Role|RoleBinding, name: 'a.*'",
            "/Role/a.* /RoleBinding/a.*",
            false,
        ),
        (
            "kind: A|B, group: c.io|d.io",
            "c.io/A/ c.io/B/ d.io/A/ d.io/B/",
            false,
        ),
        ("kind: '.*'", "//", false),
        ("kind: '(Stateful|Daemon)Set'", "", true),
        ("group: '.*.example.com'", "", true),
    ] {
        let (found, refused) = of(target);
        assert_eq!(refused, is_refused, "{target}");
        assert!(is_refused || found == expected, "{target} {found}");
    }
}

/// A HelmOp has one setting for installations and upgrades.
#[test]
fn what_only_one_action_has_is_not_set_for_both() {
    let of = |install: &str, upgrade: &str, more: &str| {
        let more = format!("  install: {{{install}}}\n  upgrade: {{{upgrade}}}\n{more}");
        let draft = drafts(&release("shop", "web", &more)).remove(0);
        let helm = draft.helmop.spec.bundle.options.helm.unwrap();
        let lifecycle = draft.helmop.spec.bundle.options.lifecycle.unwrap();
        let ignores = lifecycle.test.is_some_and(|test| test.ignore_failures);
        let notes = draft.notes.iter().filter(|note| note.text.contains("alike"));
        (!helm.wait_for_jobs, ignores, notes.count())
    };
    let test = "  test: {enable: true}\n";
    let ignored = "  test: {enable: true, ignoreFailures: true}\n";
    let jobs = "disableWaitForJobs: true";
    let (ignore, count) = (
        "remediation: {ignoreTestFailures: true}",
        "remediation: {ignoreTestFailures: false}",
    );
    for (install, upgrade, more, expected) in [
        ("", "", "", (false, false, 0)),
        (jobs, "", "", (false, false, 1)),
        (jobs, jobs, "", (true, false, 0)),
        (jobs, "disableWait: true", "", (true, false, 0)),
        ("disableWait: true", "", "", (false, false, 0)),
        ("disableWait: true", "disableWait: true", "", (true, false, 0)),
        (ignore, "", test, (false, false, 1)),
        (ignore, ignore, test, (false, true, 0)),
        ("", "", ignored, (false, true, 0)),
        (count, "", ignored, (false, false, 1)),
        (count, count, ignored, (false, false, 0)),
        (ignore, "", "", (false, false, 0)),
    ] {
        assert_eq!(of(install, upgrade, more), expected, "{install} {upgrade} {more}");
    }
}

#[test]
fn a_setting_of_one_action_is_noted_at_the_field_that_has_it() {
    for (more, position, path) in [
        (
            "  test: {enable: true, ignoreFailures: true}\n  upgrade: {remediation: {ignoreTestFailures: false}}\n",
            "6:24",
            "spec.test.ignoreFailures",
        ),
        (
            "  test: {enable: true}\n  install: {remediation: {ignoreTestFailures: true}}\n",
            "7:27",
            "spec.install.remediation.ignoreTestFailures",
        ),
        (
            "  upgrade: {disableWaitForJobs: true}\n",
            "6:13",
            "spec.upgrade.disableWaitForJobs",
        ),
    ] {
        let notes = drafts(&release("shop", "web", more)).remove(0).notes;
        let found = notes.iter().find(|note| note.text.contains("alike"));
        let found = found.map(ToString::to_string).unwrap_or_default();
        let expected = format!("a.yaml:{position}: HelmRelease shop/web: {path}: ");
        assert!(found.starts_with(&expected), "{found}");
    }
}

/// The part of the life cycle as in the HelmRelease, but for the defaults of Flux.
#[test]
fn options_of_each_action_keep_their_names() {
    let of = |more: &str| {
        let draft = drafts(&release("shop", "web", more)).remove(0);
        let notes = draft.notes.len();
        let lifecycle = draft.helmop.spec.bundle.options.lifecycle.unwrap();
        (serde_json::to_value(lifecycle).unwrap(), notes)
    };
    let (plain, usual) = of("");
    for (section, fields, expected, notes) in [
        (
            "install",
            "timeout: 9m, disableWait: true, disableHooks: true, disableSchemaValidation: true, disableTakeOwnership: true",
            json!({
                "timeout": "9m", "disableWait": true, "disableHooks": true, "disableSchemaValidation": true, "takeOwnership": false,
            }),
            0,
        ),
        (
            "install",
            "serverSideApply: false",
            json!({ "serverSideApply": "disabled" }),
            0,
        ),
        (
            "install",
            "serverSideApply: true",
            json!({ "serverSideApply": "enabled" }),
            0,
        ),
        (
            "install",
            "replace: true, disableOpenAPIValidation: true",
            json!({}),
            0,
        ),
        (
            "upgrade",
            "timeout: 9m, disableHooks: true, cleanupOnFail: true, serverSideApply: auto",
            json!({ "timeout": "9m", "disableHooks": true, "cleanupOnFail": true, "serverSideApply": "auto" }),
            0,
        ),
        (
            "upgrade",
            "force: true, serverSideApply: disabled",
            json!({ "force": true, "serverSideApply": "disabled" }),
            0,
        ),
        ("upgrade", "force: true", json!({}), 1),
        (
            "rollback",
            "timeout: 9m, disableHooks: true, cleanupOnFail: true, serverSideApply: enabled, disableWait: true, recreate: true",
            json!({ "timeout": "9m", "disableHooks": true, "cleanupOnFail": true, "serverSideApply": "enabled" }),
            0,
        ),
        (
            "rollback",
            "force: true, serverSideApply: disabled",
            json!({ "force": true, "serverSideApply": "disabled" }),
            0,
        ),
        ("rollback", "disableWait: true", json!({}), 0),
        (
            "uninstall",
            "deletionPropagation: orphan",
            json!({ "deletionPropagation": "orphan" }),
            0,
        ),
        ("uninstall", "deletionPropagation: background", json!({}), 0),
    ] {
        let (mut found, count) = of(&format!("  {section}: {{{fields}}}\n"));
        let mut wanted = plain.clone();
        if expected != json!({}) {
            json_patch::merge(&mut wanted, &json!({ section: expected }));
        }
        assert_eq!(found.take(), wanted, "{section} {fields}");
        assert_eq!(count - usual, notes, "{section} {fields}");
    }
}

/// A HelmOp rolls back as it upgrades, Flux with defaults of its own.
#[test]
fn a_rollback_of_flux_inherits_nothing_from_the_upgrade() {
    let remediation = "remediation: {retries: 1}";
    let forced = "force: true, serverSideApply: disabled";
    for (upgrade, more, expected) in [
        (
            format!("timeout: 9m, {remediation}"),
            "",
            json!({ "timeout": "5m" }),
        ),
        (
            format!("timeout: 9m, {remediation}"),
            "  timeout: 7m\n",
            json!({ "timeout": "7m" }),
        ),
        (
            format!("{forced}, {remediation}"),
            "",
            json!({ "force": false, "serverSideApply": "auto" }),
        ),
        (
            format!("timeout: 9m, {forced}, {remediation}"),
            "  rollback: {timeout: 1m, force: true, serverSideApply: disabled}\n",
            json!({ "timeout": "1m", "force": true, "serverSideApply": "disabled" }),
        ),
        (
            format!("{forced}, {remediation}"),
            "  rollback: {serverSideApply: enabled}\n",
            json!({ "force": false, "serverSideApply": "enabled" }),
        ),
        (remediation.to_owned(), "  timeout: 7m\n", json!(null)),
        // There is no rollback.
        (format!("timeout: 9m, {forced}"), "", json!(null)),
        (
            format!("timeout: 9m, {forced}, remediation: {{retries: 1, strategy: uninstall}}"),
            "",
            json!(null),
        ),
    ] {
        let draft = drafts(&release(
            "shop",
            "web",
            &format!("  upgrade: {{{upgrade}}}\n{more}"),
        ))
        .remove(0);
        let lifecycle = draft.helmop.spec.bundle.options.lifecycle.unwrap();
        assert_eq!(json!(lifecycle.rollback), expected, "{upgrade} {more}");
    }
}

#[test]
fn a_value_that_fleet_replaces_is_refused() {
    let of = |values: &str| {
        let draft = drafts(&release("shop", "web", &format!("  values: {values}\n"))).remove(0);
        draft.notes.iter().any(|note| note.gap == Gap::Valid)
    };
    for (values, expected) in [
        ("{a: {b: [{c: global.fleet.clusterLabels.env}]}}", true),
        ("{a: global.fleet.clusterLabels.env}", true),
        ("{a: x global.fleet.clusterLabels.env}", false),
        ("{a: [global.fleet.clusterLabels.env]}", false),
    ] {
        assert_eq!(of(values), expected, "{values}");
    }
}

#[test]
fn a_null_has_the_position_of_its_value() {
    let more = "  values:\n    a: {b: null}\n    c.d:\n      - e:\n";
    let text = REPOSITORY.replace(", secretRef: {name: login}", "") + &release("shop", "web", more);
    let expected = [
        "a.yaml:12:9 spec.helm.values.a.b",
        "a.yaml:14:9 spec.helm.values.c.d[0].e",
    ];
    testing::check_nulls(&CONVERSION, &[("a.yaml", &text)], &expected);
}

#[test]
fn a_field_of_another_type_is_refused() {
    for (from, to, expected) in [
        (
            "version: 1.2.3",
            "version: 1.10",
            "spec.chart.spec.version: 1.10 is a number; write it in quotes",
        ),
        (
            "chart: web,",
            "chart: 012,",
            "spec.chart.spec.chart: 012 is a number; write it in quotes",
        ),
        (
            "spec: {chart",
            "spec: {releaseName: true, chart",
            "spec.releaseName: true is true or false; write it in quotes",
        ),
        (
            "spec: {chart",
            "spec: {install: foo, chart",
            "spec.install: foo is a text; it has to be a mapping",
        ),
        (
            "spec: {chart",
            "spec: {suspend: 'true', chart",
            "spec.suspend: 'true' is a text; it has to be true or false",
        ),
        (
            "spec: {chart",
            "spec: {valuesFrom: {a: 1}, chart",
            "spec.valuesFrom: this is a mapping, and has to be a list",
        ),
        (
            "spec: {chart",
            "spec: {valuesFrom: [a], chart",
            "spec.valuesFrom[0]: a is a text; it has to be a mapping",
        ),
        (
            "spec: {chart",
            "spec: {upgrade: {remediation: {retries: 1.5}}, chart",
            "spec.upgrade.remediation.retries: 1.5 is a number; it has to be a whole number",
        ),
    ] {
        let notes = drafts(&RELEASE.replacen(from, to, 1)).remove(0).notes;
        let found = notes
            .iter()
            .filter(|note| note.gap == Gap::Valid)
            .map(ToString::to_string);
        let found: Vec<_> = found.collect();
        assert!(
            matches!(&found[..], [text] if text.ends_with(expected)),
            "{to} {found:?}"
        );
    }
}

/// One mistake is one refusal, of the field that has it.
#[test]
fn a_reference_that_is_incomplete_is_refused_at_its_field() {
    let chart = |spec: &str| format!("chart: {{spec: {{{spec}}}}}");
    let oci = |reference: &str| {
        format!(
            "chartRef: {{kind: OCIRepository, name: web}}}}\n---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: \
             web}}\nspec: {{url: 'oci://h/web', ref: {{{reference}}}"
        )
    };
    for (spec, gap, part) in [
        (
            chart("chart: web"),
            Gap::Chart,
            "spec.chart.spec.sourceRef.name: Required value: the HelmRepository with the chart",
        ),
        (
            chart("chart: web, sourceRef: {kind: HelmRepository}"),
            Gap::Chart,
            "a.yaml:4:35: HelmRelease web: spec.chart.spec.sourceRef.name: Required value",
        ),
        (
            chart("chart: web, sourceRef: {kind: HelmRepository, name: 5}"),
            Gap::Valid,
            "spec.chart.spec.sourceRef.name: 5 is a number; write it in quotes",
        ),
        (
            chart("chart: web, sourceRef: {kind: 5, name: charts}"),
            Gap::Valid,
            "spec.chart.spec.sourceRef.kind: 5 is a number; write it in quotes",
        ),
        (
            chart("chart: 5, sourceRef: {kind: HelmRepository, name: charts}"),
            Gap::Valid,
            "spec.chart.spec.chart: 5 is a number; write it in quotes",
        ),
        (
            chart("sourceRef: {kind: HelmRepository, name: charts}"),
            Gap::Valid,
            "spec.chart.spec.chart: Required value: the name of the chart",
        ),
        (
            "chartRef: {kind: OCIRepository}".to_owned(),
            Gap::Unpublished,
            "a.yaml:4:8: HelmRelease web: spec.chartRef.name: Required value: a chartRef has kind and name",
        ),
        (
            "chartRef: {}".to_owned(),
            Gap::Unpublished,
            "spec.chartRef.kind: Required value",
        ),
        (
            oci("tag: 1.2"),
            Gap::Valid,
            "spec.ref.tag: 1.2 is a number; write it in quotes",
        ),
        (
            oci("semver: 1.0"),
            Gap::Valid,
            "spec.ref.semver: 1.0 is a number; write it in quotes",
        ),
    ] {
        let text = format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web}}\nspec: {{{spec}}}\n---\n{}",
            repository("", "https://charts.example.com")
        );
        testing::check_refusal(&CONVERSION, &text, gap, part);
    }
}

#[test]
fn an_encrypted_helmrelease_is_refused() {
    let of = |text: &str| {
        let notes = drafts(text).remove(0).notes;
        notes
            .iter()
            .any(|note| note.gap == Gap::Source && note.text.contains("sops -d"))
    };
    assert!(!of(RELEASE));
    assert!(of(&(RELEASE.to_owned() + "sops: {mac: x}\n")));
    assert!(of(&RELEASE.replacen(
        "spec: {chart",
        "spec: {values: {a: 'ENC[AES256_GCM,data:x]'}, chart",
        1
    )));
}

#[test]
fn a_patch_is_reported_once() {
    let exact = repository(", namespace: flux-system", "https://charts.example.com");
    let patch = |name: &str| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}}}\nspec: {{values: {{a: 1}}}}\n"
        )
    };
    let batch = of_folder(
        &[
            ("release.yaml", RELEASE),
            ("repo.yaml", &exact),
            ("own.yaml", &patch("web")),
            ("other.yaml", &patch("other")),
        ],
        &[],
    );
    let text = report::plain(&batch);
    for file in ["own.yaml", "other.yaml"] {
        assert_eq!(text.matches(file).count(), 1, "{text}");
    }
    assert!(text.contains("left out: 2 incomplete"), "{text}");
}

/// What kustomize merges must not keep its base from being converted; a mistake must not be taken for a patch.
#[test]
fn an_incomplete_helmrelease_is_a_patch_of_a_whole_one_only() {
    let exact = repository(", namespace: flux-system", "https://charts.example.com");
    let other = RELEASE.replace("namespace: shop", "namespace: other");
    for (spec, is_always_patch) in [
        ("chart: {spec: {chart: web, version: 1.2.3}}", false),
        (
            "chart: {spec: {chart: web, sourceRef: {kind: HelmRepository}}}",
            false,
        ),
        (
            "chart: {spec: {sourceRef: {kind: HelmRepository, name: x}}}",
            false,
        ),
        ("chartRef: {kind: OCIRepository}", false),
        ("chart: {spec: {version: 1.2.3}}", true),
        ("chart: null", true),
        ("values: {a: 1}", true),
    ] {
        let incomplete = |name: &str| {
            format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{{spec}}}\n"
            )
        };
        let of = |base: &str, name: &str| {
            let files = [
                ("base/web.yaml", base),
                ("repo.yaml", &exact),
                ("prod/web.yaml", &incomplete(name)),
            ];
            let batch = of_folder(&files, &[]);
            let found = (batch.drafts.len(), batch.left_out.patches, batch.refused.len());
            (found, report::plain(&batch))
        };
        let (found, text) = of(RELEASE, "web");
        assert_eq!(found, (1, 1, 0), "{spec}: {text}");
        assert!(
            text.contains(
                "prod/web.yaml:2:1: HelmRelease shop/web: an incomplete HelmRelease of this name is a patch"
            ),
            "{text}"
        );
        for (base, name) in [(RELEASE, "web2"), (&other, "web")] {
            let (found, text) = of(base, name);
            assert_eq!(found.1, usize::from(is_always_patch), "{spec}: {text}");
            assert_eq!(found.2 > 0, !is_always_patch, "{spec}: {text}");
            let is_exact = text.contains(&format!("HelmRelease shop/{name}: spec.chart"))
                && text.contains("Required value");
            assert_eq!(is_exact, !is_always_patch, "{spec}: {text}");
        }
    }
}

#[test]
fn logins_that_are_missing_belong_into_one_secret() {
    let of = |secrets: &str, url: &str| {
        let text = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: shop}}\nspec: {{url: '{url}', secretRef: \
             {{name: login}}, certSecretRef: {{name: certs}}}}\n---\n{}{secrets}",
            release("shop", "web", "")
        );
        let draft = of_file(&text).drafts.remove(0);
        let notes: Vec<_> = draft.notes.iter().map(|note| note.text.clone()).collect();
        (
            draft.objects.len(),
            draft.helmop.spec.helm_secret_name,
            notes.join("\n"),
        )
    };
    let certs = secret("shop", "certs", "stringData: {ca.crt: CERT}");
    for secrets in ["", &certs] {
        let (objects, name, notes) = of(secrets, "https://h");
        assert_eq!((objects, &*name), (0, "login"), "{notes}");
        assert!(
            notes.contains("needs a Secret \"login\" with username, password, cacerts"),
            "{notes}"
        );
        assert_eq!(notes.matches("needs a Secret").count(), 1, "{notes}");
    }
    let config = |host: &str| {
        let config = format!("{{\"auths\":{{\"{host}\":{{\"auth\":\"dTpw\"}}}}}}");
        let none = secret("shop", "certs", "stringData: {}");
        secret(
            "shop",
            "login",
            &format!("stringData: {{.dockerconfigjson: '{config}'}}"),
        ) + &none
    };
    let hub = config("https://index.docker.io/v1/");
    assert_eq!(of(&hub, "oci://docker.io/a").0, 1);
    assert_eq!(of(&hub, "oci://registry-1.docker.io/a").0, 1);
    let (objects, name, notes) = of(&config("other"), "oci://h/a");
    assert_eq!((objects, &*name), (0, ""), "no empty Secret");
    assert!(
        notes.contains("the key \".dockerconfigjson\" of Secret \"login\" has no login for host h"),
        "{notes}"
    );
}

#[test]
fn client_certificates_and_proxies_are_in_the_secret_of_the_helmop() {
    let text = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: shop}}\nspec: {{url: 'https://h', \
         certSecretRef: {{name: certs}}, proxySecretRef: {{name: proxy}}}}\n---\n{}{}{}",
        release("shop", "web", ""),
        secret(
            "shop",
            "certs",
            "stringData: {tls.crt: CERT, tls.key: KEY, other: x}"
        ),
        secret(
            "shop",
            "proxy",
            "stringData: {address: 'http://proxy:3128', username: u, password: p}"
        ),
    );
    let draft = of_file(&text).drafts.remove(0);
    assert_eq!(draft.helmop.spec.helm_secret_name, "certs");
    let data = json!({
        "tls.crt": "CERT", "tls.key": "KEY",
        "proxyAddress": "http://proxy:3128", "proxyUsername": "u", "proxyPassword": "p",
    });
    assert_eq!(draft.objects[0]["stringData"], data);
    let unknown = "the key \"other\" of Secret \"certs\" has no equivalent";
    assert!(
        draft.notes.iter().any(|note| note.text == unknown),
        "{:?}",
        draft.notes
    );
}

#[test]
fn an_empty_list_is_missing_and_a_thousand_retries_have_an_end() {
    let more = "  postRenderers: []\n  upgrade: {remediation: {retries: 1000}}\n";
    let text = release("shop", "web", more).replace("chart: web,", "chart: web, valuesFiles: [],");
    let notes = drafts(&text).remove(0).notes;
    assert!(
        !notes.iter().any(|note| note.path.contains("postRenderers")
            || note.path.contains("valuesFiles")
            || note.text.contains("without end")),
        "{notes:?}"
    );
}

#[test]
fn kustomizations_are_counted_and_noted_at_their_helmreleases() {
    let exact = repository(", namespace: flux-system", "https://charts.example.com");
    let set = |namespace: &str| {
        format!("kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nnamespace: {namespace}\n")
    };
    let batch = of_folder(
        &[
            ("a/b/release.yaml", RELEASE),
            ("repo.yaml", &exact),
            ("a/kustomization.yaml", &set("other")),
            ("a/b/kustomization.yaml", &set("shop")),
            ("c/kustomization.yaml", &set("third")),
        ],
        &[],
    );
    let notes = batch.drafts[0]
        .notes
        .iter()
        .filter(|note| note.path == "namespace");
    let files: Vec<_> = notes.map(|note| &*note.position.as_ref().unwrap().file).collect();
    assert_eq!(files, ["a/kustomization.yaml"]);
    let text = report::plain(&batch);
    assert!(
        text.contains("Kustomization and 2 more: namespace: this is not applied"),
        "{text}"
    );
}

#[test]
fn a_refusal_of_a_common_source_names_each_helmrelease() {
    let source = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: shop}\nspec: {url: \
                  'https://${DOMAIN}'}\n---\n";
    let text = source.to_owned() + &release("shop", "web", "") + &release("shop", "api", "");
    let found = report::plain(&of_file(&text));
    for name in ["web", "api"] {
        let expected = format!(
            "refused: a.yaml:4:22: HelmRelease shop/{name}: HelmRepository shop/charts: spec.url: ${{DOMAIN}}"
        );
        assert!(found.contains(&expected), "{found}");
    }
}

#[test]
fn records_stay_where_flux_keeps_them() {
    for (own, target, storage, flag, expected) in [
        ("shop", "", "", None, Some("")),
        ("flux", "shop", "", None, Some("flux")),
        ("flux", "shop", "shop", None, Some("")),
        ("flux", "shop", "records", None, Some("records")),
        ("flux", "", "records", None, Some("records")),
        ("", "shop", "records", None, Some("records")),
        // kustomize sets the namespace, and they are there too.
        ("", "", "", Some("shop"), Some("")),
        // It is not known.
        ("", "shop", "", None, None),
        // The release is another one than that of Flux.
        ("shop", "", "", Some("web"), Some("")),
        ("flux", "shop", "records", Some("web"), Some("")),
    ] {
        let fields = [("targetNamespace", target), ("storageNamespace", storage)];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let lines: Vec<_> = fields.map(|(key, value)| format!("  {key}: {value}\n")).collect();
        let more = lines.concat();
        let text = release("OWN", "web", &more).replacen("OWN", own, 1);
        let settings = Settings {
            target_namespace: flag.map(str::to_owned),
            ..settings()
        };
        let (options, notes) = options_and_notes(&text, settings, "spec.targetNamespace");
        let case = format!("{own} {target} {storage} {flag:?}");
        let found = options.storage_namespace();
        assert_eq!(found.unwrap_or_default(), expected.unwrap_or_default(), "{case}");
        let is_noted = notes
            .iter()
            .any(|(_, text)| text.contains("lifecycle.storageNamespace"));
        assert_eq!(is_noted, expected.is_none(), "{case}: {notes:?}");
    }
}

/// The options of the HelmOp of a HelmRelease, and its notes about a field.
fn options_and_notes(
    text: &str,
    settings: Settings,
    path: &str,
) -> (helmops_api::BundleDeploymentOptions, Vec<(Gap, String)>) {
    let source = Objects::of(input(&[("a.yaml", text)], false), settings).unwrap();
    let draft = source.batch(None).unwrap().drafts.remove(0);
    let notes = draft.notes.iter().filter(|note| note.path == path);
    let notes = notes.map(|note| (note.gap, note.text.clone())).collect();
    (draft.helmop.spec.bundle.options, notes)
}

#[test]
fn values_are_referenced_where_flux_reads_them() {
    for (own, target, flag, expected, is_known) in [
        ("shop", "", None, "", true),
        ("shop", "shop", None, "", true),
        ("shop", "web", None, "shop", true),
        ("shop", "", Some("web"), "shop", true),
        ("", "", None, "", true),
        ("", "", Some("web"), "", true),
        ("", "web", None, "", false),
        ("", "web", Some("other"), "", false),
    ] {
        let more = format!(
            "  targetNamespace: '{target}'\n  valuesFrom: [{{kind: Secret, name: a, literal: true}}]\n"
        );
        let text = release("OWN", "web", &more).replacen("OWN", own, 1);
        let settings = Settings {
            target_namespace: flag.map(str::to_owned),
            ..settings()
        };
        let (options, notes) = options_and_notes(&text, settings, "spec.valuesFrom");
        let lifecycle = options.lifecycle.unwrap();
        let [reference] = &lifecycle.values_from[..] else {
            panic!("{lifecycle:?}")
        };
        assert_eq!(reference.namespace, expected, "{own} {target} {flag:?}");
        assert!(!reference.literal, "it has no effect without targetPath");
        assert_eq!(notes.len(), if is_known { 1 } else { 2 }, "{notes:?}");
    }
}

/// They are on the clusters, and not in the output.
#[test]
fn objects_with_values_are_no_objects_that_are_left_out() {
    let config = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '${{X}}'}}\n---\n")
    };
    let more = "  valuesFrom: [{kind: ConfigMap, name: used, valuesKey: a}]\n";
    let text = REPOSITORY.to_owned() + &config("used") + &config("other") + &release("shop", "web", more);
    let batch = of_file(&text);
    let unused: Vec<_> = batch.notes.iter().map(|note| &*note.object).collect();
    assert_eq!(unused, ["ConfigMap other"]);
    let notes = &batch.drafts[0].notes;
    assert!(!notes.iter().any(|note| note.text.contains("${X}")), "{notes:?}");
}

#[test]
fn values_files_are_those_of_the_chart() {
    let over = [(Gap::None, source::OVER_DEFAULT.to_owned())];
    let refused = [(
        Gap::Field(Loss::ValuesFiles),
        "\"shared/values.yaml\" is not in the chart; copy its content into helm.values".to_owned(),
    )];
    for (kind, chart, files, expected, expected_notes) in [
        (
            "HelmRepository",
            "web",
            "valuesFiles: [./values.yaml, envs/prod.yaml]",
            &["values.yaml", "envs/prod.yaml"][..],
            &[][..],
        ),
        (
            "HelmRepository",
            "web",
            "valuesFiles: [prod.yaml]",
            &["prod.yaml"],
            &over,
        ),
        (
            "HelmRepository",
            "web",
            "valuesFile: values.yaml, valuesFiles: [b.yaml]",
            &["values.yaml", "b.yaml"],
            &[],
        ),
        (
            "GitRepository",
            "./charts/web/",
            "valuesFiles: [charts/web/values.yaml, ./charts/web/b.yaml]",
            &["values.yaml", "b.yaml"],
            &[],
        ),
        (
            "GitRepository",
            "sha",
            "valuesFiles: [sha/values.yaml, shared/values.yaml]",
            &["values.yaml"],
            &refused,
        ),
    ] {
        let text = release("shop", "web", "").replace(
            "chart: web, version: 1.2.3, sourceRef: {kind: HelmRepository",
            &format!("chart: {chart}, version: 1.2.3, {files}, ignoreMissingValuesFiles: true, sourceRef: {{kind: {kind}"),
        );
        let (options, notes) = options_and_notes(&text, settings(), "spec.chart.spec.valuesFiles");
        assert_eq!(options.helm.unwrap().values_files, expected, "{files}");
        assert!(options.lifecycle.unwrap().ignore_missing_values_files);
        assert_eq!(notes, expected_notes, "{files}");
    }
}

/// Admission denies them, and names the field of the HelmOp, which has the same name in the HelmRelease.
#[test]
fn a_patch_that_kustomize_refuses_is_refused() {
    let base = repository(", namespace: shop", "https://charts.example.com") + "---\n";
    for (renderer, expected) in [
        (
            "patches: [{patch: 'spec: {}'}]",
            "spec.lifecycle.postRenderers[0].kustomize.patches[0].patch: Invalid value",
        ),
        (
            "patchesJson6902: [{patch: [{op: set, path: /a}], target: {kind: A}}]",
            "operation 0: op must be one of add",
        ),
        (
            "images: [{name: a, newTag: 1.10}]",
            "spec.postRenderers[0].kustomize.images[0].newTag: 1.10 is a number; write it in quotes",
        ),
        (
            "patchesStrategicMerge: [a.yaml]",
            "spec.postRenderers[0].kustomize.patchesStrategicMerge[0]: a.yaml is a text; it has to be a mapping",
        ),
    ] {
        let more = format!("  postRenderers: [{{kustomize: {{{renderer}}}}}]\n");
        let refused = refusals(&of_file(&(base.clone() + &release("shop", "web", &more))));
        assert!(
            matches!(&refused[..], [(Gap::Valid, text)] if text.contains(expected)),
            "{refused:?}"
        );
    }
}
