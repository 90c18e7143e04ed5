//! Watches of kinds whose CRD may not be installed.

use std::future::ready;

use futures::{Stream, TryStreamExt};
use kube::runtime::{WatchStreamExt, watcher};

/// A watch with exponential backoff, for a kind whose CRD may not be installed.
///
/// It drops the event that starts a list, because that is not a success yet. If it counted as one, the backoff would be reset
/// each time, and a list that fails would be retried every second, forever if there is no CRD.
pub fn backoff_without_init<K: Send>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send {
    events
        .try_filter(|event| ready(!matches!(event, watcher::Event::Init)))
        .default_backoff()
}

/// Whether the CRD is not installed: the API server responds with 404. An API server that has not loaded its CRDs yet
/// responds with another error.
pub fn is_absent(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    )
}
