//! Applications of Argo CD, as HelmOps.
//!
//! ```text
//! Application ─► `source` (repository, chart, version), `login` ─┐
//!                `git`, `values`                                 ├─► Draft
//!                `sync` (retries, options), `drift`              │
//!                `release` (names, metadata, destination)       ─┘
//! ```
//!
//! Argo CD renders a chart with `helm template` and applies the objects: there is no release, and hooks are its own.

mod drift;
mod git;
mod login;
mod release;
mod source;
mod sync;
mod values;

use serde_json::Value;

use super::objects::{Conversion, Extent, content, documents::Document};

const GROUP: &str = "argoproj.io";
const MANY: &str = "it makes Applications: convert these (kubectl get applications -n argocd -o yaml); one HelmOp with targets can replace those that differ in their cluster only";

/// How an Application becomes a HelmOp.
pub const CONVERSION: Conversion = Conversion {
    kind: "Application",
    marks: &[GROUP, "Application"],
    none: (
        "there is no Application of argoproj.io with a source",
        "print one with: kubectl get application NAME -n argocd -o yaml",
    ),
    is_own: |document| is(document, "Application"),
    extent,
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

/// Argo CD requires the URL of each source.
fn extent(document: &Document) -> Extent {
    let has = |field: &str| document.has(&format!("/spec/{field}"));
    let several = document.object.pointer("/spec/sources").and_then(Value::as_array);
    let several = several.filter(|sources| !sources.is_empty());
    let is_whole = has("sourceHydrator")
        || match several {
            Some(sources) => sources.iter().all(|source| source.get("repoURL").is_some()),
            None => has("source/repoURL"),
        };
    if is_whole {
        Extent::Whole
    } else if has("source") || has("sources") {
        Extent::Partial
    } else {
        Extent::Patch
    }
}

#[cfg(test)]
mod tests;
