//! What the response of the API server says of a failure.

use helmops_release::{object::ObjectId, record::SECRET_PREFIX, report::ConflictingField};
use kube::core::{Status, response::StatusCause};

use super::FailureReason::{
    self, ChangedMeanwhile, Conflict, Forbidden, NamespaceMissing, NamespaceTerminating, ObjectInvalid,
    ReleaseTooLarge, Unauthorized, Unknown, Unreachable,
};

/// Maximum number of fields that are kept.
const MAX_FIELDS: usize = 100;

/// The cause of a conflict with another field manager.
const FIELD_MANAGER: &str = "FieldManagerConflict";
/// The cause of a refusal in a namespace that is being deleted.
const TERMINATING: &str = "NamespaceTerminating";
/// The cause of a value that is too long.
const TOO_LONG: &str = "FieldValueTooLong";

/// The reason of a response.
pub(super) fn reason(response: &Status) -> FailureReason {
    let has = |cause| causes(response, cause).next().is_some();
    let details = response.details.as_ref();
    let is_record = || details.is_some_and(|details| details.name.starts_with(SECRET_PREFIX));
    match response.code {
        401 => Unauthorized,
        403 if has(TERMINATING) => NamespaceTerminating,
        403 => Forbidden,
        404 if details.is_some_and(|details| details.kind == "namespaces") => NamespaceMissing,
        409 if has(FIELD_MANAGER) => Conflict,
        409 if response.reason == "Conflict" => ChangedMeanwhile,
        413 => ReleaseTooLarge,
        422 if has(TOO_LONG) && is_record() => ReleaseTooLarge,
        422 => ObjectInvalid,
        429 | 502..=504 => Unreachable,
        _ => Unknown,
    }
}

/// The object of a response that finds it invalid. It does not name the version.
pub(super) fn object(response: &Status) -> Option<ObjectId> {
    let details = response.details.as_ref().filter(|_| response.code == 422)?;
    if details.kind.is_empty() {
        return None;
    }
    let group = &details.group;
    Some(ObjectId {
        api_version: if group.is_empty() {
            String::new()
        } else {
            format!("{group}/")
        },
        kind: details.kind.clone(),
        namespace: String::new(),
        name: details.name.clone(),
    })
}

/// The fields that other managers own.
pub(super) fn conflicts(response: &Status) -> Vec<ConflictingField> {
    let fields = causes(response, FIELD_MANAGER).map(|cause| ConflictingField {
        path: cause.field.clone(),
        // `conflict with "kubectl" with subresource "scale" using apps/v1`
        manager: cause.message.split('"').nth(1).unwrap_or_default().to_owned(),
    });
    let mut fields: Vec<_> = fields.take(MAX_FIELDS).collect();
    // The API server gives them in any order, and the same error must have the same text.
    fields.sort_by(|field, other| field.manager.cmp(&other.manager));
    fields
}

fn causes<'r>(response: &'r Status, of: &'r str) -> impl Iterator<Item = &'r StatusCause> {
    let all = response.details.iter().flat_map(|details| &details.causes);
    all.filter(move |cause| cause.reason == of)
}
