//! Which clusters a Bundle goes to, what each of them gets, and when.
//!
//! ```text
//! scope ─► criteria ─► matching ─► merge ─► values ─► identity ─► target ─► rollout ─► deployment
//! where    which       which       its      labels,   which       what is   whose      what is
//! to look  clusters    target?     options  templates one is it?  to be     turn?      written
//! ```
//!
//! The same Bundles and Clusters give the same deployments as in Fleet, with the same IDs, so that no agent deploys again
//! when this controller takes over. Where Fleet's own way helps nobody, this differs, and only where the meaning of an
//! object that works there does not change:
//!
//! - A target whose values cannot be made (a wrong template, a value that its Cluster lacks) gets nothing new. In Fleet no
//!   cluster of the Bundle does. It holds back no partition either.
//! - `-` for a namespace or ServiceAccount in a target clears the Bundle's, as Fleet's code means to; there it becomes the
//!   name, which is none.
//! - A cluster that several partitions have counts in the first one alone; in Fleet it is counted in each. Clusters that are in
//!   no ClusterGroup can belong to partitions.
//! - A cluster whose namespace is not known yet takes no place among the `maxNew` new ones.
//! - Template functions that give another result each time are errors, see [`template`].
//! - Clusters of one name in several namespaces have a fixed order.
//! - A deployment whose Secret is lost or was changed gets it anew where the values follow from what is wanted, and
//!   waits where they do not. In Fleet nothing of the Bundle is looked at meanwhile.
//!
//! Kept, although one might wish otherwise, because clusters would change without anybody having asked for it: templates
//! are not rendered for clusters without labels, clusters that no partition has get nothing (the plan lists them), many
//! options of targets are without effect (see [`merge`]), and `namespaceLabels` and `namespaceAnnotations` of each target
//! reach all clusters at once.

pub mod cluster_namespace;
pub mod copies;
pub mod criteria;
pub mod deployment;
pub mod go_json;
mod group;
pub mod identity;
pub(crate) mod index;
mod kept;
pub mod matching;
pub mod merge;
pub mod names;
pub mod rollout;
pub mod scope;
pub mod selector;
pub mod target;
pub mod template;
pub mod values;

pub use self::{
    cluster_namespace::{NamespaceRefused, namespace_of},
    criteria::{Group, Member},
    deployment::deployment,
    rollout::{Rollout, RolloutStep, plan},
    target::{Target, TargetError, cluster_of, orphans, strays, targets},
};

use crate::api::target::ClusterCriteria;

/// Whether there is any criterion; without one no cluster belongs.
pub fn has_criteria(criteria: &ClusterCriteria) -> bool {
    !criteria.cluster_name.is_empty()
        || criteria.cluster_selector.is_some()
        || !criteria.cluster_group.is_empty()
        || criteria.cluster_group_selector.is_some()
}
