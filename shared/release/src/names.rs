//! Names of a release: where it is stored, under which name, and the identity of its objects. All are those of Fleet, so that a
//! cluster can change from its agent to this one, and back.

use std::{collections::BTreeMap, fmt};

use helmops_api::{BundleDeployment, NamespacedName, limits, options::BundleDeploymentOptions};
use helmops_model::names::safe_concat;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::marks;

/// The length of the hash at the end of a truncated name.
const TRUNCATED_HASH: usize = 5;

/// The key of a release: where its objects and its records are, and its name.
///
/// Objects carry the namespace and the name only ([`ReleaseKey::has_made`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseKey {
    /// The namespace of the release: where its objects are that name none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The namespace of its records.
    pub storage: String,
}

impl ReleaseKey {
    /// A release whose records are in its namespace, as of Helm itself.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            storage: namespace.to_owned(),
        }
    }

    /// The same release with its records in this namespace.
    #[must_use]
    pub fn stored_in(self, storage: &str) -> Self {
        Self {
            storage: storage.to_owned(),
            ..self
        }
    }

    /// The key of the release of a BundleDeployment.
    pub fn of(bundle_deployment: &str, options: &BundleDeploymentOptions) -> Self {
        let named = options.helm.as_ref().map(|helm| helm.release_name.as_str());
        let name = match named {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => release_name(bundle_deployment),
        };
        let key = Self::new(release_namespace(options), &name);
        match options.storage_namespace() {
            Some(storage) => key.stored_in(storage),
            None => key,
        }
    }

    /// Reads what [`fmt::Display`] writes, of a release whose records are in its namespace.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let is_valid = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        is_valid.then(|| Self::new(namespace, name))
    }

    /// Where its records are.
    pub fn records(&self) -> RecordsKey {
        RecordsKey {
            namespace: self.storage.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether its records are in another namespace than its own.
    pub fn has_records_elsewhere(&self) -> bool {
        self.storage != self.namespace
    }

    /// Whether Helm takes the objects of both for those of one release: only the records differ.
    pub fn has_objects_of(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }

    /// Namespace and name of the release for which Helm has made an object with these annotations, or has taken it over; `None` if Helm has
    /// not.
    pub fn that_has_made(annotations: &BTreeMap<String, String>) -> Option<NamespacedName> {
        let [namespace, name] =
            [marks::RELEASE_NAMESPACE, marks::RELEASE_NAME].map(|key| annotations.get(key));
        Some(NamespacedName::new(namespace?, name?))
    }

    /// Whether Helm has made an object with these annotations for this release.
    pub fn has_made(&self, annotations: &BTreeMap<String, String>) -> bool {
        Self::that_has_made(annotations)
            .is_some_and(|made| (&made.namespace, &made.name) == (&self.namespace, &self.name))
    }
}

/// As in the status of a BundleDeployment: `shop/web`.
impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Where the records of a release are. Their metadata does not say which namespace its objects are in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordsKey {
    /// The namespace of the records.
    pub namespace: String,
    /// The name of the release.
    pub name: String,
}

impl RecordsKey {
    /// The release that has these records, if nothing says that its objects are in another namespace.
    pub fn release(&self) -> ReleaseKey {
        ReleaseKey::new(&self.namespace, &self.name)
    }
}

impl fmt::Display for RecordsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The namespace of a release.
pub fn release_namespace(options: &BundleDeploymentOptions) -> &str {
    [&options.namespace, &options.default_namespace]
        .into_iter()
        .find(|namespace| !namespace.is_empty())
        .map_or("default", String::as_str)
}

/// The name of the release of a BundleDeployment that names none.
pub fn release_name(bundle_deployment: &str) -> String {
    let original = bundle_deployment.replace('/', "-");
    let is_kept = |c: char| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit();
    let hashed = if original.chars().all(is_kept) {
        original
    } else {
        // What is lost in the next step must not make two names equal.
        format!("{original}-{}", md5(&original, 8))
    };
    let lower = hashed.to_lowercase();
    let words: Vec<_> = lower.split(|c| c == '-' || !is_kept(c)).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let name = words.join("-");
    if name.is_empty() {
        return md5(bundle_deployment, 24);
    }
    truncated(name)
}

fn truncated(name: String) -> String {
    if name.len() <= limits::RELEASE_NAME {
        return name;
    }
    let kept = name
        .get(..limits::RELEASE_NAME - TRUNCATED_HASH - 1)
        .unwrap_or(&name);
    let dash = if kept.ends_with('-') { "" } else { "-" };
    format!("{kept}{dash}{}", md5(&name, TRUNCATED_HASH))
}

/// The first digits of a hash.
fn md5(text: &str, digits: usize) -> String {
    let mut hex = bounded_text::hex(&md5::compute(text).0);
    hex.truncate(digits);
    hex
}

/// The identity of the set of objects that belong to one BundleDeployment: an annotation of each of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetId(String);

impl SetId {
    /// The identity for a BundleDeployment. `scope` is the scope of the agent, empty for none: agents of different scopes own
    /// nothing of each other.
    pub fn new(bundle_deployment: &str, scope: &str) -> Self {
        // Not a namespace: a constant of Fleet.
        let parts = ["default", bundle_deployment, scope];
        let parts = if scope.is_empty() { &parts[..2] } else { &parts[..] };
        Self(safe_concat(parts))
    }

    /// The identity itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its hash, short enough for a label.
    pub fn hash(&self) -> String {
        bounded_text::hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, self.0.as_bytes()).as_ref())
    }
}

