//! Watches of the Secrets and ConfigMaps that HelmOps and Bundles reference: a corrected password is used immediately, and
//! copied to the clusters.
//!
//! Only metadata is watched, and nothing is stored: a Secret is read when it is used.

use futures::{Stream, StreamExt, stream};
use helmops_api::{
    Bundle, BundleDeploymentOptions, Cluster, Decoded, HelmOp, MetadataOnly, PackedChartSource,
};
use helmops_core::{
    policy::Policies,
    targeting::copies::{self, CopyKind, SourceRef},
};
use helmops_kube::{NOT_RELEASES, ObjectCache, uncached_changes};
use helmops_policies::PolicyCache;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Resource, ResourceExt, runtime::watcher};
use tokio::sync::oneshot;

use super::claims::Claims;
use crate::{
    import::names_secret,
    work::{BundleKey, ClusterKey, HelmOpKey, Work},
};

/// What may name a Secret.
pub struct Named {
    pub helmops: ObjectCache<Decoded<HelmOp>>,
    pub policies: PolicyCache,
    /// If the bundle loop is enabled.
    pub bundles: Option<ObjectCache<Decoded<Bundle>>>,
    /// If clusters are imported.
    pub clusters: Option<ObjectCache<Decoded<Cluster>, Claims>>,
}

/// HelmOps that reference a changed Secret, and Bundles that copy it to clusters if the bundle loop is enabled. `synced` is
/// signalled when the first list is complete: later changes are observed.
pub fn of_secrets(
    api: Api<MetadataOnly<Secret>>,
    synced: oneshot::Sender<()>,
    named: Named,
) -> impl Stream<Item = Work> + Send {
    let Named {
        helmops,
        policies,
        bundles,
        clusters,
    } = named;
    let config = watcher::Config::default().fields(NOT_RELEASES);
    uncached_changes(api, config, synced).flat_map(move |secret| {
        let imported = clusters.as_ref().map(|clusters| imported_by(clusters, &secret));
        let imported = imported.into_iter().flatten().map(Work::Import);
        let named = helmops_naming(&helmops, &policies, &secret).into_iter();
        let copied = bundles
            .as_ref()
            .map(|bundles| copied_by(bundles, CopyKind::Secret, &secret));
        let copied = copied.into_iter().flatten();
        let affected = named.map(Work::HelmOp).chain(copied.map(Work::Bundle));
        let affected = affected.chain(imported);
        stream::iter(affected.collect::<Vec<_>>())
    })
}

/// Bundles that copy a changed ConfigMap to clusters, and HelmOps that deploy its keys.
pub fn of_config_maps(
    api: Api<MetadataOnly<ConfigMap>>,
    synced: oneshot::Sender<()>,
    helmops: ObjectCache<Decoded<HelmOp>>,
    bundles: ObjectCache<Decoded<Bundle>>,
) -> impl Stream<Item = Work> + Send {
    let changes = uncached_changes(api, watcher::Config::default(), synced);
    changes.flat_map(move |config_map| {
        let bundles = copied_by(&bundles, CopyKind::ConfigMap, &config_map);
        let helmops = deploying(&helmops, &config_map);
        let bundles = bundles.into_iter().map(Work::Bundle);
        stream::iter(
            bundles
                .chain(helmops.into_iter().map(Work::HelmOp))
                .collect::<Vec<_>>(),
        )
    })
}

/// The HelmOps that deploy the keys of a ConfigMap.
fn deploying(helmops: &ObjectCache<Decoded<HelmOp>>, config_map: &MetadataOnly<ConfigMap>) -> Vec<HelmOpKey> {
    let (namespace, name) = (config_map.namespace(), config_map.name_any());
    helmops.matching(|object| {
        let helmop = object
            .valid()
            .filter(|helmop| helmop.metadata.namespace == namespace);
        let packed = helmop.and_then(|helmop| helmop.spec.packed());
        matches!(packed, Some(PackedChartSource::ConfigMaps(all)) if all.iter().any(|one| one.name == name))
    })
}

