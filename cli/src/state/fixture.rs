//! Objects for tests.

use std::convert::Infallible;

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::{Bundle, BundleDeployment, Decoded, HelmOp};
use helmops_release::record::Record;
use http::{Request, Response, Uri};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::read::Observed;
use crate::cluster::Cluster;

/// The time in tests.
pub const NOW: &str = "2026-03-01T12:00:00Z";

/// The same, as a value.
pub fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// `change` merged over `base`, as a JSON Merge Patch.
pub fn merged(base: &Value, change: &Value) -> Value {
    let (Value::Object(base), Value::Object(change)) = (base, change) else {
        return change.clone();
    };
    let mut result = base.clone();
    for (key, value) in change {
        if value.is_null() {
            result.remove(key);
        } else {
            let old = base.get(key).cloned().unwrap_or(json!({}));
            result.insert(key.clone(), merged(&old, value));
        }
    }
    Value::Object(result)
}

/// A HelmOp that is ready on two clusters, with a change.
pub fn helmop(change: &Value) -> HelmOp {
    let base = json!({
        "metadata": { "namespace": "shop", "name": "web", "generation": 2, "creationTimestamp": "2026-02-26T12:00:00Z" },
        "spec": {
            "pollingInterval": "15m",
            "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "^1.0" }
        },
        "status": {
            "version": "1.2.0",
            "observedGeneration": 2,
            "lastPollingTriggered": "2026-03-01T11:52:00Z",
            "readyClusters": 2,
            "desiredReadyClusters": 2,
            "summary": { "ready": 2, "desiredReady": 2 },
            "conditions": [
                { "type": "Accepted", "status": "True", "reason": "Accepted", "lastTransitionTime": "2026-02-26T12:00:05Z" },
                { "type": "Polled", "status": "True", "reason": "Polled", "lastTransitionTime": "2026-02-26T12:00:05Z", "lastUpdateTime": "2026-03-01T11:52:00Z" },
                { "type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-03-01T09:00:00Z" }
            ]
        }
    });
    serde_json::from_value(merged(&base, change)).unwrap()
}

