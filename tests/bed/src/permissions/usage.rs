//! The folder in which every control plane records the permissions that were used.
//!
//! Some control planes stop only after their tests, so the reader of the folder waits for them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{UsedPermission, used};
use crate::files;
use crate::wait::eventually;

/// The environment variable with the folder; nothing is recorded without it.
const FOLDER: &str = "HELMOPS_PERMISSIONS";
/// Locked by control planes that have not recorded anything yet (shared), and by the reader (exclusive).
const LOCK: &str = "lock";
/// A control plane that has not recorded anything by then hangs: it stops faster than that.
const DEADLINE: Duration = Duration::from_mins(2);
/// Extension of a complete file.
const COMPLETE: &str = "json";

/// Held by a control plane that will record the used permissions; [`read`] waits for it.
#[derive(Debug)]
pub struct UsageRecorder {
    folder: PathBuf,
    _lock: File,
}

impl UsageRecorder {
    /// `None` if the environment variable is not set.
    pub fn from_env() -> Result<Option<Self>> {
        let folder = std::env::var_os(FOLDER);
        folder.map(|folder| Self::new(Path::new(&folder))).transpose()
    }

    fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let lock = files::open_lock(&folder.join(LOCK))?;
        lock.lock_shared()?;
        Ok(Self {
            folder: folder.to_owned(),
            _lock: lock,
        })
    }

    /// Records the used permissions, according to an audit log, in a new file.
    pub fn record(self, log: &Path) -> Result<()> {
        let json = serde_json::to_vec(&used(log)?)?;
        // The reader ignores it until it has the extension of a complete file.
        let mut file = tempfile::Builder::new()
            .suffix(".part")
            .tempfile_in(&self.folder)?;
        file.write_all(&json)?;
        let complete = file.path().with_extension(COMPLETE);
        file.persist_noclobber(complete)?;
        Ok(())
    }
}

/// The permissions that all control planes recorded.
///
/// # Errors
/// If one of them does not stop.
pub async fn read(folder: &Path) -> Result<BTreeSet<UsedPermission>> {
    read_within(folder, DEADLINE).await
}

async fn read_within(folder: &Path, deadline: Duration) -> Result<BTreeSet<UsedPermission>> {
    let lock = files::open_lock(&folder.join(LOCK))?;
    eventually("all control planes to stop", deadline, async || {
        lock.try_lock().context("a control plane still holds the lock")
    })
    .await?;
    let mut used = BTreeSet::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == COMPLETE) {
            let recorded: BTreeSet<UsedPermission> = serde_json::from_slice(&std::fs::read(file)?)?;
            used.extend(recorded);
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A log of one request, for this resource.
    fn log(folder: &Path, resource: &str) -> PathBuf {
        let event = json!({
            "verb": "get",
            "userAgent": "helmops-web/1",
            "requestReceivedTimestamp": "",
            "user": { "username": "system:serviceaccount:helmops-system:web" },
            "objectRef": { "resource": resource },
            "annotations": { "authorization.k8s.io/decision": "forbid" },
        });
        let log = folder.join(format!("{resource}.log"));
        std::fs::write(&log, event.to_string()).unwrap();
        log
    }

    async fn resources(folder: &Path) -> Vec<String> {
        let used = read_within(folder, SOON).await.unwrap();
        used.into_iter().map(|used| used.permission.resource).collect()
    }

    #[tokio::test]
    async fn all_complete_files_are_read() {
        let (logs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let below = folder.path().join("permissions");
        for resource in ["pods", "secrets"] {
            let recorder = UsageRecorder::new(&below).unwrap();
            recorder.record(&log(logs.path(), resource)).unwrap();
        }
        // The file of a control plane that was killed while it wrote.
        std::fs::write(below.join("killed.part"), "[{\"acc").unwrap();
        assert_eq!(resources(&below).await, ["pods", "secrets"]);
    }

    #[tokio::test]
    async fn read_waits_for_all_control_planes() {
        let (logs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [early, late] = [(); 2].map(|()| UsageRecorder::new(folder.path()).unwrap());
        early.record(&log(logs.path(), "pods")).unwrap();
        let error = read_within(folder.path(), Duration::from_millis(100))
            .await
            .unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("waiting for all control planes to stop"),
            "{error}"
        );
        let record = async { late.record(&log(logs.path(), "secrets")).unwrap() };
        let (found, ()) = tokio::join!(resources(folder.path()), record);
        assert_eq!(found, ["pods", "secrets"]);
    }
}
