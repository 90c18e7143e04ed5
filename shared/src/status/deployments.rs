//! The deployments of a HelmOp, as its status looks at them.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use super::state::{self, DeploymentState};
use crate::{
    api::{BundleDeployment, Decoded, labels},
    targeting::Target,
};

/// What tells deployments apart, as Fleet names it everywhere: `namespace/name`.
///
/// In the status of a Bundle or HelmOp it is the Cluster, since every deployment of a Bundle has the Bundle's name; in that
/// of a Cluster it is the Bundle. Where the labels that say it are missing, it is the deployment's own namespace, of which
/// each cluster has one, and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Name<'a> {
    /// Reads `namespace/name`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        Some(Self { namespace, name })
    }

    /// The name that two labels give.
    fn told(metadata: &'a ObjectMeta, namespace: &str, name: &str) -> Self {
        match (labels::of(metadata, namespace), labels::of(metadata, name)) {
            (Some(namespace), Some(name)) => Self { namespace, name },
            _ => Self {
                namespace: metadata.namespace.as_deref().unwrap_or_default(),
                name: metadata.name.as_deref().unwrap_or_default(),
            },
        }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A deployment.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'a> {
    /// Where it is, or what it is of.
    pub name: Name<'a>,
    /// Its state. One that does not decode is `NotReady`: whatever it says, nobody can tell that it is ready.
    pub state: DeploymentState,
    /// What there is of it.
    pub object: Object<'a>,
}

/// What there is of a deployment.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// The object.
    Decoded(&'a BundleDeployment),
    /// One that does not decode, and what is wrong with it.
    Odd(&'a str),
    /// What keeps the cluster from getting what is wanted, whatever it has.
    Problem(&'a str),
    /// None yet: the cluster is targeted, but its turn has not come.
    None,
}

impl<'a> Deployment<'a> {
    /// A target of a Bundle after a round.
    pub fn of_target(
        target: &Target<'a>,
        object: Option<&'a BundleDeployment>,
        problem: Option<&'a str>,
    ) -> Self {
        let name = Name {
            namespace: target.member.namespace(),
            name: target.member.name(),
        };
        let (state, object) = match (problem, object) {
            (Some(problem), _) => (DeploymentState::ErrApplied, Object::Problem(problem)),
            (None, Some(object)) => (DeploymentState::of(object), Object::Decoded(object)),
            (None, None) => (DeploymentState::Pending, Object::None),
        };
        Self { name, state, object }
    }

    fn of(name: Name<'a>, guarded: &'a Decoded<BundleDeployment>) -> Self {
        match guarded {
            Decoded::Valid(object) => Self {
                name,
                state: DeploymentState::of(object),
                object: Object::Decoded(object),
            },
            Decoded::Invalid { error, .. } => Self {
                name,
                state: DeploymentState::NotReady,
                object: Object::Odd(error),
            },
        }
    }

    /// What is to be said of it; empty for nothing.
    pub fn message(&self) -> String {
        match self.object {
            Object::Decoded(object) => state::message(object).to_owned(),
            Object::Odd(error) => format!("the BundleDeployment cannot be read: {error}"),
            Object::Problem(problem) => problem.to_owned(),
            Object::None => String::new(),
        }
    }
}

/// Looks at deployments, in the order of their clusters: whatever order they come in, the same status comes out.
pub fn by_cluster<'a>(deployments: &[&'a Decoded<BundleDeployment>]) -> Vec<Deployment<'a>> {
    in_order(deployments, labels::CLUSTER_NAMESPACE, labels::CLUSTER)
}

/// Looks at deployments, in the order of their Bundles.
pub fn by_bundle<'a>(deployments: &[&'a Decoded<BundleDeployment>]) -> Vec<Deployment<'a>> {
    in_order(deployments, labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME)
}

fn in_order<'a>(
    deployments: &[&'a Decoded<BundleDeployment>],
    namespace: &str,
    name: &str,
) -> Vec<Deployment<'a>> {
    let mut deployments: Vec<_> = deployments
        .iter()
        .map(|deployment| {
            let told = Name::told(deployment.meta(), namespace, name);
            (Deployment::of(told, deployment), &deployment.meta().name)
        })
        .collect();
    deployments.sort_by_key(|(deployment, name)| (deployment.name, *name));
    deployments
        .into_iter()
        .map(|(deployment, _)| deployment)
        .collect()
}

/// Namespace and name of the HelmOp that a BundleDeployment is of, if it is of any.
///
/// Only the labels say it: the BundleDeployment is in the namespace of its cluster.
pub fn helmop_of(metadata: &ObjectMeta) -> Option<(&str, &str)> {
    labels::of(metadata, labels::BUNDLE_NAMESPACE).zip(labels::of(metadata, labels::HELM_NAME))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn guarded(object: &Value) -> Decoded<BundleDeployment> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn labelled(labels: &Value) -> Decoded<BundleDeployment> {
        guarded(&json!({ "metadata": { "namespace": "cluster-c", "name": "web", "labels": labels } }))
    }

    #[test]
    fn a_deployment_is_named_after_its_cluster() {
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
    fn the_helmop_is_in_the_labels() {
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
    fn the_order_is_that_of_the_clusters_and_an_odd_one_keeps_its_place() {
        let of = |cluster: &str, status: Value| {
            let labels = json!({ labels::CLUSTER_NAMESPACE: "f", labels::CLUSTER: cluster });
            guarded(&json!({ "metadata": { "name": "web", "labels": labels }, "status": status }))
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
