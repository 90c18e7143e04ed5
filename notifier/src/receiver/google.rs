//! The public keys of Google, which verify the requests of Pub/Sub. The exposed process has no connection to the internet, so they are
//! fetched here.
//!
//! Without keys, the exposed process refuses all requests to Receivers of type `gcr`. Keys that were fetched once stay until others
//! replace them: Google publishes a key days before it is used, so an outage of some hours refuses nothing.

use std::{sync::Arc, time::Duration};

use helmops_fetch::{PostError, Poster};
use helmops_model::{condition::ConditionState, reason::Reason};
use helmops_notify::push::{GoogleKeys, KeysError, ReceiverType};
use helmops_process::OnChange;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{context::Context, published::PublishError};

/// How often the keys are fetched. Google publishes a key days before it is used.
const INTERVAL: Duration = Duration::from_hours(1);

/// The delay after a failed fetch.
const RETRY: Duration = Duration::from_mins(1);

/// How often to see whether a Receiver needs them.
const CHECK: Duration = Duration::from_secs(5);

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why there are no new keys.
#[derive(Debug, Error)]
pub enum GoogleKeysError {
    /// The keys cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] PostError),
    /// The response has none.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The keys cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// Keeps the keys up to date while a Receiver needs them and this replica is the leader, until `stop`.
pub async fn keep(context: Arc<Context>, url: Url, stop: CancellationToken) {
    let mut next = Instant::now();
    let mut is_published = false;
    let mut logged = OnChange::default();
    while stop.run_until_cancelled(sleep(CHECK)).await.is_some() {
        if context.leadership.remaining().is_none() || !is_needed(&context) {
            continue;
        }
        // Someone may have deleted the Secret.
        let are_lost = is_published && !context.published.has_google_keys();
        if Instant::now() < next && !are_lost {
            continue;
        }
        let Some(result) = stop.run_until_cancelled(publish(&context, &url)).await else {
            return;
        };
        is_published = result.is_ok();
        next = Instant::now() + if is_published { INTERVAL } else { RETRY };
        let error = result.err().map(|error| error.to_string());
        if logged.record(error.clone())
            && let Some(error) = error
        {
            tracing::warn!(%url, error, "cannot publish the keys of Google; Receivers of type gcr accept no newer keys, and nothing without keys");
        }
    }
}

fn is_needed(context: &Context) -> bool {
    context.stores.receivers.read(|receivers, ()| {
        let mut receivers = receivers.iter().filter_map(|(_, receiver)| receiver.valid());
        receivers.any(|receiver| receiver.spec.r#type == ReceiverType::Gcr.as_str())
    })
}

/// Fetches and publishes the keys once, and remembers whether that has failed.
async fn publish(context: &Context, url: &Url) -> Result<(), GoogleKeysError> {
    let result = replace(context, url).await;
    context.metrics.fetched_google_keys(result.is_ok());
    let error = result.as_ref().err().map(ToString::to_string);
    context.published.set_google_error(error);
    result
}

async fn replace(context: &Context, url: &Url) -> Result<(), GoogleKeysError> {
    let keys = fetch(&context.poster, url).await?;
    Ok(context.published.set_google_keys(&keys).await?)
}

/// Fetches the keys. Others would replace keys that work.
async fn fetch(poster: &Poster, url: &Url) -> Result<Vec<u8>, GoogleKeysError> {
    let keys = poster.get(url.clone(), TIMEOUT).await?;
    GoogleKeys::parse(&keys)?;
    Ok(keys)
}

/// The condition of a Receiver that needs the keys and accepts requests otherwise.
pub fn condition(has_keys: bool, error: Option<String>) -> ConditionState {
    const FIX: &str = "check --google-keys-url of the notifier, and its connection to that host";
    match (has_keys, error) {
        (true, None) => ConditionState::True(Reason::Accepted),
        (true, Some(error)) => ConditionState::TrueWithMessage(
            Reason::Accepted,
            format!(
                "the keys of Google cannot be fetched: {error}; requests that are signed with a key that is newer than the last fetch are \
                 refused; {FIX}"
            ),
        ),
        (false, None) => ConditionState::False(
            Reason::GoogleKeysNotFetched,
            "the keys of Google are not fetched yet; requests are refused with 401 until they are".to_owned(),
        ),
        (false, Some(error)) => ConditionState::False(
            Reason::GoogleKeysNotFetched,
            format!(
                "the keys of Google cannot be fetched: {error}; all requests are refused with 401; {FIX}"
            ),
        ),
    }
}

#[cfg(test)]
mod tests;
