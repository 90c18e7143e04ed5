//! How the API server changes the objects that are written: fields that it drops, and defaults that it adds.

use std::sync::{Arc, Mutex};

use bounded_text::cut;
use helmops_api::{
    PrunedFields,
    pruned_fields::{Prunable, drops_lifecycle},
};
use helmops_core::status::lifecycle_unsupported;
use helmops_model::event::Event;
use helmops_process::lock;

use crate::watch::ListCount;

/// Maximum length of the paths in the log, in bytes.
const MAX_LOGGED: usize = 1024;

/// The fields of a kind that its CRD lacks, and those that it adds, as the responses to writes show. They are forgotten when the kind is
/// listed again, because its CRD may have changed, and at the end of the process. Then a write that changes nothing shows them again.
#[derive(Debug, Default)]
pub struct Pruned {
    lists: ListCount,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    fields: Arc<PrunedFields>,
    /// How often the kind was listed when they were observed.
    lists: u64,
}

impl Known {
    fn forget_before(&mut self, lists: u64) {
        if self.lists != lists {
            *self = Self {
                lists,
                ..Self::default()
            };
        }
    }
}

impl Pruned {
    /// Nothing is known yet of the kind that is counted.
    pub fn new(lists: ListCount) -> Self {
        Self {
            lists,
            known: Mutex::default(),
        }
    }

    /// The pruned and added fields that are known now.
    pub fn get(&self) -> Arc<PrunedFields> {
        let mut known = lock(&self.known);
        known.forget_before(self.lists.get());
        Arc::clone(&known.fields)
    }

    /// Learns from a write: `kind` is that of the object, `sent` its spec, and `stored` the spec in the response.
    /// Returns what happened to a life cycle in this write.
    pub fn learn<S: Prunable>(&self, kind: &'static str, sent: &S, stored: &S) -> LifecycleStorage {
        let mut known = lock(&self.known);
        known.forget_before(self.lists.get());
        if sent == stored && *known.fields == PrunedFields::default() {
            return LifecycleStorage::Stored;
        }
        let fields = Arc::make_mut(&mut known.fields);
        let is_first = !fields.has_lifecycle();
        let learned = fields.learn(sent, stored);
        if learned.pruned {
            let fields = cut(fields.to_string(), MAX_LOGGED);
            tracing::info!(
                kind,
                fields,
                "the CRD in the cluster lacks these fields, so they are not passed on"
            );
        }
        if learned.added {
            let fields = cut(fields.added().collect::<Vec<_>>().join(", "), MAX_LOGGED);
            tracing::info!(
                kind,
                fields,
                "the API server adds these fields; with these values they are no difference"
            );
        }
        match drops_lifecycle(sent, stored) {
            false => LifecycleStorage::Stored,
            true if is_first => LifecycleStorage::FirstDropped(kind),
            true => LifecycleStorage::Dropped(kind),
        }
    }
}

/// Whether the API server stores a life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleStorage {
    /// It does, or there is none.
    Stored,
    /// It has dropped one of this kind, for the first time in this process.
    FirstDropped(&'static str),
    /// It has dropped one of this kind again.
    Dropped(&'static str),
}

impl LifecycleStorage {
    /// The event for each write without its life cycle. A kind that is not written often has it.
    pub fn event(self) -> Option<Event> {
        match self {
            Self::Stored => None,
            Self::FirstDropped(kind) | Self::Dropped(kind) => Some(lifecycle_unsupported(kind)),
        }
    }

    /// The event for the first write without its life cycle.
    pub fn first_event(self) -> Option<Event> {
        match self {
            Self::FirstDropped(kind) => Some(lifecycle_unsupported(kind)),
            Self::Stored | Self::Dropped(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::BundleSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_crd_lacks_is_forgotten_when_its_kind_is_listed_again() {
        let of = |value: serde_json::Value| serde_json::from_str::<BundleSpec>(&value.to_string()).unwrap();
        let (sent, stored) = (of(json!({ "lifecycle": {} })), of(json!({})));
        let lists = ListCount::default();
        let pruned = Pruned::new(lists.clone());
        pruned.learn("Bundle", &sent, &stored);
        assert!(pruned.get().are_equal(&sent, &stored));
        lists.count();
        assert!(!pruned.get().are_equal(&sent, &stored), "another write shows it");
        assert_eq!(
            pruned.learn("Bundle", &sent, &stored),
            LifecycleStorage::FirstDropped("Bundle")
        );
        assert!(pruned.get().are_equal(&sent, &stored));
    }

    #[test]
    fn a_dropped_life_cycle_is_noticed_once_for_each_kind() {
        let of = |value: serde_json::Value| serde_json::from_str::<BundleSpec>(&value.to_string()).unwrap();
        let (sent, stored) = (of(json!({ "lifecycle": {} })), of(json!({})));
        let pruned = Pruned::default();
        assert_eq!(pruned.learn("Bundle", &stored, &stored), LifecycleStorage::Stored);
        assert_eq!(pruned.learn("Bundle", &sent, &sent), LifecycleStorage::Stored);
        let first = pruned.learn("Bundle", &sent, &stored);
        assert_eq!(first, LifecycleStorage::FirstDropped("Bundle"));
        assert!(first.event().is_some() && first.first_event().is_some());
        let again = pruned.learn("Bundle", &sent, &stored);
        assert_eq!(again, LifecycleStorage::Dropped("Bundle"));
        assert!(again.event().is_some() && again.first_event().is_none());
        assert_eq!(
            pruned.learn("Bundle", &sent, &sent),
            LifecycleStorage::Stored,
            "the CRD was replaced"
        );
        assert_eq!(
            pruned.learn("Bundle", &sent, &stored),
            LifecycleStorage::FirstDropped("Bundle")
        );
        assert_eq!(
            Pruned::default().learn("Other", &of(json!({ "newer": 1 })), &stored),
            LifecycleStorage::Stored
        );
    }
}
