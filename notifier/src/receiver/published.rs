//! The Secret with the tokens and paths of all Receivers, for the process that receives requests.

use std::{collections::BTreeMap, sync, time::Duration};

use helmops_api::{Decoded, NamespacedName, Receiver};
use helmops_kube::ObjectCache;
use helmops_notify::push::{Entry, GOOGLE_KEYS, MAX_ENTRIES_BYTES, SECRET};
use helmops_process::lock;
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::ObjectMeta};
use tokio::{sync::Mutex, time::Instant};

use super::error::ReceiverError;
use crate::writes::MANAGER;

/// How long the Secret counts as unchanged by others.
const FRESH: Duration = Duration::from_mins(1);

/// Attempts to write, if another client has changed the Secret.
const ATTEMPTS: usize = 3;

/// The Secret. The notifier alone writes it; one task at a time.
pub struct Published {
    client: Client,
    namespace: String,
    /// The Receivers that exist.
    receivers: ObjectCache<Decoded<Receiver>>,
    known: Mutex<Option<Known>>,
    /// Why the keys of Google were not fetched, if the last attempt has failed.
    google_error: sync::Mutex<Option<String>>,
}

/// The Secret as it was read or written last.
struct Known {
    /// `None` if it does not exist.
    secret: Option<Secret>,
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
            known: Mutex::new(None),
            google_error: sync::Mutex::default(),
        }
    }

    /// Publishes a Receiver under a path, and removes its other paths.
    ///
    /// # Errors
    /// If there are too many, or the API server rejects the write.
    pub async fn set(
        &self,
        receiver: &NamespacedName,
        digest: &str,
        entry: &Entry,
    ) -> Result<(), ReceiverError> {
        self.change(|data| with(data, receiver, digest, entry)).await
    }

    /// Removes all paths of a Receiver.
    ///
    /// # Errors
    /// If the API server rejects the write.
    pub async fn remove(&self, receiver: &NamespacedName) -> Result<(), ReceiverError> {
        self.change(|data| Ok(without(data, receiver))).await
    }

    /// Sets the keys of Google.
    ///
    /// # Errors
    /// If the API server rejects the write.
    pub async fn set_google_keys(&self, keys: &[u8]) -> Result<(), ReceiverError> {
        self.change(|data| {
            let mut data = data.clone();
            data.insert(GOOGLE_KEYS.to_owned(), ByteString(keys.to_owned()));
            Ok(data)
        })
        .await
    }

    /// Whether the Secret had keys of Google when it was read or written last.
    pub async fn has_google_keys(&self) -> bool {
        let known = self.known.lock().await;
        let secret = known.as_ref().and_then(|known| known.secret.as_ref());
        let data = secret.and_then(|secret| secret.data.as_ref());
        data.is_some_and(|data| data.contains_key(GOOGLE_KEYS))
    }

    /// Remembers why the keys of Google were not fetched; `None` if they were.
    pub fn set_google_error(&self, error: Option<String>) {
        *lock(&self.google_error) = error;
    }

    /// Why the keys of Google were not fetched, if the last attempt of this process has failed.
    pub fn google_error(&self) -> Option<String> {
        lock(&self.google_error).clone()
    }

    /// Changes the Secret, unless it is as desired.
    async fn change(
        &self,
        desired: impl Fn(&Data) -> Result<Data, ReceiverError>,
    ) -> Result<(), ReceiverError> {
        let mut known = self.known.lock().await;
        for attempt in 1.. {
            let fresh = known.take().filter(|known| known.at.elapsed() < FRESH);
            let observed = match fresh {
                Some(known) => known,
                None => self.read().await?,
            };
            let data = observed
                .secret
                .as_ref()
                .and_then(|secret| secret.data.clone())
                .unwrap_or_default();
            let mut changed = desired(&data)?;
            // A Receiver may have been deleted while no notifier ran.
            changed.retain(|key, value| {
                key == GOOGLE_KEYS || owner(value).is_some_and(|owner| self.exists(&owner))
            });
            if changed == data {
                *known = Some(observed);
                break;
            }
            match self.write(observed.secret, changed).await {
                Ok(secret) => {
                    *known = Some(Known {
                        secret: Some(secret),
                        at: Instant::now(),
                    });
                    break;
                }
                Err(error) if attempt < ATTEMPTS && (error.is_conflict() || error.exists_already()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn exists(&self, receiver: &NamespacedName) -> bool {
        self.receivers.value(receiver).is_some()
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn read(&self) -> Result<Known, ReceiverError> {
        let secret = bounded(self.api().get_opt(SECRET)).await;
        Ok(Known {
            secret: secret.map_err(CallError::of("read", self.shown()))?,
            at: Instant::now(),
        })
    }

    async fn write(&self, observed: Option<Secret>, data: Data) -> Result<Secret, CallError> {
        let exists = observed.is_some();
        let mut secret = observed.unwrap_or_else(new_secret);
        secret.data = Some(data);
        secret.metadata.managed_fields = None;
        let written = if exists {
            bounded(self.api().replace(SECRET, &MANAGER.post(), &secret)).await
        } else {
            bounded(self.api().create(&MANAGER.post(), &secret)).await
        };
        written.map_err(CallError::of("write", self.shown()))
    }

    fn shown(&self) -> String {
        format!("the Secret {}/{SECRET}", self.namespace)
    }
}

fn new_secret() -> Secret {
    let labels = [
        ("app.kubernetes.io/name", "helmops-receiver"),
        ("app.kubernetes.io/part-of", "helmops"),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            labels: Some(
                labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

/// The Receiver of an entry.
fn owner(value: &ByteString) -> Option<NamespacedName> {
    let entry = Entry::parse(&value.0).ok()?;
    Some(NamespacedName::new(entry.namespace, entry.name))
}

fn without(data: &Data, receiver: &NamespacedName) -> Data {
    let mut data = data.clone();
    data.retain(|key, value| key == GOOGLE_KEYS || owner(value).is_none_or(|owner| owner != *receiver));
    data
}

fn with(data: &Data, receiver: &NamespacedName, digest: &str, entry: &Entry) -> Result<Data, ReceiverError> {
    let mut data = without(data, receiver);
    data.insert(digest.to_owned(), ByteString(entry.encode()));
    let bytes: usize = data.iter().map(|(key, value)| key.len() + value.0.len()).sum();
    if bytes > MAX_ENTRIES_BYTES {
        return Err(ReceiverError::TooMany);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use helmops_notify::push::path_digest;

    use super::*;

    fn entry(name: &str, token: &str) -> Entry {
        Entry {
            namespace: "default".into(),
            name: name.into(),
            r#type: "generic".into(),
            token: token.into(),
            ..Entry::default()
        }
    }

    fn set(data: &Data, name: &str, token: &str) -> Result<Data, ReceiverError> {
        let digest = path_digest(token.as_bytes(), "default", name);
        with(
            data,
            &NamespacedName::new("default", name),
            &digest,
            &entry(name, token),
        )
    }

    #[test]
    fn a_new_token_replaces_the_path_and_other_receivers_stay() {
        let mut data = Data::from([(GOOGLE_KEYS.to_owned(), ByteString(b"keys".to_vec()))]);
        data = set(&data, "a", "0123456789abcdef").unwrap();
        data = set(&data, "b", "0123456789abcdef").unwrap();
        assert_eq!(data.len(), 3);
        let changed = set(&data, "a", "another token of a").unwrap();
        assert_eq!(changed.len(), 3);
        assert_ne!(
            changed.keys().collect::<Vec<_>>(),
            data.keys().collect::<Vec<_>>()
        );
        assert_eq!(set(&changed, "a", "another token of a").unwrap(), changed);
        let removed = without(&changed, &NamespacedName::new("default", "a"));
        assert_eq!(removed.len(), 2);
        assert!(removed.contains_key(GOOGLE_KEYS));
    }

    #[test]
    fn entries_are_bounded() {
        let mut data = Data::new();
        let token = "x".repeat(20_000);
        for index in 0..1_000 {
            match set(&data, &index.to_string(), &token) {
                Ok(changed) => data = changed,
                Err(error) => {
                    assert!(
                        index > 40 && error.to_string().contains("900 KiB"),
                        "{index} {error}"
                    );
                    return;
                }
            }
        }
        panic!("never full");
    }
}
