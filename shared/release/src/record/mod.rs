//! Helm's record of a revision of a release, which it keeps in a Secret of the release's namespace.
//!
//! `Secret.data.release` is Base64 of a gzip stream with JSON, besides the Base64 of the Secret itself. A [`Record`] has the
//! fields that the agent reads, and keeps all others, so that it can be written again.

mod acceptance;
mod attempt;
mod failure;
mod head;
mod hook;
mod on_delete;
mod status;
mod tested;

use std::{
    collections::BTreeMap,
    io::{Cursor, Read, Write},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use helmops_api::json;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use thiserror::Error;

pub use self::{
    acceptance::Acceptance,
    attempt::{Attempt, AttemptAction, Cause, deployment_id, has_values, input, is_same_input},
    failure::{Failure, at_deadline, interrupted, is_interrupted},
    head::RecordHead,
    hook::{Hook, HookPhase, HookRun, TEST_EVENT},
    on_delete::{OnDelete, OnDeletePolicy, Propagation},
    status::Status,
    tested::{FailedTest, TestFilters, TestState},
};
use crate::{marks, names::ReleaseKey};

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";
/// What the names of the Secrets start with.
pub const SECRET_PREFIX: &str = "sh.helm.release.v1.";
/// The selector of the Secrets of all releases.
pub const SECRET_SELECTOR: &str = "owner=helm";
/// The key of the record in the data of its Secret.
pub const DATA_KEY: &str = "release";
/// Maximum bytes of a record's JSON. A Secret has at most 1 MiB, compressed; text is about a tenth of its size then.
pub const MAX_UNPACKED: usize = 32 << 20;
/// Maximum number of values, keys not counted, in a record's JSON: each takes up to some hundred bytes when it is decoded. A record with
/// more has data that no chart has.
pub const MAX_VALUES: usize = 200_000;

/// Maximum bytes of the text of an attempt.
const MAX_ATTEMPT: usize = 4 << 10;

/// The name of the Secret of a revision.
pub fn secret_name(release: &str, revision: u64) -> String {
    format!("{SECRET_PREFIX}{release}.v{revision}")
}

/// One revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The state of the revision.
    #[serde(default)]
    pub info: Info,
    /// The chart, with its templates and files, as Helm has loaded it.
    #[serde(
        default,
        skip_serializing_if = "Value::is_null",
        serialize_with = "metadata_first"
    )]
    pub chart: Value,
    /// The values of the user; null for none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
    /// The objects, without hooks, as YAML documents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// The hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The revision, from 1.
    #[serde(default, rename = "version", skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// The namespace of the release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// How the objects were applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_method: Option<ApplyMethod>,
    /// Fields that the agent does not use.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The state of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The status.
    #[serde(default)]
    pub status: Status,
    /// A log entry for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// When the first revision of the release was installed: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<String>,
    /// When this revision was written: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<String>,
    /// Fields that the agent does not use.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How the objects of a revision were applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum ApplyMethod {
    /// Server-side apply.
    ServerSide,
    /// Client-side: patches with the changes between two revisions. Helm 3 records no method, and knows only this one.
    ClientSide,
}

/// As Helm reads it: what is not server-side is client-side.
impl From<String> for ApplyMethod {
    fn from(text: String) -> Self {
        if text == "ssa" {
            Self::ServerSide
        } else {
            Self::ClientSide
        }
    }
}

