use helmops_api::{Cluster, ClusterGroup};
use serde_json::{Value, json};

use super::*;
use crate::targeting::criteria::Group;

fn cluster(name: &str, labels: &Value) -> Cluster {
    let object = json!({ "metadata": { "name": name, "namespace": "fleet", "labels": labels } });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn group(name: &str, labels: &Value, selector: &Value) -> ClusterGroup {
    let metadata = json!({ "name": name, "namespace": "fleet", "labels": labels });
    serde_json::from_str(&json!({ "metadata": metadata, "spec": { "selector": selector } }).to_string())
        .unwrap()
}

fn groups() -> Vec<ClusterGroup> {
    vec![
        group("all", &json!({ "kind": "every" }), &json!({})),
        group(
            "prod",
            &json!({ "kind": "env" }),
            &json!({ "matchLabels": { "env": "prod" } }),
        ),
        group("none", &json!({ "kind": "env" }), &json!(null)),
        group(
            "invalid",
            &json!({ "kind": "invalid" }),
            &json!({ "matchExpressions": [{ "key": "env", "operator": "Is" }] }),
        ),
    ]
}

/// The namespace of the Bundle on a cluster; each target in these tests has its own.
fn namespace(spec: &Value, cluster: &Cluster, groups: &[ClusterGroup]) -> Option<String> {
    let spec: BundleSpec = serde_json::from_str(&spec.to_string()).unwrap();
    let matcher = Matcher::new(&spec).unwrap();
    let groups: Vec<_> = groups.iter().filter_map(Group::of).collect();
    matcher
        .options(&Member::new(cluster, &groups))
        .map(|options| options.namespace)
}

#[test]
fn all_criteria_must_match() {
    let cluster = cluster(
        "c1",
        &json!({ "env": "prod", "management.cattle.io/cluster-display-name": "display" }),
    );
    for (criteria, expected) in [
        (json!({}), false),
        (json!({ "clusterName": "c1" }), true),
        (json!({ "clusterName": "display" }), true),
        (json!({ "clusterName": "c2" }), false),
        (json!({ "clusterSelector": {} }), true),
        (
            json!({ "clusterSelector": { "matchLabels": { "env": "prod" } } }),
            true,
        ),
        (
            json!({ "clusterSelector": { "matchLabels": { "env": "dev" } } }),
            false,
        ),
        (json!({ "clusterGroup": "prod" }), true),
        (json!({ "clusterGroup": "none" }), false),
        (json!({ "clusterGroup": "invalid" }), false),
        (
            json!({ "clusterGroupSelector": { "matchLabels": { "kind": "env" } } }),
            true,
        ),
        (json!({ "clusterGroupSelector": {} }), true),
        (
            json!({ "clusterName": "c1", "clusterSelector": { "matchLabels": { "env": "dev" } } }),
            false,
        ),
        // Name and labels must match the same group: `prod` is of kind env, `all` is not.
        (
            json!({ "clusterGroup": "prod", "clusterGroupSelector": { "matchLabels": { "kind": "env" } } }),
            true,
        ),
        (
            json!({ "clusterGroup": "all", "clusterGroupSelector": { "matchLabels": { "kind": "env" } } }),
            false,
        ),
    ] {
        let spec = json!({ "targets": [criteria] });
        let found = namespace(&spec, &cluster, &groups()).is_some();
        assert_eq!(found, expected, "{criteria}");
    }
}

#[test]
fn groups_in_other_namespaces_do_not_match() {
    let mut foreign = group("prod", &json!({}), &json!({}));
    foreign.metadata.namespace = Some("foreign".to_owned());
    let spec = json!({ "targets": [{ "clusterGroup": "prod" }] });
    assert_eq!(namespace(&spec, &cluster("c1", &json!({})), &[foreign]), None);
}

#[test]
fn a_cluster_in_no_group_can_be_selected() {
    let cluster = cluster("c1", &json!({}));
    for (criteria, expected) in [
        (json!({ "clusterSelector": {} }), true),
        // An empty selector also matches a cluster without a group.
        (json!({ "clusterGroupSelector": {} }), true),
        (json!({ "clusterGroup": "all" }), false),
    ] {
        let found = namespace(&json!({ "targets": [criteria] }), &cluster, &[]).is_some();
        assert_eq!(found, expected, "{criteria}");
    }
}

#[test]
fn the_first_matching_target_applies() {
    let spec = |first: Value| json!({ "namespace": "base", "targets": [first, { "clusterSelector": {}, "namespace": "second" }] });
    let cluster = cluster("c1", &json!({}));
    for (first, expected) in [
        (
            json!({ "clusterName": "c1", "namespace": "first" }),
            Some("first"),
        ),
        (json!({ "clusterName": "c1" }), Some("base")),
        (
            json!({ "clusterName": "c2", "namespace": "first" }),
            Some("second"),
        ),
        (json!({ "clusterName": "c1", "doNotDeploy": true }), None),
        (
            json!({ "clusterName": "c2", "doNotDeploy": true }),
            Some("second"),
        ),
    ] {
        let found = namespace(&spec(first.clone()), &cluster, &groups());
        assert_eq!(found.as_deref(), expected, "{first}");
    }
}

/// Two customizations, and one target, because there is one restriction.
fn customized(mode: &str, first: &Value, second: &Value) -> Value {
    json!({
        "namespace": "base",
        "targetCustomizationMode": mode,
        "targets": [first, second, { "clusterSelector": {}, "namespace": "target", "serviceAccount": "target" }],
        "targetRestrictions": [{ "clusterSelector": {} }]
    })
}

#[test]
fn customizations_replace_the_target_or_are_merged() {
    let matching = json!({ "clusterName": "c1", "namespace": "first" });
    let other = json!({ "clusterName": "c2", "namespace": "other" });
    let never = json!({ "clusterName": "c1", "doNotDeploy": true });
    let second = json!({ "clusterSelector": {}, "namespace": "second" });
    let cluster = cluster("c1", &json!({}));
    for (mode, first, second, expected) in [
        ("FirstMatch", &matching, &second, Some("first")),
        ("FirstMatch", &other, &second, Some("second")),
        ("FirstMatch", &other, &other, Some("target")),
        ("FirstMatch", &never, &second, None),
        ("FirstMatch", &matching, &never, Some("first")),
        ("", &matching, &never, Some("first")),
        ("AllMatches", &matching, &second, Some("second")),
        ("AllMatches", &other, &other, Some("target")),
        ("AllMatches", &matching, &never, None),
    ] {
        let found = namespace(&customized(mode, first, second), &cluster, &groups());
        assert_eq!(found.as_deref(), expected, "{mode} {first} {second}");
    }
}

#[test]
fn only_all_matches_keeps_the_options_of_the_target() {
    let first = json!({ "clusterName": "c1", "namespace": "first" });
    let never = json!({ "clusterName": "c9" });
    for (mode, expected) in [("FirstMatch", ""), ("AllMatches", "target")] {
        let spec: BundleSpec = serde_json::from_str(&customized(mode, &first, &never).to_string()).unwrap();
        let (cluster, groups) = (cluster("c1", &json!({})), groups());
        let groups: Vec<_> = groups.iter().filter_map(Group::of).collect();
        let options = Matcher::new(&spec)
            .unwrap()
            .options(&Member::new(&cluster, &groups))
            .unwrap();
        assert_eq!(options.service_account, expected, "{mode}");
    }
}

#[test]
fn a_restriction_must_match_the_same_group() {
    let spec = |restriction: Value| json!({ "targets": [{ "clusterGroup": "all", "namespace": "n" }], "targetRestrictions": [restriction] });
    let cluster = cluster("c1", &json!({ "env": "prod" }));
    for (restriction, expected) in [
        (json!({ "clusterSelector": {} }), true),
        (json!({ "clusterName": "c2" }), false),
        (json!({ "clusterGroup": "all" }), true),
        (json!({ "clusterGroup": "prod" }), false),
        (json!({}), false),
    ] {
        let found = namespace(&spec(restriction.clone()), &cluster, &groups()).is_some();
        assert_eq!(found, expected, "{restriction}");
    }
}

#[test]
fn an_invalid_selector_is_reported_with_its_path() {
    let invalid = json!({ "clusterSelector": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } });
    for (spec, path) in [
        (
            json!({ "targets": [{}, invalid] }),
            "spec.targets[1].clusterSelector.matchExpressions[0].operator: ",
        ),
        (
            json!({ "targetRestrictions": [invalid] }),
            "spec.targetRestrictions[0].clusterSelector.",
        ),
    ] {
        let spec: BundleSpec = serde_json::from_str(&spec.to_string()).unwrap();
        let error = Matcher::new(&spec).unwrap_err().to_string();
        assert!(error.starts_with(path), "{error}");
    }
}

