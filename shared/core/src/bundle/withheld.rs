//! Rollouts that have failed, and what stays deployed in place of them.
//!
//! The Bundle itself is the memory: an annotation lists what has failed, and has the charts of what the HelmOp wants while something else is
//! deployed. So a poll that finds the same version again changes nothing, and a restart or an outage neither.

use bounded_text::numbered;
use helmops_api::{
    Bundle, PrunedFields, ResolvedChart,
    bundle::{APPROVAL, BundleStatus, CompletedRollout, GATE, HALT, ROLLBACK, RolloutStatus},
    labels,
    rollout::RolloutStrategy,
};
use serde::{Deserialize, Serialize};

use crate::targeting::{
    chart_record::recorded_in,
    rollout::{
        completed::{self, Restorable},
        resume_command, resumed, rollout_id,
    },
};

/// How many rollouts that have failed are remembered.
const MAX_FAILED: usize = 10;

/// The annotation of a Bundle, see [`labels::FAILED_ROLLOUTS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FailedRollouts {
    /// Those that have failed, the last one first.
    failed: Vec<FailedRollout>,
    /// What the HelmOp wants, while something else stays deployed.
    withheld: Option<Withheld>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct FailedRollout {
    /// The ID of the rollout: it follows from the chart, its version and digest, and the options.
    id: String,
    /// On how many clusters it has failed.
    clusters: i64,
    /// Since when, RFC 3339.
    since: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Withheld {
    /// The ID of the rollout.
    id: String,
    /// Its charts.
    resolved: Vec<ResolvedChart>,
}

impl FailedRollouts {
    fn of(bundle: &Bundle) -> Self {
        let text = labels::annotation(&bundle.metadata, labels::FAILED_ROLLOUTS);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn get(&self, id: &str) -> Option<&FailedRollout> {
        self.failed.iter().find(|failed| failed.id == id)
    }

    fn add(&mut self, failed: FailedRollout) {
        self.failed.retain(|known| known.id != failed.id);
        self.failed.insert(0, failed);
        self.failed.truncate(MAX_FAILED);
    }

    /// Writes the annotation, or removes it if nothing has failed.
    fn write(self, bundle: &mut Bundle) {
        let annotations = bundle.metadata.annotations.get_or_insert_default();
        if self.failed.is_empty() {
            annotations.remove(labels::FAILED_ROLLOUTS);
            return;
        }
        // Strings and numbers always serialize.
        let text = serde_json::to_string(&self).unwrap_or_default();
        annotations.insert(labels::FAILED_ROLLOUTS.to_owned(), text);
    }
}

/// Keeps what is deployed, or goes back to what was, if what is desired has failed. `bundle` is the desired Bundle, and becomes the one to
/// write, of which the API server does not store `pruned`.
pub(super) fn withhold(bundle: &mut Bundle, existing: &Bundle, pruned: &PrunedFields) {
    let mut known = FailedRollouts::of(existing);
    known.withheld = None;
    let strategy = bundle.spec.rollout_strategy.as_ref();
    if !strategy.is_some_and(RolloutStrategy::rolls_back) {
        return FailedRollouts::default().write(bundle);
    }
    let id = stored_id(bundle, pruned);
    let accepted = resumed(bundle, &id);
    let last = completed_of(existing).map(|completed| &completed.id);
    // What was completed after all has not failed.
    known
        .failed
        .retain(|failed| Some(&failed.id) != last && (failed.id != id || exceeds(failed.clusters, accepted)));
    let stays = match failing(bundle, existing, &id, accepted) {
        Some((failed, stays)) => {
            known.add(failed);
            Some(stays)
        }
        None if known.get(&id).is_some() => kept(bundle, existing, &id),
        None => None,
    };
    if let Some(Restorable { spec, resolved }) = stays {
        known.withheld = Some(Withheld {
            id,
            resolved: recorded_in(bundle).unwrap_or_default(),
        });
        bundle.spec = spec;
        let annotations = bundle.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::RESOLVED.to_owned(), resolved);
    }
    known.write(bundle);
}

/// The ID that the rollout of a desired Bundle has once it is stored.
fn stored_id(bundle: &Bundle, pruned: &PrunedFields) -> String {
    rollout_id(&Bundle {
        metadata: bundle.metadata.clone(),
        spec: pruned.without(&bundle.spec),
        ..Bundle::default()
    })
}

fn completed_of(bundle: &Bundle) -> Option<&CompletedRollout> {
    bundle.status.as_deref()?.completed.as_deref()
}

/// Whether more clusters have failed than a user has accepted.
fn exceeds(failed: i64, accepted: usize) -> bool {
    usize::try_from(failed).is_ok_and(|failed| failed > accepted)
}

/// If what is desired is being rolled out and has failed on too many clusters: that, and what it goes back to.
fn failing(
    bundle: &Bundle,
    existing: &Bundle,
    id: &str,
    accepted: usize,
) -> Option<(FailedRollout, Restorable)> {
    let status = existing.status.as_deref()?;
    let rollout = status.rollout.as_ref()?;
    // The status may be older than the Bundle, or than what a user has accepted.
    let is_current = rollout.id == id && rollout_id(existing) == id;
    if rollout.waits_for != HALT || !is_current || !exceeds(rollout.failed, accepted) {
        return None;
    }
    let before = completed::restorable(bundle, id, status).ok()?;
    let failed = FailedRollout {
        id: id.to_owned(),
        clusters: rollout.failed,
        since: rollout.since.clone(),
    };
    Some((failed, before))
}

/// What is deployed in place of what has failed before; `None` if there is nothing. That is what was completed: what the Bundle has now may
/// be another one that is withdrawn or has failed, too. If the status is lost, it is all that is known.
fn kept(bundle: &Bundle, existing: &Bundle, id: &str) -> Option<Restorable> {
    let has_completed = |status: &&BundleStatus| status.completed.is_some();
    let kept = match existing.status.as_deref().filter(has_completed) {
        Some(status) => completed::restorable(bundle, id, status),
        None if rollout_id(existing) == id => return None,
        None => {
            let resolved = completed::record_of_charts(existing);
            completed::in_place_of(bundle, existing.spec.clone(), resolved)
        }
    };
    kept.ok()
}

/// The charts that a HelmOp wants, if something else stays deployed; `None` otherwise.
pub fn withheld_charts(bundle: &Bundle) -> Option<Vec<ResolvedChart>> {
    Some(FailedRollouts::of(bundle).withheld?.resolved)
}

/// The charts that stay deployed while a HelmOp wants others; `None` if it has what it wants.
pub fn deployed_charts(bundle: &Bundle) -> Option<Vec<ResolvedChart>> {
    withheld_charts(bundle).and_then(|_| recorded_in(bundle))
}

/// What is rolled out and what it waits for. If what a HelmOp wants has failed, that is it, and not what stays deployed.
pub fn rollout_status(bundle: &Bundle) -> Option<RolloutStatus> {
    let known = FailedRollouts::of(bundle);
    let withheld = known.withheld.as_ref();
    let Some(failed) = withheld.and_then(|withheld| known.get(&withheld.id)) else {
        return bundle.status.as_deref()?.rollout.clone();
    };
    let chart = withheld.and_then(|withheld| withheld.resolved.first());
    let wanted = chart.map_or_else(
        || format!("rollout {}", failed.id),
        |chart| format!("rollout {} (version {})", failed.id, chart.version),
    );
    let deployed = rollout_id(bundle);
    let stays = if completed_of(bundle).is_some_and(|completed| completed.id == deployed) {
        "the last one that was completed is deployed"
    } else {
        "what was there before stays"
    };
    let helm = bundle.spec.options.helm.as_ref();
    let version = helm
        .filter(|helm| !helm.version.is_empty())
        .map_or_else(String::new, |helm| {
            format!(": version {} with its options", helm.version)
        });
    // What stays may wait for a person, too.
    let rollout = bundle
        .status
        .as_deref()
        .and_then(|status| status.rollout.as_ref());
    let own = rollout
        .filter(|own| own.id == deployed && [HALT, GATE, APPROVAL].contains(&&*own.waits_for))
        .map_or_else(String::new, |own| format!("; of what stays: {}", own.message));
    let command = resume_command(bundle, &failed.id, failed.clusters);
    Some(RolloutStatus {
        message: format!(
            "{wanted} has failed on {} and is not tried again; {stays}{version}; wait for another version, correct the values, or try it again \
             with: {command}{own}",
            numbered(failed.clusters, "cluster")
        ),
        id: failed.id.clone(),
        waits_for: ROLLBACK.to_owned(),
        since: failed.since.clone(),
        failed: failed.clusters,
        ..RolloutStatus::default()
    })
}

#[cfg(test)]
mod tests;
