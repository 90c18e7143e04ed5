//! A Bundle on a cluster.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use gotmpl::Budget;
use helmops_api::{Bundle, BundleDeployment, labels};
use helmops_model::selector::InvalidSelector;
use thiserror::Error;

use super::{
    batch::ClusterBatch,
    blocked::Blocked,
    chart_record::ChartRecords,
    cluster_namespace::NamespaceRefused,
    criteria::Member,
    desired::DesiredTarget,
    interner::Interner,
    matching::{InexactVersion, Matcher},
    values::ValuesError,
};

/// A cluster that a Bundle targets, with its desired and its existing deployment.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The cluster.
    pub member: Member<'a>,
    /// What to deploy, or why it is unknown. The error concerns this cluster only: other clusters are deployed to.
    pub desired: Result<DesiredTarget, TargetError>,
    /// The existing deployment.
    pub existing: Option<&'a BundleDeployment>,
    /// Metadata of the release's namespace from all targets of the Bundle. It is the same for all clusters.
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
    /// The metadata from all targets of a Bundle; later targets override earlier ones.
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

/// Adds entries to a map; they override existing entries.
pub fn add(to: &mut BTreeMap<String, String>, from: &BTreeMap<String, String>) {
    to.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// Why the desired state of a cluster is unknown. The cluster keeps its deployment and does not block other clusters.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    /// Its values cannot be computed.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// No namespace certainly belongs to this cluster.
    #[error(transparent)]
    Namespace(#[from] NamespaceRefused),
    /// The version of its chart is a range.
    #[error(transparent)]
    Version(#[from] InexactVersion),
    /// It is known, and cannot be delivered.
    #[error(transparent)]
    Blocked(#[from] Blocked),
}

impl<'a> Target<'a> {
    /// The same target with a deployment that was just created.
    pub fn with_existing<'b>(&self, existing: &'b BundleDeployment) -> Target<'b>
    where
        'a: 'b,
    {
        Target {
            existing: Some(existing),
            ..self.clone()
        }
    }

    /// The same target, whose desired state cannot be delivered if `blocked` has the cause.
    #[must_use]
    pub fn or_blocked(self, blocked: Option<Blocked>) -> Self {
        match blocked {
            Some(blocked) => Self {
                desired: Err(blocked.into()),
                ..self
            },
            None => self,
        }
    }

    /// Namespace and name of the Cluster.
    fn cluster(&self) -> (&str, &str) {
        (self.member.namespace(), self.member.name())
    }

    /// The namespace for the cluster's BundleDeployments, if it is known.
    pub fn namespace(&self) -> Option<&str> {
        self.member.deployment_namespace()
    }
}

/// Finds the clusters that a Bundle targets, sorted by name.
///
/// `existing` are the BundleDeployments of the Bundle, and `forbids_namespaces` is set if Policies forbid to create
/// namespaces. `budget` is that of the Bundle: once it is exceeded, the remaining clusters get no values, and their
/// [`TargetError`] reports it.
///
/// # Errors
/// If a selector of the Bundle is invalid.
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
    let charts = ChartRecords::of(bundle);
    let mut interner = Interner::new(budget);
    let mut targets = Vec::new();
    for members in batches(&matcher, members) {
        let first = members.first().cloned();
        let options = || {
            let mut options = matcher.options(first.as_ref()?)?;
            if forbids_namespaces {
                options.create_namespace = Some(false);
            }
            Some(charts.delivered(options))
        };
        let inexact = first.as_ref().and_then(|first| {
            let inexact = matcher.inexact_version(first)?;
            let is_resolved = charts.has(&matcher.options(first)?);
            (!is_resolved).then_some(inexact)
        });
        // A chart has no content in the Bundle itself.
        let contents = match &*bundle.spec.contents_id {
            "" => charts.contents(|| matcher.options(first.as_ref()?)),
            contents => contents.to_owned(),
        };
        let mut batch = ClusterBatch::new(&contents, &options);
        for member in members {
            let result = match (member.refused(), &inexact) {
                (Some(refused), _) => Err(refused.clone().into()),
                (None, Some(inexact)) => Err(inexact.clone().into()),
                (None, None) => batch
                    .desired(member.cluster, &mut interner)
                    .map_err(TargetError::Values),
            };
            let namespace = member.deployment_namespace();
            let found = namespace.and_then(|namespace| existing.get(namespace).copied());
            targets.push(Target {
                member,
                desired: result,
                existing: found,
                release_namespace: Arc::clone(&release_namespace),
            });
        }
    }
    targets.sort_by_key(|target| (target.member.name(), target.member.namespace()));
    Ok(targets)
}

/// The clusters that a Bundle targets, in batches that the same targets apply to.
fn batches<'a>(matcher: &Matcher<'_>, members: impl IntoIterator<Item = Member<'a>>) -> Vec<Vec<Member<'a>>> {
    let (mut batches, mut positions) = (Vec::<Vec<_>>::new(), HashMap::new());
    for member in members {
        let Some(targets) = matcher.matched_targets(&member) else {
            continue;
        };
        let position = *positions.entry(targets).or_insert(batches.len());
        match batches.get_mut(position) {
            Some(batch) => batch.push(member),
            None => batches.push(vec![member]),
        }
    }
    batches
}

/// The BundleDeployments of a Bundle that belong to none of its target clusters any more, and are pruned.
///
/// One stays that was created for a cluster that the Bundle still targets, even if it is in another
/// namespace than that of the cluster: then the owner of that namespace has changed, and an agent may still deploy from it.
/// [`strays`] finds those.
pub fn orphans<'a>(targets: &[Target<'_>], existing: &[&'a BundleDeployment]) -> Vec<&'a BundleDeployment> {
    let namespaces: HashSet<&str> = targets.iter().filter_map(Target::namespace).collect();
    let clusters: HashSet<_> = targets.iter().map(Target::cluster).collect();
    let is_targeted = |deployment: &BundleDeployment| {
        let namespace = deployment.metadata.namespace.as_deref();
        namespace.is_some_and(|namespace| namespaces.contains(namespace))
            || cluster_of(deployment).is_some_and(|cluster| clusters.contains(&cluster))
    };
    existing
        .iter()
        .copied()
        .filter(|deployment| !is_targeted(deployment))
        .collect()
}

/// Messages for clusters that have a BundleDeployment in another namespace than theirs, by index of the target.
pub fn strays(targets: &[Target<'_>], existing: &[&BundleDeployment]) -> HashMap<usize, String> {
    let namespaces: HashSet<&str> = targets.iter().filter_map(Target::namespace).collect();
    let indexes: HashMap<_, _> = targets
        .iter()
        .enumerate()
        .filter(|(_, target)| target.namespace().is_some())
        .map(|(index, target)| (target.cluster(), index))
        .collect();
    let problem = |deployment: &&BundleDeployment| {
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let index = *indexes.get(&cluster_of(deployment)?)?;
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        let problem = format!(
            "BundleDeployment {namespace}/{name} was created for this cluster, which has another namespace, and is kept; \
             delete it when no agent deploys from namespace {namespace}"
        );
        (!namespaces.contains(namespace)).then_some((index, problem))
    };
    existing.iter().filter_map(problem).collect()
}

/// Namespace and name of the Cluster of a deployment, from its labels.
pub fn cluster_of(deployment: &BundleDeployment) -> Option<(&str, &str)> {
    let own = deployment.metadata.labels.as_ref()?;
    Some((own.get(labels::CLUSTER_NAMESPACE)?, own.get(labels::CLUSTER)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use helmops_api::Cluster;

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

    fn refusal() -> NamespaceRefused {
        NamespaceRefused::Shared {
            cluster: "fleet/lab".to_owned(),
            namespace: "cluster-lab".to_owned(),
            other: "fleet/prod".to_owned(),
        }
    }

    #[test]
    fn a_cluster_without_its_own_namespace_keeps_its_deployment_and_gets_nothing() {
        let (bundle, lab) = (bundle("lab"), cluster("lab"));
        let existing = deployment("lab", "cluster-lab");
        let member = Member::new(&lab, []).with_namespace(Err(refusal()));
        let targets = targets(&bundle, [member], &[&existing], false, &Budget::default()).unwrap();
        let target = &targets[0];
        assert_eq!(target.desired, Err(TargetError::Namespace(refusal())));
        assert_eq!((target.namespace(), target.existing), (None, None));
        assert!(orphans(&targets, &[&existing]).is_empty());
        assert!(
            strays(&targets, &[&existing]).is_empty(),
            "the refusal is reported already"
        );
    }

    #[test]
    fn the_version_of_a_target_may_have_two_numbers_if_it_was_resolved() {
        let lab = cluster("lab");
        let record = json!([{ "repo": "https://h", "chart": "web", "constraint": "1.2", "version": "1.2" }]);
        for (version, is_known) in [("1.2", true), ("1.3", false), ("1.2.3", true)] {
            let target = json!({ "clusterName": "lab", "helm": { "version": version } });
            let object = json!({
                "metadata": { "annotations": { labels::RESOLVED: record.to_string() } },
                "spec": {
                    "helmOpOptions": {}, "targets": [target],
                    "helm": { "repo": "https://h", "chart": "web", "version": "1.0.0" },
                },
            });
            let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
            let member = Member::new(&lab, []);
            let targets = targets(&bundle, [member], &[], false, &Budget::default()).unwrap();
            let is_range = matches!(targets[0].desired, Err(TargetError::Version(_)));
            assert_eq!(is_range, !is_known, "{version}");
        }
    }

    #[test]
    fn the_verified_namespace_is_used_instead_of_the_one_in_the_status() {
        let (bundle, lab) = (bundle("lab"), cluster("lab"));
        let (of_prod, own) = (deployment("prod", "cluster-lab"), deployment("lab", "verified"));
        let member = Member::new(&lab, []).with_namespace(Ok("verified".to_owned()));
        let targets = targets(&bundle, [member], &[&of_prod, &own], false, &Budget::default()).unwrap();
        assert_eq!(targets[0].namespace(), Some("verified"));
        assert_eq!(targets[0].existing, Some(&own));
    }

    /// For example one that was delivered while an agent claimed the namespace of another cluster.
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
            &Budget::default(),
        )
        .unwrap();
        assert_eq!(orphans(&targets, &existing), [&gone]);
        let messages = strays(&targets, &existing);
        assert_eq!(messages.len(), 1);
        assert!(
            messages[&0].contains("BundleDeployment cluster-prod/web"),
            "{messages:?}"
        );
    }
}
