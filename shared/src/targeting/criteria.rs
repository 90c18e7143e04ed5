//! Whether a cluster belongs to a set.

use std::borrow::Cow;

use super::{
    cluster_namespace::NamespaceRefused,
    selector::{InvalidSelector, Selector},
};
use crate::api::{Cluster, ClusterGroup, labels, target::ClusterCriteria};

/// A group of clusters. Its selector is checked once, not for each cluster.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    group: &'a ClusterGroup,
    selector: Selector<'a>,
}

impl<'a> Group<'a> {
    /// A group with clusters. One without a selector, or with one that Kubernetes does not allow, has none.
    pub fn of(group: &'a ClusterGroup) -> Option<Self> {
        let selector = Selector::new("spec.selector", group.spec.selector.as_ref()?).ok()?;
        Some(Self { group, selector })
    }
}

/// A cluster and the groups that it is in.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its groups. `None` stands for no group, where it is in none.
    groups: Vec<Option<&'a ClusterGroup>>,
    /// The namespace for its BundleDeployments, empty while it is not known, or why there is none.
    deployments: Result<Cow<'a, str>, NamespaceRefused>,
}

impl<'a> Member<'a> {
    /// Finds the groups of a cluster: those of its namespace whose selector selects it.
    pub fn new<'g>(cluster: &'a Cluster, groups: impl IntoIterator<Item = &'g Group<'a>>) -> Self
    where
        'a: 'g,
    {
        let is_in = |Group { group, selector }: &&Group<'_>| {
            group.metadata.namespace == cluster.metadata.namespace
                && selector.matches(cluster.metadata.labels.as_ref())
        };
        let groups = groups.into_iter().filter(is_in);
        let mut groups: Vec<_> = groups.map(|group| Some(group.group)).collect();
        if groups.is_empty() {
            groups.push(None);
        }
        let deployments = Ok(Cow::Borrowed(&*cluster.status.namespace));
        Self {
            cluster,
            groups,
            deployments,
        }
    }

    /// The same with the namespace that is certain to be the cluster's, in place of the one that its status names.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Result<String, NamespaceRefused>) -> Self {
        self.deployments = namespace.map(Cow::Owned);
        self
    }

    /// The namespace for its BundleDeployments, if it is known.
    pub fn deployment_namespace(&self) -> Option<&str> {
        let namespace = self.deployments.as_deref().ok()?;
        (!namespace.is_empty()).then_some(namespace)
    }

    /// Why nothing can be delivered to it.
    pub fn refused(&self) -> Option<&NamespaceRefused> {
        self.deployments.as_ref().err()
    }

    /// Whether something holds for the cluster together with one of its groups.
    pub fn any(&self, mut holds: impl FnMut(&'a Cluster, Option<&'a ClusterGroup>) -> bool) -> bool {
        self.groups.iter().any(|group| holds(self.cluster, *group))
    }

    /// The cluster with those of its groups alone that something holds for.
    #[must_use]
    pub fn within(&self, mut holds: impl FnMut(&'a Cluster, Option<&'a ClusterGroup>) -> bool) -> Self {
        let groups = self.groups.iter().copied();
        Self {
            cluster: self.cluster,
            groups: groups.filter(|group| holds(self.cluster, *group)).collect(),
            deployments: self.deployments.clone(),
        }
    }

    /// What criteria can call the cluster: its own name, and the one that Rancher shows.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        let own = self.cluster.metadata.name.as_deref();
        own.into_iter().chain(shown_name(self.cluster))
    }

    /// The names of its groups.
    pub fn group_names(&self) -> impl Iterator<Item = &'a str> {
        let groups = self.groups.iter().flatten();
        groups.filter_map(|group| group.metadata.name.as_deref())
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
#[derive(Clone, Debug)]
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

    /// The cluster that they name; empty for none.
    pub fn cluster_name(&self) -> &'a str {
        &self.wanted.cluster_name
    }

    /// The group that they name; empty for none.
    pub fn cluster_group(&self) -> &'a str {
        &self.wanted.cluster_group
    }

    /// Whether a cluster, as one of a group, fulfils all of them. Name and labels of a group must be of the same group.
    pub fn hold(&self, cluster: &Cluster, group: Option<&ClusterGroup>) -> bool {
        let wanted = self.wanted;
        super::has_criteria(wanted)
            && (wanted.cluster_name.is_empty() || is_named(cluster, &wanted.cluster_name))
            && (wanted.cluster_group.is_empty()
                || group.is_some_and(|group| group.metadata.name.as_ref() == Some(&wanted.cluster_group)))
            && self.groups.as_ref().is_none_or(|selector| {
                selector.matches(group.and_then(|group| group.metadata.labels.as_ref()))
            })
            && self
                .clusters
                .as_ref()
                .is_none_or(|selector| selector.matches(cluster.metadata.labels.as_ref()))
    }
}

/// A cluster goes by its own name, and by the one that Rancher shows.
fn is_named(cluster: &Cluster, name: &str) -> bool {
    cluster.metadata.name.as_deref() == Some(name) || shown_name(cluster) == Some(name)
}

/// The name of a cluster that Rancher shows.
fn shown_name(cluster: &Cluster) -> Option<&str> {
    let own = cluster.metadata.labels.as_ref()?;
    own.get(labels::CLUSTER_DISPLAY_NAME).map(String::as_str)
}
