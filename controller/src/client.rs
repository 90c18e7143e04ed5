//! Calls of the API server.

use std::time::Duration;

use anyhow::Context;
use kube::{Client, Config, client::ClientBuilder, core::Status};

use crate::lease::{Guard, Leadership, NotLeading};

/// Longest time for one call, the client's own retries included; a watch has its own.
const DEADLINE: Duration = Duration::from_secs(30);

/// A client for the election alone: with connections of its own, so that work never delays a renewal.
///
/// # Errors
/// Where the certificates of the configuration are not usable.
pub fn for_election(config: Config) -> anyhow::Result<Client> {
    Client::try_from(config).context(NO_CLIENT)
}

/// A client for work: it writes while this process leads, and reads at any time.
///
/// # Errors
/// Where the certificates of the configuration are not usable.
pub fn for_work(config: Config, leadership: Leadership) -> anyhow::Result<Client> {
    let builder = ClientBuilder::try_from(config).context(NO_CLIENT)?;
    Ok(builder.with_layer(&Guard(leadership)).build())
}

const NO_CLIENT: &str = "cannot make a client for the API server";

/// The API server did not answer in time, or refused.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No answer.
    #[error("the API server did not answer within {} s", DEADLINE.as_secs())]
    Timeout,
    /// Nothing was sent, or what was sent counts as lost: another replica leads.
    #[error(transparent)]
    NotLeading(NotLeading),
    /// An answer that is an error, or no connection.
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
        Self::Kube(error)
    }
}

impl ApiError {
    /// Whether the object was changed by somebody else meanwhile, so that it must be looked at again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.code == 409)
    }

    /// Whether the object is not one that the API server takes, or not in place of the one that it has.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.code == 422)
    }

    /// Whether an object of the name exists already.
    pub fn exists_already(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.reason == "AlreadyExists")
    }

    /// Whether nobody need be told: the object was changed by somebody else meanwhile, or is another replica's to write.
    pub fn is_benign(&self) -> bool {
        self.is_conflict() || matches!(self, Self::NotLeading(_))
    }

    /// What was there a moment ago is not any more.
    pub fn gone(name: &str) -> Self {
        let status = Status::failure(&format!("{name} has just gone"), "Conflict").with_code(409);
        Self::Kube(kube::Error::Api(status.boxed()))
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