impl From<String> for SetId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

/// The name of a BundleDeployment.
pub fn name_of(deployment: &BundleDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use helmops_api::{Lifecycle, helm::HelmOptions};

    use super::*;

    const LONG: &str = "12345678901234567890123456789012345678901234567890123";

    #[test]
    fn release_names_are_those_of_fleet() {
        let dashed = format!("{}-1234567", &LONG[..46]);
        let derived = [
            ("web", "web"),
            (LONG, LONG),
            (
                &format!("{LONG}a"),
                "12345678901234567890123456789012345678901234567-fdba4",
            ),
            (&dashed, "1234567890123456789012345678901234567890123456-d0bce"),
            ("bundle.name.example.com", "bundle-name-example-com-645ef821"),
            (
                "long-name-test-shortpath-with@char",
                "long-name-test-shortpath-with-char-031bab5e",
            ),
            (
                "long-name-test-shortpath-with+char",
                "long-name-test-shortpath-with-char-21c88393",
            ),
            ("long-name-test-0.App_ ", "long-name-test-0-app-5bf6b3fb"),
            (
                "long-name-test--App_-_12.factor",
                "long-name-test-app-12-factor-0efbac37",
            ),
            ("team/web", "team-web"),
        ];
        for (name, release) in derived {
            assert_eq!(release_name(name), release, "{name}");
            assert!(release.len() <= limits::RELEASE_NAME);
        }
        assert_eq!(release_name("---").len(), 24, "nothing is left, so it is a hash");
    }

    #[test]
    fn a_release_is_in_the_first_namespace_that_is_given() {
        let of = |namespace: &str, default: &str| {
            let options = BundleDeploymentOptions {
                namespace: namespace.to_owned(),
                default_namespace: default.to_owned(),
                ..BundleDeploymentOptions::default()
            };
            ReleaseKey::of("web", &options).to_string()
        };
        assert_eq!(of("shop", "other"), "shop/web");
        assert_eq!(of("", "other"), "other/web");
        assert_eq!(of("", ""), "default/web");
    }

    #[test]
    fn records_are_in_the_namespace_of_the_release_or_elsewhere() {
        let of = |storage: &str| {
            let lifecycle = Lifecycle {
                storage_namespace: storage.to_owned(),
                ..Lifecycle::default()
            };
            let options = BundleDeploymentOptions {
                default_namespace: "shop".to_owned(),
                lifecycle: Some(Box::new(lifecycle)),
                ..BundleDeploymentOptions::default()
            };
            ReleaseKey::of("web", &options)
        };
        let (beside, elsewhere) = (of(""), of("flux"));
        assert_eq!(beside, ReleaseKey::new("shop", "web"));
        assert_eq!(of("shop"), beside);
        assert!(elsewhere.has_records_elsewhere() && !beside.has_records_elsewhere());
        assert_eq!(elsewhere.to_string(), "shop/web");
        assert_eq!(elsewhere.records().to_string(), "flux/web");
        assert_ne!(elsewhere, beside);
        // Objects do not show where the records are.
        let annotations = [(marks::RELEASE_NAMESPACE, "shop"), (marks::RELEASE_NAME, "web")];
        let annotations = annotations
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        for release in [&elsewhere, &beside] {
            assert!(release.has_made(&annotations) && release.has_objects_of(&elsewhere));
        }
        let other = ReleaseKey::new("flux", "web");
        assert!(!other.has_made(&annotations) && !other.has_objects_of(&elsewhere));
        assert_eq!(other.records(), elsewhere.records());
    }

    #[test]
    fn a_release_name_that_is_given_is_used() {
        let options = BundleDeploymentOptions {
            helm: Some(HelmOptions {
                release_name: "front.end".to_owned(),
                ..HelmOptions::default()
            }),
            ..BundleDeploymentOptions::default()
        };
        let key = ReleaseKey::of("web", &options);
        assert_eq!(key.to_string(), "default/front.end");
        assert_eq!(ReleaseKey::parse("default/front.end"), Some(key));
        for invalid in ["", "web", "/web", "a/", "a/b/c"] {
            assert_eq!(ReleaseKey::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn sets_are_those_of_fleet() {
        let set = SetId::new("zz1", "");
        assert_eq!(
            (set.as_str(), &*set.hash()),
            ("default-zz1", "8bf8216d78c215459e0a7a0c18ee4a5e9906c519")
        );
        let other = SetId::new("remove-metadata", "");
        assert_eq!(other.hash(), "0f3e1d9d146fa8b290c0de403881184751430e59");
        assert_eq!(
            SetId::new("web", "cattle-fleet-system").as_str(),
            "default-web-cattle-fleet-system"
        );
        let long = SetId::new(&"a".repeat(60), "");
        assert!(long.as_str().len() <= 63, "{long:?}");
    }
}
