//! PersistentVolumeClaims.

use super::{Assessment, Subject};
use crate::health::fields::text;

/// The rules of PersistentVolumeClaims.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    match text(subject.object, &["status", "phase"]) {
        "Bound" => Assessment::current("PVC is Bound"),
        "" => Assessment::in_progress("PVC is not Bound. phase: unknown"),
        phase => Assessment::in_progress(format!("PVC is not Bound. phase: {phase}")),
    }
}
