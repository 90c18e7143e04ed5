//! DaemonSets.

use super::{Assessment, Subject};
use crate::health::fields::number;

/// The rules of DaemonSets. Without the generations nothing shows that their controller has seen them.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    for path in [["metadata", "generation"], ["status", "observedGeneration"]] {
        if number(subject.object, &path).is_none() {
            let path = path.join(".");
            return Assessment::in_progress(format!("DaemonSet {path} not found"));
        }
    }
    let Some(desired) = number(subject.object, &["status", "desiredNumberScheduled"]) else {
        return Assessment::in_progress("Missing .status.desiredNumberScheduled");
    };
    let counts = [
        ("Current", "currentNumberScheduled"),
        ("Updated", "updatedNumberScheduled"),
        ("Available", "numberAvailable"),
        ("Ready", "numberReady"),
    ];
    let counts = counts.map(|(word, key)| (word, subject.observed(key)));
    let low = counts.into_iter().find(|(_, count)| desired > *count);
    match low {
        Some((word, count)) => Assessment::in_progress(format!("{word}: {count}/{desired}")),
        None => Assessment::current(format!("All replicas scheduled as expected. Replicas: {desired}")),
    }
}
