//! What the agent remembers of the management cluster, without I/O.

use std::collections::BTreeMap;

/// The identity of the namespace of the BundleDeployments.
const NAMESPACE: &str = "deploymentNamespace";
/// The identity of its ConfigMap with the root certificates.
const ROOT_CA: &str = "rootCertificates";
/// The highest resource version that was seen.
const VERSION: &str = "resourceVersion";
/// That the management cluster was restored, until a person confirms that.
const RESTORED: &str = "restored";

/// What identifies a namespace that may be created again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The namespace, if it may be read.
    pub namespace: Option<String>,
    /// A ConfigMap that Kubernetes creates in it.
    pub root_ca: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The namespace. An earlier agent, or a person, may have recorded one of both only.
    pub identity: Identity,
    /// The highest resource version.
    pub version: Option<u64>,
    /// That the management cluster was restored.
    pub restored: Option<String>,
}

/// Whether a namespace is the one that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// None is remembered.
    Unknown,
    /// The namespace is the remembered one.
    Same,
    /// It is, as far as the ConfigMap shows. It is deleted with the namespace, maybe after BundleDeployments.
    Similar,
    /// It is another one, or nothing can be compared.
    Other,
}

impl Remembered {
    /// From the data of the ConfigMap.
    pub fn of(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).filter(|text| !text.is_empty()).cloned();
        let first = text(NAMESPACE);
        let (root_ca, namespace) = match first {
            Some(first) if first.starts_with("configmap/") => (Some(first), None),
            namespace => (text(ROOT_CA), namespace),
        };
        Self {
            identity: Identity { namespace, root_ca },
            version: text(VERSION).and_then(|version| version.parse().ok()),
            restored: text(RESTORED),
        }
    }

    /// The data of the ConfigMap, without keys for what is not known.
    pub fn data(&self) -> BTreeMap<String, String> {
        let Identity { namespace, root_ca } = self.identity.clone();
        let of_namespace = namespace.as_ref().and(root_ca.clone());
        let data = [
            (NAMESPACE, namespace.or(root_ca)),
            (ROOT_CA, of_namespace),
            (VERSION, self.version.map(|version| version.to_string())),
            (RESTORED, self.restored.clone()),
        ];
        let known = data.into_iter();
        known
            .filter_map(|(key, text)| Some((key.to_owned(), text?)))
            .collect()
    }

    /// Whether this is the namespace.
    pub fn compare(&self, current: &Identity) -> Match {
        let known = &self.identity;
        if *known == Identity::default() {
            return Match::Unknown;
        }
        match (&known.namespace, &current.namespace) {
            (Some(known), Some(current)) if known == current => return Match::Same,
            (Some(_), Some(_)) => return Match::Other,
            _ => {}
        }
        let is_similar = known.root_ca.is_some() && known.root_ca == current.root_ca;
        match (is_similar, &current.namespace) {
            // It was recorded without the permission to read the namespace, which exists.
            (true, Some(_)) => Match::Same,
            (true, None) => Match::Similar,
            (false, _) => Match::Other,
        }
    }

    /// The same with what is known now of the same namespace.
    #[must_use]
    pub fn with(&self, current: &Identity, version: Option<u64>) -> Self {
        let current = current.clone();
        Self {
            identity: Identity {
                namespace: current.namespace.or_else(|| self.identity.namespace.clone()),
                root_ca: current.root_ca.or_else(|| self.identity.root_ca.clone()),
            },
            version: self.version.max(version),
            restored: self.restored.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(namespace: Option<&str>, root_ca: Option<&str>) -> Identity {
        Identity {
            namespace: namespace.map(|uid| format!("namespace/{uid}")),
            root_ca: root_ca.map(|uid| format!("configmap/{uid}")),
        }
    }

    fn remembered(pairs: &[(&str, &str)]) -> Remembered {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Remembered::of(&pairs.collect())
    }

    #[test]
    fn a_namespace_is_known_with_both_accounts() {
        let of_namespace = remembered(&[(NAMESPACE, "namespace/1")]);
        let of_fleet = remembered(&[(NAMESPACE, "configmap/2")]);
        let both = remembered(&[(NAMESPACE, "namespace/1"), (ROOT_CA, "configmap/2")]);
        let (ours, fleets) = (identity(Some("1"), Some("2")), identity(None, Some("2")));
        for (known, current, expected) in [
            (&of_namespace, &ours, Match::Same),
            (&of_fleet, &ours, Match::Same),
            (&both, &ours, Match::Same),
            (&of_namespace, &fleets, Match::Other),
            (&of_fleet, &fleets, Match::Similar),
            (&both, &fleets, Match::Similar),
            (&both, &identity(Some("3"), Some("2")), Match::Other),
            (&both, &identity(None, Some("3")), Match::Other),
            (&both, &identity(Some("1"), Some("3")), Match::Same),
            (&of_fleet, &identity(Some("1"), Some("3")), Match::Other),
            (&remembered(&[]), &ours, Match::Unknown),
        ] {
            assert_eq!(known.compare(current), expected, "{known:?} {current:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_read_again() {
        for current in [
            identity(Some("1"), Some("2")),
            identity(None, Some("2")),
            identity(Some("1"), None),
        ] {
            let known = Remembered::default()
                .with(&current, Some(7))
                .with(&Identity::default(), Some(5));
            assert_eq!(known.version, Some(7));
            assert_eq!(Remembered::of(&known.data()), known);
        }
        // It becomes one with the namespace.
        let known = remembered(&[(NAMESPACE, "configmap/2")]).with(&identity(Some("1"), Some("2")), None);
        assert_eq!(known.identity, identity(Some("1"), Some("2")));
    }
}
