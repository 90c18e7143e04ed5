//! The namespace of a release.

use std::collections::BTreeMap;

use helmops_api::BundleDeploymentOptions;
use helmops_core::targeting::selector::Selector;
use helmops_release::report::Blocked;
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::error::{AgentError, Lacking};

/// The field manager of labels and annotations of namespaces. It is not that of releases: a chart may contain its namespace.
const FIELD_MANAGER: &str = "helmops-agent";
/// Labels that only cluster administrators set.
const PROTECTED: [&str; 2] = ["kubernetes.io/metadata.name", "pod-security.kubernetes.io/"];

/// Checks `allowedTargetNamespaceSelector`: the namespace must exist, and have these labels.
///
/// # Errors
/// If it does not.
pub async fn check_selector(
    client: &Client,
    options: &BundleDeploymentOptions,
    namespace: &str,
) -> Result<(), AgentError> {
    let Some(allowed) = &options.allowed_target_namespace_selector else {
        return Ok(());
    };
    let blocked = |blocked| Err(Lacking::Blocked(blocked).into());
    let selector = match Selector::new("allowedTargetNamespaceSelector", allowed) {
        Ok(selector) => selector,
        Err(error) => {
            return blocked(Blocked::InvalidNamespaceSelector {
                error: error.to_string(),
            });
        }
    };
    let api = Api::<Namespace>::all(client.clone());
    let found = bounded(api.get_metadata_opt(namespace)).await;
    let found = found.map_err(CallError::of("read", format_args!("Namespace {namespace}")))?;
    let Some(found) = found else {
        return blocked(Blocked::NamespaceMissing {
            namespace: namespace.to_owned(),
        });
    };
    let labels = found.metadata.labels.unwrap_or_default();
    if selector.matches(Some(&labels)) {
        return Ok(());
    }
    blocked(Blocked::NamespaceNotAllowed {
        namespace: namespace.to_owned(),
        selector: serde_json::to_string(allowed).unwrap_or_default(),
        labels,
    })
}

/// Applies `namespaceLabels` and `namespaceAnnotations`. What they no longer list is removed; labels and annotations of others stay.
///
/// # Errors
/// If the account that deploys may not change the namespace.
pub async fn apply_metadata(
    deployer: &Client,
    options: &BundleDeploymentOptions,
    namespace: &str,
) -> Result<(), ApiError> {
    let labels = allowed(&options.namespace_labels);
    let metadata =
        json!({ "name": namespace, "labels": labels, "annotations": options.namespace_annotations });
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let api = Api::<Namespace>::all(deployer.clone());
    bounded(api.patch_metadata(namespace, &params, &Patch::Apply(object))).await?;
    Ok(())
}

fn allowed(labels: &BTreeMap<String, String>) -> BTreeMap<&String, &String> {
    let is_protected = |key: &str| PROTECTED.iter().any(|protected| key.starts_with(protected));
    labels.iter().filter(|(key, _)| !is_protected(key)).collect()
}
