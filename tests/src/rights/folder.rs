//! The folder in which every control plane leaves what was used on it.
//!
//! Some control planes end only after the tests that they were for: who reads the folder waits for them.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Used, used};
use crate::wait::eventually;

/// Names the folder, where somebody wants to know.
const FOLDER: &str = "HELMOPS_RIGHTS";
/// Locked by those who have not left anything yet, together; and by the one who reads, alone.
const LOCK: &str = "lock";
/// Whoever has not left anything by then is stuck: a control plane stops in less.
const DEADLINE: Duration = Duration::from_mins(2);
/// How a file ends that is whole.
const WHOLE: &str = "json";

/// Of a control plane that will leave what was used on it: nobody reads the folder before.
#[derive(Debug)]
pub struct Leaver {
    folder: PathBuf,
    _lock: File,
}

impl Leaver {
    /// None where nobody wants to know.
    pub fn wanted() -> Result<Option<Self>> {
        let folder = std::env::var_os(FOLDER);
        folder.map(|folder| Self::new(Path::new(&folder))).transpose()
    }

    fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let lock = open_lock(folder)?;
        lock.lock_shared()?;
        Ok(Self {
            folder: folder.to_owned(),
            _lock: lock,
        })
    }

    /// Leaves what was used, by an audit log, in a file of its own.
    pub fn leave(self, log: &Path) -> Result<()> {
        let json = serde_json::to_vec(&used(log)?)?;
        // It gets the name by which it is found when it is whole.
        let mut file = tempfile::Builder::new()
            .suffix(".part")
            .tempfile_in(&self.folder)?;
        file.write_all(&json)?;
        let whole = file.path().with_extension(WHOLE);
        file.persist_noclobber(whole)?;
        Ok(())
    }
}

/// What all control planes left.
///
/// # Errors
/// Where one of them does not end.
pub async fn read(folder: &Path) -> Result<BTreeSet<Used>> {
    read_within(folder, DEADLINE).await
}

async fn read_within(folder: &Path, deadline: Duration) -> Result<BTreeSet<Used>> {
    let lock = open_lock(folder)?;
    eventually("all control planes to end", deadline, async || {
        lock.try_lock().context("one of them has not")
    })
    .await?;
    let mut used = BTreeSet::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == WHOLE) {
            let left: BTreeSet<Used> = serde_json::from_slice(&std::fs::read(file)?)?;
            used.extend(left);
        }
    }
    Ok(used)
}

fn open_lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))
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
        used.into_iter().map(|used| used.right.resource).collect()
    }

    #[tokio::test]
    async fn all_that_was_left_is_read() {
        let (logs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let below = folder.path().join("rights");
        for resource in ["pods", "secrets"] {
            let leaver = Leaver::new(&below).unwrap();
            leaver.leave(&log(logs.path(), resource)).unwrap();
        }
        // Of one that was killed while it wrote.
        std::fs::write(below.join("killed.part"), "[{\"acc").unwrap();
        assert_eq!(resources(&below).await, ["pods", "secrets"]);
    }

    #[tokio::test]
    async fn nobody_reads_before_all_have_left() {
        let (logs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [early, late] = [(); 2].map(|()| Leaver::new(folder.path()).unwrap());
        early.leave(&log(logs.path(), "pods")).unwrap();
        let error = read_within(folder.path(), Duration::from_millis(100))
            .await
            .unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("for all control planes to end, in vain"),
            "{error}"
        );
        let leave = async { late.leave(&log(logs.path(), "secrets")).unwrap() };
        let (found, ()) = tokio::join!(resources(folder.path()), leave);
        assert_eq!(found, ["pods", "secrets"]);
    }
}
