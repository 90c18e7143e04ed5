//! Reads and writes records.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt, TryStreamExt};
use helmops_api::{MetadataOnly, NamespacedName};
use helmops_fair::OverBudget;
use helmops_kube::{Cache, Change, WatchedObjects, path_segment};
use helmops_process::{exit::with_causes, lock};
use helmops_release::{
    adoption,
    chart_metadata::Origin,
    history::{History, Owner, Revision},
    manifest::{self, Edit},
    marks,
    names::{RecordsKey, ReleaseKey},
    object::ObjectId,
    record::{
        self, Acceptance, DATA_KEY, Failure, Hook, OnDelete, Record, RecordError, RecordHead,
        SECRET_SELECTOR, SECRET_TYPE, Status, UnpackedRecord,
    },
};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    pages::pages,
};
use k8s_openapi::{ByteString, api::core::v1::Secret, jiff::Timestamp};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::watcher::Event,
};
use serde_json::json;
use thiserror::Error;

use super::{
    memory::{RecordMemory, Reserved},
    recent::RecentSecrets,
    watched::{ByRelease, StoredRecord},
};

/// Bytes of a description that the agent writes: the record has to fit into a Secret.
const MAX_DESCRIPTION: usize = 4 << 10;

/// The description of a revision that is uninstalled, as of Helm.
const UNINSTALLED: &str = "Uninstallation complete";

/// The description of a revision that is uninstalled but for objects that could not be read.
const INCOMPLETE: &str = "Some objects could not be read and are not deleted yet";

/// The records of all releases of the cluster. Clones share what is cached.
#[derive(Clone)]
pub struct Records {
    client: Client,
    /// The namespace of the agent: records of agents in other namespaces have another owner.
    agent_namespace: Arc<str>,
    stored: Cache<StoredRecord, ByRelease>,
    /// What decoded records show, by Secret: an entry for each record that was needed and exists.
    decoded: Arc<Mutex<HashMap<NamespacedName, Decoded>>>,
    recent: Arc<RecentSecrets>,
    memory: RecordMemory,
}

struct Decoded {
    resource_version: String,
    content: Content,
}

/// What a record shows, or why it is damaged: that is remembered too, so that each version of a record is read and logged once.
type Content = Result<Revision, Arc<RecordError>>;

/// Why a record cannot be used.
#[derive(Debug, Error)]
pub enum RecordStoreError {
    /// The API server could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Other records take the memory.
    #[error(
        "the record of revision {revision} of release {release} is not read now: other large records take the memory; it is tried again"
    )]
    NoMemory { release: RecordsKey, revision: u64 },
    #[error(
        "the record of revision {revision} of release {release} cannot be read: {source}; restore Secret {secret}, or delete it"
    )]
    Damaged {
        release: RecordsKey,
        revision: u64,
        secret: String,
        /// The error of the decoder.
        source: Arc<RecordError>,
    },
}

/// Why a revision is not adopted.
#[derive(Debug, Error)]
pub enum AdoptError {
    /// The record cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordStoreError),
    /// The account that deploys may not write the record.
    #[error("the account that deploys may not update Secret {secret}: {source}")]
    Forbidden {
        /// The Secret, with its namespace.
        secret: String,
        /// The error of the API server.
        source: ApiError,
    },
}

impl Records {
    pub fn new(client: Client, agent_namespace: &str) -> Self {
        Self {
            client,
            agent_namespace: agent_namespace.into(),
            stored: Cache::new(),
            decoded: Arc::default(),
            recent: Arc::default(),
            memory: RecordMemory::new(),
        }
    }

    /// Follows the watches of the metadata of all records, each with its namespace. The stream has those that change.
    pub fn follow<S>(
        &self,
        watches: Vec<(Option<String>, S)>,
    ) -> impl Stream<Item = RecordsKey> + Send + use<S>
    where
        S: Stream<Item = Event<MetadataOnly<Secret>>> + Send + 'static,
    {
        let decoded = Arc::clone(&self.decoded);
        let changes = self.stored.follow(watches, |secret| StoredRecord::of(&secret));
        changes.flat_map(move |changes| {
            let releases: Vec<_> = changes
                .into_iter()
                .filter_map(|change| affected(change, &decoded))
                .collect();
            futures::stream::iter(releases)
        })
    }

    /// Waits until the first list is complete.
    pub async fn wait_until_synced(&self) {
        self.stored.wait_until_synced().await;
    }

