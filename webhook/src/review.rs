//! AdmissionReview (`admission.k8s.io/v1`): what the API server sends, and what it wants back.
//!
//! The types are our own because every reply must carry the request's uid, also where the object does not decode, and
//! because objects are decoded no further than a rule needs: they stay text until then.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use json_patch::Patch;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::counted;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Why a body cannot be answered with a review: it has no uid to answer to.
#[derive(Debug, Error)]
pub enum ReviewError {
    /// No review at all.
    #[error("the body is not an AdmissionReview: {0}")]
    Malformed(#[source] serde_json::Error),
    /// A review of another version.
    #[error(
        "this webhook speaks AdmissionReview of admission.k8s.io/v1, not {kind} of {api_version}; set admissionReviewVersions: [v1]"
    )]
    Version {
        /// The version that was sent.
        api_version: String,
        /// The kind that was sent.
        kind: String,
    },
    /// A review without a request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// A question of the API server about an object of type `T`.
#[derive(Debug)]
pub struct Request<'a, T> {
    /// What the question is about.
    pub subject: Subject<'a>,
    /// The object as it would be stored, or why it does not decode.
    pub object: Result<Option<T>, serde_json::Error>,
    /// The object as it is stored, not decoded.
    pub old_object: Option<&'a RawValue>,
}

/// What a question is about.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Identifies the question; the answer must repeat it.
    pub uid: Cow<'a, str>,
    /// What is being done.
    pub operation: Operation,
    /// The resource that it is done to.
    pub resource: Resource<'a>,
    /// Part of the resource that it is done to, such as `status`.
    pub sub_resource: Cow<'a, str>,
    /// Name of the object; empty where it is yet to be generated.
    pub name: Cow<'a, str>,
    /// Namespace of the object.
    pub namespace: Cow<'a, str>,
}

/// What is being done to an object.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// Anything else, about which this webhook has no opinion.
    #[serde(other)]
    Other,
}

/// A resource of the API.
#[derive(Debug, Default, Deserialize)]
pub struct Resource<'a> {
    /// API group.
    #[serde(default, borrow)]
    pub group: Cow<'a, str>,
    /// Plural name.
    #[serde(default, borrow)]
    pub resource: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct Review<'a, T> {
    #[serde(default, borrow)]
    api_version: Cow<'a, str>,
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<WireRequest<'a, T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct WireRequest<'a, T> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    operation: Operation,
    #[serde(default, borrow)]
    resource: Resource<'a>,
    #[serde(default, borrow)]
    sub_resource: Cow<'a, str>,
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    namespace: Cow<'a, str>,
    #[serde(default = "Option::default")]
    object: Option<T>,
    #[serde(default, borrow)]
    old_object: Option<&'a RawValue>,
}

impl<'a, T: Deserialize<'a>> Request<'a, T> {
    /// Reads a body: in one pass, unless the object does not decode.
    ///
    /// # Errors
    /// Where it has no uid that could be answered to.
    pub fn read(body: &'a [u8]) -> Result<Self, ReviewError> {
        match counted::from_slice::<Review<'_, T>>(body) {
            Ok(review) => Self::accept(review, Ok),
            Err(error) => {
                let review: Review<'_, IgnoredAny> =
                    serde_json::from_slice(body).map_err(ReviewError::Malformed)?;
                Self::accept(review, |_| Err(error))
            }
        }
    }

    fn accept<O>(
        review: Review<'a, O>,
        object: impl FnOnce(Option<O>) -> Result<Option<T>, serde_json::Error>,
    ) -> Result<Self, ReviewError> {
        if review.api_version != API_VERSION || review.kind != KIND {
            let (api_version, kind) = (review.api_version.into_owned(), review.kind.into_owned());
            return Err(ReviewError::Version { api_version, kind });
        }
        let request = review.request.ok_or(ReviewError::NoRequest)?;
        Ok(Self {
            subject: Subject {
                uid: request.uid,
                operation: request.operation,
                resource: request.resource,
                sub_resource: request.sub_resource,
                name: request.name,
                namespace: request.namespace,
            },
            object: object(request.object),
            old_object: request.old_object,
        })
    }
}

impl Subject<'_> {
    /// Whether it is a HelmOp that is created or changed. A webhook that is asked about anything else has no opinion,
    /// whatever its configuration says.
    pub fn is_helmop(&self) -> bool {
        self.resource.group == "fleet.cattle.io"
            && self.resource.resource == "helmops"
            && self.sub_resource.is_empty()
            && self.operation != Operation::Other
    }
}

