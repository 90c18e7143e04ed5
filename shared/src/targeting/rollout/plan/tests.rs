use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{Bundle, Cluster},
    targeting::{criteria::Member, target::targets, template::Budget},
};

/// A cluster as it is at the beginning of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    /// Without a deployment.
    New,
    /// Up to date and available.
    Done,
    /// With an older deployment, and available.
    Old,
    /// With an older deployment, and not available.
    Broken,
    /// Told to deploy what is wanted, but not done.
    Working,
    /// Old, and its values cannot be made.
    Faulty,
    /// Without a deployment, and its values cannot be made.
    NewFaulty,
    /// Without a deployment, and paused.
    NewPaused,
    /// Old, and paused.
    OldPaused,
    /// Without a namespace.
    Homeless,
}

use Is::{Broken, Done, Faulty, Homeless, New, NewFaulty, NewPaused, Old, OldPaused, Working};
use RolloutStep::{Hold, Promote, Stage, Wait};

fn cluster(index: usize, is: Is) -> Cluster {
    let (name, paused) = (format!("c{index:04}"), matches!(is, NewPaused | OldPaused));
    let namespace = if is == Homeless {
        String::new()
    } else {
        format!("cluster-{name}")
    };
    let values = if matches!(is, Faulty | NewFaulty) {
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

fn bundle(strategy: &Value, paused: bool) -> Bundle {
    let object = json!({
        "metadata": { "name": "web", "namespace": "fleet" },
        "spec": {
            "paused": paused,
            "rolloutStrategy": strategy,
            "helm": { "chart": "web", "values": { "zone": "${ .ClusterValues.zone }" } },
            "targets": [{ "clusterSelector": {} }]
        }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn deployment(cluster: &Cluster, id: &str, is: Is) -> Option<BundleDeployment> {
    let (deployment, applied, ready) = match is {
        New | NewFaulty | NewPaused | Homeless => return None,
        Done => (id, id, true),
        Old | OldPaused | Faulty => (":old", ":old", true),
        Broken => (":old", ":old", false),
        Working => (id, ":old", true),
    };
    let object = json!({
        "metadata": { "name": "web", "namespace": cluster.status.namespace },
        "spec": { "deploymentID": deployment, "stagedDeploymentID": deployment },
        "status": { "appliedDeploymentID": applied, "ready": ready }
    });
    Some(serde_json::from_str(&object.to_string()).unwrap())
}

fn round(strategy: &Value, paused: bool, are: &[Is]) -> Result<Rollout, PlanError> {
    let bundle = bundle(strategy, paused);
    let clusters: Vec<_> = are
        .iter()
        .enumerate()
        .map(|(index, is)| cluster(index, *is))
        .collect();
    let members = || clusters.iter().map(|cluster| Member::new(cluster, []));
    let known = targets(&bundle, members(), &[], false, &Budget::without_clock()).unwrap();
    let id = known
        .iter()
        .find_map(|target| target.wanted.as_ref().ok())
        .map_or(":none", |wanted| &*wanted.id);
    let existing: Vec<_> = clusters
        .iter()
        .zip(are)
        .filter_map(|(cluster, is)| deployment(cluster, id, *is))
        .collect();
    let existing: Vec<_> = existing.iter().collect();
    plan(
        &bundle.spec,
        &targets(&bundle, members(), &existing, false, &Budget::without_clock()).unwrap(),
    )
}

#[test]
fn turns() {
    for (strategy, are, expected) in [
        // Without a strategy all is done at once.
        (
            json!({}),
            &[New, Done, Old, Broken, Working][..],
            &[Promote, Stage, Promote, Promote, Stage][..],
        ),
        // As many as may be unavailable, those included that are.
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
        // What does not work anyway waits for nobody, and neither does what is new.
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
        // So many new ones at once.
        (
            json!({ "maxNew": 2 }),
            &[New, New, New],
            &[Promote, Promote, Wait],
        ),
        (json!({ "maxNew": 0 }), &[New, Old], &[Wait, Promote]),
        (
            json!({ "maxNew": 1 }),
            &[Homeless, New, New],
            &[Wait, Promote, Wait],
        ),
        // A fault is one cluster's alone.
        (
            json!({ "maxUnavailable": 1 }),
            &[Faulty, NewFaulty, Old],
            &[Hold, Wait, Promote],
        ),
        // Whoever is paused learns what comes next.
        (json!({}), &[NewPaused, OldPaused, Old], &[Stage, Stage, Promote]),
    ] {
        let rollout = round(&strategy, false, are).unwrap();
        assert_eq!(rollout.turns, expected, "{strategy} {are:?}");
    }
    assert_eq!(
        round(&json!({}), true, &[New, Old, Broken]).unwrap().turns,
        [Stage; 3]
    );
}

#[test]
fn the_number_of_new_ones() {
    for (max_new, expected) in [
        (json!(10), 10),
        (json!(200), 120),
        (json!(0), 0),
        (json!(null), 50),
    ] {
        let rollout = round(&json!({ "maxNew": max_new }), false, &[New; 120]).unwrap();
        assert_eq!(rollout.newly_created, expected, "{max_new}");
        let started = rollout.turns.iter().filter(|turn| **turn == Promote).count();
        assert_eq!(started, expected);
    }
}

fn sizes(strategy: &Value, count: usize) -> Vec<(String, i64, i64)> {
    let rollout = round(strategy, false, &vec![Done; count]).unwrap();
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
fn partitions_are_made_of_many_clusters() {
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
fn partitions_wait_for_one_another() {
    let strategy = |max_partitions: Value| {
        json!({
            "autoPartitionThreshold": 1, "autoPartitionSize": 2, "maxUnavailable": 1,
            "maxUnavailablePartitions": max_partitions
        })
    };
    for (max_partitions, are, expected) in [
        // One of the first two is done in this round, so that both are not up to date.
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
        // A fault holds no partition back.
        (
            json!(0),
            &[Faulty, NewFaulty, Old, Old],
            &[Hold, Wait, Promote, Stage],
        ),
    ] {
        let rollout = round(&strategy(max_partitions.clone()), false, are).unwrap();
        assert_eq!(rollout.turns, expected, "{max_partitions} {are:?}");
    }
}

#[test]
fn partitions_of_ones_own() {
    let only = |index: &str| json!({ "matchLabels": { "index": index } });
    let strategy = json!({ "maxUnavailable": 2, "partitions": [
        { "name": "first", "clusterSelector": only("1"), "maxUnavailable": 0 },
        { "name": "both", "clusterSelector": { "matchExpressions": [{ "key": "index", "operator": "In", "values": ["1", "2"] }] } }
    ] });
    let rollout = round(&strategy, false, &[New, New, New]).unwrap();
    assert_eq!(rollout.turns, [Wait, Promote, Wait]);
    assert_eq!(rollout.unassigned, [0]);
    let counts: Vec<_> = rollout
        .partitions
        .iter()
        .map(|p| (&*p.status.name, p.status.count, p.status.max_unavailable))
        .collect();
    assert_eq!(counts, [("first", 1, 0), ("both", 1, 1)]);
    // One that no partition has keeps what it has.
    let rollout = round(&strategy, false, &[Old, Done, Old]).unwrap();
    assert_eq!(rollout.turns, [Hold, Stage, Promote]);
}

#[test]
fn what_cannot_be_read_is_named() {
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
            json!({ "partitions": [{ "clusterSelector": selector }] }),
            "spec.rolloutStrategy.partitions[0].clusterSelector.",
        ),
    ] {
        let error = round(&strategy, false, &[Old]).unwrap_err().to_string();
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
    /// Nobody is taken out of service beyond what is allowed, in all and in each partition.
    #[test]
    fn never_more_are_unavailable_than_allowed(
        are in prop::collection::vec(
            prop::sample::select(vec![New, Done, Old, Broken, Working, Faulty, NewFaulty, OldPaused]), 1..30),
        max in amount(), max_partitions in amount(), size in amount(), threshold in 0..20, max_new in 0..20_i64,
    ) {
        let strategy = json!({
            "maxUnavailable": max, "maxUnavailablePartitions": max_partitions, "autoPartitionSize": size,
            "autoPartitionThreshold": threshold, "maxNew": max_new
        });
        let rollout = round(&strategy, false, &are).unwrap();
        let was_available = |is: &Is| matches!(is, Done | Old | Faulty | OldPaused);
        let taken = |places: &[(Is, RolloutStep)]| {
            let taken = places.iter().filter(|(is, turn)| was_available(is) && *turn == Promote).count();
            let before = places.iter().filter(|(is, _)| matches!(is, Broken | Working)).count();
            (taken, before)
        };
        let all: Vec<_> = are.iter().copied().zip(rollout.turns.iter().copied()).collect();
        let (count, before) = taken(&all);
        prop_assert!(count == 0 || before + count <= rollout.max_unavailable);
        prop_assert_eq!(rollout.unavailable, before + count);
        let mut start = 0;
        for partition in &rollout.partitions {
            let end = start + usize::try_from(partition.status.count).unwrap();
            let (count, before) = taken(&all[start..end]);
            prop_assert!(count == 0 || before + count <= usize::try_from(partition.status.max_unavailable).unwrap());
            start = end;
        }
        prop_assert_eq!(start, are.len());
        let created = are.iter().zip(&rollout.turns).filter(|(is, turn)| **is == New && **turn != Wait).count();
        prop_assert!(created <= usize::try_from(max_new).unwrap());
        prop_assert_eq!(created, rollout.newly_created);
    }
}
