//! How much memory the objects of a namespace take in the stores.
//!
//! Objects are stored whole, and a namespace without a quota has room for any number of them. So each is charged to its
//! namespace: what goes beyond the share of a namespace is stored as an object that cannot be read, and the namespace has
//! to make room before it is acted on.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_shared::{
    api::{Bundle, BundleDeployment, BundleTarget, Guarded, HelmOp, Metadata},
    runtime::lock,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};
use serde::Serialize;

/// Memory for stored objects, shared by the namespaces. Clones share it.
#[derive(Clone, Debug)]
pub struct StoreBudget {
    ledger: Arc<Mutex<Ledger>>,
    /// Bytes for all namespaces.
    total: usize,
    /// Bytes that one namespace has at most.
    share: usize,
}

#[derive(Debug, Default)]
struct Ledger {
    namespaces: HashMap<String, usize>,
    total: usize,
}

impl StoreBudget {
    /// A part of the memory that the process may use, in bytes. A namespace has three quarters of it at most: most clusters
    /// have all their HelmOps in one namespace.
    pub fn new(memory_limit: usize) -> Self {
        let total = memory_limit / 2;
        Self {
            ledger: Arc::default(),
            total,
            share: total / 4 * 3,
        }
    }

    /// Charges an object that took `before` bytes and is to take `after`, and returns whether there is room.
    ///
    /// Where all namespaces together use up the memory, those have room that use less than an equal part of it.
    fn charge(&self, namespace: &str, before: usize, after: usize) -> bool {
        let mut ledger = lock(&self.ledger);
        let others = ledger.namespaces.get(namespace).map_or(0, |used| used - before);
        let (used, total) = (others + after, ledger.total - before + after);
        let equal = self.total / (ledger.namespaces.len().max(1));
        let has_room = used <= self.share && (total <= self.total || used <= equal);
        let after = if has_room { after } else { 0 };
        ledger.total = ledger.total - before + after;
        if others + after == 0 {
            ledger.namespaces.remove(namespace);
        } else {
            ledger.namespaces.insert(namespace.to_owned(), others + after);
        }
        has_room
    }
}

/// What an object takes in memory.
pub trait Weight {
    /// In bytes, about.
    fn weight(&self) -> usize;
}

impl Weight for HelmOp {
    fn weight(&self) -> usize {
        serialised(self) + of_targets(&self.spec.bundle.targets)
    }
}

impl Weight for Bundle {
    fn weight(&self) -> usize {
        serialised(self) + of_targets(&self.spec.targets)
    }
}

impl Weight for BundleDeployment {
    fn weight(&self) -> usize {
        serialised(self)
    }
}

/// A target takes much more memory than its text, of which two characters are enough.
fn of_targets(targets: &[BundleTarget]) -> usize {
    size_of_val(targets)
}

fn serialised(object: &impl Serialize) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Counting does not fail, and what does not serialise takes no text.
    let _ = serde_json::to_writer(&mut count, object);
    count.0
}

/// Objects of a kind that were charged, by namespace and name.
type Charged = HashMap<(String, String), usize>;

/// A watch whose objects are charged to the budget. Those for which there is no room keep their name and little more.
pub fn charged<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<Guarded<K>>>>,
    budget: StoreBudget,
) -> impl Stream<Item = watcher::Result<watcher::Event<Guarded<K>>>>
where
    K: Resource<DynamicType = ()> + Clone + Weight,
{
    let mut charged = Charged::new();
    events.map(move |event| Ok(charge(event?, &budget, &mut charged)))
}

fn charge<K>(
    event: watcher::Event<Guarded<K>>,
    budget: &StoreBudget,
    charged: &mut Charged,
) -> watcher::Event<Guarded<K>>
where
    K: Resource<DynamicType = ()> + Clone + Weight,
{
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(fitting(object, budget, charged)),
        watcher::Event::InitApply(object) => watcher::Event::InitApply(fitting(object, budget, charged)),
        watcher::Event::Delete(object) => {
            let key = key(object.meta());
            if let Some(bytes) = charged.remove(&key) {
                budget.charge(&key.0, bytes, 0);
            }
            watcher::Event::Delete(object)
        }
        // What the list does not show any more is not charged any more.
        watcher::Event::Init => {
            for ((namespace, _), bytes) in charged.drain() {
                budget.charge(&namespace, bytes, 0);
            }
            watcher::Event::Init
        }
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

fn fitting<K>(object: Guarded<K>, budget: &StoreBudget, charged: &mut Charged) -> Guarded<K>
where
    K: Resource<DynamicType = ()> + Clone + Weight,
{
    let bytes = match &object {
        Guarded::Good(object) => object.weight(),
        Guarded::Odd { metadata, .. } => serialised(metadata),
    };
    let key = key(object.meta());
    let before = charged.get(&key).copied().unwrap_or_default();
    if budget.charge(&key.0, before, bytes) {
        charged.insert(key, bytes);
        return object;
    }
    charged.remove(&key);
    Guarded::Odd {
        metadata: Box::new(named(object.meta())),
        error: format!(
            "it has {bytes} bytes, and the objects of namespace {} take all memory that one namespace may have; delete some \
             of them, or start the controller with more memory (--memory-limit), then change this one",
            key.0
        ),
    }
}

/// What names an object, and keeps it from going.
fn named(metadata: &ObjectMeta) -> Metadata {
    Metadata::from(ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        finalizers: metadata.finalizers.clone(),
        ..ObjectMeta::default()
    })
}

