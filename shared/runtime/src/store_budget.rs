//! The memory budget of the stores: how much memory the watched objects of a namespace may use.
//!
//! A namespace without a quota can contain any number of objects. So what is stored of each is charged to the namespace of its author. Of
//! an object that exceeds the budget only little more than the name is stored, and it says so. It is read again as soon as the budget
//! allows.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::ready,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use helmops_api::{
    Decoded, NamespacedName, Unusable,
    weight::{Bytes, Weight},
};
use helmops_fair::{ByteBudget, Charge, Share};
use helmops_kube::{ObservedVersion, WatchResult, unpaused, with_backoff};
use helmops_process::{Throttle, exit::with_causes, lock};
use kube::{
    Api, Resource,
    api::ListParams,
    core::NamespaceResourceScope,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{client::bounded, decode_error::cut_error};

/// How often refused objects are checked against the budget again.
const RETRY: Duration = Duration::from_secs(5);
/// Objects of a namespace that are read again at a time, so that a namespace with many of them does not delay others.
const RETRIES: usize = 32;

/// Anyone who may write an object can cause the warning.
static WARNINGS: LazyLock<Throttle> = LazyLock::new(|| Throttle::new(Duration::from_secs(30)));

/// Memory for stored objects, shared between namespaces. Clones share it.
#[derive(Clone, Debug)]
pub struct StoreBudget {
    bytes: ByteBudget,
    process: &'static str,
}

/// An object of a watch, of which a store keeps a part or all.
pub trait Stored: Resource<DynamicType = ()> {
    /// What is kept. Its clones share their memory.
    type Kept: Clone + Weight;

    /// What is kept of this object.
    fn kept(&mut self) -> &mut Self::Kept;

    /// What is kept in place of it if there is no memory.
    fn not_stored(&self, why: Unusable) -> Self::Kept;
}

/// Complete objects.
impl<K: Resource<DynamicType = ()> + Clone + Weight> Stored for Decoded<K> {
    type Kept = Self;

    fn kept(&mut self) -> &mut Self {
        self
    }

    fn not_stored(&self, why: Unusable) -> Self {
        Self::without_content(self.meta(), why)
    }
}

/// Removes the content of an object that does not decode, and shortens its error.
pub fn shorten<K: Resource + Clone>(object: &mut Decoded<K>) {
    if let Decoded::Invalid { metadata, error } = object {
        let error = match error {
            Unusable::Invalid(text) => Unusable::Invalid(format!("{}; fix or delete it", cut_error(text))),
            Unusable::NotStored(why) => Unusable::NotStored(std::mem::take(why)),
        };
        *object = Decoded::without_content(metadata, error);
    }
}

impl StoreBudget {
    /// A number of bytes for the stores of a process, such as `controller`.
    pub fn new(process: &'static str, bytes: usize) -> Self {
        Self {
            bytes: ByteBudget::new(bytes, Share::ThreeQuarters),
            process,
        }
    }

    fn over_budget(&self, refused: Charge<'_>, Bytes { written, reported }: Bytes) -> Unusable {
        let (bytes, namespace, process) = (written + reported, refused.key, self.process);
        Unusable::NotStored(format!(
            "it takes {bytes} bytes of memory, and the objects of namespace {namespace} use more than their share of the memory of the \
             {process}; delete some, make them smaller, or raise the limit (--memory-limit). It is read again as soon as there is memory"
        ))
    }
}

/// A watch of objects as far as the budget allows, with pauses after errors. `slim` removes the parts that are not stored.
pub fn budgeted<T, F>(
    api: Api<T>,
    config: watcher::Config,
    budget: &StoreBudget,
    slim: F,
) -> impl Stream<Item = WatchResult<T>> + Send + use<T, F>
where
    F: Fn(&mut T) + Clone + Send + 'static,
    T: Stored<Kept: Send>
        + Resource<Scope = NamespaceResourceScope>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let selector = config.label_selector.clone();
    let of_event = slim.clone();
    let events = unpaused(api.clone(), config).map_ok(move |event| event.modify(&of_event));
    with_backoff(charged(events, budget.clone(), move |name| {
        let read = read(api.clone(), selector.clone(), name);
        let slim = slim.clone();
        async move {
            let mut object = read.await?;
            slim(&mut object);
            Some(object)
        }
    }))
}

