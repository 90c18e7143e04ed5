//! Requests as the API server sends them, and what comes back.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    http::{Method, Request as HttpRequest, StatusCode},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use prometheus::Registry;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{AppState, CONNECTION, Health, PolicyCache, router, up_to};
use crate::{body::MAX_BODY, metrics::Metrics};

async fn send(method: Method, path: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
    send_under(PolicyCache::default(), method, path, body).await
}

async fn send_under(
    policies: PolicyCache,
    method: Method,
    path: &str,
    body: impl Into<Body>,
) -> (StatusCode, Vec<u8>) {
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let app = router(AppState {
        metrics,
        health: Health::default(),
        policies,
        bodies: Arc::default(),
    });
    let request = HttpRequest::builder()
        .method(method)
        .uri(path)
        .body(body.into())
        .unwrap();
    let response = app.oneshot(request).await.unwrap();
    let status = response.status();
    (
        status,
        to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec(),
    )
}

fn review(operation: &str, object: &Value, stored: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "resource": { "group": "fleet.cattle.io", "version": "v1alpha1", "resource": "helmops" },
            "name": "web",
            "namespace": "fleet-default",
            "operation": operation,
            "object": object,
            "oldObject": stored,
            "dryRun": true,
        }
    })
}

/// The `response` to a review; every one has the uid.
async fn answer(path: &str, review: &Value) -> Value {
    answer_under(PolicyCache::default(), path, review).await
}

async fn answer_under(policies: PolicyCache, path: &str, review: &Value) -> Value {
    let (status, body) = send_under(policies, Method::POST, path, review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    let mut reply: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&reply["apiVersion"], &reply["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    assert_eq!(reply["response"]["uid"], review["request"]["uid"]);
    reply["response"].take()
}

fn helmop(version: &str) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "helm": { "repo": "https://charts.example.com", "chart": "web", "version": version },
            "targets": [{ "clusterSelector": {} }]
        }
    })
}

#[tokio::test]
async fn defaults_come_as_a_patch() {
    let response = answer("/mutate", &review("CREATE", &helmop("1.2.3"), &Value::Null)).await;
    assert_eq!(
        (&response["allowed"], &response["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    let patch = BASE64_STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(
        patch,
        json!([{ "op": "add", "path": "/spec/pollingInterval", "value": "0s" }])
    );

    let mut given = helmop("1.2.3");
    given["spec"]["pollingInterval"] = json!("15m");
    let response = answer("/mutate", &review("UPDATE", &given, &Value::Null)).await;
    assert_eq!(response, json!({ "uid": response["uid"], "allowed": true }));
}

#[tokio::test]
async fn a_denial_has_a_cause_for_each_field() {
    let mut bad = helmop("foo");
    bad["spec"]["namespace"] = json!("Shop");
    let response = answer("/validate", &review("CREATE", &bad, &Value::Null)).await;
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"], &status["status"]),
        (&json!(422), &json!("Invalid"), &json!("Failure"))
    );
    let details = &status["details"];
    assert_eq!(
        (&details["name"], &details["group"], &details["kind"]),
        (&json!("web"), &json!("fleet.cattle.io"), &json!("HelmOp"))
    );
    let fields: Vec<_> = details["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| &cause["field"])
        .collect();
    assert_eq!(fields, ["spec.helm.version", "spec.namespace"]);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "HelmOp.fleet.cattle.io \"web\" is invalid: [spec.helm.version: Invalid value: \"foo\""
        ),
        "{message}"
    );
}

/// Policies of `fleet-default`, where the HelmOps are.
fn policies(fields: &Value) -> PolicyCache {
    let mut policy = json!({ "metadata": { "name": "limits", "namespace": "fleet-default" } });
    json_patch::merge(&mut policy, fields);
    [serde_json::from_str(&policy.to_string()).unwrap()]
        .into_iter()
        .collect()
}

