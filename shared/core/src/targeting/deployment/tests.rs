use gotmpl::Budget;
use helmops_api::{Cluster, labels};
use serde_json::{Value, json};

use super::*;
use crate::{
    schedule::ClusterWindows,
    targeting::{
        chart_record::{expected_digest, resolved_chart},
        criteria::Member,
        target::targets,
    },
};

fn cluster(spec: &Value, status: &Value) -> Cluster {
    let mut object = json!({
        "metadata": { "name": "c1", "namespace": "fleet", "labels": { "env": "prod" } },
        "spec": spec, "status": status
    });
    object["status"]["namespace"] = json!("cluster-c1");
    serde_json::from_str(&object.to_string()).unwrap()
}

fn bundle(extra: &Value) -> Bundle {
    let mut spec = json!({
        "helm": { "chart": "web", "values": { "env": "${ .ClusterLabels.env }" } },
        "helmOpOptions": { "helmOpSecretName": "access" },
        "targets": [{ "clusterName": "c1" }]
    });
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let labels = json!({
        "app": "web", "cattle.io/tool": "x", "fleet.cattle.io/fleet-helm-name": "web", "kubectl.kubernetes.io/y": "z"
    });
    let object =
        json!({ "metadata": { "name": "web", "namespace": "fleet", "labels": labels }, "spec": spec });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// The deployment to write, and its Secret.
#[derive(Debug, PartialEq)]
struct Written {
    deployment: BundleDeployment,
    secret: DesiredSecret,
}

/// The deployment of a target, whether it changes or not.
fn written(desired: DesiredDeployment<'_>) -> Written {
    Written {
        secret: desired.secret.clone(),
        deployment: desired.merged(None, &PrunedFields::default()).unwrap(),
    }
}

fn desired(
    bundle: &Bundle,
    cluster: &Cluster,
    existing: Option<&BundleDeployment>,
    step: RolloutStep,
    secret: Option<&SecretValues>,
) -> Option<Written> {
    let existing: Vec<_> = existing.into_iter().collect();
    let targets = targets(
        bundle,
        [Member::new(cluster, [])],
        &existing,
        false,
        &Budget::default(),
    )
    .unwrap();
    let observed = Observed {
        secret,
        ..Observed::default()
    };
    let mut desired = written(deployment(
        bundle,
        &ChartRecords::of(bundle),
        &targets[0],
        step,
        observed,
    )?);
    if let DesiredSecret::Values(values) = &mut desired.secret {
        let spec = &desired.deployment.spec;
        let ids = [spec.deployment_id.clone(), spec.staged_deployment_id.clone()];
        assert_eq!(values.ids.take(), Some(ids));
    }
    Some(desired)
}

fn first(bundle: &Bundle, step: RolloutStep) -> Written {
    desired(bundle, &cluster(&json!({}), &json!({})), None, step, None).unwrap()
}

fn secret_with(values: &str, staged: &str) -> DesiredSecret {
    DesiredSecret::Values(SecretValues {
        values: values.to_owned(),
        staged: staged.to_owned(),
        ids: None,
    })
}

/// A Bundle whose chart is in the content with this ID.
fn delivered(content: &str) -> Bundle {
    let mut bundle = bundle(&json!({ "helm": { "repo": "https://h", "chart": "web", "version": "1.0.0" } }));
    let record = json!([{ "repo": "https://h", "chart": "web", "version": "1.0.0", "digest": "a", "content": content }]);
    bundle.metadata.annotations = Some([(labels::RESOLVED.to_owned(), record.to_string())].into());
    bundle
}

#[test]
fn an_agent_that_reads_a_content_needs_no_access_to_a_repository() {
    let content = format!("s-{}", "0".repeat(61));
    let direct = first(&delivered(""), RolloutStep::Promote).deployment;
    let read = first(&delivered(&content), RolloutStep::Promote).deployment;
    assert!(direct.spec.helm_chart_options.is_some() && direct.spec.deployment_id.starts_with(':'));
    assert_eq!(read.spec.helm_chart_options, None);
    assert!(read.spec.deployment_id.starts_with(&format!("{content}:")));
    let record = resolved_chart(&read).expect("its agent reads valuesFiles from the content");
    assert_eq!((&*record.chart, &*record.digest), ("web", ""));

    // What is no ID of a Content delivers nothing.
    assert_eq!(
        first(&delivered("s-1"), RolloutStep::Promote).deployment.spec,
        direct.spec
    );
    // Files in a registry have IDs of the same form, and their Bundle may have options for charts, too.
    let mut files = delivered("");
    files.spec.contents_id.clone_from(&content);
    let files = first(&files, RolloutStep::Promote).deployment.spec;
    assert!(files.oci_contents && files.deployment_id.starts_with(&content));
    assert_eq!(files.helm_chart_options, direct.spec.helm_chart_options);

    // What the rollout has not reached keeps its source, in both directions.
    let cluster = cluster(&json!({}), &json!({}));
    for (bundle, existing) in [(delivered(&content), &direct), (delivered(""), &read)] {
        let staged = desired(&bundle, &cluster, Some(existing), RolloutStep::Stage, None).unwrap();
        let staged = staged.deployment.spec;
        assert_eq!(staged.deployment_id, existing.spec.deployment_id);
        assert_ne!(staged.staged_deployment_id, existing.spec.deployment_id);
        assert_eq!(staged.helm_chart_options, existing.spec.helm_chart_options);
        let promoted = desired(&bundle, &cluster, Some(existing), RolloutStep::Promote, None).unwrap();
        let is_read = promoted.deployment.spec.deployment_id.starts_with(&content);
        assert_eq!(promoted.deployment.spec.helm_chart_options.is_none(), is_read);
    }
}

/// The agent verifies what it downloads, and no digest changes what is deployed.
#[test]
fn the_digest_of_the_chart_reaches_the_deployment_and_is_no_part_of_its_id() {
    let resolved = |digest: &str| {
        let mut bundle =
            bundle(&json!({ "helm": { "repo": "https://h", "chart": "web", "version": "1.0.0" } }));
        let record = json!([{ "repo": "https://h", "chart": "web", "constraint": "1.x", "version": "1.0.0", "digest": digest }]);
        let annotations = [(labels::RESOLVED.to_owned(), record.to_string())];
        bundle.metadata.annotations = Some(annotations.into());
        bundle
    };
    let one = first(&resolved("a"), RolloutStep::Promote).deployment;
    let other = first(&resolved("b"), RolloutStep::Promote).deployment;
    assert_eq!(expected_digest(&one).as_deref(), Some("a"));
    assert_eq!(expected_digest(&other).as_deref(), Some("b"));
    assert_eq!(one.spec, other.spec);
    let unknown = first(&resolved(""), RolloutStep::Promote).deployment;
    assert_eq!(
        (unknown.metadata.annotations.clone(), &unknown.spec),
        (None, &one.spec)
    );

    // It is updated without a new rollout, and stays if it is not known any more.
    let cluster = cluster(&json!({}), &json!({}));
    for (digest, updated) in [("a", None), ("b", Some("b")), ("", None)] {
        let bundle = resolved(digest);
        let targets = targets(
            &bundle,
            [Member::new(&cluster, [])],
            &[&one],
            false,
            &Budget::default(),
        )
        .unwrap();
        let charts = ChartRecords::of(&bundle);
        let desired = deployment(
            &bundle,
            &charts,
            &targets[0],
            RolloutStep::Hold,
            Observed::default(),
        )
        .unwrap();
        let written = desired.merged(Some(&one), &PrunedFields::default());
        assert_eq!(written.is_some(), updated.is_some(), "{digest}");
        assert_eq!(written.as_ref().and_then(expected_digest).as_deref(), updated);
    }
}

#[test]
fn a_followed_digest_is_a_part_of_the_id_and_reaches_a_deployment_with_it() {
    let resolved = |digest: &str| {
        let mut bundle = bundle(&json!({ "helm": { "repo": "oci://h/web:latest", "version": "1.0.0" } }));
        let record = json!([{
            "repo": "oci://h/web:latest", "version": "1.0.0", "digest": digest, "onDigestChange": "Follow",
        }]);
        let annotations = [(labels::RESOLVED.to_owned(), record.to_string())];
        bundle.metadata.annotations = Some(annotations.into());
        bundle
    };
    let one = first(&resolved("sha256:a"), RolloutStep::Promote).deployment;
    assert!(
        one.spec.deployment_id.starts_with("sha256-a:"),
        "{}",
        one.spec.deployment_id
    );
    let cluster = cluster(&json!({}), &json!({}));
    let next = |step| {
        let next = desired(&resolved("sha256:b"), &cluster, Some(&one), step, None);
        next.unwrap().deployment
    };
    let staged = next(RolloutStep::Stage);
    assert_eq!(expected_digest(&staged).as_deref(), Some("sha256:a"));
    assert_eq!(staged.spec.deployment_id, one.spec.deployment_id);
    assert!(staged.spec.staged_deployment_id.starts_with("sha256-b:"));
    let promoted = next(RolloutStep::Promote);
    assert_eq!(expected_digest(&promoted).as_deref(), Some("sha256:b"));
    assert!(promoted.spec.deployment_id.starts_with("sha256-b:"));
}

#[test]
fn the_trace_of_a_rollout_reaches_what_it_changes_and_is_no_reason_for_a_write() {
    let traced = |version: &str, trace: &str| {
        let mut bundle = bundle(&json!({ "helm": { "chart": "web", "version": version } }));
        bundle.metadata.annotations = Some([(labels::TRACEPARENT.to_owned(), trace.to_owned())].into());
        bundle
    };
    let trace_of = |deployment: &BundleDeployment| {
        let annotations = deployment.metadata.annotations.as_ref();
        annotations.and_then(|annotations| annotations.get(labels::TRACEPARENT).cloned())
    };
    let cluster = cluster(&json!({}), &json!({}));
    let first = first(&traced("1.0.0", "a"), RolloutStep::Promote).deployment;
    assert_eq!(trace_of(&first).as_deref(), Some("a"));
    for (version, step, trace) in [
        ("1.0.0", RolloutStep::Promote, "a"),
        // A staged deployment is not deployed yet.
        ("2.0.0", RolloutStep::Stage, "a"),
        ("2.0.0", RolloutStep::Promote, "b"),
    ] {
        let bundle = traced(version, "b");
        let next = desired(&bundle, &cluster, Some(&first), step, None).unwrap();
        assert_eq!(
            trace_of(&next.deployment).as_deref(),
            Some(trace),
            "{version} {step:?}"
        );
    }
    let unchanged = traced("1.0.0", "b");
    let existing = [&first];
    let targets = targets(
        &unchanged,
        [Member::new(&cluster, [])],
        &existing,
        false,
        &Budget::default(),
    );
    let charts = ChartRecords::of(&unchanged);
    let observed = Observed::default();
    let desired = deployment(
        &unchanged,
        &charts,
        &targets.unwrap()[0],
        RolloutStep::Hold,
        observed,
    )
    .unwrap();
    assert_eq!(desired.merged(Some(&first), &PrunedFields::default()), None);
}

#[test]
fn a_new_deployment_is_complete() {
    let Written { deployment, secret } = first(
        &bundle(&json!({ "dependsOn": [{ "name": "crds" }] })),
        RolloutStep::Promote,
    );
    let id = deployment.spec.deployment_id.clone();
    let values = r#"{"env":"prod"}"#;
    assert_eq!(secret, secret_with(values, values));
    let options = json!({ "helm": { "chart": "web" } });
    assert_eq!(
        serde_json::to_value(&deployment).unwrap(),
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "BundleDeployment",
            "metadata": {
                "name": "web",
                "namespace": "cluster-c1",
                "finalizers": ["fleet.cattle.io/bundle-deployment-finalizer"],
                "labels": {
                    "app": "web",
                    "fleet.cattle.io/fleet-helm-name": "web",
                    "fleet.cattle.io/bundle-name": "web",
                    "fleet.cattle.io/bundle-namespace": "fleet",
                    "fleet.cattle.io/managed": "true",
                    "fleet.cattle.io/cluster": "c1",
                    "fleet.cattle.io/cluster-namespace": "fleet"
                }
            },
            "spec": {
                "options": options, "deploymentID": id, "stagedOptions": options, "stagedDeploymentID": id,
                "dependsOn": [{ "name": "crds" }],
                "helmChartOptions": { "helmOpSecretName": names::access_secret("fleet", "web", "access") },
                "valuesHash": values_hash(values.as_bytes(), values.as_bytes())
            }
        })
    );
}