    /// The history of a release, as the cache shows it.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub async fn cached_history(&self, release: &ReleaseKey) -> Result<History, RecordStoreError> {
        self.history(self.cached(&release.records())).await
    }

    fn cached(&self, records: &RecordsKey) -> Vec<StoredRecord> {
        self.stored.read(|all, by_release| {
            let names = by_release.index().get(records);
            names.filter_map(|name| all.get(name)).cloned().collect()
        })
    }

    /// The history of a release, as the API server shows it: the basis of everything that changes the release.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub async fn current_history(&self, release: &ReleaseKey) -> Result<History, RecordStoreError> {
        let stored = self.current(release).await?;
        self.history(stored).await
    }

    /// The same, with what happens with the release when its BundleDeployment is gone: what its newest record says.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub async fn current_end(
        &self,
        release: &ReleaseKey,
    ) -> Result<(History, Option<OnDelete>), RecordStoreError> {
        let stored = self.current(release).await?;
        let on_delete = newest(&stored).and_then(|record| record.on_delete);
        Ok((self.history(stored).await?, on_delete))
    }

    async fn current(&self, release: &ReleaseKey) -> Result<Vec<StoredRecord>, RecordStoreError> {
        let api =
            Api::<MetadataOnly<Secret>>::namespaced(self.client.clone(), &path_segment(&release.storage));
        // The type as well, as in the watch: labels alone are not enough to be a record.
        let params = ListParams::default()
            .labels(&format!("{SECRET_SELECTOR},name={}", release.name))
            .fields(&format!("type={SECRET_TYPE}"));
        let read = async |params| api.list(&params).await;
        let pages: Result<Vec<_>, _> = pages(params, read).try_collect().await;
        let pages = pages.map_err(CallError::of(
            "list",
            format_args!("the records of release {release}"),
        ))?;
        Ok(pages.iter().flatten().filter_map(StoredRecord::of).collect())
    }

    /// The records of each BundleDeployment of this agent. Damaged ones have no owner.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub async fn by_owner(&self) -> Result<BTreeMap<String, Vec<RecordsKey>>, RecordStoreError> {
        self.owners(self.stored.state()).await
    }

    async fn owners(
        &self,
        records: Vec<StoredRecord>,
    ) -> Result<BTreeMap<String, Vec<RecordsKey>>, RecordStoreError> {
        let mut newest = BTreeMap::<RecordsKey, StoredRecord>::new();
        for record in records {
            let known = newest.entry(record.key.clone()).or_insert_with(|| record.clone());
            if known.revision < record.revision {
                *known = record;
            }
        }
        let mut owners = BTreeMap::<String, Vec<RecordsKey>>::new();
        for (key, record) in newest {
            let revision = match self.revision(&record).await {
                Ok(revision) => revision,
                // Reported when it was read.
                Err(RecordStoreError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            if let Some(Owner::BundleDeployment(name)) = revision.map(|revision| revision.origin.owner) {
                owners.entry(name).or_default().push(key);
            }
        }
        Ok(owners)
    }

    /// The records of a BundleDeployment of this agent.
    ///
    /// # Errors
    /// If one cannot be read.
    pub async fn of_deployment(&self, deployment: &str) -> Result<Vec<RecordsKey>, RecordStoreError> {
        // Most releases are known to belong to others. Without that, a deployment would cost more with each other release.
        let records = {
            let decoded = lock(&self.decoded);
            self.stored
                .read(|all, by_release| candidates(all, by_release, &decoded, deployment))
        };
        Ok(self.owners(records).await?.remove(deployment).unwrap_or_default())
    }

    async fn history(&self, stored: Vec<StoredRecord>) -> Result<History, RecordStoreError> {
        let mut revisions = Vec::with_capacity(stored.len());
        for record in stored {
            revisions.extend(self.revision(&record).await?);
        }
        Ok(History::new(revisions))
    }

    /// What a record shows; `None` if it does not exist any more.
    async fn revision(&self, stored: &StoredRecord) -> Result<Option<Revision>, RecordStoreError> {
        let name = NamespacedName::new(&*stored.key.namespace, &*stored.secret);
        let known = lock(&self.decoded)
            .get(&name)
            .filter(|decoded| decoded.resource_version == stored.resource_version)
            .map(|decoded| decoded.content.clone());
        let content = match known {
            Some(known) => Some(known),
            None => self.read_content(stored).await?,
        };
        let of = |source| damaged(&stored.key, stored.revision, &stored.secret, source);
        content.transpose().map_err(of)
    }

    /// Reads a record, and remembers what it shows; `None` if it does not exist any more.
    async fn read_content(&self, stored: &StoredRecord) -> Result<Option<Content>, RecordStoreError> {
        let (release, secret) = (&stored.key, &stored.secret);
        let Some(found) = self.get_secret(&release.namespace, secret).await? else {
            return Ok(None);
        };
        let content = match self.shown_by(&found, stored.revision) {
            Ok(revision) => Ok(revision.labelled(acceptance_of(&found))),
            Err(source) => {
                let source = Arc::new(source);
                let error = damaged(release, stored.revision, secret, Arc::clone(&source));
                tracing::warn!(error = with_causes(&error), "a record is damaged");
                Err(source)
            }
        };
        let decoded = Decoded {
            resource_version: stored.resource_version.clone(),
            content: content.clone(),
        };
        let name = NamespacedName::new(&*release.namespace, &**secret);
        lock(&self.decoded).insert(name, decoded);
        Ok(Some(content))
    }

    /// What a record shows: its start, if that is enough.
    fn shown_by(&self, secret: &Secret, revision: u64) -> Result<Revision, RecordError> {
        let (data, changed_at) = (data_of(secret), changed_at(secret));
        let head = RecordHead::decode(data, revision)?;
        match Revision::of_head(&head, &self.agent_namespace, changed_at) {
            Some(revision) => Ok(revision),
            None => Ok(Revision::of(
                &Record::decode(data)?,
                &self.agent_namespace,
                changed_at,
            )),
        }
    }

    /// A record as it is now; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read(
        &self,
        release: &ReleaseKey,
        revision: u64,
    ) -> Result<Option<Reserved<Record>>, RecordStoreError> {
        let name = record::secret_name(&release.name, revision);
        let Some(secret) = self.get_secret(&release.storage, &name).await? else {
            return Ok(None);
        };
        self.decoded(release, revision, &name, &secret).map(Some)
    }

    /// A record in the version of the last history of its release: it is probably in memory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read_known(
        &self,
        release: &ReleaseKey,
        revision: u64,
    ) -> Result<Option<Reserved<Record>>, RecordStoreError> {
        let name = record::secret_name(&release.name, revision);
        match self.recent(release, &name) {
            Some(secret) => self.decoded(release, revision, &name, &secret).map(Some),
            None => self.read(release, revision).await,
        }
    }

    /// A Secret as the last history has it, if it is kept.
    fn recent(&self, release: &ReleaseKey, name: &str) -> Option<Arc<Secret>> {
        let name = NamespacedName::new(&*release.storage, name);
        let version = lock(&self.decoded).get(&name)?.resource_version.clone();
        self.recent.get(&name, &version)
    }

    fn decoded(
        &self,
        release: &ReleaseKey,
        revision: u64,
        name: &str,
        secret: &Secret,
    ) -> Result<Reserved<Record>, RecordStoreError> {
        let damaged = |source| damaged(&release.records(), revision, name, Arc::new(source));
        let unpacked = UnpackedRecord::of(data_of(secret)).map_err(damaged)?;
        let memory = self.memory.reserve(&release.storage, unpacked.bytes());
        let memory = memory.map_err(|OverBudget| RecordStoreError::NoMemory {
            release: release.records(),
            revision,
        })?;
        memory.try_map(|()| unpacked.decode()).map_err(damaged)
    }

    /// The Secret of a record as it is now, and the record: what is changed.
    async fn read_secret(
        &self,
        release: &ReleaseKey,
        revision: u64,
        name: &str,
    ) -> Result<Option<(Secret, Reserved<Record>)>, RecordStoreError> {
        let Some(secret) = self.get_secret(&release.storage, name).await? else {
            return Ok(None);
        };
        // It is about to change.
        self.recent.remove(&NamespacedName::new(&*release.storage, name));
        let record = self.decoded(release, revision, name, &secret)?;
        Ok(Some((Arc::unwrap_or_clone(secret), record)))
    }

    async fn get_secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, CallError> {
        let secrets = secrets_of(&self.client, namespace);
        let found = bounded(secrets.get_opt(&path_segment(name))).await;
        let found = found.map_err(CallError::of("read", secret_of(namespace, name)))?;
        let found = found.map(Arc::new);
        if let Some(secret) = &found {
            let name = NamespacedName::new(namespace, name);
            self.recent.insert(name, secret);
        }
        Ok(found)
    }

    /// Marks a revision as failed whose Helm process does not run any more, so that Helm accepts another operation.
    ///
    /// # Errors
    /// If it cannot be read or written; also if another client has changed it meanwhile.
    pub async fn unlock(&self, release: &ReleaseKey, revision: u64) -> Result<(), RecordStoreError> {
        let change = |record: Record| {
            let was = record.info.status;
            was.is_pending()
                .then(|| record.with_status(Status::Failed, record::interrupted(was)))
        };
        self.change(release, revision, "unlock", change).await?;
        Ok(())
    }

    /// Marks a revision as failed that is deployed: it is not ready, or a test failed. Returns whether it was deployed.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn fail(
        &self,
        release: &ReleaseKey,
        revision: u64,
        cause: &Failure,
    ) -> Result<bool, RecordStoreError> {
        let change = |record: Record| {
            let description = bounded_text::cut(record.failed_description(cause), MAX_DESCRIPTION);
            let is_deployed = record.info.status == Status::Deployed;
            is_deployed.then(|| record.with_status(Status::Failed, description))
        };
        self.change(release, revision, "mark as failed", change).await
    }

    /// Marks a revision as failed whose Helm has reached its deadline, as far as its record shows that it was stopped. Returns
    /// whether it does.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn fail_at_deadline(
        &self,
        release: &ReleaseKey,
        revision: u64,
    ) -> Result<bool, RecordStoreError> {
        let change = |record: Record| {
            let description = bounded_text::cut(record::at_deadline(&record)?, MAX_DESCRIPTION);
            Some(record.with_status(Status::Failed, description))
        };
        self.change(release, revision, "mark as failed", change).await
    }

    /// Marks a revision as deployed that [`Records::fail`] has marked as failed. Returns whether it was.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn set_deployed(&self, release: &ReleaseKey, revision: u64) -> Result<bool, RecordStoreError> {
        let change = |record: Record| {
            let description = record.successful_description();
            let is_marked = matches!(
                Failure::of(&record),
                Some(Failure::NotReady(_) | Failure::Test(_))
            );
            is_marked.then(|| record.with_status(Status::Deployed, description))
        };
        self.change(release, revision, "mark as deployed", change).await
    }

    /// Changes the description of a revision.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn describe(
        &self,
        release: &ReleaseKey,
        revision: u64,
        change: impl FnOnce(&str) -> String,
    ) -> Result<(), RecordStoreError> {
        let change = |mut record: Record| {
            let description = change(&record.info.description);
            let is_changed = description != record.info.description;
            record.info.description = description;
            is_changed.then_some(record)
        };
        self.change(release, revision, "describe", change).await?;
        Ok(())
    }

    /// Marks a revision as uninstalled whose objects are deleted, as Helm does if the records stay.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn set_uninstalled(&self, release: &ReleaseKey, revision: u64) -> Result<(), RecordStoreError> {
        let change = |record: Record| Some(record.with_status(Status::Uninstalled, UNINSTALLED.to_owned()));
        self.change(release, revision, "mark as uninstalled", change)
            .await?;
        Ok(())
    }

    /// Makes a revision of a user's Helm one of a BundleDeployment, without a deployment. Returns whether it was still deployed.
    ///
    /// It is written as the account that deploys, so that the API server decides whether this account may take over the release. A dry
    /// run only lets it decide.
    ///
    /// # Errors
    /// As of [`Records::unlock`], and if the account may not write the record.
    pub async fn adopt(
        &self,
        deployer: &Client,
        release: &ReleaseKey,
        revision: u64,
        origin: &Origin,
        dry_run: bool,
    ) -> Result<bool, AdoptError> {
        let change = |record: Record| {
            let is_deployed = record.info.status == Status::Deployed;
            is_deployed.then(|| adoption::adopted(record, origin))
        };
        let Some(secret) = self.changed(release, revision, change).await? else {
            return Ok(false);
        };
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let (name, secrets) = (secret.name_any(), secrets_of(deployer, &release.storage));
        match bounded(secrets.replace(&name, &params, &secret)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_forbidden() => Err(AdoptError::Forbidden {
                secret: format!("{}/{name}", release.storage),
                source: error,
            }),
            Err(error) => {
                let error = CallError::of("adopt", secret_of(&release.storage, &name))(error);
                Err(RecordStoreError::from(error).into())
            }
        }
    }

    /// Changes what Helm reads of these objects of a revision, as a client. All others are as they were made. Helm uninstalls nothing that it
    /// takes for uninstalled, so what is incomplete is none any more. Returns whether that changes anything.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn edit_objects(
        &self,
        writer: &Client,
        release: &ReleaseKey,
        revision: u64,
        edits: &BTreeMap<ObjectId, Edit>,
    ) -> Result<bool, RecordStoreError> {
        let change = |mut record: Record| {
            let manifest = manifest::edit(&record.manifest, &release.namespace, edits).ok()?;
            let is_reopened =
                record.info.status == Status::Uninstalled && manifest::is_incomplete(&record.manifest);
            let is_changed = manifest != record.manifest;
            record.manifest = manifest;
            if is_reopened {
                record = record.with_status(Status::Uninstalling, INCOMPLETE.to_owned());
            }
            (is_changed || is_reopened).then_some(record)
        };
        self.change_as(writer, release, revision, "change the objects of", change)
            .await
    }

    /// Adds hooks of a revision that are missing in its record. Returns whether there were any.
    ///
    /// # Errors
    /// As of [`Records::unlock`].
    pub async fn restore_hooks(
        &self,
        release: &ReleaseKey,
        revision: u64,
        hooks: &[Hook],
    ) -> Result<bool, RecordStoreError> {
        let change = |mut record: Record| record.restore_hooks(hooks).then_some(record);
        self.change(release, revision, "restore the hooks of", change)
            .await
    }

    /// Changes a record, unless `change` returns `None`. Returns whether it was changed.
    async fn change(
        &self,
        release: &ReleaseKey,
        revision: u64,
        operation: &'static str,
        change: impl FnOnce(Record) -> Option<Record>,
    ) -> Result<bool, RecordStoreError> {
        self.change_as(&self.client, release, revision, operation, change)
            .await
    }

    async fn change_as(
        &self,
        writer: &Client,
        release: &ReleaseKey,
        revision: u64,
        operation: &'static str,
        change: impl FnOnce(Record) -> Option<Record>,
    ) -> Result<bool, RecordStoreError> {
        let Some(secret) = self.changed(release, revision, change).await? else {
            return Ok(false);
        };
        let (name, params) = (secret.name_any(), PostParams::default());
        let written = bounded(secrets_of(writer, &release.storage).replace(&name, &params, &secret)).await;
        written.map_err(CallError::of(operation, secret_of(&release.storage, &name)))?;
        Ok(true)
    }

    /// The Secret of a record with a change; `None` if there is no such record, or nothing is to be changed. It has the version that was
    /// read, so that it is not written if another client has changed the record since.
    async fn changed(
        &self,
        release: &ReleaseKey,
        revision: u64,
        change: impl FnOnce(Record) -> Option<Record>,
    ) -> Result<Option<Secret>, RecordStoreError> {
        let name = record::secret_name(&release.name, revision);
        let Some((mut secret, record)) = self.read_secret(release, revision, &name).await? else {
            return Ok(None);
        };
        let Ok(record) = record.try_map(|record| change(record).ok_or(())) else {
            return Ok(None);
        };
        secret.metadata.labels = Some(record.labels(secret.labels(), Timestamp::now().as_second()));
        let data = record.encode();
        let data = data.map_err(|source| damaged(&release.records(), revision, &name, Arc::new(source)))?;
        secret
            .data
            .get_or_insert_default()
            .insert(DATA_KEY.to_owned(), ByteString(data));
        Ok(Some(secret))
    }

    /// Sets what happens with a release when its BundleDeployment is gone: on the record of this revision, which should be the newest
    /// one. The next revisions inherit it, except that of an installation that replaces a release.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub async fn set_on_delete(
        &self,
        release: &ReleaseKey,
        revision: u64,
        on_delete: Option<&OnDelete>,
    ) -> Result<(), RecordStoreError> {
        let value = on_delete.map(ToString::to_string);
        self.set_label(release, revision, marks::ON_DELETE, value).await
    }

    /// Records that a revision was ready and passed its tests.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub async fn accept(&self, release: &ReleaseKey, revision: u64) -> Result<(), RecordStoreError> {
        let value = Some(Acceptance::Accepted.to_string());
        self.set_label(release, revision, marks::ACCEPTANCE, value).await
    }

    async fn set_label(
        &self,
        release: &ReleaseKey,
        revision: u64,
        key: &str,
        value: Option<String>,
    ) -> Result<(), RecordStoreError> {
        let name = record::secret_name(&release.name, revision);
        let patch = json!({ "metadata": { "labels": { key: value } } });
        let secrets = self.secrets(release);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        match bounded(secrets.patch_metadata(&name, &params, &patch)).await {
            Ok(_) => Ok(()),
            Err(error) if ApiError::is_not_found(&error) => Ok(()),
            Err(error) => Err(CallError::of("label", secret_of(&release.storage, &name))(error).into()),
        }
    }

    /// What happens with a release when its BundleDeployment is gone, as the cache shows it: what its newest record says.
    pub fn on_delete(&self, release: &ReleaseKey) -> Option<OnDelete> {
        newest(&self.cached(&release.records())).and_then(|record| record.on_delete)
    }

    /// Deletes the records of a history, the oldest first: until the last one is deleted, the newest one decides what is done with the
    /// release.
    ///
    /// # Errors
    /// As of [`Records::delete`].
    pub async fn delete_all(&self, release: &ReleaseKey, history: &History) -> Result<(), RecordStoreError> {
        for revision in history.iter().rev() {
            self.delete(release, revision.number, revision.status).await?;
        }
        Ok(())
    }

    /// Deletes the record of a revision, if it is still in the status that was observed.
    ///
    /// # Errors
    /// If the API server does not delete it.
    pub async fn delete(
        &self,
        release: &ReleaseKey,
        revision: u64,
        status: Status,
    ) -> Result<(), RecordStoreError> {
        let name = record::secret_name(&release.name, revision);
        let Some((secret, record)) = self.read_secret(release, revision, &name).await? else {
            return Ok(());
        };
        if record.info.status != status {
            return Ok(());
        }
        let preconditions = Preconditions {
            uid: secret.metadata.uid,
            resource_version: secret.metadata.resource_version,
        };
        let params = DeleteParams::default().preconditions(preconditions);
        match bounded(self.secrets(release).delete(&name, &params)).await {
            Ok(_) => Ok(()),
            Err(error) if ApiError::is_not_found(&error) => Ok(()),
            Err(error) => Err(CallError::of("delete", secret_of(&release.storage, &name))(error).into()),
        }
    }

    fn secrets(&self, release: &ReleaseKey) -> Api<Secret> {
        secrets_of(&self.client, &release.storage)
    }
}

