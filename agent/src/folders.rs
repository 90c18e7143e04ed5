//! The private folder for values and credentials.
//!
//! In a pod, `--work-dir` is a volume: the kubelet creates it, root owns it, and every user may write to it. The agent can change
//! neither its mode nor its owner. So what is private is in a folder of the agent's own inside.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use helmops_helm::workspace::create_private;
use rustix::process::geteuid;

/// The name of the folder in `--work-dir`.
const NAME: &str = "agent";
/// The permission bits of users other than the owner.
const OTHERS: u32 = 0o077;

/// The private folder in another one. Both are created if they do not exist. An earlier process of this user may have created them.
///
/// # Errors
/// If it cannot be created, or others may use it.
pub fn private(volume: &Path) -> io::Result<PathBuf> {
    create_private(volume)?;
    let folder = volume.join(NAME);
    create_private(&folder)?;
    let found = fs::symlink_metadata(&folder)?;
    let is_private = found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & OTHERS == 0;
    if is_private {
        return Ok(folder);
    }
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    Err(io::Error::other(format!(
        "{} is not private: it belongs to user {owner} and has the mode {mode:o}; remove it",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use helmops_helm::workspace::PRIVATE;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    /// As the kubelet creates an `emptyDir`.
    const VOLUME: u32 = 0o2777;

    #[test]
    fn a_volume_stays_as_it_is_and_the_folder_in_it_is_private() {
        let volume = tempfile::tempdir().unwrap();
        fs::set_permissions(volume.path(), Permissions::from_mode(VOLUME)).unwrap();
        let folder = private(volume.path()).unwrap();
        let volume_mode = fs::metadata(volume.path()).unwrap().mode() & 0o7777;
        assert_eq!((volume_mode, mode(&folder)), (VOLUME, PRIVATE));
        // After a restart of the container.
        fs::write(folder.join("token"), "a").unwrap();
        assert_eq!(private(volume.path()).unwrap(), folder);
        assert!(folder.join("token").exists());
    }

    #[test]
    fn folders_that_do_not_exist_are_created_for_this_user_only() {
        let parent = tempfile::tempdir().unwrap();
        let volume = parent.path().join("a/work");
        let folder = private(&volume).unwrap();
        for folder in [&*folder, &*volume, &*parent.path().join("a")] {
            assert_eq!(mode(folder), PRIVATE, "{}", folder.display());
        }
    }

    #[test]
    fn a_folder_that_others_may_use_is_refused() {
        let volume = tempfile::tempdir().unwrap();
        let folder = volume.path().join(NAME);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o750)).unwrap();
        let error = private(volume.path()).unwrap_err().to_string();
        assert!(error.contains("has the mode 750; remove it"), "{error}");
        assert_eq!(mode(&folder), 0o750);

        fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/", &folder).unwrap();
        private(volume.path()).unwrap_err();
    }
}
