//! The BundleDeployments of this cluster, and which of them a change of another object concerns.

use std::{collections::BTreeSet, sync::Arc};

use helmops_api::{BundleDeployment, Decoded, NamespacedName};
use helmops_kube::{Change, Fold, Index, ObjectCache};
use helmops_release::{
    dependencies::{self, DependencyKey},
    names::{RecordsKey, ReleaseKey},
};

pub type Deployments = ObjectCache<Decoded<BundleDeployment>, Related>;

/// The BundleDeployments by the records of their release, and by what they depend on: thousands of records and statuses change at a start, and none of
/// these changes looks at all BundleDeployments.
#[derive(Debug, Default)]
pub struct Related {
    by_records: Index<RecordsKey>,
    by_dependency: Index<DependencyKey>,
}

impl Related {
    /// The BundleDeployments whose release has these records.
    pub fn of_records(&self, records: &RecordsKey) -> impl Iterator<Item = &NamespacedName> {
        self.by_records.get(records)
    }

    /// Those that may depend on a BundleDeployment: its labels decide.
    pub fn candidates(&self, dependency: &BundleDeployment) -> BTreeSet<&NamespacedName> {
        let keys = dependencies::keys_of_dependents(dependency);
        keys.iter().flat_map(|key| self.by_dependency.get(key)).collect()
    }
}

impl Fold<Arc<Decoded<BundleDeployment>>> for Related {
    fn apply(&mut self, change: &Change<Arc<Decoded<BundleDeployment>>>) {
        let [before, after] =
            [&change.before, &change.after].map(|deployment| deployment.as_deref()?.valid());
        let name = &change.name;
        let records =
            |deployment: &BundleDeployment| ReleaseKey::of(&name.name, &deployment.spec.options).records();
        self.by_records
            .change(name, before.map(records), after.map(records));
        let dependencies = |deployment| dependencies::keys(deployment);
        let [before, after] = [before, after].map(|one| one.map(dependencies).unwrap_or_default());
        self.by_dependency.change(name, before, after);
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn deployment(name: &str, spec: &Value) -> Decoded<BundleDeployment> {
        let labels =
            json!({ "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": "fleet" });
        let metadata = json!({ "name": name, "namespace": "cluster-a", "labels": labels });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn of_release(cache: &Deployments, name: &str) -> Vec<String> {
        let release = ReleaseKey::new("shop", name);
        cache.read(|_, related| {
            let records = release.records();
            let found = related.of_records(&records);
            found.map(|name| name.name.clone()).collect()
        })
    }

    fn candidates(cache: &Deployments, name: &str) -> Vec<String> {
        let dependency = deployment(name, &json!({}));
        cache.read(|_, related| {
            let found = related.candidates(dependency.valid().unwrap());
            found.into_iter().map(|name| name.name.clone()).collect()
        })
    }

    /// A thousand releases with some records each: a look at all of them for each record would be millions of steps.
    #[test]
    fn a_change_looks_only_at_those_that_it_may_concern() {
        let in_shop = |name: String| deployment(&name, &json!({ "options": { "namespace": "shop" } }));
        let others = (0..1_000).map(|number| in_shop(format!("app-{number}")));
        let named = deployment("named", &json!({ "dependsOn": [{ "name": "app-7" }] }));
        let own = deployment(
            "own",
            &json!({ "lifecycle": { "dependsOn": [{ "name": "app-7", "ready": "true" }] } }),
        );
        let selecting = json!({ "dependsOn": [{ "selector": { "matchLabels": { "tier": "base" } } }] });
        let selecting = deployment("selecting", &selecting);
        let cache: Deployments = others.chain([named, own, selecting]).collect();

        assert_eq!(of_release(&cache, "app-7"), ["app-7"]);
        assert_eq!(candidates(&cache, "app-7"), ["named", "own", "selecting"]);
        assert_eq!(candidates(&cache, "app-8"), ["selecting"]);
    }

    #[test]
    fn the_indexes_follow_changes() {
        let spec = |dependency: &str, release: &str| {
            let options = json!({ "namespace": "shop", "helm": { "releaseName": release } });
            json!({ "dependsOn": [{ "name": dependency }, { "name": "always" }], "options": options })
        };
        let cache: Deployments = [deployment("web", &spec("a", "one"))].into_iter().collect();
        let name = NamespacedName::new("cluster-a", "web");
        let changed = Arc::new(deployment("web", &spec("b", "two")));
        cache.apply(0, Event::Apply((name.clone(), Some(changed))));
        assert_eq!(
            (of_release(&cache, "one"), of_release(&cache, "two")),
            (vec![], vec!["web".to_owned()])
        );
        for (dependency, expected) in [("a", 0), ("b", 1), ("always", 1)] {
            assert_eq!(candidates(&cache, dependency).len(), expected, "{dependency}");
        }
        cache.apply(0, Event::Delete((name, None)));
        assert!(of_release(&cache, "two").is_empty() && candidates(&cache, "always").is_empty());
    }
}
