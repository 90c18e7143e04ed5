//! The bodies of requests: one reader for each type of Receiver.
//!
//! A reader takes what it needs from the documented payload, and ignores the rest: registries add fields. It accepts a request about
//! something else, such as a pull or a deletion, and announces nothing then.

mod acr;
mod bitbucket;
mod bounded;
mod cdevents;
mod distribution;
mod docker_hub;
mod gcr;
mod generic;
mod gitea;
mod github;
mod gitlab;
mod harbor;
mod nexus;
mod quay;

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{headers::Headers, receiver_type::ReceiverType, repository::Announcement};

/// Why a body cannot be read. The messages contain nothing of it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BodyError {
    /// Not JSON of the documented form.
    #[error("the body is not the JSON that this type of Receiver documents")]
    Json,
    /// A field is missing.
    #[error("the body lacks the field {0}")]
    Missing(&'static str),
    /// The name of a repository is none.
    #[error("the field {0} is not the name of a repository")]
    Repository(&'static str),
    /// A header is missing.
    #[error("the header {0} is missing")]
    Header(&'static str),
}

/// What a request announces. `events` are those of the spec of the Receiver.
///
/// # Errors
/// If the body does not have the form of this type.
pub fn announcements(
    receiver_type: ReceiverType,
    events: &[String],
    headers: &Headers<'_>,
    body: &[u8],
) -> Result<Vec<Announcement>, BodyError> {
    use ReceiverType as T;
    match receiver_type {
        T::Harbor => harbor::read(body),
        T::DockerHub => docker_hub::read(body),
        T::Quay => quay::read(body),
        T::GitHub => github::read(events, headers, body),
        T::GitLab => gitlab::read(events, headers, body),
        T::Gitea => gitea::read(headers, body),
        T::Bitbucket => bitbucket::read(headers, body),
        T::Nexus => nexus::read(body),
        T::Acr => acr::read(body),
        T::Gcr => gcr::read(body),
        T::CdEvents => cdevents::read(events, headers, body),
        T::Distribution => distribution::read(body),
        T::Generic | T::GenericHmac => generic::read(body),
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(|_| BodyError::Json)
}

/// One announcement, or the error that `field` names no repository.
fn one(announcement: Option<Announcement>, field: &'static str) -> Result<Vec<Announcement>, BodyError> {
    announcement
        .map(|announcement| vec![announcement])
        .ok_or(BodyError::Repository(field))
}

#[cfg(test)]
mod tests;
