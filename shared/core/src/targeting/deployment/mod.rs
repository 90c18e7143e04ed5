//! The desired BundleDeployment and its Secret.

mod downstream;
mod metadata;

use std::{borrow::Cow, sync::Arc};

use helmops_api::{
    Bundle, BundleDeployment, BundleDeploymentOptions, PrunedFields, bundle_deployment::BundleDeploymentSpec,
};
use helmops_content::deployment_content;
use helmops_model::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use self::downstream::{CopyState, DownstreamCopy, recorded};
use self::{
    downstream::record,
    metadata::{has_metadata, merged_metadata, metadata, traceparent},
};
use super::{
    chart_record::ChartRecords,
    desired::DesiredTarget,
    identity::values_hash,
    rollout::RolloutStep,
    target::{Target, add},
};

/// The values in the Secret of a deployment, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretValues {
    /// The values of the current deployment. The key of the Secret is `values`.
    pub values: String,
    /// The values of the staged deployment. The key of the Secret is `stagedValues`.
    pub staged: String,
    /// The IDs of the current and the staged deployment, if the Secret has them: they identify the values even if the
    /// BundleDeployment has other IDs, because the process ended between the two writes.
    pub ids: Option<[String; 2]>,
}

impl SecretValues {
    /// The number of keys of the Secret.
    pub const KEYS: usize = 2;

    /// The values of the deployment with this ID, if the Secret has them.
    fn of(&self, id: &str) -> Option<&String> {
        let [deployment, staged] = self.ids.as_ref()?;
        if deployment == id {
            Some(&self.values)
        } else {
            (staged == id).then_some(&self.staged)
        }
    }
}

/// The desired state of a deployment's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredSecret {
    /// A Secret with these values.
    Values(SecretValues),
    /// No Secret: there are no values.
    None,
    /// It stays as it is: it is intact, or it had the values of the current deployment, which are not known otherwise.
    Untouched,
}

/// The desired state of a BundleDeployment and its Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredDeployment<'a> {
    /// The spec. It is borrowed from the existing deployment if nothing changes.
    pub spec: Cow<'a, BundleDeploymentSpec>,
    /// The metadata that this controller sets: name, namespace, labels, annotations and a finalizer.
    pub metadata: ObjectMeta,
    /// The Secret, which has the same name and namespace.
    pub secret: DesiredSecret,
}

impl DesiredDeployment<'_> {
    /// The deployment to write, with the status of the existing one and the metadata and fields that other clients have set. `None`
    /// if the existing deployment is up to date: it has everything but the fields that the API server drops (`pruned`).
    pub fn merged(
        self,
        existing: Option<&BundleDeployment>,
        pruned: &PrunedFields,
    ) -> Option<BundleDeployment> {
        let Some(existing) = existing else {
            return Some(BundleDeployment {
                metadata: self.metadata.into(),
                spec: self.spec.into_owned(),
                ..BundleDeployment::default()
            });
        };
        let is_same_spec =
            matches!(self.spec, Cow::Borrowed(_)) || pruned.are_equal(&*self.spec, &existing.spec);
        if is_same_spec && has_metadata(existing, &self.metadata) {
            return None;
        }
        Some(BundleDeployment {
            type_meta: existing.type_meta.clone(),
            unknown: existing.unknown.clone(),
            metadata: merged_metadata(existing, self.metadata).into(),
            spec: self.spec.into_owned(),
            status: existing.status.clone(),
        })
    }
}

