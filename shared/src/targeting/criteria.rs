//! Whether a cluster belongs to a set.

use super::selector::{InvalidSelector, Selector};
use crate::api::{Cluster, ClusterGroup, labels, target::ClusterCriteria};

/// A cluster and the groups that it is in.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its groups. `None` stands for no group, where it is in none.
    groups: Vec<Option<&'a ClusterGroup>>,
}

impl<'a> Member<'a> {
    /// Finds the groups of a cluster: those of its namespace whose selector selects it. One with a selector that
    /// Kubernetes does not allow has no clusters.
    pub fn new(cluster: &'a Cluster, groups: impl IntoIterator<Item = &'a ClusterGroup>) -> Self {
        let is_in = |group: &&ClusterGroup| {
            group.metadata.namespace == cluster.metadata.namespace
                && group.spec.selector.as_ref().is_some_and(|selector| {
                    Selector::new("spec.selector", selector)
                        .is_ok_and(|selector| selector.matches(cluster.metadata.labels.as_ref()))
                })
        };
        let mut groups: Vec<_> = groups.into_iter().filter(is_in).map(Some).collect();
        if groups.is_empty() {
            groups.push(None);
        }
        Self { cluster, groups }
    }

    /// Whether something holds for the cluster together with one of its groups.
    pub fn any(&self, mut holds: impl FnMut(&'a Cluster, Option<&'a ClusterGroup>) -> bool) -> bool {
        self.groups.iter().any(|group| holds(self.cluster, *group))
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    /// The namespace that the Cluster object is in.
    pub fn namespace(&self) -> &'a str {
        self.cluster.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Criteria with selectors that are known to be some.
#[derive(Clone, Copy, Debug)]
pub struct Criteria<'a> {
    wanted: &'a ClusterCriteria,
    clusters: Option<Selector<'a>>,
    groups: Option<Selector<'a>>,
}

impl<'a> Criteria<'a> {
    /// Checks criteria. `path` names them in the error.
    ///
    /// # Errors
    /// Where one of the selectors is not one.
    pub fn new(path: &str, wanted: &'a ClusterCriteria) -> Result<Self, InvalidSelector> {
        let selector = |name: &str, selector: Option<&'a _>| {
            selector
                .map(|selector| Selector::new(&format!("{path}.{name}"), selector))
                .transpose()
        };
        Ok(Self {
            wanted,
            clusters: selector("clusterSelector", wanted.cluster_selector.as_ref())?,
            groups: selector("clusterGroupSelector", wanted.cluster_group_selector.as_ref())?,
        })
    }

    /// Whether a cluster, as one of a group, fulfils all of them. Name and labels of a group must be of the same group.
    pub fn hold(&self, cluster: &Cluster, group: Option<&ClusterGroup>) -> bool {
        let wanted = self.wanted;
        super::has_criteria(wanted)
            && (wanted.cluster_name.is_empty() || is_named(cluster, &wanted.cluster_name))
            && (wanted.cluster_group.is_empty()
                || group.is_some_and(|group| group.metadata.name.as_ref() == Some(&wanted.cluster_group)))
            && self.groups.is_none_or(|selector| {
                selector.matches(group.and_then(|group| group.metadata.labels.as_ref()))
            })
            && self
                .clusters
                .is_none_or(|selector| selector.matches(cluster.metadata.labels.as_ref()))
    }
}

/// A cluster goes by its own name, and by the one that Rancher shows.
fn is_named(cluster: &Cluster, name: &str) -> bool {
    let shown = cluster
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::CLUSTER_DISPLAY_NAME));
    cluster.metadata.name.as_deref() == Some(name) || shown.is_some_and(|shown| shown == name)
}
