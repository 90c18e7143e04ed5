//! AdmissionReview (`admission.k8s.io/v1`): the request of the API server, and the response to it.
//!
//! These are not the types of `kube`, because every response must have the uid of the request, even if the object does not
//! decode, and because the stored object stays JSON text until a rule needs it.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use json_patch::Patch;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::bounded_json;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Why a body gets no AdmissionReview as response: it has no uid.
#[derive(Debug, Error)]
pub enum ReviewError {
    /// Not an AdmissionReview.
    #[error("the body is not an AdmissionReview: {0}")]
    Malformed(#[source] serde_json::Error),
    /// An AdmissionReview of another version.
    #[error(
        "this webhook supports AdmissionReview of admission.k8s.io/v1, not {kind} of {api_version}; set admissionReviewVersions: [v1]"
    )]
    UnsupportedVersion {
        /// The version that was sent.
        api_version: String,
        /// The kind that was sent.
        kind: String,
    },
    /// An AdmissionReview without a request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// An admission request for an object of type `T`.
#[derive(Debug)]
pub struct AdmissionRequest<'a, T> {
    /// The metadata of the request.
    pub info: RequestInfo<'a>,
    /// The object as it would be stored, or why it does not decode.
    pub object: Result<Option<T>, serde_json::Error>,
    /// The object as it is stored now, not decoded.
    pub old_object: Option<&'a RawValue>,
}

/// The metadata of an admission request.
#[derive(Debug)]
pub struct RequestInfo<'a> {
    /// Identifies the request. The response must repeat it.
    pub uid: Cow<'a, str>,
    pub operation: Operation,
    /// The resource of the object.
    pub resource: GroupResource<'a>,
    /// The subresource, such as `status`; empty for the object itself.
    pub sub_resource: Cow<'a, str>,
    /// Name of the object; empty if the API server generates it later.
    pub name: Cow<'a, str>,
    /// Namespace of the object.
    pub namespace: Cow<'a, str>,
    /// Whether the object is not stored.
    pub is_dry_run: bool,
}

/// The operation on an object.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// Any other operation, which this webhook always allows.
    #[serde(other)]
    Other,
}

/// A resource of the API.
#[derive(Debug, Default, Deserialize)]
pub struct GroupResource<'a> {
    /// API group.
    #[serde(default, borrow)]
    pub group: Cow<'a, str>,
    /// Plural name.
    #[serde(default, borrow)]
    pub resource: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct AdmissionReview<'a, T> {
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
    resource: GroupResource<'a>,
    #[serde(default, borrow)]
    sub_resource: Cow<'a, str>,
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    namespace: Cow<'a, str>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default = "Option::default")]
    object: Option<T>,
    #[serde(default, borrow)]
    old_object: Option<&'a RawValue>,
}

impl<'a, T> AdmissionRequest<'a, T> {
    /// The object that an update replaces; `None` for other operations.
    pub fn replaced(&self) -> Option<&'a RawValue> {
        self.old_object
            .filter(|_| self.info.operation == Operation::Update)
    }
}

impl<'a, T: Deserialize<'a>> AdmissionRequest<'a, T> {
    /// Decodes a body, in one pass unless the object does not decode.
    ///
    /// # Errors
    /// If the body is not an AdmissionReview of v1 with a request.
    pub fn decode(body: &'a [u8]) -> Result<Self, ReviewError> {
        match bounded_json::from_slice::<AdmissionReview<'_, T>>(body) {
            Ok(review) => Self::from_review(review, Ok),
            Err(error) => {
                let review: AdmissionReview<'_, IgnoredAny> =
                    serde_json::from_slice(body).map_err(ReviewError::Malformed)?;
                Self::from_review(review, |_| Err(error))
            }
        }
    }

    fn from_review<O>(
        review: AdmissionReview<'a, O>,
        object: impl FnOnce(Option<O>) -> Result<Option<T>, serde_json::Error>,
    ) -> Result<Self, ReviewError> {
        if review.api_version != API_VERSION || review.kind != KIND {
            let (api_version, kind) = (review.api_version.into_owned(), review.kind.into_owned());
            return Err(ReviewError::UnsupportedVersion { api_version, kind });
        }
        let request = review.request.ok_or(ReviewError::NoRequest)?;
        Ok(Self {
            info: RequestInfo {
                uid: request.uid,
                operation: request.operation,
                resource: request.resource,
                sub_resource: request.sub_resource,
                name: request.name,
                namespace: request.namespace,
                is_dry_run: request.dry_run == Some(true),
            },
            object: object(request.object),
            old_object: request.old_object,
        })
    }
}

