//! The namespace that belongs to a Cluster.
//!
//! `status.namespace` alone does not prove it: the agent of a cluster may write the status of its own Cluster. A namespace
//! belongs to a Cluster if its name is computed from that of the Cluster, or if its annotations name the Cluster: agents
//! can change neither.

use bounded_text::cut;
use helmops_api::{Cluster, NamespacedName, labels};
use helmops_model::names::cluster_namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

/// Namespaces of Kubernetes itself.
const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Maximum length of a name from an annotation in a message, in bytes.
const MAX_SHOWN: usize = 80;

/// The metadata of an existing namespace that identify its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceOwner {
    /// Whether it has the label [`labels::MANAGED`].
    pub is_managed: bool,
    /// The annotation [`labels::CLUSTER_NAMESPACE`].
    pub cluster_namespace: Option<String>,
    /// The annotation [`labels::CLUSTER`].
    pub cluster: Option<String>,
}

impl NamespaceOwner {
    /// Reads the metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        Self {
            is_managed: labels::of(metadata, labels::MANAGED) == Some("true"),
            cluster_namespace: annotation(labels::CLUSTER_NAMESPACE),
            cluster: annotation(labels::CLUSTER),
        }
    }

    /// The Cluster that both annotations name.
    pub fn named_cluster(&self) -> Option<NamespacedName> {
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

    fn display(&self) -> String {
        let text = |part: &Option<String>| cut(part.clone().unwrap_or_default(), MAX_SHOWN);
        format!("{}/{}", text(&self.cluster_namespace), text(&self.cluster))
    }
}

/// Finds namespaces and other Clusters.
pub trait Namespaces {
    /// The owner metadata of a namespace, if it exists.
    fn namespace_owner(&self, namespace: &str) -> Option<NamespaceOwner>;
    /// Another Cluster whose name gives the same namespace, if any.
    fn rival(&self, namespace: &str, cluster: &NamespacedName) -> Option<NamespacedName>;
    /// Whether it is the namespace of the controller itself.
    fn is_own(&self, namespace: &str) -> bool;
}

/// Why no namespace of a Cluster can be delivered to.
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
    /// Its status names a namespace that does not name the Cluster. Earlier deployments there stay.
    #[error(
        "status.namespace of Cluster {cluster}: Invalid value: {namespace:?}: the namespace does not name this Cluster, and \
         {computed:?} does not exist; clear status.namespace, or, if the namespace belongs to this cluster: {}",
        assign_commands(namespace, cluster)
    )]
    Unproven {
        /// The Cluster.
        cluster: String,
        /// The namespace in its status.
        namespace: String,
        /// The computed namespace.
        computed: String,
    },
    /// The namespace was created for another purpose.
    #[error(
        "Namespace {namespace} exists, and was not created for Cluster {cluster}: it has no label fleet.cattle.io/managed=true; \
         delete it, or, if its content and its RoleBindings may be there: {}",
        assign_commands(namespace, cluster)
    )]
    Unmanaged {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
    },
    /// The namespace belongs to another Cluster.
    #[error(
        "Namespace {namespace} belongs to Cluster {owner} according to its annotations, not to Cluster {cluster}; rename one of \
         the two Clusters, or, if Cluster {owner} is deleted: {}",
        assign_commands(namespace, cluster)
    )]
    Foreign {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
        /// The Cluster that the annotations name.
        owner: String,
    },
    /// Two Clusters have the same namespace, and no annotation names its owner.
    #[error(
        "Clusters {cluster} and {other} have the same namespace {namespace}, and nothing is delivered to either; rename one \
         of them, or assign the namespace: {}",
        assign_commands(namespace, cluster)
    )]
    Shared {
        /// The Cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
        /// The other Cluster with the namespace.
        other: String,
    },
}

/// The commands that assign a namespace to a Cluster.
fn assign_commands(namespace: &str, cluster: &str) -> String {
    let (cluster_namespace, name) = cluster.split_once('/').unwrap_or_default();
    format!(
        "kubectl label namespace {namespace} fleet.cattle.io/managed=true --overwrite && kubectl annotate namespace {namespace} \
         fleet.cattle.io/cluster-namespace={cluster_namespace} fleet.cattle.io/cluster={name} --overwrite"
    )
}

/// The namespace for the BundleDeployments of a Cluster. It may not exist yet.
///
/// # Errors
/// If no namespace certainly belongs to this Cluster only.
pub fn namespace_of(cluster: &Cluster, known: &impl Namespaces) -> Result<String, NamespaceRefused> {
    let own = NamespacedName::of(&cluster.metadata);
    let computed = cluster_namespace(&own.namespace, &own.name);
    let claimed = &cluster.status.namespace;
    if claimed.is_empty() || *claimed == computed {
        return check_computed(&own, computed, known);
    }
    let owner = known
        .namespace_owner(claimed)
        .filter(|_| !is_system(claimed, known));
    match owner {
        Some(owner) if owner.is_managed && owner.named_cluster().as_ref() == Some(&own) => {
            Ok(claimed.clone())
        }
        // It may contain earlier deployments. In a new namespace, which no agent watches, they would be lost.
        Some(owner) if !owner.is_of_other(&own) && known.namespace_owner(&computed).is_none() => {
            Err(NamespaceRefused::Unproven {
                cluster: own.to_string(),
                namespace: claimed.clone(),
                computed,
            })
        }
        _ => check_computed(&own, computed, known),
    }
}

/// Checks the namespace whose name is computed from that of the Cluster.
fn check_computed(
    own: &NamespacedName,
    namespace: String,
    known: &impl Namespaces,
) -> Result<String, NamespaceRefused> {
    let cluster = own.to_string();
    if is_system(&namespace, known) {
        return Err(NamespaceRefused::System { cluster, namespace });
    }
    let owner = known.namespace_owner(&namespace);
    if let Some(owner) = &owner {
        if !owner.is_managed {
            return Err(NamespaceRefused::Unmanaged { cluster, namespace });
        }
        if owner.is_of_other(own) {
            let owner = owner.display();
            return Err(NamespaceRefused::Foreign {
                cluster,
                namespace,
                owner,
            });
        }
        if owner.named_cluster().is_some() {
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
