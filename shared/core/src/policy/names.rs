//! Allowed names of ServiceAccounts and Secrets.

use super::list::List;

/// The names that a HelmOp may use in a field.
#[derive(Clone, Debug)]
pub struct Names {
    /// The field of the HelmOp's spec.
    pub field: &'static str,
    /// The allowed names.
    pub allowed: List,
    /// The name for HelmOps that set none.
    pub default: Option<DefaultName>,
}

/// The name that a Policy sets for HelmOps that set none.
#[derive(Clone, Debug)]
pub struct DefaultName {
    pub name: String,
    pub policy: String,
}

impl Names {
    pub const fn new(field: &'static str, allowed: &'static str) -> Self {
        Self {
            field,
            allowed: List::new(allowed),
            default: None,
        }
    }

    /// Adds the default of a Policy. The first Policy that has one wins.
    pub fn add_default(&mut self, name: &str, policy: &str) {
        if self.default.is_none() && !name.is_empty() {
            self.default = Some(DefaultName {
                name: name.to_owned(),
                policy: policy.to_owned(),
            });
        }
    }

    /// The default for `own`, if that is empty and there is a default.
    pub fn default_for(&self, own: &str) -> Option<&str> {
        let default = self.default.as_ref().filter(|_| own.is_empty())?;
        Some(&default.name)
    }

    /// Whether the lists allow a name. Empty lists allow every name.
    pub fn allows(&self, name: &str) -> bool {
        let entries = &self.allowed.entries;
        entries.is_empty() || entries.iter().any(|entry| entry.text == name)
    }

    /// Checks whether a name may be used. An empty name always may.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || self.allows(name) {
            return Ok(());
        }
        let (field, set, location) = (self.field, self.allowed.allowed_set(), self.allowed.location());
        let remedy = match &self.default {
            Some(default) if default.name == name => {
                format!(
                    "it is the default that Policy {:?} sets, so fix that Policy",
                    default.policy
                )
            }
            _ => format!("use one of these, or have it added to {location}"),
        };
        Err(format!(
            "disallowed {field} {name}: {name} not in allowed set {set}; {remedy}"
        ))
    }
}
