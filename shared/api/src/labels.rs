//! Labels, annotations and finalizers of Fleet's objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation of `kubectl apply`, which has the whole object as it was applied, with its nulls. It is no key of Fleet's.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The value of [`CONTENT`] on the Content with the name of an ID.
pub const CONTENT_HEAD: &str = "head";
/// The value of [`CONTENT`] on a part of split content.
pub const CONTENT_PART: &str = "part";
/// The value of [`CONTENT`] on a Content of another client that has the files of a chart, too: it is never deleted.
pub const CONTENT_SHARED: &str = "shared";

/// How a key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// A label.
    Label,
    /// An annotation.
    Annotation,
    /// A label on some objects and an annotation on others.
    Both,
    /// A finalizer.
    Finalizer,
}

impl KeyType {
    /// The text for the reference page.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Annotation => "annotation",
            Self::Both => "label, annotation",
            Self::Finalizer => "finalizer",
        }
    }
}

/// Declares the keys: how they are used, on which objects, and what they mean.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident: $use:ident on $objects:literal = $key:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = $key;)*

        /// Every key, how it is used, on which objects, and what it means.
        pub const ALL: &[(&str, KeyType, &str, &str)] =
            &[$(($key, KeyType::$use, $objects, concat!($($doc,)+).trim_ascii()),)*];
    };
}