impl From<ApplyMethod> for &'static str {
    fn from(method: ApplyMethod) -> Self {
        match method {
            ApplyMethod::ServerSide => "ssa",
            ApplyMethod::ClientSide => "csa",
        }
    }
}

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub enum RecordError {
    /// It is not Base64.
    #[error("it is not Base64: {0}")]
    Base64(base64::DecodeError),
    /// It cannot be decompressed.
    #[error("it cannot be decompressed: {0}")]
    Gzip(#[from] std::io::Error),
    /// It is larger than [`MAX_UNPACKED`].
    #[error("it has more than {MAX_UNPACKED} bytes")]
    TooLarge,
    /// It has more than [`MAX_VALUES`] values.
    #[error("it has more than {MAX_VALUES} values: no chart has that many, so something else has written it")]
    TooManyValues,
    /// Its JSON does not decode.
    #[error("it is not a Helm release: {0}")]
    Json(#[from] serde_json::Error),
}

/// The JSON of a record.
#[derive(Debug)]
pub struct UnpackedRecord(Vec<u8>);

impl UnpackedRecord {
    /// Of `Secret.data.release`, after the Base64 of the Secret.
    ///
    /// # Errors
    /// If it is damaged, or larger than [`MAX_UNPACKED`].
    pub fn of(data: &[u8]) -> Result<Self, RecordError> {
        unpack(data, MAX_UNPACKED).map(Self)
    }

    /// Its number of bytes.
    pub const fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Decodes it.
    ///
    /// # Errors
    /// If it is no record, or has more than [`MAX_VALUES`].
    pub fn decode(&self) -> Result<Record, RecordError> {
        if json::values(&self.0) > MAX_VALUES {
            return Err(RecordError::TooManyValues);
        }
        Ok(serde_json::from_slice(&self.0)?)
    }
}

impl Record {
    /// Decodes a record: `Secret.data.release`, after the Base64 of the Secret.
    ///
    /// # Errors
    /// If it is damaged, or larger than [`MAX_UNPACKED`].
    pub fn decode(data: &[u8]) -> Result<Self, RecordError> {
        UnpackedRecord::of(data)?.decode()
    }

    /// Encodes it as Helm does.
    ///
    /// # Errors
    /// If it cannot be encoded as JSON, which does not happen with a decoded record.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&serde_json::to_vec(self)?)?;
        Ok(STANDARD.encode(packed.finish()?).into_bytes())
    }

    /// The key of its release, if the record is in the namespace of the release.
    pub fn key(&self) -> ReleaseKey {
        ReleaseKey::new(&self.namespace, &self.name)
    }

    /// The name of its Secret.
    pub fn secret_name(&self) -> String {
        secret_name(&self.name, self.revision)
    }

    /// How its objects were applied. A record without a method is one of Helm 3.
    pub fn apply_method(&self) -> ApplyMethod {
        self.apply_method.unwrap_or(ApplyMethod::ClientSide)
    }

    /// The metadata of its chart: name, version, annotations and so on.
    pub fn chart_metadata(&self) -> &Value {
        self.chart.get("metadata").unwrap_or(&Value::Null)
    }

    /// An annotation of its chart.
    pub fn chart_annotation(&self, key: &str) -> Option<&str> {
        self.chart_metadata().get("annotations")?.get(key)?.as_str()
    }

    /// The BundleDeployment that it belongs to, if the agent in `agent_namespace` manages it.
    pub fn bundle_deployment(&self, agent_namespace: &str) -> Option<&str> {
        let bundle = self.chart_annotation(marks::BUNDLE_ID)?;
        let agent = self.chart_annotation(marks::AGENT_NAMESPACE);
        (!bundle.is_empty() && agent == Some(agent_namespace)).then_some(bundle)
    }

    /// Whether it is a rollback: then its chart, values and manifest are those of another revision, and only the description
    /// shows that it is one. So whatever is written there has to keep that.
    pub fn is_rollback(&self) -> bool {
        let description = &*self.info.description;
        self.info.status == Status::PendingRollback
            || description.starts_with("Rollback ")
            || description.starts_with(failure::ROLLBACK)
            || description == interrupted(Status::PendingRollback)
    }

    /// The attempt that wrote it, or for a rollback, the revision that it restores; `None` if this agent did not.
    pub fn attempt(&self) -> Option<Attempt> {
        let annotation = self.chart_annotation(marks::ATTEMPT);
        let text = annotation.unwrap_or(&self.info.description);
        (text.len() <= MAX_ATTEMPT).then(|| text.parse().ok())?
    }

    /// The description that it has when it has succeeded.
    pub fn successful_description(&self) -> String {
        if self.is_rollback() {
            return "Rollback complete".to_owned();
        }
        let attempt = self.attempt().map(|attempt| attempt.to_string());
        attempt.unwrap_or_else(|| "Upgrade complete".to_owned())
    }

    /// The description that it has when it has failed for a reason that the agent has found.
    pub fn failed_description(&self, failure: &Failure) -> String {
        let description = failure.description();
        if self.is_rollback() {
            format!("{}{description}", failure::ROLLBACK)
        } else {
            description
        }
    }

    /// The same revision with another status and a log entry: for a pending record whose Helm does not run any more.
    #[must_use]
    pub fn with_status(mut self, status: Status, description: String) -> Self {
        self.info.status = status;
        self.info.description = description;
        self
    }

    /// The labels of its Secret after a change, as Helm sets them. `existing` are the previous ones, of which those of users stay,
    /// and `modified_at` is in seconds since 1970.
    pub fn labels(&self, existing: &BTreeMap<String, String>, modified_at: i64) -> BTreeMap<String, String> {
        let mut labels = existing.clone();
        labels.remove("createdAt");
        let system = [
            ("name", self.name.clone()),
            ("owner", "helm".to_owned()),
            ("status", self.info.status.to_string()),
            ("version", self.revision.to_string()),
            ("modifiedAt", modified_at.to_string()),
        ];
        labels.extend(system.map(|(key, value)| (key.to_owned(), value)));
        labels
    }
}

fn unpack(data: &[u8], max: usize) -> Result<Vec<u8>, RecordError> {
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let mut unpacked = Vec::new();
    reader(data)?.take(limit).read_to_end(&mut unpacked)?;
    if unpacked.len() > max {
        return Err(RecordError::TooLarge);
    }
    Ok(unpacked)
}

/// Reads the JSON of a record.
fn reader(data: &[u8]) -> Result<Box<dyn Read>, RecordError> {
    let packed = STANDARD.decode(data).map_err(RecordError::Base64)?;
    // The oldest versions of Helm did not compress.
    let is_packed = packed.starts_with(&[0x1f, 0x8b, 0x08]);
    let packed = Cursor::new(packed);
    Ok(if is_packed {
        Box::new(MultiGzDecoder::new(packed))
    } else {
        Box::new(packed)
    })
}

/// The metadata of a chart come first, as with Helm: a history reads the start of a record.
fn metadata_first<S: Serializer>(chart: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    const METADATA: &str = "metadata";
    let Value::Object(fields) = chart else {
        return chart.serialize(serializer);
    };
    let first = fields.get_key_value(METADATA).into_iter();
    let others = fields.iter().filter(|(key, _)| *key != METADATA);
    serializer.collect_map(first.chain(others))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
