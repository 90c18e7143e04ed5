//! Whether the API server stores the fields of the status of a HelmOp that Fleet's CRD does not have.

use std::sync::Mutex;

use helmops_api::{HelmOpStatus, status::StatusBase};
use helmops_core::status::without_extras;
use helmops_process::lock;

use crate::watch::ListCount;

/// Learns from the responses to writes. What is known is forgotten when HelmOps are listed again, because their CRD may have changed: then
/// another write shows it.
#[derive(Debug, Default)]
pub struct OwnStatus {
    lists: ListCount,
    missing: Mutex<Missing>,
}

/// How often HelmOps were listed when fields were missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    /// The fields that only helmops has.
    own: Option<u64>,
    /// The number of deployments that wait for others, which Fleet has since 0.16.2.
    waiting: Option<u64>,
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
    pub fn storable(&self, mut status: HelmOpStatus) -> HelmOpStatus {
        let (missing, now) = (*lock(&self.missing), Some(self.lists.get()));
        if missing.waiting == now
            && let Some(summary) = &mut status.base.summary
        {
            summary.waiting_for_dependency = 0;
        }
        if missing.own == now {
            without_extras(status)
        } else {
            status
        }
    }

    /// Learns from a write.
    pub fn learn(&self, sent: &HelmOpStatus, stored: Option<&HelmOpStatus>) {
        if waiting(&sent.base) > 0 {
            let is_kept = stored.is_some_and(|stored| waiting(&stored.base) > 0);
            lock(&self.missing).waiting = (!is_kept).then(|| self.lists.get());
        }
        if sent.observed_generation.is_none() {
            return;
        }
        let is_kept = stored.is_some_and(|stored| stored.observed_generation.is_some());
        let missing = (!is_kept).then(|| self.lists.get());
        let before = std::mem::replace(&mut lock(&self.missing).own, missing);
        if missing.is_some() && missing != before {
            tracing::info!(
                "the CRD of HelmOp in the cluster lacks status.observedGeneration: it is Fleet's own. The status is written without \
                 the fields that it lacks; install the CRDs of helmops to get them"
            );
        }
    }
}

fn waiting(base: &StatusBase) -> i64 {
    let summary = base.summary.as_ref();
    summary.map_or(0, |summary| summary.waiting_for_dependency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_an_older_crd_of_fleet_drops_is_not_sent_again() {
        let of = |summary: &str| serde_json::from_str::<HelmOpStatus>(summary).unwrap();
        let full = of(r#"{"summary":{"waitingForDependency":2,"notReady":1}}"#);
        let stored = of(r#"{"summary":{"notReady":1}}"#);
        let lists = ListCount::default();
        let own = OwnStatus::new(lists.clone());
        own.learn(&full, Some(&stored));
        assert_eq!(own.storable(full.clone()), stored);
        // What was not sent shows nothing.
        own.learn(&stored, Some(&stored));
        assert_eq!(own.storable(full.clone()), stored);
        lists.count();
        assert_eq!(own.storable(full.clone()), full);
        own.learn(&full, Some(&full));
        assert_eq!(own.storable(full.clone()), full);
    }

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
