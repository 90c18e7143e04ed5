//! Golden tests: `cli/tests/golden/helmrelease/NAME.yaml` becomes `NAME.helmop.yaml`.

use std::{fs, path::PathBuf};

use helmops_core::admit::ValidHelmOp;

use super::*;
use crate::create::text;

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
            if !draft.is_incomplete() {
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