/// Reads an object of a watch again, if it still matches the selector.
async fn read<T>(all: Api<T>, selector: Option<String>, name: NamespacedName) -> Option<T>
where
    T: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned,
{
    let api = Api::<T>::namespaced(all.into_client(), &name.namespace);
    // A list, because RBAC for a watch includes list, but not necessarily get.
    let mut one = ListParams::default().fields(&format!("metadata.name={}", name.name));
    one.label_selector = selector;
    match bounded(api.list(&one)).await {
        Ok(list) => list.items.into_iter().next(),
        Err(error) => {
            let error = with_causes(&error);
            tracing::warn!(kind = %T::kind(&()), namespace = name.namespace, name = name.name, error, "failed to read an object again");
            None
        }
    }
}

/// A watch whose objects are charged to the budget. When the budget allows, `fetch` reads refused ones again.
fn charged<T, F>(
    events: impl Stream<Item = WatchResult<T>>,
    budget: StoreBudget,
    fetch: impl Fn(NamespacedName) -> F,
) -> impl Stream<Item = WatchResult<T>>
where
    T: Stored,
    F: Future<Output = Option<T>>,
{
    let charges = Arc::new(Mutex::new(Charges::new(budget)));
    let retried = retry_refused(Arc::clone(&charges), fetch);
    let events = events.map_ok(move |event| lock(&charges).observe(event));
    stream::select(events, retried.map(|object| Ok(Event::Apply(object))))
}

/// Reads the refused objects that fit into the budget now, one after the other.
fn retry_refused<T, F>(
    charges: Arc<Mutex<Charges<T>>>,
    fetch: impl Fn(NamespacedName) -> F,
) -> impl Stream<Item = T>
where
    T: Stored,
    F: Future<Output = Option<T>>,
{
    let refused = Arc::clone(&charges);
    stream::repeat(())
        .then(|()| tokio::time::sleep(RETRY))
        .flat_map(move |()| stream::iter(lock(&refused).fitting()))
        .then(fetch)
        .filter_map(move |object| ready(object.and_then(|object| lock(&charges).observe_again(object))))
}

/// The objects of a watch that are charged to the budget, and those that were refused.
struct Charges<T: Stored> {
    budget: StoreBudget,
    stored: HashMap<NamespacedName, Entry<T::Kept>>,
    refused: BTreeMap<NamespacedName, Bill>,
    /// The number of lists so far.
    list: u64,
    is_listing: bool,
}

struct Entry<V> {
    bill: Bill,
    kept: V,
    /// The last list that contained it, or that preceded it.
    list: u64,
}

/// What a version of an object is charged for.
struct Bill {
    /// The namespace of the author, if it is not that of the object.
    author: Option<Box<str>>,
    bytes: Bytes,
    version: ObservedVersion,
}

impl<T: Stored> Charges<T> {
    fn new(budget: StoreBudget) -> Self {
        Self {
            budget,
            stored: HashMap::new(),
            refused: BTreeMap::new(),
            list: 0,
            is_listing: false,
        }
    }

    fn observe(&mut self, mut event: Event<T>) -> Event<T> {
        match &mut event {
            Event::Apply(object) | Event::InitApply(object) => _ = self.admit(object),
            Event::Delete(object) => {
                let name = NamespacedName::of(object.meta());
                self.release(&name);
                self.refused.remove(&name);
            }
            Event::Init => {
                self.list += 1;
                self.is_listing = true;
                self.refused.clear();
            }
            Event::InitDone => {
                self.is_listing = false;
                self.release_unlisted();
            }
        }
        event
    }

