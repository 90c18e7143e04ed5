//! Validation of Alerts, AlertProviders and Receivers: one rule for each kind, used at admission and before they take effect.

mod alert;
mod provider;
mod receiver;

use helmops_api::{Alert, AlertProvider, Receiver};
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path, names},
};
use k8s_openapi::NamespaceResourceScope;
use kube_core::Resource;

pub use self::{
    alert::forbidden_namespaces, provider::shown_address,
    receiver::forbidden_namespaces as forbidden_receiver_namespaces,
};

/// A kind that is validated.
pub trait Validate: Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// The errors of the object.
    fn errors(&self) -> FieldErrors;

    /// Whether another version of the object has the same spec.
    fn has_spec_of(&self, other: &Self) -> bool;
}

impl Validate for Alert {
    fn errors(&self) -> FieldErrors {
        alert::errors(&self.spec)
    }

    fn has_spec_of(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Validate for AlertProvider {
    fn errors(&self) -> FieldErrors {
        provider::errors(&self.spec)
    }

    fn has_spec_of(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Validate for Receiver {
    fn errors(&self) -> FieldErrors {
        receiver::errors(&self.spec)
    }

    fn has_spec_of(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

/// The decision of admission on a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Why the change is denied; empty if it is allowed.
    pub errors: FieldErrors,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Decides on a new object, or on the change from `stored` to it. A stored object stays editable, whichever rules were added since: a
/// change is denied only for errors that the stored one does not have.
pub fn review<K: Validate>(object: &K, stored: impl FnOnce() -> Option<K>) -> Decision {
    review_with(object, stored, K::errors, K::has_spec_of)
}

/// The same for a kind whose rules are elsewhere: its errors, and whether two versions have the same spec.
pub fn review_with<K: Resource<DynamicType = ()>>(
    object: &K,
    stored: impl FnOnce() -> Option<K>,
    errors_of: impl Fn(&K) -> FieldErrors,
    have_same_spec: impl Fn(&K, &K) -> bool,
) -> Decision {
    if object.meta().deletion_timestamp.is_some() {
        return Decision::default();
    }
    let errors = errors_of(object);
    if errors.is_empty() {
        return Decision::default();
    }
    let Some(stored) = stored() else {
        return Decision {
            errors,
            warnings: Vec::new(),
        };
    };
    if have_same_spec(&stored, object) {
        return Decision::default();
    }
    let (errors, old) = errors.split_stored(&errors_of(&stored));
    let warnings = old.reported().iter();
    let warnings = warnings.map(|error| format!("not new, but still wrong: {error}"));
    Decision {
        warnings: if errors.is_empty() {
            warnings.collect()
        } else {
            Vec::new()
        },
        errors,
    }
}

/// Checks the name of an object of a kind in the same namespace.
fn check_reference(errors: &mut FieldErrors, path: &Path<'_>, kind: &str, name: &str) {
    let path = path.field("name");
    if name.is_empty() {
        errors.required(&path, Reason::InvalidNotification, format!("name the {kind}"));
    } else if let Err(problem) = names::subdomain(name) {
        errors.invalid(&path, Reason::InvalidName, name, problem);
    }
}

#[cfg(test)]
mod tests;
