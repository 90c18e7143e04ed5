//! Which objects an Alert or a Receiver selects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use helmops_api::{
    NamespacedName,
    notifications::{EventSource, ReceiverResource},
};

/// The text that selects all names, or all namespaces.
pub const ALL: &str = "*";

/// A kind of objects that Alerts report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A HelmOp.
    HelmOp,
    /// A Bundle.
    Bundle,
    /// A Cluster.
    Cluster,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::HelmOp, Self::Bundle, Self::Cluster];

    /// The kind as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HelmOp => "HelmOp",
            Self::Bundle => "Bundle",
            Self::Cluster => "Cluster",
        }
    }

    /// The kind with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The identity of an object: shown as `HelmOp/default/podinfo`, as in a status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace and name.
    pub name: NamespacedName,
}

impl ObjectId {
    /// The object that a text names.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        Some(Self {
            kind: Kind::parse(kind)?,
            name: NamespacedName::new(namespace, name),
        })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// The namespaces whose Alerts and Receivers may select objects of other namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileged(BTreeSet<String>);

impl Privileged {
    /// Grants the privilege to these namespaces.
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self(
            namespaces
                .into_iter()
                .filter(|namespace| !namespace.is_empty())
                .collect(),
        )
    }

    /// Whether an object in this namespace may select objects of others.
    pub fn contains(&self, namespace: &str) -> bool {
        self.0.contains(namespace)
    }
}

/// An entry of an Alert or a Receiver that selects objects.
#[derive(Clone, Copy, Debug)]
pub struct Selector<'a> {
    /// The kind.
    pub kind: Option<Kind>,
    /// The name, or [`ALL`].
    pub name: &'a str,
    /// The namespace, or [`ALL`]; empty for that of the owner.
    pub namespace: &'a str,
    /// Labels that the object must have.
    pub labels: &'a BTreeMap<String, String>,
}

impl<'a> From<&'a EventSource> for Selector<'a> {
    fn from(source: &'a EventSource) -> Self {
        Self {
            kind: Kind::parse(&source.kind),
            name: &source.name,
            namespace: &source.namespace,
            labels: &source.match_labels,
        }
    }
}

impl<'a> From<&'a ReceiverResource> for Selector<'a> {
    fn from(resource: &'a ReceiverResource) -> Self {
        Self {
            kind: Some(Kind::HelmOp),
            name: &resource.name,
            namespace: &resource.namespace,
            labels: &resource.match_labels,
        }
    }
}

impl Selector<'_> {
    /// The namespace that it selects from, for an owner in a namespace; `None` for all.
    pub fn namespace<'s>(&'s self, owner: &'s str) -> Option<&'s str> {
        match self.namespace {
            "" => Some(owner),
            ALL => None,
            namespace => Some(namespace),
        }
    }

    /// Whether it selects only objects in the namespace of its owner.
    pub fn is_local(&self, owner: &str) -> bool {
        self.namespace(owner) == Some(owner)
    }

    /// Whether it selects an object, for an owner in a namespace. An owner that is not privileged selects nothing of other namespaces.
    pub fn selects(
        &self,
        owner: &str,
        privileged: &Privileged,
        id: &ObjectId,
        labels: &(impl Labels + ?Sized),
    ) -> bool {
        self.kind == Some(id.kind)
            && (self.name == ALL || self.name == id.name.name)
            && (id.name.namespace == owner || privileged.contains(owner))
            && self
                .namespace(owner)
                .is_none_or(|namespace| namespace == id.name.namespace)
            && self.labels.iter().all(|(key, value)| labels.has(key, value))
    }
}

/// The labels of an object.
pub trait Labels {
    /// Whether it has a label with this value.
    fn has(&self, key: &str, value: &str) -> bool;
}

impl Labels for BTreeMap<String, String> {
    fn has(&self, key: &str, value: &str) -> bool {
        self.get(key).is_some_and(|found| found == value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selects(source: &Value, owner: &str, id: &str) -> bool {
        let source: EventSource = serde_json::from_str(&source.to_string()).unwrap();
        let privileged = Privileged::new(["helmops-system".to_owned(), String::new()]);
        let labels = BTreeMap::from([("team".to_owned(), "web".to_owned())]);
        Selector::from(&source).selects(owner, &privileged, &ObjectId::parse(id).unwrap(), &labels)
    }

    #[test]
    fn objects_are_selected_by_kind_name_and_labels() {
        let one = json!({ "kind": "HelmOp", "name": "podinfo" });
        assert!(selects(&one, "a", "HelmOp/a/podinfo"));
        assert!(!selects(&one, "a", "HelmOp/a/other"));
        assert!(!selects(&one, "a", "Bundle/a/podinfo"));
        let all = |labels| json!({ "kind": "HelmOp", "name": "*", "matchLabels": labels });
        assert!(selects(&all(json!({})), "a", "HelmOp/a/other"));
        assert!(selects(&all(json!({ "team": "web" })), "a", "HelmOp/a/other"));
        assert!(!selects(&all(json!({ "team": "db" })), "a", "HelmOp/a/other"));
        assert!(!selects(
            &json!({ "kind": "Pod", "name": "*" }),
            "a",
            "HelmOp/a/podinfo"
        ));
    }

    #[test]
    fn only_privileged_namespaces_select_from_others() {
        let of = |namespace: &str| json!({ "kind": "HelmOp", "name": "*", "namespace": namespace });
        for (namespace, owner, is_selected) in [
            ("b", "helmops-system", true),
            ("*", "helmops-system", true),
            ("", "helmops-system", false),
            ("c", "helmops-system", false),
            ("b", "a", false),
            ("*", "a", false),
            ("b", "b", true),
            ("*", "b", true),
            ("", "b", true),
        ] {
            assert_eq!(
                selects(&of(namespace), owner, "HelmOp/b/web"),
                is_selected,
                "{namespace} of {owner}"
            );
        }
    }

    #[test]
    fn identities_are_parsed_as_they_are_shown() {
        for text in ["HelmOp/a/web", "Cluster/fleet/c-1"] {
            assert_eq!(ObjectId::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(ObjectId::parse("Pod/a/web"), None);
        assert_eq!(ObjectId::parse("HelmOp/web"), None);
    }
}
