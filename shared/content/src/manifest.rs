//! All files of content, and the JSON that identifies them.

use std::{
    io::{self, Write},
    iter,
};

use flate2::{Compression, write::GzEncoder};
use go_formats::json;
use helmops_api::json::structure;
use serde::{Deserialize, Deserializer};

use crate::{
    ContentError, ContentId, Encoded, Limits, Resource,
    digest::{Sha256, sha256},
    resource::{check_path, shown},
};

/// All files of content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    /// The files.
    #[serde(default, deserialize_with = "list_or_null")]
    pub resources: Vec<Resource>,
}

impl Manifest {
    /// Of files by their paths, sorted by these.
    ///
    /// # Errors
    /// For too many files, a file that is too large, or a path that no file needs.
    pub fn of_files(files: Vec<(String, Vec<u8>)>, limits: Limits) -> Result<Self, ContentError> {
        if files.len() > limits.files {
            return Err(ContentError::TooManyFiles { limit: limits.files });
        }
        let mut resources = Vec::with_capacity(files.len());
        for (name, content) in files {
            if content.len() as u64 > limits.file {
                let limit = limits.file;
                let name = shown(&name);
                return Err(ContentError::FileTooLarge { name, limit });
            }
            resources.push(Resource::of_file(name, content)?);
        }
        resources.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { resources })
    }

    /// The ID that Fleet gives these files, in this order.
    pub fn id(&self) -> ContentId {
        let mut digest = Sha256::new();
        let hashed = self.write_json(|text| {
            digest.add(text.as_bytes());
            Ok(())
        });
        debug_assert!(hashed.is_ok(), "only a writer fails");
        ContentId::of_sha256(&digest.hex())
    }

    /// The manifest as it is stored. The same files give the same bytes, with the same version of the compression.
    ///
    /// # Errors
    /// For more bytes than the limits.
    pub fn encode(&self, limits: Limits) -> Result<Encoded, ContentError> {
        let mut writer = Writer {
            gzip: GzEncoder::new(Vec::new(), Compression::default()),
            digest: Sha256::new(),
            bytes: 0,
            limits,
        };
        self.write_json(|text| writer.add(text.as_bytes()))?;
        writer.finish()
    }

    /// Writes the JSON as Fleet does, in short texts: escaped, a character can take six bytes.
    ///
    /// Source: `encodeManifest` in Fleet's `internal/manifest/manifest.go`: Go's encoder, which escapes HTML and ends with a line feed.
    fn write_json(&self, mut add: impl FnMut(&str) -> Result<(), ContentError>) -> Result<(), ContentError> {
        if self.resources.is_empty() {
            return add("{}\n");
        }
        add("{\"resources\":[")?;
        for (index, resource) in self.resources.iter().enumerate() {
            add(if index > 0 { ",{" } else { "{" })?;
            let fields = [
                ("name", &resource.name),
                ("content", &resource.content),
                ("encoding", &resource.encoding),
            ];
            let present = fields.into_iter().filter(|(_, value)| !value.is_empty());
            for (index, (field, value)) in present.enumerate() {
                add(if index > 0 { ",\"" } else { "\"" })?;
                add(field)?;
                add("\":\"")?;
                for chunk in chunks(value) {
                    let mut text = String::new();
                    json::string(&mut text, chunk, true);
                    // Without its quotes.
                    add(text.get(1..text.len() - 1).unwrap_or_default())?;
                }
                add("\"")?;
            }
            add("}")?;
        }
        add("]}\n")
    }

    /// Reads JSON whose SHA-256 sum was verified.
    ///
    /// # Errors
    /// If it is no manifest, or has too many files, or a file with a path that none needs.
    pub(crate) fn of_json(json: &[u8], id: &ContentId, limits: Limits) -> Result<Self, ContentError> {
        // Each file is an object. Before anything is decoded: an object without fields has two bytes of JSON, and takes more memory.
        let nested = structure(json).filter(|(_, byte)| matches!(byte, b'{' | b'['));
        if nested.count() > limits.files.saturating_add(2) {
            return Err(ContentError::TooManyFiles { limit: limits.files });
        }
        let manifest: Self = serde_json::from_slice(json).map_err(|error| ContentError::Json {
            id: id.to_string(),
            cause: error.to_string(),
        })?;
        manifest
            .resources
            .iter()
            .try_for_each(|resource| check_path(&resource.name))?;
        Ok(manifest)
    }

    /// Reads JSON that is stored elsewhere than in a Content object, such as in a registry.
    ///
    /// # Errors
    /// If it is not that of the ID, or as for Content objects.
    pub fn read(json: &[u8], id: &ContentId, limits: Limits) -> Result<Self, ContentError> {
        if json.len() as u64 > limits.json {
            return Err(ContentError::TooLarge { limit: limits.json });
        }
        verify(&sha256(json), id)?;
        Self::of_json(json, id, limits)
    }
}

/// The bytes of a text that are escaped at a time, so that what they become takes little memory.
const CHUNK: usize = 64 << 10;

/// A text in chunks.
fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let (chunk, left) = rest.split_at(rest.floor_char_boundary(CHUNK));
        rest = left;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Verifies a SHA-256 sum against an ID.
pub fn verify(found: &str, id: &ContentId) -> Result<(), ContentError> {
    if found.starts_with(id.digits()) {
        return Ok(());
    }
    Err(ContentError::Mismatch {
        id: id.to_string(),
        expected: id.digits().to_owned(),
        found: found.to_owned(),
    })
}

/// Compresses JSON and computes its digest.
struct Writer {
    gzip: GzEncoder<Vec<u8>>,
    digest: Sha256,
    bytes: u64,
    limits: Limits,
}

impl Writer {
    fn add(&mut self, json: &[u8]) -> Result<(), ContentError> {
        self.bytes += json.len() as u64;
        if self.bytes > self.limits.json {
            let limit = self.limits.json;
            return Err(ContentError::TooLarge { limit });
        }
        self.digest.add(json);
        self.gzip.write_all(json).map_err(|error| unwritten(&error))?;
        self.check_compressed(self.gzip.get_ref().len())
    }

    fn check_compressed(&self, bytes: usize) -> Result<(), ContentError> {
        let limit = self.limits.compressed;
        if bytes as u64 > limit {
            return Err(ContentError::CompressedTooLarge { limit });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Encoded, ContentError> {
        self.gzip.try_finish().map_err(|error| unwritten(&error))?;
        let compressed = std::mem::take(self.gzip.get_mut());
        self.check_compressed(compressed.len())?;
        Ok(Encoded::new(self.digest.hex(), compressed, self.bytes))
    }
}

/// Compression into memory fails only if the library is broken.
fn unwritten(error: &io::Error) -> ContentError {
    ContentError::Damaged {
        id: "that is being written".to_owned(),
        cause: error.to_string(),
    }
}

/// Go decodes `null` as an empty list.
fn list_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Resource>, D::Error> {
    Ok(Option::<Vec<Resource>>::deserialize(deserializer)?.unwrap_or_default())
}
