//! A Bundle on a cluster.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use thiserror::Error;

use super::{
    cluster_namespace::NamespaceRefused, criteria::Member, group::Group, kept::Interner, matching::Matcher,
    selector::InvalidSelector, template::Budget, values::ValuesError,
};
use crate::api::{Bundle, BundleDeployment, BundleDeploymentOptions, labels};

/// A cluster that a Bundle goes to, what is to be there and what there is.
#[derive(Debug)]
pub struct Target<'a> {
    /// The cluster.
    pub member: Member<'a>,
    /// What is to be deployed, or why that cannot be said. It is the fault of this cluster alone: others get theirs.
    pub wanted: Result<DesiredTarget, TargetError>,
    /// What is there.
    pub existing: Option<&'a BundleDeployment>,
    /// What all targets of the Bundle together say of the release's namespace. It is the same for all clusters.
    pub release_namespace: Arc<NamespaceMetadata>,
}

/// Labels and annotations of the release's namespace.
#[derive(Debug, Default)]
pub struct NamespaceMetadata {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl NamespaceMetadata {
    /// Those of all targets of a Bundle; later ones win.
    fn of(bundle: &Bundle) -> Self {
        let mut all = Self::default();
        for target in &bundle.spec.targets {
            let own = &target.options;
            add(&mut all.labels, &own.namespace_labels);
            add(&mut all.annotations, &own.namespace_annotations);
        }
        all
    }
}

/// Adds entries to a map; they win.
pub fn add(to: &mut BTreeMap<String, String>, from: &BTreeMap<String, String>) {
    to.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// Why a cluster cannot be given what is wanted. It keeps what it has, and holds up no other.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    /// Its values cannot be made.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// No namespace is certain to be this cluster's.
    #[error(transparent)]
    Namespace(#[from] NamespaceRefused),
    /// Something that it needs is not to be had; in words.
    #[error("{0}")]
    Missing(String),
}

/// What is to be deployed on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredTarget {
    /// The options, without Helm values. Clusters with the same options share them.
    pub options: Arc<BundleDeploymentOptions>,
    /// The Helm values as they stand in the Secret; empty where there are none. Clusters with the same values share them.
    pub values: Arc<str>,
    /// Identifies options, values and the content.
    pub id: String,
}

impl Target<'_> {
    /// Namespace and name of the Cluster.
    fn cluster(&self) -> (&str, &str) {
        (self.member.namespace(), self.member.name())
    }

    /// The namespace for the cluster's BundleDeployments, if it is known.
    pub fn namespace(&self) -> Option<&str> {
        self.member.deployment_namespace()
    }
}

/// Finds the clusters that a Bundle goes to, in the order of their names.
///
/// `existing` are the BundleDeployments of the Bundle, and `forbids_namespaces` is what Policies say about creating
/// namespaces. `budget` is that of the Bundle: where it is exceeded, the clusters that have no values yet get none, and
/// their obstacle says so.
///
/// # Errors
/// Where a selector of the Bundle is not one.
pub fn targets<'a>(
    bundle: &Bundle,
    members: impl IntoIterator<Item = Member<'a>>,
    existing: &[&'a BundleDeployment],
    forbids_namespaces: bool,
    budget: &Budget,
) -> Result<Vec<Target<'a>>, InvalidSelector> {
    let matcher = Matcher::new(&bundle.spec)?;
    let namespace =
        |deployment: &'a BundleDeployment| deployment.metadata.namespace.as_deref().unwrap_or_default();
    let existing: HashMap<&str, _> = existing
        .iter()
        .map(|deployment| (namespace(deployment), *deployment))
        .collect();
    let release_namespace = Arc::new(NamespaceMetadata::of(bundle));
    let mut kept = Interner::new(budget);
    let mut targets = Vec::new();
    for members in grouped(&matcher, members) {
        let first = members.first().cloned();
        let options = || {
            let mut options = matcher.options(first.as_ref()?)?;
            if forbids_namespaces {
                options.create_namespace = Some(false);
            }
            Some(options)
        };
        let mut group = Group::new(&bundle.spec.contents_id, &options);
        for member in members {
            let wanted = match member.refused() {
                Some(refused) => Err(refused.clone().into()),
                None => group
                    .wanted(member.cluster, &mut kept)
                    .map_err(TargetError::Values),
            };
            let namespace = member.deployment_namespace();
            let found = namespace.and_then(|namespace| existing.get(namespace).copied());
            targets.push(Target {
                member,
                wanted,
                existing: found,
                release_namespace: Arc::clone(&release_namespace),
            });
        }
    }
    targets.sort_by_key(|target| (target.member.name(), target.member.namespace()));
    Ok(targets)
}

/// The clusters that a Bundle goes to, those together that the same targets decide on.
fn grouped<'a>(matcher: &Matcher<'_>, members: impl IntoIterator<Item = Member<'a>>) -> Vec<Vec<Member<'a>>> {
    let (mut groups, mut places) = (Vec::<Vec<_>>::new(), HashMap::new());
    for member in members {
        let Some(choice) = matcher.choice(&member) else {
            continue;
        };
        let place = *places.entry(choice).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
        }
    }
    groups
}

