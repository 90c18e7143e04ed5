//! Content as it is stored: one object, or several and one that lists them.

use std::{collections::BTreeMap, io::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use helmops_api::{Content, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::{ContentId, digest::sha256};

/// The compressed bytes that one object has at most. In base64 they are a third longer, and etcd accepts requests of 1.5 MiB.
pub const BYTES_IN_OBJECT: usize = 1 << 20;

/// Content as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    id: ContentId,
    sha256: String,
    compressed: Vec<u8>,
    json: u64,
}

/// What the head of split content has instead of files, as JSON that is compressed as well. Fleet's agent decodes it as a manifest without
/// files, and refuses it because of the digest in `sha256sum`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PartList {
    /// The SHA-256 sums of the parts, in their order. A name follows from each: [`ContentId::part`].
    pub parts: Vec<String>,
}

impl Encoded {
    pub(crate) fn new(sha256: String, compressed: Vec<u8>, json: u64) -> Self {
        Self {
            id: ContentId::of_sha256(&sha256),
            sha256,
            compressed,
            json,
        }
    }

    /// Its ID.
    pub const fn id(&self) -> &ContentId {
        &self.id
    }

    /// The bytes that are stored, without the list of parts, and without what base64 adds.
    pub const fn bytes(&self) -> usize {
        self.compressed.len()
    }

    /// The bytes of the files as JSON, which are not in memory.
    pub const fn json_bytes(&self) -> u64 {
        self.json
    }

    /// The parts of content that is larger than an object, in their order: to be written before the [head](Self::head). None if it is not.
    /// Each is made when it is needed: nothing has all of them in memory.
    pub fn parts(&self) -> impl Iterator<Item = Content> {
        self.chunks().map(|chunk| {
            let digest = sha256(chunk);
            object(self.id.part(&digest), labels::CONTENT_PART, digest, chunk)
        })
    }

    /// The object with the name of the ID: all of it in Fleet's format, or the list of its parts. It is written last, so that content is
    /// complete if its head exists.
    pub fn head(&self) -> Content {
        let name = self.id.to_string();
        let parts: Vec<String> = self.chunks().map(sha256).collect();
        let names: Vec<String> = parts.iter().map(|digest| self.id.part(digest)).collect();
        let list;
        let content = if parts.is_empty() {
            &self.compressed
        } else {
            list = PartList { parts }.compressed();
            &list
        };
        let mut head = object(name, labels::CONTENT_HEAD, self.sha256.clone(), content);
        if !names.is_empty() {
            let annotations = head.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::CONTENT_PARTS.to_owned(), names.join(","));
        }
        head
    }

    fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let is_split = self.compressed.len() > BYTES_IN_OBJECT;
        self.compressed
            .chunks(BYTES_IN_OBJECT)
            .take(if is_split { usize::MAX } else { 0 })
    }
}

fn object(name: String, role: &str, sha256sum: String, content: &[u8]) -> Content {
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(BTreeMap::from([(labels::CONTENT.to_owned(), role.to_owned())])),
        annotations: Some(BTreeMap::from([(
            labels::CONTENT_BYTES.to_owned(),
            content.len().to_string(),
        )])),
        ..ObjectMeta::default()
    };
    Content {
        metadata: metadata.into(),
        content: STANDARD.encode(content),
        sha256sum,
        ..Content::default()
    }
}

impl PartList {
    fn compressed(&self) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        // Neither fails: it is a list of texts, written into memory.
        _ = gzip.write_all(&serde_json::to_vec(self).unwrap_or_default());
        gzip.finish().unwrap_or_default()
    }
}
