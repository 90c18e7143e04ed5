//! What a person needs to know of a request that failed.

use std::fmt;

use crate::failure::{Failure, causes};

/// The failure of a request, with what was attempted and on which object.
pub fn failed(attempt: impl fmt::Display, error: &kube::Error) -> Failure {
    let failure = Failure::unable(format!("{attempt}: {}", text(error)));
    match code(error) {
        Some(401) => failure.with_hint("your credentials are invalid or have expired; log in again"),
        Some(403) => {
            failure.with_hint("your user lacks this permission; show who you are with: kubectl auth whoami")
        }
        _ => failure,
    }
}

/// The message of the API server, or why there is none.
pub fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => status.reason.clone(),
        kube::Error::Api(status) => status.message.clone(),
        other => causes(other),
    }
}

/// Whether there is no such object, or no such kind of objects.
pub fn is_not_found(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

/// Whether the user may not do this.
pub fn is_forbidden(error: &kube::Error) -> bool {
    code(error) == Some(403)
}

/// Whether another client has changed the object, or owns a field of it.
pub fn is_conflict(error: &kube::Error) -> bool {
    code(error) == Some(409)
}

/// The HTTP status code of a response.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
