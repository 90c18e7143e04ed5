use gotmpl::Budget;
use helmops_api::{Bundle, Cluster, labels};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::targeting::{
    criteria::Member,
    target::{TargetError, targets},
};

/// The state of a cluster before a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ClusterState {
    /// Without a deployment.
    New,
    /// Up to date and available.
    Done,
    /// Up to date, and another attempt with the same deployment ID has failed.
    DoneBefore,
    /// With an older deployment, and available.
    Old,
    /// With an older deployment, and not available.
    Broken,
    /// Promoted to the desired deployment, which is not applied yet.
    Working,
    /// Old, and its values cannot be computed.
    Invalid,
    /// Without a deployment, and its values cannot be computed.
    NewInvalid,
    /// Without a deployment, and paused.
    NewPaused,
    /// Old, and paused.
    OldPaused,
    /// Without a namespace.
    NoNamespace,
    /// Promoted to the desired deployment, which has failed.
    Failed,
    /// Promoted to the desired deployment, and an older one has failed.
    FailedBefore,
}

use ClusterState::{
    Broken, Done, DoneBefore, Failed, FailedBefore, Invalid, New, NewInvalid, NewPaused, NoNamespace, Old,
    OldPaused, Working,
};
use RolloutStep::{Hold, Promote, Stage, Wait};

