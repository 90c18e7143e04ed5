//! In which order releases that are removed together are uninstalled: what others depend on comes after these.
//!
//! ```text
//! web ─► api ─► db        web first, then api, then db
//! a ─► b ─► a             as if they did not depend on each other
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// Which BundleDeployments depend on which others, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalOrder {
    dependencies: BTreeMap<String, BTreeSet<String>>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl RemovalOrder {
    /// From BundleDeployments, and one that each of them depends on.
    pub fn of(edges: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut order = Self::default();
        for (dependent, dependency) in edges {
            let dependents = order.dependents.entry(dependency.clone()).or_default();
            dependents.insert(dependent.clone());
            order
                .dependencies
                .entry(dependent)
                .or_default()
                .insert(dependency);
        }
        order
    }

    /// Those that are uninstalled before a BundleDeployment. Members of a cycle do not wait for each other, or none of them would ever be
    /// uninstalled.
    pub fn dependents(&self, name: &str) -> Vec<&str> {
        let Some(dependents) = self.dependents.get(name) else {
            return Vec::new();
        };
        let needed = self.needed_by(name);
        let dependents = dependents.iter().map(String::as_str);
        dependents
            .filter(|dependent| !needed.contains(dependent))
            .collect()
    }

    /// The BundleDeployment itself, and all that it depends on, directly or not.
    fn needed_by<'o>(&'o self, name: &'o str) -> BTreeSet<&'o str> {
        let (mut needed, mut pending) = (BTreeSet::from([name]), vec![name]);
        while let Some(next) = pending.pop() {
            let dependencies = self.dependencies.get(next).into_iter().flatten();
            pending.extend(dependencies.map(String::as_str).filter(|one| needed.insert(one)));
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(edges: &[(&str, &str)]) -> RemovalOrder {
        let owned = edges
            .iter()
            .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
        RemovalOrder::of(owned)
    }

    #[test]
    fn what_others_depend_on_is_removed_after_them() {
        let chain = [("web", "api"), ("api", "db")];
        let cycle = [("a", "b"), ("b", "c"), ("c", "a")];
        for (edges, name, expected) in [
            (&chain[..], "web", &[][..]),
            (&chain, "api", &["web"]),
            // Not those that depend on it through another one, which waits for them itself.
            (&chain, "db", &["api"]),
            (&chain, "other", &[]),
            (&[("a", "db"), ("b", "db"), ("a", "db")], "db", &["a", "b"]),
            (&[("a", "a")], "a", &[]),
            (&[("a", "b"), ("b", "a")], "a", &[]),
            (&[("a", "b"), ("b", "a")], "b", &[]),
            (&cycle, "a", &[]),
            (&cycle, "b", &[]),
            // Beside a cycle: what depends on one of its members, and what one of them depends on.
            (&[("a", "b"), ("b", "a"), ("web", "a")], "a", &["web"]),
            (&[("a", "b"), ("b", "a"), ("a", "db")], "db", &["a"]),
        ] {
            assert_eq!(order(edges).dependents(name), expected, "{name} in {edges:?}");
        }
    }
}
