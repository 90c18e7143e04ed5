//! Changes of objects that no cache stores, such as Secrets: they are read when they are used.

use std::{fmt, future::ready};

use futures::{Stream, StreamExt};
use kube::{Api, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::{watch_results, without_errors};

/// The field selector that excludes the Secrets in which Helm stores its releases: there are many of them, and no object names one.
pub const NOT_RELEASES: &str = "type!=helm.sh/release.v1";

/// The changed objects of a watch. `synced` is signalled when the first list is complete: later changes are observed.
pub fn uncached_changes<K>(
    api: Api<K>,
    config: watcher::Config,
    synced: oneshot::Sender<()>,
) -> impl Stream<Item = K> + Send
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    let mut is_first = true;
    let mut synced = Some(synced);
    let events = watch_results(api, config).inspect(move |event| {
        // Without permission to watch them, nothing waits for them.
        if matches!(event, Ok(watcher::Event::InitDone) | Err(_))
            && let Some(synced) = synced.take()
        {
            // The receiver may be gone.
            let _ = synced.send(());
        }
    });
    without_errors(&K::kind(&()), events).filter_map(move |event| ready(changed(event, &mut is_first)))
}

/// The changed object of an event. Objects of the first list are not changes; a later list replaces missed changes, so all
/// of its objects may have changed.
fn changed<K>(event: watcher::Event<K>, is_first: &mut bool) -> Option<K> {
    match event {
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => Some(object),
        watcher::Event::InitApply(object) => (!*is_first).then_some(object),
        watcher::Event::Init => None,
        watcher::Event::InitDone => {
            *is_first = false;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_the_first_list_are_not_changes() {
        let mut is_first = true;
        let mut is_change = |event| changed(event, &mut is_first).is_some();
        assert!(!is_change(watcher::Event::Init));
        assert!(!is_change(watcher::Event::InitApply("secret")));
        assert!(!is_change(watcher::Event::InitDone));
        assert!(is_change(watcher::Event::Apply("secret")));
        assert!(is_change(watcher::Event::Delete("secret")));
        assert!(
            is_change(watcher::Event::InitApply("secret")),
            "a change may have been missed"
        );
    }
}
