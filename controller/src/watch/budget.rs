//! The memory budget of the stores: how much memory the objects of a namespace may use.
//!
//! Objects are stored completely, and a namespace without a quota can contain any number of them. So each object is charged to
//! the namespace of its author. Of one that exceeds the budget only little more than the name is stored, and it says so. It is
//! read again as soon as the budget allows.

use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use helmops_api::{Decoded, Metadata, NamespacedName, Unusable, labels};
use helmops_fair::{ByteBudget, Charge, Share};
use helmops_process::lock;
use helmops_runtime::decode_error::cut_error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};

use super::weight::{Bytes, Weight};

/// How often refused objects are checked against the budget again.
const RETRY: Duration = Duration::from_secs(5);
/// Objects of a namespace that are read again at a time, so that a namespace with many of them does not delay others.
const RETRIES: usize = 32;
/// The maximum number of finalizers that a refused object keeps. Each has less than 400 bytes, and most objects have one or two.
const FINALIZERS: usize = 16;
/// The labels that a refused object keeps: they name its owner. Their values have at most 63 bytes.
const LABELS: [&str; 7] = [
    labels::BUNDLE_NAMESPACE,
    labels::BUNDLE_NAME,
    labels::CLUSTER_NAMESPACE,
    labels::CLUSTER,
    labels::HELM_NAME,
    labels::SHARD,
    labels::CREATED_BY,
];

/// Memory for stored objects, shared between namespaces. Clones share it.
#[derive(Clone, Debug)]
pub struct StoreBudget(ByteBudget);

impl StoreBudget {
    /// Half of the memory that the process may use, in bytes.
    pub fn new(memory_limit: usize) -> Self {
        Self(ByteBudget::new(memory_limit / 2, Share::ThreeQuarters))
    }
}

/// The objects of a watch that are charged to the budget, and those that were refused.
#[derive(Debug)]
struct Charges<K> {
    budget: ByteBudget,
    stored: HashMap<NamespacedName, Stored<K>>,
    refused: BTreeMap<NamespacedName, Refused>,
    /// The number of lists so far.
    list: u64,
    is_listing: bool,
}

#[derive(Debug)]
struct Stored<K> {
    bytes: Bytes,
    object: Arc<K>,
    /// The last list that contained it, or that preceded it.
    list: u64,
}

#[derive(Debug)]
struct Refused {
    author: String,
    bytes: Bytes,
    version: Version,
}

/// Identifies a version of an object.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// A watch whose objects are charged to the budget. Objects that exceed it keep their name and little more. When the budget
/// allows, `fetch` reads them again.
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
    let retried = retry_refused(Arc::clone(&charges), fetch);
    let events = events.map_ok(move |event| lock(&charges).observe(event));
    stream::select(events, retried.map(|object| Ok(watcher::Event::Apply(object))))
}

/// Reads the refused objects that fit into the budget now, one after the other.
fn retry_refused<K, F>(
    charges: Arc<Mutex<Charges<K>>>,
    fetch: impl Fn(NamespacedName) -> F,
) -> impl Stream<Item = Decoded<K>>
where
    K: Resource<DynamicType = ()> + Weight + Clone,
    F: Future<Output = Option<Decoded<K>>>,
{
    let refused = Arc::clone(&charges);
    stream::repeat(())
        .then(|()| tokio::time::sleep(RETRY))
        .flat_map(move |()| stream::iter(lock(&refused).fitting()))
        .then(fetch)
        .filter_map(move |object| ready(object.and_then(|object| lock(&charges).observe_again(object))))
}

impl<K: Resource<DynamicType = ()> + Weight + Clone> Charges<K> {
    fn new(budget: ByteBudget) -> Self {
        Self {
            budget,
            stored: HashMap::new(),
            refused: BTreeMap::new(),
            list: 0,
            is_listing: false,
        }
    }

    fn observe(&mut self, event: watcher::Event<Decoded<K>>) -> watcher::Event<Decoded<K>> {
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

    /// Stores a refused object that was read again, if it is unchanged and fits into the budget.
    fn observe_again(&mut self, object: Decoded<K>) -> Option<Decoded<K>> {
        let refused = self.refused.get(&NamespacedName::of(object.meta()))?;
        // The watch reports changed objects, and objects of an incomplete list are in no store yet.
        if self.is_listing || refused.version != version(object.meta()) {
            return None;
        }
        let object = self.admit(object);
        object.valid().is_some().then_some(object)
    }

    /// The refused objects that fit into the budget now, a limited number of each namespace.
    fn fitting(&self) -> Vec<NamespacedName> {
        if self.is_listing {
            return Vec::new();
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut fitting = Vec::new();
        for (name, refused) in &self.refused {
            let count = counts.entry(&refused.author).or_default();
            let charges = charges(&refused.author, &name.namespace, refused.bytes);
            if *count < RETRIES && self.budget.has_capacity(&charges) {
                *count += 1;
                fitting.push(name.clone());
            }
        }
        fitting
    }

    /// Charges an object to the budget, and returns it as it is stored.
    fn admit(&mut self, object: Decoded<K>) -> Decoded<K> {
        let name = NamespacedName::of(object.meta());
        let object = match object {
            Decoded::Valid(object) => object,
            Decoded::Invalid { metadata, error } => {
                self.release(&name);
                self.refused.remove(&name);
                return without_content(
                    &metadata,
                    Unusable::Invalid(format!("{}; fix or delete it", cut_error(&error))),
                );
            }
        };
        if let Some(stored) = self.stored.get_mut(&name)
            && is_same(stored.object.meta(), object.meta())
        {
            // A known object in a list takes no additional memory.
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
            let stored = without_content(object.meta(), over_budget(refused, bytes));
            let refused = Refused {
                author: author.to_owned(),
                bytes,
                version: version(object.meta()),
            };
            self.release(&name);
            self.refused.insert(name, refused);
            return stored;
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

    /// Releases the objects that the last list did not contain: they are deleted.
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

/// The bytes written by the author are charged to the namespace of the author, and the reported bytes to that of the object.
fn charges<'c>(author: &'c str, own: &'c str, Bytes { written, reported }: Bytes) -> Vec<Charge<'c>> {
    let charge = |key, bytes| Charge { key, bytes };
    if author == own {
        vec![charge(own, written + reported)]
    } else {
        vec![charge(author, written), charge(own, reported)]
    }
}

fn over_budget(refused: Charge<'_>, Bytes { written, reported }: Bytes) -> Unusable {
    Unusable::NotStored(format!(
        "it takes {} bytes of memory, and the objects of namespace {} use more than their share of the memory of the controller; \
         delete some, make them smaller, or raise the limit (--memory-limit). It is read again as soon as there is memory",
        written + reported,
        refused.key,
    ))
}

fn without_content<K>(metadata: &ObjectMeta, error: Unusable) -> Decoded<K> {
    Decoded::Invalid {
        metadata: Box::new(identifying(metadata)),
        error,
    }
}

/// The metadata that identifies an object and its owner, and the finalizers.
fn identifying(metadata: &ObjectMeta) -> Metadata {
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
    Version {
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
    }
}

fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.resource_version.is_some()
        && (&one.uid, &one.resource_version) == (&other.uid, &other.resource_version)
}

#[cfg(test)]
mod tests;
