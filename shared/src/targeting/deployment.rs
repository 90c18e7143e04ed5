//! The BundleDeployment that is to be written, and its Secret.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    identity::values_hash,
    names,
    rollout::RolloutStep,
    target::{DesiredTarget, Target, add},
    values,
};
use crate::api::{Bundle, BundleDeployment, bundle_deployment::BundleDeploymentSpec, labels};

/// The values that a deployment's Secret holds, as JSON texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretValues {
    /// Those that the agent is to deploy with. The key of the Secret is `values`.
    pub values: String,
    /// Those that come next. The key of the Secret is `stagedValues`.
    pub staged: String,
    /// The IDs of the deployments that both are of, if the Secret tells: so it can be told what they are of even where the
    /// BundleDeployment says something else, because the process ended between the two writes.
    pub ids: Option<[String; 2]>,
}

impl SecretValues {
    /// The values of a deployment, if they are there.
    fn of(&self, id: &str) -> Option<&String> {
        let [deployment, staged] = self.ids.as_ref()?;
        if deployment == id {
            Some(&self.values)
        } else {
            (staged == id).then_some(&self.staged)
        }
    }
}

/// What is to be done with a deployment's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// It holds these.
    Holds(SecretValues),
    /// There is none: there are no values.
    None,
    /// It stays as it is. What the agent is to deploy with was in it, and is not known otherwise.
    Untouched,
}

/// A BundleDeployment as it is to be, and its Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredDeployment {
    /// The BundleDeployment. Its metadata has what is ours alone: name, namespace, labels, an annotation and finalizer.
    pub deployment: BundleDeployment,
    /// Its Secret, which has the same name and namespace.
    pub secret: Secret,
}

/// What there is in the namespace of a cluster for a deployment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedSecret<'a> {
    /// What its Secret holds now, if it is known.
    pub secret: Option<&'a SecretValues>,
    /// The Secret is known to be the one that belongs to the deployment, whatever is in it.
    pub is_intact: bool,
    /// The downstream resources that its agent is to copy.
    pub downstream: &'a [DownstreamCopy],
}

/// A downstream resource, and its copy in the namespace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownstreamCopy {
    /// The source in its present version, as the record names it.
    pub source: String,
    /// The copy, compared with the source. Nothing where [`recorded`] has this version of the source.
    pub copy: Option<CopyState>,
}

/// A copy of a downstream resource, compared with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// There is none.
    Missing,
    /// It holds the same. The source changed in its metadata alone, or another controller keeps the copy up to date, or it was
    /// written for another deployment of the namespace.
    Same {
        /// The version of the source that this controller made it from, as the record names it; nothing where it was another
        /// controller.
        made_from: Option<String>,
    },
    /// It holds something else.
    Different,
}

/// What the record of a deployment names: the downstream resources that its agent was last made to copy, in the versions that
/// the copies were made from. Nothing where there is no record, as on one that Fleet made.
pub fn recorded(deployment: &BundleDeployment) -> Option<BTreeSet<&str>> {
    let annotations = deployment.metadata.annotations.as_ref()?;
    let record = annotations.get(labels::COPIED_FROM)?;
    Some(record.split(", ").filter(|version| !version.is_empty()).collect())
}

/// Makes the BundleDeployment of a target after its turn. Nothing where there is none and none is made yet, and where
/// what is wanted is not known: then it stays as it is.
pub fn deployment(
    bundle: &Bundle,
    target: &Target<'_>,
    turn: RolloutStep,
    around: ObservedSecret<'_>,
) -> Option<DesiredDeployment> {
    let wanted = target.wanted.as_ref().ok()?;
    if turn == RolloutStep::Wait {
        return None;
    }
    let namespace = target.namespace()?;
    let before = target
        .existing
        .map(|existing| existing.spec.clone())
        .unwrap_or_default();
    let is_paused = bundle.spec.paused || target.member.cluster.spec.paused;
    let mut spec = before.clone();
    advance(&mut spec, wanted, turn, is_paused);
    let secret = with_values(&mut spec, &before, wanted, around);
    complete(&mut spec, bundle, target, wanted, is_paused);
    let recorded = target.existing.and_then(recorded);
    let is_changed =
        |downstream: &DownstreamCopy| target.existing.is_none() || downstream.is_changed(recorded.as_ref());
    if around.downstream.iter().any(is_changed) {
        // Agents copy anew what has another number.
        spec.downstream_resources_generation = spec.downstream_resources_generation.saturating_add(1);
    }
    Some(DesiredDeployment {
        deployment: BundleDeployment {
            metadata: metadata(bundle, target, namespace, record(around.downstream)).into(),
            spec,
            ..BundleDeployment::default()
        },
        secret,
    })
}

