//! What Helm has read of the kinds of the API server, for the next runs.
//!
//! Helm reads the kinds of the API server to find the resources of objects, and keeps them on disk. Each run has folders of its own, so
//! without a common one each of them would read and write all kinds.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_process::lock;
use tempfile::TempDir;

/// The environment variable with the folder.
pub const VARIABLE: &str = "KUBECACHEDIR";
/// How long a folder is used. Helm itself would use it for six hours. An object in a version that is not served any more counts as
/// deleted then, since the API server does not find it.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The folder of the present. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryCache(Arc<Mutex<Option<Folder>>>);

#[derive(Debug)]
struct Folder {
    folder: Arc<TempDir>,
    created: Instant,
}

impl DiscoveryCache {
    /// The folder for a run that starts now, in `root`. It is removed when no run uses it, and another one has taken its place.
    ///
    /// # Errors
    /// If a new one cannot be created.
    pub fn folder(&self, root: &Path, prefix: &str) -> io::Result<Arc<TempDir>> {
        self.folder_at(root, prefix, Instant::now())
    }

    fn folder_at(&self, root: &Path, prefix: &str, now: Instant) -> io::Result<Arc<TempDir>> {
        let mut current = lock(&self.0);
        if let Some(Folder { folder, created }) = &*current
            && now.saturating_duration_since(*created) < MAX_AGE
            && folder.path().exists()
        {
            return Ok(Arc::clone(folder));
        }
        // Only its owner can read it, as all folders of this kind.
        let folder = Arc::new(tempfile::Builder::new().prefix(prefix).tempdir_in(root)?);
        *current = Some(Folder {
            folder: Arc::clone(&folder),
            created: now,
        });
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_share_a_folder_for_some_seconds() {
        let root = tempfile::tempdir().unwrap();
        let (cache, start) = (DiscoveryCache::default(), Instant::now());
        let at = |seconds| {
            let now = start + Duration::from_secs(seconds);
            cache.folder_at(root.path(), "kinds-", now).unwrap()
        };
        let first = at(0);
        let path = first.path().to_owned();
        assert_eq!(at(9).path(), path);
        let second = at(10);
        assert_ne!(second.path(), path);
        assert!(path.exists(), "a run uses it");
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn a_folder_that_was_removed_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let cache = DiscoveryCache::default();
        let folder = cache.folder(root.path(), "kinds-").unwrap();
        std::fs::remove_dir(folder.path()).unwrap();
        let again = cache.folder(root.path(), "kinds-").unwrap();
        assert!(again.path().exists());
    }
}