/// The BundleDeployments of a Bundle that are on none of its clusters any more.
///
/// One that `is_kept` stays. So does one that was made for a cluster that the Bundle still goes to, also where it is in another
/// namespace than that of the cluster: then somebody has changed whose namespace that is, and an agent may still deploy from
/// it. [`strays`] finds those.
pub fn orphans<'a>(
    targets: &[Target<'_>],
    existing: &[&'a BundleDeployment],
    is_kept: impl Fn(&BundleDeployment) -> bool,
) -> Vec<&'a BundleDeployment> {
    let wanted: HashSet<&str> = targets.iter().filter_map(Target::namespace).collect();
    let clusters: HashSet<_> = targets.iter().map(Target::cluster).collect();
    let is_wanted = |deployment: &BundleDeployment| {
        let namespace = deployment.metadata.namespace.as_deref();
        namespace.is_some_and(|namespace| wanted.contains(namespace))
            || cluster_of(deployment).is_some_and(|cluster| clusters.contains(&cluster))
    };
    existing
        .iter()
        .copied()
        .filter(|deployment| !is_wanted(deployment) && !is_kept(deployment))
        .collect()
}

/// What to say of clusters that have a BundleDeployment in another namespace than theirs, by their place among the targets.
pub fn strays(targets: &[Target<'_>], existing: &[&BundleDeployment]) -> HashMap<usize, String> {
    let namespaces: HashSet<&str> = targets.iter().filter_map(Target::namespace).collect();
    let places: HashMap<_, _> = targets
        .iter()
        .enumerate()
        .filter(|(_, target)| target.namespace().is_some())
        .map(|(place, target)| (target.cluster(), place))
        .collect();
    let problem = |deployment: &&BundleDeployment| {
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let place = *places.get(&cluster_of(deployment)?)?;
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        let problem = format!(
            "BundleDeployment {namespace}/{name} was made for this cluster, whose namespace is another one, and is kept; \
             delete it when no agent deploys from namespace {namespace}"
        );
        (!namespaces.contains(namespace)).then_some((place, problem))
    };
    existing.iter().filter_map(problem).collect()
}

/// Namespace and name of the Cluster that a deployment is on, as its labels tell.
pub fn cluster_of(deployment: &BundleDeployment) -> Option<(&str, &str)> {
    let own = deployment.metadata.labels.as_ref()?;
    Some((own.get(labels::CLUSTER_NAMESPACE)?, own.get(labels::CLUSTER)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Cluster;

    fn cluster(name: &str) -> Cluster {
        let object = json!({
            "metadata": { "name": name, "namespace": "fleet" }, "status": { "namespace": format!("cluster-{name}") }
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// The deployment of a Bundle for a cluster, in a namespace.
    fn deployment(cluster: &str, namespace: &str) -> BundleDeployment {
        let labels = json!({ labels::CLUSTER_NAMESPACE: "fleet", labels::CLUSTER: cluster });
        let object = json!({ "metadata": { "name": "web", "namespace": namespace, "labels": labels } });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn bundle(target: &str) -> Bundle {
        let spec = json!({ "helm": { "chart": "web" }, "targets": [{ "clusterName": target }] });
        serde_json::from_str(&json!({ "spec": spec }).to_string()).unwrap()
    }

    fn refused() -> NamespaceRefused {
        NamespaceRefused::Shared {
            cluster: "fleet/lab".to_owned(),
            namespace: "cluster-lab".to_owned(),
            other: "fleet/prod".to_owned(),
        }
    }

    #[test]
    fn a_cluster_without_a_namespace_of_its_own_keeps_what_it_has_and_gets_nothing() {
        let (bundle, lab) = (bundle("lab"), cluster("lab"));
        let before = deployment("lab", "cluster-lab");
        let member = Member::new(&lab, []).with_namespace(Err(refused()));
        let targets = targets(&bundle, [member], &[&before], false, &Budget::without_clock()).unwrap();
        let target = &targets[0];
        assert_eq!(target.wanted, Err(TargetError::Namespace(refused())));
        assert_eq!((target.namespace(), target.existing), (None, None));
        assert!(orphans(&targets, &[&before], |_| false).is_empty());
        assert!(
            strays(&targets, &[&before]).is_empty(),
            "the refusal is reported already"
        );
    }

    #[test]
    fn the_namespace_that_is_certain_counts_and_not_that_of_the_status() {
        let (bundle, lab) = (bundle("lab"), cluster("lab"));
        let (of_prod, own) = (deployment("prod", "cluster-lab"), deployment("lab", "certain"));
        let member = Member::new(&lab, []).with_namespace(Ok("certain".to_owned()));
        let targets = targets(
            &bundle,
            [member],
            &[&of_prod, &own],
            false,
            &Budget::without_clock(),
        )
        .unwrap();
        assert_eq!(targets[0].namespace(), Some("certain"));
        assert_eq!(targets[0].existing, Some(&own));
    }

    /// As one that was delivered while an agent claimed the namespace of another cluster.
    #[test]
    fn a_deployment_in_another_namespace_is_reported_and_kept() {
        let (bundle, lab) = (bundle("lab"), cluster("lab"));
        let (stray, gone) = (
            deployment("lab", "cluster-prod"),
            deployment("old", "cluster-old"),
        );
        let existing = [&stray, &gone];
        let targets = targets(
            &bundle,
            [Member::new(&lab, [])],
            &existing,
            false,
            &Budget::without_clock(),
        )
        .unwrap();
        assert_eq!(orphans(&targets, &existing, |_| false), [&gone]);
        let told = strays(&targets, &existing);
        assert_eq!(told.len(), 1);
        assert!(told[&0].contains("BundleDeployment cluster-prod/web"), "{told:?}");
    }
}
