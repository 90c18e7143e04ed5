//! A copy as its metadata show it. The content of a Secret is not needed to see whether it is up to date.

use std::collections::BTreeSet;

use helmops_api::{NamespacedName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

use super::{Copy, purpose::CopyPurpose, source::CopyKind};

/// A reference to a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyRef {
    /// Its kind.
    pub kind: CopyKind,
    /// Its namespace and name.
    pub name: NamespacedName,
}

impl CopyRef {
    /// A reference to an object of a kind.
    pub fn of(kind: CopyKind, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            name: NamespacedName::of(metadata),
        }
    }
}

/// Name and UID of an owner.
type Owner = (String, String);

/// The observed state of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCopy {
    /// Why it exists.
    pub purpose: CopyPurpose,
    /// Its source, from its annotation; `None` if another controller created it.
    pub copied_from: Option<String>,
    /// The number of its unmodified keys; `None` if another client has written any.
    pub intact: Option<usize>,
    /// Names and UIDs of the BundleDeployments that own it.
    pub owners: BTreeSet<Owner>,
    /// The source whose data it has, if it was left unchanged for that reason: it was copied from another source with the same
    /// data, or created by another controller.
    pub same_data_as: Option<String>,
}

impl ObservedCopy {
    /// Reads the metadata; `None` if the object is not a copy. `manager` is the field manager of this controller.
    pub fn of(metadata: &ObjectMeta, manager: &str) -> Option<Self> {
        Some(Self {
            purpose: CopyPurpose::of(metadata)?,
            copied_from: copied_from(metadata),
            intact: intact(metadata.managed_fields.as_deref().unwrap_or_default(), manager),
            owners: owners(metadata),
            same_data_as: None,
        })
    }

    /// A copy as this controller has just written it, with this number of keys: those of the copy, and none of another client. The response
    /// to a write has no `managedFields`.
    pub fn written(metadata: &ObjectMeta, keys: usize) -> Option<Self> {
        Some(Self {
            purpose: CopyPurpose::of(metadata)?,
            copied_from: copied_from(metadata),
            intact: Some(keys),
            owners: owners(metadata),
            same_data_as: None,
        })
    }

    /// An object that has the desired data and was left unchanged.
    pub fn unchanged(copy: &Copy, metadata: &ObjectMeta) -> Option<Self> {
        Some(Self {
            purpose: CopyPurpose::of(copy.object.metadata())?,
            copied_from: copied_from(metadata),
            intact: None,
            owners: owners(metadata),
            same_data_as: Some(copy.copied_from.clone()),
        })
    }

    /// Whether it is up to date: copied from this source, with this number of keys, and unmodified.
    pub fn is_current(&self, copied_from: &str, keys: usize) -> bool {
        self.copied_from.as_deref() == Some(copied_from) && self.intact == Some(keys)
    }

    /// Whether it was left unchanged because it has the data of this source.
    pub fn has_data_of(&self, copied_from: &str) -> bool {
        self.same_data_as.as_deref() == Some(copied_from)
    }

    /// Whether a BundleDeployment with this UID owns it.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        self.owners.iter().any(|(_, owner)| owner == uid)
    }

    /// Whether it is for a single Bundle, and no BundleDeployment owns it.
    pub fn is_unowned_of(&self, bundle_namespace: &str, bundle: &str) -> bool {
        self.owners.is_empty()
            && self.purpose.bundle.as_deref() == Some(bundle)
            && self.purpose.bundle_namespace == bundle_namespace
    }

    /// The names of the Bundles that it is for: BundleDeployments have the names of their Bundles. Their namespace is that of
    /// its purpose.
    pub fn bundles(&self) -> BTreeSet<&str> {
        let owners = self.owners.iter().map(|(name, _)| name.as_str());
        owners.chain(self.purpose.bundle.as_deref()).collect()
    }
}

