//! The desired BundleDeployment and its Secret.

use std::collections::BTreeSet;

use helmops_api::{Bundle, BundleDeployment, bundle_deployment::BundleDeploymentSpec, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    identity::values_hash,
    names,
    rollout::RolloutStep,
    target::{DesiredTarget, Target, add},
    values,
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
pub struct DesiredDeployment {
    /// The BundleDeployment. Its metadata has only what this controller sets: name, namespace, labels, an annotation and a
    /// finalizer.
    pub deployment: BundleDeployment,
    /// Its Secret, which has the same name and namespace.
    pub secret: DesiredSecret,
}

/// What exists for a deployment in the namespace of its cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedSecret<'a> {
    /// The values in its Secret, if they are known.
    pub secret: Option<&'a SecretValues>,
    /// Whether the Secret is known to belong to the deployment, even if its values were not read.
    pub is_intact: bool,
    /// The downstream resources that its agent has to copy.
    pub downstream: &'a [DownstreamCopy],
}

/// A downstream resource and its copy in the namespace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownstreamCopy {
    /// The source in its current version, as the record names it.
    pub source: String,
    /// The copy, compared with the source. `None` if [`recorded`] has this version of the source.
    pub copy: Option<CopyState>,
}

/// A copy of a downstream resource, compared with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// There is no copy.
    Missing,
    /// The content is the same. Only the metadata of the source changed, or another controller keeps the copy up to date, or the
    /// copy was written for another deployment of the namespace.
    Same {
        /// The version of the source that this controller copied, as the record names it; `None` if another controller wrote the
        /// copy.
        copied_from: Option<String>,
    },
    /// The content differs.
    Different,
}

/// The record of a deployment: the downstream resources that were last released to its agent, in the versions that the copies
/// were made from. `None` if there is no record, as on a deployment that Fleet created.
pub fn recorded(deployment: &BundleDeployment) -> Option<BTreeSet<&str>> {
    let annotations = deployment.metadata.annotations.as_ref()?;
    let record = annotations.get(labels::COPIED_FROM)?;
    Some(record.split(", ").filter(|version| !version.is_empty()).collect())
}

/// The BundleDeployment of a target after a rollout step. `None` if there is none and none is created yet, or if the desired
/// state is unknown: then an existing one stays as it is.
pub fn deployment(
    bundle: &Bundle,
    target: &Target<'_>,
    step: RolloutStep,
    observed: ObservedSecret<'_>,
) -> Option<DesiredDeployment> {
    let desired = target.desired.as_ref().ok()?;
    if step == RolloutStep::Wait {
        return None;
    }
    let namespace = target.namespace()?;
    let before = target
        .existing
        .map(|existing| existing.spec.clone())
        .unwrap_or_default();
    let is_paused = bundle.spec.paused || target.member.cluster.spec.paused;
    let mut spec = before.clone();
    advance(&mut spec, desired, step, is_paused);
    let secret = set_values(&mut spec, &before, desired, observed);
    set_remaining(&mut spec, bundle, target, desired, is_paused);
    let recorded = target.existing.and_then(recorded);
    let is_changed =
        |downstream: &DownstreamCopy| target.existing.is_none() || downstream.is_changed(recorded.as_ref());
    if observed.downstream.iter().any(is_changed) {
        // Agents copy again when this number changes.
        spec.downstream_resources_generation = spec.downstream_resources_generation.saturating_add(1);
    }
    Some(DesiredDeployment {
        deployment: BundleDeployment {
            metadata: metadata(bundle, target, namespace, record(observed.downstream)).into(),
            spec,
            ..BundleDeployment::default()
        },
        secret,
    })
}

/// Stages or promotes the desired state.
fn advance(spec: &mut BundleDeploymentSpec, desired: &DesiredTarget, step: RolloutStep, is_paused: bool) {
    if matches!(step, RolloutStep::Stage | RolloutStep::Promote) {
        spec.staged_options = (*desired.options).clone();
        spec.staged_deployment_id.clone_from(&desired.id);
    }
    if step == RolloutStep::Promote {
        spec.options = spec.staged_options.clone();
        spec.deployment_id.clone_from(&desired.id);
    } else if !is_paused && spec.deployment_id == spec.staged_deployment_id {
        // `diff` is not part of the ID, so no promotion would copy it.
        spec.options.diff.clone_from(&spec.staged_options.diff);
    }
}