impl RequestInfo<'_> {
    /// Whether a HelmOp is created or updated. All other requests are allowed, even if the webhook configuration sends them.
    pub fn is_helmop(&self) -> bool {
        self.resource.group == "fleet.cattle.io"
            && self.resource.resource == "helmops"
            && self.sub_resource.is_empty()
            && self.operation != Operation::Other
    }
}

/// The response to an admission request.
#[derive(Debug, Default)]
pub struct AdmissionResponse {
    /// Why the request is denied; `None` to allow it.
    pub denial: Option<Status>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The defaults that are set.
    pub patch: Option<Patch>,
}

impl AdmissionResponse {
    /// Encodes an AdmissionReview with this response to the request with this `uid`.
    ///
    /// # Errors
    /// Never in practice: strings and JSON values always serialize.
    pub fn encode(&self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let patch = self.patch.as_ref().map(serde_json::to_vec).transpose()?;
        serde_json::to_vec(&AdmissionReviewResponse {
            api_version: API_VERSION,
            kind: KIND,
            response: WireResponse {
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
struct AdmissionReviewResponse<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: WireResponse<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse<'a> {
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

/// Why a change is denied, as a `Status` of the API.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the API's")]
pub struct Status {
    /// Always `Failure`.
    pub status: &'static str,
    /// All causes in one text.
    pub message: String,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// HTTP status code.
    pub code: u16,
    /// The object and the causes, from which kubectl builds its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// The object that is denied, and a cause for each invalid field.
#[derive(Debug, Serialize)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group of the object.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// One for each field.
    pub causes: Vec<Cause>,
}

/// The error of a field.
#[derive(Debug, Serialize)]
pub struct Cause {
    /// Machine-readable type of the error.
    pub reason: &'static str,
    /// The invalid value, the error and the fix.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_request_decodes_even_if_its_object_does_not() {
        let body = br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",
            "operation":"CREATE","object":{"spec": 5}}}"#;
        let request: AdmissionRequest<'_, String> = AdmissionRequest::decode(body).unwrap();
        assert_eq!(request.info.uid, "u-1");
        assert!(
            request
                .object
                .unwrap_err()
                .to_string()
                .contains("invalid type: map")
        );
    }

    #[test]
    fn a_request_is_decoded() {
        let body = br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",
            "resource":{"group":"fleet.cattle.io","version":"v1alpha1","resource":"helmops"},"name":"web",
            "operation":"UPDATE","object":{"spec": 5},"oldObject":null,"dryRun":true}}"#;
        let request: AdmissionRequest<'_, Value> = AdmissionRequest::decode(body).unwrap();
        let info = &request.info;
        assert_eq!(
            (&*info.uid, &*info.name, info.operation),
            ("u-1", "web", Operation::Update)
        );
        assert_eq!(request.object.unwrap(), Some(json!({ "spec": 5 })));
        assert!(request.old_object.is_none() && info.is_helmop());
    }

    #[test]
    fn only_created_and_updated_helmops_are_checked() {
        for (operation, resource, sub_resource, is_checked) in [
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
                AdmissionRequest::<Value>::decode(body.as_bytes())
                    .unwrap()
                    .info
                    .is_helmop(),
                is_checked,
                "{operation} {resource}"
            );
        }
    }

    #[test]
    fn a_body_without_a_v1_request_is_an_error() {
        let error = |body: &str| {
            AdmissionRequest::<Value>::decode(body.as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert!(error("<html>").starts_with("the body is not an AdmissionReview"));
        assert!(error("{}").contains("admissionReviewVersions"));
        let v1beta1 =
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}"#;
        assert!(AdmissionRequest::<Value>::decode(v1beta1.as_bytes()).is_err());
        assert!(
            error(r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#).contains("no request")
        );
    }

    #[test]
    fn a_patch_is_encoded_in_base64() {
        let patch = json!([{ "op": "add", "path": "/spec/a", "value": 1 }]);
        let response = AdmissionResponse {
            patch: serde_json::from_value(patch.clone()).unwrap(),
            ..AdmissionResponse::default()
        };
        let review: Value = serde_json::from_slice(&response.encode("u-1").unwrap()).unwrap();
        assert_eq!(review["response"]["uid"], "u-1");
        assert_eq!(review["response"]["patchType"], "JSONPatch");
        let decoded = BASE64_STANDARD
            .decode(review["response"]["patch"].as_str().unwrap())
            .unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&decoded).unwrap(), patch);
    }
}
