//! Write the files, all or none as far as a file system allows, and keys for their owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// Everybody.
    Public,
    /// The owner alone.
    Secret,
}

/// What to do about files that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Write nothing.
    Refuse,
    /// Replace them.
    Overwrite,
}

/// One file to be written.
pub(crate) struct WantedFile {
    pub(crate) name: &'static str,
    pub(crate) content: String,
    pub(crate) secrecy: Secrecy,
}

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// Files are in the way.
    #[error(
        "{} exist already; choose another --out, or overwrite with --force",
        Paths(paths)
    )]
    Exists { paths: Vec<PathBuf> },
    /// A file that would no longer fit the new ones.
    #[error("{} belongs to what is there now and not to what would be written; move it away first", path.display())]
    Foreign { path: PathBuf },
    /// The file system refused.
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

struct Paths<'a>(&'a [PathBuf]);

impl std::fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.0.iter().map(|path| path.display().to_string()).collect();
        f.write_str(&names.join(", "))
    }
}

/// Writes `files` into `dir`, which is made if need be, and returns their paths. A file called `foreign` must
/// not lie there.
pub(crate) fn write_all(
    dir: &Path,
    files: &[WantedFile],
    foreign: Option<&str>,
    existing: Existing,
) -> Result<Vec<PathBuf>, OutputError> {
    let paths: Vec<_> = files.iter().map(|file| dir.join(file.name)).collect();
    if let Some(path) = foreign.map(|name| dir.join(name)).filter(|path| lies_there(path)) {
        return Err(OutputError::Foreign { path });
    }
    let in_the_way: Vec<_> = paths.iter().filter(|path| lies_there(path)).cloned().collect();
    match existing {
        Existing::Refuse if !in_the_way.is_empty() => return Err(OutputError::Exists { paths: in_the_way }),
        Existing::Refuse | Existing::Overwrite => {}
    }
    fs::create_dir_all(dir).map_err(|source| OutputError::Write {
        path: dir.to_owned(),
        source,
    })?;
    for (file, path) in files.iter().zip(&paths) {
        write_one(file, path).map_err(|source| OutputError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(paths)
}

/// A link counts, wherever it points.
fn lies_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A new file beside it, moved over it: never half a file, and never the permissions of an older one.
fn write_one(file: &WantedFile, path: &Path) -> io::Result<()> {
    let fresh = path.with_file_name(format!(".{}.new", file.name));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mode = match file.secrecy {
        Secrecy::Public => 0o644,
        Secrecy::Secret => 0o600,
    };
    let mut handle = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&fresh)?;
    handle.write_all(file.content.as_bytes())?;
    handle.sync_all()?;
    fs::rename(&fresh, path)
}
