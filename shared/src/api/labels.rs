//! Labels, annotations and finalizers of Fleet's objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Label with the name of the HelmOp, on its Bundle and its BundleDeployments.
pub const HELM_NAME: &str = "fleet.cattle.io/fleet-helm-name";
/// Label with the namespace of the Bundle, on its BundleDeployments, which stand in the namespaces of clusters.
pub const BUNDLE_NAMESPACE: &str = "fleet.cattle.io/bundle-namespace";
/// Label with the name of the Bundle, on its BundleDeployments.
pub const BUNDLE_NAME: &str = "fleet.cattle.io/bundle-name";
/// Label on what Fleet, or this in its place, made and cleans up: `true`.
pub const MANAGED: &str = "fleet.cattle.io/managed";
/// Label on a Cluster with the name that Rancher shows, by which targets can name it too.
pub const CLUSTER_DISPLAY_NAME: &str = "management.cattle.io/cluster-display-name";
/// Label with the name of the Cluster, on its BundleDeployments; annotation on its namespace.
pub const CLUSTER: &str = "fleet.cattle.io/cluster";
/// Label with the namespace that the Cluster object is in, on its BundleDeployments; annotation on the cluster's own
/// namespace.
pub const CLUSTER_NAMESPACE: &str = "fleet.cattle.io/cluster-namespace";
/// Label with the name of the shard that works on an object; without it the default one does.
pub const SHARD: &str = "fleet.cattle.io/shard-ref";
/// Label that Rancher puts on what its users make, with the user's id.
pub const CREATED_BY: &str = "fleet.cattle.io/created-by-user-id";
/// Annotation on a HelmOp that asks for one look for newer versions now. Its value is a token of the user's choice, such as
/// the time: each new one asks for one look.
pub const POLL: &str = "helmops.fleet.cattle.io/poll-requested-at";
/// Annotation on a Bundle with the last token of [`POLL`] that has had its look.
pub const POLLED: &str = "helmops.fleet.cattle.io/last-handled-poll";
/// Label on Secrets and ConfigMaps that were put into the namespace of a cluster: what they are there for.
pub const COPY: &str = "helmops.fleet.cattle.io/copy-type";
/// Annotation on such a copy with what it was made from, and on a BundleDeployment with what the resources were made from
/// that its agent copies.
pub const MADE_FROM: &str = "helmops.fleet.cattle.io/copied-from";
/// Annotation on a Secret with values: the IDs of the deployments that they are of, and that come next.
pub const VALUES_OF: &str = "helmops.fleet.cattle.io/values-for";
/// Label on copies of access Secrets, as Fleet has it: `true`.
pub const INTERNAL_SECRET: &str = "fleet.cattle.io/bundle-internal-secret";
/// Finalizer on Bundles, removed once none of their BundleDeployments is left: they are in other namespaces, where
/// no garbage collector finds them.
pub const BUNDLE_FINALIZER: &str = "fleet.cattle.io/bundle-finalizer";
/// Finalizer that Fleet's own controller leaves on HelmOps. This one needs none: Bundles are owned by their HelmOp.
pub const HELMOP_FINALIZER: &str = "fleet.cattle.io/helmop-finalizer";
/// Finalizer on BundleDeployments, removed once what they deployed is gone.
pub const BUNDLE_DEPLOYMENT_FINALIZER: &str = "fleet.cattle.io/bundle-deployment-finalizer";
/// Annotation on a Bundle with what its versions were resolved from, as JSON: a list of
/// [`ResolvedChart`](super::ResolvedChart).
///
/// It stands on the Bundle so that it is written together with the version, survives a lost status, and needs no
/// field that Fleet's own CRDs lack.
pub const RESOLVED: &str = "helmops.fleet.cattle.io/resolved";

/// A label of an object, if it says anything.
pub fn of<'m>(metadata: &'m ObjectMeta, label: &str) -> Option<&'m str> {
    let value = metadata.labels.as_ref()?.get(label)?;
    (!value.is_empty()).then_some(value)
}