fn cluster(index: usize, state: ClusterState) -> Cluster {
    let (name, paused) = (format!("c{index:04}"), matches!(state, NewPaused | OldPaused));
    let namespace = if state == NoNamespace {
        String::new()
    } else {
        format!("cluster-{name}")
    };
    let values = if matches!(state, Invalid | NewInvalid) {
        json!({})
    } else {
        json!({ "zone": "z" })
    };
    let object = json!({
        "metadata": { "name": name, "namespace": "fleet", "labels": { "index": index.to_string(), "env": "prod" } },
        "spec": { "paused": paused, "templateValues": values },
        "status": { "namespace": namespace }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn bundle(strategy: &Value, paused: bool, annotations: Option<&Value>) -> Bundle {
    let object = json!({
        "metadata": { "name": "web", "namespace": "fleet", "annotations": annotations },
        "spec": {
            "paused": paused,
            "rolloutStrategy": strategy,
            "helm": { "chart": "web", "values": { "zone": "${ .ClusterValues.zone }" } },
            "targets": [{ "clusterSelector": {} }]
        }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn deployment(cluster: &Cluster, id: &str, state: ClusterState) -> Option<BundleDeployment> {
    let (deployment, applied, ready) = match state {
        New | NewInvalid | NewPaused | NoNamespace => return None,
        Done | DoneBefore => (id, id, true),
        Old | OldPaused | Invalid => (":old", ":old", true),
        Broken => (":old", ":old", false),
        Working | Failed | FailedBefore => (id, ":old", true),
    };
    let failed = match state {
        Failed | DoneBefore => id,
        FailedBefore => ":old",
        _ => "",
    };
    let object = json!({
        "metadata": { "name": "web", "namespace": cluster.status.namespace },
        "spec": { "deploymentID": deployment, "stagedDeploymentID": deployment },
        "status": {
            "appliedDeploymentID": applied, "ready": ready, "failedDeploymentID": failed,
            "conditions": [{ "type": "Deployed", "status": if state == DoneBefore { "False" } else { "True" } }],
        }
    });
    Some(serde_json::from_str(&object.to_string()).unwrap())
}

fn planned(strategy: &Value, paused: bool, states: &[ClusterState]) -> Result<Rollout, PlanError> {
    planned_with(strategy, paused, states, None)
}

fn planned_with(
    strategy: &Value,
    paused: bool,
    states: &[ClusterState],
    annotations: Option<&Value>,
) -> Result<Rollout, PlanError> {
    let bundle = bundle(strategy, paused, annotations);
    let clusters: Vec<_> = states
        .iter()
        .enumerate()
        .map(|(index, state)| cluster(index, *state))
        .collect();
    let members = || clusters.iter().map(|cluster| Member::new(cluster, []));
    let known = targets(&bundle, members(), &[], false, &Budget::default()).unwrap();
    let id = known
        .iter()
        .find_map(|target| target.desired.as_ref().ok())
        .map_or(":none", |desired| &*desired.id);
    let existing: Vec<_> = clusters
        .iter()
        .zip(states)
        .filter_map(|(cluster, state)| deployment(cluster, id, *state))
        .collect();
    let existing: Vec<_> = existing.iter().collect();
    plan(
        &bundle,
        &targets(&bundle, members(), &existing, false, &Budget::default()).unwrap(),
        &GateStates::default(),
        Timestamp::UNIX_EPOCH,
    )
}

#[test]
fn clusters_get_steps_within_the_limits() {
    for (strategy, states, expected) in [
        // Without a strategy, all clusters are updated immediately.
        (
            json!({}),
            &[New, Done, Old, Broken, Working][..],
            &[Promote, Stage, Promote, Promote, Stage][..],
        ),
        // Up to the maximum of unavailable clusters, including those that are unavailable already.
        (
            json!({ "maxUnavailable": 1 }),
            &[Old, Old, Old],
            &[Promote, Stage, Stage],
        ),
        (
            json!({ "maxUnavailable": 2 }),
            &[Old, Old, Old],
            &[Promote, Promote, Stage],
        ),
        (
            json!({ "maxUnavailable": "50%" }),
            &[Old, Old, Old, Old],
            &[Promote, Promote, Stage, Stage],
        ),
        (
            json!({ "maxUnavailable": 1 }),
            &[Working, Old, Old],
            &[Stage, Stage, Stage],
        ),
        (
            json!({ "maxUnavailable": 2 }),
            &[Working, Old, Old],
            &[Stage, Promote, Stage],
        ),
        (json!({ "maxUnavailable": 0 }), &[Old, Old], &[Stage, Stage]),
        // Unavailable and new clusters do not wait.
        (
            json!({ "maxUnavailable": 1 }),
            &[Broken, Broken, Old],
            &[Promote, Promote, Stage],
        ),
        (
            json!({ "maxUnavailable": 1 }),
            &[New, New, Old],
            &[Promote, Promote, Promote],
        ),
        // Up to the maximum of new clusters.
        (
            json!({ "maxNew": 2 }),
            &[New, New, New],
            &[Promote, Promote, Wait],
        ),
        (json!({ "maxNew": 0 }), &[New, Old], &[Wait, Promote]),
        (
            json!({ "maxNew": 1 }),
            &[NoNamespace, New, New],
            &[Wait, Promote, Wait],
        ),
        // An error of one cluster does not affect the others.
        (
            json!({ "maxUnavailable": 1 }),
            &[Invalid, NewInvalid, Old],
            &[Hold, Wait, Promote],
        ),
        // The desired state is staged for paused clusters.
        (json!({}), &[NewPaused, OldPaused, Old], &[Stage, Stage, Promote]),
    ] {
        let rollout = planned(&strategy, false, states).unwrap();
        assert_eq!(rollout.steps, expected, "{strategy} {states:?}");
    }
    assert_eq!(
        planned(&json!({}), true, &[New, Old, Broken]).unwrap().steps,
        [Stage; 3]
    );
}

#[test]
fn the_number_of_new_clusters_is_limited() {
    for (max_new, expected) in [
        (json!(10), 10),
        (json!(200), 120),
        (json!(0), 0),
        (json!(null), 120),
    ] {
        let rollout = planned(&json!({ "maxNew": max_new }), false, &[New; 120]).unwrap();
        assert_eq!(rollout.newly_created, expected, "{max_new}");
        let started = rollout.steps.iter().filter(|step| **step == Promote).count();
        assert_eq!(started, expected);
    }
}

fn sizes(strategy: &Value, count: usize) -> Vec<(String, i64, i64)> {
    let rollout = planned(strategy, false, &vec![Done; count]).unwrap();
    rollout
        .partitions
        .into_iter()
        .map(|partition| {
            (
                partition.status.name,
                partition.status.count,
                partition.status.max_unavailable,
            )
        })
        .collect()
}

#[test]
fn many_clusters_are_partitioned_automatically() {
    let partition = |name: &str, count, max| (name.to_owned(), count, max);
    assert_eq!(sizes(&json!({}), 199), [partition("All", 199, 199)]);
    assert_eq!(
        sizes(&json!({ "maxUnavailable": "10%" }), 200),
        [
            partition("Partition 0 - 50", 50, 5),
            partition("Partition 50 - 100", 50, 5),
            partition("Partition 100 - 150", 50, 5),
            partition("Partition 150 - 200", 50, 5)
        ]
    );
    assert_eq!(
        sizes(&json!({ "autoPartitionThreshold": 5, "autoPartitionSize": 4 }), 9),
        [
            partition("Partition 0 - 4", 4, 4),
            partition("Partition 4 - 8", 4, 4),
            partition("Partition 8 - 9", 1, 1)
        ]
    );
    for strategy in [
        json!({ "autoPartitionSize": 0 }),
        json!({ "autoPartitionSize": -1 }),
        json!({ "autoPartitionThreshold": 0 }),
        json!({ "autoPartitionThreshold": 301 }),
    ] {
        assert_eq!(sizes(&strategy, 300), [partition("All", 300, 300)], "{strategy}");
    }
    assert_eq!(sizes(&json!({}), 0), [partition("All", 0, 1)]);
}

#[test]
fn partitions_wait_for_earlier_partitions() {
    let strategy = |max_partitions: Value| {
        json!({
            "autoPartitionThreshold": 1, "autoPartitionSize": 2, "maxUnavailable": 1,
            "maxUnavailablePartitions": max_partitions
        })
    };
    for (max_partitions, states, expected) in [
        // Only one of the first two is promoted in this round, so the partition is not up to date.
        (
            json!(null),
            &[Old, Old, Old, Old][..],
            &[Promote, Stage, Hold, Hold][..],
        ),
        (json!(0), &[Done, Old, Old, Old], &[Stage, Promote, Stage, Stage]),
        (json!(1), &[Old, Old, Old, Old], &[Promote, Stage, Stage, Stage]),
        (
            json!(0),
            &[Done, Done, New, New],
            &[Stage, Stage, Promote, Promote],
        ),
        (json!(0), &[New, New, New, New], &[Promote, Promote, Wait, Wait]),
        // An error of a cluster does not block later partitions.
        (
            json!(0),
            &[Invalid, NewInvalid, Old, Old],
            &[Hold, Wait, Promote, Stage],
        ),
    ] {
        let rollout = planned(&strategy(max_partitions.clone()), false, states).unwrap();
        assert_eq!(rollout.steps, expected, "{max_partitions} {states:?}");
    }
}

/// What the partition after one with these clusters waits for, and whether that one is complete.
fn wait_after(first: &[ClusterState], max_unavailable: &Value) -> (String, bool) {
    let size = first.len();
    let strategy = json!({ "autoPartitionThreshold": 1, "autoPartitionSize": size, "soak": "1h", "maxUnavailable": max_unavailable });
    let states: Vec<_> = first.iter().chain(&vec![Old; size]).copied().collect();
    let rollout = planned(&strategy, false, &states).unwrap();
    assert_eq!(rollout.steps[size..], vec![Hold; size]);
    let until = rollout.next_round.map(|until| until.to_string());
    let waits = rollout.status.unwrap();
    assert_eq!(until.unwrap_or_default(), waits.until);
    (
        waits.message,
        !rollout.partitions[0].status.completed_at.is_empty(),
    )
}

#[test]
fn a_partition_waits_until_the_one_before_it_was_complete_for_a_while() {
    let complete =
        r#"partition "Partition 2 - 4" waits until 1970-01-01T01:00:00Z (soak of "Partition 0 - 2")"#;
    let incomplete = |count: usize| {
        format!(
            "partition \"Partition 2 - 4\" waits until partition \"Partition 0 - 2\" was complete for 1h: {count} of its 2 clusters are not up \
             to date and ready"
        )
    };
    for (first, max, expected) in [
        ([Done, Done], json!(null), complete.to_owned()),
        ([Done, Working], json!(null), incomplete(1)),
        ([Done, DoneBefore], json!(null), incomplete(1)),
        ([Done, Working], json!(1), complete.to_owned()),
        ([Working, Working], json!(1), incomplete(2)),
        // All of them may be unavailable: then that is no limit.
        ([Done, Working], json!(2), incomplete(1)),
        // One has not had its turn.
        ([Old, Old], json!(1), incomplete(2)),
        ([Done, Old], json!(0), incomplete(1)),
        // Nothing shows that it works there.
        ([Done, Invalid], json!(null), incomplete(1)),
        ([Done, OldPaused], json!(null), incomplete(1)),
        ([Done, OldPaused], json!(1), complete.to_owned()),
    ] {
        let is_complete = expected == complete;
        assert_eq!(
            wait_after(&first, &max),
            (expected, is_complete),
            "{first:?} {max}"
        );
    }
}

/// The steps of three clusters, each in a partition that needs an approval, and what they wait for.
fn approved(approval: Option<&str>, states: &[ClusterState]) -> (Vec<RolloutStep>, String) {
    let partition = |name: &str, index: &str| json!({ "name": name, "approval": "Manual", "clusterSelector": { "matchLabels": { "index": index } } });
    let strategy = json!({ "partitions": [partition("a", "0"), partition("b", "1"), partition("c", "2")] });
    let id = planned(&strategy, false, states).unwrap().status.unwrap().id;
    let annotations =
        approval.map(|approval| json!({ labels::APPROVED_ROLLOUT: approval.replace("ID", &id) }));
    let rollout = planned_with(&strategy, false, states, annotations.as_ref()).unwrap();
    assert_eq!(rollout.next_round, None, "nothing happens by itself");
    let waits = rollout.status.unwrap();
    assert_eq!(waits.waits_for.is_empty(), waits.message.is_empty());
    (rollout.steps, waits.message)
}

#[test]
fn a_partition_begins_only_with_an_approval_of_what_is_rolled_out() {
    let waits = |name: &str| format!("partition {name:?} waits for approval: kubectl ");
    for (approval, states, expected, waiting) in [
        // A first installation counts as well.
        (None, [New, New, New], [Wait, Wait, Wait], "a"),
        (Some("ID/a"), [New, New, New], [Promote, Wait, Wait], "b"),
        (Some("ID/a"), [Done, Old, Old], [Stage, Hold, Hold], "b"),
        (Some("ID/b"), [Done, Old, Old], [Stage, Promote, Hold], "c"),
        (Some("ID"), [Old, Old, Old], [Promote, Promote, Promote], ""),
        (Some("other"), [Old, Old, Old], [Hold, Hold, Hold], "a"),
        (Some("other/c"), [Old, Old, Old], [Hold, Hold, Hold], "a"),
        // Nothing changes, so there is nothing to approve.
        (None, [Done, Done, Done], [Stage, Stage, Stage], ""),
        (None, [Working, Invalid, Old], [Stage, Hold, Hold], "c"),
        (None, [NoNamespace, Done, Done], [Wait, Stage, Stage], ""),
        // A paused one gets nothing, whatever is approved.
        (None, [OldPaused, Done, Old], [Stage, Stage, Hold], "c"),
        (None, [OldPaused, NewPaused, Done], [Stage, Stage, Stage], ""),
    ] {
        let (steps, message) = approved(approval, &states);
        assert_eq!(steps, expected, "{approval:?} {states:?}");
        let is_expected = if waiting.is_empty() {
            message.is_empty()
        } else {
            message.starts_with(&waits(waiting))
        };
        assert!(is_expected, "{approval:?} {states:?}: {message}");
    }
}

/// An approval would have no effect: something else keeps the partition from its turn.
#[test]
fn an_approval_is_requested_only_if_nothing_else_is_missing() {
    let partition = |name: &str, index: &str, approval: &str| json!({ "name": name, "approval": approval, "clusterSelector": { "matchLabels": { "index": index } } });
    let strategy = json!({ "maxUnavailable": 0, "partitions": [partition("a", "0", ""), partition("b", "1", "Manual")] });
    let waits = |paused, states: &[ClusterState]| {
        let rollout = planned(&strategy, paused, states).unwrap();
        assert_eq!(rollout.steps[1], Hold);
        rollout.status.unwrap().waits_for
    };
    assert_eq!(waits(false, &[Old, Old]), "", "the limit of the first partition");
    assert_eq!(waits(false, &[Working, Old]), "");
    assert_eq!(waits(false, &[Done, Old]), "Approval");
    assert_eq!(waits(true, &[Done, Old]), "", "the rollout is paused");
    // Nor is anything staged after it.
    let last = json!({ "partitions": [partition("b", "0", "Manual"), partition("c", "1", "")] });
    let rollout = planned(&last, true, &[Old, Old]).unwrap();
    assert_eq!(rollout.steps, [Hold, Hold]);
    assert_eq!(rollout.status.unwrap().waits_for, "");
}

#[test]
fn a_rollout_that_has_failed_on_too_many_clusters_is_halted() {
    for (max, states, expected, halted) in [
        (
            json!(null),
            &[Failed, Old, New][..],
            &[Hold, Hold, Wait][..],
            "on 1 cluster, of at most 0",
        ),
        (
            json!(0),
            &[Failed, Failed, Old],
            &[Hold; 3],
            "on 2 clusters, of at most 0",
        ),
        (json!(1), &[Failed, Old, Broken], &[Stage, Promote, Promote], ""),
        (
            json!("0%"),
            &[Failed, Old, Old],
            &[Hold; 3],
            "on 1 cluster, of at most 0",
        ),
        (
            json!("20%"),
            &[Failed, Old, Old],
            &[Hold; 3],
            "on 1 cluster, of at most 0",
        ),
        (
            json!("50%"),
            &[Failed, Failed, Old, Old],
            &[Stage, Stage, Promote, Promote],
            "",
        ),
        (
            json!("50%"),
            &[Failed, Failed, Failed, Old],
            &[Hold; 4],
            "on 3 clusters, of at most 2",
        ),
        // What has failed before may work now.
        (json!(0), &[FailedBefore, Old], &[Stage, Promote], ""),
        // No other partition waits.
        (json!(0), &[Failed, Done], &[Hold, Hold], ""),
    ] {
        let strategy = json!({ "onFailure": { "maxFailed": max } });
        let rollout = planned(&strategy, false, states).unwrap();
        assert_eq!(rollout.steps, expected, "{max} {states:?}");
        let waits = rollout.status.unwrap();
        assert_eq!(
            waits.waits_for,
            if halted.is_empty() { "" } else { "Halt" },
            "{max} {states:?}"
        );
        assert!(waits.message.contains(halted), "{}", waits.message);
    }
}

#[test]
fn a_halted_rollout_goes_on_when_a_user_resumes_it() {
    let strategy = json!({ "onFailure": { "maxFailed": 1 } });
    let states = [Failed, Failed, Old];
    let id = planned(&strategy, false, &states).unwrap().status.unwrap().id;
    for (resumed, expected) in [
        (format!("{id}/2"), Promote),
        (format!("{id}/1"), Hold),
        ("other/9".to_owned(), Hold),
        (id, Hold),
    ] {
        let annotations = json!({ labels::RESUMED_ROLLOUT: resumed });
        let rollout = planned_with(&strategy, false, &states, Some(&annotations)).unwrap();
        assert_eq!(rollout.steps[2], expected, "{resumed}");
    }
}

#[test]
fn nothing_waits_for_a_soak_if_nothing_changes() {
    let strategy = json!({ "autoPartitionThreshold": 1, "autoPartitionSize": 1, "soak": "1h" });
    let rollout = planned(&strategy, false, &[Working, Done, NoNamespace]).unwrap();
    assert_eq!(rollout.status.unwrap().waits_for, "");
    // A partition of its own can be without one, and one without clusters has none.
    let own = |soak: &str| {
        let first =
            json!({ "name": "a", "clusterSelector": { "matchLabels": { "index": "0" } }, "soak": soak });
        let none = json!({ "name": "b", "clusterName": "none" });
        let last = json!({ "name": "c", "clusterSelector": {} });
        let strategy = json!({ "soak": "1h", "partitions": [first, none, last] });
        planned(&strategy, false, &[Done, Old]).unwrap().steps[1]
    };
    assert_eq!((own("0s"), own("1s")), (Promote, Hold));
}

#[test]
fn configured_partitions_are_used() {
    let only = |index: &str| json!({ "matchLabels": { "index": index } });
    let strategy = json!({ "maxUnavailable": 2, "partitions": [
        { "name": "first", "clusterSelector": only("1"), "maxUnavailable": 0 },
        { "name": "both", "clusterSelector": { "matchExpressions": [{ "key": "index", "operator": "In", "values": ["1", "2"] }] } }
    ] });
    let rollout = planned(&strategy, false, &[New, New, New]).unwrap();
    assert_eq!(rollout.steps, [Wait, Promote, Wait]);
    assert_eq!(rollout.unassigned, [0]);
    let counts: Vec<_> = rollout
        .partitions
        .iter()
        .map(|p| (&*p.status.name, p.status.count, p.status.max_unavailable))
        .collect();
    assert_eq!(counts, [("first", 1, 0), ("both", 1, 1)]);
    // A cluster in no partition keeps its deployment.
    let rollout = planned(&strategy, false, &[Old, Done, Old]).unwrap();
    assert_eq!(rollout.steps, [Hold, Stage, Promote]);
}

/// Fleet's own controller leaves the ranges of targets in a Bundle.
#[test]
fn a_cluster_whose_target_has_a_range_is_blocked_alone() {
    let states = [New, New, Old];
    let clusters = [0, 1, 2].map(|index| cluster(index, states[index]));
    let target = |name: &str, cluster: &str, version: &str| json!({ "name": name, "clusterName": cluster, "helm": { "version": version } });
    let object = json!({
        "metadata": { "name": "web", "namespace": "fleet" },
        "spec": {
            "rolloutStrategy": { "maxNew": 1 },
            "helmOpOptions": {}, "helm": { "chart": "web", "version": "1.2.3" },
            "targets": [target("edge", "c0000", "1.x"), target("exact", "c0001", "1.3.0"), target("old", "c0002", ">=1")],
        }
    });
    let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
    let existing = deployment(&clusters[2], ":new", Old).unwrap();
    let members = clusters.iter().map(|cluster| Member::new(cluster, []));
    let targets = targets(&bundle, members, &[&existing], false, &Budget::default()).unwrap();
    let rollout = plan(&bundle, &targets, &GateStates::default(), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(rollout.steps, [Wait, Promote, Hold]);
    assert_eq!(
        rollout.newly_created, 1,
        "the blocked cluster does not use up the limit"
    );
    let errors = [&targets[0], &targets[2]].map(|target| match &target.desired {
        Err(TargetError::Version(error)) => error.to_string(),
        desired => panic!("{desired:?}"),
    });
    let [edge, old] = &errors;
    for part in [
        "target \"edge\"",
        "spec.targets[0].helm.version",
        "\"1.x\"",
        "set an exact version",
    ] {
        assert!(edge.contains(part), "{edge}");
    }
    assert!(old.contains("target \"old\"") && old.contains("\">=1\""), "{old}");
}

#[test]
fn an_invalid_strategy_is_reported_with_its_path() {
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] });
    for (strategy, expected) in [
        (
            json!({ "maxUnavailable": "some" }),
            "rolloutStrategy: \"some\" is neither a number nor a percentage",
        ),
        (
            json!({ "maxUnavailablePartitions": "x%" }),
            "rolloutStrategy: \"x%\"",
        ),
        (
            json!({ "partitions": [{ "clusterSelector": {}, "maxUnavailable": "?" }] }),
            "rolloutStrategy: \"?\"",
        ),
        (
            json!({ "soak": "1d" }),
            "rolloutStrategy: soak \"1d\": unknown unit: use ns, us, µs, ms, s, m or h",
        ),
        (
            json!({ "partitions": [{ "clusterSelector": selector }] }),
            "spec.rolloutStrategy.partitions[0].clusterSelector.",
        ),
    ] {
        let error = planned(&strategy, false, &[Old]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (-1..30).prop_map(Value::from),
        (0..120).prop_map(|percent| Value::from(format!("{percent}%"))),
    ]
}

proptest! {
    /// The maximum of unavailable clusters is kept in total and in each partition.
    #[test]
    fn the_maximum_of_unavailable_clusters_is_never_exceeded(
        states in prop::collection::vec(
            prop::sample::select(vec![New, Done, Old, Broken, Working, Invalid, NewInvalid, OldPaused]), 1..30),
        max in amount(), max_partitions in amount(), size in amount(), threshold in 0..20, max_new in 0..20_i64,
    ) {
        let strategy = json!({
            "maxUnavailable": max, "maxUnavailablePartitions": max_partitions, "autoPartitionSize": size,
            "autoPartitionThreshold": threshold, "maxNew": max_new
        });
        let rollout = planned(&strategy, false, &states).unwrap();
        let was_available = |state: &ClusterState| matches!(state, Done | Old | Invalid | OldPaused);
        let unavailable = |steps: &[(ClusterState, RolloutStep)]| {
            let added = steps.iter().filter(|(state, step)| was_available(state) && *step == Promote).count();
            let before = steps.iter().filter(|(state, _)| matches!(state, Broken | Working)).count();
            (added, before)
        };
        let all: Vec<_> = states.iter().copied().zip(rollout.steps.iter().copied()).collect();
        let (added, before) = unavailable(&all);
        prop_assert!(added == 0 || before + added <= rollout.max_unavailable);
        prop_assert_eq!(rollout.unavailable, before + added);
        let mut start = 0;
        for partition in &rollout.partitions {
            let end = start + usize::try_from(partition.status.count).unwrap();
            let (added, before) = unavailable(&all[start..end]);
            prop_assert!(added == 0 || before + added <= usize::try_from(partition.status.max_unavailable).unwrap());
            start = end;
        }
        prop_assert_eq!(start, states.len());
        let created = states.iter().zip(&rollout.steps).filter(|(state, step)| **state == New && **step != Wait).count();
        prop_assert!(created <= usize::try_from(max_new).unwrap());
        prop_assert_eq!(created, rollout.newly_created);
    }
}
