//! From the events of watches to the changes of objects.
//!
//! A watch lists all objects first, and lists them again whenever it has missed events. A list replaces everything that is
//! known, as soon as it is complete:
//!
//! ```text
//! Init, InitApply … InitDone ─► one list ─┐
//!                                         ├─► WatchedObjects ─► Change { name, before, after }
//! Apply, Delete ─────────────► one object ┘
//! ```
//!
//! Without I/O: [`Cache`](super::Cache) shares the objects and follows the watches.

use std::{collections::BTreeMap, fmt};

use helmops_api::NamespacedName;
use kube::{core::ObjectMeta, runtime::watcher::Event};

/// The change of an object. At least one of the values exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<V> {
    /// Its namespace and name.
    pub name: NamespacedName,
    /// Its value before; `None` if it is new.
    pub before: Option<V>,
    /// Its value from now on; `None` if it is deleted. Equal to `before` for an unchanged object of a list.
    pub after: Option<V>,
}

impl<V> Change<V> {
    /// Whether a part of the object has changed. A new or deleted object always has.
    pub fn differs<'c, T: PartialEq>(&'c self, part: impl Fn(&'c V) -> T) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => part(before) != part(after),
            (None, _) | (_, None) => true,
        }
    }
}

/// What changes with the object and its spec, and with no status: its UID, its generation, and whether it is being deleted.
pub fn identity(metadata: &ObjectMeta) -> impl PartialEq + use<'_> {
    (
        &metadata.uid,
        metadata.generation,
        metadata.deletion_timestamp.is_some(),
    )
}

/// Which version of which object a value shows: a watch can be behind what this process has just written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedVersion {
    uid: Option<String>,
    /// The resource version, as the number that API servers use.
    number: Option<u64>,
}

impl ObservedVersion {
    /// The version that metadata show.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let number = metadata.resource_version.as_ref();
        Self {
            uid: metadata.uid.clone(),
            number: number.and_then(|number| number.parse().ok()),
        }
    }

    /// Whether it is the same version of the same object, as far as that is known.
    pub fn is_same(&self, other: &Self) -> bool {
        self.number.is_some() && self == other
    }

    /// Whether it is an earlier version of the same object.
    pub fn is_older(&self, than: &Self) -> bool {
        let numbers = self.number.zip(than.number);
        self.uid == than.uid && numbers.is_some_and(|(number, known)| number < known)
    }
}

/// An object of a watch: its name, and the value that is kept of it; `None` if the object is ignored.
pub type Item<V> = (NamespacedName, Option<V>);

/// The objects of a kind, as the events of their watches show them: one watch of all namespaces, or one of each namespace.
///
/// There are no objects and no changes until every watch has completed its first list. A later list replaces the objects of its
/// own watch when it is complete: objects that it does not contain are deleted.
pub struct WatchedObjects<V> {
    objects: BTreeMap<NamespacedName, V>,
    watches: Vec<WatchState<V>>,
    /// Whether every watch has completed its first list.
    is_synced: bool,
    is_older: fn(&V, &V) -> bool,
}

/// The state of one watch.
struct WatchState<V> {
    /// Its namespace; `None` for all namespaces.
    namespace: Option<String>,
    /// The objects of a list that is not complete.
    list: BTreeMap<NamespacedName, V>,
    /// Whether a list was completed.
    is_listed: bool,
}

impl<V: Clone> WatchedObjects<V> {
    /// No objects yet, of watches of these namespaces; `None` is a watch of all namespaces.
    pub fn new(namespaces: impl IntoIterator<Item = Option<String>>) -> Self {
        Self {
            objects: BTreeMap::new(),
            watches: namespaces.into_iter().map(WatchState::new).collect(),
            is_synced: false,
            is_older: |_, _| false,
        }
    }

    /// Replaces the watches before their first events.
    pub fn set_watches(&mut self, namespaces: impl IntoIterator<Item = Option<String>>) {
        self.watches = namespaces.into_iter().map(WatchState::new).collect();
    }

    /// Ignores events that are behind what is known: those for which `is_older(value, known)`. A watch can be behind what this
    /// process has just written.
    #[must_use]
    pub fn ignoring_older(self, is_older: fn(&V, &V) -> bool) -> Self {
        Self { is_older, ..self }
    }