#[tokio::test]
async fn what_a_policy_forbids_is_denied_with_the_policy_and_the_remedy() {
    let strict = policies(&json!({
        "requireServiceAccount": true, "helmOp": { "allowedChartPatterns": ["db"] }
    }));
    let review = review("CREATE", &helmop("1.2.3"), &Value::Null);
    let response = answer_under(strict.clone(), "/validate", &review).await;
    let causes = &response["status"]["details"]["causes"];
    assert_eq!(
        causes,
        &json!([
            {
                "field": "spec.serviceAccount", "reason": "FieldValueRequired",
                "message": "Required value: serviceAccount is required by Policy but is not set; name one, for \
                    requireServiceAccount of Policy \"limits\""
            },
            {
                "field": "spec.helm.chart", "reason": "FieldValueForbidden",
                "message": "Forbidden: \"web\": disallowed helm chart web: web not in allowed set [db]; use one that is, or \
                    have it added to helmOp.allowedChartPatterns of Policy \"limits\""
            }
        ])
    );
    assert_eq!(response["status"]["reason"], "Invalid");

    let mut elsewhere = review.clone();
    elsewhere["request"]["namespace"] = json!("fleet-local");
    assert_eq!(
        answer_under(strict, "/validate", &elsewhere).await["allowed"],
        true,
        "it is a Policy of another namespace"
    );
    assert_eq!(
        answer("/validate", &review).await["allowed"],
        true,
        "while Policies are unknown, nothing is held against it"
    );
}

#[tokio::test]
async fn a_default_of_a_policy_counts_and_is_not_written() {
    let policies = policies(&json!({
        "requireServiceAccount": true, "helmOp": { "defaultServiceAccount": "deployer" }
    }));
    let review = review("CREATE", &helmop("1.2.3"), &Value::Null);
    let response = answer_under(policies.clone(), "/validate", &review).await;
    assert_eq!(response["allowed"], true, "{response}");
    let patch = answer_under(policies, "/mutate", &review).await["patch"].take();
    let patch = BASE64_STANDARD.decode(patch.as_str().unwrap()).unwrap();
    assert!(!String::from_utf8(patch).unwrap().contains("deployer"));
}

#[tokio::test]
async fn a_stored_helmop_that_violates_a_policy_stays_editable() {
    let policies = policies(&json!({ "helmOp": { "allowedChartPatterns": ["db"] } }));
    let stored = helmop("1.2.3");
    let mut labelled = stored.clone();
    labelled["metadata"]["labels"] = json!({ "team": "web" });
    let mut paused = stored.clone();
    paused["spec"]["paused"] = json!(true);
    let mut worse = stored.clone();
    worse["spec"]["helm"]["chart"] = json!("shop");
    for (edited, allowed, warned) in [
        (labelled, true, false),
        (paused, true, true),
        (worse, false, false),
    ] {
        let review = review("UPDATE", &edited, &stored);
        let response = answer_under(policies.clone(), "/validate", &review).await;
        assert_eq!(response["allowed"], allowed, "{response}");
        assert_eq!(response.get("warnings").is_some(), warned, "{response}");
    }
}

#[tokio::test]
async fn a_generated_name_stands_in_the_denial() {
    let mut bad = helmop("foo");
    bad["metadata"] = json!({ "generateName": "web-" });
    let mut review = review("CREATE", &bad, &Value::Null);
    review["request"]["name"] = json!("");
    let response = answer("/validate", &review).await;
    assert_eq!(response["status"]["details"]["name"], "web-");
}

#[tokio::test]
async fn warnings_do_not_deny() {
    let response = answer("/validate", &review("CREATE", &helmop("1.x"), &Value::Null)).await;
    assert_eq!(response["allowed"], true);
    assert!(
        response["warnings"][0]
            .as_str()
            .unwrap()
            .starts_with("spec.helm.version"),
        "{response}"
    );
    let unchanged = answer("/validate", &review("UPDATE", &helmop("1.x"), &helmop("1.x"))).await;
    assert_eq!(
        unchanged.get("warnings"),
        None,
        "an unchanged spec passes without a word"
    );
}

