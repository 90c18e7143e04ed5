//! Which clusters a Bundle goes to.

use crate::api::BundleTarget;

/// Whether a target has any criterion; one without matches no cluster.
pub fn has_criteria(target: &BundleTarget) -> bool {
    !target.cluster_name.is_empty()
        || target.cluster_selector.is_some()
        || !target.cluster_group.is_empty()
        || target.cluster_group_selector.is_some()
}
