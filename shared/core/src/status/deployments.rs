//! The deployments of a HelmOp, Bundle or Cluster, as its status uses them.

use std::fmt;

use helmops_api::{BundleDeployment, Decoded, labels};
use helmops_model::deployment_state::{self, DeploymentState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use crate::targeting::Target;

/// The identifier of a deployment in a status, `namespace/name` as in Fleet.
///
/// In the status of a Bundle or HelmOp it is the Cluster, since every deployment of a Bundle has the Bundle's name; in that
/// of a Cluster it is the Bundle. If the labels with it are missing, it is the deployment's own namespace, of which each
/// cluster has one, and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentName<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> DeploymentName<'a> {
    /// Parses `namespace/name`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        Some(Self { namespace, name })
    }

    /// The name from two labels.
    fn from_labels(metadata: &'a ObjectMeta, namespace: &str, name: &str) -> Self {
        match (labels::of(metadata, namespace), labels::of(metadata, name)) {
            (Some(namespace), Some(name)) => Self { namespace, name },
            _ => Self {
                namespace: metadata.namespace.as_deref().unwrap_or_default(),
                name: metadata.name.as_deref().unwrap_or_default(),
            },
        }
    }
}

impl fmt::Display for DeploymentName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A deployment.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'a> {
    /// Its cluster, or its Bundle.
    pub name: DeploymentName<'a>,
    /// Its state. A deployment that does not decode is `NotReady`, because its readiness is unknown.
    pub state: DeploymentState,
    /// The observed object.
    pub observed: ObservedDeployment<'a>,
}

/// The observed object of a deployment.
#[derive(Clone, Copy, Debug)]
pub enum ObservedDeployment<'a> {
    /// The object.
    Decoded(&'a BundleDeployment),
    /// An object that does not decode, with the error.
    Invalid(&'a str),
    /// Why the desired state cannot be delivered, with or without an existing object.
    Problem(&'a str),
    /// None yet: the cluster is targeted, but the rollout has not reached it.
    None,
}

impl<'a> Deployment<'a> {
    /// A target of a Bundle after a round.
    pub fn of_target(
        target: &Target<'a>,
        object: Option<&'a BundleDeployment>,
        problem: Option<&'a str>,
    ) -> Self {
        let name = DeploymentName {
            namespace: target.member.namespace(),
            name: target.member.name(),
        };
        let (state, observed) = match (problem, object) {
            (Some(problem), _) => (DeploymentState::ErrApplied, ObservedDeployment::Problem(problem)),
            (None, Some(object)) => (DeploymentState::of(object), ObservedDeployment::Decoded(object)),
            (None, None) => (DeploymentState::Pending, ObservedDeployment::None),
        };
        Self {
            name,
            state,
            observed,
        }
    }

    fn of(name: DeploymentName<'a>, decoded: &'a Decoded<BundleDeployment>) -> Self {
        match decoded {
            Decoded::Valid(object) => Self {
                name,
                state: DeploymentState::of(object),
                observed: ObservedDeployment::Decoded(object),
            },
            Decoded::Invalid { error, .. } => Self {
                name,
                state: DeploymentState::NotReady,
                observed: ObservedDeployment::Invalid(error),
            },
        }
    }

    /// Its message; may be empty.
    pub fn message(&self) -> String {
        match self.observed {
            ObservedDeployment::Decoded(object) => deployment_state::message(object).to_owned(),
            ObservedDeployment::Invalid(error) => format!("the BundleDeployment cannot be read: {error}"),
            ObservedDeployment::Problem(problem) => problem.to_owned(),
            ObservedDeployment::None => String::new(),
        }
    }
}

/// Deployments sorted by cluster, so that the status does not depend on the order of the input.
pub fn by_cluster<'a>(deployments: &[&'a Decoded<BundleDeployment>]) -> Vec<Deployment<'a>> {
    sorted(deployments, labels::CLUSTER_NAMESPACE, labels::CLUSTER)
}

