//! Corrects drift: applies the objects of the manifest again. That makes no revision and runs no hook.

use helmops_api::{options::CorrectDrift, timestamp::timestamp};
use helmops_release::{
    drift::{Change, DriftRules, MAX_CORRECTIONS, ObjectDrift},
    object::ObjectId,
};
use helmops_runtime::client::CallError;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::PatchParams;
use serde_json::Value;

use super::{
    installed::{Installed, manifest_of},
    verify::{FIELD_MANAGER, Monitor, MonitorError, find, rules},
};

/// The delay after a correction that failed.
const RETRY: SignedDuration = SignedDuration::from_mins(5);

/// What was done about drift.
#[derive(Debug, Default)]
pub struct Corrections {
    pub corrected: Vec<ObjectId>,
    /// The errors of others.
    pub errors: Vec<String>,
    /// When the next one of those is corrected that were corrected too often, or whose correction failed.
    pub next: Option<Timestamp>,
}

/// Corrects the objects. An error of one does not delay the others.
///
/// # Errors
/// If the manifest cannot be read.
pub async fn correct(
    monitor: &Monitor<'_>,
    installed: &mut Installed,
    drift: &[ObjectDrift],
    options: &CorrectDrift,
) -> Result<Corrections, MonitorError> {
    let manifest = manifest_of(monitor.records, &installed.id.release, installed.id.number).await?;
    let rules = rules(&installed.exceptions);
    let Corrections {
        mut corrected,
        mut errors,
        mut next,
    } = Corrections::default();
    let now = Timestamp::now();
    for ObjectDrift { id, change } in drift {
        if matches!(change, Change::Extra) {
            continue;
        }
        let Some(desired) = find(&manifest, id, &installed.id.release.namespace) else {
            continue;
        };
        let Some(kind) = installed
            .desired
            .iter()
            .find(|object| object.id == *id)
            .and_then(|object| object.kind.clone())
        else {
            errors.push(format!(
                "{id} cannot be created: the cluster has no kind {}",
                id.kind
            ));
            continue;
        };
        let limit = installed.corrections.entry(id.clone()).or_default();
        if let Some(until) = limit.blocked_until(now) {
            errors.push(format!(
                "{id} was corrected {MAX_CORRECTIONS} times in an hour and changed back each time; find out what writes it (kubectl get \
                 --show-managed-fields), or ignore the field in lifecycle.drift.ignore or \
                 diff.comparePatches; next correction at {}",
                timestamp(until)
            ));
            next = next.into_iter().chain([until]).min();
            continue;
        }
        let desired = &kept(monitor, &rules, id, desired).await?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = monitor
            .apply(&kind, id, desired, &installed.id.release, &params)
            .await;
        let applied = match applied {
            // A patch cannot change everything that a replacement can.
            Err(error) if options.force && error.is_invalid() => {
                monitor.replace(&kind, id, desired, &installed.id.release).await
            }
            applied => applied.map(drop),
        };
        match applied {
            Ok(()) => {
                limit.count(now);
                corrected.push(id.clone());
            }
            Err(error) => {
                errors.push(CallError::of("correct", id)(error).to_string());
                // What is missing, such as a permission, may be there without a change of the object.
                next = next.into_iter().chain([now + RETRY]).min();
            }
        }
    }
    Ok(Corrections {
        corrected,
        errors,
        next,
    })
}

/// The object to apply: the desired one, with the fields of the live one that are no drift.
async fn kept(
    monitor: &Monitor<'_>,
    rules: &DriftRules,
    id: &ObjectId,
    desired: &Value,
) -> Result<Value, MonitorError> {
    let mut desired = desired.clone();
    if rules.keeps_fields()
        && let Some(live) = monitor.read(id).await?
    {
        rules.keep_ignored(id, &mut desired, &live);
    }
    Ok(desired)
}
