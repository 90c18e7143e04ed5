//! The wire types: Fleet's API (`fleet.cattle.io/v1alpha1`) as the API server stores it.
//!
//! They are lenient on purpose: every field may be missing, enums are strings so that newer values decode, and
//! [unknown fields](unknown_fields) of what is written back or passed on are kept. Validation is in `helmops_core::admit`.

#![warn(missing_docs)]

pub mod bundle;
pub mod bundle_deployment;
pub mod bundle_namespace_mapping;
pub mod cluster;
pub mod cluster_group;
pub mod cluster_registration;
pub mod condition;
pub mod content;
pub mod crds;
pub mod decoded;
pub mod diff;
pub mod free_form;
pub mod helm;
pub mod helmop;
pub mod json;
pub mod kind;
pub mod labels;
pub mod lifecycle;
mod lifecycle_rules;
pub mod limits;
pub mod merge_patch;
pub mod metadata;
pub mod metadata_only;
pub mod namespaced_name;
pub mod notifications;
pub mod options;
pub mod permission_object;
pub mod policy;
mod added_fields;
pub mod pruned_fields;
pub mod rollout;
#[doc(hidden)]
pub mod same_resource;
pub mod schedule;
pub mod schema;
pub mod status;
mod status_text;
pub mod target;
pub mod target_options;
pub mod timestamp;
pub mod unknown_fields;
pub mod weight;
pub mod wire;
mod wire_struct;

pub use bundle::{Bundle, BundleSpec};
pub use bundle_deployment::BundleDeployment;
pub use bundle_namespace_mapping::BundleNamespaceMapping;
pub use cluster::Cluster;
pub use cluster_group::ClusterGroup;
pub use cluster_registration::{ClusterRegistration, ClusterRegistrationToken};
pub use condition::Condition;
pub use content::Content;
pub use decoded::{Decoded, Unusable};
pub use helm::HelmOptions;
pub use helmop::{
    ArtifactReference, ArtifactSource, BucketSource, GitReference, GitSource, HelmOp, HelmOpSpec,
    HelmOpStatus, PackedChartSource, ResolvedChart, WithoutObjects, WithoutStatus,
};
pub use lifecycle::Lifecycle;
pub use metadata::Metadata;
pub use metadata_only::{MetadataOnly, MetadataWithManagers};
pub use namespaced_name::NamespacedName;
pub use notifications::{Alert, AlertProvider, Receiver};
pub use options::BundleDeploymentOptions;
pub use permission_object::PermissionObject;
pub use policy::{HelmOpPolicy, Policy};
pub use pruned_fields::PrunedFields;
pub use schedule::Schedule;
pub use status_text::ObjectName;
pub use target::BundleTarget;

#[cfg(test)]
mod tests;
