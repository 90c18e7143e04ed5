//! How deep Helm values nest.

use super::{error::FieldErrors, path::Path};
use crate::{
    api::{
        HelmOptions,
        free_form::{FreeForm, MAX_DEPTH, TooDeep},
    },
    reason::Reason,
};

/// Refuses values that nest too deeply: no cluster could be given them. `path` is that of the Helm options.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    let depth = helm.values.as_ref().map_or(0, FreeForm::depth);
    if depth > MAX_DEPTH {
        let detail = TooDeep { depth }.to_string();
        errors.invalid(&path.field("values"), Reason::InvalidValues, "", detail);
    }
}
