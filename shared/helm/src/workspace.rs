//! The files of one run of Helm, in a folder of their own.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;
use thiserror::Error;

use super::run_mark::RunMark;

/// Only the agent and its children may use a folder with values and credentials.
pub const PRIVATE: u32 = 0o700;
/// The same for its files.
const FILE_MODE: u32 = 0o600;
/// Start of the names of folders.
const PREFIX: &str = "helm-";
/// The file with the mark of the run.
const MARK: &str = "run.json";

/// The folder of all workspaces. It should be in memory (`emptyDir` with `medium: Memory`), since secrets are in it.
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: PathBuf,
    left: Arc<[RunMark]>,
}

/// Why a workspace cannot be created.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The mark of the run cannot be encoded, which does not happen.
    #[error("cannot encode the mark of the run: {0}")]
    Mark(#[from] serde_json::Error),
}

/// The files of one run. The folder is removed when this value is dropped.
#[derive(Debug)]
pub struct Workspace {
    folder: TempDir,
    values: Vec<PathBuf>,
}

impl Workspaces {
    /// Workspaces in this folder, which is created for this user if it does not exist. What a previous agent has left in it is removed;
    /// but for the marks of runs that it did not end.
    ///
    /// # Errors
    /// If it cannot be created or read.
    pub fn open(root: &Path) -> io::Result<Self> {
        create_private(root)?;
        let mut marks = Vec::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                let mark = fs::read(entry.path().join(MARK)).ok();
                marks.extend(mark.and_then(|mark| serde_json::from_slice(&mark).ok()));
                remove(&entry.path())?;
            }
        }
        Ok(Self {
            root: root.to_owned(),
            left: marks.into(),
        })
    }

    /// The marks of the runs that a previous agent did not end.
    pub fn left(&self) -> &[RunMark] {
        &self.left
    }

    /// Creates the files of a run, one for each of the values. It blocks.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn create(
        &self,
        kubeconfig: &[u8],
        values: &[Vec<u8>],
        mark: Option<&RunMark>,
    ) -> Result<Workspace, WorkspaceError> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(PRIVATE))
            .tempdir_in(&self.root)
            .map_err(|error| cannot_write(&self.root, error))?;
        let mut workspace = Workspace {
            folder,
            values: Vec::new(),
        };
        create_dir(&workspace.home())?;
        if let Some(mark) = mark {
            write(&workspace.path(MARK), &serde_json::to_vec(mark)?)?;
        }
        write(&workspace.kubeconfig(), kubeconfig)?;
        for (index, values) in values.iter().enumerate() {
            let path = workspace.path(&format!("values-{index}.yaml"));
            write(&path, values)?;
            workspace.values.push(path);
        }
        Ok(workspace)
    }
}

impl Workspace {
    /// The kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// The files of the values.
    pub fn values(&self) -> &[PathBuf] {
        &self.values
    }

    /// The folder for caches, settings and temporary files of Helm.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Removes a folder, also if a Helm of the previous agent that is about to end still writes to it.
fn remove(folder: &Path) -> io::Result<()> {
    const ATTEMPTS: usize = 100;
    for _ in 1..ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    fs::remove_dir_all(folder)
}

/// Creates a folder, and those above it, for this user only. One that exists stays as it is.
///
/// # Errors
/// If it cannot be created.
pub fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(folder)
}

fn create_dir(path: &Path) -> Result<(), WorkspaceError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(path, error))
}

fn write(path: &Path, content: &[u8]) -> Result<(), WorkspaceError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(FILE_MODE).open(path);
    file.and_then(|mut file| file.write_all(content))
        .map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, error: io::Error) -> WorkspaceError {
    WorkspaceError::Write {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("work");
        let workspaces = Workspaces::open(&root).unwrap();
        let workspace = workspaces.create(b"{}", &[], None).unwrap();
        let folder = workspace.folder.path().to_owned();
        assert_eq!((mode(&root), mode(&folder)), (0o700, 0o700));
        assert_eq!(mode(&workspace.kubeconfig()), 0o600);
        fs::write(workspace.home().join("cache"), "x").unwrap();
        drop(workspace);
        assert!(!folder.exists());
    }

    #[test]
    fn leftovers_of_a_killed_agent_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let old = root.path().join("helm-old/home");
        fs::create_dir_all(&old).unwrap();
        fs::write(root.path().join("other"), "").unwrap();
        Workspaces::open(root.path()).unwrap();
        assert!(!old.exists() && root.path().join("other").exists());
    }
}
