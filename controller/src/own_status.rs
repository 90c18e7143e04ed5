//! Whether the API server stores the fields of the status of a HelmOp that Fleet's CRD does not have.

use std::sync::Mutex;

use helmops_api::HelmOpStatus;
use helmops_core::status::without_extras;
use helmops_process::lock;

use crate::watch::ListCount;

/// Learns from the responses to writes. What is known is forgotten when HelmOps are listed again, because their CRD may have changed: then
/// another write shows it.
#[derive(Debug, Default)]
pub struct OwnStatus {
    lists: ListCount,
    /// How often HelmOps were listed when the fields were missing.
    missing: Mutex<Option<u64>>,
}

impl OwnStatus {
    /// Nothing is known yet of HelmOps, whose lists are counted.
    pub fn new(lists: ListCount) -> Self {
        Self {
            lists,
            missing: Mutex::default(),
        }
    }

    /// The part of a status that is stored, as far as is known.
    pub fn storable(&self, status: HelmOpStatus) -> HelmOpStatus {
        if *lock(&self.missing) == Some(self.lists.get()) {
            without_extras(status)
        } else {
            status
        }
    }

    /// Learns from a write.
    pub fn learn(&self, sent: &HelmOpStatus, stored: Option<&HelmOpStatus>) {
        if sent.observed_generation.is_none() {
            return;
        }
        let is_kept = stored.is_some_and(|stored| stored.observed_generation.is_some());
        let missing = (!is_kept).then(|| self.lists.get());
        let before = std::mem::replace(&mut *lock(&self.missing), missing);
        if missing.is_some() && missing != before {
            tracing::info!(
                "the CRD of HelmOp in the cluster lacks status.observedGeneration: it is Fleet's own. The status is written without \
                 the fields that it lacks; install the CRDs of helmops to get them"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_crd_lacks_is_not_sent_again_until_helmops_are_listed_again() {
        let full = HelmOpStatus {
            observed_generation: Some(1),
            ..HelmOpStatus::default()
        };
        let lists = ListCount::default();
        let own = OwnStatus::new(lists.clone());
        assert_eq!(own.storable(full.clone()), full);
        own.learn(&full, Some(&HelmOpStatus::default()));
        let storable = own.storable(full.clone());
        assert_eq!(storable.observed_generation, None);
        // What was not sent shows nothing.
        own.learn(&storable, Some(&HelmOpStatus::default()));
        assert_ne!(own.storable(full.clone()), full);
        // The CRD may have been replaced.
        lists.count();
        assert_eq!(own.storable(full.clone()), full);
        own.learn(&full, Some(&full));
        assert_eq!(own.storable(full.clone()), full);
    }
}