#[test]
fn the_version_that_is_checked_is_that_of_the_merged_options() {
    let cluster = cluster("c1", &json!({}));
    // Two customizations, and the target that they apply to.
    for (versions, inexact) in [
        (["", "", ""], None),
        (["", "", "2.0.0"], None),
        (["", "", "1.x"], Some(2)),
        (["2.0.0", "", "1.x"], None),
        (["1.x", "2.0.0", ""], None),
        (["2.0.0", "^2", ""], Some(1)),
        (["^2", "", ">=1"], Some(0)),
    ] {
        let targets = versions.map(|version| {
            let name = format!("with {version}");
            json!({ "name": name, "clusterSelector": {}, "helm": { "version": version } })
        });
        let mut spec = json!({
            "helmOpOptions": {}, "helm": { "chart": "web", "version": "1.2.3" },
            "targetCustomizationMode": "AllMatches",
            "targetRestrictions": [{ "clusterSelector": {} }],
            "targets": targets,
        });
        let found = |spec: &Value| {
            let spec: BundleSpec = serde_json::from_str(&spec.to_string()).unwrap();
            let (matcher, member) = (Matcher::new(&spec).unwrap(), Member::new(&cluster, []));
            let merged = matcher.options(&member).unwrap().helm.unwrap().version;
            (merged, matcher.inexact_version(&member))
        };
        let (merged, error) = found(&spec);
        assert_eq!(error.is_some(), !is_complete_version(&merged), "{versions:?}");
        let expected = inexact.map(|index: usize| InexactVersion {
            name: format!("with {}", versions[index]),
            index,
            version: merged,
        });
        assert_eq!(error, expected, "{versions:?}");
        // Nothing resolves the versions of other Bundles.
        spec["helmOpOptions"] = Value::Null;
        assert_eq!(found(&spec).1, None);
    }
}
