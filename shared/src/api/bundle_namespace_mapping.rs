//! The `BundleNamespaceMapping`: clusters of other namespaces for the Bundles of this one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    kind::{Types, kind},
    metadata::Metadata,
    wire::wire,
};

wire! {
    /// Lets Bundles of its namespace reach the clusters of other namespaces.
    pub struct BundleNamespaceMapping: [types: Types<BundleNamespaceMapping>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Selects Bundles by their labels. Without it the mapping does nothing.
        "bundleSelector" | nullable => bundle_selector: Option<LabelSelector>,
        /// Selects namespaces by their labels. Without it the mapping does nothing.
        "namespaceSelector" | nullable => namespace_selector: Option<LabelSelector>,
    }
}

kind!(BundleNamespaceMapping, "bundlenamespacemappings");