/// The BundleDeployment of a cluster that is ready, with a change.
pub fn deployment(cluster: &str, change: &Value) -> Decoded<BundleDeployment> {
    let options = |version: &str| json!({ "helm": { "repo": "https://charts.example.com", "chart": "web", "version": version } });
    let base = json!({
        "metadata": {
            "namespace": format!("cluster-{cluster}"), "name": "web", "creationTimestamp": "2026-02-26T12:00:10Z",
            "labels": {
                "fleet.cattle.io/bundle-name": "web", "fleet.cattle.io/bundle-namespace": "shop",
                "fleet.cattle.io/cluster": cluster, "fleet.cattle.io/cluster-namespace": "shop"
            }
        },
        "spec": { "deploymentID": ":b", "stagedDeploymentID": ":b", "options": options("1.2.0"), "stagedOptions": options("1.2.0") },
        "status": {
            "appliedDeploymentID": ":b", "release": "apps/web:3", "ready": true, "nonModified": true,
            "conditions": [
                { "type": "Installed", "status": "True", "lastUpdateTime": "2026-03-01T09:00:00Z" },
                { "type": "Deployed", "status": "True", "lastUpdateTime": "2026-03-01T09:00:00Z" }
            ],
            "resources": [
                { "kind": "Service", "apiVersion": "v1", "namespace": "apps", "name": "web" },
                { "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "apps", "name": "web" }
            ]
        }
    });
    serde_json::from_value(merged(&base, change)).unwrap()
}

/// The change of a BundleDeployment whose upgrade to 1.2.0 failed twice and was rolled back to 1.1.0.
pub fn rolled_back() -> Value {
    let message = "upgrade to chart web 1.2.0 failed (attempt 2 of 4): not ready: deployment.apps apps/web is not ready: Available: 0/1 (after 300 s); rolled back, as revision 5; next attempt at 2026-03-01T12:04:00Z";
    let attempt = |revision: i64, action: &str, version: &str, outcome: &str, time: &str, message: &str| json!({ "revision": revision, "action": action, "chart": "web", "version": version, "deploymentID": ":b", "outcome": outcome, "time": time, "message": message });
    let late = "deployment.apps apps/web is not ready: Available: 0/1 (after 300 s)";
    json!({ "spec": { "lifecycle": {} }, "status": {
        "appliedDeploymentID": ":a",
        "release": "apps/web:5",
        "conditions": [
            { "type": "Deployed", "status": "False", "reason": "Error", "message": message },
            { "type": "Released", "status": "False", "reason": "UpgradeFailed", "message": message },
            { "type": "Remediated", "status": "True", "reason": "RollbackSucceeded", "message": "revision 5: chart web 1.1.0" }
        ],
        "lifecycle": { "failures": 2, "nextAttempt": "2026-03-01T12:04:00Z", "history": [
            attempt(5, "rollback", "1.1.0", "deployed", "2026-03-01T11:59:00Z", ""),
            attempt(4, "upgrade", "1.2.0", "failed", "2026-03-01T11:53:30Z", late),
            attempt(3, "rollback", "1.1.0", "superseded", "2026-03-01T11:48:00Z", ""),
            attempt(2, "upgrade", "1.2.0", "failed", "2026-03-01T11:42:30Z", late),
            attempt(1, "install", "1.1.0", "superseded", "2026-02-26T12:00:20Z", "")
        ] }
    } })
}

/// The change of a BundleDeployment that the roll-out has staged for 1.3.0 and whose objects are not ready.
pub fn not_ready() -> Value {
    json!({ "status": { "ready": false, "nonReadyStatus": [{
        "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "apps", "name": "web",
        "summary": { "state": "in-progress", "transitioning": true, "message": ["Available: 0/1"] }
    }] } })
}

/// A BundleDeployment whose status names revision 1 and no attempts.
pub fn unlisted(cluster: &str) -> Decoded<BundleDeployment> {
    deployment(cluster, &json!({ "status": { "release": "shop/web:1" } }))
}

/// A record of the release `web`.
pub fn record(revision: u64, status: &str, description: &str, bundle: &str) -> Record {
    let annotations = json!({ "fleet.cattle.io/bundle-id": bundle });
    let chart = json!({ "metadata": { "name": "web", "version": format!("1.{revision}.0"), "annotations": annotations } });
    let info = json!({ "status": status, "description": description, "last_deployed": "2026-11-23T10:00:00.5+01:00" });
    serde_json::from_value(
        json!({ "name": "web", "namespace": "shop", "version": revision, "info": info, "chart": chart }),
    )
    .unwrap()
}

/// A cluster with one record of a BundleDeployment. Its API server answers a request after `answer`.
pub fn recorded<A: Future<Output = ()> + Send + 'static>(
    bundle: &str,
    answer: impl Fn() -> A + Clone + Send + 'static,
) -> Cluster {
    let record = record(1, "deployed", "Install complete", bundle)
        .encode()
        .unwrap();
    let secret = json!({
        "metadata": { "name": "sh.helm.release.v1.web.v1", "labels": { "version": "1" } },
        "type": "helm.sh/release.v1", "data": { "release": STANDARD.encode(record) },
    });
    let list = json!({ "metadata": {}, "items": [secret] });
    answering(move |_| {
        let (answer, list) = (answer(), list.clone());
        async move {
            answer.await;
            list
        }
    })
}

/// A cluster whose API server answers the URI of each request with JSON.
pub fn answering<A: Future<Output = Value> + Send + 'static>(
    answer: impl Fn(Uri) -> A + Send + 'static,
) -> Cluster {
    let service = service_fn(move |request: Request<Body>| {
        let answer = answer(request.uri().clone());
        async move {
            let body = answer.await.to_string().into_bytes();
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        }
    });
    Cluster {
        client: helmops_kube::client_of(service, "shop"),
        namespace: "shop".to_owned(),
        server: "https://api.example.com".to_owned(),
    }
}

