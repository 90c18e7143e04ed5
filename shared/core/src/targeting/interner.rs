//! Interns the options and values of all clusters of a Bundle, which are in memory until the last cluster is computed: equal
//! ones are stored once.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use gotmpl::{Budget, Exceeded};
use helmops_api::{BundleDeploymentOptions, Lifecycle, json};
use ring::digest::{SHA256, digest};

/// Shared options and values, within the budget of the Bundle.
#[derive(Debug)]
pub struct Interner<'b> {
    budget: &'b Budget,
    values: HashSet<Arc<str>>,
    /// By the digest of their JSON.
    options: HashMap<Vec<u8>, Arc<BundleDeploymentOptions>>,
}

impl<'b> Interner<'b> {
    /// An empty interner.
    pub fn new(budget: &'b Budget) -> Self {
        Self {
            budget,
            values: HashSet::new(),
            options: HashMap::new(),
        }
    }

    /// The budget of the Bundle.
    pub const fn budget(&self) -> &'b Budget {
        self.budget
    }

    /// Interns values.
    ///
    /// # Errors
    /// If they exceed the budget.
    pub fn values(&mut self, text: &str) -> Result<Arc<str>, Exceeded> {
        if let Some(known) = self.values.get(text) {
            return Ok(Arc::clone(known));
        }
        self.budget.retain(text.len())?;
        let text = Arc::<str>::from(text);
        self.values.insert(Arc::clone(&text));
        Ok(text)
    }

    /// Interns options.
    ///
    /// # Errors
    /// If they exceed the budget.
    pub fn options(
        &mut self,
        options: BundleDeploymentOptions,
    ) -> Result<Arc<BundleDeploymentOptions>, Exceeded> {
        // Options that were read from JSON can be written as JSON.
        let text = serde_json::to_string(&options).unwrap_or_default();
        let digest = digest(&SHA256, text.as_bytes());
        match self.options.entry(digest.as_ref().to_vec()) {
            Entry::Occupied(known) => Ok(Arc::clone(known.get())),
            Entry::Vacant(entry) => {
                self.budget.retain(memory(&text))?;
                Ok(Arc::clone(entry.insert(Arc::new(options))))
            }
        }
    }

    /// The life cycle of the clusters of a batch.
    ///
    /// # Errors
    /// If it exceeds the budget.
    pub fn lifecycle(&self, lifecycle: Lifecycle) -> Result<Arc<Lifecycle>, Exceeded> {
        let text = serde_json::to_string(&lifecycle).unwrap_or_default();
        self.budget.retain(memory(&text))?;
        Ok(Arc::new(lifecycle))
    }
}

/// Approximate memory of options with this JSON, in bytes.
fn memory(json: &str) -> usize {
    size_of::<BundleDeploymentOptions>() + json.len() + json::values(json.as_bytes()) * json::ELEMENT
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gotmpl::Limits;

    fn options(labels: usize) -> BundleDeploymentOptions {
        let labels: serde_json::Map<_, _> = (0..labels)
            .map(|index| (format!("l{index}"), json!("")))
            .collect();
        serde_json::from_str(&json!({ "namespaceLabels": labels }).to_string()).unwrap()
    }

    #[test]
    fn equal_options_and_values_are_stored_and_charged_once() {
        let budget = Budget::default();
        let mut interner = Interner::new(&budget);
        let first = (
            interner.options(options(1)).unwrap(),
            interner.values("{}").unwrap(),
        );
        let charged = budget.retained();
        let again = (
            interner.options(options(1)).unwrap(),
            interner.values("{}").unwrap(),
        );
        assert!(Arc::ptr_eq(&first.0, &again.0) && Arc::ptr_eq(&first.1, &again.1));
        assert_eq!(budget.retained(), charged);
        interner.options(options(2)).unwrap();
        assert!(budget.retained() > charged);
    }

    #[test]
    fn options_are_charged_with_their_memory() {
        let budget = Budget::default();
        let mut interner = Interner::new(&budget);
        interner.options(options(1000)).unwrap();
        // Two strings of 24 bytes each, and their allocations of 32 bytes.
        assert!(budget.retained() > 1000 * 80, "{}", budget.retained());
        let limits = Limits {
            retained: 10_000,
            ..Limits::default()
        };
        let budget = Budget::new(limits, || std::time::Duration::ZERO);
        let mut interner = Interner::new(&budget);
        assert!(interner.options(options(1)).is_ok());
        assert!(interner.options(options(1000)).is_err());
    }
}
