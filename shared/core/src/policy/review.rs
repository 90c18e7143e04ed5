//! The decision on a change of a HelmOp.

use helmops_api::HelmOp;
use helmops_model::validation::FieldErrors;

use super::Policies;
use crate::{
    admit::{templates, warning::bounded, warnings},
    targeting::values::TemplateProblem,
};

/// The decision of admission on a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Why the change is denied; empty if it is allowed.
    pub errors: FieldErrors,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Decision {
    /// The errors of a denied change hide all warnings, which would only distract from them.
    fn new(errors: FieldErrors, warnings: Vec<String>) -> Self {
        let warnings = if errors.is_empty() { warnings } else { Vec::new() };
        Self { errors, warnings }
    }
}

impl Policies {
    /// Decides on a new HelmOp, or on the change from `stored` to it.
    ///
    /// A stored object must stay editable, whichever rules and Policies were added since. So an object that is being deleted is
    /// allowed, because its finalizers must be removable, and so is an unchanged spec. A changed spec is denied only for errors
    /// and violations that the stored one does not have. A stored object that exceeds a limit is not checked further: if the
    /// change brings it within all limits, it is denied only for violations of Policies.
    ///
    /// `stored` is called only if the decision depends on it.
    pub fn review(&self, helmop: &HelmOp, stored: impl FnOnce() -> Option<HelmOp>) -> Decision {
        if helmop.metadata.deletion_timestamp.is_some() {
            return Decision::default();
        }
        let (errors, problems) = self.all_errors(helmop);
        let mut warnings = warnings(helmop);
        warnings.extend(templates::warnings(&problems).map(bounded));
        if errors.is_empty() && warnings.is_empty() {
            return Decision::default();
        }
        let Some(stored) = stored() else {
            return Decision::new(errors, warnings);
        };
        if stored.spec == helmop.spec {
            return Decision::default();
        }
        let (new, old) = errors.split_stored(&self.all_errors(&stored).0);
        warnings.extend(
            old.reported()
                .iter()
                .map(|error| bounded(format!("not new, but still wrong: {error}"))),
        );
        Decision::new(new, warnings)
    }

    /// All errors of a HelmOp, and the problems in its templates. The templates of an object beyond a limit are not parsed.
    fn all_errors(&self, helmop: &HelmOp) -> (FieldErrors, Vec<TemplateProblem>) {
        let mut errors = self.validate(helmop);
        if errors.exceed_limit() {
            return (errors, Vec::new());
        }
        let problems = templates::problems(&helmop.spec);
        templates::add_errors(&mut errors, &problems);
        (errors, problems)
    }
}
