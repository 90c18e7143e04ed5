//! Tests of counts, examples and display.

use helmops_model::deployment_state::DeploymentState::{
    ErrApplied, Modified, NotReady, OutOfSync, Pending, Ready, WaitApplied, WaitingForDependency,
};
use serde_json::{Value, json};

use super::*;
use crate::status::fixture::{deployment, invalid, sorted, summary};

fn filled(
    deployments: &[helmops_api::Decoded<helmops_api::BundleDeployment>],
    counted: Option<Value>,
) -> StatusBase {
    let mut base = StatusBase::default();
    fill(&mut base, &sorted(deployments), counted.map(summary).as_ref());
    base
}

fn with_message(message: &str) -> Value {
    json!({ "conditions": [{ "type": "Monitored", "message": message }] })
}

/// The examples as `state name message`.
fn listed(base: &StatusBase) -> Vec<String> {
    let list = &base.summary.as_ref().unwrap().non_ready_resources;
    list.iter()
        .map(|one| {
            format!("{} {} {}", one.bundle_state, one.name, one.message)
                .trim_end()
                .to_owned()
        })
        .collect()
}

#[test]
fn every_state_is_counted() {
    let none = json!({});
    let deployments: Vec<_> = [
        ErrApplied,
        WaitingForDependency,
        WaitApplied,
        Modified,
        OutOfSync,
        NotReady,
        Ready,
        Ready,
    ]
    .into_iter()
    .enumerate()
    .map(|(n, state)| deployment(&n.to_string(), state, &none))
    .collect();
    let base = filled(&deployments, None);
    let mut written = serde_json::to_value(&base.summary).unwrap();
    written.as_object_mut().unwrap().remove("nonReadyResources");
    assert_eq!(
        written,
        json!({
            "errApplied": 1, "waitingForDependency": 1, "waitApplied": 1, "modified": 1, "outOfSync": 1, "notReady": 1, "ready": 2,
            "desiredReady": 8
        })
    );
    assert_eq!(
        (base.ready_clusters, base.desired_ready_clusters),
        (Some(2), Some(8))
    );
    assert_eq!(base.display.unwrap().ready_bundle_deployments, "2/8");
}

#[test]
fn a_wait_for_others_is_shown_before_the_usual_one_and_after_a_failure() {
    let why = |reason: &str| {
        let deployed = json!({ "type": "Deployed", "status": "False", "reason": reason, "message": "db" });
        json!({ "conditions": [deployed] })
    };
    let [usual, waiting, failed] = [
        deployment("a", WaitApplied, &json!({})),
        deployment("b", WaitingForDependency, &why("WaitingForDependency")),
        deployment("c", ErrApplied, &why("Error")),
    ];
    let shown = |deployments: &[_]| filled(deployments, None).display.unwrap().state;
    assert_eq!(shown(&[usual.clone(), waiting.clone()]), "WaitingForDependency");
    let base = filled(&[usual, waiting, failed], None);
    assert_eq!(
        listed(&base),
        [
            "ErrApplied f/c db",
            "WaitingForDependency f/b db",
            "WaitApplied f/a"
        ]
    );
    assert_eq!(base.display.unwrap().state, "ErrApplied");
}

#[test]
fn zero_counts_are_written() {
    let base = filled(&[], None);
    assert_eq!(
        serde_json::to_value(&base).unwrap(),
        json!({
            "readyClusters": 0, "desiredReadyClusters": 0,
            "summary": { "ready": 0, "desiredReady": 0 },
            "display": { "readyBundleDeployments": "0/0" },
        })
    );
}

#[test]
fn a_cluster_is_ready_if_all_its_deployments_are() {
    let none = json!({});
    let deployments = [
        deployment("a", Ready, &none),
        deployment("a", Ready, &none),
        deployment("b", Ready, &none),
        deployment("b", NotReady, &none),
    ];
    let base = filled(&deployments, None);
    assert_eq!(
        (base.ready_clusters, base.desired_ready_clusters),
        (Some(1), Some(2))
    );
    assert_eq!(base.display.unwrap().ready_bundle_deployments, "3/4");
}

#[test]
fn the_worst_state_is_shown_with_the_message_of_its_first_deployment() {
    for (deployments, state, message) in [
        (vec![("a", Ready, "fine")], "", ""),
        (vec![("a", NotReady, "")], "NotReady", ""),
        (
            vec![("b", Modified, "two"), ("a", NotReady, "one")],
            "Modified",
            "two",
        ),
        (
            vec![
                ("c", WaitApplied, "late"),
                ("b", WaitApplied, "early"),
                ("a", OutOfSync, "out"),
            ],
            "WaitApplied",
            "early",
        ),
    ] {
        let deployments: Vec<_> = deployments
            .into_iter()
            .map(|(cluster, state, message)| deployment(cluster, state, &with_message(message)))
            .collect();
        let display = filled(&deployments, None).display.unwrap();
        assert_eq!(
            (&*display.state, &*display.message, display.error),
            (state, message, !message.is_empty())
        );
    }
}

