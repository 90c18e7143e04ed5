//! What is the same for all clusters of a Bundle.

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::{Bundle, BundleDeployment, BundleDeploymentOptions, NamespacedName};

use super::ClusterState;
use crate::targeting::{
    blocked::Blocked,
    chart_record::ChartRecords,
    copies::{
        Copy, CopyKind, CopyPurpose, CopyRef, CopyRole, Destination, Object, ObservedCopy, SourceRef,
        access_source, downstream, referenced_sources,
    },
    deployment::{NextState, SecretValues, access_secret, is_of_content},
    desired::DesiredTarget,
    rollout::RolloutStep,
    target::Target,
};

/// The objects to copy: each is read once for all clusters. An object that cannot be copied blocks the clusters that need it.
pub type Sources = BTreeMap<SourceRef, Result<Object, Blocked>>;

/// A Bundle and the sources of its copies.
#[derive(Debug)]
pub struct BundleDelivery<'b> {
    bundle: &'b Bundle,
    /// The records of its charts.
    charts: ChartRecords,
    sources: &'b Sources,
    /// Its access Secret.
    access_source: Option<SourceRef>,
    /// Its access Secret, if it is available.
    access: Option<SourceCopy<'b>>,
    /// Its downstream resources that are available.
    downstream: BTreeMap<&'b SourceRef, SourceCopy<'b>>,
    /// The purpose of a Secret with values.
    values: CopyPurpose,
}

/// The copies of a source, which differ only in their namespace.
#[derive(Debug)]
pub(super) struct SourceCopy<'b> {
    pub role: CopyRole,
    /// The name of each copy.
    pub name: String,
    pub source: &'b Object,
    /// Namespace, name and version of the source.
    pub copied_from: String,
    pub keys: usize,
    pub purpose: CopyPurpose,
}

impl<'b> SourceCopy<'b> {
    fn new(bundle: &Bundle, role: CopyRole, name: String, source: &'b Object) -> Self {
        let copied_from = source.version();
        let bundle_name = bundle.metadata.name.clone().unwrap_or_default();
        Self {
            role,
            name,
            source,
            keys: source.keys(),
            purpose: CopyPurpose {
                role,
                bundle_namespace: bundle.metadata.namespace.clone().unwrap_or_default(),
                bundle: (role == CopyRole::Access).then_some(bundle_name),
                source: copied_from.split_once('@').map(|(source, _)| source.to_owned()),
            },
            copied_from,
        }
    }

    /// The copy for a cluster.
    pub fn build(&self, destination: Destination<'_>) -> Copy {
        match (self.role, self.source) {
            (CopyRole::Access, Object::Secret(secret)) => {
                Copy::of_access(destination, self.name.clone(), secret)
            }
            _ => Copy::of_downstream(destination, self.source),
        }
    }

    /// The reference to the copy in a namespace.
    pub fn reference(&self, namespace: &str) -> CopyRef {
        CopyRef {
            kind: self.source.kind(),
            name: NamespacedName::new(namespace, &*self.name),
        }
    }
}

impl<'b> BundleDelivery<'b> {
    /// A Bundle, and the sources that its targets need.
    pub fn new(bundle: &'b Bundle, sources: &'b Sources) -> Self {
        let access_source = access_source(bundle);
        let access = access_source.as_ref().zip(access_secret(bundle));
        let access = access.and_then(|(source, name)| match sources.get(source) {
            Some(Ok(secret @ Object::Secret(_))) => {
                Some(SourceCopy::new(bundle, CopyRole::Access, name, secret))
            }
            _ => None,
        });
        let available = sources.iter().filter_map(|(source, object)| {
            let (object, name) = (object.as_ref().ok()?, source.name.clone());
            Some((
                source,
                SourceCopy::new(bundle, CopyRole::Downstream, name, object),
            ))
        });
        Self {
            bundle,
            charts: ChartRecords::of(bundle),
            sources,
            access_source,
            access,
            downstream: available.collect(),
            values: CopyPurpose {
                role: CopyRole::Values,
                bundle_namespace: bundle.metadata.namespace.clone().unwrap_or_default(),
                bundle: bundle.metadata.name.clone(),
                source: None,
            },
        }
    }

