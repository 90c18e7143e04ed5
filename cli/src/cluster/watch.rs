//! Changes of objects, until the command ends.

use futures::{Stream, StreamExt};
use helmops_api::Decoded;
use helmops_kube::watch_results;
use kube::runtime::watcher;

use super::{Cluster, objects::Object, request::Request, selection::Scope};
use crate::failure::Failure;

/// A change of an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It exists, and is new or has changed.
    Applied(Decoded<K>),
    Deleted(Decoded<K>),
    /// All objects are to follow: those that are not among them are deleted.
    Restarted,
    /// All objects have followed.
    Listed,
}

impl Cluster {
    /// Watches all objects that a selector of labels matches: first those that exist, then each change.
    ///
    /// A connection that ends is opened again, with backoff. The stream ends with a failure that will not pass: a permission or a CRD
    /// is missing.
    pub fn watch<'a, K: Object + Sync + 'static>(
        &'a self,
        scope: Scope<'a>,
        config: watcher::Config,
    ) -> impl Stream<Item = Result<Change<K>, Failure>> + 'a {
        let events = watch_results(self.api::<Decoded<K>>(scope), config);
        events
            .filter_map(move |event| {
                let change = match event {
                    Ok(watcher::Event::Init) => Some(Ok(Change::Restarted)),
                    Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                        Some(Ok(Change::Applied(object)))
                    }
                    Ok(watcher::Event::Delete(object)) => Some(Ok(Change::Deleted(object))),
                    Ok(watcher::Event::InitDone) => Some(Ok(Change::Listed)),
                    Err(error) if is_permanent(&error) => {
                        Some(Err(Request::of::<K>("watch", scope).watch_failure(self, &error)))
                    }
                    Err(_) => None,
                };
                std::future::ready(change)
            })
            // Nothing follows a failure.
            .scan(false, |has_failed, change| {
                let next = (!*has_failed).then(|| {
                    *has_failed = change.is_err();
                    change
                });
                std::future::ready(next)
            })
    }
}

/// Whether a retry would fail in the same way.
fn is_permanent(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status))
            if matches!(status.code, 400 | 401 | 403 | 404)
    )
}
