//! Tests of objects by cluster, their counts, and what is omitted.

use helmops_api::{BundleDeployment, Decoded, labels};
use helmops_model::deployment_state::DeploymentState::{
    self, ErrApplied, Modified, NotReady, OutOfSync, Ready, WaitApplied,
};
use kube_core::Resource as _;
use serde_json::{Value, json};

use super::*;
use crate::status::fixture::{deployment, invalid, sorted};

fn filled(deployments: &[Decoded<BundleDeployment>]) -> StatusBase {
    let mut base = StatusBase::default();
    fill(&mut base, &sorted(deployments));
    base
}

fn pod(name: &str) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": name })
}

#[expect(clippy::needless_pass_by_value, reason = "it is mostly called with json!")]
fn with(mut object: Value, more: Value) -> Value {
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    object
}

#[test]
fn each_object_is_listed_once_and_sorted() {
    let objects = json!([
        { "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "p" },
        { "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "shop", "name": "web", "createdAt": "2026-01-01T00:00:00Z" },
        { "kind": "Namespace", "apiVersion": "v1", "name": "shop" },
        { "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "a", "name": "web" },
        { "kind": "Other", "name": "o" },
        { "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "p" },
    ]);
    let status = json!({ "resources": objects });
    let base = filled(&[deployment("b", Ready, &status), deployment("a", Ready, &status)]);
    let names: Vec<_> = base
        .resources
        .iter()
        .map(|one| (&*one.r#type, &*one.id))
        .collect();
    assert_eq!(
        names,
        [
            ("apps.deployment", "a/web"),
            ("apps.deployment", "shop/web"),
            ("namespace", "shop"),
            ("other", "o"),
            ("pod", "shop/p"),
        ]
    );
    assert_eq!(
        serde_json::to_value(&base.resources[1]).unwrap(),
        json!({
            "kind": "Deployment", "apiVersion": "apps/v1", "type": "apps.deployment", "id": "shop/web",
            "namespace": "shop", "name": "web", "state": "Ready", "perClusterState": { "ready": ["f/a", "f/b"] }
        })
    );
    assert_eq!(base.omitted, None);
}

#[test]
fn an_object_has_the_state_of_its_deployment_unless_it_is_reported_separately() {
    let non_ready =
        |state: &str| json!({ "nonReadyStatus": [with(pod("p"), json!({ "summary": { "state": state } }))] });
    let modified = |more: Value| json!({ "modifiedStatus": [with(pod("p"), more)] });
    let incomplete = json!({ "incompleteState": true });
    for (deployed, more, state, list) in [
        (Ready, json!({}), "Ready", "ready"),
        (WaitApplied, json!({}), "WaitApplied", "waitApplied"),
        (ErrApplied, json!({}), "ErrApplied", ""),
        (OutOfSync, json!({}), "OutOfSync", ""),
        (NotReady, json!({}), "Ready", "ready"),
        (Modified, json!({}), "Ready", "ready"),
        (NotReady, incomplete.clone(), "Unknown", "unknown"),
        (Modified, incomplete.clone(), "Unknown", "unknown"),
        (Ready, incomplete, "Ready", "ready"),
        (NotReady, non_ready("updating"), "updating", "notReady"),
        (NotReady, non_ready("error"), "error", "notReady"),
        (NotReady, non_ready("NotReady"), "NotReady", "notReady"),
        (NotReady, non_ready("Pending"), "Pending", "pending"),
        (NotReady, non_ready("Unknown"), "Unknown", "unknown"),
        (NotReady, non_ready("stuck"), "stuck", ""),
        (Modified, modified(json!({})), "Modified", "modified"),
        (
            Modified,
            modified(json!({ "missing": true })),
            "Missing",
            "missing",
        ),
        (
            Modified,
            modified(json!({ "missing": true, "exist": true })),
            "Missing",
            "missing",
        ),
        (
            Modified,
            modified(json!({ "delete": true })),
            "Orphaned",
            "orphaned",
        ),
        (
            NotReady,
            with(non_ready("updating"), modified(json!({ "missing": true }))),
            "Missing",
            "missing",
        ),
    ] {
        let status = with(json!({ "resources": [pod("o"), pod("p")] }), more);
        let base = filled(&[deployment("a", deployed, &status)]);
        let written = serde_json::to_value(&base.resources[1]).unwrap();
        let lists = if list.is_empty() {
            Value::Null
        } else {
            json!({ list: ["f/a"] })
        };
        assert_eq!(
            (&written["state"], &written["perClusterState"]),
            (&json!(state), &lists),
            "{status}"
        );
        let is_incomplete = status["incompleteState"].as_bool().unwrap_or_default();
        assert_eq!(base.resources[1].incomplete_state, is_incomplete, "{status}");
    }
}

#[test]
fn the_state_of_an_object_is_the_first_that_is_not_ready() {
    let of = |cluster: &str, state: DeploymentState| {
        deployment(cluster, state, &json!({ "resources": [pod("p")] }))
    };
    for (deployments, state) in [
        (vec![of("a", Ready), of("b", Ready)], "Ready"),
        (
            vec![of("a", Ready), of("c", WaitApplied), of("b", OutOfSync)],
            "OutOfSync",
        ),
        (vec![of("b", WaitApplied), of("a", ErrApplied)], "ErrApplied"),
    ] {
        assert_eq!(filled(&deployments).resources[0].state, state);
    }
}

#[test]
fn clusters_may_list_different_objects_in_any_order() {
    let of = |cluster: &str, names: &[&str]| {
        let pods: Vec<_> = names.iter().map(|name| pod(name)).collect();
        deployment(cluster, Ready, &json!({ "resources": pods }))
    };
    let base = filled(&[
        of("a", &["p", "q", "r"]),
        of("b", &["r", "q", "p"]),
        of("c", &["q", "s", "r"]),
        of("d", &[]),
    ]);
    let ready: Vec<_> = base
        .resources
        .iter()
        .map(|one| (&*one.name, one.per_cluster_state.clone().unwrap().ready.join(" ")))
        .collect();
    let expected = [
        ("p", "f/a f/b"),
        ("q", "f/a f/b f/c"),
        ("r", "f/a f/b f/c"),
        ("s", "f/c"),
    ];
    assert_eq!(
        ready,
        expected.map(|(name, clusters)| (name, clusters.to_owned()))
    );
}

#[test]
fn an_object_that_is_only_reported_as_modified_is_listed() {
    let status = json!({ "modifiedStatus": [with(pod("extra"), json!({ "delete": true }))] });
    let base = filled(&[deployment("a", Modified, &status)]);
    assert_eq!(
        (&*base.resources[0].name, &*base.resources[0].state),
        ("extra", "Orphaned")
    );
}

#[test]
fn counts_are_summed_in_total_and_for_each_cluster() {
    let of = |cluster: &str, counts: Value| deployment(cluster, Ready, &json!({ "resourceCounts": counts }));
    let all = json!({
        "ready": 1, "desiredReady": 2, "waitApplied": 3, "modified": 4, "orphaned": 5, "missing": 6, "unknown": 7, "notReady": 8
    });
    let none = json!({
        "ready": 0, "desiredReady": 0, "waitApplied": 0, "modified": 0, "orphaned": 0, "missing": 0, "unknown": 0, "notReady": 0
    });
    let base = filled(&[
        of("b", all.clone()),
        of("a", json!({ "ready": 1 })),
        of("b", all.clone()),
        of("c", Value::Null),
        invalid("d"),
    ]);
    let twice = |field: &str| json!(all[field].as_i64().unwrap() * 2);
    let b = json!({
        "ready": 2, "desiredReady": 4, "waitApplied": 6, "modified": 8, "orphaned": 10, "missing": 12, "unknown": 14, "notReady": 16
    });
    assert_eq!(b["unknown"], twice("unknown"));
    assert_eq!(
        serde_json::to_value(&base.per_cluster_resource_counts).unwrap(),
        json!({ "f/a": with(none.clone(), json!({ "ready": 1 })), "f/b": b, "f/c": none })
    );
    assert_eq!(
        serde_json::to_value(&base.resource_counts).unwrap(),
        with(b, json!({ "ready": 3 }))
    );
    assert_eq!(
        serde_json::to_value(filled(&[]).resource_counts).unwrap(),
        none,
        "every count is written, even without deployments"
    );
}

/// Deployments of `objects` objects on `clusters` clusters. On the last cluster, the last object is missing.
fn many(clusters: usize, objects: usize) -> Vec<Decoded<BundleDeployment>> {
    let long = |what: &str, n: usize| format!("{what}-{}-{n:05}", "x".repeat(20));
    let pods: Vec<_> = (0..objects).map(|n| pod(&long("p", n))).collect();
    let status =
        json!({ "resources": pods, "resourceCounts": { "ready": objects, "desiredReady": objects } });
    let whole = deployment("", Ready, &status);
    let mut deployments: Vec<_> = (1..clusters).map(|n| on(&long("c", n), whole.clone())).collect();
    let missing = with(pods[objects - 1].clone(), json!({ "missing": true }));
    let counts = json!({ "ready": objects - 1, "desiredReady": objects });
    let broken = with(
        status,
        json!({ "modifiedStatus": [missing], "resourceCounts": counts }),
    );
    deployments.push(deployment(&long("c", clusters), Modified, &broken));
    deployments
}

fn on(cluster: &str, mut deployment: Decoded<BundleDeployment>) -> Decoded<BundleDeployment> {
    let labels = deployment.meta_mut().labels.as_mut().unwrap();
    labels.insert(labels::CLUSTER.to_owned(), cluster.to_owned());
    deployment
}

#[test]
fn ready_objects_and_clusters_are_omitted_first() {
    for (clusters, objects, cut) in [
        (20, 20, [false, false, false]),
        (400, 100, [false, true, false]),
        (2000, 40, [false, true, true]),
        (3, 2000, [true, false, false]),
    ] {
        let base = filled(&many(clusters, objects));
        let omitted = base.omitted.clone().unwrap_or_default();
        let numbers = [
            omitted.resources,
            omitted.per_cluster_state,
            omitted.per_cluster_resource_counts,
        ];
        assert_eq!(
            numbers.map(|number| number > 0),
            cut,
            "{clusters} clusters, {objects} objects: {omitted:?}"
        );

        let bytes = serde_json::to_string(&base).unwrap().len();
        assert!(bytes <= budget::TOTAL - budget::NON_READY, "{bytes}");
        let number = |n: usize| i64::try_from(n).unwrap();
        assert_eq!(number(base.resources.len()) + omitted.resources, number(objects));
        let counted = base.per_cluster_resource_counts.len();
        assert_eq!(
            number(counted) + omitted.per_cluster_resource_counts,
            number(clusters)
        );
        let named: usize = base
            .resources
            .iter()
            .flat_map(|one| &one.per_cluster_state)
            .map(|states| states.ready.len() + states.missing.len())
            .sum();
        assert_eq!(
            number(named) + omitted.per_cluster_state,
            number(base.resources.len() * clusters)
        );
        let is_marked = base.resources.iter().any(|one| one.incomplete_state);
        assert_eq!(
            is_marked,
            omitted.per_cluster_state > 0,
            "an object with a truncated list is marked"
        );

        let last = base.resources.last().unwrap();
        assert_eq!(last.state, "Missing", "problems are kept");
        assert_eq!(last.per_cluster_state.as_ref().unwrap().missing.len(), 1);
        let worst = base.per_cluster_resource_counts.last_key_value().unwrap();
        assert_eq!(worst.1.ready, Some(number(objects - 1)), "problems are kept");
        let total = base.resource_counts.unwrap();
        assert_eq!(
            total.desired_ready,
            Some(number(clusters * objects)),
            "everything is counted"
        );
    }
}

#[test]
fn sizes_are_not_underestimated() {
    let texts = ["", "a\"b\\c\n", "ä"];
    for text in texts {
        let status = json!({ "nonReadyStatus": [{ "kind": text, "apiVersion": text, "namespace": text, "name": text, "summary": { "state": text } }], "incompleteState": true });
        let deployments = [deployment("a", NotReady, &status)];
        let rows = rows(&sorted(&deployments));
        let named = ListedObject::of(rows[0].clone());
        let every = PerClusterState {
            ready: vec![String::new()],
            wait_applied: vec![String::new()],
            pending: vec![String::new()],
            modified: vec![String::new()],
            orphaned: vec![String::new()],
            missing: vec![String::new()],
            unknown: vec![String::new()],
            not_ready: vec![String::new()],
        };
        let written = serde_json::to_string(&named.resource(every, true)).unwrap().len();
        assert!(
            written <= named.bytes() + 8 * budget::text(""),
            "{written} > {}",
            named.bytes()
        );
    }
    let max = Some(i64::from(u32::MAX));
    let counts = ResourceCounts {
        ready: max,
        desired_ready: max,
        ..zero_counts()
    };
    assert!(serde_json::to_string(&counts).unwrap().len() < COUNTS_FRAME / 2 + 20);
}

#[test]
fn nothing_is_reported_if_deployments_are_not_watched() {
    let mut base = filled(&many(2, 2));
    clear(&mut base);
    assert_eq!(base, StatusBase::default());
}
