//! The entries of the ConfigMap, without I/O: one for each BundleDeployment, whose name is the key.

use std::collections::BTreeMap;

use helmops_api::{BundleDeployment, labels};
use helmops_release::{
    names::{RecordsKey, ReleaseKey, name_of},
    removal_order::RemovalOrder,
};
use serde::{Deserialize, Serialize};

/// Bytes of all entries: a ConfigMap has at most 1 MiB. An entry takes about 150, so that is enough for thousands of releases.
pub const MAX_BYTES: usize = 900 << 10;

/// Bytes of all entries up to which they have dependencies: the order of removals must not take the room of releases.
const MAX_BYTES_WITH_DEPENDENCIES: usize = MAX_BYTES / 2;

/// How many dependencies of a release are remembered.
const MAX_DEPENDENCIES: usize = 64;

/// Changes by BundleDeployment and release: what to remember; `None` to forget the release.
pub type Changes = BTreeMap<(String, ReleaseKey), Option<OwnedRelease>>;

/// A release, and what decides about its end. Neither a chart nor a tenant can write that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRelease {
    pub release: ReleaseKey,
    /// The ServiceAccount in the namespace of the agent that deploys it; empty for the agent itself.
    pub service_account: String,
    /// The namespace of the Bundle, whose share of Helm's processes the release uses; empty if it is not known.
    pub bundle_namespace: String,
    /// Whether the namespace of the release is deleted with it (`deleteNamespace`).
    pub deletes_namespace: bool,
    /// The BundleDeployments that this one depends on, sorted: they are removed after it.
    pub depends_on: Vec<String>,
}

/// The releases of each BundleDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(BTreeMap<String, Vec<OwnedRelease>>);

/// The entries that change; `None` for one that is removed.
pub type EntryPatch = BTreeMap<String, Option<String>>;

/// A release in an entry.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    release: String,
    /// The namespace of its records, if that is another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    storage_namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    service_account: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    bundle_namespace: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deletes_namespace: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
}

/// A part of each entry with dependencies.
const DEPENDS_ON: &str = "\"dependsOn\"";

impl OwnedRelease {
    /// The release of a BundleDeployment. Only the BundleDeployment itself says what that is: records do not name it reliably.
    pub fn of(deployment: &BundleDeployment) -> Self {
        let options = &deployment.spec.options;
        let name = name_of(deployment);
        let bundle_namespace = labels::of(&deployment.metadata, labels::BUNDLE_NAMESPACE);
        Self {
            release: ReleaseKey::of(name, options),
            service_account: options.service_account.clone(),
            bundle_namespace: bundle_namespace.unwrap_or_default().to_owned(),
            deletes_namespace: options.delete_namespace,
            depends_on: Vec::new(),
        }
    }

    /// The same, of a BundleDeployment that depends on others.
    #[must_use]
    pub fn depending_on(self, names: impl IntoIterator<Item = String>) -> Self {
        let depends_on = names.into_iter().take(MAX_DEPENDENCIES).collect();
        Self { depends_on, ..self }
    }

    fn without_dependencies(&self) -> Self {
        self.clone().depending_on([])
    }
}

/// In which order the BundleDeployments of these entries are removed.
pub fn removal_order<'d>(data: impl IntoIterator<Item = (&'d String, &'d String)>) -> RemovalOrder {
    // Most entries have none, and need not be decoded.
    let with_any = data.into_iter().filter(|(_, text)| text.contains(DEPENDS_ON));
    let edges = with_any.flat_map(|(name, text)| {
        let all = read(text).into_iter().flat_map(|owned| owned.depends_on);
        all.map(|dependency| (name.clone(), dependency))
    });
    RemovalOrder::of(edges)
}

