//! Compares responses with the expected ones.

use std::borrow::Cow;

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use thiserror::Error;

/// Maximal length of a wrong response in a message.
const MAX_SHOWN: usize = 300;

/// The expected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a> {
    /// The uid of the request.
    pub uid: &'a str,
    /// Whether the change is allowed.
    pub allowed: bool,
    /// Whether the patch sets a polling interval of `0s`, and nothing else; if not, there is no patch.
    pub patched: bool,
}

/// Why a response is wrong.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ResponseError {
    /// The HTTP status is not 200.
    #[error("status {status}, expected 200 OK: {body}")]
    Status { status: StatusCode, body: String },
    /// The body is not a review.
    #[error("the body is not an AdmissionReview of admission.k8s.io/v1 with a response: {0}")]
    NotAReview(String),
    /// The uid is that of another request.
    #[error("uid {found:?}, expected {expected:?}")]
    Uid {
        /// The received uid.
        found: String,
        /// The sent uid.
        expected: String,
    },
    /// The decision is wrong.
    #[error("allowed: {}, expected {expected}: {body}", !expected)]
    Allowed {
        /// The expected decision.
        expected: bool,
        /// The whole response.
        body: String,
    },
    /// The patch is missing, wrong or unexpected.
    #[error("patch {found}, expected {}", if *.expected { "one that adds /spec/pollingInterval \"0s\"" } else { "none" })]
    Patch {
        expected: bool,
        /// The received patch.
        found: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    response: Response<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    allowed: bool,
    patch_type: Option<String>,
    patch: Option<Patch>,
}

/// The API server accepts both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Patch {
    Base64(String),
    Bytes(Vec<u8>),
}

#[derive(Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Operation {
    op: String,
    path: String,
    value: String,
}

/// Compares a response with the expected one.
///
/// # Errors
/// The first difference.
pub fn check(status: StatusCode, body: &[u8], expected: Expected<'_>) -> Result<(), ResponseError> {
    if status != StatusCode::OK {
        return Err(ResponseError::Status {
            status,
            body: truncated(body),
        });
    }
    let Some(response) = response(body) else {
        return Err(ResponseError::NotAReview(truncated(body)));
    };
    if response.uid != expected.uid {
        return Err(ResponseError::Uid {
            found: response.uid.into_owned(),
            expected: expected.uid.to_owned(),
        });
    }
    if response.allowed != expected.allowed {
        return Err(ResponseError::Allowed {
            expected: expected.allowed,
            body: truncated(body),
        });
    }
    check_patch(&response, expected.patched)
}

fn response(body: &[u8]) -> Option<Response<'_>> {
    let review: Review<'_> = serde_json::from_slice(body).ok()?;
    let is_review = review.api_version == "admission.k8s.io/v1" && review.kind == "AdmissionReview";
    is_review.then_some(review.response)
}

fn check_patch(response: &Response<'_>, expected: bool) -> Result<(), ResponseError> {
    let patch = match &response.patch {
        None => Vec::new(),
        Some(Patch::Bytes(bytes)) => bytes.clone(),
        Some(Patch::Base64(text)) => STANDARD
            .decode(text)
            .unwrap_or_else(|_| text.clone().into_bytes()),
    };
    let kind = response.patch_type.as_deref();
    let is_expected = if expected {
        kind == Some("JSONPatch") && sets_polling_interval(&patch)
    } else {
        kind.is_none() && patch.is_empty()
    };
    if is_expected {
        return Ok(());
    }
    let found = match (kind, patch.as_slice()) {
        (None, []) => "none".to_owned(),
        (kind, patch) => format!("{} of type {}", truncated(patch), kind.unwrap_or("(none)")),
    };
    Err(ResponseError::Patch { expected, found })
}

fn sets_polling_interval(patch: &[u8]) -> bool {
    serde_json::from_slice(patch).is_ok_and(|[operation]: [Operation; 1]| {
        operation.op == "add" && operation.path == "/spec/pollingInterval" && operation.value == "0s"
    })
}