    /// Stores a refused object that was read again, if it is unchanged and fits into the budget.
    fn observe_again(&mut self, mut object: T) -> Option<T> {
        let refused = self.refused.get(&NamespacedName::of(object.meta()))?;
        // The watch reports changed objects, and objects of an incomplete list are in no store yet.
        if self.is_listing || refused.version != ObservedVersion::of(object.meta()) {
            return None;
        }
        self.admit(&mut object).then_some(object)
    }

    /// The refused objects that fit into the budget now, a limited number of each namespace.
    fn fitting(&self) -> Vec<NamespacedName> {
        if self.is_listing {
            return Vec::new();
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut fitting = Vec::new();
        for (name, bill) in &self.refused {
            let count = counts.entry(bill.author(name)).or_default();
            if *count < RETRIES && self.budget.bytes.has_capacity(&bill.charges(name)) {
                *count += 1;
                fitting.push(name.clone());
            }
        }
        fitting
    }

    /// Charges an object to the budget, and makes it what is stored. Returns whether there is room for it.
    fn admit(&mut self, object: &mut T) -> bool {
        let name = NamespacedName::of(object.meta());
        let version = ObservedVersion::of(object.meta());
        if let Some(known) = self.stored.get_mut(&name)
            && known.bill.version.is_same(&version)
        {
            // A known object in a list takes no additional memory.
            known.list = self.list;
            object.kept().clone_from(&known.kept);
            return true;
        }
        let author = T::Kept::author(object.meta());
        let author = (author != name.namespace).then(|| author.into());
        let bytes = object.kept().bytes();
        let bill = Bill {
            author,
            bytes,
            version,
        };
        let before = self.stored.get(&name).map(|known| known.bill.charges(&name));
        let replaced = self
            .budget
            .bytes
            .replace(&before.unwrap_or_default(), &bill.charges(&name));
        let why = replaced.map_err(|refused| self.budget.over_budget(refused, bytes));
        if let Err(why) = why {
            refuse(object, why);
            self.release(&name);
            self.refused.insert(name, bill);
            return false;
        }
        self.refused.remove(&name);
        let entry = Entry {
            bill,
            kept: object.kept().clone(),
            list: self.list,
        };
        self.stored.insert(name, entry);
        true
    }

    fn release(&mut self, name: &NamespacedName) {
        if let Some(known) = self.stored.remove(name) {
            self.budget.bytes.release(&known.bill.charges(name));
        }
    }

    /// Releases the objects that the last list did not contain: they are deleted.
    fn release_unlisted(&mut self) {
        let list = self.list;
        for (name, known) in self.stored.extract_if(|_, known| known.list != list) {
            self.budget.bytes.release(&known.bill.charges(&name));
        }
    }
}

/// Keeps little more than the name of an object.
fn refuse<T: Stored>(object: &mut T, why: Unusable) {
    if let Some(suppressed) = WARNINGS.allow(Instant::now()) {
        let (kind, metadata) = (T::kind(&()), object.meta());
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        tracing::warn!(%kind, namespace, name, suppressed, "an object {}", why.predicate());
    }
    let kept = object.not_stored(why);
    *object.kept() = kept;
}

impl Bill {
    fn author<'b>(&'b self, object: &'b NamespacedName) -> &'b str {
        self.author.as_deref().unwrap_or(&object.namespace)
    }

    /// The bytes written by the author are charged to the namespace of the author, and the reported bytes to that of the object.
    fn charges<'b>(&'b self, object: &'b NamespacedName) -> Vec<Charge<'b>> {
        let charge = |key, bytes| Charge { key, bytes };
        let Bytes { written, reported } = self.bytes;
        let own = object.namespace.as_str();
        match &self.author {
            None => vec![charge(own, written + reported)],
            Some(author) => vec![charge(author, written), charge(own, reported)],
        }
    }
}

#[cfg(test)]
mod tests;
