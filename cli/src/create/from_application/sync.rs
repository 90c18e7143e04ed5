//! When Argo CD deploys, how often it tries again, and the options of a deployment.

use std::time::Duration;

use go_formats::duration;
use helmops_api::lifecycle::WaitPolicy;

use crate::create::{
    draft::Draft,
    note::Gap,
    objects::{
        fields::Fields,
        pauses::{self, Pauses},
    },
};

/// The retries of Argo CD, if it deploys without a request.
const RETRIES: i64 = 5;
const PAUSES: Pauses = Pauses {
    first: Duration::from_secs(5),
    factor: 2.0,
    longest: Duration::from_mins(3),
};

const ON_REQUEST: &str = "Argo CD deploys on request only, a HelmOp whenever it changes: with lifecycle.suspend: true nothing is deployed until it is resumed";
const PRUNES: &str = "an upgrade deletes objects that a new version of the chart does not have any more; the annotation helm.sh/resource-policy: keep prevents that";
const PROPAGATION: &str = "what a new version does not have any more is deleted in the background";
const SHARED: &str = "with helm.takeOwnership an object of another release is taken over; remove that when the objects of Argo CD are taken over: then such an object \
                      is refused";
const IGNORED_ONCE: &str = "an upgrade sets these fields to those of the chart, as far as it has them; lifecycle.drift.ignore is about drift only";

/// Converts the policy. Returns whether Argo CD deploys without a request.
pub fn convert(spec: &mut Fields<'_>, draft: &mut Draft) -> bool {
    let mut policy = spec.mapping("syncPolicy");
    let has_automated = policy.has("automated");
    let mut automated = policy.mapping("automated");
    let is_automated = has_automated && automated.flag("enabled") != Some(false);
    // Whether drift is corrected.
    let heals = automated.flag("selfHeal") == Some(true);
    let prunes = automated.flag("prune") == Some(true);
    automated.drop("allowEmpty");
    if !is_automated {
        draft.notes.push(policy.note("automated", ON_REQUEST));
    } else if !prunes {
        draft.notes.push(automated.note("prune", PRUNES));
    }
    automated.finish(&mut draft.notes);
    let lifecycle = draft.helmop.spec.bundle.options.lifecycle.get_or_insert_default();
    if is_automated && heals {
        "enabled".clone_into(&mut lifecycle.drift.get_or_insert_default().mode);
    }
    // A failure is one of Helm: Argo CD awaits no objects after the last ones are applied.
    lifecycle.wait = Some(WaitPolicy {
        disable: true,
        ..WaitPolicy::default()
    });
    retries(&mut policy, is_automated, draft);
    let creates_namespace = options(&mut policy, spec, draft);
    namespace(&mut policy, creates_namespace, draft);
    policy.finish(&mut draft.notes);
    is_automated
}

/// An uninstallation deletes the objects after their dependents.
pub fn delete_in_foreground(draft: &mut Draft) {
    let lifecycle = draft.helmop.spec.bundle.options.lifecycle.get_or_insert_default();
    let uninstall = lifecycle.uninstall.get_or_insert_default();
    "foreground".clone_into(&mut uninstall.deletion_propagation);
}

/// The objects stay when the HelmOp is deleted.
pub fn keep(draft: &mut Draft) {
    let lifecycle = draft.helmop.spec.bundle.options.lifecycle.get_or_insert_default();
    "Keep".clone_into(&mut lifecycle.on_delete);
}

fn retries(policy: &mut Fields<'_>, is_automated: bool, draft: &mut Draft) {
    let has_retry = policy.has("retry");
    let mut retry = policy.mapping("retry");
    let limit = retry.number("limit").unwrap_or_default();
    let limit = match (has_retry, is_automated) {
        (true, _) => limit,
        (false, true) => RETRIES,
        (false, false) => 0,
    };
    // The newest version is always deployed.
    retry.drop("refresh");
    let mut backoff = retry.mapping("backoff");
    let first = pause(&mut backoff, "duration", draft).unwrap_or(PAUSES.first);
    let longest = match pause(&mut backoff, "maxDuration", draft) {
        // There is no longest one.
        Some(Duration::ZERO) => Duration::from_hours(24),
        Some(longest) => longest,
        None => PAUSES.longest,
    };
    let factor = backoff.number("factor");
    let factor = factor.and_then(|factor| u32::try_from(factor).ok());
    let pauses = Pauses {
        first,
        factor: factor.map_or(PAUSES.factor, f64::from),
        longest,
    };
    backoff.finish(&mut draft.notes);
    let lifecycle = draft.helmop.spec.bundle.options.lifecycle.get_or_insert_default();
    let mut is_endless = false;
    for action in [&mut lifecycle.install, &mut lifecycle.upgrade] {
        is_endless = pauses::retry(action.get_or_insert_default(), limit, pauses);
    }
    if is_endless {
        draft.notes.push(retry.note("limit", pauses::endless("Argo CD")));
    }
    retry.finish(&mut draft.notes);
}

