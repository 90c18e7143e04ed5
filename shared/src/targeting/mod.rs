//! Which clusters a Bundle goes to.

pub mod go_json;
pub mod template;

use crate::api::target::ClusterCriteria;

/// Whether there is any criterion; without one no cluster belongs.
pub fn has_criteria(criteria: &ClusterCriteria) -> bool {
    !criteria.cluster_name.is_empty()
        || criteria.cluster_selector.is_some()
        || !criteria.cluster_group.is_empty()
        || criteria.cluster_group_selector.is_some()
}
