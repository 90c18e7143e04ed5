//! The records of a release during one reconciliation.

use std::sync::Mutex;

use helmops_process::lock;
use helmops_release::{history::History, names::ReleaseKey};

use super::{RecordStoreError, Records};

/// The records of one release, for one reconciliation: listed when they are needed, and again only after this reconciliation has changed
/// them. What others change meanwhile is noticed by Helm, or in the next reconciliation.
pub struct ReleaseRecords<'r> {
    records: &'r Records,
    release: ReleaseKey,
    listed: Mutex<Option<History>>,
}

impl<'r> ReleaseRecords<'r> {
    /// Lists nothing yet.
    pub const fn new(records: &'r Records, release: ReleaseKey) -> Self {
        Self {
            records,
            release,
            listed: Mutex::new(None),
        }
    }

    /// The history of the release, as the API server shows it: the basis of everything that changes the release.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub async fn history(&self) -> Result<History, RecordStoreError> {
        let listed = lock(&self.listed).clone();
        if let Some(listed) = listed {
            return Ok(listed);
        }
        let history = self.records.current_history(&self.release).await?;
        *lock(&self.listed) = Some(history.clone());
        Ok(history)
    }

    /// Does something that may change the records, also if it fails or is not completed.
    pub async fn changed_by<T>(&self, change: impl Future<Output = T>) -> T {
        let _forgotten = Forget(&self.listed);
        change.await
    }
}

/// Forgets the listed records at the end of a change.
struct Forget<'f>(&'f Mutex<Option<History>>);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::testing::server;

    #[tokio::test(start_paused = true)]
    async fn records_are_listed_again_after_a_change_only() {
        let (client, requests) = server(|_, _| {
            let list = json!({ "apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": [] });
            (200, list)
        });
        let all = Records::new(client, "agent");
        let release = ReleaseKey::parse("shop/web").unwrap();
        let records = ReleaseRecords::new(&all, release);
        let listed = async || {
            for _ in 0..3 {
                records.history().await.unwrap();
            }
            lock(&requests).len()
        };
        assert_eq!(listed().await, 1);
        assert_eq!(records.changed_by(async { "done" }).await, "done");
        assert_eq!(listed().await, 2);
        // What is cancelled may have changed them too.
        let endless = records.changed_by(std::future::pending::<()>());
        timeout(Duration::from_secs(1), endless).await.unwrap_err();
        assert_eq!(listed().await, 3);
    }
}
