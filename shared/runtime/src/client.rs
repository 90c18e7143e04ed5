//! Clients for the API server, and the deadline and errors of its calls.

use std::{fmt, time::Duration};

use anyhow::Context;
use helmops_kube::{
    is_unreachable,
    lease::{Leadership, NotLeading},
};
use helmops_model::reason::Reason;
use kube::{Client, Config, core::Status};
use thiserror::Error;

use crate::error_class::{Class, Classified, ClassifiedError, classified};

/// Maximum time for one call, including the client's own retries. Watches have their own.
const DEADLINE: Duration = Duration::from_secs(30);

/// The reason of a response 500 about what the API server calls for a request, such as a webhook that it cannot reach: others may succeed.
const INTERNAL_ERROR: &str = "InternalError";

/// What etcd says of an object that is larger than its limit.
const ETCD_TOO_LARGE: &str = "etcdserver: request is too large";

/// A client for leader election only. It has its own connections, so reconciliations never delay a renewal.
///
/// # Errors
/// If the certificates of the configuration are unusable.
pub fn for_election(config: Config) -> anyhow::Result<Client> {
    helmops_kube::client(config, None).context(NO_CLIENT)
}

/// A client for reconciliations: it reads at any time, and writes only while this process is the leader.
///
/// # Errors
/// If the certificates of the configuration are unusable.
pub fn for_work(config: Config, leadership: Leadership) -> anyhow::Result<Client> {
    helmops_kube::client(config, Some(leadership)).context(NO_CLIENT)
}

const NO_CLIENT: &str = "cannot create a client for the API server";

/// A call of the API server failed.
#[derive(Debug, Error)]
pub enum ApiError {
    /// No response.
    #[error("the API server did not respond within {} s", DEADLINE.as_secs())]
    Timeout,
    /// The request was not sent, or its result counts as lost: another replica is the leader.
    #[error(transparent)]
    NotLeading(NotLeading),
    /// An error response.
    #[error("{}", rejection(.0))]
    Rejected(Box<Status>),
    /// No connection, or an invalid response.
    #[error(transparent)]
    Kube(kube::Error),
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Service(inner) = &error
            && let Some(not_leading) = inner.downcast_ref::<NotLeading>()
        {
            return Self::NotLeading(*not_leading);
        }
        match error {
            kube::Error::Api(status) => Self::Rejected(status),
            other => Self::Kube(other),
        }
    }
}

/// The message of the API server, without the other fields of its response: they repeat it, and can contain values of the object.
fn rejection(
    Status {
        message,
        reason,
        code,
        ..
    }: &Status,
) -> String {
    let text = if message.is_empty() { reason } else { message };
    format!("{text} ({code})")
}

impl ApiError {
    /// Whether another client has changed the object meanwhile, so that it must be read again.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// Whether the API server rejects the object, or rejects it as an update of the existing one.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(|status| status.code == 422)
    }

    /// Whether the same request is rejected until a user changes something: the object is malformed, too large or invalid, or an admission
    /// policy or webhook denies it. A response 403 is none: it also means that a namespace is being deleted, or that a quota is used up.
    pub fn is_permanent(&self) -> bool {
        self.status().is_some_and(|status| {
            // etcd has a limit of its own, which the API server reports as an internal error.
            matches!(status.code, 400 | 413 | 422) || status.message.contains(ETCD_TOO_LARGE)
        })
    }

    /// Whether an object with this name already exists.
    pub fn exists_already(&self) -> bool {
        self.status()
            .is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Whether the object does not exist. The response for a resource that does not exist is a text without this reason.
    pub fn is_missing_object(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "NotFound")
    }

    /// Whether the permission for the request is missing.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|status| status.code == 403)
    }

    /// Whether the API server, or a policy or webhook that it calls, rejects this request for its content: a repetition changes nothing.
    pub fn is_rejected(&self) -> bool {
        self.is_permanent() || self.is_forbidden()
    }

    /// Whether the API server or its etcd is away, so that nothing else works either: there was no response in time, or one that it
    /// cannot serve requests. Watches count the same as an outage, but for one response that concerns writes.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Timeout => true,
            Self::Kube(error) => is_unreachable(error),
            // It passes errors of etcd on as 500 without a reason.
            Self::Rejected(status) => status.code >= 500 && status.reason != INTERNAL_ERROR,
            Self::NotLeading(_) => false,
        }
    }

    /// Whether it is a response of the API server.
    pub fn is_response(&self) -> bool {
        self.status().is_some()
    }

    /// The error response.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Rejected(status) => Some(status),
            Self::Kube(_) | Self::Timeout | Self::NotLeading(_) => None,
        }
    }
}

