//! Tests of the message for a summary.

use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn message(summary: Value) -> String {
    let summary: BundleSummary = serde_json::from_str(&summary.to_string()).unwrap();
    ready_message(&summary, "Cluster")
}

#[test]
fn states_are_listed_with_count_and_example() {
    for (summary, expected) in [
        (json!({ "ready": 0, "desiredReady": 0 }), ""),
        (json!({ "ready": 3, "desiredReady": 3 }), ""),
        (json!({ "pending": 2 }), "Pending(2)"),
        (
            json!({ "waitApplied": 2, "nonReadyResources": [{ "name": "f/a", "bundleState": "WaitApplied" }, { "name": "f/b", "bundleState": "WaitApplied" }] }),
            "WaitApplied(2) [Cluster f/a]",
        ),
        (
            json!({
                "notReady": 1, "errApplied": 1, "modified": 1, "outOfSync": 1,
                "nonReadyResources": [
                    { "name": "f/n", "bundleState": "NotReady" },
                    { "name": "f/e", "bundleState": "ErrApplied", "message": "no such chart" },
                    { "name": "f/m", "bundleState": "Modified" },
                    { "name": "f/o", "bundleState": "OutOfSync" },
                ]
            }),
            "ErrApplied(1) [Cluster f/e: no such chart]; Modified(1) [Cluster f/m]; NotReady(1) [Cluster f/n]; \
             OutOfSync(1) [Cluster f/o]",
        ),
    ] {
        assert_eq!(message(summary), expected);
    }
}

#[test]
fn objects_are_listed_with_their_problem() {
    let of = |state: &str, field: &str, objects: Value| {
        let count = if state == "Modified" {
            "modified"
        } else {
            "notReady"
        };
        message(
            json!({ count: 1, "nonReadyResources": [{ "name": "f/c", "bundleState": state, field: objects }] }),
        )
    };
    for (object, expected) in [
        (
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "missing": true }),
            "deployment.apps shop/web missing",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Namespace", "name": "shop", "missing": true, "exist": true }),
            "namespace.v1 shop is not owned by us",
        ),
        (
            json!({ "kind": "Pod", "namespace": "shop", "name": "p", "delete": true }),
            "pod shop/p extra",
        ),
        (
            json!({ "kind": "Pod", "name": "p", "patch": "{}" }),
            "pod p modified {}",
        ),
    ] {
        assert_eq!(
            of("Modified", "modifiedStatus", json!([object])),
            format!("Modified(1) [Cluster f/c]; {expected}")
        );
    }
    for (summary, expected) in [
        (json!({ "state": "pending" }), "pending"),
        (
            json!({ "state": "s", "transitioning": true, "message": ["a", "b"] }),
            "[progressing] a, b",
        ),
        (
            json!({ "transitioning": true, "error": true }),
            "[progressing,error]",
        ),
        (json!({ "error": true, "message": ["a"] }), "[error] a"),
    ] {
        let object = json!({ "kind": "Pod", "namespace": "shop", "name": "p", "summary": summary });
        assert_eq!(
            of("NotReady", "nonReadyStatus", json!([object])),
            format!("NotReady(1) [Cluster f/c]; pod shop/p {expected}")
        );
    }
}

#[test]
fn four_objects_of_each_list_are_named_and_truncated() {
    let objects = |kind: &str| -> Vec<Value> {
        (0..9)
            .map(|n| {
                json!({
                    "kind": kind, "name": n.to_string(), "patch": "p".repeat(500),
                    "summary": { "error": true, "message": ["m".repeat(5_000)] },
                })
            })
            .collect()
    };
    let text = message(json!({ "modified": 1, "nonReadyResources": [
        { "name": "f/c", "bundleState": "Modified", "modifiedStatus": objects("A"), "nonReadyStatus": objects("B") }
    ] }));
    let parts: Vec<_> = text.split("; ").collect();
    assert_eq!(
        parts
            .iter()
            .map(|part| part.split(' ').next().unwrap())
            .collect::<String>(),
        "Modified(1)aaaabbbb"
    );
    let longest = |kind: &str| {
        parts
            .iter()
            .filter(|part| part.starts_with(kind))
            .map(|part| part.len())
            .max()
    };
    assert_eq!(
        (longest("a"), longest("b")),
        (Some(MAX_PATCH), Some(MAX_OBJECT)),
        "{text}"
    );
}

#[test]
fn ready_messages_are_distinguished_from_errors() {
    for (text, is) in [
        ("NotReady(1) [Cluster f/c]", true),
        ("ErrApplied(12)", true),
        ("NotReady", false),
        ("targeting error: NotReady(1)", false),
        ("", false),
    ] {
        assert_eq!(is_ready_message(text), is, "{text}");
    }
}
