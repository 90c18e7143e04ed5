//! Which Clusters may have which namespace: by their name, or because their status says so.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use helmops_shared::{api::NamespacedName, runtime::lock, targeting::names};

/// The namespaces of all Clusters. Clones share them. Its size follows from the number of Clusters.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<Index>>);

#[derive(Debug, Default)]
struct Index {
    /// The Clusters by the namespace that follows from their name.
    computed: HashMap<String, BTreeSet<NamespacedName>>,
    /// The Clusters by the namespace that their status names, where that is another one.
    claimed: HashMap<String, BTreeSet<NamespacedName>>,
    /// What was last noted of each.
    clusters: HashMap<NamespacedName, Noted>,
}

#[derive(Debug)]
struct Noted {
    computed: String,
    claimed: Option<String>,
}

impl Claims {
    /// Notes a Cluster, and what its status says.
    pub fn put(&self, cluster: NamespacedName, claimed: Option<&str>) {
        let mut index = lock(&self.0);
        index.remove(&cluster);
        let computed = names::cluster_namespace(&cluster.namespace, &cluster.name);
        let claimed = claimed.filter(|claimed| !claimed.is_empty() && *claimed != computed);
        let claimed = claimed.map(str::to_owned);
        insert(&mut index.computed, &computed, &cluster);
        if let Some(claimed) = &claimed {
            insert(&mut index.claimed, claimed, &cluster);
        }
        index.clusters.insert(cluster, Noted { computed, claimed });
    }

    /// Forgets a Cluster that is gone.
    pub fn remove(&self, cluster: &NamespacedName) {
        lock(&self.0).remove(cluster);
    }

    /// Whether it is the namespace that follows from the name of a Cluster.
    pub fn is_computed(&self, namespace: &str) -> bool {
        lock(&self.0).computed.contains_key(namespace)
    }

    /// The Clusters that a namespace may belong to.
    pub fn of(&self, namespace: &str) -> Vec<NamespacedName> {
        let index = lock(&self.0);
        let both = [index.computed.get(namespace), index.claimed.get(namespace)];
        both.into_iter().flatten().flatten().cloned().collect()
    }

    /// The other Clusters whose names give the same namespace.
    pub fn rivals(&self, namespace: &str, cluster: &NamespacedName) -> Vec<NamespacedName> {
        let index = lock(&self.0);
        let all = index.computed.get(namespace).into_iter().flatten();
        all.filter(|other| *other != cluster).cloned().collect()
    }
}

impl Index {
    fn remove(&mut self, cluster: &NamespacedName) {
        let Some(noted) = self.clusters.remove(cluster) else {
            return;
        };
        take(&mut self.computed, &noted.computed, cluster);
        if let Some(claimed) = &noted.claimed {
            take(&mut self.claimed, claimed, cluster);
        }
    }
}

fn insert(index: &mut HashMap<String, BTreeSet<NamespacedName>>, namespace: &str, cluster: &NamespacedName) {
    index
        .entry(namespace.to_owned())
        .or_default()
        .insert(cluster.clone());
}

fn take(index: &mut HashMap<String, BTreeSet<NamespacedName>>, namespace: &str, cluster: &NamespacedName) {
    if let Some(clusters) = index.get_mut(namespace) {
        clusters.remove(cluster);
        if clusters.is_empty() {
            index.remove(namespace);
        }
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
        let claims = Claims::default();
        let own = names::cluster_namespace("fleet", "lab");
        claims.put(cluster("lab"), Some("chosen"));
        claims.put(cluster("prod"), None);
        assert_eq!(claims.of(&own), [cluster("lab")]);
        assert_eq!(claims.of("chosen"), [cluster("lab")]);
        assert!(claims.is_computed(&own) && !claims.is_computed("chosen"));
        assert!(claims.rivals(&own, &cluster("lab")).is_empty());
        assert_eq!(claims.rivals(&own, &cluster("other")), [cluster("lab")]);
    }

    #[test]
    fn nothing_is_left_of_what_is_gone() {
        let claims = Claims::default();
        for claimed in ["one", "other", ""] {
            claims.put(cluster("lab"), Some(claimed));
        }
        assert!(claims.of("one").is_empty() && claims.of("other").is_empty());
        claims.remove(&cluster("lab"));
        let index = lock(&claims.0);
        assert!(index.computed.is_empty() && index.claimed.is_empty() && index.clusters.is_empty());
    }
}
