//! Whether an answer is the right one.

use std::borrow::Cow;

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use thiserror::Error;

/// Enough of a wrong answer to see what it is.
const SHOWN: usize = 300;

/// The right answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a> {
    /// The uid of the question.
    pub uid: &'a str,
    /// Whether the change is allowed.
    pub allowed: bool,
    /// Whether a polling interval of `0s` is filled in, and nothing else; without it, there is no patch.
    pub patched: bool,
}

/// What is wrong with an answer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Wrong {
    /// HTTP says so.
    #[error("status {status}, expected 200 OK: {body}")]
    Status {
        /// The status.
        status: StatusCode,
        /// What came with it.
        body: String,
    },
    /// It is something else.
    #[error("the body is no AdmissionReview of admission.k8s.io/v1 with a response: {0}")]
    NoReview(String),
    /// It answers another question.
    #[error("uid {found:?}, expected {expected:?}")]
    Uid {
        /// The uid that came.
        found: String,
        /// The uid that was sent.
        expected: String,
    },
    /// It says the contrary.
    #[error("allowed: {}, expected the contrary: {body}", !expected)]
    Allowed {
        /// What is right.
        expected: bool,
        /// The whole answer.
        body: String,
    },
    /// It changes something else, or something where nothing is to be changed.
    #[error("patch {found}, expected {}", if *.expected { "one that adds /spec/pollingInterval \"0s\"" } else { "none" })]
    Patch {
        /// Whether a patch is right.
        expected: bool,
        /// The patch that came.
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

/// The API server reads both.
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

/// Compares an answer to the right one.
///
/// # Errors
/// With the first difference.
pub fn check(status: StatusCode, body: &[u8], expected: Expected<'_>) -> Result<(), Wrong> {
    if status != StatusCode::OK {
        return Err(Wrong::Status {
            status,
            body: shown(body),
        });
    }
    let Some(response) = response(body) else {
        return Err(Wrong::NoReview(shown(body)));
    };
    if response.uid != expected.uid {
        return Err(Wrong::Uid {
            found: response.uid.into_owned(),
            expected: expected.uid.to_owned(),
        });
    }
    if response.allowed != expected.allowed {
        return Err(Wrong::Allowed {
            expected: expected.allowed,
            body: shown(body),
        });
    }
    check_patch(&response, expected.patched)
}

fn response(body: &[u8]) -> Option<Response<'_>> {
    let review: Review<'_> = serde_json::from_slice(body).ok()?;
    let known = review.api_version == "admission.k8s.io/v1" && review.kind == "AdmissionReview";
    known.then_some(review.response)
}

fn check_patch(response: &Response<'_>, expected: bool) -> Result<(), Wrong> {
    let patch = match &response.patch {
        None => Vec::new(),
        Some(Patch::Bytes(bytes)) => bytes.clone(),
        Some(Patch::Base64(text)) => STANDARD
            .decode(text)
            .unwrap_or_else(|_| text.clone().into_bytes()),
    };
    let kind = response.patch_type.as_deref();
    let right = if expected {
        kind == Some("JSONPatch") && fills_in_polling(&patch)
    } else {
        kind.is_none() && patch.is_empty()
    };
    if right {
        return Ok(());
    }
    let found = match (kind, patch.as_slice()) {
        (None, []) => "none".to_owned(),
        (kind, patch) => format!("{} of type {}", shown(patch), kind.unwrap_or("(none)")),
    };
    Err(Wrong::Patch { expected, found })
}

fn fills_in_polling(patch: &[u8]) -> bool {
    serde_json::from_slice(patch).is_ok_and(|[operation]: [Operation; 1]| {
        operation.op == "add" && operation.path == "/spec/pollingInterval" && operation.value == "0s"
    })
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(SHOWN).collect()
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

    fn of_patch(kind: &Value, patch: &Value, expected: Expected<'_>) -> Result<(), Wrong> {
        let patch = STANDARD.encode(patch.to_string());
        let response =
            json!({ "uid": "u-1", "allowed": expected.allowed, "patchType": kind, "patch": patch });
        check(StatusCode::OK, &review(&response), expected)
    }

    #[test]
    fn right_answers_pass() {
        let denial = review(&json!({ "uid": "u-1", "allowed": false, "status": { "message": "no" } }));
        assert_eq!(check(StatusCode::OK, &denial, DENIED), Ok(()));
        assert_eq!(of_patch(&json!("JSONPatch"), &polling("0s"), PATCHED), Ok(()));
        let bytes = polling("0s").to_string().into_bytes();
        let patch = json!({ "uid": "u-1", "allowed": true, "patchType": "JSONPatch", "patch": bytes });
        assert_eq!(check(StatusCode::OK, &review(&patch), PATCHED), Ok(()));
    }

    #[test]
    fn what_is_no_review_is_told_from_a_wrong_one() {
        let right = review(&json!({ "uid": "u-1", "allowed": false }));
        let failed = check(StatusCode::BAD_GATEWAY, &right, DENIED);
        assert!(matches!(
            failed,
            Err(Wrong::Status {
                status: StatusCode::BAD_GATEWAY,
                ..
            })
        ));
        let v1beta1 = String::from_utf8(right)
            .unwrap()
            .replace("k8s.io/v1", "k8s.io/v1beta1");
        for body in ["", "{}", "<html>", &v1beta1] {
            let outcome = check(StatusCode::OK, body.as_bytes(), DENIED);
            assert_eq!(outcome, Err(Wrong::NoReview(body.to_owned())));
        }
    }

    #[test]
    fn the_uid_and_the_verdict_must_be_those_of_the_question() {
        let other = review(&json!({ "uid": "u-2", "allowed": false }));
        assert!(matches!(
            check(StatusCode::OK, &other, DENIED),
            Err(Wrong::Uid { .. })
        ));
        let allowed = review(&json!({ "uid": "u-1", "allowed": true }));
        assert!(matches!(
            check(StatusCode::OK, &allowed, DENIED),
            Err(Wrong::Allowed { expected: false, .. })
        ));
    }

    #[test]
    fn a_patch_is_exactly_the_one_that_is_expected() {
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
            let outcome = of_patch(kind, &patch, PATCHED);
            assert!(
                matches!(outcome, Err(Wrong::Patch { expected: true, .. })),
                "{patch}"
            );
        }
        let unasked = of_patch(&json_patch, &polling("0s"), DENIED);
        assert!(matches!(unasked, Err(Wrong::Patch { expected: false, .. })));
    }
}
