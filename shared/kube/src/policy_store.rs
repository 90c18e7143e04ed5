//! The Policies from the events of a watch, by namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use helmops_api::{Decoded, Policy};
use helmops_core::policy::Policies;
use kube::{ResourceExt, runtime::watcher::Event};

/// The Policies of one namespace by their names.
type Namespace = BTreeMap<String, Decoded<Policy>>;

/// The Policies of all namespaces, updated by the events of a watch.
#[derive(Debug, Default)]
pub struct PolicyStore {
    namespaces: HashMap<String, Namespace>,
    /// A list that is not complete yet.
    pending_list: HashMap<String, Namespace>,
}

impl PolicyStore {
    /// Applies an event, and returns the namespaces that it changes. The end of a list changes only the namespaces in
    /// which the list differs from the previous state.
    pub fn apply(&mut self, event: Event<Decoded<Policy>>) -> BTreeSet<String> {
        match event {
            Event::Init => {
                self.pending_list.clear();
                BTreeSet::new()
            }
            Event::InitApply(policy) => {
                add(&mut self.pending_list, policy);
                BTreeSet::new()
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut self.namespaces, std::mem::take(&mut self.pending_list));
                self.differences(&before)
            }
            Event::Apply(policy) => [add(&mut self.namespaces, policy)].into(),
            Event::Delete(policy) => {
                let namespace = policy.namespace().unwrap_or_default();
                if let Some(policies) = self.namespaces.get_mut(&namespace) {
                    policies.remove(&policy.name_any());
                    if policies.is_empty() {
                        self.namespaces.remove(&namespace);
                    }
                }
                [namespace].into()
            }
        }
    }

    /// Removes all Policies, and returns the namespaces that had any.
    pub fn clear(&mut self) -> BTreeSet<String> {
        self.apply(Event::Init);
        self.apply(Event::InitDone)
    }

    /// The combined Policies of a namespace; `None` if it has none.
    pub fn policies(&self, namespace: &str) -> Option<Policies> {
        let policies = self.namespaces.get(namespace)?;
        Some(Policies::of_watched(policies.values()))
    }

    fn differences(&self, before: &HashMap<String, Namespace>) -> BTreeSet<String> {
        let all = self.namespaces.keys().chain(before.keys());
        let is_changed = |name: &&String| versions(self.namespaces.get(*name)) != versions(before.get(*name));
        all.filter(is_changed).cloned().collect()
    }
}

/// Adds a Policy, and returns its namespace.
fn add(namespaces: &mut HashMap<String, Namespace>, policy: Decoded<Policy>) -> String {
    let namespace = policy.namespace().unwrap_or_default();
    let policies = namespaces.entry(namespace.clone()).or_default();
    policies.insert(policy.name_any(), policy);
    namespace
}

/// The resource versions of the Policies of a namespace. Each write gets a new one, so they differ if the Policies do.
fn versions(policies: Option<&Namespace>) -> Vec<(&str, Option<String>)> {
    let policies = policies.into_iter().flatten();
    policies
        .map(|(name, policy)| (name.as_str(), policy.resource_version()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(namespace: &str, name: &str, version: u32) -> Decoded<Policy> {
        let metadata =
            json!({ "namespace": namespace, "name": name, "resourceVersion": version.to_string() });
        let policy = json!({ "metadata": metadata, "requireServiceAccount": true });
        serde_json::from_str(&policy.to_string()).unwrap()
    }

    fn list(store: &mut PolicyStore, policies: &[Decoded<Policy>]) -> Vec<String> {
        for policy in policies {
            assert!(store.apply(Event::InitApply(policy.clone())).is_empty());
        }
        store.apply(Event::InitDone).into_iter().collect()
    }

    #[test]
    fn a_list_changes_only_namespaces_with_new_changed_or_deleted_policies() {
        let mut store = PolicyStore::default();
        let (a, b, c) = (policy("a", "p", 1), policy("b", "p", 2), policy("c", "p", 3));
        assert_eq!(
            list(&mut store, &[a.clone(), b.clone(), c.clone()]),
            ["a", "b", "c"]
        );
        assert!(list(&mut store, &[c.clone(), a.clone(), b]).is_empty());
        let changed = [a, policy("b", "p", 4), policy("d", "p", 5)];
        assert_eq!(list(&mut store, &changed), ["b", "c", "d"]);
        assert!(store.policies("c").is_none() && store.policies("d").is_some());
        assert!(store.clear().into_iter().eq(["a", "b", "d"]));
        assert!(store.policies("a").is_none());
    }

    #[test]
    fn an_incomplete_list_is_discarded() {
        let mut store = PolicyStore::default();
        store.apply(Event::InitApply(policy("a", "p", 1)));
        store.apply(Event::Init);
        assert_eq!(list(&mut store, &[policy("b", "p", 2)]), ["b"]);
    }

    #[test]
    fn a_namespace_is_removed_with_its_last_policy() {
        let mut store = PolicyStore::default();
        list(&mut store, &[policy("a", "p", 1)]);
        assert!(
            store
                .apply(Event::Apply(policy("a", "q", 2)))
                .into_iter()
                .eq(["a"])
        );
        assert!(
            store
                .apply(Event::Delete(policy("a", "p", 3)))
                .into_iter()
                .eq(["a"])
        );
        assert!(store.policies("a").is_some());
        store.apply(Event::Delete(policy("a", "q", 4)));
        assert!(store.policies("a").is_none());
    }
}
