//! How much memory the objects of a namespace take in the stores.
//!
//! Objects are stored whole, and a namespace without a quota has room for any number of them. So each is charged to the
//! namespace of its author. One that there is no room for is stored as an object that cannot be read, with little more than its
//! name. It is read again as soon as there is room.

use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use helmops_shared::{
    api::{Decoded, Metadata, NamespacedName, labels},
    runtime::lock,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};

use super::weight::{Bytes, Weight};
use crate::{
    error::shown,
    shares::{Charge, Shares},
};

/// How often there is a look whether refused objects have room now.
const RETRY: Duration = Duration::from_secs(5);
/// Objects of a namespace that are read again at a time: the others of a namespace that has many do not wait for them.
const RETRIES: usize = 32;
/// The finalizers that a refused object keeps. Each has less than 400 bytes, and most objects have one or two.
const FINALIZERS: usize = 16;
/// The labels that a refused object keeps: they tell whose it is. Their values have 63 bytes at most.
const LABELS: [&str; 7] = [
    labels::BUNDLE_NAMESPACE,
    labels::BUNDLE_NAME,
    labels::CLUSTER_NAMESPACE,
    labels::CLUSTER,
    labels::HELM_NAME,
    labels::SHARD,
    labels::CREATED_BY,
];

/// Memory for stored objects, shared by the namespaces. Clones share it.
#[derive(Clone, Debug)]
pub struct StoreBudget(Shares);

impl StoreBudget {
    /// Half of the memory that the process may use, in bytes.
    pub fn new(memory_limit: usize) -> Self {
        Self(Shares::new(memory_limit / 2))
    }
}

/// What a watch has charged, and what it was refused.
#[derive(Debug)]
struct Charges<K> {
    budget: Shares,
    stored: HashMap<NamespacedName, Stored<K>>,
    refused: BTreeMap<NamespacedName, Refused>,
    /// Lists so far.
    list: u64,
    is_listing: bool,
}

#[derive(Debug)]
struct Stored<K> {
    bytes: Bytes,
    object: Arc<K>,
    /// The list that has shown it, or that it came after.
    list: u64,
}

#[derive(Debug)]
struct Refused {
    author: String,
    bytes: Bytes,
    version: Version,
}

/// UID and resource version.
type Version = (Option<String>, Option<String>);

/// A watch whose objects are charged to the budget. Those for which there is no room keep their name and little more, until
/// there is room: then `fetch` reads them again.
pub fn charged<K, F>(
    events: impl Stream<Item = watcher::Result<watcher::Event<Decoded<K>>>>,
    StoreBudget(budget): StoreBudget,
    fetch: impl Fn(NamespacedName) -> F,
) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<K>>>>
where
    K: Resource<DynamicType = ()> + Weight + Clone,
    F: Future<Output = Option<Decoded<K>>>,
{
    let charges = Arc::new(Mutex::new(Charges::new(budget)));
    let again = read_again(Arc::clone(&charges), fetch);
    let events = events.map_ok(move |event| lock(&charges).see(event));
    stream::select(events, again.map(|object| Ok(watcher::Event::Apply(object))))
}

/// The refused objects that there is room for, one after the other.
fn read_again<K, F>(
    charges: Arc<Mutex<Charges<K>>>,
    fetch: impl Fn(NamespacedName) -> F,
) -> impl Stream<Item = Decoded<K>>
where
    K: Resource<DynamicType = ()> + Weight + Clone,
    F: Future<Output = Option<Decoded<K>>>,
{
    let fitting = Arc::clone(&charges);
    stream::repeat(())
        .then(|()| tokio::time::sleep(RETRY))
        .flat_map(move |()| stream::iter(lock(&fitting).fitting()))
        .then(fetch)
        .filter_map(move |object| ready(object.and_then(|object| lock(&charges).see_again(object))))
}

impl<K: Resource<DynamicType = ()> + Weight + Clone> Charges<K> {
    fn new(budget: Shares) -> Self {
        Self {
            budget,
            stored: HashMap::new(),
            refused: BTreeMap::new(),
            list: 0,
            is_listing: false,
        }
    }

    fn see(&mut self, event: watcher::Event<Decoded<K>>) -> watcher::Event<Decoded<K>> {
        match event {
            watcher::Event::Apply(object) => watcher::Event::Apply(self.admit(object)),
            watcher::Event::InitApply(object) => watcher::Event::InitApply(self.admit(object)),
            watcher::Event::Delete(object) => {
                let name = NamespacedName::of(object.meta());
                self.release(&name);
                self.refused.remove(&name);
                watcher::Event::Delete(object)
            }
            watcher::Event::Init => {
                self.list += 1;
                self.is_listing = true;
                self.refused.clear();
                watcher::Event::Init
            }
            watcher::Event::InitDone => {
                self.is_listing = false;
                self.release_unlisted();
                watcher::Event::InitDone
            }
        }
    }

