//! Applications of Argo CD, as HelmOps.
//!
//! ```text
//! Application ─► `source` (repository, chart, version), `login` ─┐
//!                `values`                                        ├─► Draft
//!                `sync` (retries, options), `drift`              │
//!                `release` (names, metadata, destination)       ─┘
//! ```
//!
//! Argo CD renders a chart with `helm template` and applies the objects: there is no release, and hooks are its own.

mod drift;
mod login;
mod release;
mod source;
mod sync;
mod values;

use super::objects::{Conversion, content, documents::Document};

const GROUP: &str = "argoproj.io";
const MANY: &str = "it makes Applications: convert these (kubectl get applications -n argocd -o yaml); one HelmOp with targets can replace those that differ in their cluster only";

/// How an Application becomes a HelmOp.
pub const CONVERSION: Conversion = Conversion {
    kind: "Application",
    mark: GROUP,
    none: (
        "there is no Application of argoproj.io with a source",
        "print one with: kubectl get application NAME -n argocd -o yaml",
    ),
    is_own: |document| is(document, "Application"),
    is_patch,
    is_referent,
    refused: |document| is(document, "ApplicationSet").then_some(MANY),
    unused: |_| None,
    content,
    notes: |_| Vec::new(),
    draft: release::draft,
};

fn is(document: &Document, kind: &str) -> bool {
    document.group() == GROUP && document.text("/kind") == kind
}

/// Secrets with logins, and files of values.
fn is_referent(document: &Document) -> bool {
    is_values(document) || document.group().is_empty() && document.text("/kind") == "Secret"
}

/// Whether a file has values: these may have a kind, but no version of an API.
fn is_values(document: &Document) -> bool {
    document.object.get("apiVersion").is_none()
}

/// Whether an Application has no source: so it is a part of another one, which kustomize merges.
fn is_patch(document: &Document) -> bool {
    let has = |field: &str| document.object.pointer(&format!("/spec/{field}")).is_some();
    is(document, "Application") && !["source", "sources", "sourceHydrator"].into_iter().any(has)
}

#[cfg(test)]
mod tests;