impl Entries {
    /// From the data of the ConfigMap.
    pub fn of<'d>(data: impl IntoIterator<Item = (&'d String, &'d String)>) -> Self {
        let entries = data.into_iter().map(|(name, text)| (name.clone(), read(text)));
        Self(entries.collect())
    }

    /// The BundleDeployments.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The releases of a BundleDeployment.
    pub fn of_deployment(&self, deployment: &str) -> &[OwnedRelease] {
        self.0.get(deployment).map_or(&[], Vec::as_slice)
    }

    /// Whether what decides about the removal of a release is known, as far as that cannot be left out: `owned` may be newer otherwise.
    pub fn has(&self, deployment: &str, owned: &OwnedRelease) -> bool {
        let known = self.get(deployment, &owned.release);
        known.is_some_and(|known| known.service_account == owned.service_account)
    }

    /// Whether the namespace of a release has objects of others. Their records may be elsewhere.
    pub fn has_other_in(&self, deployment: &str, release: &ReleaseKey) -> bool {
        let others = self.0.iter().filter(|(name, _)| *name != deployment);
        others
            .flat_map(|(_, all)| all)
            .any(|other| other.release.namespace == release.namespace)
    }

    /// The release of a BundleDeployment that has these records.
    pub fn with_records(&self, deployment: &str, records: &RecordsKey) -> Option<&OwnedRelease> {
        let mut all = self.of_deployment(deployment).iter();
        all.find(|owned| owned.release.records() == *records)
    }

    /// A release of a BundleDeployment.
    pub fn get(&self, deployment: &str, release: &ReleaseKey) -> Option<&OwnedRelease> {
        let mut all = self.of_deployment(deployment).iter();
        all.find(|owned| owned.release == *release)
    }
}

/// What makes these changes. What would make an entry too large is left out.
pub fn patch_of(data: &BTreeMap<String, String>, changes: &Changes) -> EntryPatch {
    let mut bytes: usize = data.iter().map(|(key, value)| size(key, Some(value))).sum();
    let mut all: BTreeMap<&String, Option<String>> = BTreeMap::new();
    // First what makes room.
    let (forgotten, remembered): (Vec<_>, Vec<_>) = changes.iter().partition(|(_, to)| to.is_none());
    for ((name, release), to) in forgotten.into_iter().chain(remembered) {
        let before = all.get(name).cloned().unwrap_or_else(|| data.get(name).cloned());
        let others = bytes.saturating_sub(size(name, before.as_ref()));
        let of = |to: Option<&OwnedRelease>| {
            let after = changed(before.as_deref(), release, to);
            let total = others.saturating_add(size(name, after.as_ref()));
            (after, total)
        };
        let (mut after, mut total) = of(to.as_ref());
        if total > MAX_BYTES_WITH_DEPENDENCIES && total > bytes {
            let without = to.as_ref().map(OwnedRelease::without_dependencies);
            (after, total) = of(without.as_ref());
        }
        if total <= MAX_BYTES || total <= bytes {
            bytes = total;
            all.insert(name, after);
        }
    }
    let patch = all
        .into_iter()
        .filter(|(name, after)| data.get(*name) != after.as_ref());
    patch.map(|(name, after)| (name.clone(), after)).collect()
}

/// An entry with a change; `None` if it has no release any more.
fn changed(entry: Option<&str>, release: &ReleaseKey, to: Option<&OwnedRelease>) -> Option<String> {
    let mut all = entry.map(read).unwrap_or_default();
    let known = all.iter_mut().find(|owned| owned.release == *release);
    match (known, to) {
        (Some(known), Some(owned)) => known.clone_from(owned),
        (None, Some(owned)) => all.push(owned.clone()),
        (_, None) => all.retain(|owned| owned.release != *release),
    }
    let stored: Vec<_> = all.into_iter().map(Stored::from).collect();
    // Texts are always JSON.
    (!stored.is_empty()).then(|| serde_json::to_string(&stored).unwrap_or_default())
}

/// The releases of an entry. What cannot be read is no proof of a release.
pub(super) fn read(text: &str) -> Vec<OwnedRelease> {
    let stored: Vec<Stored> = serde_json::from_str(text).unwrap_or_default();
    stored.into_iter().filter_map(Stored::owned).collect()
}

fn size(key: &str, value: Option<&String>) -> usize {
    value.map_or(0, |value| key.len().saturating_add(value.len()))
}

impl Stored {
    fn owned(self) -> Option<OwnedRelease> {
        let beside = ReleaseKey::parse(&self.release)?;
        let release = if self.storage_namespace.is_empty() {
            beside
        } else {
            beside.stored_in(&self.storage_namespace)
        };
        Some(OwnedRelease {
            release,
            service_account: self.service_account,
            bundle_namespace: self.bundle_namespace,
            deletes_namespace: self.deletes_namespace,
            depends_on: self.depends_on,
        })
    }
}

