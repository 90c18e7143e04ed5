//! Which namespace belongs to a Cluster.
//!
//! `status.namespace` alone is no proof: the agent of a cluster may write the status of its own Cluster. A namespace belongs to
//! a Cluster where its name follows from that of the Cluster, or where the annotations of the namespace name the Cluster: agents
//! can change neither.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

use super::names::cluster_namespace;
use crate::{
    api::{Cluster, NamespacedName, labels},
    text::cut,
};

/// Namespaces of Kubernetes itself.
const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// How much of a name that somebody else gives is shown in a message, in bytes.
const SHOWN: usize = 80;

/// The metadata of an existing namespace that decide whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceOwner {
    /// It has the label [`labels::MANAGED`].
    pub is_managed: bool,
    /// What the annotation [`labels::CLUSTER_NAMESPACE`] says.
    pub cluster_namespace: Option<String>,
    /// What the annotation [`labels::CLUSTER`] says.
    pub cluster: Option<String>,
}

impl NamespaceOwner {
    /// Reads them.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        Self {
            is_managed: labels::of(metadata, labels::MANAGED) == Some("true"),
            cluster_namespace: annotation(labels::CLUSTER_NAMESPACE),
            cluster: annotation(labels::CLUSTER),
        }
    }

    /// The Cluster that both annotations name.
    pub fn owner(&self) -> Option<NamespacedName> {
        Some(NamespacedName {
            namespace: self.cluster_namespace.clone()?,
            name: self.cluster.clone()?,
        })
    }

    /// Whether an annotation names another Cluster.
    fn is_of_other(&self, cluster: &NamespacedName) -> bool {
        let differs = |annotation: &Option<String>, own: &String| {
            annotation.as_ref().is_some_and(|annotation| annotation != own)
        };
        differs(&self.cluster_namespace, &cluster.namespace) || differs(&self.cluster, &cluster.name)
    }

    fn told(&self) -> String {
        let text = |part: &Option<String>| cut(part.clone().unwrap_or_default(), SHOWN);
        format!("{}/{}", text(&self.cluster_namespace), text(&self.cluster))
    }
}

/// What is known of namespaces and of other Clusters.
pub trait Namespaces {
    /// The marks of a namespace, if it exists.
    fn marks(&self, namespace: &str) -> Option<NamespaceOwner>;
    /// Another Cluster whose name gives the same namespace, if there is one.
    fn rival(&self, namespace: &str, cluster: &NamespacedName) -> Option<NamespacedName>;
    /// Whether it is the namespace of the controller itself.
    fn is_own(&self, namespace: &str) -> bool;
}

/// Why a Cluster has no namespace that can be delivered to.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NamespaceRefused {
    /// A namespace of Kubernetes or of the controller.
    #[error(
        "Cluster {cluster}: its namespace would be {namespace:?}, which is a system namespace and never used for a cluster; \
         rename the Cluster"
    )]
    System {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
    },
    /// Its status names a namespace that names no Cluster. What was delivered there earlier stays.
    #[error(
        "status.namespace of Cluster {cluster}: Invalid value: {namespace:?}: the namespace does not name this Cluster, and \
         {computed:?} does not exist; clear status.namespace, or, if the namespace is this cluster's: {}",
        adoption(namespace, cluster)
    )]
    Unproven {
        /// The Cluster.
        cluster: String,
        /// What its status names.
        namespace: String,
        /// The name that it would get.
        computed: String,
    },
    /// Somebody made the namespace for another purpose.
    #[error(
        "Namespace {namespace} exists, and was not made for Cluster {cluster}: it has no label fleet.cattle.io/managed=true; \
         delete it, or, if its content and its RoleBindings may be there: {}",
        adoption(namespace, cluster)
    )]
    Unmanaged {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
    },
    /// The namespace is another Cluster's.
    #[error(
        "Namespace {namespace} belongs to Cluster {owner}, as its annotations say, and not to Cluster {cluster}; rename one of \
         the two Clusters, or, if Cluster {owner} is gone: {}",
        adoption(namespace, cluster)
    )]
    Foreign {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
        /// The Cluster that the annotations name.
        owner: String,
    },
    /// Two Clusters have the same namespace, and nothing decides which of them keeps it.
    #[error(
        "Clusters {cluster} and {other} have the same namespace {namespace}, and nothing is delivered to either; rename one \
         of them, or say whose it is: {}",
        adoption(namespace, cluster)
    )]
    Shared {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
        /// Another Cluster with it.
        other: String,
    },
}

/// How an administrator gives a namespace to a Cluster.
fn adoption(namespace: &str, cluster: &str) -> String {
    let (home, name) = cluster.split_once('/').unwrap_or_default();
    format!(
        "kubectl label namespace {namespace} fleet.cattle.io/managed=true --overwrite && kubectl annotate namespace {namespace} \
         fleet.cattle.io/cluster-namespace={home} fleet.cattle.io/cluster={name} --overwrite"
    )
}

/// The namespace for the BundleDeployments of a Cluster. It may not exist yet.
///
/// # Errors
/// Where there is none that is certain to be this Cluster's alone.
pub fn namespace_of(cluster: &Cluster, known: &impl Namespaces) -> Result<String, NamespaceRefused> {
    let own = NamespacedName::of(&cluster.metadata);
    let computed = cluster_namespace(&own.namespace, &own.name);
    let claimed = &cluster.status.namespace;
    if claimed.is_empty() || *claimed == computed {
        return computed_of(&own, computed, known);
    }
    let marks = known.marks(claimed).filter(|_| !is_system(claimed, known));
    match marks {
        Some(marks) if marks.is_managed && marks.owner().as_ref() == Some(&own) => Ok(claimed.clone()),
        // Deployments may be there from before. In a new namespace, which no agent watches, they would be lost.
        Some(marks) if !marks.is_of_other(&own) && known.marks(&computed).is_none() => {
            Err(NamespaceRefused::Unproven {
                cluster: own.to_string(),
                namespace: claimed.clone(),
                computed,
            })
        }
        _ => computed_of(&own, computed, known),
    }
}

/// Checks the namespace whose name follows from that of the Cluster.
fn computed_of(
    own: &NamespacedName,
    namespace: String,
    known: &impl Namespaces,
) -> Result<String, NamespaceRefused> {
    let cluster = own.to_string();
    if is_system(&namespace, known) {
        return Err(NamespaceRefused::System { cluster, namespace });
    }
    let marks = known.marks(&namespace);
    if let Some(marks) = &marks {
        if !marks.is_managed {
            return Err(NamespaceRefused::Unmanaged { cluster, namespace });
        }
        if marks.is_of_other(own) {
            let owner = marks.told();
            return Err(NamespaceRefused::Foreign {
                cluster,
                namespace,
                owner,
            });
        }
        if marks.owner().is_some() {
            return Ok(namespace);
        }
    }
    match known.rival(&namespace, own) {
        Some(other) => Err(NamespaceRefused::Shared {
            cluster,
            namespace,
            other: other.to_string(),
        }),
        None => Ok(namespace),
    }
}

fn is_system(namespace: &str, known: &impl Namespaces) -> bool {
    SYSTEM.contains(&namespace) || known.is_own(namespace)
}

#[cfg(test)]
mod tests;
