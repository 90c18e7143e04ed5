//! The Policies that a watch has told of, namespace by namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::{ResourceExt, runtime::watcher::Event};

use crate::{
    api::{Decoded, Policy},
    policy::Policies,
};

/// The Policies of one namespace by their names.
type Namespace = BTreeMap<String, Decoded<Policy>>;

/// The Policies as a watch tells of them.
#[derive(Debug, Default)]
pub struct PolicyStore {
    namespaces: HashMap<String, Namespace>,
    /// A list that has not come to its end yet.
    listing: HashMap<String, Namespace>,
}

impl PolicyStore {
    /// Takes an event up, and gives the namespaces where it changes something. The end of a list changes those alone in
    /// which it differs from what was there.
    pub fn take(&mut self, event: Event<Decoded<Policy>>) -> BTreeSet<String> {
        match event {
            Event::Init => {
                self.listing.clear();
                BTreeSet::new()
            }
            Event::InitApply(policy) => {
                add(&mut self.listing, policy);
                BTreeSet::new()
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut self.namespaces, std::mem::take(&mut self.listing));
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

    /// Takes up that there are none, and gives the namespaces where there were some.
    pub fn clear(&mut self) -> BTreeSet<String> {
        self.take(Event::Init);
        self.take(Event::InitDone)
    }

    /// The Policies of a namespace put together; `None` where there are none.
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

/// Adds a Policy, and gives its namespace.
fn add(namespaces: &mut HashMap<String, Namespace>, policy: Decoded<Policy>) -> String {
    let namespace = policy.namespace().unwrap_or_default();
    let policies = namespaces.entry(namespace.clone()).or_default();
    policies.insert(policy.name_any(), policy);
    namespace
}

/// What tells one state of a namespace from another: the API server gives every write a version of its own.
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

    fn listed(seen: &mut PolicyStore, policies: &[Decoded<Policy>]) -> Vec<String> {
        for policy in policies {
            assert!(seen.take(Event::InitApply(policy.clone())).is_empty());
        }
        seen.take(Event::InitDone).into_iter().collect()
    }

    #[test]
    fn a_list_changes_what_is_new_changed_or_gone() {
        let mut seen = PolicyStore::default();
        let (a, b, c) = (policy("a", "p", 1), policy("b", "p", 2), policy("c", "p", 3));
        assert_eq!(
            listed(&mut seen, &[a.clone(), b.clone(), c.clone()]),
            ["a", "b", "c"]
        );
        assert!(listed(&mut seen, &[c.clone(), a.clone(), b]).is_empty());
        let changed = [a, policy("b", "p", 4), policy("d", "p", 5)];
        assert_eq!(listed(&mut seen, &changed), ["b", "c", "d"]);
        assert!(seen.policies("c").is_none() && seen.policies("d").is_some());
        assert!(seen.clear().into_iter().eq(["a", "b", "d"]));
        assert!(seen.policies("a").is_none());
    }

    #[test]
    fn a_list_that_was_broken_off_is_forgotten() {
        let mut seen = PolicyStore::default();
        seen.take(Event::InitApply(policy("a", "p", 1)));
        seen.take(Event::Init);
        assert_eq!(listed(&mut seen, &[policy("b", "p", 2)]), ["b"]);
    }

    #[test]
    fn a_namespace_is_left_with_its_last_policy() {
        let mut seen = PolicyStore::default();
        listed(&mut seen, &[policy("a", "p", 1)]);
        assert!(seen.take(Event::Apply(policy("a", "q", 2))).into_iter().eq(["a"]));
        assert!(
            seen.take(Event::Delete(policy("a", "p", 3)))
                .into_iter()
                .eq(["a"])
        );
        assert!(seen.policies("a").is_some());
        seen.take(Event::Delete(policy("a", "q", 4)));
        assert!(seen.policies("a").is_none());
    }
}
