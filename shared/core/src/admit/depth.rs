//! The nesting depth of Helm values.

use helmops_api::{
    HelmOptions,
    free_form::{FreeForm, MAX_DEPTH, TooDeep},
};
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path},
};

/// Rejects values that are nested too deeply: they cannot be rendered for any cluster. `path` is that of the Helm options.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, helm: &HelmOptions) {
    let depth = helm.values.as_ref().map_or(0, FreeForm::depth);
    if depth > MAX_DEPTH {
        let detail = TooDeep { depth }.to_string();
        errors.invalid(&path.field("values"), Reason::InvalidValues, "", detail);
    }
}