/// The source of a copy, from its annotation.
pub fn copied_from(metadata: &ObjectMeta) -> Option<String> {
    metadata.annotations.as_ref()?.get(labels::COPIED_FROM).cloned()
}

/// Names and UIDs of the owners of an object.
fn owners(metadata: &ObjectMeta) -> BTreeSet<Owner> {
    let owners = metadata.owner_references.iter().flatten();
    owners
        .map(|owner| (owner.name.clone(), owner.uid.clone()))
        .collect()
}

/// The number of keys that `manager` wrote last; `None` if another client has added or changed any.
fn intact(fields: &[ManagedFieldsEntry], manager: &str) -> Option<usize> {
    let is_own = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(manager);
    let own: BTreeSet<_> = fields.iter().filter(is_own).flat_map(keys).collect();
    let mut others = fields.iter().filter(|entry| !is_own(entry)).flat_map(keys);
    others.all(|key| own.contains(&key)).then_some(own.len())
}

/// The keys of a managed fields entry.
fn keys(entry: &ManagedFieldsEntry) -> impl Iterator<Item = (&'static str, &str)> {
    ["f:data", "f:binaryData", "f:stringData"]
        .into_iter()
        .flat_map(|part| {
            let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.get(part));
            let keys = fields.and_then(|fields| fields.as_object()).into_iter().flatten();
            keys.map(|(key, _)| key.as_str())
                .filter(|key| key.starts_with("f:"))
                .map(move |key| (part, key))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MANAGER: &str = "helmops-controller";

    fn managed_fields(manager: &str, operation: &str, keys: &[&str]) -> Value {
        let keys: serde_json::Map<_, _> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({ "manager": manager, "operation": operation, "fieldsV1": { "f:data": keys, "f:type": {} } })
    }

    fn observed(copied_from: &str, fields: &[Value]) -> ObservedCopy {
        let metadata = json!({
            "name": "access-1", "namespace": "cluster-c1",
            "labels": {
                labels::COPY_TYPE: "access", labels::BUNDLE_NAMESPACE: "fleet", labels::BUNDLE_NAME: "web"
            },
            "annotations": { labels::COPIED_FROM: copied_from },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "BundleDeployment", "name": "web", "uid": "u" }],
            "managedFields": fields,
        });
        ObservedCopy::of(&serde_json::from_value(metadata).unwrap(), MANAGER).unwrap()
    }

    #[test]
    fn a_key_written_by_another_client_is_detected() {
        let own = managed_fields(MANAGER, "Apply", &["username", "password"]);
        let is_intact = |fields: &[Value]| observed("a@1", fields).is_current("a@1", 2);
        assert!(is_intact(std::slice::from_ref(&own)));
        let before = managed_fields("fleetcontroller", "Update", &["password"]);
        assert!(is_intact(&[own.clone(), before]), "the same value");
        let more = managed_fields("kubectl-edit", "Update", &["other"]);
        assert!(!is_intact(&[own, more]));
        let changed = [
            managed_fields(MANAGER, "Apply", &["username"]),
            managed_fields("kubectl-edit", "Update", &["password"]),
        ];
        assert!(!is_intact(&changed));
        assert!(
            !is_intact(&[managed_fields(MANAGER, "Apply", &["username"])]),
            "one key is missing"
        );
        assert!(!observed("a@2", &[]).is_current("a@1", 0));
    }

    #[test]
    fn a_copy_without_an_owner_still_names_its_bundle() {
        let mut copy = observed("a@1", &[]);
        assert_eq!(copy.bundles(), ["web"].into());
        assert!(copy.is_owned_by("u") && !copy.is_unowned_of("fleet", "web"));
        copy.owners.clear();
        assert_eq!(copy.bundles(), ["web"].into());
        assert!(copy.is_unowned_of("fleet", "web"));
        assert!(!copy.is_unowned_of("other", "web") && !copy.is_unowned_of("fleet", "db"));
    }
}
