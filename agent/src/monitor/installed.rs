//! What is known of an installed revision: its objects. Their content stays in the record, and is read when it is needed.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Instant,
};

use helmops_api::{diff::DiffOptions, lifecycle::DriftIgnore};
use helmops_release::{
    deployed::RevisionId,
    drift::{CorrectionLimit, ObjectDrift},
    manifest::{self, ManifestError},
    marks,
    names::ReleaseKey,
    object::ObjectId,
    record::Record,
};
use helmops_runtime::client::CallError;
use serde_json::Value;
use thiserror::Error;

use crate::{
    live::{Kinds, ResourceKind},
    records::{RecordStoreError, Records, Reserved},
};

/// An installed revision.
#[derive(Debug)]
pub struct Installed {
    pub id: RevisionId,
    /// Its objects, in the order of the manifest.
    pub desired: Vec<DesiredObject>,
    /// Kind and name of the objects of the revision before it.
    pub previous: BTreeSet<(String, String)>,
    /// The exceptions of the last comparisons.
    pub exceptions: Exceptions,
    /// What the last comparison of each object showed.
    pub verdicts: HashMap<ObjectId, Verdict>,
    pub corrections: HashMap<ObjectId, CorrectionLimit>,
}

/// What is no drift: `diff`, and `lifecycle.drift.ignore`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exceptions {
    /// Exceptions that name objects.
    pub diff: Option<DiffOptions>,
    /// Exceptions that select objects.
    pub ignored: Vec<DriftIgnore>,
}

/// An object of a revision.
#[derive(Debug)]
pub struct DesiredObject {
    /// Its identity on the cluster: with a namespace, if its kind has one, and in a version of its API that is served.
    pub id: ObjectId,
    /// Its kind; `None` if the cluster does not have it.
    pub kind: Option<ResourceKind>,
    /// Whether the cluster deletes it after its end, so that it need not exist.
    pub is_temporary: bool,
    /// Whether it has the label by which live objects are watched. Those of a release that was taken over as it is do not.
    pub is_marked: bool,
}

/// The result of the comparison of an object with the manifest.
#[derive(Debug)]
pub struct Verdict {
    /// The content of the live object that was compared.
    pub content: u64,
    /// The difference.
    pub drift: Option<ObjectDrift>,
}

/// Why the objects of a revision are not known.
#[derive(Debug, Error)]
pub enum InstalledError {
    /// The record cannot be used.
    #[error(transparent)]
    Record(#[from] Box<RecordStoreError>),
    #[error("revision {revision} of release {release} has no record")]
    NoRecord { release: ReleaseKey, revision: u64 },
    /// Its manifest cannot be used.
    #[error("the manifest of revision {revision} of release {release} cannot be used: {source}")]
    Manifest {
        release: ReleaseKey,
        revision: u64,
        /// The error of the manifest.
        source: Box<ManifestError>,
    },
    /// The kinds cannot be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl InstalledError {
    /// Whether a repetition may succeed without a change of the record.
    fn is_passing(&self) -> bool {
        matches!(self, Self::Record(error) if matches!(**error, RecordStoreError::NoMemory { .. }))
    }
}

impl Installed {
    /// Reads an installed revision.
    ///
    /// # Errors
    /// If its record is missing or cannot be used.
    pub async fn read(
        records: &Records,
        kinds: &Kinds,
        release: &ReleaseKey,
        revision: u64,
        previous: Option<u64>,
    ) -> Result<Self, InstalledError> {
        let record = record_of(records, release, revision).await?;
        let made_at = record
            .info
            .last_deployed
            .as_ref()
            .and_then(|time| time.parse().ok());
        let objects = record.try_map(|record| manifest(&record))?;
        let now = Instant::now();
        let mut desired = Vec::with_capacity(objects.len());
        for object in objects.iter() {
            desired.extend(desired_object(kinds, object, &release.namespace, now).await?);
        }
        drop(objects);
        let previous = match previous {
            Some(previous) => match manifest_of(records, release, previous).await {
                Ok(objects) => names(&objects),
                Err(error) if error.is_passing() => return Err(error),
                Err(_) => BTreeSet::new(),
            },
            None => BTreeSet::new(),
        };
        Ok(Self {
            id: RevisionId {
                release: release.clone(),
                number: revision,
                made_at,
            },
            desired,
            previous,
            exceptions: Exceptions::default(),
            verdicts: HashMap::new(),
            corrections: HashMap::new(),
        })
    }

