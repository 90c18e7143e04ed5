//! Calls of the API server.

use std::time::Duration;

/// Longest time for one call, the client's own retries included; a watch has its own.
const DEADLINE: Duration = Duration::from_secs(30);

/// The API server did not answer in time, or refused.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No answer.
    #[error("the API server did not answer within {} s", DEADLINE.as_secs())]
    Timeout,
    /// An answer that is an error, or no connection.
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

impl ApiError {
    /// Whether the object was changed by somebody else meanwhile, so that it must be looked at again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.code == 409)
    }

    /// Whether an object of the name exists already.
    pub fn exists_already(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.reason == "AlreadyExists")
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.code == 404)
    }
}

/// Bounds a call, which the client itself does not.
///
/// # Errors
/// Those of the call, and a timeout.
pub async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ApiError::Timeout),
    }
}
