//! The Receivers that accept requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use helmops_api::NamespacedName;
use helmops_notify::push::{Credentials, Entry, GOOGLE_KEYS, GoogleKeys, ReceiverType, RequestDigest};
use helmops_process::Throttle;
use k8s_openapi::ByteString;
use tokio::sync::watch;

/// Minimum interval between log lines about one Receiver that a sender can cause.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// A Receiver that accepts requests.
#[derive(Debug)]
pub struct Hook {
    pub receiver: NamespacedName,
    pub receiver_type: ReceiverType,
    /// What a sender must prove.
    pub credentials: Credentials,
    /// The accepted events.
    pub events: Vec<String>,
    pub is_suspended: bool,
    /// Limits the log lines about it.
    pub log: Throttle,
    /// The entry, to see whether it has changed.
    encoded: Vec<u8>,
}

/// All Receivers, and the keys of Google.
#[derive(Debug, Default)]
pub struct Table {
    /// By the digest of the digest in their path. So the time of a lookup depends on nothing that leads to a path.
    hooks: HashMap<RequestDigest, Arc<Hook>>,
    /// The keys of Google, if any Receiver needs them.
    pub keys: Arc<GoogleKeys>,
}

impl Table {
    /// The table for the content of the Secret. A Receiver that has not changed keeps its state.
    pub fn of(data: &BTreeMap<String, ByteString>, previous: &Self) -> Self {
        let mut table = Self::default();
        for (key, ByteString(bytes)) in data {
            if key == GOOGLE_KEYS {
                match GoogleKeys::parse(bytes) {
                    Ok(keys) => table.keys = Arc::new(keys),
                    Err(error) => tracing::error!(%error, "the keys of Google in the Secret cannot be read"),
                }
                continue;
            }
            let digest = lookup_key(key);
            let unchanged = previous.hooks.get(&digest).filter(|hook| hook.encoded == *bytes);
            let hook = unchanged.cloned().or_else(|| new_hook(bytes).map(Arc::new));
            table.hooks.extend(hook.map(|hook| (digest, hook)));
        }
        table
    }

    /// The Receiver with this digest in its path.
    pub fn get(&self, path_digest: &str) -> Option<&Arc<Hook>> {
        self.hooks.get(&lookup_key(path_digest))
    }

    /// The number of Receivers.
    pub fn len(&self) -> usize {
        self.hooks.len()
    }
}

fn lookup_key(path_digest: &str) -> RequestDigest {
    RequestDigest::of(path_digest, None, b"")
}

fn new_hook(encoded: &[u8]) -> Option<Hook> {
    match Entry::decode(encoded) {
        Ok((entry, receiver_type, credentials)) => Some(Hook {
            receiver: NamespacedName::new(entry.namespace, entry.name),
            receiver_type,
            credentials,
            events: entry.events,
            is_suspended: entry.suspended,
            log: Throttle::new(LOG_INTERVAL),
            encoded: encoded.to_owned(),
        }),
        Err(error) => {
            tracing::error!(%error, "an entry of the Secret cannot be used; the notifier may have another version");
            None
        }
    }
}

/// The current table; `None` until the Secret was read.
pub type SharedTable = watch::Sender<Option<Arc<Table>>>;
