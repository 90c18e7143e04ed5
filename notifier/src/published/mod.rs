//! The Secret with the tokens and paths of all Receivers, for the process that receives requests.

mod error;

use std::{
    collections::{BTreeMap, HashMap},
    mem::take,
    sync::{
        self, Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use helmops_api::{Decoded, NamespacedName, Receiver};
use helmops_kube::ObjectCache;
use helmops_notify::push::{Entry, GOOGLE_KEYS, MAX_ENTRIES_BYTES, MAX_NAMESPACE_BYTES, SECRET};
use helmops_process::lock;
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use tokio::{
    sync::{Mutex, oneshot, oneshot::error::TryRecvError},
    time::{Instant, sleep_until},
};

pub use self::error::PublishError;
use crate::context::MANAGER;

/// How long the Secret counts as unchanged by others.
const FRESH: Duration = Duration::from_mins(1);

/// Attempts to write, if another client has changed the Secret.
const ATTEMPTS: usize = 3;

/// Time between two writes: each is of the whole Secret, and sends it to each replica that receives requests.
const INTERVAL: Duration = Duration::from_secs(1);

/// The Secret. The notifier alone writes it; one task at a time, for all that wait.
pub struct Published {
    client: Client,
    namespace: String,
    /// The Receivers that exist.
    receivers: ObjectCache<Decoded<Receiver>>,
    waiting: sync::Mutex<Vec<Waiting>>,
    /// Held by the task that writes, also while it waits for the time of its write.
    turn: Mutex<()>,
    /// Held during requests only.
    state: Mutex<State>,
    /// Whether the Secret had keys of Google when it was read or written last.
    has_google_keys: AtomicBool,
    /// What was published of each Receiver; `None` while it is read.
    current: sync::Mutex<HashMap<NamespacedName, Option<Current>>>,
    /// Why the keys of Google were not fetched, if the last attempt has failed.
    google_error: sync::Mutex<Option<String>>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// When the next write may start.
    next: Option<Instant>,
}

/// The Secret as it was read or written last.
struct Known {
    secret: Secret,
    at: Instant,
}

/// A change, and where its result is awaited.
struct Waiting {
    change: Change,
    done: oneshot::Sender<Result<(), PublishError>>,
}

#[derive(Clone)]
enum Change {
    Set(NamespacedName, String, Entry),
    Remove(NamespacedName),
    GoogleKeys(Vec<u8>),
}

/// What was published of a Receiver. Only its digest: tokens are in memory once, as parts of the Secret.
struct Current {
    uid: Option<String>,
    generation: Option<i64>,
    digest: String,
    at: Instant,
}

type Data = BTreeMap<String, ByteString>;

impl Published {
    /// The Secret in the namespace of helmops.
    pub fn new(client: Client, namespace: String, receivers: ObjectCache<Decoded<Receiver>>) -> Self {
        Self {
            client,
            namespace,
            receivers,
            waiting: sync::Mutex::default(),
            turn: Mutex::default(),
            state: Mutex::default(),
            has_google_keys: AtomicBool::new(false),
            current: sync::Mutex::default(),
            google_error: sync::Mutex::default(),
        }
    }

    /// The digest under which a Receiver is published, if neither its spec nor its Secret have changed since, and the Secret of all
    /// Receivers still has it. After `max_age` that is not known any more.
    ///
    /// # Errors
    /// If the Secret of all Receivers cannot be read.
    pub async fn current(
        &self,
        receiver: &Receiver,
        name: &NamespacedName,
        max_age: Duration,
    ) -> Result<Option<String>, PublishError> {
        let digest = match lock(&self.current).get(name) {
            Some(Some(current)) if current.is_of(receiver) && current.at.elapsed() < max_age => {
                current.digest.clone()
            }
            _ => return Ok(None),
        };
        let mut state = self.state.lock().await;
        let known = self.known(&mut state).await?;
        let found = state.known.insert(known).secret.data.as_ref();
        let found = found.and_then(|data| data.get(&digest)).and_then(owner);
        Ok((found.as_ref() == Some(name)).then_some(digest))
    }

    /// A Receiver and its Secret are read now, to be published.
    pub fn reading(&self, receiver: &NamespacedName) {
        lock(&self.current).insert(receiver.clone(), None);
    }

    /// The Secret of a Receiver has changed: it is read again at the next reconciliation, also if it is being read now.
    pub fn forget(&self, receiver: &NamespacedName) {
        lock(&self.current).remove(receiver);
    }

    /// Publishes a Receiver under a path, and removes its other paths. If there are too many, it is removed.
    ///
    /// # Errors
    /// If there are too many, or the API server rejects the write.
    pub async fn set(
        &self,
        receiver: &Receiver,
        name: &NamespacedName,
        digest: &str,
        entry: Entry,
    ) -> Result<(), PublishError> {
        let change = Change::Set(name.clone(), digest.to_owned(), entry);
        self.change(change).await?;
        if let Some(current) = lock(&self.current).get_mut(name) {
            *current = Some(Current {
                uid: receiver.metadata.uid.clone(),
                generation: receiver.metadata.generation,
                digest: digest.to_owned(),
                at: Instant::now(),
            });
        }
        Ok(())
    }

    /// Removes all paths of a Receiver.
    ///
    /// # Errors
    /// If the API server rejects the write.
    pub async fn remove(&self, receiver: &NamespacedName) -> Result<(), PublishError> {
        self.forget(receiver);
        self.change(Change::Remove(receiver.clone())).await
    }

    /// Sets the keys of Google.
    ///
    /// # Errors
    /// If the API server rejects the write.
    pub async fn set_google_keys(&self, keys: &[u8]) -> Result<(), PublishError> {
        self.change(Change::GoogleKeys(keys.to_owned())).await
    }

    /// Whether the Secret had keys of Google when it was read or written last.
    pub fn has_google_keys(&self) -> bool {
        self.has_google_keys.load(Ordering::Relaxed)
    }

    /// Remembers why the keys of Google were not fetched; `None` if they were.
    pub fn set_google_error(&self, error: Option<String>) {
        *lock(&self.google_error) = error;
    }

    /// Why the keys of Google were not fetched, if the last attempt of this process has failed.
    pub fn google_error(&self) -> Option<String> {
        lock(&self.google_error).clone()
    }

    /// Changes the Secret, unless it is as desired, together with the changes of others that wait.
    async fn change(&self, change: Change) -> Result<(), PublishError> {
        loop {
            let (done, mut result) = oneshot::channel();
            let change = change.clone();
            lock(&self.waiting).push(Waiting { change, done });
            let turn = self.turn.lock().await;
            let mut written = result.try_recv();
            if matches!(written, Err(TryRecvError::Empty)) {
                self.write_all().await;
                written = result.try_recv();
            }
            drop(turn);
            // Otherwise the task that wrote for this one was aborted.
            if let Ok(result) = written {
                return result;
            }
        }
    }

    /// Makes all changes that wait, and those that come until the write starts.
    async fn write_all(&self) {
        let mut batch = Vec::new();
        let mut attempts = 0;
        let error = loop {
            match self.write(&mut batch).await {
                Ok(Some(next)) => sleep_until(next).await,
                Ok(None) => return,
                Err(PublishError::Call(error)) if error.is_conflict() && attempts + 1 < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => break error,
            }
        };
        let error = Arc::new(error);
        for one in batch.into_iter().chain(take(&mut *lock(&self.waiting))) {
            let _ = one.done.send(Err(PublishError::Shared(Arc::clone(&error))));
        }
    }

    /// Makes all changes that wait, together with those of `batch`. Returns the time when that is possible, if it is too early.
    async fn write(&self, batch: &mut Vec<Waiting>) -> Result<Option<Instant>, PublishError> {
        let mut state = self.state.lock().await;
        let known = self.known(&mut state).await?;
        batch.append(&mut lock(&self.waiting));
        // No reconciliation waits for it any more: it may be outdated, such as a token that was replaced since.
        batch.retain(|one| !one.done.is_closed());
        let mut entries = Entries::of(known.secret.data.as_ref(), |receiver| self.exists(receiver));
        let results: Vec<_> = batch.iter().map(|one| entries.change(&one.change)).collect();
        let is_changed = known.secret.data.as_ref().unwrap_or(&Data::new()) != &entries.data;
        let too_early = state.next.filter(|next| is_changed && *next > Instant::now());
        if too_early.is_some() {
            state.known = Some(known);
            return Ok(too_early);
        }
        let known = if is_changed {
            state.next = Some(Instant::now() + INTERVAL);
            self.replace(known.secret, entries.data).await?
        } else {
            known
        };
        state.known = Some(known);
        for (one, result) in batch.drain(..).zip(results) {
            // The receiving end is gone if its task was aborted.
            let _ = one.done.send(result);
        }
        Ok(None)
    }

    /// Takes the Secret out of the state, or reads it if it was too long ago.
    async fn known(&self, state: &mut State) -> Result<Known, PublishError> {
        match state.known.take().filter(Known::is_fresh) {
            Some(known) => Ok(known),
            None => self.read().await,
        }
    }

    fn exists(&self, receiver: &NamespacedName) -> bool {
        self.receivers.value(receiver).is_some()
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn read(&self) -> Result<Known, PublishError> {
        let secret = bounded(self.api().get_opt(SECRET)).await;
        let secret = secret.map_err(CallError::of("read", self.shown()))?;
        let secret = secret.ok_or_else(|| PublishError::NotInstalled(self.namespace.clone()))?;
        Ok(self.known_now(secret))
    }

    async fn replace(&self, observed: Secret, data: Data) -> Result<Known, CallError> {
        let mut secret = observed;
        secret.data = Some(data);
        secret.metadata.managed_fields = None;
        let written = bounded(self.api().replace(SECRET, &MANAGER.post(), &secret)).await;
        written
            .map(|secret| self.known_now(secret))
            .map_err(CallError::of("write", self.shown()))
    }

    /// The Secret as the API server has just sent it.
    fn known_now(&self, secret: Secret) -> Known {
        let has_google_keys = secret
            .data
            .as_ref()
            .is_some_and(|data| data.contains_key(GOOGLE_KEYS));
        self.has_google_keys.store(has_google_keys, Ordering::Relaxed);
        Known {
            secret,
            at: Instant::now(),
        }
    }

    fn shown(&self) -> String {
        format!("the Secret {}/{SECRET}", self.namespace)
    }
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }
}

impl Current {
    fn is_of(&self, receiver: &Receiver) -> bool {
        (&self.uid, self.generation) == (&receiver.metadata.uid, receiver.metadata.generation)
    }
}

/// The data of the Secret, and whose they are.
#[derive(Default)]
struct Entries {
    data: Data,
    /// The path digests of each Receiver.
    digests: HashMap<NamespacedName, Vec<String>>,
    /// The bytes of the entries of each namespace.
    bytes: HashMap<String, usize>,
    total: usize,
}

impl Entries {
    /// Without Receivers that do not exist: they may have been deleted while no notifier ran.
    fn of(data: Option<&Data>, exists: impl Fn(&NamespacedName) -> bool) -> Self {
        let mut entries = Self::default();
        for (key, value) in data.into_iter().flatten() {
            if key == GOOGLE_KEYS {
                entries.set_google_keys(&value.0);
            } else if let Some(owner) = owner(value).filter(&exists) {
                entries.insert(&owner, key, value.clone());
            }
        }
        entries
    }

    fn change(&mut self, change: &Change) -> Result<(), PublishError> {
        match change {
            Change::Set(receiver, digest, entry) => return self.set(receiver, digest, entry),
            Change::Remove(receiver) => self.remove(receiver),
            Change::GoogleKeys(keys) => self.set_google_keys(keys),
        }
        Ok(())
    }

    fn set_google_keys(&mut self, keys: &[u8]) {
        self.data
            .insert(GOOGLE_KEYS.to_owned(), ByteString(keys.to_owned()));
    }

    /// A namespace may have a fixed share, and three times what is left: so there is always some left for another one. What it has
    /// already it keeps, so that others cannot prevent the rotation of a token.
    fn set(&mut self, receiver: &NamespacedName, digest: &str, entry: &Entry) -> Result<(), PublishError> {
        let namespace = &receiver.namespace;
        let before = self.bytes_of(namespace);
        // It is not kept if the new one is refused: its old token would stay valid.
        self.remove(receiver);
        let value = ByteString(entry.encode());
        let size = digest.len() + value.0.len();
        let left = MAX_ENTRIES_BYTES.saturating_sub(self.total + size);
        let share = before.max(MAX_NAMESPACE_BYTES.min(3 * left));
        if self.total + size > MAX_ENTRIES_BYTES || self.bytes_of(namespace) + size > share {
            return Err(PublishError::TooMany(share));
        }
        self.insert(receiver, digest, value);
        Ok(())
    }

    fn insert(&mut self, receiver: &NamespacedName, digest: &str, value: ByteString) {
        let size = digest.len() + value.0.len();
        self.total += size;
        *self.bytes.entry(receiver.namespace.clone()).or_default() += size;
        let digests = self.digests.entry(receiver.clone()).or_default();
        digests.push(digest.to_owned());
        self.data.insert(digest.to_owned(), value);
    }

    fn remove(&mut self, receiver: &NamespacedName) {
        for digest in self.digests.remove(receiver).unwrap_or_default() {
            let value = self.data.remove(&digest).unwrap_or_default();
            let size = digest.len() + value.0.len();
            self.total -= size;
            if let Some(bytes) = self.bytes.get_mut(&receiver.namespace) {
                *bytes -= size;
            }
        }
    }

    fn bytes_of(&self, namespace: &str) -> usize {
        self.bytes.get(namespace).copied().unwrap_or_default()
    }
}

/// The Receiver of an entry.
fn owner(value: &ByteString) -> Option<NamespacedName> {
    let entry = Entry::parse(&value.0).ok()?;
    Some(NamespacedName::new(entry.namespace, entry.name))
}

#[cfg(test)]
mod tests;
