//! The BundleDeployment: a Bundle on one cluster, and the status that the agent there reports.

use std::sync::Arc;

use super::{
    bundle::BundleHelmOptions,
    condition::Condition,
    kind::{TypeMeta, kind},
    lifecycle::{Lifecycle, LifecycleStatus},
    metadata::Metadata,
    options::{BundleDeploymentOptions, CorrectDrift},
    status::{ModifiedStatus, NonReadyStatus, ResourceCounts},
    target::BundleRef,
    unknown_fields::UnknownFields,
    wire_struct::wire,
};

wire! {
    /// A Bundle on one cluster. It is in the cluster's namespace and has the Bundle's name. The controller writes the
    /// spec; the agent of the cluster applies it and writes the status.
    pub struct BundleDeployment: [type_meta: TypeMeta<BundleDeployment>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on. The namespace is the cluster's, not the Bundle's.
        "metadata" => metadata: Metadata,
        /// The desired deployment.
        "spec" => spec: BundleDeploymentSpec,
        /// The observed deployment.
        "status" => status: BundleDeploymentStatus,
    }
}

kind!(BundleDeployment, "bundledeployments");

wire! {
    /// The desired deployment.
    pub struct BundleDeploymentSpec: [unknown: UnknownFields] {
        /// Do not update the cluster.
        "paused" => paused: bool,
        /// The options to deploy with when the rollout reaches this cluster. Their Helm values are in a Secret of the
        /// BundleDeployment's name.
        "stagedOptions" => staged_options: Arc<BundleDeploymentOptions>,
        /// Identifies what to deploy when the rollout reaches this cluster.
        "stagedDeploymentID" | nullable => staged_deployment_id: String,
        /// The options that the agent deploys with. Their Helm values are in a Secret of the BundleDeployment's
        /// name.
        "options" => options: Arc<BundleDeploymentOptions>,
        /// Identifies what the agent deploys.
        "deploymentID" | nullable => deployment_id: String,
        /// Bundles that must be in an accepted state on the cluster before this one is deployed there.
        "dependsOn" | nullable => depends_on: Vec<BundleRef>,
        /// Whether and how changes made on the cluster are undone.
        "correctDrift" => correct_drift: Option<CorrectDrift>,
        /// The life cycle of the release.
        "lifecycle" | nullable => lifecycle: Option<Box<Lifecycle>>,
        /// Internal: the content is stored in an OCI registry.
        "ociContents" => oci_contents: bool,
        /// How the agent fetches the chart. Set only for HelmOps.
        "helmChartOptions" | nullable => helm_chart_options: Option<BundleHelmOptions>,
        /// Hash of the Helm values that are in the Secret of the BundleDeployment's name. Empty if there are none.
        "valuesHash" => values_hash: String,
        /// Counts the changes of copied Secrets and ConfigMaps.
        "downstreamResourcesGeneration" => downstream_resources_generation: i64,
        /// The cluster has a Schedule that does not allow deployments now.
        "offSchedule" => off_schedule: bool,
        /// The Secret with the Helm values is missing; nothing is deployed without it.
        "waitingForValues" => waiting_for_values: bool,
    }
}

wire! {
    /// The observed deployment. The agent writes it.
    pub struct BundleDeploymentStatus {
        /// The object's conditions: `Deployed`, `Installed`, `Monitored`, `Ready`.
        "conditions" | nullable => conditions: Vec<Condition>,
        /// Identifies what the agent has deployed.
        "appliedDeploymentID" | nullable => applied_deployment_id: String,
        /// Identifies what the agent could not deploy, if the last attempt failed.
        "failedDeploymentID" | nullable => failed_deployment_id: String,
        /// The Helm release, as `namespace/name:revision`.
        "release" | nullable => release: String,
        /// Every object is ready.
        "ready" => ready: bool,
        /// No object was changed on the cluster.
        "nonModified" => non_modified: bool,
        /// The first few objects that are not ready.
        "nonReadyStatus" | nullable => non_ready_status: Vec<NonReadyStatus>,
        /// The first few objects that were changed on the cluster.
        "modifiedStatus" | nullable => modified_status: Vec<ModifiedStatus>,
        /// The two lists above are truncated.
        "incompleteState" => incomplete_state: bool,
        /// What `kubectl get` shows.
        "display" | nullable => display: Option<BundleDeploymentDisplay>,
        /// The `forceSyncGeneration` that was deployed.
        "syncGeneration" | nullable => sync_generation: Option<i64>,
        /// The objects of the release.
        "resources" | nullable => resources: Vec<BundleDeploymentResource>,
        /// Number of the release's objects by state.
        "resourceCounts" => resource_counts: Option<ResourceCounts>,
        /// Counts the changes of copied Secrets and ConfigMaps that were deployed.
        "downstreamResourcesGeneration" => downstream_resources_generation: i64,
        /// The life cycle of the release, if `spec.lifecycle` is set.
        "lifecycle" | nullable => lifecycle: Option<Box<LifecycleStatus>>,
    }
}

