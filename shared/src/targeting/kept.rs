//! The options and values of all clusters of a Bundle, which are in memory until the last cluster has its own. What several
//! clusters get is kept once.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use ring::digest::{SHA256, digest};

use super::template::{Budget, Exceeded};
use crate::api::BundleDeploymentOptions;

/// Memory of an element of a list or an entry of a map beside its text. Maps take most: some 150 bytes for an entry, which
/// JSON writes with a colon and a comma.
const ELEMENT: usize = 64;

/// What is kept, within the budget of the Bundle.
#[derive(Debug)]
pub struct Interner<'b> {
    budget: &'b Budget,
    values: HashSet<Arc<str>>,
    /// By a digest of their JSON.
    options: HashMap<Vec<u8>, Arc<BundleDeploymentOptions>>,
}

impl<'b> Interner<'b> {
    /// Nothing yet.
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

    /// Keeps values.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub fn values(&mut self, text: &str) -> Result<Arc<str>, Exceeded> {
        if let Some(known) = self.values.get(text) {
            return Ok(Arc::clone(known));
        }
        self.budget.keep(text.len())?;
        let text = Arc::<str>::from(text);
        self.values.insert(Arc::clone(&text));
        Ok(text)
    }

    /// Keeps options.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub fn options(
        &mut self,
        options: BundleDeploymentOptions,
    ) -> Result<Arc<BundleDeploymentOptions>, Exceeded> {
        // What was read from JSON can be written as JSON.
        let text = serde_json::to_string(&options).unwrap_or_default();
        let digest = digest(&SHA256, text.as_bytes());
        match self.options.entry(digest.as_ref().to_vec()) {
            Entry::Occupied(known) => Ok(Arc::clone(known.get())),
            Entry::Vacant(place) => {
                self.budget.keep(memory(&text))?;
                Ok(Arc::clone(place.insert(Arc::new(options))))
            }
        }
    }
}

/// About how many bytes options take that are this JSON.
fn memory(json: &str) -> usize {
    let (mut elements, mut in_text, mut is_escaped) = (0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => elements += 1,
            _ => {}
        }
    }
    size_of::<BundleDeploymentOptions>() + json.len() + elements * ELEMENT
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::targeting::template::Limits;

    fn options(labels: usize) -> BundleDeploymentOptions {
        let labels: serde_json::Map<_, _> = (0..labels)
            .map(|index| (format!("l{index}"), json!("")))
            .collect();
        serde_json::from_str(&json!({ "namespaceLabels": labels }).to_string()).unwrap()
    }

    #[test]
    fn what_is_the_same_is_kept_and_counted_once() {
        let budget = Budget::without_clock();
        let mut kept = Interner::new(&budget);
        let first = (kept.options(options(1)).unwrap(), kept.values("{}").unwrap());
        let counted = budget.kept();
        let again = (kept.options(options(1)).unwrap(), kept.values("{}").unwrap());
        assert!(Arc::ptr_eq(&first.0, &again.0) && Arc::ptr_eq(&first.1, &again.1));
        assert_eq!(budget.kept(), counted);
        kept.options(options(2)).unwrap();
        assert!(budget.kept() > counted);
    }

    #[test]
    fn options_count_with_what_they_take_in_memory() {
        let budget = Budget::without_clock();
        let mut kept = Interner::new(&budget);
        kept.options(options(1000)).unwrap();
        // Two texts of 24 bytes beside their own, and allocations of 32 bytes for them.
        assert!(budget.kept() > 1000 * 80, "{}", budget.kept());
        let limits = Limits {
            kept: 10_000,
            ..Limits::within(Duration::MAX)
        };
        let budget = Budget::new(limits, || Duration::ZERO);
        let mut kept = Interner::new(&budget);
        assert!(kept.options(options(1)).is_ok());
        assert!(kept.options(options(1000)).is_err());
    }
}
