//! Watches: pages of their lists, their backoff and errors, and kinds whose CRD may not be installed.
//!
//! ```text
//! watcher ─► with_backoff ─► without_absent ──┬─► without_errors ─► the events that a cache applies
//!                          or empty_if_absent ┘
//! ```

use std::{
    fmt,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use helmops_process::{FailureLog, OnChange, exit::with_causes};
use kube::{Api, Resource, runtime::watcher};
use serde::de::DeserializeOwned;

pub use self::retry::is_unreachable;
use self::retry::{Failure, with_pauses};
use crate::cache::{Cache, Fold};

mod retry;

/// Objects per page of a list. An object can have 1.5 MB, and a page is in memory three times while it is decoded: this number
/// fits into the memory limit in the manifests.
const PAGE: u32 = 32;

/// All errors of an outage are one error in the log.
const OUTAGE: &str = "outage";

/// An event of a watch, or its error.
pub type WatchResult<K> = watcher::Result<watcher::Event<K>>;

/// The events of a watch that never ends: its lists have pages, it waits after errors, and the beginning and the end of a failure are logged.
pub fn watch<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Event<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    without_errors(&K::kind(&()), watch_results(api, config))
}

/// The same, with its errors.
pub fn watch_results<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = WatchResult<K>> + Send + use<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Send + Sync,
{
    with_backoff(unpaused(api, config))
}

/// The same, without pauses after errors: for what comes before [`with_backoff`].
#[expect(clippy::disallowed_methods, reason = "this sets the page size of all others")]
pub fn unpaused<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = WatchResult<K>> + Send + use<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Send + Sync,
{
    let page = config.page_size.map_or(PAGE, |page| page.min(PAGE));
    watcher(api, config.page_size(page))
}

/// The events of a watch, with pauses after errors.
///
/// The event that starts a list arrives with the first success of the list: by itself it is none. If it counted as one, the backoff would
/// be reset each time, and a list that fails would be sent every second for as long as it fails.
pub fn with_backoff<K: Send>(
    events: impl Stream<Item = WatchResult<K>> + Send,
) -> impl Stream<Item = WatchResult<K>> + Send {
    let has_started = Arc::new(AtomicBool::new(false));
    let starts = Arc::clone(&has_started);
    let events = events.try_filter(move |event| {
        let is_start = matches!(event, watcher::Event::Init);
        starts.fetch_or(is_start, Ordering::Relaxed);
        ready(!is_start)
    });
    with_pauses(events).flat_map(move |event| {
        let is_first = event.is_ok() && has_started.swap(false, Ordering::Relaxed);
        let start = is_first.then_some(Ok(watcher::Event::Init));
        stream::iter(start.into_iter().chain([event]))
    })
}

/// One object, each time that it changes, and `None` while it does not exist. The watch never ends: it waits after errors, and the
/// beginning and the end of a failure are logged.
pub fn watch_one<K>(api: Api<K>, name: &str) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    let mut errors = ErrorLog::new(format!("{} {name}", K::kind(&())));
    let results = with_pauses(watcher::watch_object(api, name));
    results.filter_map(move |result| {
        ready(match result {
            Ok(object) => {
                errors.succeeded();
                Some(object)
            }
            Err(error) => {
                errors.failed(&error);
                None
            }
        })
    })
}

/// The events of a watch of a kind that the API server may not have: the cache is not waited for then. `consequence` is logged.
pub fn without_absent<K, V, F, S>(
    kind: &str,
    consequence: &'static str,
    cache: &Cache<V, F>,
    events: S,
) -> impl Stream<Item = WatchResult<K>> + use<K, V, F, S>
where
    S: Stream<Item = WatchResult<K>>,
    V: Clone,
    F: Fold<V>,
{
    let (kind, cache) = (kind.to_string(), cache.clone());
    events.map(move |event| match event {
        Err(error) if is_absent(&error) => {
            if cache.mark_absent() {
                tracing::info!(kind, "the API server does not have this kind; {consequence}");
            }
            Ok(watcher::Event::Init)
        }
        event => event,
    })
}

/// The events of a watch of a kind that the API server may not have: its list is empty then. `consequence` is logged.
///
/// Unlike with [`without_absent`], objects that were known are gone when the CRD is deleted, and the kind counts as listed.
pub fn empty_if_absent<K, S>(
    kind: &str,
    consequence: &'static str,
    events: S,
) -> impl Stream<Item = WatchResult<K>> + use<K, S>
where
    S: Stream<Item = WatchResult<K>>,
{
    let kind = kind.to_string();
    let mut was_absent = OnChange::default();
    events.flat_map(move |event| {
        let is_absent = event.as_ref().is_err_and(is_absent);
        if was_absent.record(is_absent) && is_absent {
            tracing::info!(kind, "the API server does not have this kind; {consequence}");
        }
        let (event, end) = if is_absent {
            (Ok(watcher::Event::Init), Some(Ok(watcher::Event::InitDone)))
        } else {
            (event, None)
        };
        stream::iter([event].into_iter().chain(end))
    })
}

/// Whether the CRD is not installed: the API server responds with 404. An API server that has not loaded its CRDs yet
/// responds with another error.
fn is_absent(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    )
}

/// The events of a watch without its errors: the beginning and the end of a failure are logged, and the list starts again.
pub fn without_errors<K, S>(kind: &str, events: S) -> impl Stream<Item = watcher::Event<K>> + use<K, S>
where
    S: Stream<Item = WatchResult<K>>,
{
    let mut errors = ErrorLog::new(kind.to_string());
    events.map(move |event| match event {
        // The start of a list is no success yet.
        Ok(watcher::Event::Init) => watcher::Event::Init,
        Ok(event) => {
            errors.succeeded();
            event
        }
        Err(error) => {
            errors.failed(&error);
            watcher::Event::Init
        }
    })
}

/// Logs a failure of a watch when it begins and when it ends, however often the watch is repeated meanwhile.
struct ErrorLog {
    /// What is watched.
    kind: String,
    failures: FailureLog,
}

impl ErrorLog {
    fn new(kind: String) -> Self {
        Self {
            kind,
            failures: FailureLog::default(),
        }
    }

    fn succeeded(&mut self) {
        if let Some(lasted) = self.failures.succeeded() {
            let (kind, seconds) = (&self.kind, lasted.as_secs());
            tracing::info!(kind, seconds, "watch works again");
        }
    }

    fn failed(&mut self, error: &watcher::Error) {
        let failure = Failure::of(error);
        let (kind, error) = (&self.kind, with_causes(error));
        // In one outage connections are reset, refused and time out.
        let distinct = if failure == Failure::Outage {
            OUTAGE
        } else {
            &error
        };
        if failure == Failure::Expired {
            tracing::debug!(kind, error, "watch is too far behind; listing again");
        } else if self.failures.failed(distinct) {
            tracing::warn!(kind, error, "watch failed; repeating it until it works");
        } else {
            tracing::debug!(kind, error, "watch still fails");
        }
    }
}

#[cfg(test)]
mod tests;