/// Deployments sorted by Bundle.
pub fn by_bundle<'a>(deployments: &[&'a Decoded<BundleDeployment>]) -> Vec<Deployment<'a>> {
    sorted(deployments, labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME)
}

fn sorted<'a>(
    deployments: &[&'a Decoded<BundleDeployment>],
    namespace: &str,
    name: &str,
) -> Vec<Deployment<'a>> {
    let mut deployments: Vec<_> = deployments
        .iter()
        .map(|deployment| {
            let id = DeploymentName::from_labels(deployment.meta(), namespace, name);
            (Deployment::of(id, deployment), &deployment.meta().name)
        })
        .collect();
    deployments.sort_by_key(|(deployment, name)| (deployment.name, *name));
    deployments
        .into_iter()
        .map(|(deployment, _)| deployment)
        .collect()
}

/// Namespace and name of the HelmOp of a BundleDeployment, if any.
///
/// They are only in the labels: the BundleDeployment is in the namespace of its cluster.
pub fn helmop_of(metadata: &ObjectMeta) -> Option<(&str, &str)> {
    labels::of(metadata, labels::BUNDLE_NAMESPACE).zip(labels::of(metadata, labels::HELM_NAME))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decoded(object: &Value) -> Decoded<BundleDeployment> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn labelled(labels: &Value) -> Decoded<BundleDeployment> {
        decoded(&json!({ "metadata": { "namespace": "cluster-c", "name": "web", "labels": labels } }))
    }

    #[test]
    fn a_deployment_is_identified_by_its_cluster() {
        for (labels, expected) in [
            (
                json!({ labels::CLUSTER_NAMESPACE: "fleet-default", labels::CLUSTER: "c" }),
                "fleet-default/c",
            ),
            (json!({ labels::CLUSTER: "c" }), "cluster-c/web"),
            (
                json!({ labels::CLUSTER_NAMESPACE: "fleet-default", labels::CLUSTER: "" }),
                "cluster-c/web",
            ),
            (Value::Null, "cluster-c/web"),
        ] {
            let deployment = labelled(&labels);
            assert_eq!(
                by_cluster(&[&deployment])[0].name.to_string(),
                expected,
                "{labels}"
            );
        }
    }

    #[test]
    fn the_helmop_is_read_from_the_labels() {
        for (labels, expected) in [
            (
                json!({ labels::BUNDLE_NAMESPACE: "fleet-default", labels::HELM_NAME: "web" }),
                Some(("fleet-default", "web")),
            ),
            (json!({ labels::BUNDLE_NAMESPACE: "fleet-default" }), None),
            (json!({ labels::HELM_NAME: "web" }), None),
            (
                json!({ labels::BUNDLE_NAMESPACE: "fleet-default", labels::HELM_NAME: "" }),
                None,
            ),
            (Value::Null, None),
        ] {
            assert_eq!(helmop_of(labelled(&labels).meta()), expected, "{labels}");
        }
    }

    #[test]
    fn deployments_are_sorted_by_cluster_including_invalid_ones() {
        let of = |cluster: &str, status: Value| {
            let labels = json!({ labels::CLUSTER_NAMESPACE: "f", labels::CLUSTER: cluster });
            decoded(&json!({ "metadata": { "name": "web", "labels": labels }, "status": status }))
        };
        let (a, b, c) = (
            of("a", json!({})),
            of("b", json!({ "ready": "maybe" })),
            of("c", json!({})),
        );
        for order in [[&a, &b, &c], [&c, &b, &a], [&b, &c, &a]] {
            let deployments = by_cluster(&order);
            let clusters: Vec<_> = deployments
                .iter()
                .map(|deployment| deployment.name.to_string())
                .collect();
            assert_eq!(clusters, ["f/a", "f/b", "f/c"]);
            assert_eq!(deployments[1].state, DeploymentState::NotReady);
            let message = deployments[1].message();
            assert!(message.contains("cannot be read: status: ready: "), "{message}");
        }
    }
}