fn key(metadata: &ObjectMeta) -> (String, String) {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    (part(&metadata.namespace), part(&metadata.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watcher::Event;

    use super::*;

    const KIB: usize = 1 << 10;

    /// A HelmOp of about so many bytes.
    fn helmop(namespace: &str, name: &str, bytes: usize) -> Guarded<HelmOp> {
        let object = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "helm": { "values": { "text": "x".repeat(bytes) } } },
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    struct Watch {
        budget: StoreBudget,
        charged: Charged,
    }

    impl Watch {
        fn of(budget: &StoreBudget) -> Self {
            Self {
                budget: budget.clone(),
                charged: Charged::new(),
            }
        }

        fn see(&mut self, event: Event<Guarded<HelmOp>>) -> Event<Guarded<HelmOp>> {
            charge(event, &self.budget, &mut self.charged)
        }

        fn has_room(&mut self, object: Guarded<HelmOp>) -> bool {
            match self.see(Event::Apply(object)) {
                Event::Apply(object) => object.good().is_some(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_namespace_has_its_share_and_others_have_theirs() {
        let budget = StoreBudget::new(80 * KIB);
        let mut watch = Watch::of(&budget);
        assert!(watch.has_room(helmop("many", "a", 14 * KIB)));
        assert!(watch.has_room(helmop("many", "b", 14 * KIB)));
        assert!(
            !watch.has_room(helmop("many", "c", 14 * KIB)),
            "over three quarters"
        );
        assert!(watch.has_room(helmop("few", "a", 2 * KIB)));
        assert!(watch.has_room(helmop("many", "b", 4 * KIB)), "it is smaller now");
        assert!(watch.has_room(helmop("many", "c", 8 * KIB)));
        watch.see(Event::Delete(helmop("many", "a", 0)));
        assert!(watch.has_room(helmop("many", "d", 14 * KIB)));
    }

    #[test]
    fn where_all_is_used_those_have_room_that_use_less_than_others() {
        let budget = StoreBudget::new(80 * KIB);
        let mut watch = Watch::of(&budget);
        for namespace in ["a", "b"] {
            assert!(watch.has_room(helmop(namespace, "large", 18 * KIB)));
        }
        assert!(watch.has_room(helmop("c", "small", 9 * KIB)));
        assert!(!watch.has_room(helmop("a", "more", 2 * KIB)));
    }

    #[test]
    fn kinds_share_the_memory_of_a_namespace_and_a_list_begins_again() {
        let budget = StoreBudget::new(80 * KIB);
        let (mut one, mut other) = (Watch::of(&budget), Watch::of(&budget));
        assert!(one.has_room(helmop("a", "a", 20 * KIB)));
        assert!(!other.has_room(helmop("a", "b", 20 * KIB)));
        one.see(Event::Init);
        assert!(other.has_room(helmop("a", "b", 20 * KIB)));
        let shown = one.see(Event::InitApply(helmop("a", "a", 20 * KIB)));
        let Event::InitApply(Guarded::Odd { error, metadata }) = shown else {
            panic!("{shown:?}")
        };
        assert!(
            error.contains("objects of namespace a") && error.contains("--memory-limit"),
            "{error}"
        );
        assert_eq!(metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn many_small_targets_count_as_what_they_take() {
        let targets = |count: usize| {
            let targets: Vec<_> = (0..count).map(|_| json!({})).collect();
            let object = json!({ "metadata": { "name": "a" }, "spec": { "targets": targets } });
            let object: Guarded<HelmOp> = serde_json::from_str(&object.to_string()).unwrap();
            object.good().unwrap().weight()
        };
        assert!(targets(1000) - targets(0) >= 1000 * size_of::<BundleTarget>());
    }
}
