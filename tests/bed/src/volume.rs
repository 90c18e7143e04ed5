//! A volume of a pod, as the kubelet makes an `emptyDir`: root owns it, and every user may write to it. The process runs as another
//! user, which cannot change its mode.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::geteuid;

/// The mode with which the kubelet leaves an `emptyDir` of a pod with an `fsGroup`.
const MODE: u32 = 0o2777;
/// The owner, if root can choose one. It is no user of the container, as root is none.
const OWNER: u32 = 12345;
/// Folders that belong to root on every machine.
const OF_ROOT: [&str; 3] = ["/dev/shm", "/var/tmp", "/tmp"];

/// The user of our images, as the only one in a user namespace: without the capabilities of root.
const AS_USER: [&str; 3] = ["--user", "--map-user=65532", "--map-group=65532"];

/// A volume, and how a process is run as a user that does not own it.
#[derive(Debug)]
pub struct Volume {
    pub folder: PathBuf,
    /// The arguments of `unshare` before those of the program.
    pub unshare: [&'static str; 3],
}

impl Volume {
    /// A volume at this path. Only root can create a folder for another user: without root, the user of the volume owns it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn at(path: &Path) -> Result<Self> {
        fs::create_dir_all(path)?;
        if geteuid().is_root() {
            chown(path, Some(OWNER), Some(OWNER))?;
        }
        fs::set_permissions(path, Permissions::from_mode(MODE))?;
        Ok(Self {
            folder: path.to_owned(),
            unshare: AS_USER,
        })
    }

    /// A volume that another user owns: at this path, or without root in a folder of the machine.
    ///
    /// # Errors
    /// If there is none.
    pub fn foreign(path: &Path) -> Result<Self> {
        let mut volume = Self::at(path)?;
        if !is_foreign(&volume.folder) {
            let found = OF_ROOT.iter().find(|folder| is_foreign(Path::new(folder)));
            volume.folder = found
                .context("no folder belongs to another user: run this as root")?
                .into();
        }
        Ok(volume)
    }
}

/// Whether the folder belongs to another user, and every user may write to it.
fn is_foreign(folder: &Path) -> bool {
    let is = |found: fs::Metadata| found.uid() != geteuid().as_raw() && found.mode() & 0o007 == 0o007;
    fs::metadata(folder).is_ok_and(is)
}
