//! The Secrets of records that were read last: a deployment needs the same one several times.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use helmops_api::NamespacedName;
use helmops_process::lock;
use k8s_openapi::api::core::v1::Secret;

use super::store::data_of;

/// How many are kept: some more than deployments at a time.
const MAX: usize = 32;
/// Bytes of one that is kept. Most records have fewer; 32 of them take 2 MiB.
const MAX_BYTES: usize = 64 << 10;

/// Some Secrets, in the version in which they were read.
#[derive(Debug, Default)]
pub struct RecentSecrets(Mutex<VecDeque<(NamespacedName, Arc<Secret>)>>);

impl RecentSecrets {
    /// A Secret in this version, if it is kept.
    pub fn get(&self, name: &NamespacedName, version: &str) -> Option<Arc<Secret>> {
        let recent = lock(&self.0);
        let found = recent.iter().find(|(kept, _)| kept == name)?;
        let secret = Arc::clone(&found.1);
        (secret.metadata.resource_version.as_deref() == Some(version)).then_some(secret)
    }

    /// Forgets a Secret.
    pub fn remove(&self, name: &NamespacedName) {
        lock(&self.0).retain(|(kept, _)| kept != name);
    }

    /// Keeps a Secret, in place of another version, and of the one that was read first.
    pub fn insert(&self, name: NamespacedName, secret: &Arc<Secret>) {
        let mut recent = lock(&self.0);
        recent.retain(|(kept, _)| *kept != name);
        if data_of(secret).len() > MAX_BYTES {
            return;
        }
        if recent.len() == MAX {
            recent.pop_front();
        }
        recent.push_back((name, Arc::clone(secret)));
    }
}

#[cfg(test)]
mod tests {
    use helmops_release::record::DATA_KEY;
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(version: &str, bytes: usize) -> Arc<Secret> {
        let mut secret = Secret::default();
        secret.metadata.resource_version = Some(version.to_owned());
        secret.data = Some([(DATA_KEY.to_owned(), ByteString(vec![0; bytes]))].into());
        Arc::new(secret)
    }

    fn name(number: usize) -> NamespacedName {
        NamespacedName::new("shop", format!("web{number}"))
    }

    #[test]
    fn only_the_version_that_was_read_is_found() {
        let recent = RecentSecrets::default();
        recent.insert(name(0), &secret("1", 10));
        recent.insert(name(0), &secret("2", 10));
        assert!(recent.get(&name(0), "1").is_none());
        assert!(recent.get(&name(0), "2").is_some());
        assert!(recent.get(&name(1), "2").is_none());
    }

    #[test]
    fn few_and_small_ones_are_kept() {
        let recent = RecentSecrets::default();
        for number in 0..=MAX {
            recent.insert(name(number), &secret("1", MAX_BYTES));
        }
        assert!(recent.get(&name(0), "1").is_none());
        assert!(recent.get(&name(MAX), "1").is_some());
        recent.insert(name(MAX), &secret("2", MAX_BYTES + 1));
        assert!(recent.get(&name(MAX), "1").is_none() && recent.get(&name(MAX), "2").is_none());
    }
}
