//! Watches of kinds that the cluster may not have.

use std::future::ready;

use futures::{Stream, TryStreamExt};
use kube::runtime::{WatchStreamExt, watcher};

/// A watch of a kind that the cluster may not have: it waits longer from failure to failure.
///
/// The beginning of a list is left out, since it is no success yet. If it counted as one, a list that fails were tried again
/// every second, for ever where there is no definition.
pub fn backoff_without_init<K: Send>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send {
    events
        .try_filter(|event| ready(!matches!(event, watcher::Event::Init)))
        .default_backoff()
}

/// Whether the cluster does not know the kind. While an API server has not found out yet, it does not say so.
pub fn is_absent(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    )
}