/// The IDs and options of a deployment after a rollout step: of the current deployment, then of the staged one.
#[derive(Clone, Copy, Debug)]
pub struct NextState<'a> {
    /// The IDs; empty if there is no such deployment yet.
    pub ids: [&'a str; 2],
    /// The options; `None` if there is no such deployment yet.
    pub options: [Option<&'a BundleDeploymentOptions>; 2],
}

impl<'a> NextState<'a> {
    /// The state after a step.
    pub fn of(desired: &'a DesiredTarget, existing: Option<&'a BundleDeployment>, step: RolloutStep) -> Self {
        let desired = (&*desired.id, Some(&*desired.options));
        let existing = existing.map(|existing| &existing.spec);
        let current = existing.map_or(("", None), |spec| (&*spec.deployment_id, Some(&*spec.options)));
        let staged = existing.map_or(("", None), |spec| {
            (&*spec.staged_deployment_id, Some(&*spec.staged_options))
        });
        let (current, staged) = match step {
            RolloutStep::Promote => (desired, desired),
            RolloutStep::Stage => (current, desired),
            RolloutStep::Hold | RolloutStep::Wait => (current, staged),
        };
        Self {
            ids: [current.0, staged.0],
            options: [current.1, staged.1],
        }
    }

    /// Whether the deployment keeps its IDs.
    fn is_unchanged(&self, before: &BundleDeploymentSpec) -> bool {
        self.ids == [&*before.deployment_id, &*before.staged_deployment_id]
    }

    /// Whether values can only come from the Secret of the existing deployment. `is_intact` as in [`Observed`].
    pub fn needs_secret(
        &self,
        desired: &DesiredTarget,
        before: &BundleDeploymentSpec,
        is_intact: bool,
    ) -> bool {
        let is_kept = is_intact && self.is_unchanged(before) && !before.waiting_for_values;
        !is_kept && !before.values_hash.is_empty() && self.ids.iter().any(|id| *id != desired.id)
    }
}

/// What exists for a deployment in the namespace of its cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    /// The values in its Secret, if they are known.
    pub secret: Option<&'a SecretValues>,
    /// Whether the Secret is known to belong to the deployment, even if its values were not read.
    pub is_intact: bool,
    /// The downstream resources that its agent has to copy.
    pub downstream: &'a [DownstreamCopy],
}

/// The BundleDeployment of a target after a rollout step. `None` if there is none and none is created yet, or if the desired
/// state is unknown: then an existing one stays as it is.
pub fn deployment<'a>(
    bundle: &Bundle,
    charts: &ChartRecords,
    target: &Target<'a>,
    step: RolloutStep,
    observed: Observed<'_>,
) -> Option<DesiredDeployment<'a>> {
    let desired = target.desired.as_ref().ok()?;
    if step == RolloutStep::Wait {
        return None;
    }
    let namespace = target.namespace()?;
    let mut spec = target.existing.map_or_else(
        || Cow::Owned(BundleDeploymentSpec::default()),
        |existing| Cow::Borrowed(&existing.spec),
    );
    let is_paused = bundle.spec.paused || target.member.cluster.spec.paused;
    advance(&mut spec, desired, step, is_paused);
    let next = NextState::of(desired, target.existing, step);
    let secret = set_values(&mut spec, next, target, desired, observed);
    set_remaining(&mut spec, bundle, target, desired, is_paused);
    let recorded = target.existing.and_then(recorded);
    let is_changed =
        |downstream: &DownstreamCopy| target.existing.is_none() || downstream.is_changed(recorded.as_ref());
    if observed.downstream.iter().any(is_changed) {
        // Agents copy again when this number changes.
        let generation = &mut spec.to_mut().downstream_resources_generation;
        *generation = generation.saturating_add(1);
    }
    Some(DesiredDeployment {
        metadata: metadata(
            bundle,
            target,
            namespace,
            [
                record(observed.downstream),
                charts.annotation(&spec.options, target.existing, spec.deployment_id == desired.id),
                traceparent(bundle, &spec, target.existing),
            ],
        ),
        spec,
        secret,
    })
}

/// Assigns a field, unless it has the value already: an unchanged spec is not cloned.
macro_rules! assign {
    ($spec:ident.$field:ident, $value:expr) => {
        if $spec.$field != $value {
            $spec.to_mut().$field = $value.clone();
        }
    };
}

/// Stages or promotes the desired state.
fn advance(
    spec: &mut Cow<'_, BundleDeploymentSpec>,
    desired: &DesiredTarget,
    step: RolloutStep,
    is_paused: bool,
) {
    if matches!(step, RolloutStep::Stage | RolloutStep::Promote) {
        assign!(spec.staged_options, desired.options);
        assign!(spec.staged_deployment_id, desired.id);
    }
    if step == RolloutStep::Promote {
        assign!(spec.options, desired.options);
        assign!(spec.deployment_id, desired.id);
    } else if !is_paused
        && spec.deployment_id == spec.staged_deployment_id
        && spec.options.diff != spec.staged_options.diff
    {
        // `diff` is not part of the ID, so no promotion would copy it.
        let spec = spec.to_mut();
        Arc::make_mut(&mut spec.options)
            .diff
            .clone_from(&spec.staged_options.diff);
    }
}

