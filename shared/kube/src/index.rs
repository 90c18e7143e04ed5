//! An index of the objects of a cache.

use std::{
    borrow::Borrow,
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use helmops_api::NamespacedName;

/// The names of objects by the keys that each of them has. Keys without objects are removed, so the number of objects bounds its size.
#[derive(Debug)]
pub struct Index<K>(HashMap<K, BTreeSet<NamespacedName>>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Index<K> {
    /// The objects with a key, in the order of their names.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> impl Iterator<Item = &NamespacedName>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }

    /// The number of objects with a key.
    pub fn count<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.0.get(key).map_or(0, BTreeSet::len)
    }

    /// Adds an object.
    pub fn insert(&mut self, key: K, name: NamespacedName) {
        self.0.entry(key).or_default().insert(name);
    }

    /// Removes an object.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, name: &NamespacedName)
    where
        K: Borrow<Q>,
    {
        if let Some(names) = self.0.get_mut(key) {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// Follows a change of an object, which may have had other keys before.
    pub fn change(
        &mut self,
        name: &NamespacedName,
        before: impl IntoIterator<Item = K>,
        after: impl IntoIterator<Item = K>,
    ) {
        let mut new: Vec<K> = after.into_iter().collect();
        for before in before {
            match new.iter().position(|after| *after == before) {
                Some(kept) => drop(new.swap_remove(kept)),
                None => self.remove(&before, name),
            }
        }
        for after in new {
            self.insert(after, name.clone());
        }
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_by_its_current_keys_only() {
        let name = NamespacedName::new("fleet", "web");
        let mut index = Index::<&str>::default();
        index.change(&name, None, Some("a"));
        index.change(&name, Some("a"), Some("a"));
        assert_eq!((index.count("a"), index.get("a").next()), (1, Some(&name)));
        index.change(&name, Some("a"), Some("b"));
        assert_eq!((index.count("a"), index.count("b")), (0, 1));
        index.change(&name, ["b"], ["b", "c", "d"]);
        assert_eq!(["b", "c", "d"].map(|key| index.count(key)), [1, 1, 1]);
        index.change(&name, ["d", "b", "c"], ["c"]);
        assert_eq!(["b", "c", "d"].map(|key| index.count(key)), [0, 1, 0]);
        index.change(&name, Some("c"), None);
        assert!(index.is_empty());
    }
}