impl From<OwnedRelease> for Stored {
    fn from(owned: OwnedRelease) -> Self {
        let release = owned.release;
        let is_elsewhere = release.has_records_elsewhere();
        Self {
            release: release.to_string(),
            storage_namespace: if is_elsewhere {
                release.storage
            } else {
                String::new()
            },
            service_account: owned.service_account,
            bundle_namespace: owned.bundle_namespace,
            deletes_namespace: owned.deletes_namespace,
            depends_on: owned.depends_on,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(name: &str) -> ReleaseKey {
        ReleaseKey::new("shop", name)
    }

    fn changes(all: &[(&str, &str, Option<&str>)]) -> Changes {
        let change = |(name, of, account): &(&str, &str, Option<&str>)| {
            let owned = account.map(|account| OwnedRelease {
                release: release(of),
                service_account: account.to_owned(),
                bundle_namespace: String::new(),
                deletes_namespace: false,
                depends_on: Vec::new(),
            });
            (((*name).to_owned(), release(of)), owned)
        };
        all.iter().map(change).collect()
    }

    fn data(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = all.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn patch(before: &[(&str, &str)], all: &[(&str, &str, Option<&str>)]) -> Vec<(String, Option<String>)> {
        patch_of(&data(before), &changes(all)).into_iter().collect()
    }

    #[test]
    fn releases_are_added_changed_and_removed() {
        let plain = r#"[{"release":"shop/web"}]"#;
        let account = r#"[{"release":"shop/web","serviceAccount":"deployer"}]"#;
        let both = r#"[{"release":"shop/web"},{"release":"shop/new"}]"#;
        let new = r#"[{"release":"shop/new"}]"#;
        let to = |text: &str| vec![("a".to_owned(), Some(text.to_owned()))];
        assert_eq!(patch(&[], &[("a", "web", Some(""))]), to(plain));
        assert_eq!(
            patch(&[("a", plain)], &[("a", "web", Some("deployer"))]),
            to(account)
        );
        assert_eq!(patch(&[("a", plain)], &[("a", "new", Some(""))]), to(both));
        assert_eq!(patch(&[("a", both)], &[("a", "web", None)]), to(new));
        let renamed = [("a", "web", None), ("a", "new", Some(""))];
        assert_eq!(patch(&[("a", plain)], &renamed), to(new));
        assert_eq!(
            patch(&[("a", plain)], &[("a", "web", None)]),
            [("a".to_owned(), None)]
        );
        // Nothing is written for what is known.
        assert_eq!(patch(&[("a", plain)], &[("a", "web", Some(""))]), []);
        assert_eq!(patch(&[("a", plain)], &[("b", "web", None)]), []);
        // A person has damaged it.
        assert_eq!(patch(&[("a", "no JSON")], &[("a", "web", Some(""))]), to(plain));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let all = [
            ("a", "web", Some("deployer")),
            ("a", "new", Some("")),
            ("b", "web", Some("")),
        ];
        let patch = patch_of(&BTreeMap::new(), &changes(&all));
        let written = patch.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let written: BTreeMap<_, _> = written.collect();
        let entries = Entries::of(&written);
        assert_eq!(entries.names().collect::<Vec<_>>(), ["a", "b"]);
        let account = |name: &str, of: &str| {
            let found = entries.get(name, &release(of));
            found.map(|owned| owned.service_account.as_str())
        };
        assert_eq!(account("a", "web"), Some("deployer"));
        assert_eq!(account("a", "new"), Some(""));
        assert_eq!(account("b", "web"), Some(""));
        // Neither a release of another BundleDeployment, nor one in another namespace.
        assert_eq!(account("b", "new"), None);
        assert_eq!(account("c", "web"), None);
        assert!(
            entries.has_other_in("a", &release("any"))
                && !entries.has_other_in("a", &ReleaseKey::new("other", "web"))
        );
        assert_eq!(entries.get("a", &ReleaseKey::new("other", "web")), None);
        assert_eq!(entries.get("a", &release("web").stored_in("flux")), None);
    }

    #[test]
    fn the_namespace_of_records_is_written_if_it_is_another_one() {
        let elsewhere = OwnedRelease {
            release: release("web").stored_in("flux"),
            service_account: String::new(),
            bundle_namespace: String::new(),
            deletes_namespace: false,
            depends_on: Vec::new(),
        };
        let text = r#"[{"release":"shop/web","storageNamespace":"flux"}]"#;
        let key = ("a".to_owned(), elsewhere.release.clone());
        let changes = Changes::from([(key, Some(elsewhere.clone()))]);
        let expected = [("a".to_owned(), Some(text.to_owned()))];
        assert_eq!(patch_of(&data(&[]), &changes), expected.into());
        assert_eq!(read(text), [elsewhere]);
    }

    #[test]
    fn the_decision_about_the_namespace_is_that_of_the_last_deployment() {
        let remembered = |before: &str, deletes_namespace| {
            let owned = OwnedRelease {
                release: release("web"),
                service_account: String::new(),
                bundle_namespace: String::new(),
                deletes_namespace,
                depends_on: Vec::new(),
            };
            let changes = Changes::from([(("a".to_owned(), release("web")), Some(owned))]);
            let mut patch = patch_of(&data(&[("a", before)]), &changes);
            patch.remove("a").flatten().unwrap_or_else(|| before.to_owned())
        };
        let (keeps, deletes) = (
            r#"[{"release":"shop/web"}]"#,
            r#"[{"release":"shop/web","deletesNamespace":true}]"#,
        );
        assert_eq!(remembered(keeps, true), deletes);
        assert_eq!(remembered(deletes, false), keeps);
        assert!(read(deletes)[0].deletes_namespace && !read(keeps)[0].deletes_namespace);
    }

    #[test]
    fn the_order_of_removals_is_known_as_long_as_releases_have_room() {
        let owned = |name: &str, depends_on: &[&str], account: &str| {
            let owned = OwnedRelease {
                release: release(name),
                service_account: account.to_owned(),
                bundle_namespace: String::new(),
                deletes_namespace: false,
                depends_on: Vec::new(),
            };
            owned.depending_on(depends_on.iter().map(|name| (*name).to_owned()))
        };
        let written = |before: &BTreeMap<String, String>, name: &str, owned: OwnedRelease| {
            let changes = Changes::from([((name.to_owned(), owned.release.clone()), Some(owned))]);
            let mut all = before.clone();
            let patch = patch_of(before, &changes).into_iter();
            all.extend(patch.filter_map(|(key, value)| Some((key, value?))));
            all
        };
        let all = written(&BTreeMap::new(), "web", owned("web", &["cache", "db"], ""));
        assert_eq!(
            all["web"],
            r#"[{"release":"shop/web","dependsOn":["cache","db"]}]"#
        );
        assert_eq!(read(&all["web"]), [owned("web", &["cache", "db"], "")]);
        assert_eq!(removal_order(&all).dependents("db"), ["web"]);
        let plain = written(&all, "web", owned("web", &[], ""));
        assert_eq!(plain["web"], r#"[{"release":"shop/web"}]"#);
        assert_eq!(removal_order(&plain).dependents("db"), [""; 0]);
        // Others have taken more than half of it.
        let half = written(&plain, "full", owned("full", &[], &"x".repeat(MAX_BYTES / 2)));
        assert_eq!(written(&half, "web", owned("web", &["db"], "")), half);
        assert_eq!(
            written(&half, "new", owned("new", &["db"], ""))["new"],
            r#"[{"release":"shop/new"}]"#
        );
        let many: Vec<_> = (0..2 * MAX_DEPENDENCIES)
            .map(|number| number.to_string())
            .collect();
        let many = owned("web", &[], "").depending_on(many);
        assert_eq!(many.depends_on.len(), MAX_DEPENDENCIES);
    }

    #[test]
    fn a_full_config_map_takes_nothing_more_until_something_is_forgotten() {
        let large = "x".repeat(MAX_BYTES - 20);
        let account = format!(r#"[{{"release":"shop/large","serviceAccount":"{large}"}}]"#);
        let full = [("full", &*account)];
        let all = |changed: &[(&str, &str, Option<&str>)]| {
            let mut all = data(&full);
            for (key, value) in patch_of(&all.clone(), &changes(changed)) {
                match value {
                    Some(value) => all.insert(key, value),
                    None => all.remove(&key),
                };
            }
            Entries::of(&all)
        };
        let owned = |name: &str, account: &str| OwnedRelease {
            release: release(name),
            service_account: account.to_owned(),
            bundle_namespace: String::new(),
            deletes_namespace: false,
            depends_on: Vec::new(),
        };
        assert!(!all(&[("a", "web", Some(""))]).has("a", &owned("web", "")));
        let room = all(&[("a", "web", Some("")), ("full", "large", None)]);
        assert!(room.has("a", &owned("web", "")));
        // What is known already may be deployed again, but not as another account.
        let newer = OwnedRelease {
            bundle_namespace: "team".repeat(20),
            deletes_namespace: true,
            ..owned("large", &large)
        };
        let grown = Changes::from([(("full".to_owned(), release("large")), Some(newer.clone()))]);
        assert_eq!(patch_of(&data(&full), &grown), BTreeMap::new());
        let known = all(&[]);
        assert!(known.has("full", &newer) && !known.has("full", &owned("large", "other")));
    }
}
