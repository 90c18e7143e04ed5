//! Watches: pages of their lists, their errors, and kinds whose CRD may not be installed.

use std::future::ready;

use futures::{Stream, StreamExt, TryStreamExt};
use helmops_process::{OnChange, exit::with_causes};
use kube::{
    Resource,
    runtime::{WatchStreamExt, watcher},
};

/// Objects per page of a list. An object can have 1.5 MB, and a page is in memory three times while it is decoded: this number
/// fits into the memory limit in the manifests.
const PAGE: u32 = 32;

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

/// Sets the page size of lists.
pub fn paged(config: watcher::Config) -> watcher::Config {
    config.page_size(PAGE)
}

/// The events of a watch without its errors: each is logged when it is new, and the list starts again after it.
pub fn log_errors<K: Resource<DynamicType = ()>>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> impl Stream<Item = watcher::Event<K>> {
    let mut failing = OnChange::default();
    events.map(move |event| match event {
        // The start of a list is no success yet.
        Ok(watcher::Event::Init) => watcher::Event::Init,
        Ok(event) => {
            failing.record(None);
            event
        }
        Err(error) => {
            let (kind, error) = (K::kind(&()), with_causes(&error));
            if failing.record(Some(error.clone())) {
                tracing::warn!(%kind, error, "watch failed; restarting");
            } else {
                tracing::debug!(%kind, error, "watch still fails");
            }
            watcher::Event::Init
        }
    })
}

#[cfg(test)]
mod tests {
    use helmops_api::{Decoded, HelmOp};
    use watcher::Event;

    use super::*;

    #[tokio::test]
    async fn an_error_restarts_the_list_and_ends_no_watch() {
        let error = || Err(watcher::Error::NoResourceVersion);
        let events = [error(), Ok(Event::Init), error(), Ok(Event::InitDone)];
        let events = futures::stream::iter(events).chain(futures::stream::iter([error()]));
        let events: Vec<Event<Decoded<HelmOp>>> = log_errors(events).collect().await;
        let is_start = events.iter().map(|event| matches!(event, Event::Init));
        assert_eq!(is_start.collect::<Vec<_>>(), [true, true, true, false, true]);
    }
}