/// An answer.
#[derive(Debug, Default)]
pub struct AdmissionResponse {
    /// Why not; `None` to allow.
    pub denial: Option<Status>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// What is filled in.
    pub patch: Option<Patch>,
}

impl AdmissionResponse {
    /// The body of the reply to `uid`.
    ///
    /// # Errors
    /// Never in practice: strings and JSON values always serialise.
    pub fn write(&self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let patch = self.patch.as_ref().map(serde_json::to_vec).transpose()?;
        serde_json::to_vec(&Reply {
            api_version: API_VERSION,
            kind: KIND,
            response: Response {
                uid,
                allowed: self.denial.is_none(),
                status: self.denial.as_ref(),
                warnings: &self.warnings,
                patch_type: patch.is_some().then_some("JSONPatch"),
                patch: patch.map(|patch| BASE64_STANDARD.encode(patch)),
            },
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

/// Why a change is denied, in the form that the API server gives its own errors.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the API's")]
pub struct Status {
    /// Always `Failure`.
    pub status: &'static str,
    /// Everything in one text.
    pub message: String,
    /// Kind of failure.
    pub reason: &'static str,
    /// HTTP status code.
    pub code: u16,
    /// What kubectl makes its message of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// The object that is denied, and a cause for each field that is wrong.
#[derive(Debug, Serialize)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group of the object.
    pub group: &'static str,
    /// Kind of the object.
    pub kind: &'static str,
    /// One for each field.
    pub causes: Vec<Cause>,
}

/// A field that is wrong.
#[derive(Debug, Serialize)]
pub struct Cause {
    /// In which way.
    pub reason: &'static str,
    /// Offending text, what is wrong and how to mend it.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_that_does_not_decode_leaves_the_rest_readable() {
        let body = br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",
            "operation":"CREATE","object":{"spec": 5}}}"#;
        let request: Request<'_, String> = Request::read(body).unwrap();
        assert_eq!(request.subject.uid, "u-1");
        assert!(
            request
                .object
                .unwrap_err()
                .to_string()
                .contains("invalid type: map")
        );
    }

    #[test]
    fn reads_a_request() {
        let body = br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",
            "resource":{"group":"fleet.cattle.io","version":"v1alpha1","resource":"helmops"},"name":"web",
            "operation":"UPDATE","object":{"spec": 5},"oldObject":null,"dryRun":true}}"#;
        let request: Request<'_, Value> = Request::read(body).unwrap();
        let subject = &request.subject;
        assert_eq!(
            (&*subject.uid, &*subject.name, subject.operation),
            ("u-1", "web", Operation::Update)
        );
        assert_eq!(request.object.unwrap(), Some(json!({ "spec": 5 })));
        assert!(request.old_object.is_none() && subject.is_helmop());
    }

    #[test]
    fn has_no_opinion_on_anything_else() {
        for (operation, resource, sub_resource, ours) in [
            ("CREATE", "helmops", "", true),
            ("DELETE", "helmops", "", false),
            ("UPDATE", "helmops", "status", false),
            ("CREATE", "bundles", "", false),
        ] {
            let body = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
                "uid": "u", "operation": operation, "subResource": sub_resource,
                "resource": { "group": "fleet.cattle.io", "resource": resource },
            }});
            let body = body.to_string();
            assert_eq!(
                Request::<Value>::read(body.as_bytes())
                    .unwrap()
                    .subject
                    .is_helmop(),
                ours,
                "{operation} {resource}"
            );
        }
    }

    #[test]
    fn what_cannot_be_answered_is_told() {
        let told = |body: &str| Request::<Value>::read(body.as_bytes()).unwrap_err().to_string();
        assert!(told("<html>").starts_with("the body is not an AdmissionReview"));
        assert!(told("{}").contains("admissionReviewVersions"));
        let v1beta1 =
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}"#;
        assert!(Request::<Value>::read(v1beta1.as_bytes()).is_err());
        assert!(
            told(r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#).contains("no request")
        );
    }

    #[test]
    fn a_patch_goes_out_in_base64() {
        let patch = json!([{ "op": "add", "path": "/spec/a", "value": 1 }]);
        let answer = AdmissionResponse {
            patch: serde_json::from_value(patch.clone()).unwrap(),
            ..AdmissionResponse::default()
        };
        let reply: Value = serde_json::from_slice(&answer.write("u-1").unwrap()).unwrap();
        assert_eq!(reply["response"]["uid"], "u-1");
        assert_eq!(reply["response"]["patchType"], "JSONPatch");
        let sent = BASE64_STANDARD
            .decode(reply["response"]["patch"].as_str().unwrap())
            .unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), patch);
    }
}