/// A HelmOp in the middle of a roll-out: one cluster is ready, one rolled back, one not ready, one pending without a BundleDeployment.
pub fn rollout() -> Observed {
    let helmop = helmop(&json!({ "status": {
        "readyClusters": 1,
        "desiredReadyClusters": 4,
        "display": { "state": "ErrApplied" },
        "summary": { "ready": 1, "desiredReady": 4, "errApplied": 1, "notReady": 1, "pending": 1, "nonReadyResources": [
            { "name": "shop/c2", "bundleState": "ErrApplied" },
            { "name": "shop/c3", "bundleState": "NotReady" },
            { "name": "shop/c4", "bundleState": "Pending" }
        ] },
        "conditions": [
            { "type": "Accepted", "status": "True", "reason": "Accepted", "lastTransitionTime": "2026-02-26T12:00:05Z" },
            { "type": "Polled", "status": "True", "reason": "Polled", "lastTransitionTime": "2026-02-26T12:00:05Z", "lastUpdateTime": "2026-03-01T11:52:00Z" },
            { "type": "Ready", "status": "False", "reason": "NotReady", "message": "ErrApplied(1) [Cluster shop/c2: upgrade to chart web 1.2.0 failed]", "lastTransitionTime": "2026-03-01T11:42:00Z" }
        ]
    } }));
    let records = json!([{ "repo": "https://charts.example.com", "chart": "web", "constraint": "^1.0", "version": "1.2.0", "digest": "abc", "url": "https://charts.example.com/web-1.2.0.tgz" }]);
    let bundle: Bundle = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "web", "annotations": { "helmops.fleet.cattle.io/resolved": records.to_string() } },
        "spec": {},
        "status": { "display": { "readyClusters": "1/4", "state": "ErrApplied" } }
    }))
    .unwrap();
    let event = |object: Value, reason: &str, note: &str, first: &str, series: Value| {
        json!({
            "metadata": { "name": reason, "namespace": "shop", "creationTimestamp": first },
            "regarding": merged(&json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "namespace": "shop", "name": "web" }), &object),
            "type": if reason == "NotReady" { "Warning" } else { "Normal" },
            "reason": reason, "note": note, "reportingController": "helmops-controller",
            "eventTime": first.replace('Z', ".123456Z"), "series": series
        })
    };
    let events = json!([
        event(
            json!({ "kind": "Bundle" }),
            "NotReady",
            "ErrApplied(1)",
            "2026-03-01T11:42:00Z",
            json!({ "count": 3, "lastObservedTime": "2026-03-01T11:53:00.000000Z" })
        ),
        event(
            json!({ "kind": "HelmOp" }),
            "GotNewChartVersion",
            "1.2.0 (before: 1.1.0)",
            "2026-03-01T11:40:00Z",
            Value::Null
        ),
        event(
            json!({ "kind": "HelmOp" }),
            "GotNewChartVersion",
            "1.2.0 (before: 1.1.0)",
            "2026-03-01T11:39:00Z",
            Value::Null
        ),
        event(
            json!({ "kind": "HelmOp", "name": "other" }),
            "Accepted",
            "",
            "2026-03-01T11:40:00Z",
            Value::Null
        ),
        event(
            json!({ "kind": "Deployment", "apiVersion": "apps/v1" }),
            "ScalingReplicaSet",
            "",
            "2026-03-01T11:40:00Z",
            Value::Null
        ),
        event(
            json!({ "kind": "BundleDeployment", "namespace": "cluster-c1" }),
            "Synced",
            "deployed",
            "2026-03-01T11:41:00Z",
            Value::Null
        ),
        event(
            json!({ "kind": "BundleDeployment", "namespace": "cluster-c9" }),
            "Synced",
            "of a HelmOp of this name in another namespace",
            "2026-03-01T11:41:00Z",
            Value::Null
        )
    ]);
    Observed {
        helmop,
        bundle: Some(bundle),
        deployments: vec![
            deployment("c3", &not_ready()),
            deployment("c1", &json!({})),
            deployment("c2", &rolled_back()),
        ],
        events: serde_json::from_value(events).unwrap(),
        notes: Vec::new(),
    }
}

/// Compares a text with a file in `tests/golden/state`. `HELMOPS_GOLDEN=write` replaces the file.
pub fn golden(file: &str, text: &str) {
    let path = format!("{}/tests/golden/state/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("HELMOPS_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, expected, "{path}");
}