    /// Whether every watch has completed its first list.
    pub const fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Applies an event of a watch, given by its index. Returns the changes: of a list together when it is complete, updated
    /// objects before deleted ones.
    pub fn apply(&mut self, watch: usize, event: Event<Item<V>>) -> Vec<Change<V>> {
        let Some(state) = self.watches.get_mut(watch) else {
            return Vec::new();
        };
        match event {
            Event::Init => {
                state.list.clear();
                Vec::new()
            }
            Event::InitApply((name, value)) => {
                if let Some(value) = value {
                    state.list.insert(name, value);
                }
                Vec::new()
            }
            Event::InitDone => self.replace(watch),
            Event::Apply((name, Some(value))) => self.insert(name, value).into_iter().collect(),
            Event::Apply((name, None)) | Event::Delete((name, _)) => self.remove(name).into_iter().collect(),
        }
    }

    /// Adds or updates an object, unless a newer version of it is known.
    pub fn insert(&mut self, name: NamespacedName, value: V) -> Option<Change<V>> {
        let known = self.objects.get(&name);
        if known.is_some_and(|known| (self.is_older)(&value, known)) {
            return None;
        }
        let before = self.objects.insert(name.clone(), value.clone());
        self.changed(Change {
            name,
            before,
            after: Some(value),
        })
    }

    /// Removes an object, if it is known.
    pub fn remove(&mut self, name: NamespacedName) -> Option<Change<V>> {
        let before = self.objects.remove(&name)?;
        self.changed(Change {
            name,
            before: Some(before),
            after: None,
        })
    }

    /// An object.
    pub fn get(&self, name: &NamespacedName) -> Option<&V> {
        self.objects.get(name).filter(|_| self.is_synced)
    }

    /// All objects, sorted by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&NamespacedName, &V)> {
        self.objects.iter().filter(|_| self.is_synced)
    }

    /// The objects in a namespace, sorted by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&NamespacedName, &V)> {
        let following = self.objects.range(NamespacedName::new(namespace, "")..);
        following
            .take_while(move |(name, _)| name.namespace == namespace)
            .filter(|_| self.is_synced)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        if self.is_synced { self.objects.len() } else { 0 }
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A change is reported from the first complete list on.
    fn changed(&self, change: Change<V>) -> Option<Change<V>> {
        self.is_synced.then_some(change)
    }

    /// Replaces the objects of a watch with those of its complete list.
    fn replace(&mut self, watch: usize) -> Vec<Change<V>> {
        let Some(state) = self.watches.get_mut(watch) else {
            return Vec::new();
        };
        state.is_listed = true;
        let (list, namespace) = (std::mem::take(&mut state.list), state.namespace.clone());
        let mut deleted = self.take(namespace.as_deref());
        let mut changes = Vec::with_capacity(list.len());
        for (name, value) in list {
            let before = deleted.remove(&name);
            // A list can be behind what was just written, too.
            let newer = before.as_ref().filter(|known| (self.is_older)(&value, known));
            let value = newer.cloned().unwrap_or(value);
            self.objects.insert(name.clone(), value.clone());
            changes.push(Change {
                name,
                before,
                after: Some(value),
            });
        }
        changes.extend(deleted.into_iter().map(|(name, before)| Change {
            name,
            before: Some(before),
            after: None,
        }));
        if self.is_synced {
            return changes;
        }
        self.is_synced = self.watches.iter().all(|watch| watch.is_listed);
        self.iter()
            .map(|(name, value)| Change {
                name: name.clone(),
                before: None,
                after: Some(value.clone()),
            })
            .collect()
    }

    /// Takes the objects of a namespace, or all of them.
    fn take(&mut self, namespace: Option<&str>) -> BTreeMap<NamespacedName, V> {
        match namespace {
            None => std::mem::take(&mut self.objects),
            Some(namespace) => self
                .objects
                .extract_if(NamespacedName::new(namespace, "").., |name, _| {
                    name.namespace == namespace
                })
                .collect(),
        }
    }
}

impl<V> WatchState<V> {
    const fn new(namespace: Option<String>) -> Self {
        Self {
            namespace,
            list: BTreeMap::new(),
            is_listed: false,
        }
    }
}

impl<V> fmt::Debug for WatchedObjects<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedObjects")
            .field("objects", &self.objects.len())
            .field("is_synced", &self.is_synced)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
