//! The Content: the files of a chart or a Bundle, for the agents of all clusters.

use super::{
    kind::{TypeMeta, cluster_kind},
    metadata::Metadata,
    wire_struct::wire,
};

wire! {
    /// The files of a chart or a Bundle, for the agents of all clusters.
    pub struct Content: [type_meta: TypeMeta<Content>] {
        /// The name is the ID of the content, which the deployment IDs of BundleDeployments start with.
        "metadata" => metadata: Metadata,
        /// The files as JSON, compressed with gzip, in base64.
        #[schemars(extend("format" = "byte"))]
        "content" | nullable => content: String,
        /// The SHA-256 sum of the files as JSON, before the compression.
        "sha256sum" => sha256sum: String,
        /// Internal: written by Fleet's controller.
        "status" => status: Option<ContentStatus>,
    }
}

wire! {
    /// What Fleet's controller counts.
    pub struct ContentStatus {
        /// The number of BundleDeployments that have the label `fleet.cattle.io/content-name` with the name of the Content.
        "referenceCount" => reference_count: i64,
    }
}

cluster_kind!(Content, "contents");