/// Takes a duration; a number alone is one of seconds.
fn pause(backoff: &mut Fields<'_>, name: &str, draft: &mut Draft) -> Option<Duration> {
    let text = backoff.text(name)?;
    let seconds = text.parse().ok().map(Duration::from_secs);
    match seconds.map_or_else(|| duration::parse(&text), Ok) {
        Ok(pause) => Some(pause),
        Err(error) => {
            let text = format!("{text:?} is no duration: {error}");
            draft.notes.push(backoff.refusal(name, Gap::Valid, text));
            None
        }
    }
}

/// `syncOptions`. Returns whether the namespace is created.
fn options(policy: &mut Fields<'_>, spec: &Fields<'_>, draft: &mut Draft) -> bool {
    let mut creates_namespace = false;
    for option in policy.texts("syncOptions") {
        let options = &mut draft.helmop.spec.bundle.options;
        let text = match &*option {
            "CreateNamespace=true" => {
                creates_namespace = true;
                continue;
            }
            "CreateNamespace=false" => {
                options.create_namespace = Some(false);
                continue;
            }
            "Replace=true" => {
                options.helm.get_or_insert_default().force = true;
                continue;
            }
            "Delete=false" => {
                keep(draft);
                continue;
            }
            "PrunePropagationPolicy=foreground" | "PrunePropagationPolicy=orphan" => PROPAGATION,
            "Prune=false" | "Prune=confirm" | "Delete=confirm" => PRUNES,
            "FailOnSharedResource=true" => SHARED,
            "RespectIgnoreDifferences=true" if spec.has("ignoreDifferences") => IGNORED_ONCE,
            other if means_nothing(other) => continue,
            _ => "this option has no equivalent, or is not known; check whether it is needed",
        };
        let text = format!("{option}: {text}");
        draft.notes.push(policy.note("syncOptions", text));
    }
    creates_namespace
}

/// Options that mean the same to every HelmOp, or nothing.
fn means_nothing(option: &str) -> bool {
    /// Helm deletes objects after it has applied all others, and an object of a kind that does not exist yet is no dry run.
    const ALWAYS: [&str; 9] = [
        "ApplyOutOfSyncOnly",
        "ClientSideApplyMigration",
        "PruneLast",
        "PrunePropagationPolicy",
        "RespectIgnoreDifferences",
        "ServerSideApply",
        "ServerSideDiff",
        "SkipDryRunOnMissingResource",
        "Validate",
    ];
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    ALWAYS.contains(&name)
        || value == "false" && matches!(name, "FailOnSharedResource" | "Force" | "Replace")
        || option == "Prune=true"
}

/// Labels and annotations of the namespace.
fn namespace(policy: &mut Fields<'_>, is_created: bool, draft: &mut Draft) {
    let is_set = policy.has("managedNamespaceMetadata");
    let mut metadata = policy.mapping("managedNamespaceMetadata");
    let (labels, annotations) = (metadata.entries("labels"), metadata.entries("annotations"));
    metadata.finish(&mut draft.notes);
    if !is_set {
        return;
    }
    let text = if is_created {
        let options = &mut draft.helmop.spec.bundle.options;
        options.namespace_labels = labels;
        options.namespace_annotations = annotations;
        "labels and annotations of the namespace that are not listed are removed from it"
    } else {
        "Argo CD ignores it without CreateNamespace=true, so it is not converted"
    };
    draft.notes.push(policy.note("managedNamespaceMetadata", text));
}