    /// Whether the cluster has the kinds of all objects. If not, one may have been installed since.
    pub fn is_complete(&self) -> bool {
        self.desired.iter().all(|object| object.kind.is_some())
    }

    /// Forgets kinds that the cluster does not have any more.
    pub fn forget_kinds(&mut self, is_gone: impl Fn(&ResourceKind) -> bool) {
        for object in &mut self.desired {
            object.kind.take_if(|kind| is_gone(kind));
        }
    }

    /// Forgets kinds that the cluster does not have any more, as far as a change of a CRD may have removed them.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn look_up_kinds(&mut self, kinds: &Kinds) -> Result<(), CallError> {
        let mut gone = Vec::new();
        for kind in self.kinds().collect::<HashSet<_>>() {
            let resource = &kind.resource;
            if kinds.get(&resource.api_version, &resource.kind).await?.as_ref() != Some(&kind) {
                gone.push(kind);
            }
        }
        self.forget_kinds(|kind| gone.contains(kind));
        Ok(())
    }

    /// The groups of the kinds that the cluster has, or does not have.
    pub fn groups(&self, are_present: bool) -> BTreeSet<String> {
        let objects = self
            .desired
            .iter()
            .filter(|object| object.kind.is_some() == are_present);
        objects.map(|object| object.id.group().to_owned()).collect()
    }

    /// Whether watches have all of its objects.
    pub fn is_marked(&self) -> bool {
        self.desired.iter().all(|object| object.is_marked)
    }

    /// The kinds of its objects.
    pub fn kinds(&self) -> impl Iterator<Item = ResourceKind> {
        self.desired.iter().filter_map(|object| object.kind.clone())
    }
}

/// The objects of a revision.
///
/// # Errors
/// If its record is missing or cannot be used.
pub async fn manifest_of(
    records: &Records,
    release: &ReleaseKey,
    revision: u64,
) -> Result<Reserved<Vec<Value>>, InstalledError> {
    let record = record_of(records, release, revision).await?;
    record.try_map(|record| manifest(&record))
}

/// The record of a revision.
///
/// # Errors
/// If it is missing or cannot be used.
pub async fn record_of(
    records: &Records,
    release: &ReleaseKey,
    revision: u64,
) -> Result<Reserved<Record>, InstalledError> {
    let record = records.read_known(release, revision).await.map_err(Box::new)?;
    record.ok_or_else(|| InstalledError::NoRecord {
        release: release.clone(),
        revision,
    })
}

/// The identities of the objects of a revision, as they were recorded.
///
/// # Errors
/// If its manifest cannot be used.
pub fn recorded_ids(record: &Record, namespace: &str) -> Result<Vec<ObjectId>, InstalledError> {
    let objects = manifest(record)?;
    let ids = objects
        .iter()
        .filter_map(|object| ObjectId::in_release(object, namespace));
    Ok(ids.collect())
}

fn manifest(record: &Record) -> Result<Vec<Value>, InstalledError> {
    manifest::recorded(&record.manifest).map_err(|error| InstalledError::Manifest {
        release: record.key(),
        revision: record.revision,
        source: Box::new(error),
    })
}

async fn desired_object(
    kinds: &Kinds,
    object: &Value,
    namespace: &str,
    now: Instant,
) -> Result<Option<DesiredObject>, InstalledError> {
    let Some(id) = ObjectId::in_release(object, namespace) else {
        return Ok(None);
    };
    let served = kinds.served(&id, now).await?;
    // One of a kind that is not known most likely has a namespace too.
    let id = served.identity(&id).unwrap_or(id);
    let kind = served.kind().cloned();
    let lifetime = object.pointer("/spec/ttlSecondsAfterFinished");
    let is_temporary =
        id.group() == "batch" && id.kind == "Job" && lifetime.is_some_and(|seconds| !seconds.is_null());
    let labels = object.pointer("/metadata/labels");
    let is_marked = labels.is_some_and(|labels| labels.get(marks::SET_HASH).is_some());
    Ok(Some(DesiredObject {
        id,
        kind,
        is_temporary,
        is_marked,
    }))
}

fn names(objects: &[Value]) -> BTreeSet<(String, String)> {
    let ids = objects.iter().filter_map(ObjectId::of);
    ids.map(|id| (id.kind, id.name)).collect()
}