#[test]
fn a_waiting_cluster_gets_no_deployment() {
    let (bundle, cluster) = (bundle(&json!({})), cluster(&json!({}), &json!({})));
    assert_eq!(desired(&bundle, &cluster, None, RolloutStep::Wait, None), None);
}

#[test]
fn a_staged_deployment_keeps_the_current_one_until_it_is_promoted() {
    let old = first(
        &bundle(&json!({ "helm": { "chart": "web", "values": { "a": 1 } } })),
        RolloutStep::Promote,
    );
    let DesiredSecret::Values(secret) = &old.secret else {
        panic!("{:?}", old.secret)
    };
    let (bundle, cluster) = (bundle(&json!({})), cluster(&json!({}), &json!({})));
    let staged = desired(
        &bundle,
        &cluster,
        Some(&old.deployment),
        RolloutStep::Stage,
        Some(secret),
    )
    .unwrap();
    assert_eq!(staged.secret, secret_with(r#"{"a":1}"#, r#"{"env":"prod"}"#));
    let (before, after) = (&old.deployment.spec, &staged.deployment.spec);
    assert_eq!(after.deployment_id, before.deployment_id);
    assert_ne!(after.staged_deployment_id, before.deployment_id);
    let held = desired(
        &bundle,
        &cluster,
        Some(&old.deployment),
        RolloutStep::Hold,
        Some(secret),
    )
    .unwrap();
    assert_eq!((&held.deployment.spec, &held.secret), (before, &old.secret));
}

#[test]
fn a_lost_secret_is_created_again_if_its_values_are_known() {
    let (old, new) = (
        bundle(&json!({ "helm": { "chart": "web", "values": { "a": 1 } } })),
        bundle(&json!({})),
    );
    let cluster = cluster(&json!({}), &json!({}));
    let existing = first(&old, RolloutStep::Promote).deployment;
    let other = SecretValues {
        ids: None,
        values: "{}".to_owned(),
        staged: r#"{"changed":1}"#.to_owned(),
    };
    for secret in [None, Some(&other)] {
        let same = desired(&old, &cluster, Some(&existing), RolloutStep::Stage, secret).unwrap();
        assert_eq!(same.secret, secret_with(r#"{"a":1}"#, r#"{"a":1}"#));
        assert_eq!(same.deployment.spec, existing.spec);
        let promoted = desired(&new, &cluster, Some(&existing), RolloutStep::Promote, secret).unwrap();
        assert!(
            matches!(promoted.secret, DesiredSecret::Values(_))
                && !promoted.deployment.spec.waiting_for_values
        );
        // The values of the current deployment are unknown.
        let staged = desired(&new, &cluster, Some(&existing), RolloutStep::Stage, secret).unwrap();
        assert_eq!(staged.secret, DesiredSecret::Untouched);
        assert!(staged.deployment.spec.waiting_for_values);
        assert_eq!(staged.deployment.spec.values_hash, existing.spec.values_hash);
        let later = desired(
            &new,
            &cluster,
            Some(&staged.deployment),
            RolloutStep::Promote,
            secret,
        )
        .unwrap();
        assert!(!later.deployment.spec.waiting_for_values);
    }
}

#[test]
fn without_values_there_is_no_secret() {
    let without = first(
        &bundle(&json!({ "helm": { "chart": "web" } })),
        RolloutStep::Promote,
    );
    assert_eq!(
        (without.secret, &*without.deployment.spec.values_hash),
        (DesiredSecret::None, "")
    );
}

#[test]
fn changes_that_are_not_part_of_the_id_are_written() {
    let old = first(&bundle(&json!({})), RolloutStep::Promote).deployment;
    let diff = json!({ "diff": { "comparePatches": [{ "kind": "Deployment" }] }, "correctDrift": { "enabled": true } });
    let cluster = |paused: bool| cluster(&json!({ "paused": paused }), &json!({}));
    let secret = SecretValues {
        ids: None,
        values: r#"{"env":"prod"}"#.to_owned(),
        staged: r#"{"env":"prod"}"#.to_owned(),
    };
    for (paused, expected) in [(false, true), (true, false)] {
        let new = desired(
            &bundle(&diff),
            &cluster(paused),
            Some(&old),
            RolloutStep::Stage,
            Some(&secret),
        )
        .unwrap();
        let spec = new.deployment.spec;
        assert_eq!(spec.options.diff.is_some(), expected);
        assert!(spec.correct_drift.is_some_and(|drift| drift.enabled));
        assert_eq!(
            (spec.paused, &spec.deployment_id),
            (paused, &old.spec.deployment_id)
        );
    }
}

#[test]
fn schedules_and_pauses_are_written() {
    let off = |status: &Value, windows: Option<ClusterWindows>| {
        let (bundle, cluster) = (bundle(&json!({})), cluster(&json!({}), status));
        let mut member = Member::new(&cluster, []);
        if let Some(windows) = windows {
            member.set_windows(&windows);
        }
        let targets = targets(&bundle, [member], &[], false, &Budget::default()).unwrap();
        let charts = ChartRecords::of(&bundle);
        let (step, observed) = (RolloutStep::Promote, Observed::default());
        let deployed = deployment(&bundle, &charts, &targets[0], step, observed).unwrap();
        deployed.spec.off_schedule
    };
    let free = ClusterWindows::default();
    let decided = |is_open| {
        let schedules = vec!["night".to_owned()];
        Some(ClusterWindows {
            schedules,
            is_open,
            ..ClusterWindows::default()
        })
    };
    let closed = json!({ "scheduled": true });
    let open = json!({ "scheduled": true, "activeSchedule": true });
    for (status, windows, expected) in [
        (&json!({}), None, false),
        (&closed, None, true),
        (&open, None, false),
        // The status is older: the labels of the cluster have changed.
        (&json!({}), decided(false), true),
        (&open, decided(false), true),
        (&closed, decided(true), false),
        (&closed, Some(free), false),
    ] {
        assert_eq!(off(status, windows.clone()), expected, "{status} {windows:?}");
    }
    assert!(
        first(&bundle(&json!({ "paused": true })), RolloutStep::Stage)
            .deployment
            .spec
            .paused
    );
}

#[test]
fn namespace_labels_of_all_targets_are_combined() {
    let targets = json!({ "namespaceLabels": { "a": "base", "b": "base" }, "targets": [
        { "clusterName": "c1", "namespaceLabels": { "a": "own" } },
        { "clusterName": "c2", "namespaceLabels": { "c": "other" }, "namespaceAnnotations": { "d": "other" } }
    ] });
    let spec = first(&bundle(&targets), RolloutStep::Promote).deployment.spec;
    let options = serde_json::to_value(&spec.options).unwrap();
    assert_eq!(
        options["namespaceLabels"],
        json!({ "a": "own", "b": "base", "c": "other" })
    );
    assert_eq!(options["namespaceAnnotations"], json!({ "d": "other" }));
}

/// A deployment with these downstream resources.
fn copying(existing: Option<&BundleDeployment>, downstream: &[DownstreamCopy]) -> BundleDeployment {
    let (bundle, cluster) = (bundle(&json!({})), cluster(&json!({}), &json!({})));
    let existing: Vec<_> = existing.into_iter().collect();
    let members = [Member::new(&cluster, [])];
    let targets = targets(&bundle, members, &existing, false, &Budget::default()).unwrap();
    let observed = Observed {
        downstream,
        ..Observed::default()
    };
    written(
        deployment(
            &bundle,
            &ChartRecords::of(&bundle),
            &targets[0],
            RolloutStep::Promote,
            observed,
        )
        .unwrap(),
    )
    .deployment
}

/// A source, and the state of its copy if it has to be compared.
fn source(version: &str, copy: impl Into<Option<CopyState>>) -> DownstreamCopy {
    DownstreamCopy {
        source: version.to_owned(),
        copy: copy.into(),
    }
}

/// A copy with the same content, and the version that this controller made it from.
fn same(made_from: impl Into<Option<&'static str>>) -> CopyState {
    CopyState::Same {
        copied_from: made_from.into().map(str::to_owned),
    }
}

const fn generation(deployment: &BundleDeployment) -> i64 {
    deployment.spec.downstream_resources_generation
}

#[test]
fn a_changed_resource_is_released_to_the_agent() {
    let first = copying(None, &[source("Secret fleet/a@1", None)]);
    assert_eq!(generation(&first), 1);
    let again = copying(Some(&first), &[source("Secret fleet/a@1", None)]);
    assert_eq!(generation(&again), 1);
    let second = copying(Some(&first), &[source("Secret fleet/a@2", CopyState::Different)]);
    assert_eq!(generation(&second), 2);
    let interrupted = same("Secret fleet/a@3");
    let third = copying(Some(&second), &[source("Secret fleet/a@3", interrupted)]);
    assert_eq!(
        generation(&third),
        3,
        "the copy was written, but not the deployment"
    );
    let none = copying(Some(&second), &[]);
    assert_eq!(
        (generation(&none), &none.metadata.annotations),
        (2, &None),
        "nothing is left to copy"
    );
}

#[test]
fn a_change_of_metadata_only_releases_nothing() {
    let first = copying(None, &[source("Secret fleet/a@1", None)]);
    let mut labelled = first;
    for version in ["Secret fleet/a@2", "Secret fleet/a@3"] {
        labelled = copying(Some(&labelled), &[source(version, same("Secret fleet/a@1"))]);
        assert_eq!(generation(&labelled), 1, "the content is the same");
        assert_eq!(recorded(&labelled), Some(["Secret fleet/a@1"].into()));
    }
}

/// Another deployment of the namespace had the copy written, and then the metadata of the source changed.
#[test]
fn a_change_is_released_to_each_deployment_that_shares_a_copy() {
    let first = copying(None, &[source("Secret fleet/a@7", None)]);
    let late = source("Secret fleet/a@9", same("Secret fleet/a@8"));
    let second = copying(Some(&first), std::slice::from_ref(&late));
    assert_eq!(generation(&second), 2);
    assert_eq!(recorded(&second), Some(["Secret fleet/a@8"].into()));
    assert_eq!(generation(&copying(Some(&second), &[late])), 2, "once");
}

/// A deployment of Fleet's controller has a generation and no record.
#[test]
fn resources_of_a_fleet_deployment_are_released_again_only_for_a_change() {
    const MAP: &str = "ConfigMap fleet/b@7";
    const SECRET: &str = "Secret fleet/a@1";
    let mut of_fleet = copying(None, &[source(MAP, None), source(SECRET, None)]);
    of_fleet.metadata.annotations = None;
    of_fleet.spec.downstream_resources_generation = 4;
    for (map, secret, expected) in [
        (same(None), same(None), 4),
        (CopyState::Missing, same(None), 4),
        (same(None), CopyState::Different, 5),
        // This controller wrote the copy, for another deployment or before it was interrupted.
        (same(None), same(SECRET), 5),
    ] {
        let case = format!("{map:?}, {secret:?}");
        let taken = copying(Some(&of_fleet), &[source(SECRET, secret), source(MAP, map)]);
        assert_eq!(generation(&taken), expected, "{case}");
        assert_eq!(recorded(&taken), Some([MAP, SECRET].into()));
    }
}

/// Fleet's controller was active in between: it increments the generation, and keeps the record and the annotation of the copy.
#[test]
fn resources_that_fleet_released_meanwhile_are_not_released_again() {
    let mut back = copying(None, &[source("Secret fleet/a@1", None)]);
    back.spec.downstream_resources_generation = 3;
    let taken = copying(
        Some(&back),
        &[source("Secret fleet/a@9", same("Secret fleet/a@1"))],
    );
    assert_eq!(generation(&taken), 3);
}

#[test]
fn values_are_identified_by_their_ids_after_an_interrupted_write() {
    let old = first(
        &bundle(&json!({ "helm": { "chart": "web", "values": { "a": 1 } } })),
        RolloutStep::Promote,
    );
    let (bundle, cluster) = (bundle(&json!({})), cluster(&json!({}), &json!({})));
    let id = old.deployment.spec.deployment_id.clone();
    // The Secret was written, but not the deployment.
    let mut secret = SecretValues {
        values: r#"{"a":1}"#.to_owned(),
        staged: r#"{"env":"prod"}"#.to_owned(),
        ids: Some([id, ":next".to_owned()]),
    };
    let stage = |secret: &SecretValues| {
        desired(
            &bundle,
            &cluster,
            Some(&old.deployment),
            RolloutStep::Stage,
            Some(secret),
        )
        .unwrap()
    };
    let staged = stage(&secret);
    assert!(!staged.deployment.spec.waiting_for_values);
    assert_eq!(staged.secret, secret_with(r#"{"a":1}"#, r#"{"env":"prod"}"#));
    secret.ids = None;
    let unknown = stage(&secret);
    assert!(
        unknown.deployment.spec.waiting_for_values,
        "the values cannot be identified"
    );
    assert_eq!(unknown.secret, DesiredSecret::Untouched);
}

#[test]
fn an_intact_secret_need_not_be_read() {
    let old = first(
        &bundle(&json!({ "helm": { "chart": "web", "values": { "a": 1 } } })),
        RolloutStep::Promote,
    );
    let (bundle, cluster) = (bundle(&json!({})), cluster(&json!({}), &json!({})));
    let DesiredSecret::Values(secret) = &old.secret else {
        panic!("{:?}", old.secret)
    };
    let staged = desired(
        &bundle,
        &cluster,
        Some(&old.deployment),
        RolloutStep::Stage,
        Some(secret),
    )
    .unwrap();
    let existing = [&staged.deployment];
    let targets = targets(
        &bundle,
        [Member::new(&cluster, [])],
        &existing,
        false,
        &Budget::default(),
    )
    .unwrap();
    let again = |is_intact| {
        let observed = Observed {
            is_intact,
            ..Observed::default()
        };
        written(
            deployment(
                &bundle,
                &ChartRecords::of(&bundle),
                &targets[0],
                RolloutStep::Stage,
                observed,
            )
            .unwrap(),
        )
    };
    assert!(again(false).deployment.spec.waiting_for_values);
    let intact = again(true);
    assert_eq!(
        (&intact.secret, &intact.deployment.spec),
        (&DesiredSecret::Untouched, &staged.deployment.spec)
    );
}

#[test]
fn unknown_fields_reach_a_deployment_and_its_own_ones_stay() {
    let newer = |version: u8| {
        bundle(&json!({
            "newer": version, "dependsOn": [{ "name": "db", "newer": version }],
            "helm": { "chart": "web", "newer": version },
            "helmOpOptions": { "newer": version },
            "targets": [{ "clusterName": "c1", "ofTarget": version, "ignore": { "newer": version } }]
        }))
    };
    let cluster = cluster(&json!({}), &json!({}));
    let first = first(&newer(1), RolloutStep::Promote).deployment;
    let mut object = serde_json::to_value(first).unwrap();
    for options in ["options", "stagedOptions"] {
        let options = &object["spec"][options];
        assert_eq!((&options["newer"], &options["ofTarget"]), (&json!(1), &json!(1)));
        assert_eq!(options["helm"]["newer"], 1);
    }
    assert_eq!(object["spec"]["dependsOn"][0]["newer"], 1);
    assert_eq!(object["spec"]["helmChartOptions"]["newer"], 1);
    // Another controller adds fields.
    object["spec"]["other"] = json!(1);
    object["spec"]["options"]["other"] = json!(1);
    let existing: BundleDeployment = serde_json::from_str(&object.to_string()).unwrap();
    let updated = desired(&newer(2), &cluster, Some(&existing), RolloutStep::Promote, None).unwrap();
    let updated = serde_json::to_value(updated.deployment.spec).unwrap();
    assert_eq!(updated["other"], 1);
    assert_eq!(updated["options"]["newer"], 2);
    assert_eq!(
        updated["options"].get("other"),
        None,
        "the options are those of the Bundle"
    );
    assert_ne!(updated["deploymentID"], object["spec"]["deploymentID"]);
}

/// The agent would move the release before its turn.
#[test]
fn the_namespace_of_records_changes_with_a_rollout_step() {
    let cluster = cluster(&json!({}), &json!({}));
    let stored =
        |namespace| bundle(&json!({ "lifecycle": { "storageNamespace": namespace, "suspend": true } }));
    let before = first(&stored("flux"), RolloutStep::Promote).deployment;
    assert_eq!(before.spec.options.storage_namespace(), Some("flux"));
    // The rest is not staged.
    let staged = before.spec.options.lifecycle.as_ref().unwrap();
    assert_eq!(staged.suspend, None);
    for (step, expected) in [
        (RolloutStep::Hold, ["flux", "flux"]),
        (RolloutStep::Stage, ["flux", "records"]),
        (RolloutStep::Promote, ["records", "records"]),
    ] {
        let after = desired(&stored("records"), &cluster, Some(&before), step, None);
        let spec = after.unwrap().deployment.spec;
        let found = [&spec.options, &spec.staged_options].map(|options| options.storage_namespace().unwrap());
        assert_eq!(found, expected, "{step:?}");
    }
}

/// A life cycle is how a cluster is deployed to, not what is deployed.
#[test]
fn a_changed_life_cycle_reaches_each_deployment_without_a_rollout_step() {
    let cluster = cluster(&json!({}), &json!({}));
    let with = |lifecycle: Value| bundle(&json!({ "lifecycle": lifecycle }));
    let before = first(&with(json!({ "suspend": true })), RolloutStep::Promote).deployment;
    assert_eq!(before.spec.lifecycle.as_ref().unwrap().suspend, Some(true));
    for lifecycle in [
        json!({ "suspend": false, "upgrade": { "retries": 3 } }),
        json!({ "requests": { "force": "1" } }),
        Value::Null,
    ] {
        for step in [RolloutStep::Hold, RolloutStep::Stage, RolloutStep::Promote] {
            let changed = with(lifecycle.clone());
            let after = desired(&changed, &cluster, Some(&before), step, None);
            let Some(after) = after.map(|written| written.deployment) else {
                panic!("{lifecycle}: not written in step {step:?}")
            };
            assert_eq!(
                after.spec.lifecycle, changed.spec.options.lifecycle,
                "{lifecycle}, {step:?}"
            );
            assert_eq!(
                after.spec.deployment_id, before.spec.deployment_id,
                "{lifecycle}, {step:?}"
            );
            assert_eq!(
                after.spec.staged_deployment_id, before.spec.staged_deployment_id,
                "{lifecycle}, {step:?}"
            );
        }
    }
}

#[test]
fn the_options_of_a_deployment_have_no_life_cycle() {
    let lifecycle = json!({ "upgrade": { "retries": 3 } });
    let own = json!({ "upgrade": { "retries": 5 } });
    let bundle =
        bundle(&json!({ "lifecycle": lifecycle, "targets": [{ "clusterName": "c1", "lifecycle": own }] }));
    for step in [RolloutStep::Stage, RolloutStep::Promote] {
        let spec = first(&bundle, step).deployment.spec;
        assert_eq!(
            (&spec.options.lifecycle, &spec.staged_options.lifecycle),
            (&None, &None),
            "{step:?}"
        );
        let retries = spec.lifecycle.unwrap().upgrade.unwrap().retries;
        assert_eq!(retries, 5, "{step:?}: that of the target");
    }
}