/// The Clusters that name a Secret as their kubeconfig.
fn imported_by(
    clusters: &ObjectCache<Decoded<Cluster>, Claims>,
    secret: &MetadataOnly<Secret>,
) -> Vec<ClusterKey> {
    let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
    clusters.matching(|cluster| {
        cluster
            .valid()
            .is_some_and(|cluster| names_secret(cluster, &namespace, &name))
    })
}

/// The HelmOps that name a Secret, in their spec or by the default of a Policy.
fn helmops_naming(
    helmops: &ObjectCache<Decoded<HelmOp>>,
    policies: &PolicyCache,
    secret: &MetadataOnly<Secret>,
) -> Vec<HelmOpKey> {
    let (namespace, name) = (secret.namespace(), secret.name_any());
    let policies = namespace.as_deref().and_then(|namespace| policies.of(namespace));
    let none = Policies::default();
    helmops.matching(|object| match object {
        Decoded::Valid(helmop) if helmop.metadata.namespace == namespace => {
            let policies = policies.as_deref().unwrap_or(&none);
            name == policies.access_secret(&helmop.spec)
        }
        Decoded::Valid(_) | Decoded::Invalid { .. } => false,
    })
}

/// The Bundles that name an object as their access Secret, or in their downstream resources.
fn copied_by<K>(
    bundles: &ObjectCache<Decoded<Bundle>>,
    kind: CopyKind,
    object: &MetadataOnly<K>,
) -> Vec<BundleKey> {
    let namespace = object.metadata.namespace.as_deref();
    let source = SourceRef {
        kind,
        name: object.metadata.name.clone().unwrap_or_default(),
    };
    bundles.matching(|bundle| {
        bundle.meta().namespace.as_deref() == namespace
            && bundle
                .valid()
                .is_some_and(|bundle| copies_source(bundle, &source))
    })
}

fn copies_source(bundle: &Bundle, source: &SourceRef) -> bool {
    let spec = &bundle.spec;
    let is_access = spec
        .helm_op_options
        .as_ref()
        .is_some_and(|options| options.secret_name == source.name);
    let is_listed = |options: &BundleDeploymentOptions| {
        copies::downstream(options).is_ok_and(|sources| sources.contains(source))
    };
    (source.kind == CopyKind::Secret && is_access)
        || is_listed(&spec.options)
        || spec.targets.iter().any(|target| is_listed(&target.options))
}

#[cfg(test)]
mod tests {
    use helmops_api::Policy;
    use helmops_kube::key;
    use kube::core::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;

