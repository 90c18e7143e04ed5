//! Calls of the API server, and their errors without the content of objects.

use std::time::Duration;

use helmops_process::exit::with_causes;
use kube::core::Status;
use kube::runtime::watcher;
use thiserror::Error;
use tokio::time::timeout;

/// The field manager of all writes.
pub(crate) const FIELD_MANAGER: &str = "helmops-certs";

/// Longest time for one call. It delays no handshake: the loaded certificate is served meanwhile.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Why a call failed.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    /// The object was changed or created meanwhile: read it again.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// Any other error; never with the content of an object.
    #[error("{0}")]
    Failed(String),
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 409 => Self::Conflict,
            error => Self::Failed(describe(error)),
        }
    }
}

/// Bounds a call, which the client itself does not.
pub(crate) async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match timeout(DEADLINE, call).await {
        Ok(response) => Ok(response?),
        Err(_) => Err(CallError::Failed(format!(
            "the API server did not respond within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

/// Describes an error without the content of the object, which may be a key.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => describe_status(status),
        // A decoder quotes the text that it rejects.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => "the response cannot be decoded".to_owned(),
        error => with_causes(error),
    }
}

fn describe_status(status: &Status) -> String {
    let hint = match status.code {
        403 => "; the permissions are in manifests/base/rbac.yaml",
        _ => "",
    };
    format!(
        "the API server returned {}: {}{hint}",
        status.code, status.message
    )
}

/// Describes an error of a watch, without the content of the object.
pub(crate) fn describe_watch_error(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => describe(error),
        WatchError(status) => describe_status(status),
        NoResourceVersion => "the response has no resource version".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "Reason").with_code(code).boxed())
    }

    #[test]
    fn an_error_names_the_fix_and_never_the_content_of_an_object() {
        assert!(matches!(CallError::from(api(409, "exists")), CallError::Conflict));
        let forbidden = CallError::from(api(403, "may not")).to_string();
        assert_eq!(
            forbidden,
            "the API server returned 403: may not; the permissions are in manifests/base/rbac.yaml"
        );
        let undecodable = serde_json::from_str::<u8>("\"PRIVATE\"").unwrap_err();
        assert!(
            undecodable.to_string().contains("PRIVATE"),
            "the decoder quotes the content"
        );
        let error = watcher::Error::WatchFailed(kube::Error::SerdeError(undecodable));
        assert_eq!(describe_watch_error(&error), "the response cannot be decoded");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_response_times_out() {
        let error = bounded(std::future::pending::<kube::Result<()>>())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "the API server did not respond within 10 s");
    }
}
