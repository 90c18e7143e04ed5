//! Data of etcd that control planes start from, so that each of them need not install the same manifests.
//!
//! It is made once for each version of the programs and the manifests, with a control plane that ends before its controllers start, and kept
//! in cargo's target folder. Only credentials are missing: each control plane has its own, and none of them is in etcd.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::control_plane::ControlPlane;
use crate::files;
use crate::kubectl;
use crate::tools::Tools;
use crate::wait::eventually;

/// Another process may be making it: three seconds on an idle machine, and the machine is busy.
const DEADLINE: Duration = Duration::from_mins(2);
/// The folder in the target folder.
const STORE: &str = "control-planes";
/// Files of etcd end on a page.
const PAGE: usize = 4096;

/// Copies the data of a control plane with these manifests to the folder `to`. It is made first, if it does not exist yet.
///
/// # Errors
/// If a manifest is rejected, or a folder cannot be written.
pub(crate) async fn copy(tools: &Tools, manifests: &[PathBuf], to: &Path) -> Result<()> {
    let store = files::target()?.join(STORE);
    std::fs::create_dir_all(&store).with_context(|| format!("cannot create {}", store.display()))?;
    let data = store.join(key(tools, manifests)?);
    let lock = lock(&data.with_extension("lock")).await?;
    if !data.exists() {
        make(tools, manifests, &data).await?;
    }
    drop(lock);
    copy_folder(&data, to)
}

/// The name of data: a hash of all that it is made of.
fn key(tools: &Tools, manifests: &[PathBuf]) -> Result<String> {
    let mut hash = DefaultHasher::new();
    tools.kube_apiserver().hash(&mut hash);
    for file in kubectl::files(manifests)? {
        std::fs::read(&file)
            .with_context(|| format!("cannot read {}", file.display()))?
            .hash(&mut hash);
    }
    Ok(format!("{:016x}", hash.finish()))
}

/// Waits until no other process makes the same data.
async fn lock(path: &Path) -> Result<File> {
    let file = files::open_lock(path)?;
    eventually("the data of a control plane", DEADLINE, async || {
        file.try_lock().context("another process is making it")
    })
    .await?;
    Ok(file)
}

async fn make(tools: &Tools, manifests: &[PathBuf], data: &Path) -> Result<()> {
    let mut plane = ControlPlane::new(tools.clone())?;
    let made = async {
        let etcd = plane.fill(manifests).await?;
        shrink(&etcd.join("member/wal"))?;
        let part = data.with_extension("part");
        let _ = std::fs::remove_dir_all(&part);
        copy_folder(&etcd, &part)?;
        // It exists only when it is complete.
        Ok(std::fs::rename(&part, data)?)
    };
    let made = made.await;
    let stopped = plane.stop().await;
    made.and(stopped)
}

/// Removes the space that etcd allocates for later entries of its log: 64 MB.
fn shrink(log: &Path) -> Result<()> {
    for entry in std::fs::read_dir(log)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "wal") {
            std::fs::remove_file(path)?;
            continue;
        }
        let content = std::fs::read(&path)?;
        let end = content
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(u64::try_from(end.next_multiple_of(PAGE))?)?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &copy)?;
        } else {
            std::fs::copy(entry.path(), &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_loses_only_its_empty_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let entries = [vec![1; PAGE], vec![0; 100], vec![2]].concat();
        std::fs::write(file("0.wal"), [&entries[..], &vec![0; 64 * PAGE]].concat()).unwrap();
        std::fs::write(file("1.tmp"), [0; 10]).unwrap();
        shrink(folder.path()).unwrap();
        let mut content = std::fs::read(file("0.wal")).unwrap();
        assert_eq!(content.len(), 2 * PAGE);
        content.truncate(entries.len());
        assert_eq!(content, entries);
        assert!(!file("1.tmp").exists(), "etcd allocates its next log itself");
    }

    #[test]
    fn data_belongs_to_the_content_of_its_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let tools: Tools = serde_json::from_str("\"tools\"").unwrap();
        let manifests = [folder.path().to_owned()];
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("one.yaml", "kind: A");
        let before = key(&tools, &manifests).unwrap();
        write("kustomization.yaml", "resources: []");
        assert_eq!(key(&tools, &manifests).unwrap(), before, "it is not applied");
        write("one.yaml", "kind: B");
        assert_ne!(key(&tools, &manifests).unwrap(), before);
    }
}