/// Stages and promotes.
fn advance(spec: &mut BundleDeploymentSpec, wanted: &DesiredTarget, turn: RolloutStep, is_paused: bool) {
    if matches!(turn, RolloutStep::Stage | RolloutStep::Promote) {
        spec.staged_options = (*wanted.options).clone();
        spec.staged_deployment_id.clone_from(&wanted.id);
    }
    if turn == RolloutStep::Promote {
        spec.options = spec.staged_options.clone();
        spec.deployment_id.clone_from(&wanted.id);
    } else if !is_paused && spec.deployment_id == spec.staged_deployment_id {
        // It is no part of the ID, so nothing else would bring it there.
        spec.options.diff.clone_from(&spec.staged_options.diff);
    }
}

/// Says which Secret belongs to the deployment.
fn with_values(
    spec: &mut BundleDeploymentSpec,
    before: &BundleDeploymentSpec,
    wanted: &DesiredTarget,
    around: ObservedSecret<'_>,
) -> Secret {
    let ids = [spec.deployment_id.clone(), spec.staged_deployment_id.clone()];
    let is_as_before = ids == [before.deployment_id.clone(), before.staged_deployment_id.clone()];
    if around.is_intact && is_as_before && !before.waiting_for_values {
        return Secret::Untouched;
    }
    let kept = kept(before, around.secret);
    // Whatever has the ID that is wanted has the values that are wanted.
    let known = |id: &str, kept: Option<&String>| {
        if id == wanted.id {
            return Some(wanted.values.to_string());
        }
        kept.or_else(|| around.secret?.of(id)).cloned()
    };
    let values = known(&spec.deployment_id, kept.as_ref().map(|kept| &kept.values));
    let staged = known(&spec.staged_deployment_id, kept.as_ref().map(|kept| &kept.staged));
    let Some((values, staged)) = values.zip(staged) else {
        spec.waiting_for_values = true;
        return Secret::Untouched;
    };
    spec.waiting_for_values = false;
    spec.values_hash = values_hash(values.as_bytes(), staged.as_bytes());
    if spec.values_hash.is_empty() {
        Secret::None
    } else {
        Secret::Holds(SecretValues {
            values,
            staged,
            ids: Some(ids),
        })
    }
}

/// The values of a deployment so far; nothing if its Secret is gone, or is not the one that belongs to it.
fn kept(before: &BundleDeploymentSpec, secret: Option<&SecretValues>) -> Option<SecretValues> {
    if before.values_hash.is_empty() {
        return Some(SecretValues::default());
    }
    secret
        .filter(|secret| {
            values_hash(secret.values.as_bytes(), secret.staged.as_bytes()) == before.values_hash
        })
        .cloned()
}

/// Everything that follows neither turns nor IDs.
fn complete(
    spec: &mut BundleDeploymentSpec,
    bundle: &Bundle,
    target: &Target<'_>,
    wanted: &DesiredTarget,
    is_paused: bool,
) {
    spec.paused = is_paused;
    spec.off_schedule = target.member.cluster.status.is_out_of_schedule();
    spec.depends_on.clone_from(&bundle.spec.depends_on);
    spec.correct_drift.clone_from(&wanted.options.correct_drift);
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
    /// Whether the agent has to copy it once more, and so to deploy once more: its copy holds something else than when the
    /// agent last did, as far as the record of the deployment says.
    fn is_changed(&self, recorded: Option<&BTreeSet<&str>>) -> bool {
        match &self.copy {
            None => false,
            // Without a record, as after Fleet's own controller, that says nothing about its content.
            Some(CopyState::Missing) => recorded.is_some(),
            Some(CopyState::Same { made_from }) => made_from
                .as_deref()
                .is_some_and(|version| recorded.is_none_or(|recorded| !recorded.contains(version))),
            Some(CopyState::Different) => true,
        }
    }

    /// What its copy is made from when the deployment is written.
    fn made_from(&self) -> &str {
        match &self.copy {
            // It stays as it is.
            Some(CopyState::Same {
                made_from: Some(made_from),
            }) => made_from,
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

/// The name of the copy of a Bundle's access Secret, where it has one.
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
    let mut own = values::with_fleets(bundle.metadata.labels.as_ref(), &["fleet.cattle.io/"]);
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