    /// Takes up a refused object that was read again, if it is still the same and there is room.
    fn see_again(&mut self, object: Decoded<K>) -> Option<Decoded<K>> {
        let refused = self.refused.get(&NamespacedName::of(object.meta()))?;
        // What has changed meanwhile is seen by the watch, and what a list shows is in no store yet.
        if self.is_listing || refused.version != version(object.meta()) {
            return None;
        }
        let object = self.admit(object);
        object.good().is_some().then_some(object)
    }

    /// The refused objects that there is room for, some of each namespace.
    fn fitting(&self) -> Vec<NamespacedName> {
        if self.is_listing {
            return Vec::new();
        }
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut fitting = Vec::new();
        for (name, refused) in &self.refused {
            let number = numbers.entry(&refused.author).or_default();
            let charges = charges(&refused.author, &name.namespace, refused.bytes);
            if *number < RETRIES && self.budget.has_room(&charges) {
                *number += 1;
                fitting.push(name.clone());
            }
        }
        fitting
    }

    /// The object as it is stored.
    fn admit(&mut self, object: Decoded<K>) -> Decoded<K> {
        let name = NamespacedName::of(object.meta());
        let object = match object {
            Decoded::Valid(object) => object,
            Decoded::Invalid { metadata, error } => {
                self.release(&name);
                self.refused.remove(&name);
                return odd(
                    &metadata,
                    format!("it does not decode: {}; mend or delete it", shown(&error)),
                );
            }
        };
        if let Some(stored) = self.stored.get_mut(&name)
            && is_same(stored.object.meta(), object.meta())
        {
            // What a list shows again takes no memory a second time.
            stored.list = self.list;
            return Decoded::Valid(Arc::clone(&stored.object));
        }
        let bytes = object.bytes();
        let author = K::author(object.meta());
        let before = self.stored.get(&name).map(|stored| stored.charges(&name));
        let before = before.unwrap_or_default();
        if let Err(refused) = self
            .budget
            .replace(&before, &charges(author, &name.namespace, bytes))
        {
            let odd = odd(object.meta(), no_room(refused, bytes));
            let refused = Refused {
                author: author.to_owned(),
                bytes,
                version: version(object.meta()),
            };
            self.release(&name);
            self.refused.insert(name, refused);
            return odd;
        }
        self.refused.remove(&name);
        let stored = Stored {
            bytes,
            object: Arc::clone(&object),
            list: self.list,
        };
        self.stored.insert(name, stored);
        Decoded::Valid(object)
    }

    fn release(&mut self, name: &NamespacedName) {
        if let Some(stored) = self.stored.remove(name) {
            self.budget.release(&stored.charges(name));
        }
    }

    /// What the list has not shown is not there any more.
    fn release_unlisted(&mut self) {
        let list = self.list;
        for (name, stored) in self.stored.extract_if(|_, stored| stored.list != list) {
            self.budget.release(&stored.charges(&name));
        }
    }
}

impl<K: Resource<DynamicType = ()> + Weight + Clone> Stored<K> {
    fn charges<'c>(&'c self, name: &'c NamespacedName) -> Vec<Charge<'c>> {
        charges(K::author(self.object.meta()), &name.namespace, self.bytes)
    }
}

/// What its author wrote is charged to him, and what is reported in it to the namespace that it is in.
fn charges<'c>(author: &'c str, own: &'c str, Bytes { written, reported }: Bytes) -> Vec<Charge<'c>> {
    let charge = |namespace, bytes| Charge { namespace, bytes };
    if author == own {
        vec![charge(own, written + reported)]
    } else {
        vec![charge(author, written), charge(own, reported)]
    }
}

fn no_room(refused: Charge<'_>, Bytes { written, reported }: Bytes) -> String {
    format!(
        "it takes {} bytes of memory, and namespace {} has no room for {} more; delete objects of this namespace, make them \
         smaller, or start the controller with more memory (--memory-limit). It is read as soon as there is room",
        written + reported,
        refused.namespace,
        refused.bytes
    )
}

fn odd<K>(metadata: &ObjectMeta, error: String) -> Decoded<K> {
    Decoded::Invalid {
        metadata: Box::new(named(metadata)),
        error,
    }
}

/// What names an object, tells whose it is, and keeps it from going.
fn named(metadata: &ObjectMeta) -> Metadata {
    let labels = metadata.labels.as_ref().map(|labels| {
        let kept = LABELS.iter().filter_map(|label| labels.get_key_value(*label));
        kept.map(|(label, value)| (label.clone(), value.clone()))
            .collect()
    });
    let finalizers = metadata.finalizers.as_ref();
    Metadata::from(ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        finalizers: finalizers.filter(|all| all.len() <= FINALIZERS).cloned(),
        labels,
        ..ObjectMeta::default()
    })
}

fn version(metadata: &ObjectMeta) -> Version {
    (metadata.uid.clone(), metadata.resource_version.clone())
}

fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.resource_version.is_some()
        && (&one.uid, &one.resource_version) == (&other.uid, &other.resource_version)
}

#[cfg(test)]
mod tests;