fn truncated(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DENIED: Expected<'_> = Expected {
        uid: "u-1",
        allowed: false,
        patched: false,
    };
    const PATCHED: Expected<'_> = Expected {
        uid: "u-1",
        allowed: true,
        patched: true,
    };

    fn polling(value: &str) -> Value {
        json!([{ "op": "add", "path": "/spec/pollingInterval", "value": value }])
    }

    fn review(response: &Value) -> Vec<u8> {
        let review =
            json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response });
        review.to_string().into_bytes()
    }

    fn of_patch(kind: &Value, patch: &Value, expected: Expected<'_>) -> Result<(), ResponseError> {
        let patch = STANDARD.encode(patch.to_string());
        let response =
            json!({ "uid": "u-1", "allowed": expected.allowed, "patchType": kind, "patch": patch });
        check(StatusCode::OK, &review(&response), expected)
    }

    #[test]
    fn expected_responses_are_accepted() {
        let denial = review(&json!({ "uid": "u-1", "allowed": false, "status": { "message": "no" } }));
        assert_eq!(check(StatusCode::OK, &denial, DENIED), Ok(()));
        assert_eq!(of_patch(&json!("JSONPatch"), &polling("0s"), PATCHED), Ok(()));
        let bytes = polling("0s").to_string().into_bytes();
        let patch = json!({ "uid": "u-1", "allowed": true, "patchType": "JSONPatch", "patch": bytes });
        assert_eq!(check(StatusCode::OK, &review(&patch), PATCHED), Ok(()));
    }

    #[test]
    fn failed_requests_and_invalid_reviews_are_distinguished() {
        let expected = review(&json!({ "uid": "u-1", "allowed": false }));
        let failed = check(StatusCode::BAD_GATEWAY, &expected, DENIED);
        assert!(matches!(
            failed,
            Err(ResponseError::Status {
                status: StatusCode::BAD_GATEWAY,
                ..
            })
        ));
        let v1beta1 = String::from_utf8(expected)
            .unwrap()
            .replace("k8s.io/v1", "k8s.io/v1beta1");
        for body in ["", "{}", "<html>", &v1beta1] {
            let result = check(StatusCode::OK, body.as_bytes(), DENIED);
            assert_eq!(result, Err(ResponseError::NotAReview(body.to_owned())));
        }
    }

    #[test]
    fn the_uid_and_the_decision_are_checked() {
        let other = review(&json!({ "uid": "u-2", "allowed": false }));
        assert!(matches!(
            check(StatusCode::OK, &other, DENIED),
            Err(ResponseError::Uid { .. })
        ));
        let allowed = review(&json!({ "uid": "u-1", "allowed": true }));
        assert!(matches!(
            check(StatusCode::OK, &allowed, DENIED),
            Err(ResponseError::Allowed { expected: false, .. })
        ));
    }

    #[test]
    fn only_exactly_the_expected_patch_is_accepted() {
        let json_patch = json!("JSONPatch");
        let mut two = polling("0s");
        two.as_array_mut()
            .unwrap()
            .extend(polling("0s").as_array().cloned().unwrap());
        let mut replacing = polling("0s");
        replacing[0]["op"] = json!("replace");
        for (kind, patch) in [
            (&json_patch, polling("1s")),
            (&json_patch, two),
            (&json_patch, replacing),
            (&json_patch, json!([])),
            (&Value::Null, polling("0s")),
        ] {
            let result = of_patch(kind, &patch, PATCHED);
            assert!(
                matches!(result, Err(ResponseError::Patch { expected: true, .. })),
                "{patch}"
            );
        }
        let unexpected = of_patch(&json_patch, &polling("0s"), DENIED);
        assert!(matches!(
            unexpected,
            Err(ResponseError::Patch { expected: false, .. })
        ));
    }
}
