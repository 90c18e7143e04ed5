//! Differences between deployed and desired objects that are not drift.

use super::{unknown_fields::UnknownFields, wire_struct::wire};

wire! {
    /// Differences between deployed and desired objects that are not reported as drift.
    pub struct DiffOptions: [unknown: UnknownFields] {
        /// One entry for each object with a customized comparison.
        "comparePatches" | nullable => compare_patches: Vec<ComparePatch>,
    }
}

wire! {
    /// How an object is changed before it is compared.
    pub struct ComparePatch: [unknown: UnknownFields] {
        /// API version of the object, such as `apps/v1`.
        "apiVersion" | nullable => api_version: String,
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// Name of the object.
        "name" | nullable => name: String,
        /// Namespace of the object.
        "namespace" | nullable => namespace: String,
        /// Fields that are not compared, as JSON pointers (RFC 6901).
        "jsonPointers" | nullable => json_pointers: Vec<String>,
        /// JSON patch operations (RFC 6902) that are applied before the comparison.
        "operations" | nullable => operations: Vec<PatchOperation>,
    }
}

wire! {
    /// A JSON patch operation (RFC 6902).
    pub struct PatchOperation: [unknown: UnknownFields] {
        /// The operation, usually `remove`. `ignore` excludes the whole object from the comparison.
        "op" | nullable => op: String,
        /// The field, as a JSON pointer (RFC 6901).
        "path" | nullable => path: String,
        /// The value of an `add`, `replace` or `test` operation.
        "value" | nullable => value: String,
    }
}