wire! {
    /// What `kubectl get` shows of a BundleDeployment.
    pub struct BundleDeploymentDisplay {
        /// Status of the condition `Deployed`, or its error.
        "deployed" | nullable => deployed: String,
        /// Status of the condition `Monitored`, or its error.
        "monitored" | nullable => monitored: String,
        /// The deployment's state.
        "state" | nullable => state: String,
    }
}

wire! {
    /// An object of a release.
    pub struct BundleDeploymentResource {
        /// Kind of the object.
        "kind" | nullable => kind: String,
        /// API version of the object.
        "apiVersion" | nullable => api_version: String,
        /// Namespace of the object.
        "namespace" | nullable => namespace: String,
        /// Name of the object.
        "name" | nullable => name: String,
        /// When the object was created.
        "createdAt" | nullable => created_at: String,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_whole_status_is_decoded_and_encoded() {
        let status = json!({
            "conditions": [{ "type": "Deployed", "status": "True" }],
            "appliedDeploymentID": ":a",
            "release": "shop/web:3",
            "ready": true,
            "nonModified": true,
            "nonReadyStatus": [{ "kind": "Pod", "name": "p", "summary": { "state": "error", "error": true, "message": ["m"] } }],
            "modifiedStatus": [{ "kind": "Service", "name": "s", "exist": true, "missing": true, "patch": "{}" }],
            "incompleteState": true,
            "display": { "deployed": "True", "monitored": "True", "state": "Ready" },
            "syncGeneration": 0,
            "resources": [{ "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "p", "createdAt": "2026-01-01T00:00:00Z" }],
            "resourceCounts": { "ready": 1, "desiredReady": 1, "waitApplied": 0, "modified": 0, "orphaned": 0, "missing": 0, "unknown": 0, "notReady": 0 },
            "downstreamResourcesGeneration": 2
        });
        let spec = json!({ "deploymentID": ":a", "stagedDeploymentID": ":b" });
        let object = json!({ "metadata": { "name": "web" }, "spec": spec, "status": status });
        let decoded: BundleDeployment = serde_json::from_str(&object.to_string()).unwrap();
        let encoded = serde_json::to_value(decoded).unwrap();
        assert_eq!((&encoded["spec"], &encoded["status"]), (&spec, &status));
        assert_eq!(
            (&encoded["kind"], &encoded["apiVersion"]),
            (&json!("BundleDeployment"), &json!("fleet.cattle.io/v1alpha1"))
        );
    }

    #[test]
    fn the_whole_spec_is_decoded_and_encoded() {
        let object = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "BundleDeployment",
            "metadata": { "name": "web", "namespace": "cluster-a" },
            "spec": {
                "correctDrift": { "enabled": true },
                "dependsOn": [{ "name": "crds" }],
                "deploymentID": ":a",
                "downstreamResourcesGeneration": 2,
                "helmChartOptions": {},
                "ociContents": true,
                "offSchedule": true,
                "options": { "helm": { "chart": "web" } },
                "paused": true,
                "stagedDeploymentID": ":b",
                "stagedOptions": { "createNamespace": false },
                "valuesHash": "c",
                "waitingForValues": true
            }
        });
        let decoded: BundleDeployment = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(serde_json::to_value(decoded).unwrap(), object);
    }

    #[test]
    fn null_decodes_to_the_zero_value() {
        let text = r#"{"metadata":{"name":"web"},"spec":{"deploymentID":null},"status":{"resources":null,"display":null}}"#;
        let decoded: BundleDeployment = serde_json::from_str(text).unwrap();
        assert_eq!(decoded.status, BundleDeploymentStatus::default());
    }
}
