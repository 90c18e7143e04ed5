//! The records that exist, by release, as the watch of their metadata shows them.

use helmops_api::MetadataOnly;
use helmops_kube::{Change, Fold, Index};
use helmops_release::{
    marks,
    names::RecordsKey,
    record::{OnDelete, Status},
};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;

/// The metadata of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    pub key: RecordsKey,
    /// The name of its Secret.
    pub secret: String,
    pub revision: u64,
    /// The status, as its label shows it.
    pub status: Status,
    /// What happens with the release when its BundleDeployment is gone, as its label shows it.
    pub on_delete: Option<OnDelete>,
    /// The version of its Secret.
    pub resource_version: String,
}

impl StoredRecord {
    /// The record of a Secret; `None` if it is none.
    pub fn of(secret: &MetadataOnly<Secret>) -> Option<Self> {
        Self::of_metadata(&secret.metadata)
    }

    /// As [`StoredRecord::of`].
    pub fn of_metadata(metadata: &ObjectMeta) -> Option<Self> {
        let label = |key| metadata.labels.as_ref()?.get(key);
        Some(Self {
            key: RecordsKey {
                namespace: metadata.namespace.clone()?,
                name: label("name")?.clone(),
            },
            secret: metadata.name.clone()?,
            revision: label("version")?.parse().ok()?,
            status: Status::parse(label("status")?),
            on_delete: label(marks::ON_DELETE).map(|text| OnDelete::parse(text)),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
        })
    }
}

/// The Secrets of each release.
#[derive(Debug, Default)]
pub struct ByRelease(Index<RecordsKey>);

impl ByRelease {
    /// The names of the Secrets of a release.
    pub const fn index(&self) -> &Index<RecordsKey> {
        &self.0
    }
}

impl Fold<StoredRecord> for ByRelease {
    fn apply(&mut self, change: &Change<StoredRecord>) {
        let key = |record: &Option<StoredRecord>| Some(record.as_ref()?.key.clone());
        self.0
            .change(&change.name, key(&change.before), key(&change.after));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_labels_of_a_secret_name_its_release() {
        let secret = json!({
            "metadata": {
                "namespace": "shop", "name": "sh.helm.release.v1.web.v3", "resourceVersion": "7",
                "labels": { "name": "web", "owner": "helm", "status": "deployed", "version": "3",
                    "helmops.fleet.cattle.io/on-delete": "Keep" },
            }
        });
        let secret: MetadataOnly<Secret> = serde_json::from_value(secret).unwrap();
        let expected = StoredRecord {
            key: RecordsKey {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
            },
            secret: "sh.helm.release.v1.web.v3".to_owned(),
            revision: 3,
            status: Status::Deployed,
            on_delete: Some(OnDelete::parse("Keep")),
            resource_version: "7".to_owned(),
        };
        assert_eq!(StoredRecord::of(&secret), Some(expected));
        let other = serde_json::from_value(json!({ "metadata": { "name": "a", "labels": {} } })).unwrap();
        assert_eq!(StoredRecord::of(&other), None);
    }
}