    fn secret(namespace: &str, name: &str) -> MetadataOnly<Secret> {
        MetadataOnly::from(ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn a_secret_affects_the_helmops_that_name_it() {
        let helmops = [
            ("a", "web", "access"),
            ("a", "db", "other"),
            ("b", "web", "access"),
        ];
        let helmop = |(namespace, name, secret)| -> Decoded<HelmOp> {
            let object = json!({
                "metadata": { "namespace": namespace, "name": name },
                "spec": { "helmSecretName": secret }
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let store: ObjectCache<_> = helmops.into_iter().map(helmop).collect();
        let policies = PolicyCache::default();
        let named = |namespace, name| helmops_naming(&store, &policies, &secret(namespace, name)).len();
        assert_eq!(
            [named("a", "access"), named("b", "access"), named("c", "access")],
            [1, 1, 0]
        );
        assert_eq!(
            helmops_naming(&store, &policies, &secret("a", "access")),
            [key("a", "web")]
        );
    }

    #[test]
    fn a_config_map_affects_the_helmops_that_deploy_its_keys() {
        let helmop = |(namespace, name): (&str, &str)| -> Decoded<HelmOp> {
            let source = json!({ "configMaps": [{ "name": "first" }, { "name": name }], "manifests": {} });
            let object = json!({
                "metadata": { "namespace": namespace, "name": name },
                "spec": { "chartSource": source }
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let store: ObjectCache<_> = [("a", "web"), ("a", "db"), ("b", "web")]
            .into_iter()
            .map(helmop)
            .collect();
        let deploying = |namespace: &str, name: &str| {
            let metadata = ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            };
            deploying(&store, &MetadataOnly::from(metadata)).len()
        };
        assert_eq!(
            [
                deploying("a", "web"),
                deploying("a", "first"),
                deploying("c", "web")
            ],
            [1, 2, 0]
        );
    }

    #[test]
    fn the_default_secret_of_a_policy_affects_helmops_without_a_secret() {
        let git = json!({ "git": { "url": "https://h/n.git", "secretRef": { "name": "git" } } });
        let helmops = [("web", json!({})), ("git", json!({ "chartSource": git }))];
        let helmop = |(name, spec): (&str, Value)| -> Decoded<HelmOp> {
            let object = json!({ "metadata": { "namespace": "a", "name": name }, "spec": spec });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let store: ObjectCache<_> = helmops.into_iter().map(helmop).collect();
        let policy = json!({
            "metadata": { "namespace": "a", "name": "p" },
            "helmOp": { "defaultHelmSecretName": "shared" }
        });
        let policy: Decoded<Policy> = serde_json::from_str(&policy.to_string()).unwrap();
        let policies: PolicyCache = [policy].into_iter().collect();
        let named = |name| helmops_naming(&store, &policies, &secret("a", name));
        assert_eq!(named("shared"), [key("a", "web")]);
        assert_eq!(named("git"), [key("a", "git")], "a chart in Git has no default");
        assert_eq!(helmops_naming(&store, &policies, &secret("a", "other")), []);
    }

    #[test]
    fn a_kubeconfig_affects_the_clusters_that_name_it() {
        let clusters = [
            ("a", "one", json!({ "kubeConfigSecret": "access" })),
            ("a", "other", json!({ "kubeConfigSecret": "other" })),
            (
                "b",
                "two",
                json!({ "kubeConfigSecret": "access", "kubeConfigSecretNamespace": "a" }),
            ),
            ("b", "none", json!({})),
        ];
        let cluster = |(namespace, name, spec): (&str, &str, Value)| -> Decoded<Cluster> {
            let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let store: ObjectCache<_, Claims> = clusters.into_iter().map(cluster).collect();
        let mut names: Vec<_> = imported_by(&store, &secret("a", "access"))
            .into_iter()
            .map(|key| key.name)
            .collect();
        names.sort();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(imported_by(&store, &secret("b", "access")), []);
    }

    #[test]
    fn a_copied_object_affects_the_bundles_that_copy_it() {
        let of_target =
            json!({ "targets": [{ "downstreamResources": [{ "kind": "configmap", "name": "access" }] }] });
        let bundles = [
            (
                "a",
                "access",
                json!({ "helmOpOptions": { "helmOpSecretName": "access" } }),
            ),
            (
                "a",
                "downstream",
                json!({ "downstreamResources": [{ "kind": "Secret", "name": "access" }] }),
            ),
            ("a", "target", of_target),
            (
                "b",
                "access",
                json!({ "helmOpOptions": { "helmOpSecretName": "access" } }),
            ),
        ];
        let bundle = |(namespace, name, spec): (&str, &str, Value)| -> Decoded<Bundle> {
            let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let store: ObjectCache<_> = bundles.into_iter().map(bundle).collect();
        let names = |kind| {
            let mut names: Vec<_> = copied_by(&store, kind, &secret("a", "access"))
                .into_iter()
                .map(|bundle| bundle.name)
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(CopyKind::Secret), ["access", "downstream"]);
        assert_eq!(names(CopyKind::ConfigMap), ["target"]);
    }
}
