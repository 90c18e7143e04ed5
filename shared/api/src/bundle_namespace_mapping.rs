//! The `BundleNamespaceMapping`: lets Bundles of one namespace target clusters of other namespaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    kind::{TypeMeta, kind},
    metadata::Metadata,
    wire_struct::wire,
};

wire! {
    /// Lets Bundles of its namespace target the clusters of other namespaces.
    pub struct BundleNamespaceMapping: [type_meta: TypeMeta<BundleNamespaceMapping>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Selects Bundles by their labels. Without it the mapping does nothing.
        "bundleSelector" | nullable => bundle_selector: Option<LabelSelector>,
        /// Selects namespaces by their labels. Without it the mapping does nothing.
        "namespaceSelector" | nullable => namespace_selector: Option<LabelSelector>,
    }
}

kind!(BundleNamespaceMapping, "bundlenamespacemappings");