fn secrets_of(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), &path_segment(namespace))
}

/// The content of a record; empty if the Secret has none.
pub(super) fn data_of(secret: &Secret) -> &[u8] {
    let data = secret.data.as_ref().and_then(|data| data.get(DATA_KEY));
    data.map_or(&[], |data| &data.0)
}

fn damaged(release: &RecordsKey, revision: u64, secret: &str, source: Arc<RecordError>) -> RecordStoreError {
    RecordStoreError::Damaged {
        release: release.clone(),
        revision,
        secret: secret.to_owned(),
        source,
    }
}

fn newest(records: &[StoredRecord]) -> Option<&StoredRecord> {
    records.iter().max_by_key(|record| record.revision)
}

/// When Helm, or this agent, changed a record last. Helm writes it when it creates or changes one.
fn changed_at(secret: &Secret) -> Option<Timestamp> {
    let label = |key| secret.labels().get(key);
    let seconds = label("modifiedAt").or_else(|| label("createdAt"))?;
    Timestamp::from_second(seconds.parse().ok()?).ok()
}

fn acceptance_of(secret: &Secret) -> Option<Acceptance> {
    Acceptance::parse(secret.labels().get(marks::ACCEPTANCE)?)
}

fn secret_of(namespace: &str, name: &str) -> String {
    format!("Secret {namespace}/{name}")
}

