//! Tests of the desired Bundle of a HelmOp.

use helmops_api::{Bundle, HelmOp, PrunedFields, ResolvedChart, labels};
use helmops_model::chart::resolved::ChartVersion;
use serde_json::{Value, json};

use super::{BundleInputs, Lookup, MissingVersion, Plan, RequestedCharts, check_owner, plan};
use crate::admit::ValidHelmOp;

const REPO: &str = "https://u:p@charts.example.com";
const REDACTED: &str = "https://charts.example.com";

fn helmop(spec: &Value) -> HelmOp {
    let object = json!({
        "metadata": { "name": "web", "namespace": "fleet-default", "uid": "u-1", "labels": { "not": "copied" } },
        "spec": spec
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn record(repo: &str, chart: &str, constraint: &str, version: &str) -> ResolvedChart {
    ResolvedChart {
        repo: repo.to_owned(),
        chart: chart.to_owned(),
        constraint: constraint.to_owned(),
        version: version.to_owned(),
        ..ResolvedChart::default()
    }
}

/// The charts of a HelmOp, with these versions.
fn charts<'v, 'a>(valid: &'v ValidHelmOp<'a>, resolved: &[ResolvedChart]) -> RequestedCharts<'v, 'a> {
    let mut charts = RequestedCharts::of(valid, None);
    for chart in charts.as_mut_slice() {
        let mut versions = resolved.iter().cloned().map(Lookup::from_record);
        let found = versions.find(|(lookup, _)| *lookup == chart.lookup);
        chart.version = found.map(|(_, recorded)| recorded.version);
    }
    charts
}

fn inputs<'a>(charts: &'a RequestedCharts<'a, 'a>) -> BundleInputs<'a> {
    BundleInputs {
        charts,
        handled_poll: None,
        ca_bundle: "",
        pruned: Default::default(),
        traceparent: None,
    }
}

/// The records of the versions that are kept.
fn pins(helmop: &HelmOp, bundle: Option<&Bundle>) -> Vec<ResolvedChart> {
    RequestedCharts::of(&ValidHelmOp::try_from(helmop).unwrap(), bundle).records()
}

fn created(helmop: &HelmOp, resolved: &[ResolvedChart]) -> Bundle {
    let valid = ValidHelmOp::try_from(helmop).unwrap();
    match plan(&valid, None, inputs(&charts(&valid, resolved))) {
        Ok(Plan::Create(bundle)) => *bundle,
        other => panic!("{other:?}"),
    }
}

fn spec_of(bundle: &Bundle) -> Value {
    serde_json::to_value(&bundle.spec).unwrap()
}

#[test]
fn a_helmop_without_targets_goes_to_the_default_group() {
    let helmop = helmop(&json!({
        "helm": { "repo": REPO, "chart": "web", "version": "1.x", "values": { "a": 1 } },
        "labels": { "team": "a", labels::HELM_NAME: "mine" },
        "helmSecretName": "access", "insecureSkipTLSVerify": true, "pollingInterval": "15m",
        "resources": [{ "name": "x" }], "contentsId": "x", "valuesHash": "x", "helmOpOptions": { "helmOpSecretName": "x" }
    }));
    let bundle = created(&helmop, &[record(REDACTED, "web", "1.x", "1.2.3")]);
    assert_eq!(
        spec_of(&bundle),
        json!({
            "helm": { "repo": REPO, "chart": "web", "version": "1.2.3", "values": { "a": 1 } },
            "helmOpOptions": { "helmOpSecretName": "access", "helmOpInsecureSkipTLSVerify": true },
            "targetCustomizationMode": "FirstMatch",
            "targets": [{ "name": "default", "clusterGroup": "default" }]
        })
    );
    let metadata = serde_json::to_value(&bundle.metadata).unwrap();
    assert_eq!(
        metadata["labels"],
        json!({ "team": "a", labels::HELM_NAME: "web" })
    );
    assert_eq!(
        (&metadata["name"], &metadata["namespace"]),
        (&json!("web"), &json!("fleet-default"))
    );
    assert_eq!(
        metadata["ownerReferences"],
        json!([{ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "name": "web", "uid": "u-1", "controller": true }])
    );
    assert!(
        !metadata["annotations"].to_string().contains("u:p@"),
        "{metadata}"
    );
}

#[test]
fn targets_get_their_own_names_and_versions() {
    let helmop = helmop(&json!({
        "helm": { "repo": REPO, "chart": "web", "version": "~1.2" },
        "targets": [
            { "clusterName": "a" },
            { "name": "b", "helm": { "values": { "a": 1 } } },
            { "helm": { "version": "2.x" } },
            { "helm": { "repo": "https://other.example.com", "chart": "shop" } },
            { "helm": { "chart": "shop", "version": "~1.2" } }
        ]
    }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let requested: Vec<_> = RequestedCharts::of(&valid, None)
        .as_slice()
        .iter()
        .map(|chart| chart.lookup.clone())
        .map(|lookup| (lookup.repo, lookup.chart, lookup.constraint))
        .collect();
    let expected = [
        (REDACTED, "web", "~1.2", "1.2.9"),
        (REDACTED, "web", "2.x", "2.3.4"),
        ("https://other.example.com", "shop", "~1.2", "1.2.5"),
        (REDACTED, "shop", "~1.2", "1.2.0"),
    ];
    assert_eq!(
        requested,
        expected.map(|(repo, chart, constraint, _)| (repo.into(), chart.into(), constraint.into()))
    );
    let resolved =
        expected.map(|(repo, chart, constraint, version)| record(repo, chart, constraint, version));
    let bundle = created(&helmop, &resolved);
    let targets: Vec<_> = bundle
        .spec
        .targets
        .iter()
        .map(|target| {
            (
                target.name.as_str(),
                target
                    .options
                    .helm
                    .as_ref()
                    .map(|helm| (&*helm.chart, &*helm.version)),
            )
        })
        .collect();
    assert_eq!(
        targets,
        [
            ("target000", None),
            ("b", Some(("web", "1.2.9"))),
            ("target002", Some(("web", "2.3.4"))),
            ("target003", Some(("shop", "1.2.5"))),
            ("target004", Some(("shop", "1.2.0"))),
        ]
    );
}

#[test]
fn an_empty_version_is_inherited_only_by_targets_with_the_same_chart() {
    let helmop = helmop(&json!({
        "helm": { "repo": REPO, "chart": "web" },
        "targets": [{ "helm": { "values": {} } }, { "helm": { "chart": "shop" } }]
    }));
    let resolved = [
        record(REDACTED, "web", "", "1.0.0"),
        record(REDACTED, "shop", "", "2.0.0"),
    ];
    let bundle = created(&helmop, &resolved);
    let versions: Vec<_> = bundle
        .spec
        .targets
        .iter()
        .map(|target| target.options.helm.as_ref().unwrap().version.as_str())
        .collect();
    assert_eq!(versions, ["", "2.0.0"]);
}

#[test]
fn an_archive_has_no_version() {
    let helmop = helmop(&json!({ "helm": { "chart": "https://h/c.tgz" } }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    assert_eq!(RequestedCharts::of(&valid, None).as_slice().len(), 0);
    assert_eq!(
        spec_of(&created(&helmop, &[]))["helm"],
        json!({ "chart": "https://h/c.tgz" })
    );
}

/// Fleet's agents do not recognize `OCI://` as a registry.
#[test]
fn the_scheme_of_registries_is_written_in_lower_case() {
    let helmop = helmop(&json!({
        "helm": { "repo": "OCI://r.example.com/web", "version": "1.x" }, "targets": [{ "helm": { "version": "2.x" } }]
    }));
    let resolved = [
        record("OCI://r.example.com/web", "", "1.x", "1.2.3"),
        record("OCI://r.example.com/web", "", "2.x", "2.0.0"),
    ];
    let spec = spec_of(&created(&helmop, &resolved));
    assert_eq!(spec["helm"]["repo"], "oci://r.example.com/web");
    assert_eq!(spec["targets"][0]["helm"]["repo"], "oci://r.example.com/web");
}

#[test]
fn an_unresolved_constraint_never_reaches_a_bundle() {
    let helmop = helmop(&json!({
        "helm": { "repo": REPO, "chart": "web", "version": "1.x" }, "targets": [{ "helm": { "version": "2.x" } }]
    }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let charts = charts(&valid, &[record(REDACTED, "web", "1.x", "1.0.0")]);
    assert!(!charts.have_versions());
    let Err(MissingVersion(lookup)) = plan(&valid, None, inputs(&charts)) else {
        panic!("a Bundle without a resolved version")
    };
    assert_eq!(lookup.constraint, "2.x");
}

#[test]
fn only_differences_are_written() {
    let spec = json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.x", "values": { "a": 1 } } });
    let resolved = [record(REDACTED, "web", "1.x", "1.2.3")];
    let helmop = helmop(&spec);
    let mut existing = created(&helmop, &resolved);
    existing.metadata.resource_version = Some("7".to_owned());
    existing.metadata.finalizers = Some(vec!["fleet.cattle.io/bundle-finalizer".to_owned()]);
    existing
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("other".into(), "annotation".into());
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let charts = charts(&valid, &resolved);
    assert_eq!(plan(&valid, Some(&existing), inputs(&charts)), Ok(Plan::Nothing));

    let mut edited = existing.clone();
    edited.spec.options.helm.as_mut().unwrap().version = "9.9.9".to_owned();
    edited.metadata.labels = None;
    assert_eq!(
        plan(&valid, Some(&edited), inputs(&charts)),
        Ok(Plan::Replace(Box::new(existing)))
    );
}

#[test]
fn versions_are_kept_until_another_constraint_is_requested() {
    let helmop_with =
        |version: &str| helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": version } }));
    let resolved = [record(REDACTED, "web", "1.x", "1.2.3")];
    let bundle = created(&helmop_with("1.x"), &resolved);
    let pinned = |helmop: &HelmOp, bundle: &Bundle| pins(helmop, Some(bundle));
    assert_eq!(pinned(&helmop_with("1.x"), &bundle), resolved);
    assert_eq!(
        pinned(&helmop_with(">=1.0"), &bundle),
        [],
        "another constraint is resolved again, even if the version satisfies it"
    );

    let mut rotated = helmop_with("1.x");
    let helm = rotated.spec.bundle.options.helm.as_mut().unwrap();
    helm.repo = helm.repo.replace("u:p", "u:new");
    assert_eq!(
        pinned(&rotated, &bundle),
        resolved,
        "credentials are not part of the lookup"
    );

    let mut another = helmop_with("1.x");
    another.metadata.uid = Some("u-2".to_owned());
    assert_eq!(
        pinned(&another, &bundle),
        [],
        "the Bundle belongs to a deleted HelmOp of the same name"
    );
}

#[test]
fn versions_in_bundles_of_fleet_are_kept_if_they_satisfy_the_helmop() {
    let helmop_with =
        |version: &str| helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": version } }));
    let fleet_bundle = |version: &str| -> Bundle {
        let bundle = json!({
            "metadata": { "name": "web" },
            "spec": { "helm": { "repo": REPO, "chart": "web", "version": version }, "helmOpOptions": {} }
        });
        serde_json::from_str(&bundle.to_string()).unwrap()
    };
    for (constraint, deployed, is_kept) in [
        ("1.x", "1.2.3", true),
        ("", "v1.2.3", true),
        ("1.2.3", "1.2.3", true),
        ("2.x", "1.2.3", false),
        ("1.x", "1.x", false),
        ("1.x", "", false),
    ] {
        let helmop = helmop_with(constraint);
        let found = pins(&helmop, Some(&fleet_bundle(deployed)));
        assert_eq!(
            found.first().map(|record| record.version.as_str()),
            is_kept.then_some(deployed),
            "{constraint} {deployed}"
        );
    }
    // What the filter leaves out is not what is requested.
    let filtered = |filter: &str| {
        let spec =
            json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.x" }, "semverFilter": filter });
        let bundle = fleet_bundle("1.2.0");
        pins(&helmop(&spec), Some(&bundle)).len()
    };
    assert_eq!((filtered("[.]0$"), filtered("-rc")), (1, 0));
}

#[test]
fn repositories_that_differ_only_in_the_query_share_no_record() {
    let helmop_with = |query: &str| {
        helmop(&json!({ "helm": { "repo": format!("{REPO}?{query}"), "chart": "web", "version": "1.x" } }))
    };
    let pinned = |helmop: &HelmOp, bundle: &Bundle| pins(helmop, Some(bundle));
    let with = |repo: &str| {
        let annotation = serde_json::to_string(&[record(repo, "web", "1.x", "1.2.3")]).unwrap();
        let bundle = json!({
            "metadata": { "annotations": { labels::RESOLVED: annotation } },
            "spec": {}
        });
        let mut bundle: Bundle = serde_json::from_str(&bundle.to_string()).unwrap();
        let plain = created(&helmop(&json!({ "helm": { "chart": "https://h/c.tgz" } })), &[]);
        bundle.metadata.owner_references = plain.metadata.owner_references.clone();
        bundle
    };
    let helmop = helmop_with("channel=stable");
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let lookup = &RequestedCharts::of(&valid, None).main().unwrap().lookup.clone();
    assert!(!lookup.repo.contains("stable"), "{}", lookup.repo);
    let own = with(&lookup.repo);
    assert_eq!(pinned(&helmop, &own).len(), 1);
    assert_eq!(pinned(&helmop_with("channel=beta"), &own), []);
    // A record in the old format, without the query, keeps its version and is upgraded.
    let old = with(&format!("{REDACTED}?…"));
    let kept = pinned(&helmop, &old);
    assert_eq!((kept[0].version.as_str(), &kept[0].repo), ("1.2.3", &lookup.repo));
}

#[test]
fn targets_with_another_query_are_separate_lookups() {
    let helmop = helmop(&json!({
        "helm": { "repo": format!("{REPO}?channel=stable"), "chart": "web" },
        "targets": [{ "helm": { "repo": format!("{REPO}?channel=beta") } }]
    }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    assert_eq!(RequestedCharts::of(&valid, None).as_slice().len(), 2);
}

#[test]
fn a_deleted_bundle_is_created_again_with_its_versions() {
    let mut helmop = helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.x" } }));
    let kept = |helmop: &HelmOp| {
        let pins = pins(helmop, None);
        pins.first().map(|record| record.version.clone())
    };
    assert_eq!(kept(&helmop), None);
    let status = |resolved: &[ResolvedChart], version: &str| helmops_api::HelmOpStatus {
        resolved: resolved.to_vec(),
        version: version.to_owned(),
        ..Default::default()
    };
    helmop.status = Some(status(&[record(REDACTED, "web", "1.x", "1.2.3")], ""));
    assert_eq!(kept(&helmop).as_deref(), Some("1.2.3"));
    helmop.status = Some(status(&[record(REDACTED, "web", "2.x", "2.0.0")], ""));
    assert_eq!(kept(&helmop), None, "another constraint is requested");
    helmop.status = Some(status(&[], "1.2.3"));
    assert_eq!(
        kept(&helmop).as_deref(),
        Some("1.2.3"),
        "the only field for versions in Fleet's CRD"
    );
    helmop.status = Some(status(&[], "2.0.0"));
    assert_eq!(kept(&helmop), None);
}

#[test]
fn the_token_of_a_requested_poll_is_recorded_and_removed() {
    let helmop = helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.0.0" } }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let existing = created(&helmop, &resolved);
    let charts = charts(&valid, &resolved);
    let polled = |existing: &Bundle, polled| {
        let parts = BundleInputs {
            handled_poll: polled,
            ..inputs(&charts)
        };
        match plan(&valid, Some(existing), parts) {
            Ok(Plan::Replace(bundle)) => *bundle,
            other => panic!("{other:?}"),
        }
    };
    let recorded = polled(&existing, Some("7"));
    assert_eq!(
        recorded.metadata.annotations.as_ref().unwrap()[labels::LAST_HANDLED_POLL],
        "7"
    );
    assert_eq!(polled(&recorded, None), existing);
}

#[test]
fn a_trace_is_written_with_a_change_of_the_spec_and_is_no_reason_for_a_write() {
    let resolved = |version| [record(REDACTED, "web", "1.x", version)];
    let helmop = helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.x" } }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let planned = |existing: Option<&Bundle>, version, polled, traceparent| {
        let charts = charts(&valid, &resolved(version));
        let inputs = BundleInputs {
            handled_poll: polled,
            traceparent,
            ..inputs(&charts)
        };
        match plan(&valid, existing, inputs).unwrap() {
            Plan::Nothing => None,
            Plan::Create(bundle) | Plan::Replace(bundle) => Some(*bundle),
        }
    };
    let trace_of = |bundle: &Bundle| {
        let annotations = bundle.metadata.annotations.as_ref();
        annotations.and_then(|annotations| annotations.get(labels::TRACEPARENT).cloned())
    };
    let first = planned(None, "1.0.0", None, Some("a")).unwrap();
    assert_eq!(trace_of(&first).as_deref(), Some("a"));
    assert_eq!(planned(Some(&first), "1.0.0", None, Some("b")), None);
    let polled = planned(Some(&first), "1.0.0", Some("7"), Some("b")).unwrap();
    assert_eq!(trace_of(&polled).as_deref(), Some("a"), "no roll-out starts");
    let newer = planned(Some(&first), "1.1.0", None, Some("b")).unwrap();
    assert_eq!(trace_of(&newer).as_deref(), Some("b"));
    let untraced = planned(Some(&first), "1.1.0", None, None).unwrap();
    assert_eq!(trace_of(&untraced), None, "the old trace is not continued");
}

#[test]
fn a_bundle_has_the_shard_of_its_helmop() {
    let mut helmop = helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.0.0" } }));
    helmop
        .metadata
        .labels
        .get_or_insert_default()
        .insert(labels::SHARD.to_owned(), "b".to_owned());
    let bundle = created(&helmop, &[record(REDACTED, "web", "1.0.0", "1.0.0")]);
    assert_eq!(bundle.metadata.labels.as_ref().unwrap()[labels::SHARD], "b");
}

#[test]
fn bundles_that_were_not_created_from_a_helmop_are_rejected() {
    let foreign: Bundle = serde_json::from_str(r#"{"metadata":{"name":"web"},"spec":{}}"#).unwrap();
    let error = check_owner(&foreign).unwrap_err().to_string();
    assert!(
        error.contains("a non-helmops bundle already exists with name web"),
        "{error}"
    );
    let own: Bundle = serde_json::from_str(r#"{"spec":{"helmOpOptions":{}}}"#).unwrap();
    assert_eq!(check_owner(&own), Ok(()));
}

#[test]
fn urls_that_differ_only_in_credentials_are_one_lookup() {
    let helmop = helmop(&json!({
        "helm": { "repo": REPO, "chart": "web", "version": "1.x" },
        "targets": [
            { "helm": { "repo": "https://other:login@charts.example.com", "version": "1.x" } },
            { "helm": { "repo": REDACTED, "version": "1.x" } }
        ]
    }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let charts = RequestedCharts::of(&valid, None);
    let only = charts.main().unwrap();
    assert_eq!(charts.as_slice().len(), 1);
    assert_eq!((&*only.lookup.repo, only.request.repo), (REDACTED, REPO));
    assert_eq!(charts.first_repo(), Some(REDACTED));
}

#[test]
fn each_target_has_the_version_of_its_own_chart() {
    let helmop = helmop(&json!({
        "helm": { "chart": "https://h/c.tgz" },
        "targets": [
            { "clusterName": "a" },
            { "helm": { "repo": REPO, "chart": "web", "version": "1.x" } },
            { "helm": { "chart": "https://h/d.tgz" } },
            { "helm": { "repo": REDACTED, "chart": "web", "version": "1.x" } },
            { "helm": { "repo": REPO, "chart": "web", "version": "2.x" } }
        ]
    }));
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    let charts = charts(
        &valid,
        &[
            record(REDACTED, "web", "2.x", "2.0.0"),
            record(REDACTED, "web", "1.x", "1.2.3"),
        ],
    );
    let version = |index| Some(&*charts.of_target(index)?.version.as_ref()?.version);
    assert!(charts.main().is_none(), "an archive");
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(version),
        [None, Some("1.2.3"), None, Some("1.2.3"), Some("2.0.0"), None]
    );
    let records = charts.records();
    let versions: Vec<_> = records.iter().map(|record| &*record.version).collect();
    assert_eq!(versions, ["1.2.3", "2.0.0"], "in the order of the requests");
}

#[test]
fn the_first_of_two_records_for_a_chart_is_used() {
    let mut helmop = helmop(&json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.x" } }));
    let resolved = ["1.2.3", "1.2.4"].map(|version| record(REDACTED, "web", "1.x", version));
    helmop.status = Some(helmops_api::HelmOpStatus {
        resolved: resolved.to_vec(),
        ..Default::default()
    });
    assert_eq!(pins(&helmop, None), resolved[..1]);
}

/// A HelmOp with these unknown fields in its spec, its `helm` block and its target.
fn newer(fields: &Value) -> HelmOp {
    let mut spec = json!({
        "helm": { "repo": REPO, "chart": "web", "version": "1.0.0" },
        "rolloutStrategy": {}, "targets": [{ "name": "a", "clusterGroup": "eu", "helm": {} }]
    });
    for path in ["", "/helm", "/targets/0", "/targets/0/helm", "/rolloutStrategy"] {
        json_patch::merge(spec.pointer_mut(path).unwrap(), fields);
    }
    helmop(&spec)
}

fn replaced(helmop: &HelmOp, existing: &Bundle, pruned: &PrunedFields) -> Option<Bundle> {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let valid = ValidHelmOp::try_from(helmop).unwrap();
    let charts = charts(&valid, &resolved);
    let inputs = BundleInputs {
        pruned,
        ..inputs(&charts)
    };
    match plan(&valid, Some(existing), inputs) {
        Ok(Plan::Replace(bundle)) => Some(*bundle),
        Ok(Plan::Nothing) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_fields_of_a_helmop_are_passed_on_at_every_level_and_removed_with_it() {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let none = PrunedFields::default();
    let bundle = created(&newer(&json!({ "newer": { "a": 1 } })), &resolved);
    let spec = spec_of(&bundle);
    for path in ["", "/helm", "/targets/0", "/targets/0/helm", "/rolloutStrategy"] {
        assert_eq!(
            spec.pointer(path).unwrap()["newer"],
            json!({ "a": 1 }),
            "{path}: {spec}"
        );
    }
    assert_eq!(
        replaced(&newer(&json!({ "newer": { "a": 1 } })), &bundle, &none),
        None
    );
    let changed = replaced(&newer(&json!({ "newer": { "a": 2 } })), &bundle, &none).unwrap();
    assert_eq!(spec_of(&changed)["newer"], json!({ "a": 2 }));
    let removed = replaced(&newer(&json!({})), &bundle, &none).unwrap();
    assert_eq!(removed, created(&newer(&json!({})), &resolved));
}

#[test]
fn unknown_fields_of_a_bundle_that_do_not_follow_from_its_helmop_stay() {
    let none = PrunedFields::default();
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let helmop = newer(&json!({ "newer": 1 }));
    let mut object = serde_json::to_value(created(&helmop, &resolved)).unwrap();
    object["other"] = json!(1);
    object["spec"]["other"] = json!(1);
    object["spec"]["helmOpOptions"]["other"] = json!(1);
    let existing: Bundle = serde_json::from_str(&object.to_string()).unwrap();
    assert_eq!(replaced(&helmop, &existing, &none), None, "no difference");
    let changed = replaced(&newer(&json!({ "newer": 2 })), &existing, &none).unwrap();
    let changed = serde_json::to_value(changed).unwrap();
    for path in ["", "/spec", "/spec/helmOpOptions"] {
        assert_eq!(changed.pointer(path).unwrap()["other"], 1, "{path}: {changed}");
    }
    assert_eq!(changed["spec"]["newer"], 2);
    // The HelmOp sets the field now.
    let taken_over = replaced(&newer(&json!({ "other": 2 })), &existing, &none).unwrap();
    let spec = spec_of(&taken_over);
    assert_eq!((&spec["other"], spec.get("newer")), (&json!(2), None));
    assert_eq!(replaced(&newer(&json!({ "other": 2 })), &taken_over, &none), None);
    // The blocks are those of the HelmOp.
    object["spec"]["helm"]["other"] = json!(1);
    let existing: Bundle = serde_json::from_str(&object.to_string()).unwrap();
    let reverted = replaced(&helmop, &existing, &none).unwrap();
    assert_eq!(spec_of(&reverted)["helm"].get("other"), None);
}

/// The CRD of HelmOp has the fields, and that of Bundle does not.
#[test]
fn an_unknown_field_that_the_api_server_drops_is_written_once() {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let helmop = newer(&json!({ "newer": 1 }));
    let sent = created(&helmop, &resolved);
    let stored = Bundle {
        spec: created(&newer(&json!({})), &resolved).spec,
        ..sent.clone()
    };
    let mut pruned = PrunedFields::default();
    assert_eq!(
        replaced(&helmop, &stored, &pruned),
        Some(sent.clone()),
        "as after a restart"
    );
    pruned.learn(&sent.spec, &stored.spec);
    assert_eq!(replaced(&helmop, &stored, &pruned), None);
    let changed = newer(&json!({ "newer": 1, "namespace": "shop" }));
    let write = replaced(&changed, &stored, &pruned).unwrap();
    assert_eq!(
        spec_of(&write)["newer"],
        1,
        "another write shows whether the field is stored now"
    );
}

/// A HelmOp with a life cycle, and these annotations.
fn with_requests(spec: &Value, annotations: &Value) -> HelmOp {
    let mut helmop = newer(&json!({}));
    let mut object = serde_json::to_value(&helmop.spec).unwrap();
    json_patch::merge(&mut object, spec);
    helmop.spec = serde_json::from_str(&object.to_string()).unwrap();
    helmop.metadata.annotations = serde_json::from_value(annotations.clone()).unwrap();
    helmop
}

#[test]
fn annotations_of_a_helmop_become_requests_of_its_bundle() {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let annotations = json!({
        labels::RECONCILE_REQUESTED_AT: "1", labels::FORCE_REQUESTED_AT: "2", labels::RESET_REQUESTED_AT: "3", "other": "4",
    });
    for (lifecycle, expected) in [
        (
            Value::Null,
            json!({ "requests": { "reconcile": "1", "force": "2", "reset": "3" } }),
        ),
        (
            json!({ "suspend": true, "requests": { "force": "by a user" } }),
            json!({ "suspend": true, "requests": { "reconcile": "1", "force": "2", "reset": "3" } }),
        ),
    ] {
        let helmop = with_requests(&json!({ "lifecycle": lifecycle }), &annotations);
        assert_eq!(spec_of(&created(&helmop, &resolved))["lifecycle"], expected);
    }
}

#[test]
fn requests_in_the_spec_of_a_helmop_are_dropped() {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let by_user = json!({ "suspend": true, "requests": { "force": "1" } });
    let spec = json!({ "lifecycle": by_user, "targets": [{ "clusterName": "c1", "lifecycle": by_user }] });
    let spec = spec_of(&created(&with_requests(&spec, &json!({})), &resolved));
    assert_eq!(spec["lifecycle"], json!({ "suspend": true }));
    assert_eq!(spec["targets"][0]["lifecycle"], json!({ "suspend": true }));
}

#[test]
fn a_token_is_bounded() {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let annotations = json!({ labels::FORCE_REQUESTED_AT: "x".repeat(200_000) });
    let spec = spec_of(&created(&with_requests(&json!({}), &annotations), &resolved));
    let token = spec["lifecycle"]["requests"]["force"].as_str().unwrap();
    assert!((1..=253).contains(&token.len()), "{}", token.len());
}

#[test]
fn a_request_changes_nothing_else_of_the_bundle_and_keeps_its_version() {
    let none = PrunedFields::default();
    let bundle = created(
        &with_requests(&json!({}), &json!({})),
        &[record(REDACTED, "web", "1.0.0", "1.0.0")],
    );
    let requested = with_requests(&json!({}), &json!({ labels::FORCE_REQUESTED_AT: "1" }));
    assert_eq!(
        pins(&requested, Some(&bundle)),
        pins(&newer(&json!({})), Some(&bundle))
    );
    let mut replaced_by = replaced(&requested, &bundle, &none).unwrap();
    assert!(replaced_by.spec.options.lifecycle.take().is_some());
    assert_eq!(replaced_by, bundle);
}

/// The CRD of HelmOp has `lifecycle`, and that of Bundle is Fleet's.
#[test]
fn a_life_cycle_that_the_api_server_drops_is_written_once() {
    let resolved = [record(REDACTED, "web", "1.0.0", "1.0.0")];
    let spec = json!({ "lifecycle": { "suspend": true }, "targets": [{ "clusterName": "c1", "lifecycle": { "suspend": false } }] });
    let helmop = with_requests(&spec, &json!({}));
    let sent = created(&helmop, &resolved);
    let mut stored = sent.clone();
    stored.spec.options.lifecycle = None;
    stored.spec.targets[0].options.lifecycle = None;
    let mut pruned = PrunedFields::default();
    assert_eq!(
        replaced(&helmop, &stored, &pruned),
        Some(sent.clone()),
        "as after a restart"
    );
    pruned.learn(&sent.spec, &stored.spec);
    assert!(pruned.has_lifecycle());
    assert_eq!(replaced(&helmop, &stored, &pruned), None);
}

#[test]
fn a_digest_that_changes_is_held_unless_it_is_followed() {
    let found = |version: &str, digest: &str| ChartVersion {
        version: version.to_owned(),
        digest: digest.to_owned(),
        url: String::new(),
    };
    // What was recorded is version 1.2.0 with the digest a.
    for (repo, policy, resolved, expected, changed) in [
        (REPO, "", found("1.2.0", "a"), "1.2.0 a", ""),
        (REPO, "", found("1.2.0", "b"), "1.2.0 a", "b"),
        (REPO, "Hold", found("1.2.0", "b"), "1.2.0 a", "b"),
        (REPO, "Follow", found("1.2.0", "b"), "1.2.0 b", ""),
        (REPO, "Hold", found("1.3.0", "b"), "1.3.0 b", ""),
        // Nothing is known about it.
        (REPO, "", found("1.2.0", ""), "1.2.0 ", ""),
        ("oci://h/web:latest", "", found("1.3.0", "b"), "1.3.0 b", ""),
        ("oci://h/web:latest", "Hold", found("1.3.0", "b"), "1.2.0 a", "b"),
    ] {
        let chart = if repo == REPO { "web" } else { "" };
        let helm = json!({ "repo": repo, "chart": chart });
        let helmop = helmop(&json!({ "helm": helm, "onDigestChange": policy }));
        let valid = ValidHelmOp::try_from(&helmop).unwrap();
        let mut charts = RequestedCharts::of(&valid, None);
        let requested = &mut charts.as_mut_slice()[0];
        requested.resolved(found("1.2.0", "a"));
        "s-1".clone_into(&mut requested.content);
        requested.resolved(ChartVersion {
            url: "https://h/elsewhere".to_owned(),
            ..resolved
        });
        let record = charts.records().remove(0);
        let case = format!("{repo} {policy} {record:?}");
        assert_eq!(
            format!("{} {}", record.version, record.digest),
            expected,
            "{case}"
        );
        assert_eq!(record.changed_digest, changed, "{case}");
        let follows = policy == "Follow" || policy.is_empty() && repo != REPO;
        assert_eq!(record.on_digest_change == "Follow", follows, "{case}");
        // It is recorded, so that it survives a restart.
        let (_, recorded) = Lookup::from_record(record.clone());
        let digests = (recorded.version.digest, recorded.changed_digest);
        assert_eq!(digests, (record.digest, record.changed_digest));
        // The content is that of one version with one digest.
        let content = if expected == "1.2.0 a" { "s-1" } else { "" };
        assert_eq!(
            (&*record.content, &*recorded.content),
            (content, content),
            "{case}"
        );
    }
    // The version of manifests is that of their files, and their digest has hidden files besides.
    let source = json!({ "git": { "url": "https://h/n.git" }, "manifests": {} });
    let manifests = helmop(&json!({ "chartSource": source }));
    let valid = ValidHelmOp::try_from(&manifests).unwrap();
    let mut charts = RequestedCharts::of(&valid, None);
    let requested = &mut charts.as_mut_slice()[0];
    requested.resolved(found("0.0.0+1", "a"));
    "s-1".clone_into(&mut requested.content);
    requested.resolved(found("0.0.0+1", "b"));
    assert_eq!((&*requested.changed_digest, &*requested.content), ("", "s-1"));
    requested.resolved(found("0.0.0+2", "c"));
    assert_eq!((&*requested.changed_digest, &*requested.content), ("", ""));
    let invalid = helmop(&json!({ "helm": { "repo": REPO, "chart": "web" }, "onDigestChange": "hold" }));
    let error = ValidHelmOp::try_from(&invalid).unwrap_err().to_string();
    assert!(
        error.contains("spec.onDigestChange: Invalid value: \"hold\"") && error.contains("Follow"),
        "{error}"
    );
}
