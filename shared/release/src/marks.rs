//! The labels and annotations by which releases and their objects are found: those of Fleet and Helm.

use helmops_api::labels;
use serde_json::Value;

/// Label of each object of a release: the hash of its [`SetId`](crate::names::SetId).
pub const SET_HASH: &str = "objectset.rio.cattle.io/hash";
/// Annotation of each object of a release: its [`SetId`](crate::names::SetId).
pub const SET_ID: &str = "objectset.rio.cattle.io/id";
/// Label of an object that is not deleted with its set, with the value `false`.
pub const PRUNE: &str = "objectset.rio.cattle.io/prune";
/// Helm's annotation of objects that it does not delete, with the value [`KEEP`].
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// The value of [`RESOURCE_POLICY`].
pub const KEEP: &str = "keep";
/// Whether a value of [`RESOURCE_POLICY`] is [`KEEP`], in the letters that Helm accepts.
pub fn says_keep(policy: &str) -> bool {
    policy.trim().eq_ignore_ascii_case(KEEP)
}
/// Whether an object says that Helm does not delete it, with [`RESOURCE_POLICY`].
pub fn is_kept(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let policy = annotations.and_then(|annotations| annotations.get(RESOURCE_POLICY));
    policy.and_then(Value::as_str).is_some_and(says_keep)
}

/// Helm's annotation of each object of a release: the name of the release.
pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// Helm's annotation of each object of a release: the namespace of the release.
pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// Helm's annotation of hooks, which are no objects of a release.
pub const HOOK: &str = "helm.sh/hook";

/// The prefixes of all annotations that an agent gives to the chart of a release. A chart has none of its own with them.
pub const PREFIXES: [&str; 2] = ["fleet.cattle.io/", "helmops.fleet.cattle.io/"];
/// Annotation of the chart of a release: the BundleDeployment that it belongs to.
pub const BUNDLE_ID: &str = "fleet.cattle.io/bundle-id";
/// Annotation of the chart of a release: the namespace of the agent that manages it.
pub const AGENT_NAMESPACE: &str = "fleet.cattle.io/agent-namespace";
/// Annotation of the chart of a release: the ServiceAccount that it was installed as, or an empty text.
pub const SERVICE_ACCOUNT: &str = "fleet.cattle.io/service-account";
/// Annotation of the chart of a release: whether its objects stay when it is removed.
pub const KEEP_RESOURCES: &str = "fleet.cattle.io/keep-resources";
/// Annotation of the chart of a release: the commit of the BundleDeployment, if it has one.
pub const COMMIT: &str = "fleet.cattle.io/commit";
/// Annotation of the chart of a release: which [`Attempt`](crate::record::Attempt) wrote the record. Fleet has none.
pub const ATTEMPT: &str = labels::ATTEMPT;
/// Annotation of the chart of a release: the generation of the downstream resources that it was deployed with. Fleet has none.
pub const COPIES: &str = labels::DOWNSTREAM_RESOURCES_GENERATION;
/// Annotation of the chart of a release: the request that forced the attempt. Fleet has none.
pub const FORCED_BY: &str = labels::FORCED_BY;
/// An annotation of charts in records: the resolved version, where `Chart.yaml` has another one.
pub const RESOLVED_VERSION: &str = labels::RESOLVED_VERSION;
/// Label of the records of a release: what happens with it when its BundleDeployment is gone, an
/// [`OnDelete`](crate::record::OnDelete). Fleet has none.
pub const ON_DELETE: &str = labels::ON_DELETE;
/// Label of the record of a revision: its [`Acceptance`](crate::record::Acceptance). Fleet has none.
pub const ACCEPTANCE: &str = labels::ACCEPTANCE;