impl ClassifiedError for ApiError {
    fn classify(&self) -> Classified {
        let class = if self.is_conflict() || matches!(self, Self::NotLeading(_)) {
            // Another client has changed the object, or another replica is the leader.
            Class::Conflict
        } else if self.is_permanent() {
            // No watch reports that a webhook, a policy or a CRD was corrected.
            Class::Absent
        } else if self.is_outage() {
            Class::Outage
        } else {
            Class::TRANSIENT
        };
        classified(Reason::APIError, class)
    }
}

/// A call of the API server that failed, and what it was for.
#[derive(Debug, Error)]
#[error("could not {operation} {object}: {source}")]
pub struct CallError {
    /// The operation, as a verb.
    operation: &'static str,
    object: String,
    source: ApiError,
}

impl CallError {
    /// Adds the operation (a verb) and the object to an error.
    pub fn of(operation: &'static str, object: impl fmt::Display) -> impl FnOnce(ApiError) -> Self {
        move |source| Self {
            operation,
            object: object.to_string(),
            source,
        }
    }

    /// See [`ApiError::is_conflict`].
    pub fn is_conflict(&self) -> bool {
        self.source.is_conflict()
    }

    /// See [`ApiError::is_rejected`].
    pub fn is_rejected(&self) -> bool {
        self.source.is_rejected()
    }

    /// See [`ApiError::is_forbidden`].
    pub fn is_forbidden(&self) -> bool {
        self.source.is_forbidden()
    }

    /// See [`ApiError::exists_already`].
    pub fn exists_already(&self) -> bool {
        self.source.exists_already()
    }
}

impl ClassifiedError for CallError {
    fn classify(&self) -> Classified {
        self.source.classify()
    }
}

/// Limits the time of a call. The client itself has no limit.
///
/// # Errors
/// The errors of the call, and a timeout.
pub async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ApiError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_the_guard_rejects_is_benign() {
        let rejected = ApiError::from(kube::Error::Service(NotLeading.into()));
        assert!(matches!(rejected, ApiError::NotLeading(_)) && rejected.is_benign());
        let failed = ApiError::from(kube::Error::Service("no connection".into()));
        assert!(failed.class() == Class::Outage && !failed.is_benign());
    }

    #[test]
    fn a_request_that_is_rejected_for_good_is_retried_slowly_and_not_transient() {
        let class = |code: u16, message: &str| {
            let status = Status::failure(message, "").with_code(code);
            ApiError::from(kube::Error::Api(status.boxed())).class()
        };
        for code in [400, 413, 422] {
            assert_eq!(class(code, "no"), Class::Absent, "{code}");
        }
        assert_eq!(class(500, "etcdserver: request is too large"), Class::Absent);
        for code in [401, 403, 404, 429] {
            assert_eq!(class(code, "no"), Class::TRANSIENT, "{code}");
        }
        assert_eq!(class(409, "no"), Class::Conflict);
    }

    #[test]
    fn an_outage_of_etcd_is_one_of_the_api_server() {
        let class = |code: u16, reason: &str, message: &str| {
            let status = Status::failure(message, reason).with_code(code);
            ApiError::from(kube::Error::Api(status.boxed())).class()
        };
        for message in ["etcdserver: request timed out", "etcdserver: no leader"] {
            assert_eq!(class(500, "", message), Class::Outage, "{message}");
        }
        for (code, reason) in [(502, ""), (503, "ServiceUnavailable"), (504, "Timeout")] {
            assert_eq!(class(code, reason, "no"), Class::Outage, "{code}");
        }
        assert_eq!(ApiError::Timeout.class(), Class::Outage);
        let webhook = "Internal error occurred: failed calling webhook \"example.com\": connection refused";
        assert_eq!(class(500, INTERNAL_ERROR, webhook), Class::TRANSIENT);
    }

    #[test]
    fn a_rejection_of_the_content_is_none_of_the_time() {
        let rejected = |code| {
            ApiError::from(kube::Error::Api(
                Status::failure("m", "r").with_code(code).boxed(),
            ))
        };
        for (code, expected) in [
            (400, true),
            (403, true),
            (422, true),
            (401, false),
            (404, false),
            (409, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            assert_eq!(rejected(code).is_rejected(), expected, "{code}");
        }
        assert!(!ApiError::Timeout.is_rejected());
    }

    #[test]
    fn the_text_of_a_rejection_is_the_message_of_the_api_server() {
        let text = |status: Status| ApiError::from(kube::Error::Api(status.boxed())).to_string();
        let forbidden = Status::failure("namespaces \"shop\" is forbidden", "Forbidden").with_code(403);
        assert_eq!(text(forbidden), "namespaces \"shop\" is forbidden (403)");
        let without_message = Status::failure("", "Forbidden").with_code(403);
        assert_eq!(text(without_message), "Forbidden (403)");
    }
}
