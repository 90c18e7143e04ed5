//! Names that may be used: ServiceAccounts and Secrets.

use super::list::List;

/// Which names a HelmOp may use in a field.
#[derive(Clone, Debug)]
pub struct Names {
    /// The field of the HelmOp's spec.
    pub field: &'static str,
    /// The names that are allowed.
    pub allowed: List,
    /// The name that is used where none is given.
    pub default: Option<DefaultName>,
}

/// A name that a Policy gives to HelmOps that give none.
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

    /// Takes up a Policy's default. The first Policy that has one wins.
    pub fn offer(&mut self, name: &str, policy: &str) {
        if self.default.is_none() && !name.is_empty() {
            self.default = Some(DefaultName {
                name: name.to_owned(),
                policy: policy.to_owned(),
            });
        }
    }

    /// The name that takes the place of `own`, where that is empty and there is one.
    pub fn missing(&self, own: &str) -> Option<&str> {
        let default = self.default.as_ref().filter(|_| own.is_empty())?;
        Some(&default.name)
    }

    /// Whether the lists allow a name. Empty lists allow every name.
    pub fn allows(&self, name: &str) -> bool {
        let entries = &self.allowed.entries;
        entries.is_empty() || entries.iter().any(|entry| entry.text == name)
    }

    /// Whether a name may be used. None at all always may.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || self.allows(name) {
            return Ok(());
        }
        let (field, set, place) = (self.field, self.allowed.set(), self.allowed.place());
        let remedy = match &self.default {
            Some(default) if default.name == name => {
                format!(
                    "it is the default that Policy {:?} gives, so mend that Policy",
                    default.policy
                )
            }
            _ => format!("use one of these, or have it added to {place}"),
        };
        Err(format!(
            "disallowed {field} {name}: {name} not in allowed set {set}; {remedy}"
        ))
    }
}
