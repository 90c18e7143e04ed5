//! Requests as the API server sends them, and the responses.

use std::{
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
};

use axum::{
    body::{Body, to_bytes},
    http::{Method, Request, Response, StatusCode, header::CONNECTION},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use prometheus::Registry;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

use super::{AppState, Health, PolicyCache, router, truncated};
use crate::{body::MAX_BODY, cycles::Cycles, metrics::Metrics};

async fn send(method: Method, path: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
    send_with(PolicyCache::default(), method, path, body).await
}

async fn send_with(
    policies: PolicyCache,
    method: Method,
    path: &str,
    body: impl Into<Body>,
) -> (StatusCode, Vec<u8>) {
    send_to(policies, None, method, path, body).await
}

async fn send_to(
    policies: PolicyCache,
    cycles: Option<Cycles>,
    method: Method,
    path: &str,
    body: impl Into<Body>,
) -> (StatusCode, Vec<u8>) {
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let app = router(AppState {
        metrics,
        health: Health::default(),
        policies,
        cycles,
        overload: Arc::default(),
        tracer: helmops_trace::Tracer::disabled(),
    });
    let request = Request::builder()
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

/// The `response` to a review. It asserts that it has the uid.
async fn respond(path: &str, review: &Value) -> Value {
    respond_with(PolicyCache::default(), path, review).await
}

async fn respond_with(policies: PolicyCache, path: &str, review: &Value) -> Value {
    respond_to(policies, None, path, review).await
}

async fn respond_to(policies: PolicyCache, cycles: Option<Cycles>, path: &str, review: &Value) -> Value {
    let (status, body) = send_to(policies, cycles, Method::POST, path, review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    let mut review_response: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&review_response["apiVersion"], &review_response["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    assert_eq!(review_response["response"]["uid"], review["request"]["uid"]);
    review_response["response"].take()
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
async fn defaults_are_returned_as_a_patch() {
    let response = respond("/mutate", &review("CREATE", &helmop("1.2.3"), &Value::Null)).await;
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

    let mut with_interval = helmop("1.2.3");
    with_interval["spec"]["pollingInterval"] = json!("15m");
    let response = respond("/mutate", &review("UPDATE", &with_interval, &Value::Null)).await;
    assert_eq!(response, json!({ "uid": response["uid"], "allowed": true }));
}

#[tokio::test]
async fn a_denial_has_a_cause_for_each_field() {
    let mut invalid = helmop("foo");
    invalid["spec"]["namespace"] = json!("Shop");
    let response = respond("/validate", &review("CREATE", &invalid, &Value::Null)).await;
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

/// A Policy in `fleet-default`, the namespace of the HelmOps.
fn policies(fields: &Value) -> PolicyCache {
    let mut policy = json!({ "metadata": { "name": "limits", "namespace": "fleet-default" } });
    json_patch::merge(&mut policy, fields);
    [serde_json::from_str(&policy.to_string()).unwrap()]
        .into_iter()
        .collect()
}

#[tokio::test]
async fn a_policy_violation_is_denied_with_the_policy_and_the_fix() {
    let strict = policies(&json!({
        "requireServiceAccount": true, "helmOp": { "allowedChartPatterns": ["db"] }
    }));
    let review = review("CREATE", &helmop("1.2.3"), &Value::Null);
    let response = respond_with(strict.clone(), "/validate", &review).await;
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

    let mut other = review.clone();
    other["request"]["namespace"] = json!("fleet-local");
    assert_eq!(
        respond_with(strict, "/validate", &other).await["allowed"],
        true,
        "the Policy is in another namespace"
    );
    assert_eq!(
        respond("/validate", &review).await["allowed"],
        true,
        "no Policy is enforced until the cache is synced"
    );
}

#[tokio::test]
async fn a_policy_default_is_used_for_validation_and_not_written() {
    let policies = policies(&json!({
        "requireServiceAccount": true, "helmOp": { "defaultServiceAccount": "deployer" }
    }));
    let review = review("CREATE", &helmop("1.2.3"), &Value::Null);
    let response = respond_with(policies.clone(), "/validate", &review).await;
    assert_eq!(response["allowed"], true, "{response}");
    let patch = respond_with(policies, "/mutate", &review).await["patch"].take();
    let patch = BASE64_STANDARD.decode(patch.as_str().unwrap()).unwrap();
    assert!(!String::from_utf8(patch).unwrap().contains("deployer"));
}

#[tokio::test]
async fn a_stored_helmop_that_violates_a_policy_can_be_edited() {
    let policies = policies(&json!({ "helmOp": { "allowedChartPatterns": ["db"] } }));
    let stored = helmop("1.2.3");
    let mut labelled = stored.clone();
    labelled["metadata"]["labels"] = json!({ "team": "web" });
    let mut paused = stored.clone();
    paused["spec"]["paused"] = json!(true);
    let mut other_chart = stored.clone();
    other_chart["spec"]["helm"]["chart"] = json!("shop");
    for (edited, allowed, warned) in [
        (labelled, true, false),
        (paused, true, true),
        (other_chart, false, false),
    ] {
        let review = review("UPDATE", &edited, &stored);
        let response = respond_with(policies.clone(), "/validate", &review).await;
        assert_eq!(response["allowed"], allowed, "{response}");
        assert_eq!(response.get("warnings").is_some(), warned, "{response}");
    }
}

#[tokio::test]
async fn the_denial_has_the_generate_name() {
    let mut invalid = helmop("foo");
    invalid["metadata"] = json!({ "generateName": "web-" });
    let mut review = review("CREATE", &invalid, &Value::Null);
    review["request"]["name"] = json!("");
    let response = respond("/validate", &review).await;
    assert_eq!(response["status"]["details"]["name"], "web-");
}

#[tokio::test]
async fn warnings_do_not_deny() {
    let response = respond("/validate", &review("CREATE", &helmop("1.x"), &Value::Null)).await;
    assert_eq!(response["allowed"], true);
    assert!(
        response["warnings"][0]
            .as_str()
            .unwrap()
            .starts_with("spec.helm.version"),
        "{response}"
    );
    let unchanged = respond("/validate", &review("UPDATE", &helmop("1.x"), &helmop("1.x"))).await;
    assert_eq!(
        unchanged.get("warnings"),
        None,
        "no warnings for an unchanged spec"
    );
}

#[tokio::test]
async fn the_spec_can_be_changed_despite_a_large_status() {
    let with_status = |version: &str| {
        let mut object = helmop(version);
        object["status"] = json!({ "resources": vec![json!({}); 100_000] });
        object
    };
    for (version, allowed) in [("1.2.4", true), ("not a version", false)] {
        let review = review("UPDATE", &with_status(version), &with_status("1.2.3"));
        let response = respond("/validate", &review).await;
        assert_eq!(response["allowed"], allowed, "{response}");
        assert!(!response.to_string().contains("does not decode"), "{response}");
    }
}

#[tokio::test]
async fn a_stored_object_that_does_not_decode_can_be_fixed() {
    let undecodable = json!({ "metadata": { "name": "web" }, "spec": { "paused": "maybe" } });
    let response = respond("/validate", &review("UPDATE", &helmop("1.2.3"), &undecodable)).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test]
async fn an_object_that_does_not_decode_is_denied_with_its_uid_and_field() {
    let undecodable =
        json!({ "metadata": { "name": "web" }, "spec": { "helm": { "timeoutSeconds": "soon" } } });
    let response = respond("/validate", &review("CREATE", &undecodable, &Value::Null)).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("spec: helm: timeoutSeconds: invalid type"),
        "{message}"
    );
    assert_eq!(
        respond("/mutate", &review("CREATE", &undecodable, &Value::Null)).await["allowed"],
        true
    );
}

#[tokio::test]
async fn deletions_and_other_resources_are_allowed() {
    let deletion = review("DELETE", &Value::Null, &helmop("foo"));
    assert_eq!(respond("/validate", &deletion).await["allowed"], true);
    let mut pod = review("CREATE", &json!({ "spec": 5 }), &Value::Null);
    pod["request"]["resource"] = json!({ "group": "", "version": "v1", "resource": "pods" });
    assert_eq!(respond("/validate", &pod).await["allowed"], true);
}

fn depending(name: &str) -> Value {
    let mut object = helmop("1.2.3");
    object["metadata"]["namespace"] = json!("fleet-default");
    object["spec"]["lifecycle"] = json!({ "dependsOn": [{ "name": name }] });
    object
}

/// An API server with the HelmOps `db`, which depends on `web`, `cache`, which depends on nothing, and `damaged`. Another one is an error.
fn cycles() -> (Cycles, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let of_service = Arc::clone(&requests);
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        let (status, found) = match path.rsplit('/').next().unwrap() {
            "db" => (200, depending("web")),
            "cache" => (200, helmop("1.2.3")),
            "damaged" => (200, json!({ "metadata": { "name": "damaged" }, "spec": 5 })),
            _ => (
                500,
                json!({ "kind": "Status", "code": 500, "reason": "InternalError" }),
            ),
        };
        of_service.lock().unwrap().push(path);
        let response = Response::builder().status(status);
        let response = response.body(kube::client::Body::from(found.to_string().into_bytes()));
        ready(Ok::<_, Infallible>(response.unwrap()))
    });
    (Cycles::new(helmops_kube::client_of(service, "default")), requests)
}

#[tokio::test]
async fn a_new_helmop_that_would_wait_for_itself_is_denied_and_a_change_is_stored_with_a_warning() {
    for (object, stored, expected, reads) in [
        (depending("db"), Value::Null, Some("web -> db -> web"), 1),
        (depending("db"), helmop("1.2.3"), Some("web -> db -> web"), 1),
        (depending("cache"), Value::Null, None, 1),
        (depending("damaged"), Value::Null, None, 1),
        // An error of the API server denies nothing.
        (depending("other"), Value::Null, None, 1),
        // Its dependencies do not change, it has none, or it is invalid anyway.
        (depending("db"), depending("db"), None, 0),
        (helmop("1.2.3"), Value::Null, None, 0),
        (depending("web"), Value::Null, Some("depends on itself"), 0),
    ] {
        let (cycles, requests) = cycles();
        let operation = if stored.is_null() { "CREATE" } else { "UPDATE" };
        let review = review(operation, &object, &stored);
        let response = respond_to(PolicyCache::default(), Some(cycles), "/validate", &review).await;
        let requests = requests.lock().unwrap().clone();
        assert_eq!(requests.len(), reads, "{object}");
        let is_warning = operation == "UPDATE" && expected.is_some();
        assert_eq!(
            response["allowed"],
            expected.is_none() || is_warning,
            "{response}"
        );
        if is_warning {
            let warning = response["warnings"][0].as_str().unwrap();
            let prefix = "spec.lifecycle.dependsOn[0].name: \"db\": these HelmOps wait for each other";
            assert!(warning.starts_with(prefix), "{warning}");
            assert!(warning.contains(expected.unwrap()), "{warning}");
        } else if let Some(expected) = expected {
            let cause = &response["status"]["details"]["causes"][0];
            assert_eq!(cause["field"], "spec.lifecycle.dependsOn[0].name");
            assert!(cause["message"].as_str().unwrap().contains(expected), "{cause}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_not_a_review_is_rejected_with_a_reason() {
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
async fn responses_during_the_shutdown_close_the_connection() {
    let health = Health::default();
    let app = router(AppState {
        metrics: Metrics::register(&Registry::new()).unwrap(),
        health: health.clone(),
        policies: PolicyCache::default(),
        cycles: None,
        overload: Arc::default(),
        tracer: helmops_trace::Tracer::disabled(),
    });
    let connection = async || {
        let request = Request::post("/validate").body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        response.headers().get(CONNECTION).cloned()
    };
    assert_eq!(connection().await, None);
    health.set_stopping();
    assert_eq!(connection().await.unwrap(), "close");
}

#[test]
fn texts_in_the_log_are_truncated_between_characters() {
    assert_eq!(truncated("short", 63), "short");
    assert_eq!(truncated(&"ä".repeat(1 << 20), 63).len(), 62);
}

#[tokio::test]
async fn a_response_is_short_even_for_requests_with_long_texts() {
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
        let (status, body) = send(Method::POST, "/validate", request.to_string()).await;
        assert_eq!(status, StatusCode::OK);
        let review: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(review["response"]["allowed"], false);
        assert!(body.len() < 10_000, "{} bytes", body.len());
    }
    let mut other = review("CREATE", &json!({}), &Value::Null);
    other["apiVersion"] = json!(long);
    let (status, body) = send(Method::POST, "/validate", other.to_string()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.len() < 10_000, "{} bytes", body.len());
}

#[tokio::test]
async fn an_invalid_schedule_is_denied_and_a_stored_one_stays_editable() {
    let schedule = |schedule: &str, name: &str| {
        let targets = json!({ "clusters": [{ "name": name, "clusterSelector": {} }] });
        let spec = json!({ "schedule": schedule, "duration": "2h", "targets": targets });
        json!({ "metadata": { "name": "night", "namespace": "fleet" }, "spec": spec })
    };
    let (valid, invalid) = ("0 0 2 * * ?", "0 0 25 * * ?");
    for (operation, new, stored, expected) in [
        ("CREATE", schedule(valid, "a"), Value::Null, None),
        (
            "CREATE",
            schedule(invalid, "a"),
            Value::Null,
            Some("hour is 0 to 23"),
        ),
        (
            "UPDATE",
            schedule(invalid, "a"),
            schedule(valid, "a"),
            Some("hour is 0 to 23"),
        ),
        ("UPDATE", schedule(invalid, "b"), schedule(invalid, "a"), None),
        ("DELETE", Value::Null, schedule(invalid, "a"), None),
    ] {
        let mut request = review(operation, &new, &stored);
        request["request"]["resource"] =
            json!({ "group": "fleet.cattle.io", "version": "v1alpha1", "resource": "schedules" });
        let response = respond("/validate-others", &request).await;
        assert_eq!(response["allowed"], expected.is_none(), "{response}");
        if let Some(words) = expected {
            let status = &response["status"];
            let message = status["message"].as_str().unwrap();
            assert!(
                message.starts_with("Schedule.fleet.cattle.io \"") && message.contains(words),
                "{message}"
            );
            assert_eq!(status["details"]["causes"][0]["field"], "spec.schedule");
        }
    }
}