#[tokio::test]
async fn a_large_status_does_not_keep_the_spec_from_being_changed() {
    let with_status = |version: &str| {
        let mut object = helmop(version);
        object["status"] = json!({ "resources": vec![json!({}); 100_000] });
        object
    };
    for (version, allowed) in [("1.2.4", true), ("not a version", false)] {
        let review = review("UPDATE", &with_status(version), &with_status("1.2.3"));
        let response = answer("/validate", &review).await;
        assert_eq!(response["allowed"], allowed, "{response}");
        assert!(!response.to_string().contains("does not decode"), "{response}");
    }
}

#[tokio::test]
async fn a_stored_object_that_does_not_decode_can_be_mended() {
    let odd = json!({ "metadata": { "name": "web" }, "spec": { "paused": "maybe" } });
    let response = answer("/validate", &review("UPDATE", &helmop("1.2.3"), &odd)).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test]
async fn an_object_that_does_not_decode_is_denied_with_its_uid_and_field() {
    let odd = json!({ "metadata": { "name": "web" }, "spec": { "helm": { "timeoutSeconds": "soon" } } });
    let response = answer("/validate", &review("CREATE", &odd, &Value::Null)).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("spec: helm: timeoutSeconds: invalid type"),
        "{message}"
    );
    assert_eq!(
        answer("/mutate", &review("CREATE", &odd, &Value::Null)).await["allowed"],
        true
    );
}

#[tokio::test]
async fn deletions_and_other_resources_pass() {
    let deletion = review("DELETE", &Value::Null, &helmop("foo"));
    assert_eq!(answer("/validate", &deletion).await["allowed"], true);
    let mut pod = review("CREATE", &json!({ "spec": 5 }), &Value::Null);
    pod["request"]["resource"] = json!({ "group": "", "version": "v1", "resource": "pods" });
    assert_eq!(answer("/validate", &pod).await["allowed"], true);
}

#[tokio::test]
async fn what_is_no_review_is_refused_with_a_reason() {
    let (status, body) = send(Method::POST, "/validate", "<html>").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(String::from_utf8_lossy(&body).contains("not an AdmissionReview"));
    let (status, _) = send(Method::POST, "/validate", vec![b' '; MAX_BODY + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let (status, body) = send(Method::GET, "/", "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(String::from_utf8_lossy(&body).contains("/validate"));
    let (status, _) = send(Method::GET, "/validate", "").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_process_that_is_about_to_end_sends_callers_elsewhere() {
    let health = Health::default();
    let app = router(AppState {
        metrics: Metrics::register(&Registry::new()).unwrap(),
        health: health.clone(),
        policies: PolicyCache::default(),
        bodies: Arc::default(),
    });
    let connection = async || {
        let request = HttpRequest::post("/validate").body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        response.headers().get(CONNECTION).cloned()
    };
    assert_eq!(connection().await, None);
    health.stopping();
    assert_eq!(connection().await.unwrap(), "close");
}

#[test]
fn names_in_the_log_are_cut_between_characters() {
    assert_eq!(up_to("short", 63), "short");
    assert_eq!(up_to(&"ä".repeat(1 << 20), 63).len(), 62);
}

#[tokio::test]
async fn an_answer_is_short_however_long_the_texts_of_a_request_are() {
    let long = "A".repeat(500_000);
    let helmop =
        |spec: Value| json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
    for object in [
        helmop(json!({ "paused": long })),
        helmop(json!({ "helm": { "repo": long, "chart": long } })),
        helmop(
            json!({ "helm": { "repo": "https://charts.example.com", "chart": "web" }, "labels": { &*long: long } }),
        ),
    ] {
        let mut request = review("CREATE", &object, &Value::Null);
        request["request"]["name"] = json!(long);
        request["request"]["namespace"] = json!(long);
        let (status, answer) = send(Method::POST, "/validate", request.to_string()).await;
        assert_eq!(status, StatusCode::OK);
        let reply: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(reply["response"]["allowed"], false);
        assert!(answer.len() < 10_000, "{} bytes", answer.len());
    }
    let mut other = review("CREATE", &json!({}), &Value::Null);
    other["apiVersion"] = json!(long);
    let (status, answer) = send(Method::POST, "/validate", other.to_string()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer.len() < 10_000, "{} bytes", answer.len());
}
