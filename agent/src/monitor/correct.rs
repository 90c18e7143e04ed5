//! Corrects drift: applies the objects of the manifest again. That makes no revision and runs no hook.

use helmops_api::options::CorrectDrift;
use helmops_release::drift::{Change, ObjectDrift};
use helmops_runtime::client::CallError;
use kube::api::PatchParams;

use super::{
    installed::{Installed, manifest_of},
    verify::{FIELD_MANAGER, Monitor, MonitorError, find},
};

/// How often the same change of an object is corrected. Then something else changes it back each time.
const MAX_CORRECTIONS: u32 = 5;

/// Corrects the objects. Returns the errors of single objects: the others are corrected.
///
/// # Errors
/// If the manifest cannot be read.
pub async fn correct(
    monitor: &Monitor<'_>,
    installed: &mut Installed,
    drift: &[ObjectDrift],
    options: &CorrectDrift,
) -> Result<Vec<String>, MonitorError> {
    let manifest = manifest_of(monitor.records, &installed.release, installed.revision).await?;
    let mut errors = Vec::new();
    for ObjectDrift { id, change } in drift {
        if matches!(change, Change::Extra) {
            continue;
        }
        if let Some(verdict) = installed.verdicts.get_mut(id) {
            if verdict.corrections >= MAX_CORRECTIONS {
                errors.push(format!(
                    "{id} was corrected {MAX_CORRECTIONS} times and changed back each time; find out what writes it \
                     (kubectl get --show-managed-fields), or ignore the field in diff.comparePatches"
                ));
                continue;
            }
            verdict.corrections += 1;
        }
        let Some(desired) = find(&manifest, id) else {
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
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = monitor
            .apply(&kind, id, desired, &installed.release, &params)
            .await;
        let applied = match applied {
            // A patch cannot change everything that a replacement can.
            Err(error) if options.force && error.is_invalid() => {
                monitor.replace(&kind, id, desired, &installed.release).await
            }
            applied => applied.map(drop),
        };
        if let Err(error) = applied {
            errors.push(CallError::of("correct", id)(error).to_string());
        }
    }
    Ok(errors)
}
