//! Calls of the API server, and what can be said of those that fail.

use std::time::Duration;

use helmops_shared::runtime::exit::with_causes;
use kube::core::Status;
use kube::runtime::watcher;
use thiserror::Error;
use tokio::time::timeout;

/// Whose fields these are.
pub(crate) const FIELD_MANAGER: &str = "helmops-certs";

/// Longest time for one call. It holds nobody up: what is loaded is served meanwhile.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Why a call did not do what it should.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// Somebody else was quicker: look again.
    #[error("somebody else was quicker")]
    Overtaken,
    /// It failed; never with what an object holds.
    #[error("{0}")]
    Failed(String),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 409 => Self::Overtaken,
            error => Self::Failed(told(error)),
        }
    }
}

/// Bounds a call, which the client itself does not.
pub(crate) async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match timeout(DEADLINE, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Failed(format!(
            "the API server did not answer within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

/// What can be said of an error about an object that may hold a key.
fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => told_by_server(status),
        // A decoder quotes what it does not understand.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => "the answer does not decode".to_owned(),
        error => with_causes(error),
    }
}

fn told_by_server(status: &Status) -> String {
    let hint = match status.code {
        403 => "; the rights are in manifests/base/rbac.yaml",
        _ => "",
    };
    format!("the API server says {}: {}{hint}", status.code, status.message)
}

/// The same for a watch.
pub(crate) fn told_of_watch(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => told(error),
        WatchError(status) => told_by_server(status),
        NoResourceVersion => "the answer has no resource version".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "Reason").with_code(code).boxed())
    }

    #[test]
    fn a_failure_says_what_to_do_and_never_what_an_object_holds() {
        assert!(matches!(Failure::from(api(409, "exists")), Failure::Overtaken));
        let forbidden = Failure::from(api(403, "may not")).to_string();
        assert_eq!(
            forbidden,
            "the API server says 403: may not; the rights are in manifests/base/rbac.yaml"
        );
        let odd = serde_json::from_str::<u8>("\"PRIVATE\"").unwrap_err();
        assert!(odd.to_string().contains("PRIVATE"), "the reason for this");
        let odd = watcher::Error::WatchFailed(kube::Error::SerdeError(odd));
        assert_eq!(told_of_watch(&odd), "the answer does not decode");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_is_given_up() {
        let failure = bounded(std::future::pending::<kube::Result<()>>())
            .await
            .unwrap_err();
        assert_eq!(failure.to_string(), "the API server did not answer within 10 s");
    }
}
