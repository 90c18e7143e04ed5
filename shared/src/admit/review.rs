//! The answer to a change of a HelmOp.

use super::{FieldErrors, ValidHelmOp, warning::bounded, warnings};
use crate::api::HelmOp;

/// What admission says of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Why the change is denied; empty if it is not.
    pub errors: FieldErrors,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Decision {
    /// Whether the change is allowed.
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Decides on a new HelmOp, or on the change from `stored` to it.
///
/// A stored object must stay editable, whatever rules came after it: an object that is being deleted passes, so that
/// its finalizers can go, and so does an unchanged spec. Of a changed spec only errors that the stored one did not have
/// are held against it. A stored one beyond a limit is not checked further; where the change brings it within all limits,
/// only what Policies forbid is held against it.
///
/// `stored` is asked for only where it matters.
pub fn review(helmop: &HelmOp, stored: impl FnOnce() -> Option<HelmOp>) -> Decision {
    let errors = |helmop: &HelmOp| ValidHelmOp::try_from(helmop).err().unwrap_or_default();
    review_by(helmop, errors, stored)
}

/// [`review`] by other rules: `errors` tells everything that speaks against a HelmOp.
pub fn review_by(
    helmop: &HelmOp,
    errors: impl Fn(&HelmOp) -> FieldErrors,
    stored: impl FnOnce() -> Option<HelmOp>,
) -> Decision {
    if helmop.metadata.deletion_timestamp.is_some() {
        return Decision::default();
    }
    let found = errors(helmop);
    let mut warnings = warnings(helmop);
    if found.is_empty() && warnings.is_empty() {
        return Decision::default();
    }
    let Some(stored) = stored() else {
        return verdict(found, warnings);
    };
    if stored.spec == helmop.spec {
        return Decision::default();
    }
    let (new, old) = found.split_stored(&errors(&stored));
    warnings.extend(
        old.told()
            .iter()
            .map(|error| bounded(format!("not new, but still wrong: {error}"))),
    );
    verdict(new, warnings)
}

/// Warnings would only hide the errors of a change that is denied.
fn verdict(errors: FieldErrors, warnings: Vec<String>) -> Decision {
    let warnings = if errors.is_empty() { warnings } else { Vec::new() };
    Decision { errors, warnings }
}
