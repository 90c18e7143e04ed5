//! Tests that the time for one object does not grow quadratically with its size.

#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use gotmpl::Budget;
use helm_index::VersionRequest;
use helmops_api::{Bundle, BundleDeploymentOptions, Cluster, ClusterGroup, HelmOp, ResolvedChart, labels};
use helmops_core::{
    admit::{ValidHelmOp, warnings},
    bundle::{self, BundleInputs, RequestedCharts},
    targeting::{
        Group, Member, RolloutStep, chart_record::ChartRecords, deployment, deployment::Observed,
        merge::merge, targets,
    },
};
use helmops_model::chart::{delivery::Delivery, request::ChartRequest};
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Asserts that the time of `work` does not grow quadratically with the size of its input.
///
/// `work` runs for `size` and for ten times `size`. Linear work then takes ten times as long, quadratic work a hundred times. The
/// shortest of several runs is used, so that a busy machine does not matter.
fn assert_not_quadratic<T>(size: usize, prepare: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let shortest = |size: usize| {
        let prepared = prepare(size);
        let time = || {
            let start = Instant::now();
            work(&prepared);
            start.elapsed()
        };
        (0..3).map(|_| time()).min().unwrap()
    };
    let (small, large) = (shortest(size), shortest(size * 10));
    // Very short times cannot be compared.
    let max = small.max(Duration::from_millis(10)) * 40;
    assert!(
        large < max,
        "{large:?} for {} and {small:?} for {size}",
        size * 10
    );
}

fn object<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// A HelmOp whose targets each have their own version: more than admission allows.
fn helmop(targets: usize) -> HelmOp {
    let targets: Vec<_> = (0..targets)
        .map(|index| json!({ "clusterName": format!("c{index}"), "helm": { "version": format!("1.0.{index}") } }))
        .collect();
    object(&json!({
        "metadata": { "name": "web", "namespace": "fleet", "uid": "u-1" },
        "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" }, "targets": targets }
    }))
}

/// The HelmOp as if it were within all limits.
fn valid(helmop: &HelmOp) -> ValidHelmOp<'_> {
    let helm = helmop.spec.bundle.options.helm.as_ref().unwrap();
    let request = |version| ChartRequest {
        packed: None,
        repo: &helm.repo,
        chart: &helm.chart,
        version: VersionRequest::parse(version).unwrap(),
        on_digest_change: None,
    };
    let targets = helmop.spec.bundle.targets.iter();
    ValidHelmOp {
        min_age: None,
        helmop,
        helm,
        chart: request(&helm.version),
        targets: targets
            .map(|target| Some(request(&target.options.helm.as_ref()?.version)))
            .collect(),
        polling: None,
        delivery: Delivery::Direct,
    }
}

/// Reverses the records of a Bundle: the worst case for a search from the front.
fn reverse_records(bundle: &mut Bundle) {
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    let records = annotations.get_mut(labels::RESOLVED).unwrap();
    let mut reversed: Vec<ResolvedChart> = serde_json::from_str(records).unwrap();
    reversed.reverse();
    *records = serde_json::to_string(&reversed).unwrap();
}

#[test]
fn a_bundle_with_many_versions_is_planned_in_linear_time() {
    assert_not_quadratic(2_000, helmop, |helmop| {
        let valid = valid(helmop);
        let mut charts = RequestedCharts::of(&valid, None);
        for chart in charts.as_mut_slice() {
            chart.version = Some("1.0.0".to_owned().into());
        }
        let inputs = BundleInputs {
            charts: &charts,
            handled_poll: None,
            ca_bundle: "",
            pruned: Default::default(),
            traceparent: None,
        };
        let bundle::Plan::Create(mut planned) = bundle::plan(&valid, None, inputs).unwrap() else {
            panic!("not a creation");
        };
        reverse_records(&mut planned);
        assert!(RequestedCharts::of(&valid, Some(&planned)).have_versions());
    });
}

#[test]
fn a_helmop_with_many_targets_is_rejected_in_linear_time() {
    assert_not_quadratic(4_000, helmop, |helmop| {
        black_box(ValidHelmOp::try_from(helmop).unwrap_err());
        black_box(warnings(helmop));
    });
}

#[test]
fn long_lists_of_options_are_merged_in_linear_time() {
    let options = |size: usize| {
        let sources: Vec<_> = (0..size)
            .map(|index| json!({ "secretKeyRef": { "name": format!("s{index}") } }))
            .collect();
        object::<BundleDeploymentOptions>(&json!({ "helm": { "valuesFrom": sources } }))
    };
    let nothing = BundleDeploymentOptions::default();
    assert_not_quadratic(2_000, options, |options| {
        black_box(merge(&nothing, options));
        black_box(merge(options, options));
    });
}

/// A Bundle with a target for each cluster, and as many groups, restrictions and partitions; and the clusters.
struct Fleet {
    bundle: Bundle,
    clusters: Vec<Cluster>,
    groups: Vec<ClusterGroup>,
}

fn fleet(size: usize) -> Fleet {
    let names = || (0..size).map(|index| format!("c{index}"));
    let by_name: Vec<_> = names()
        .map(|name| json!({ "name": name, "clusterName": name }))
        .collect();
    let labelled: Vec<_> = names()
        .map(|name| json!({ "clusterName": name, "namespaceLabels": { "team": "a" } }))
        .collect();
    let bundle = json!({
        "metadata": { "name": "web", "namespace": "fleet" },
        "spec": {
            "helm": { "chart": "web" },
            "targets": labelled,
            "targetRestrictions": by_name,
            "rolloutStrategy": { "partitions": by_name, "maxNew": size },
        }
    });
    let cluster = |name| {
        json!({
            "metadata": { "name": name, "namespace": "fleet", "labels": { "env": "prod" } },
            "status": { "namespace": format!("cluster-{name}") }
        })
    };
    let group = json!({
        "metadata": { "name": "g", "namespace": "fleet" },
        "spec": { "selector": { "matchExpressions": [{ "key": "env", "operator": "In", "values": names().collect::<Vec<_>>() }] } }
    });
    Fleet {
        bundle: object(&bundle),
        clusters: names().map(|name| object(&cluster(name))).collect(),
        groups: vec![object(&group)],
    }
}

#[test]
fn a_target_for_each_cluster_is_found_in_linear_time() {
    assert_not_quadratic(500, fleet, |fleet| {
        let groups: Vec<_> = fleet.groups.iter().filter_map(Group::of).collect();
        let members = fleet.clusters.iter().map(|cluster| Member::new(cluster, &groups));
        let targets = targets(&fleet.bundle, members, &[], false, &Budget::default()).unwrap();
        assert_eq!(targets.len(), fleet.clusters.len());
        let rollout = helmops_core::targeting::plan(
            &fleet.bundle,
            &targets,
            &helmops_core::targeting::GateStates::default(),
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
        assert_eq!(rollout.unassigned, Vec::<usize>::new());
        let charts = ChartRecords::of(&fleet.bundle);
        for target in &targets {
            black_box(
                deployment(
                    &fleet.bundle,
                    &charts,
                    target,
                    RolloutStep::Promote,
                    Observed::default(),
                )
                .unwrap(),
            );
        }
    });
}
