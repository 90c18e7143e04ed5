//! The namespace of a release.

use std::collections::BTreeMap;

use helmops_api::BundleDeploymentOptions;
use helmops_kube::path_segment;
use helmops_model::selector::Selector;
use helmops_release::{
    names::ReleaseKey,
    record::{SECRET_SELECTOR, SECRET_TYPE},
    report::Blocked,
};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::MANAGER;
use crate::error::{AgentError, Lacking};

/// Labels that only cluster administrators set.
const PROTECTED: [&str; 2] = ["kubernetes.io/metadata.name", "pod-security.kubernetes.io/"];

/// The namespace that cannot be deleted.
const DEFAULT: &str = "default";
/// The start of the names of namespaces of Kubernetes itself.
const OF_KUBERNETES: &str = "kube-";

/// Creates a namespace with the permissions of `deployer`, if it does not exist. `agent` looks for it: an account that may neither read
/// nor create namespaces may still use one that exists.
///
/// # Errors
/// If it cannot be created.
pub async fn create_namespace(agent: &Client, deployer: &Client, name: &str) -> Result<(), CallError> {
    let found = Api::<Namespace>::all(agent.clone());
    if matches!(
        bounded(found.get_metadata_opt(&path_segment(name))).await,
        Ok(Some(_))
    ) {
        return Ok(());
    }
    let api = Api::<Namespace>::all(deployer.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    // As Helm creates it.
    namespace.metadata.labels = Some([("name".to_owned(), name.to_owned())].into());
    match bounded(api.create(&PostParams::default(), &namespace)).await {
        Ok(_) => Ok(()),
        Err(error) if ApiError::exists_already(&error) => Ok(()),
        Err(error) => Err(CallError::of("create", format_args!("Namespace {name}"))(error)),
    }
}

/// Deletes the namespace of a removed release as the account that has deployed it, unless it has other releases or belongs to the cluster
/// or the agent. `is_shared`: it has objects of other releases, whose records may be elsewhere.
///
/// # Errors
/// If it cannot be read or deleted.
pub async fn delete_namespace(
    client: &Client,
    deployer: &Client,
    release: &ReleaseKey,
    agent_namespace: &str,
    is_shared: bool,
) -> Result<(), CallError> {
    let name = &*release.namespace;
    let is_kept = is_shared || name == agent_namespace || is_of_cluster(name);
    let records = Api::<Secret>::namespaced(client.clone(), &path_segment(name));
    let params = ListParams::default()
        .labels(&others(release))
        .fields(&format!("type={SECRET_TYPE}"))
        .limit(1);
    let listed = bounded(records.list_metadata(&params)).await;
    let listed = listed.map_err(CallError::of(
        "list",
        format_args!("the releases of namespace {name}"),
    ))?;
    if is_kept || !listed.items.is_empty() {
        tracing::warn!(
            name,
            "the namespace is kept: it has other releases, or belongs to the cluster or the agent"
        );
        return Ok(());
    }
    let api = Api::<Namespace>::all(deployer.clone());
    match bounded(api.delete(&path_segment(name), &DeleteParams::default())).await {
        Ok(_) => Ok(()),
        Err(error) if ApiError::is_not_found(&error) => Ok(()),
        Err(error) => Err(CallError::of("delete", format_args!("Namespace {name}"))(error)),
    }
}

/// The selector of the records of other releases in the namespace of a release.
fn others(release: &ReleaseKey) -> String {
    if release.has_records_elsewhere() {
        return SECRET_SELECTOR.to_owned();
    }
    format!("{SECRET_SELECTOR},name!={}", release.name)
}

/// Whether a namespace belongs to the cluster itself.
fn is_of_cluster(name: &str) -> bool {
    name == DEFAULT || name.starts_with(OF_KUBERNETES)
}

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
    let found = bounded(api.get_metadata_opt(&path_segment(namespace))).await;
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

/// The labels and annotations of a namespace cannot be set.
#[derive(Debug)]
pub struct MetadataError {
    /// What the account that deploys did, as a verb of RBAC.
    pub verb: &'static str,
    /// The error of the API server.
    pub source: ApiError,
}

impl MetadataError {
    fn of(verb: &'static str) -> impl FnOnce(ApiError) -> Self {
        move |source| Self { verb, source }
    }
}

/// Applies `namespaceLabels` and `namespaceAnnotations`. What they no longer list is removed; labels and annotations of others stay.
///
/// # Errors
/// If the account that deploys may not change the namespace.
pub async fn apply_metadata(
    deployer: &Client,
    options: &BundleDeploymentOptions,
    namespace: &str,
) -> Result<(), MetadataError> {
    let labels = allowed(&options.namespace_labels);
    let metadata =
        json!({ "name": namespace, "labels": labels, "annotations": options.namespace_annotations });
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    let params = PatchParams::apply(MANAGER.0).force();
    let api = Api::<Namespace>::all(deployer.clone());
    let applied = bounded(api.patch_metadata(&path_segment(namespace), &params, &Patch::Apply(object))).await;
    applied.map_err(MetadataError::of("patch"))?;
    Ok(())
}

/// Applies `namespaceLabels` and `namespaceAnnotations` if one of them is missing or has another value.
///
/// # Errors
/// If the account that deploys may not read or change the namespace.
pub async fn restore_metadata(
    deployer: &Client,
    options: &BundleDeploymentOptions,
    namespace: &str,
) -> Result<(), MetadataError> {
    let api = Api::<Namespace>::all(deployer.clone());
    let live = bounded(api.get_metadata(&path_segment(namespace))).await;
    let live = live.map_err(MetadataError::of("get"))?;
    if has_metadata(&live.metadata, options) {
        return Ok(());
    }
    apply_metadata(deployer, options, namespace).await
}

fn has_metadata(live: &ObjectMeta, options: &BundleDeploymentOptions) -> bool {
    let value = |all: &Option<BTreeMap<String, String>>, key: &str| all.as_ref()?.get(key).cloned();
    let annotations = &options.namespace_annotations;
    allowed(&options.namespace_labels)
        .into_iter()
        .all(|(key, label)| value(&live.labels, key).as_ref() == Some(label))
        && annotations
            .iter()
            .all(|(key, annotation)| value(&live.annotations, key).as_ref() == Some(annotation))
}

fn allowed(labels: &BTreeMap<String, String>) -> BTreeMap<&String, &String> {
    let is_protected = |key: &str| PROTECTED.iter().any(|protected| key.starts_with(protected));
    labels.iter().filter(|(key, _)| !is_protected(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        pairs.collect()
    }

    #[test]
    fn namespaces_of_the_cluster_are_known_by_their_whole_name() {
        let of_cluster = ["default", "kube-system", "kube-public"];
        assert!(of_cluster.iter().all(|name| is_of_cluster(name)));
        let others = ["default-shop", "defaults", "kubeflow", "shop-default"];
        assert!(!others.iter().any(|name| is_of_cluster(name)));
    }

    #[test]
    fn metadata_of_a_namespace_are_written_again_only_if_one_is_missing_or_changed() {
        let options = BundleDeploymentOptions {
            namespace_labels: map(&[
                ("team", "a"),
                ("pod-security.kubernetes.io/enforce", "privileged"),
            ]),
            namespace_annotations: map(&[("owner", "o")]),
            ..BundleDeploymentOptions::default()
        };
        let live = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| ObjectMeta {
            labels: Some(map(labels)),
            annotations: Some(map(annotations)),
            ..ObjectMeta::default()
        };
        for (labels, annotations, is_complete) in [
            (
                &[("team", "a"), ("of-others", "x")][..],
                &[("owner", "o")][..],
                true,
            ),
            (&[("team", "b")], &[("owner", "o")], false),
            (&[], &[("owner", "o")], false),
            (&[("team", "a")], &[("owner", "x")], false),
            (&[("team", "a")], &[], false),
        ] {
            let live = live(labels, annotations);
            assert_eq!(has_metadata(&live, &options), is_complete, "{live:?}");
        }
        assert!(!has_metadata(&ObjectMeta::default(), &options));
    }
}
