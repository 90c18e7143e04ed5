//! The objects of a watch, also while all are listed again.

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::Decoded;
use kube::{Resource, ResourceExt};

use crate::cluster::watch::Change;

/// The objects of a watch.
#[derive(Clone, Debug)]
pub struct Watched<K> {
    /// The objects by namespace and name.
    pub objects: BTreeMap<(String, String), Decoded<K>>,
    /// Those that exist, while all are listed again.
    pub listed: Option<BTreeSet<(String, String)>>,
    /// All were listed at least once.
    is_complete: bool,
}

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listed: None,
            is_complete: false,
        }
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Watched<K> {
    pub fn apply(&mut self, change: Change<K>) {
        let key = |object: &Decoded<K>| (object.namespace().unwrap_or_default(), object.name_any());
        match change {
            Change::Restarted => self.listed = Some(BTreeSet::new()),
            Change::Applied(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(key(&object));
                }
                self.objects.insert(key(&object), object);
            }
            Change::Deleted(object) => {
                self.objects.remove(&key(&object));
            }
            Change::Listed => {
                self.is_complete = true;
                if let Some(listed) = self.listed.take() {
                    self.objects.retain(|key, _| listed.contains(key));
                }
            }
        }
    }

    /// Whether the objects are those that exist.
    pub const fn is_current(&self) -> bool {
        self.is_complete && self.listed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_are_not_listed_again_are_gone() {
        let object = |name: &str| -> Decoded<HelmOp> {
            serde_json::from_value(json!({ "metadata": { "namespace": "shop", "name": name } })).unwrap()
        };
        let mut watched = Watched::default();
        for change in [
            Change::Restarted,
            Change::Applied(object("a")),
            Change::Applied(object("b")),
            Change::Listed,
            Change::Applied(object("c")),
            Change::Restarted,
            Change::Applied(object("b")),
            Change::Listed,
        ] {
            watched.apply(change);
        }
        let names: Vec<_> = watched.objects.keys().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["b"]);
    }
}
