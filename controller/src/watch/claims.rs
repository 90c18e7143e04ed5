//! An index of the namespaces of Clusters: computed from the name of a Cluster, or claimed in its status.

use std::{collections::HashMap, sync::Arc};

use helmops_api::{Cluster, Decoded, NamespacedName};
use helmops_kube::{Change, Fold, Index};
use helmops_model::names;

/// The namespaces of all Clusters. Its size is bounded by the number of Clusters.
#[derive(Debug, Default)]
pub struct Claims {
    /// The Clusters by the namespace that is computed from their name.
    computed: Index<String>,
    /// The Clusters by the namespace in their status, if it differs from the computed one.
    claimed: Index<String>,
    /// The indexed namespaces of each Cluster.
    clusters: HashMap<NamespacedName, ClusterNamespaces>,
}

#[derive(Debug)]
struct ClusterNamespaces {
    computed: String,
    claimed: Option<String>,
}

/// Follows the Clusters.
impl Fold<Arc<Decoded<Cluster>>> for Claims {
    fn apply(&mut self, change: &Change<Arc<Decoded<Cluster>>>) {
        match &change.after {
            Some(cluster) => {
                let claimed = cluster.valid().map(|cluster| &*cluster.status.namespace);
                self.insert(change.name.clone(), claimed);
            }
            None => self.remove(&change.name),
        }
    }
}

impl Claims {
    /// Adds or updates a Cluster. `claimed` is the namespace in its status.
    fn insert(&mut self, cluster: NamespacedName, claimed: Option<&str>) {
        self.remove(&cluster);
        let computed = names::cluster_namespace(&cluster.namespace, &cluster.name);
        let claimed = claimed.filter(|claimed| !claimed.is_empty() && *claimed != computed);
        let claimed = claimed.map(str::to_owned);
        self.computed.insert(computed.clone(), cluster.clone());
        if let Some(claimed) = &claimed {
            self.claimed.insert(claimed.clone(), cluster.clone());
        }
        self.clusters
            .insert(cluster, ClusterNamespaces { computed, claimed });
    }

    /// Removes a deleted Cluster.
    fn remove(&mut self, cluster: &NamespacedName) {
        let Some(indexed) = self.clusters.remove(cluster) else {
            return;
        };
        self.computed.remove(&indexed.computed, cluster);
        if let Some(claimed) = &indexed.claimed {
            self.claimed.remove(claimed, cluster);
        }
    }

    /// Whether it is the computed namespace of a Cluster.
    pub fn is_computed(&self, namespace: &str) -> bool {
        self.computed.count(namespace) > 0
    }

    /// The Clusters that a namespace may belong to.
    pub fn clusters_of(&self, namespace: &str) -> Vec<NamespacedName> {
        let both = self.computed.get(namespace).chain(self.claimed.get(namespace));
        both.cloned().collect()
    }

    /// The other Clusters with the same computed namespace.
    pub fn rivals(&self, namespace: &str, cluster: &NamespacedName) -> Vec<NamespacedName> {
        let all = self.computed.get(namespace);
        all.filter(|other| *other != cluster).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> NamespacedName {
        NamespacedName::new("fleet", name)
    }

    #[test]
    fn clusters_are_found_by_both_namespaces() {
        let mut claims = Claims::default();
        let own = names::cluster_namespace("fleet", "lab");
        claims.insert(cluster("lab"), Some("chosen"));
        claims.insert(cluster("prod"), None);
        assert_eq!(claims.clusters_of(&own), [cluster("lab")]);
        assert_eq!(claims.clusters_of("chosen"), [cluster("lab")]);
        assert!(claims.is_computed(&own) && !claims.is_computed("chosen"));
        assert!(claims.rivals(&own, &cluster("lab")).is_empty());
        assert_eq!(claims.rivals(&own, &cluster("other")), [cluster("lab")]);
    }

    #[test]
    fn a_removed_cluster_leaves_no_index_entries() {
        let mut claims = Claims::default();
        for claimed in ["one", "other", ""] {
            claims.insert(cluster("lab"), Some(claimed));
        }
        assert!(claims.clusters_of("one").is_empty() && claims.clusters_of("other").is_empty());
        claims.remove(&cluster("lab"));
        assert!(claims.computed.is_empty() && claims.claimed.is_empty() && claims.clusters.is_empty());
    }
}
