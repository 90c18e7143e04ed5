//! HelmReleases of Flux, as HelmOps.
//!
//! ```text
//! HelmRelease ─► `source` (repository, chart, version, credentials)   ─┐
//!                `git`, `values`, `lifecycle`, `post_render`           ├─► Draft
//!                `release` (names), `actions`, `rest`                 ─┘
//! ```
//!
//! `variables` are those that Flux replaces, and nothing here does.

mod actions;
mod git;
mod lifecycle;
mod post_render;
mod release;
mod rest;
mod source;
mod values;
mod variables;

use serde_json::Value;

use super::objects::{Conversion, Extent, content, documents::Document};

/// The API groups of Flux that a file may have.
const HELM: &str = "helm.toolkit.fluxcd.io";
const SOURCE: &str = "source.toolkit.fluxcd.io";

/// How a HelmRelease becomes a HelmOp.
pub const CONVERSION: Conversion = Conversion {
    kind: "HelmRelease",
    marks: &["HelmRelease"],
    none: (
        "there is no HelmRelease of helm.toolkit.fluxcd.io with a chart",
        "print one with: kubectl get helmrelease NAME -o yaml",
    ),
    is_own: is_release,
    extent,
    is_referent,
    refused: |_| None,
    unused: |_| None,
    content: content_of,
    notes: variables::notes,
    draft: release::draft,
};

fn is_release(document: &Document) -> bool {
    document.group() == HELM && document.text("/kind") == "HelmRelease"
}

fn is_referent(document: &Document) -> bool {
    document.group() == SOURCE
        || (document.group().is_empty() && matches!(document.text("/kind"), "ConfigMap" | "Secret"))
}

/// Flux requires the names of a chart and of its source, or those of a `chartRef`.
fn extent(document: &Document) -> Extent {
    let has = |field: &str| document.has(&format!("/spec/{field}"));
    let [chart, source] = ["chart/spec/chart", "chart/spec/sourceRef"].map(has);
    let has_names = chart && has("chart/spec/sourceRef/name");
    if has_names || has("chartRef/kind") && has("chartRef/name") {
        Extent::Whole
    } else if chart || source || has("chartRef") {
        Extent::Partial
    } else {
        Extent::Patch
    }
}

/// The parts of an object that matter here to what refers to it.
fn content_of(document: &Document) -> Vec<Value> {
    let fields: &[&str] = match document.text("/kind") {
        "HelmRepository" => &[
            "url",
            "type",
            "provider",
            "insecure",
            "passCredentials",
            "secretRef",
            "certSecretRef",
        ],
        "GitRepository" => &[
            "url",
            "ref",
            "secretRef",
            "proxySecretRef",
            "provider",
            "serviceAccountName",
            "verify",
            "include",
            "suspend",
        ],
        // Nothing of it is converted.
        "Bucket" => &[],
        _ => return content(document),
    };
    let spec = document.object.get("spec");
    let field = |name: &&str| spec.and_then(|spec| spec.get(*name)).cloned().unwrap_or_default();
    fields.iter().map(field).collect()
}

#[cfg(test)]
mod tests;