/// Sets the hash of the values, and returns the Secret with them.
fn set_values(
    spec: &mut BundleDeploymentSpec,
    before: &BundleDeploymentSpec,
    desired: &DesiredTarget,
    observed: ObservedSecret<'_>,
) -> DesiredSecret {
    let ids = [spec.deployment_id.clone(), spec.staged_deployment_id.clone()];
    let is_unchanged = ids == [before.deployment_id.clone(), before.staged_deployment_id.clone()];
    if observed.is_intact && is_unchanged && !before.waiting_for_values {
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
    let values = known(
        &spec.deployment_id,
        current.as_ref().map(|current| &current.values),
    );
    let staged = known(
        &spec.staged_deployment_id,
        current.as_ref().map(|current| &current.staged),
    );
    let Some((values, staged)) = values.zip(staged) else {
        spec.waiting_for_values = true;
        return DesiredSecret::Untouched;
    };
    spec.waiting_for_values = false;
    spec.values_hash = values_hash(values.as_bytes(), staged.as_bytes());
    if spec.values_hash.is_empty() {
        DesiredSecret::None
    } else {
        DesiredSecret::Values(SecretValues {
            values,
            staged,
            ids: Some(ids),
        })
    }
}

/// The values of the existing deployment; `None` if its Secret is missing or does not belong to it.
fn current_values(before: &BundleDeploymentSpec, secret: Option<&SecretValues>) -> Option<SecretValues> {
    if before.values_hash.is_empty() {
        return Some(SecretValues::default());
    }
    secret
        .filter(|secret| {
            values_hash(secret.values.as_bytes(), secret.staged.as_bytes()) == before.values_hash
        })
        .cloned()
}

/// Sets the fields that depend on neither rollout steps nor IDs.
fn set_remaining(
    spec: &mut BundleDeploymentSpec,
    bundle: &Bundle,
    target: &Target<'_>,
    desired: &DesiredTarget,
    is_paused: bool,
) {
    spec.paused = is_paused;
    spec.off_schedule = target.member.cluster.status.is_out_of_schedule();
    spec.depends_on.clone_from(&bundle.spec.depends_on);
    spec.correct_drift.clone_from(&desired.options.correct_drift);
    spec.oci_contents = !bundle.spec.contents_id.is_empty();
    spec.helm_chart_options = bundle.spec.helm_op_options.clone().map(|mut options| {
        options.secret_name = access_secret(bundle).unwrap_or_default();
        options
    });
    let own = &target.release_namespace;
    for options in [&mut spec.options, &mut spec.staged_options] {
        add(&mut options.namespace_labels, &own.labels);
        add(&mut options.namespace_annotations, &own.annotations);
    }
}

impl DownstreamCopy {
    /// Whether the agent has to copy it again, and so to deploy again: the content of the copy differs from when the agent last
    /// copied it, according to the record of the deployment.
    fn is_changed(&self, recorded: Option<&BTreeSet<&str>>) -> bool {
        match &self.copy {
            None => false,
            // Without a record, as on a deployment of Fleet's controller, the content may be the same.
            Some(CopyState::Missing) => recorded.is_some(),
            Some(CopyState::Same {
                copied_from: made_from,
            }) => made_from
                .as_deref()
                .is_some_and(|version| recorded.is_none_or(|recorded| !recorded.contains(version))),
            Some(CopyState::Different) => true,
        }
    }

    /// The version of the source that its copy has when the deployment is written.
    fn made_from(&self) -> &str {
        match &self.copy {
            // The copy stays as it is.
            Some(CopyState::Same {
                copied_from: Some(copied_from),
            }) => copied_from,
            _ => &self.source,
        }
    }
}

/// The record of downstream resources; empty for none.
fn record(downstream: &[DownstreamCopy]) -> String {
    let mut versions: Vec<_> = downstream.iter().map(DownstreamCopy::made_from).collect();
    versions.sort_unstable();
    versions.join(", ")
}

/// The name of the copy of a Bundle's access Secret, if it has one.
pub fn access_secret(bundle: &Bundle) -> Option<String> {
    let options = bundle.spec.helm_op_options.as_ref()?;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (part(&bundle.metadata.namespace), part(&bundle.metadata.name));
    (!options.secret_name.is_empty()).then(|| names::access_secret(&namespace, &name, &options.secret_name))
}

fn metadata(bundle: &Bundle, target: &Target<'_>, namespace: &str, record: String) -> ObjectMeta {
    let of_bundle = |text: &Option<String>| text.clone().unwrap_or_default();
    let (bundle_name, bundle_namespace) = (
        of_bundle(&bundle.metadata.name),
        of_bundle(&bundle.metadata.namespace),
    );
    let mut own = values::clean_except(bundle.metadata.labels.as_ref(), &["fleet.cattle.io/"]);
    own.extend(
        [
            (labels::BUNDLE_NAME, bundle_name.as_str()),
            (labels::BUNDLE_NAMESPACE, &bundle_namespace),
            (labels::MANAGED, "true"),
            (labels::CLUSTER_NAMESPACE, target.member.namespace()),
            (labels::CLUSTER, target.member.name()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    ObjectMeta {
        name: Some(bundle_name),
        namespace: Some(namespace.to_owned()),
        labels: Some(own),
        annotations: (!record.is_empty()).then(|| [(labels::COPIED_FROM.to_owned(), record)].into()),
        finalizers: Some(vec![labels::BUNDLE_DEPLOYMENT_FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests;