#[test]
fn examples_are_sorted_worst_first_and_include_every_state() {
    let none = json!({});
    let mut deployments: Vec<_> = (10..30)
        .map(|n| deployment(&n.to_string(), WaitApplied, &none))
        .collect();
    deployments.push(deployment("40", NotReady, &none));
    deployments.push(deployment("41", NotReady, &none));
    deployments.push(deployment(
        "42",
        ErrApplied,
        &json!({ "conditions": [{ "type": "Deployed", "status": "False", "message": "no" }] }),
    ));
    let counted = json!({ "pending": 1, "desiredReady": 24, "nonReadyResources": [{ "name": "f/50", "bundleState": "Pending" }] });
    let expected = [
        "ErrApplied f/42 no",
        "WaitApplied f/10",
        "WaitApplied f/11",
        "WaitApplied f/12",
        "WaitApplied f/13",
        "WaitApplied f/14",
        "WaitApplied f/15",
        "WaitApplied f/16",
        "Pending f/50",
        "NotReady f/40",
    ];
    assert_eq!(listed(&filled(&deployments, Some(counted.clone()))), expected);
    deployments.reverse();
    assert_eq!(
        listed(&filled(&deployments, Some(counted))),
        expected,
        "independent of the order"
    );
}

#[test]
fn clusters_without_a_deployment_are_pending() {
    let example = |name: &str| json!({ "name": name, "bundleState": "Pending" });
    let deployments = || vec![deployment("a", Ready, &json!({}))];
    for (counted, pending, desired, examples) in [
        (
            json!({ "pending": 2, "desiredReady": 3, "nonReadyResources": [example("f/b"), example("f/c")] }),
            2,
            3,
            vec!["Pending f/b", "Pending f/c"],
        ),
        // Deployments were created since the Bundle was counted.
        (
            json!({ "pending": 3, "desiredReady": 3, "nonReadyResources": [example("f/a"), example("f/b"), example("f/c")] }),
            2,
            3,
            vec!["Pending f/b", "Pending f/c"],
        ),
        (
            json!({ "pending": 1, "desiredReady": 1, "nonReadyResources": [example("f/a")] }),
            0,
            1,
            vec![],
        ),
        // Deployments that are missing for another reason are not pending.
        (json!({ "notReady": 2, "desiredReady": 3 }), 0, 1, vec![]),
        (json!({ "pending": -1, "desiredReady": 3 }), 0, 1, vec![]),
        // The list of examples is limited to ten.
        (
            json!({ "pending": 20, "desiredReady": 21, "nonReadyResources": [{ "name": "f/x", "bundleState": "NotReady" }, example("invalid")] }),
            20,
            21,
            vec![],
        ),
    ] {
        let base = filled(&deployments(), Some(counted.clone()));
        assert_eq!(listed(&base), examples, "{counted}");
        let display = base.display.unwrap();
        assert_eq!(
            (display.ready_bundle_deployments, display.state),
            (
                format!("1/{desired}"),
                if pending > 0 {
                    "Pending".to_owned()
                } else {
                    String::new()
                }
            ),
            "{counted}"
        );
        assert_eq!(count(&base.summary.unwrap(), Pending), pending, "{counted}");
        assert_eq!(
            (base.ready_clusters, base.desired_ready_clusters),
            (Some(1), Some(desired)),
            "{counted}"
        );
    }
}

#[test]
fn an_invalid_deployment_is_not_ready_and_does_not_hide_others() {
    let base = filled(&[invalid("a"), deployment("b", Ready, &json!({}))], None);
    assert_eq!(base.display.as_ref().unwrap().ready_bundle_deployments, "1/2");
    let list = listed(&base);
    assert_eq!(list.len(), 1);
    assert!(
        list[0].starts_with("NotReady f/a the BundleDeployment cannot be read: status: ready: "),
        "{list:?}"
    );
}