/// Sets the hash of the values, and returns the Secret with them.
fn set_values(
    spec: &mut Cow<'_, BundleDeploymentSpec>,
    next: NextState<'_>,
    target: &Target<'_>,
    desired: &DesiredTarget,
    observed: Observed<'_>,
) -> DesiredSecret {
    let before = target.existing.map(|existing| &existing.spec);
    if let Some(before) = before
        && observed.is_intact
        && next.is_unchanged(before)
        && !before.waiting_for_values
    {
        return DesiredSecret::Untouched;
    }
    let current = current_values(before, observed.secret);
    // A deployment with the desired ID has the desired values.
    let known = |id: &str, current: Option<&String>| {
        if id == desired.id {
            return Some(desired.values.to_string());
        }
        current.or_else(|| observed.secret?.of(id)).cloned()
    };
    let [id, staged_id] = next.ids;
    let values = known(id, current.as_ref().map(|current| &current.values));
    let staged = known(staged_id, current.as_ref().map(|current| &current.staged));
    let Some((values, staged)) = values.zip(staged) else {
        assign!(spec.waiting_for_values, true);
        return DesiredSecret::Untouched;
    };
    let hash = values_hash(values.as_bytes(), staged.as_bytes());
    assign!(spec.waiting_for_values, false);
    assign!(spec.values_hash, hash);
    if hash.is_empty() {
        DesiredSecret::None
    } else {
        DesiredSecret::Values(SecretValues {
            values,
            staged,
            ids: Some(next.ids.map(str::to_owned)),
        })
    }
}

/// The values of the existing deployment; `None` if its Secret is missing or does not belong to it.
fn current_values(
    before: Option<&BundleDeploymentSpec>,
    secret: Option<&SecretValues>,
) -> Option<SecretValues> {
    let Some(before) = before.filter(|before| !before.values_hash.is_empty()) else {
        return Some(SecretValues::default());
    };
    secret
        .filter(|secret| {
            values_hash(secret.values.as_bytes(), secret.staged.as_bytes()) == before.values_hash
        })
        .cloned()
}

/// Sets the fields that depend on neither rollout steps nor IDs.
fn set_remaining(
    spec: &mut Cow<'_, BundleDeploymentSpec>,
    bundle: &Bundle,
    target: &Target<'_>,
    desired: &DesiredTarget,
    is_paused: bool,
) {
    // Without them the agent reads the Content that its deployment ID names. What the rollout has not reached keeps its source.
    let chart_options = bundle.spec.helm_op_options.clone();
    let chart_options = chart_options.filter(|_| !is_of_content(bundle, &spec.deployment_id));
    let chart_options = chart_options.map(|mut options| {
        options.secret_name = access_secret(bundle).unwrap_or_default();
        options
    });
    assign!(spec.paused, is_paused);
    assign!(spec.off_schedule, target.member.is_out_of_schedule);
    assign!(spec.depends_on, bundle.spec.depends_on);
    assign!(spec.correct_drift, desired.options.correct_drift);
    if spec.lifecycle.as_deref() != desired.lifecycle.as_deref() {
        let lifecycle = desired.lifecycle.as_deref().cloned();
        spec.to_mut().lifecycle = lifecycle.map(Box::new);
    }
    assign!(spec.oci_contents, !bundle.spec.contents_id.is_empty());
    assign!(spec.helm_chart_options, chart_options);
    let own = &target.release_namespace;
    if !own.labels.is_empty() || !own.annotations.is_empty() {
        let spec = spec.to_mut();
        for options in [&mut spec.options, &mut spec.staged_options] {
            let options = Arc::make_mut(options);
            add(&mut options.namespace_labels, &own.labels);
            add(&mut options.namespace_annotations, &own.annotations);
        }
    }
}

/// Whether the chart of a deployment with this ID is in a Content, so that its agent needs no access to a repository. Files of a Bundle that
/// are in a registry have IDs of the same form.
pub fn is_of_content(bundle: &Bundle, deployment_id: &str) -> bool {
    bundle.spec.contents_id.is_empty() && deployment_content(deployment_id).is_some()
}

/// The name of the copy of a Bundle's access Secret, if it has one.
pub fn access_secret(bundle: &Bundle) -> Option<String> {
    let options = bundle.spec.helm_op_options.as_ref()?;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (part(&bundle.metadata.namespace), part(&bundle.metadata.name));
    (!options.secret_name.is_empty()).then(|| names::access_secret(&namespace, &name, &options.secret_name))
}

#[cfg(test)]
mod tests;