/// All records of the releases that may belong to a BundleDeployment: it has made one of their records, or one is not decoded. Of
/// damaged ones no owner is known.
fn candidates(
    all: &WatchedObjects<StoredRecord>,
    by_release: &ByRelease,
    decoded: &HashMap<NamespacedName, Decoded>,
    deployment: &str,
) -> Vec<StoredRecord> {
    let is_candidate = |name: &NamespacedName, record: &StoredRecord| {
        let known = decoded
            .get(name)
            .filter(|decoded| decoded.resource_version == record.resource_version);
        let owner = known.map(|decoded| decoded.content.as_ref().map(|revision| &revision.origin.owner));
        owner.is_none_or(|owner| match owner {
            Ok(Owner::BundleDeployment(owner)) => owner == deployment,
            Ok(Owner::Other) | Err(_) => false,
        })
    };
    let releases: BTreeSet<&RecordsKey> = all
        .iter()
        .filter(|(name, record)| is_candidate(name, record))
        .map(|(_, record)| &record.key)
        .collect();
    let names = releases
        .into_iter()
        .flat_map(|release| by_release.index().get(release));
    names.filter_map(|name| all.get(name)).cloned().collect()
}

/// The release of a change. What was decoded of a deleted record is forgotten.
fn affected(
    change: Change<StoredRecord>,
    decoded: &Mutex<HashMap<NamespacedName, Decoded>>,
) -> Option<RecordsKey> {
    if change.before == change.after {
        return None;
    }
    if change.after.is_none() {
        lock(decoded).remove(&change.name);
    }
    let record = change.after.or(change.before)?;
    Some(record.key)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use helmops_release::{
        history::{self, Chart},
        record::Info,
    };
    use serde_json::Value;

    use super::*;
    use crate::testing::server;

    fn record(release: &str, revision: u64, version: &str) -> (NamespacedName, StoredRecord) {
        let secret = record::secret_name(release, revision);
        let key = key(release).records();
        let stored = StoredRecord {
            key,
            secret: secret.clone(),
            revision,
            status: Status::Deployed,
            resource_version: version.to_owned(),
            on_delete: None,
        };
        (NamespacedName::new("shop", &*secret), stored)
    }

    fn key(release: &str) -> ReleaseKey {
        ReleaseKey::new("shop", release)
    }

    /// The record of a deployed revision, of a BundleDeployment or of a user's Helm.
    fn deployed(release: &str, deployment: Option<&str>) -> Record {
        let annotations = json!({ marks::BUNDLE_ID: deployment, marks::AGENT_NAMESPACE: "agent" });
        Record {
            name: release.to_owned(),
            namespace: "shop".to_owned(),
            revision: 1,
            info: Info {
                status: Status::Deployed,
                ..Info::default()
            },
            chart: json!({ "metadata": { "name": "web", "annotations": annotations } }),
            ..Record::default()
        }
    }

    /// The Secret of a record; a damaged one for `None`.
    fn secret(name: &str, record: Option<&Record>) -> Value {
        let data = record.map_or_else(|| b"%".to_vec(), |record| record.encode().unwrap());
        json!({
            "metadata": { "namespace": "shop", "name": name, "resourceVersion": "5" },
            "type": SECRET_TYPE, "data": { DATA_KEY: STANDARD.encode(data) },
        })
    }

    fn origin() -> Origin {
        Origin {
            bundle_deployment: "web".to_owned(),
            agent_namespace: "agent".to_owned(),
            service_account: "deployer".to_owned(),
            ..Origin::default()
        }
    }

    fn damaged_in(version: &str) -> Decoded {
        let error = Record::decode(b"%").unwrap_err();
        Decoded {
            resource_version: version.to_owned(),
            content: Err(Arc::new(error)),
        }
    }

    fn decoded(version: &str, owner: Owner) -> Decoded {
        let origin = history::Origin { owner, attempt: None };
        Decoded {
            resource_version: version.to_owned(),
            content: Ok(Revision {
                number: 1,
                status: Status::Deployed,
                origin,
                is_replaced: false,
                is_rollback: false,
                is_interrupted: false,
                acceptance: None,
                copies: None,
                forced_by: None,
                keeps_objects: false,
                failure: None,
                made_at: None,
                changed_at: None,
                chart: Chart::default(),
            }),
        }
    }

    #[test]
    fn only_releases_that_are_known_to_belong_to_others_are_left_out() {
        let of = |name: &str| Owner::BundleDeployment(name.to_owned());
        let cases = [
            ("web", 1, Some(decoded("5", of("web")))),
            // Passed on from one to the other: both records are needed to see whose it is now.
            ("passed", 1, Some(decoded("5", of("web")))),
            ("passed", 2, Some(decoded("5", of("other")))),
            ("outdated", 1, Some(decoded("4", of("other")))),
            ("new", 1, None),
            ("other", 1, Some(decoded("5", of("other")))),
            ("by-hand", 1, Some(decoded("5", Owner::Other))),
            ("damaged", 1, Some(damaged_in("5"))),
            ("repaired", 1, Some(damaged_in("4"))),
        ];
        let (cache, mut known) = (Cache::<_, ByRelease>::new(), HashMap::new());
        for (release, revision, decoded) in cases {
            let (name, stored) = record(release, revision, "5");
            known.extend(decoded.map(|decoded| (name.clone(), decoded)));
            cache.apply(0, Event::InitApply((name, Some(stored))));
        }
        cache.apply(0, Event::InitDone);
        let found = cache.read(|all, by_release| candidates(all, by_release, &known, "web"));
        let mut found: Vec<_> = found
            .iter()
            .map(|record| (&*record.key.name, record.revision))
            .collect();
        found.sort_unstable();
        let expected = [
            ("new", 1),
            ("outdated", 1),
            ("passed", 1),
            ("passed", 2),
            ("repaired", 1),
            ("web", 1),
        ];
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn a_damaged_record_is_read_once_for_each_version() {
        let (client, requests) = server(|_, path| {
            let name = path.rsplit('/').next().unwrap();
            let record = (!name.contains("damaged")).then(|| deployed("web", Some("web")));
            (200, secret(name, record.as_ref()))
        });
        let records = Records::new(client, "agent");
        for (release, revision) in [("web", 1), ("damaged", 1), ("damaged", 2), ("damaged-too", 1)] {
            let (name, stored) = record(release, revision, "5");
            records.stored.apply(0, Event::InitApply((name, Some(stored))));
        }
        records.stored.apply(0, Event::InitDone);
        let reads = async |expected: usize| {
            for _ in 0..3 {
                assert_eq!(
                    records.of_deployment("web").await.unwrap(),
                    [key("web").records()]
                );
                assert_eq!(lock(&requests).len(), expected);
            }
        };
        // The newest of each release.
        reads(3).await;
        let (name, newer) = record("damaged", 2, "6");
        let newer = Event::Apply((name.clone(), Some(newer)));
        records.stored.apply(0, newer);
        reads(4).await;
        for _ in 0..2 {
            let error = records.cached_history(&key("damaged")).await.unwrap_err();
            assert!(
                matches!(error, RecordStoreError::Damaged { revision: 1, .. }),
                "{error}"
            );
            assert_eq!(lock(&requests).len(), 5);
        }
        // It is forgotten with its Secret.
        assert!(lock(&records.decoded).contains_key(&name));
        let changes = records.stored.apply(0, Event::Delete((name.clone(), None)));
        let affected: Vec<_> = changes
            .into_iter()
            .filter_map(|change| affected(change, &records.decoded))
            .collect();
        assert_eq!(affected, [key("damaged").records()]);
        assert!(!lock(&records.decoded).contains_key(&name));
    }

    /// Helm itself finds Secrets by their labels only.
    #[tokio::test]
    async fn only_secrets_with_the_type_of_records_are_listed() {
        let (client, requests) = server(|_, _| {
            let list = json!({ "apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": [] });
            (200, list)
        });
        let records = Records::new(client, "agent");
        let history = records.current_history(&key("web")).await.unwrap();
        assert_eq!(history.newest(), None);
        let requests = lock(&requests).clone();
        assert_eq!(requests.len(), 1, "{requests:?}");
        for part in [
            "labelSelector=owner%3Dhelm%2Cname%3Dweb",
            "fieldSelector=type%3Dhelm.sh%2Frelease.v1",
        ] {
            assert!(requests[0].contains(part), "{requests:?}");
        }
    }

    #[tokio::test]
    async fn a_release_is_adopted_with_the_permissions_of_the_account_that_deploys() {
        let name = record::secret_name("web", 1);
        let stored = secret(&name, Some(&deployed("web", None)));
        let of_agent = stored.clone();
        let (agent, reads) = server(move |_, _| (200, of_agent.clone()));
        let records = Records::new(agent, "agent");
        for (status, dry_run) in [(200, true), (200, false), (403, true), (403, false), (500, false)] {
            let written = stored.clone();
            let (deployer, writes) = server(move |_, _| match status {
                200 => (200, written.clone()),
                code => (code, json!({ "kind": "Status", "code": code, "message": "no" })),
            });
            let adopted = records.adopt(&deployer, &key("web"), 1, &origin(), dry_run).await;
            match (status, adopted) {
                (200, adopted) => assert!(adopted.unwrap()),
                (403, Err(AdoptError::Forbidden { secret, source })) => {
                    assert_eq!(secret, format!("shop/{name}"));
                    assert_eq!(source.to_string(), "no (403)");
                }
                (500, Err(AdoptError::Record(RecordStoreError::Call(_)))) => {}
                (status, adopted) => panic!("{status}: {adopted:?}"),
            }
            let writes = lock(&writes).clone();
            let start = format!("PUT /api/v1/namespaces/shop/secrets/{name}?");
            assert!(writes.len() == 1 && writes[0].starts_with(&start), "{writes:?}");
            assert_eq!(writes[0].contains("dryRun=All"), dry_run, "{writes:?}");
        }
        // The agent itself only reads.
        let reads = lock(&reads).clone();
        assert!(
            reads.len() == 5 && reads.iter().all(|read| read.starts_with("GET ")),
            "{reads:?}"
        );
    }

    #[tokio::test]
    async fn what_is_not_deployed_any_more_is_not_adopted() {
        let superseded = deployed("web", None).with_status(Status::Superseded, String::new());
        let stored = secret(&record::secret_name("web", 1), Some(&superseded));
        let (client, requests) = server(move |_, _| (200, stored.clone()));
        let records = Records::new(client.clone(), "agent");
        let adopted = records.adopt(&client, &key("web"), 1, &origin(), false).await;
        assert!(!adopted.unwrap());
        assert_eq!(lock(&requests).len(), 1);
    }
}