#[test]
fn examples_are_truncated() {
    let (long, words) = ("x".repeat(2000), vec!["m".repeat(2000); 12]);
    let object = json!({
        "uid": long, "kind": long, "apiVersion": long, "namespace": long, "name": long, "patch": long, "missing": true,
        "summary": { "state": long, "error": true, "message": words }
    });
    let status = json!({
        "conditions": [{ "type": "Monitored", "message": long }],
        "modifiedStatus": vec![&object; 11], "nonReadyStatus": vec![&object; 11]
    });
    let deployments: Vec<_> = (0..11)
        .map(|n| deployment(&n.to_string(), NotReady, &status))
        .collect();
    let base = filled(&deployments, None);
    let bytes = serde_json::to_string(&base).unwrap().len();
    assert!(bytes < budget::NON_READY + 20 * MAX_MESSAGE, "{bytes}");
    let summary = base.summary.unwrap();
    assert_eq!((summary.not_ready, summary.non_ready_resources.len()), (11, 10));
    let first = &summary.non_ready_resources[0];
    assert_eq!(
        (first.modified_status.len(), first.non_ready_status.len()),
        (10, 10)
    );
    assert!(first.modified_status[0].missing && first.non_ready_status[0].summary.as_ref().unwrap().error);
    assert!(base.display.unwrap().message.len() <= MAX_MESSAGE);
}

#[test]
fn objects_of_usual_size_are_not_truncated() {
    let object = json!({
        "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "shop", "name": "web",
        "patch": r#"{"spec":{"replicas":2}}"#, "exist": true
    });
    let waiting = json!({
        "uid": "9b1f", "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "web",
        "summary": { "state": "updating", "transitioning": true, "message": ["one", "two"] }
    });
    let status = json!({ "modifiedStatus": [object], "nonReadyStatus": [waiting] });
    let base = filled(&[deployment("a", NotReady, &status)], None);
    assert_eq!(
        serde_json::to_value(base.summary).unwrap()["nonReadyResources"],
        json!([{ "name": "f/a", "bundleState": "NotReady", "modifiedStatus": [object], "nonReadyStatus": [waiting] }])
    );
}

#[test]
fn the_summary_of_a_bundle_alone_gives_the_same_counts() {
    let counted = json!({
        "ready": 1, "desiredReady": 3, "notReady": 1, "pending": 1,
        "nonReadyResources": [
            { "name": "f/b", "bundleState": "NotReady", "message": "why", "modifiedStatus": [{ "kind": "Pod", "name": "p" }] },
            { "name": "f/c", "bundleState": "Pending", "message": "waiting" }
        ]
    });
    let mut base = StatusBase::default();
    fill_from_bundle(&mut base, &summary(counted.clone()));
    assert_eq!(serde_json::to_value(&base.summary).unwrap(), counted);
    assert_eq!(
        (base.ready_clusters, base.desired_ready_clusters),
        (Some(1), Some(3))
    );
    let display = base.display.clone().unwrap();
    assert_eq!(
        (
            &*display.ready_bundle_deployments,
            &*display.state,
            &*display.message,
            display.error
        ),
        ("1/3", "Pending", "waiting", true)
    );
    fill_from_bundle(&mut base, &summary(json!({})));
    assert_eq!(
        serde_json::to_value(&base.summary).unwrap(),
        json!({ "ready": 0, "desiredReady": 0 })
    );
}

/// A hostile cluster writes any text into the status of its BundleDeployments.
#[test]
fn texts_of_clusters_have_no_control_characters() {
    const TEXT: &str = "\u{1b}]0;title\u{7}\u{1b}[2Jtext\u{9b}2J\u{202e}";
    let id = json!({ "kind": TEXT, "apiVersion": TEXT, "namespace": TEXT, "name": TEXT });
    let with = |more: &[(&str, Value)]| {
        let mut object = id.clone();
        for (field, value) in more {
            object[field] = value.clone();
        }
        json!([object])
    };
    let status = json!({
        "conditions": [{ "type": "Monitored", "message": TEXT }],
        "modifiedStatus": with(&[("patch", TEXT.into())]),
        "nonReadyStatus": with(&[("uid", TEXT.into()), ("summary", json!({ "state": TEXT, "message": [TEXT] }))]),
        "resources": with(&[]),
    });
    let deployments = [deployment("a", NotReady, &status)];
    let mut base = filled(&deployments, None);
    crate::status::resources::fill(&mut base, &sorted(&deployments));
    let counted = json!({
        "desiredReady": 1, "notReady": 1,
        "nonReadyResources": [{ "name": TEXT, "bundleState": TEXT, "message": TEXT }],
    });
    let mut of_bundle = StatusBase::default();
    fill_from_bundle(&mut of_bundle, &summary(counted));
    let ready = crate::status::ready_message::of_summary(base.summary.as_ref().unwrap(), "Cluster");
    let mut conditions = Vec::new();
    let r#type = helmops_model::condition::ConditionType::Ready;
    helmops_model::condition::set(&mut conditions, r#type, &ready, None, "");
    let written = json!([base, of_bundle, conditions]).to_string();
    assert!(written.contains("title"), "{written}");
    assert!(!written.contains(bounded_text::is_control), "{written}");
    assert!(!written.contains("\\u00"), "{written}");
}
