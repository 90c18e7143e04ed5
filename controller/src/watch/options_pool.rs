//! Equal options of BundleDeployments, in memory once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use helmops_api::{BundleDeployment, BundleDeploymentOptions, Decoded};
use helmops_process::lock;

/// Entries without an owner that are kept at least.
const MIN_ENTRIES: usize = 64;

/// The options that the cache has, by deployment ID, which is a hash of them: on thousands of clusters most of them are equal, and they are
/// the largest part of a BundleDeployment. Clones share the pool.
#[derive(Clone, Debug, Default)]
pub struct OptionsPool(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<String, Weak<BundleDeploymentOptions>>,
    /// How many there were when those without an owner were last removed.
    used: usize,
}

impl OptionsPool {
    /// Lets a BundleDeployment have the options of others that are equal.
    pub fn share(&self, deployment: &mut BundleDeployment) {
        let spec = &mut deployment.spec;
        let mut entries = lock(&self.0);
        entries.share(&spec.deployment_id, &mut spec.options);
        if spec.staged_options == spec.options {
            spec.staged_options = Arc::clone(&spec.options);
        } else {
            entries.share(&spec.staged_deployment_id, &mut spec.staged_options);
        }
    }

    /// As [`Self::share`], for what a watch has read.
    pub fn share_decoded(&self, deployment: &mut Decoded<BundleDeployment>) {
        if let Decoded::Valid(deployment) = deployment {
            self.share(Arc::make_mut(deployment));
        }
    }
}

impl Entries {
    fn share(&mut self, id: &str, options: &mut Arc<BundleDeploymentOptions>) {
        let known = self.by_id.get(id).and_then(Weak::upgrade);
        // An agent or a person can change an ID, and some fields are not part of it.
        match known.filter(|known| known == options) {
            Some(known) => *options = known,
            None => self.add(id, options),
        }
    }

    fn add(&mut self, id: &str, options: &Arc<BundleDeploymentOptions>) {
        if self.by_id.len() >= (2 * self.used).max(MIN_ENTRIES) {
            self.by_id.retain(|_, options| options.strong_count() > 0);
            self.used = self.by_id.len();
        }
        self.by_id.insert(id.to_owned(), Arc::downgrade(options));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(id: &str, chart: &str) -> BundleDeployment {
        let options = json!({ "helm": { "chart": chart } });
        let spec = json!({
            "deploymentID": id, "options": options, "stagedDeploymentID": id, "stagedOptions": options,
        });
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    #[test]
    fn equal_options_are_in_memory_once() {
        let pool = OptionsPool::default();
        let [mut first, mut second] = [(); 2].map(|()| deployment(":a", "web"));
        pool.share(&mut first);
        pool.share(&mut second);
        let (first, second) = (first.spec, second.spec);
        assert!(Arc::ptr_eq(&first.options, &first.staged_options));
        assert!(Arc::ptr_eq(&first.options, &second.options));
        assert!(Arc::ptr_eq(&first.options, &second.staged_options));
    }

    /// `diff` is no part of the ID.
    #[test]
    fn other_options_with_the_same_id_stay() {
        let pool = OptionsPool::default();
        let mut first = deployment(":a", "web");
        let mut other = deployment(":a", "db");
        pool.share(&mut first);
        pool.share(&mut other);
        assert_eq!(other, deployment(":a", "db"));
        let mut staged = deployment(":a", "web");
        staged.spec.staged_deployment_id = ":b".to_owned();
        staged.spec.staged_options = deployment(":b", "new").spec.staged_options;
        let before = staged.clone();
        pool.share(&mut staged);
        assert_eq!(staged, before);
    }

    #[test]
    fn options_without_an_owner_are_forgotten() {
        let pool = OptionsPool::default();
        let mut kept = deployment(":kept", "web");
        pool.share(&mut kept);
        for number in 0..10 * MIN_ENTRIES {
            pool.share(&mut deployment(&format!(":{number}"), "web"));
        }
        let entries = lock(&pool.0);
        assert!(entries.by_id.len() <= MIN_ENTRIES, "{}", entries.by_id.len());
        assert!(entries.by_id.contains_key(":kept"));
    }
}
