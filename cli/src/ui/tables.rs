//! Objects of the cluster that a watch keeps up to date, shared by all feeds.

use std::time::Duration;

use futures::StreamExt;
use helmops_api::Decoded;
use kube::{Resource, runtime::watcher};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    cluster::{Cluster, objects::Object, selection::Scope, watch::Change},
    failure::Failure,
    state::live::Watched,
};

/// When a watch without permission is tried again: it may be granted meanwhile.
const RETRY: Duration = Duration::from_secs(30);
/// Changes that follow each other more closely are one: a status of one object leads to that of the next.
const PAUSE: Duration = Duration::from_millis(200);

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<K>(watch::Sender<Contents<K>>);

/// What is known of the objects of one kind.
#[derive(Clone, Debug)]
pub struct Contents<K> {
    watched: Watched<K>,
    /// Whether all of them have been listed once, or cannot be.
    pub is_known: bool,
    /// What is missing, and why.
    pub note: Option<String>,
}

impl<K> Contents<K> {
    /// The objects, by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Decoded<K>> {
        self.watched.objects.values()
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Decoded<K>> {
        // The key of a map of pairs cannot be borrowed in parts.
        self.watched.objects.get(&(namespace.to_owned(), name.to_owned()))
    }
}

impl<K> Default for Contents<K> {
    fn default() -> Self {
        Self {
            watched: Watched::default(),
            is_known: false,
            note: None,
        }
    }
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self(watch::Sender::new(Contents::default()))
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Table<K> {
    /// The objects, and their changes.
    pub fn subscribe(&self) -> watch::Receiver<Contents<K>> {
        self.0.subscribe()
    }

    /// Watches the objects, in the first of these scopes that may be watched.
    pub async fn follow(&self, cluster: &Cluster, scopes: &[Scope<'_>], config: &watcher::Config)
    where
        K: Object + Sync + 'static,
    {
        loop {
            for scope in scopes {
                let mut changes = std::pin::pin!(cluster.watch::<K>(*scope, config.clone()));
                while let Some(change) = changes.next().await {
                    self.0.send_modify(|contents| contents.apply(change, *scope));
                }
            }
            sleep(RETRY).await;
        }
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Contents<K> {
    fn apply(&mut self, change: Result<Change<K>, Failure>, scope: Scope<'_>) {
        match change {
            Ok(change) => {
                let is_listed = matches!(change, Change::Listed);
                self.watched.apply(change);
                if is_listed {
                    self.is_known = true;
                    self.note = match (scope, self.note.take()) {
                        (Scope::Namespace(namespace), Some(note)) => {
                            Some(format!("{note}. Only namespace {namespace:?} is shown."))
                        }
                        (Scope::All | Scope::Namespace(_), _) => None,
                    };
                }
            }
            Err(failure) => {
                self.is_known = true;
                self.note = Some(failure.message);
            }
        }
    }
}

/// Waits for a change and for those that follow closely, or until `limit` is over: times become others without a change.
pub async fn changed<K>(contents: &mut watch::Receiver<Contents<K>>, limit: Duration) {
    // A sender lives as long as its feeds.
    if timeout_at(Instant::now() + limit, contents.changed())
        .await
        .is_ok()
    {
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
impl<K> Table<K> {
    /// Replaces what is known.
    pub fn set(&self, contents: Contents<K>) {
        self.0.send_replace(contents);
    }
}

#[cfg(test)]
impl<K: Resource<DynamicType = ()> + Clone> Contents<K> {
    /// The contents after a list.
    pub fn of(objects: impl IntoIterator<Item = Decoded<K>>) -> Self {
        let mut contents = Self::default();
        let changes = objects.into_iter().map(Change::Applied);
        for change in std::iter::once(Change::Restarted)
            .chain(changes)
            .chain([Change::Listed])
        {
            contents.apply(Ok(change), Scope::All);
        }
        contents
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> Decoded<HelmOp> {
        serde_json::from_value(json!({ "metadata": { "namespace": "shop", "name": name } })).unwrap()
    }

    #[test]
    fn without_permission_for_all_namespaces_one_is_shown_with_a_note() {
        let mut contents = Contents::default();
        contents.apply(Err(Failure::unable("eve has no permission")), Scope::All);
        assert_eq!(
            (contents.is_known, contents.note.as_deref()),
            (true, Some("eve has no permission"))
        );
        let own = Scope::Namespace("shop");
        for change in [Change::Restarted, Change::Applied(object("web")), Change::Listed] {
            contents.apply(Ok(change), own);
        }
        assert_eq!(
            contents.note.as_deref(),
            Some("eve has no permission. Only namespace \"shop\" is shown.")
        );
        assert!(contents.get("shop", "web").is_some());
        assert_eq!(contents.objects().count(), 1);
        // The permission was granted.
        contents.apply(Ok(Change::Restarted), Scope::All);
        contents.apply(Ok(Change::Listed), Scope::All);
        assert_eq!(contents.note, None);
    }
}
