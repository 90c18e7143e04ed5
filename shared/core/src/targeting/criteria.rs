//! Whether a cluster matches criteria.

use std::borrow::Cow;

use helmops_api::{Cluster, ClusterGroup, labels, target::ClusterCriteria};
use helmops_model::selector::{InvalidSelector, Selector};
use k8s_openapi::jiff::Timestamp;

use super::cluster_namespace::NamespaceRefused;
use crate::schedule::ClusterWindows;

/// A group of clusters. Its selector is checked once, not for each cluster.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    group: &'a ClusterGroup,
    selector: Selector<'a>,
}

impl<'a> Group<'a> {
    /// A group with clusters. `None` for a group without a selector or with an invalid one: no cluster is in it.
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
    /// Its groups; a single `None` if it is in no group.
    groups: Vec<Option<&'a ClusterGroup>>,
    /// The namespace for its BundleDeployments, empty while it is unknown, or why there is none.
    deployment_namespace: Result<Cow<'a, str>, NamespaceRefused>,
    /// Whether its Schedules allow no deployments now.
    pub is_out_of_schedule: bool,
    /// When to look at its Schedules again; `None` if that changes nothing, or is not known.
    pub schedule_changes: Option<Timestamp>,
}

impl<'a> Member<'a> {
    /// Finds the groups of a cluster: those in its namespace whose selector matches it.
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
        let deployment_namespace = Ok(Cow::Borrowed(&*cluster.status.namespace));
        Self {
            cluster,
            groups,
            deployment_namespace,
            is_out_of_schedule: cluster.status.is_out_of_schedule(),
            schedule_changes: None,
        }
    }

    /// Uses the namespace that certainly belongs to the cluster, instead of the one in its status.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Result<String, NamespaceRefused>) -> Self {
        self.deployment_namespace = namespace.map(Cow::Owned);
        self
    }

    /// Uses what its Schedules decide now, instead of what its status says: that is written later.
    pub fn set_windows(&mut self, windows: &ClusterWindows) {
        self.is_out_of_schedule = windows.is_out_of_schedule();
        self.schedule_changes = windows.again;
    }

    /// The namespace for its BundleDeployments, if it is known.
    pub fn deployment_namespace(&self) -> Option<&str> {
        let namespace = self.deployment_namespace.as_deref().ok()?;
        (!namespace.is_empty()).then_some(namespace)
    }

    /// Why nothing can be delivered to it.
    pub fn refused(&self) -> Option<&NamespaceRefused> {
        self.deployment_namespace.as_ref().err()
    }

    /// Whether a predicate holds for the cluster together with one of its groups.
    pub fn any(&self, mut holds: impl FnMut(&'a Cluster, Option<&'a ClusterGroup>) -> bool) -> bool {
        self.groups.iter().any(|group| holds(self.cluster, *group))
    }

    /// The cluster with only those of its groups that a predicate holds for.
    #[must_use]
    pub fn within(&self, mut holds: impl FnMut(&'a Cluster, Option<&'a ClusterGroup>) -> bool) -> Self {
        let groups = self.groups.iter().copied();
        Self {
            cluster: self.cluster,
            groups: groups.filter(|group| holds(self.cluster, *group)).collect(),
            deployment_namespace: self.deployment_namespace.clone(),
            is_out_of_schedule: self.is_out_of_schedule,
            schedule_changes: self.schedule_changes,
        }
    }

    /// Names of the cluster in criteria: its own name, and its display name in Rancher.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        let own = self.cluster.metadata.name.as_deref();
        own.into_iter().chain(display_name(self.cluster))
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

/// Criteria with valid selectors.
#[derive(Clone, Debug)]
pub struct Criteria<'a> {
    fields: &'a ClusterCriteria,
    clusters: Option<Selector<'a>>,
    groups: Option<Selector<'a>>,
}

impl<'a> Criteria<'a> {
    /// Checks criteria. `path` names them in the error.
    ///
    /// # Errors
    /// If one of the selectors is invalid.
    pub fn new(path: &str, criteria: &'a ClusterCriteria) -> Result<Self, InvalidSelector> {
        let selector = |name: &str, selector: Option<&'a _>| {
            selector
                .map(|selector| Selector::new(&format!("{path}.{name}"), selector))
                .transpose()
        };
        Ok(Self {
            fields: criteria,
            clusters: selector("clusterSelector", criteria.cluster_selector.as_ref())?,
            groups: selector("clusterGroupSelector", criteria.cluster_group_selector.as_ref())?,
        })
    }

    /// The cluster that the criteria name; empty if they name none.
    pub fn cluster_name(&self) -> &'a str {
        &self.fields.cluster_name
    }

    /// The group that the criteria name; empty if they name none.
    pub fn cluster_group(&self) -> &'a str {
        &self.fields.cluster_group
    }

    /// Whether a cluster, as a member of a group, matches all criteria. Name and labels must match the same group.
    pub fn matches(&self, cluster: &Cluster, group: Option<&ClusterGroup>) -> bool {
        let criteria = self.fields;
        criteria.has_any()
            && (criteria.cluster_name.is_empty() || is_named(cluster, &criteria.cluster_name))
            && (criteria.cluster_group.is_empty()
                || group.is_some_and(|group| group.metadata.name.as_ref() == Some(&criteria.cluster_group)))
            && self.groups.as_ref().is_none_or(|selector| {
                selector.matches(group.and_then(|group| group.metadata.labels.as_ref()))
            })
            && self
                .clusters
                .as_ref()
                .is_none_or(|selector| selector.matches(cluster.metadata.labels.as_ref()))
    }
}

/// Whether a cluster has this name, or this display name in Rancher.
fn is_named(cluster: &Cluster, name: &str) -> bool {
    cluster.metadata.name.as_deref() == Some(name) || display_name(cluster) == Some(name)
}

/// The display name of a cluster in Rancher.
fn display_name(cluster: &Cluster) -> Option<&str> {
    let own = cluster.metadata.labels.as_ref()?;
    own.get(labels::CLUSTER_DISPLAY_NAME).map(String::as_str)
}
