//! What a Cluster remembers of its import, in an annotation.

use bounded_text::hex;
use helmops_api::{Cluster, labels};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The value of the annotation [`labels::IMPORTED`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportRecord {
    /// The UID of the namespace `kube-system` of the cluster; empty if none was imported.
    pub identity: String,
    /// A digest of everything that was applied, and of the access that it was applied with; empty if the import was not completed.
    pub digest: String,
    /// When the agent was given its last token, RFC 3339; empty if it has one from elsewhere.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token_written: String,
    /// `cluster join` installed the agent: its image and its flags stay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
    /// The image of an adopted agent without `spec.privateRepoURL`; empty for others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
}

impl ImportRecord {
    /// Reads the record of a Cluster. What cannot be read is no record.
    pub fn of(cluster: &Cluster) -> Self {
        let text = labels::annotation(&cluster.metadata, labels::IMPORTED);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// The value of the annotation.
    pub fn to_text(&self) -> String {
        // Made of texts and a boolean, so it has JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A digest of all that an import depends on. The credentials among it have too much chance in them to be found by trying.
pub fn digest_of(content: &impl Serialize) -> String {
    let text = serde_json::to_vec(content).unwrap_or_default();
    hex(digest(&SHA256, &text).as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_anything_else_is_none() {
        let record = ImportRecord {
            identity: "u".to_owned(),
            digest: digest_of(&["a"]),
            token_written: "2026-01-01T00:00:00Z".to_owned(),
            is_adopted: true,
            image: "own:9".to_owned(),
        };
        let with = |text: &str| -> Cluster {
            let object = json!({ "metadata": { "annotations": { labels::IMPORTED: text } } });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        assert_eq!(ImportRecord::of(&with(&record.to_text())), record);
        for text in ["", "{", "[]", "{\"identity\": 1}"] {
            assert_eq!(ImportRecord::of(&with(text)), ImportRecord::default(), "{text}");
        }
        assert_eq!(ImportRecord::of(&Cluster::default()), ImportRecord::default());
    }

    #[test]
    fn each_content_has_its_own_digest() {
        assert_eq!(digest_of(&["a"]).len(), 64);
        assert_ne!(digest_of(&["a"]), digest_of(&["b"]));
    }
}