keys! {
    /// Requests a poll for newer chart versions. The value is a token of your choice, such as the time: each new value
    /// requests one poll.
    POLL_REQUESTED_AT: Annotation on "HelmOp" = "helmops.fleet.cattle.io/poll-requested-at";
    /// The last value of `poll-requested-at` that was handled.
    LAST_HANDLED_POLL: Annotation on "Bundle" = "helmops.fleet.cattle.io/last-handled-poll";
    /// Requests a reconciliation on each cluster: the next attempt to deploy is made immediately. The value is a token of your choice
    /// of at most 253 bytes, such as the time: each new value is handled once by each agent.
    RECONCILE_REQUESTED_AT: Annotation on "HelmOp" = "helmops.fleet.cattle.io/reconcile-requested-at";
    /// Requests that the release is deployed again on each cluster, although nothing has changed; a token as above.
    FORCE_REQUESTED_AT: Annotation on "HelmOp" = "helmops.fleet.cattle.io/force-requested-at";
    /// Requests that failed attempts are forgotten on each cluster, so that all retries are available again; a token as above.
    RESET_REQUESTED_AT: Annotation on "HelmOp" = "helmops.fleet.cattle.io/reset-requested-at";
    /// Approves a rollout: its ID, as `status.rollout.id` of the Bundle has it; with `/` and the name of a partition, only up to that one.
    /// `kubectl helmop approve` writes it. See [standalone](../standalone.md#approval).
    APPROVED_ROLLOUT: Annotation on "HelmOp, Bundle" = "helmops.fleet.cattle.io/approved-rollout";
    /// Resumes a rollout that is halted: its ID, `/`, and the number of clusters that may have failed. `kubectl helmop rollout resume` writes it.
    /// See [standalone](../standalone.md#failures).
    RESUMED_ROLLOUT: Annotation on "HelmOp, Bundle" = "helmops.fleet.cattle.io/resumed-rollout";
    /// The rollouts that have failed and are not tried again, and the charts that the HelmOp wants while something else stays deployed. See
    /// [standalone](../standalone.md#rollback).
    FAILED_ROLLOUTS: Annotation on "Bundle" = "helmops.fleet.cattle.io/failed-rollouts";
    /// Denies the deletion of the HelmOp, if the [admission policy](../admission-policies.md) `protected.yaml` is applied and the value is
    /// not `false`.
    PROTECTED: Annotation on "HelmOp" = "helmops.fleet.cattle.io/protected";
    /// The version or range that the HelmOp had before `kubectl helmop rollback` replaced it; `rollback --undo` restores it.
    VERSION_BEFORE_ROLLBACK: Annotation on "HelmOp" = "helmops.fleet.cattle.io/version-before-rollback";
    /// The trace of the roll-out, as W3C Trace Context has it. Written only with `--otlp-endpoint`, together with a change of the spec.
    TRACEPARENT: Annotation on "Bundle, BundleDeployment" = "helmops.fleet.cattle.io/traceparent";
    // It is on the Bundle so that it is written together with the version, survives a lost status, and needs no field that
    // Fleet's CRDs lack.
    /// The resolved chart versions and what they were resolved from, as JSON; on a BundleDeployment the one that is deployed, with
    /// the digest that its archive must have.
    RESOLVED: Annotation on "Bundle, BundleDeployment" = "helmops.fleet.cattle.io/resolved";
    /// Names of the fields of the HelmOp's spec that helmops does not know and has passed on to the Bundle, as JSON. They are
    /// removed from the Bundle when the HelmOp has them no more; others that helmops does not know stay.
    PASSED_FIELDS: Annotation on "Bundle" = "helmops.fleet.cattle.io/passed-fields";
    /// On what the controller has written, and deletes when nothing refers to it any more: `head` for the Content with the name of an ID,
    /// `part` for one of its parts; and `shared` on one of Fleet with the same files, which stays. Other Contents lack it. See
    /// [content](../content.md).
    CONTENT: Label on "Content" = "helmops.fleet.cattle.io/content";
    /// The number of bytes that are stored in the object.
    CONTENT_BYTES: Annotation on "Content" = "helmops.fleet.cattle.io/content-bytes";
    /// The names of the Contents that have the parts of this one, separated by commas.
    CONTENT_PARTS: Annotation on "Content" = "helmops.fleet.cattle.io/content-parts";
    /// When a HelmOp has used the content again that was there already, RFC 3339: a deletion that was decided before then fails.
    CONTENT_USED_AT: Annotation on "Content" = "helmops.fleet.cattle.io/content-used-at";
    /// Type of a copy in the namespace of a cluster: `values`, `access` or `downstream`.
    COPY_TYPE: Label on "Secret, ConfigMap" = "helmops.fleet.cattle.io/copy-type";
    /// On a copy the object that it was copied from, in its version; on a BundleDeployment the versions of the downstream
    /// resources that its agent copies.
    COPIED_FROM: Annotation on "Secret, ConfigMap, BundleDeployment" = "helmops.fleet.cattle.io/copied-from";
    /// The deployment IDs that the values are for: the current one and the staged one.
    VALUES_FOR: Annotation on "Secret" = "helmops.fleet.cattle.io/values-for";
    /// Namespace of the ClusterRegistration that the object exists for.
    REGISTRATION_NAMESPACE: Annotation on "ServiceAccount, Role, RoleBinding, Secret" = "fleet.cattle.io/cluster-registration-namespace";
    /// Name of the ClusterRegistration that the object exists for.
    REGISTRATION: Annotation on "ServiceAccount, Role, RoleBinding, Secret" = "fleet.cattle.io/cluster-registration";
    /// UID of the ClusterRegistration that the object exists for.
    REGISTRATION_UID: Annotation on "ServiceAccount, Role, RoleBinding, Secret" = "helmops.fleet.cattle.io/cluster-registration-uid";
    /// Namespace of the ClusterRegistration or ClusterRegistrationToken that the object exists for, to list it by.
    REGISTERED_IN: Label on "Secret, Role, RoleBinding" = "helmops.fleet.cattle.io/registered-in";
    /// `true` if the controller of helmops keeps the account of the agent; see [clusters](../cli/clusters.md).
    REGISTERED: Annotation on "ClusterRegistration" = "helmops.fleet.cattle.io/registered";
    /// Name of the ClusterRegistrationToken that the agent has used, as it says itself.
    REGISTRATION_TOKEN: Label on "ClusterRegistration" = "fleet.cattle.io/registration-token";
    /// If it is not empty, something else manages the agent, such as Rancher: the cluster is neither imported nor registered.
    CLUSTER_MANAGEMENT: Label on "Cluster, ClusterRegistration" = "fleet.cattle.io/cluster-management";
    /// Name of the pod whose agent has registered the cluster.
    CREATED_BY_AGENT_POD: Label on "Cluster" = "fleet.cattle.io/created-by-agent-pod";
    /// UID of a ClusterRegistration that may take the Cluster over, although its agent still reports.
    TAKEOVER_BY: Annotation on "Cluster" = "helmops.fleet.cattle.io/takeover-by";
    /// Digest of what `kubectl helmop cluster register` has given the agent to register with: with something else it starts again.
    REGISTERS_WITH: Annotation on "Pod" = "helmops.fleet.cattle.io/registers-with";
    /// `true` on the ServiceAccount of a cluster's agent, and on its permissions; see [agent](../agent.md#permissions).
    AGENT_ACCOUNT: Label on "ServiceAccount, Role, RoleBinding" = "helmops.fleet.cattle.io/agent-account";
    /// `true` on namespaces of Ingress controllers and Gateways, which may reach the receiver; see [receivers](../receivers.md#install).
    RECEIVES: Label on "Namespace" = "helmops.fleet.cattle.io/receives";
    /// What happens with the release when its BundleDeployment is gone; see [life cycle](../lifecycle.md#suspension-and-the-end).
    ON_DELETE: Label on "Secret of a release" = "helmops.fleet.cattle.io/on-delete";
    /// Whether the revision is awaited (`Awaited`), or was ready and has passed its tests (`Accepted`); see
    /// [life cycle](../lifecycle.md#retries-and-remediation).
    ACCEPTANCE: Label on "Secret of a release" = "helmops.fleet.cattle.io/acceptance";
    /// The deployment ID, the cause and the number of the attempt that wrote the record.
    ATTEMPT: Annotation on "Chart in the record of a release" = "helmops.fleet.cattle.io/attempt";
    /// The generation of the downstream resources that the revision was deployed with.
    DOWNSTREAM_RESOURCES_GENERATION: Annotation on "Chart in the record of a release" = "helmops.fleet.cattle.io/downstream-resources-generation";
    /// The request that forced the attempt; see [life cycle](../lifecycle.md#requests).
    FORCED_BY: Annotation on "Chart in the record of a release" = "helmops.fleet.cattle.io/forced-by";
    /// The resolved version, where the version in `Chart.yaml` is another one.
    RESOLVED_VERSION: Annotation on "Chart in the record of a release" = "helmops.fleet.cattle.io/resolved-version";
    /// Name of the HelmOp.
    HELM_NAME: Label on "Bundle, BundleDeployment" = "fleet.cattle.io/fleet-helm-name";
    /// Name of the Bundle.
    BUNDLE_NAME: Label on "BundleDeployment, Secret, ConfigMap" = "fleet.cattle.io/bundle-name";
    /// Namespace of the Bundle.
    BUNDLE_NAMESPACE: Label on "BundleDeployment, Secret, ConfigMap" = "fleet.cattle.io/bundle-namespace";
    /// Name of the Cluster. On other objects than BundleDeployments it is an annotation.
    CLUSTER: Both on "BundleDeployment, Namespace, ServiceAccount, Role, RoleBinding" = "fleet.cattle.io/cluster";
    /// Namespace of the Cluster. On other objects than BundleDeployments it is an annotation.
    CLUSTER_NAMESPACE: Both on "BundleDeployment, Namespace, ServiceAccount, Role, RoleBinding" = "fleet.cattle.io/cluster-namespace";
    /// `true` on objects that Fleet or helmops creates and deletes.
    MANAGED: Label on "BundleDeployment, Namespace" = "fleet.cattle.io/managed";
    /// Shard that reconciles the object; see [sharding](../sharding.md).
    SHARD: Label on "HelmOp, Bundle" = "fleet.cattle.io/shard-ref";
    /// `true` on copies of the Secret that `helmSecretName` names.
    INTERNAL_SECRET: Label on "Secret" = "fleet.cattle.io/bundle-internal-secret";
    /// Name of the Cluster in Rancher, by which targets can select it.
    CLUSTER_DISPLAY_NAME: Label on "Cluster" = "management.cattle.io/cluster-display-name";
    /// ID of the Rancher user who created the object; it is logged as `userID`.
    CREATED_BY: Label on "HelmOp" = "fleet.cattle.io/created-by-user-id";
    // BundleDeployments are in other namespaces, where the garbage collector does not delete them with their Bundle.
    /// Removed after all BundleDeployments of the Bundle are deleted.
    BUNDLE_FINALIZER: Finalizer on "Bundle" = "fleet.cattle.io/bundle-finalizer";
    /// Removed by the agent after the release is uninstalled.
    BUNDLE_DEPLOYMENT_FINALIZER: Finalizer on "BundleDeployment" = "fleet.cattle.io/bundle-deployment-finalizer";
    // Bundles are owned by their HelmOp, so helmops needs no finalizer.
    /// Set by `kubectl helmop cluster leave --delete-releases`, and removed by it when the agent has uninstalled the releases: until
    /// then the agent needs its account.
    LEAVE_FINALIZER: Finalizer on "Cluster" = "helmops.fleet.cattle.io/leave";
    // With the BundleDeployments, the cluster has no other record of what its agent uninstalls.
    /// The releases that `kubectl helmop cluster leave --delete-releases` waits for, as JSON, so that it can be repeated.
    LEAVE_RELEASES: Annotation on "Cluster" = "helmops.fleet.cattle.io/leave-releases";
    // Fleet's CRD drops fields of the status that it does not have, and without this memory an agent would be installed again and again.
    /// What was imported: the UID of the cluster's namespace `kube-system`, and a digest of what was applied there, as JSON. See
    /// [agent](../agent.md#import-clusters).
    IMPORTED: Annotation on "Cluster" = "helmops.fleet.cattle.io/imported";
    /// Confirms that the kubeconfig of a Cluster leads to another cluster than before: the UID of the namespace `kube-system` there. See
    /// [agent](../agent.md#import-clusters).
    IMPORT_TO: Annotation on "Cluster" = "helmops.fleet.cattle.io/import-to";
    /// On a workload cluster: the Cluster that its agent was imported for, as the UID of the management cluster's namespace `kube-system`,
    /// the namespace and the name.
    IMPORTED_BY: Annotation on "ClusterRoleBinding, PriorityClass" = "helmops.fleet.cattle.io/imported-by";
    /// Left by Fleet's own controller; helmops removes it from deleted HelmOps.
    HELMOP_FINALIZER: Finalizer on "HelmOp" = "fleet.cattle.io/helmop-finalizer";
    /// Left by Fleet's own controller; helmops removes it from deleted Schedules.
    SCHEDULE_FINALIZER: Finalizer on "Schedule" = "fleet.cattle.io/schedule-finalizer";
}

/// The value of an annotation.
pub fn annotation<'m>(metadata: &'m ObjectMeta, name: &str) -> Option<&'m str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The value of a label, if it is not empty.
pub fn of<'m>(metadata: &'m ObjectMeta, label: &str) -> Option<&'m str> {
    let value = metadata.labels.as_ref()?.get(label)?;
    (!value.is_empty()).then_some(value)
}
