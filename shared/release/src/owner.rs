//! Who owns a live object.
//!
//! What a record has may belong to another owner by now: another release has taken it over, or a user has deleted the object and
//! created another one with its name. That is not deleted with the release.

use std::{collections::BTreeMap, fmt};

use helmops_api::NamespacedName;

use crate::{
    marks,
    names::{ReleaseKey, SetId},
};

/// Another owner of a live object than a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherOwner {
    /// Another release, by its namespace and name.
    Release(NamespacedName),
    /// The release of another BundleDeployment, by the identity of its objects.
    Set(String),
    /// No release: neither Helm nor an agent has made it.
    None,
}

impl OtherOwner {
    /// The owner of an object with these annotations, unless it is one of these releases, of a BundleDeployment whose objects have this
    /// identity. Those of Helm count first: an agent that takes an object over sets both, and a user's Helm only these. Hooks have only
    /// the others.
    pub fn of(annotations: &BTreeMap<String, String>, releases: &[&ReleaseKey], set: &SetId) -> Option<Self> {
        if let Some(release) = ReleaseKey::that_has_made(annotations) {
            let is_one = releases.iter().any(|own| own.has_made(annotations));
            return (!is_one).then_some(Self::Release(release));
        }
        match annotations.get(marks::SET_ID) {
            Some(id) if id == set.as_str() => None,
            Some(id) => Some(Self::Set(id.clone())),
            None => Some(Self::None),
        }
    }
}

/// What follows the object in a sentence.
impl fmt::Display for OtherOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(release) => write!(f, "belongs to release {release} now"),
            Self::Set(id) => write!(f, "belongs to another release now ({} is {id})", marks::SET_ID),
            Self::None => write!(
                f,
                "has lost the annotations {} and {}, as if something else had created or replaced it",
                marks::RELEASE_NAME,
                marks::SET_ID
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(name: &str) -> ReleaseKey {
        ReleaseKey::new("shop", name)
    }

    #[test]
    fn annotations_show_the_owner() {
        const HELM: [(&str, &str); 2] = [(marks::RELEASE_NAMESPACE, "shop"), (marks::RELEASE_NAME, "web")];
        let by = |name| [(marks::RELEASE_NAMESPACE, "shop"), (marks::RELEASE_NAME, name)];
        let base = by("base");
        let set = |id| [(marks::SET_ID, id)];
        let (own, other) = (set("default-web"), set("default-base"));
        let of_base = || Some(OtherOwner::Release(NamespacedName::new("shop", "base")));
        for (annotations, expected) in [
            (HELM.to_vec(), None),
            // It was renamed.
            (by("old").to_vec(), None),
            ([&HELM[..], &own].concat(), None),
            // A BundleDeployment has taken over the release of another one.
            ([&HELM[..], &other].concat(), None),
            ([&base[..], &other].concat(), of_base()),
            // A user's Helm has taken it over, and leaves the other annotation.
            ([&base[..], &own].concat(), of_base()),
            // A hook, or what lost the annotations of Helm.
            (own.to_vec(), None),
            (other.to_vec(), Some(OtherOwner::Set("default-base".to_owned()))),
            (vec![], Some(OtherOwner::None)),
            (vec![(marks::RELEASE_NAME, "web")], Some(OtherOwner::None)),
        ] {
            let map = annotations
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let (web, old, set) = (release("web"), release("old"), SetId::new("web", ""));
            let owner = OtherOwner::of(&map.collect(), &[&web, &old], &set);
            assert_eq!(owner, expected, "{annotations:?}");
        }
    }

    #[test]
    fn another_owner_is_named() {
        let text = OtherOwner::Release(NamespacedName::new("shop", "base")).to_string();
        assert_eq!(text, "belongs to release shop/base now");
    }
}