    /// The sources that a Bundle needs for its targets.
    pub fn required_sources(bundle: &Bundle, targets: &[Target<'_>]) -> BTreeSet<SourceRef> {
        let desired = targets.iter().filter_map(|target| target.desired.as_ref().ok());
        let desired = desired.flat_map(|desired| downstream(&desired.options).unwrap_or_default());
        // The sources of existing deployments are kept up to date until the rollout reaches their clusters.
        let current = targets.iter().filter_map(|target| target.existing);
        let current = current.flat_map(referenced_sources);
        let is_needed = !targets.is_empty();
        desired
            .chain(current)
            .chain(access_source(bundle).filter(|_| is_needed))
            .collect()
    }

    /// What in the namespace of a target's cluster concerns the Bundle.
    pub fn cache_filter<'t>(&'t self, target: &'t Target<'_>) -> CacheFilter<'t> {
        let options = target.desired.as_ref().ok().map(|desired| &*desired.options);
        let options = options
            .into_iter()
            .flat_map(|options| downstream(options).unwrap_or_default());
        CacheFilter {
            bundle: &self.values,
            name: self.name(),
            uid: target
                .existing
                .and_then(|existing| existing.metadata.uid.as_deref()),
            access: self.access.as_ref().map(|access| &*access.name),
            downstream: options
                .chain(target.existing.into_iter().flat_map(referenced_sources))
                .collect(),
        }
    }

    pub(super) const fn bundle(&self) -> &'b Bundle {
        self.bundle
    }

    pub(super) const fn charts(&self) -> &ChartRecords {
        &self.charts
    }

    pub(super) const fn sources(&self) -> &'b Sources {
        self.sources
    }

    pub(super) const fn access_source(&self) -> Option<&SourceRef> {
        self.access_source.as_ref()
    }

    pub(super) const fn access(&self) -> Option<&SourceCopy<'b>> {
        self.access.as_ref()
    }

    pub(super) const fn values_purpose(&self) -> &CopyPurpose {
        &self.values
    }

    /// The downstream resources of options, if they are available.
    pub(super) fn downstream_of(&self, options: &BundleDeploymentOptions) -> Vec<&SourceCopy<'b>> {
        let sources = downstream(options).unwrap_or_default();
        sources
            .iter()
            .filter_map(|source| self.downstream.get(source))
            .collect()
    }

    /// Name of the Bundle and of its deployments.
    pub(super) fn name(&self) -> &str {
        self.bundle.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn bundle_namespace(&self) -> &str {
        self.bundle.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// A rollout step for a target. `None` if nothing is done for it: it waits, its desired state is unknown, or its deployment is
    /// being deleted.
    pub(super) fn step_input<'t>(
        &'t self,
        target: &'t Target<'t>,
        step: RolloutStep,
    ) -> Option<StepInput<'t>> {
        let desired = target.desired.as_ref().ok()?;
        let is_terminating = |existing: &BundleDeployment| existing.metadata.deletion_timestamp.is_some();
        if step == RolloutStep::Wait || target.existing.is_some_and(is_terminating) {
            return None;
        }
        let namespace = target.namespace()?;
        let next = NextState::of(desired, target.existing, step);
        Some(StepInput {
            desired,
            existing: target.existing,
            next,
            needs_access: !is_of_content(self.bundle, next.ids[0]),
            destination: Destination {
                namespace,
                bundle_namespace: self.bundle_namespace(),
                bundle: self.name(),
            },
        })
    }

    /// The copies of sources that a deployment needs after a step: for its access, and its current and staged downstream
    /// resources.
    pub(super) fn source_copies(&self, input: &StepInput<'_>) -> Vec<&SourceCopy<'b>> {
        let mut copies: Vec<_> = self.access.iter().filter(|_| input.needs_access).collect();
        for options in input.next.options.into_iter().flatten() {
            for copy in self.downstream_of(options) {
                if !copies.iter().any(|other| std::ptr::eq(*other, copy)) {
                    copies.push(copy);
                }
            }
        }
        copies
    }
}

/// A rollout step for a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepInput<'t> {
    pub desired: &'t DesiredTarget,
    pub existing: Option<&'t BundleDeployment>,
    pub next: NextState<'t>,
    /// Whether the agent fetches the chart from its repository after the step.
    pub needs_access: bool,
    pub destination: Destination<'t>,
}

impl StepInput<'_> {
    /// The Secret with the values of the deployment, which has the same name.
    pub fn values_reference(&self) -> CopyRef {
        CopyRef {
            kind: CopyKind::Secret,
            name: NamespacedName::new(self.destination.namespace, self.destination.bundle),
        }
    }

    /// Whether the cache shows that the Secret has the values of the existing deployment.
    pub fn has_current_values(&self, values: &CopyRef, state: &ClusterState) -> bool {
        let cached = state.copies.get(values).zip(self.existing);
        cached.is_some_and(|(cached, existing)| {
            cached.is_current(&existing.spec.values_hash, SecretValues::KEYS)
        })
    }

    /// The names of all downstream resources after the step, whether their sources are available or not.
    pub fn downstream(&self) -> BTreeSet<SourceRef> {
        let options = self.next.options.into_iter().flatten();
        options
            .flat_map(|options| downstream(options).unwrap_or_default())
            .collect()
    }
}

/// Selects the cached copies and BundleDeployments that are needed to plan a delivery to a cluster.
#[derive(Debug)]
pub struct CacheFilter<'t> {
    bundle: &'t CopyPurpose,
    name: &'t str,
    /// The UID of the existing deployment.
    uid: Option<&'t str>,
    access: Option<&'t str>,
    downstream: BTreeSet<SourceRef>,
}

impl CacheFilter<'_> {
    /// Whether a copy in the namespace of the cluster is relevant: it has the name of a desired copy, or the Bundle or its
    /// deployment owns it.
    pub fn includes(&self, kind: CopyKind, name: &NamespacedName, copy: &ObservedCopy) -> bool {
        let name = &*name.name;
        let is_secret = kind == CopyKind::Secret;
        (is_secret && (name == self.name || Some(name) == self.access))
            || self
                .downstream
                .iter()
                .any(|source| source.kind == kind && source.name == name)
            || self.uid.is_some_and(|uid| copy.is_owned_by(uid))
            || copy.is_unowned_of(&self.bundle.bundle_namespace, self.name)
    }

    /// Whether all BundleDeployments of the namespace are needed, because they may share copies with the Bundle.
    pub fn needs_all_deployments(&self) -> bool {
        !self.downstream.is_empty()
    }

    /// The name of the Bundle and of its deployments.
    pub const fn name(&self) -> &str {
        self.name
    }
}
