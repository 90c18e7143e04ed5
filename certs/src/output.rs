//! Writes the files: all or none as far as a file system allows, and keys readable by their owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// Readable by every user.
    Public,
    /// Readable by the owner only.
    Private,
}

/// What to do about files that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Fail, and write nothing.
    Fail,
    /// Replace them.
    Overwrite,
}

/// A file to write.
pub(crate) struct OutputFile {
    pub(crate) name: &'static str,
    pub(crate) content: String,
    pub(crate) permissions: Permissions,
}

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// Files exist already.
    #[error(
        "{} exist already; choose another --out, or overwrite with --force",
        Paths(paths)
    )]
    Exists { paths: Vec<PathBuf> },
    /// A file of another CA exists.
    #[error("{} belongs to the existing files and not to the new ones; move it away first", path.display())]
    OtherCa { path: PathBuf },
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

/// Writes `files` into `dir`, which is created if necessary, and returns their paths. Fails if `dir` contains a file with the
/// name `forbidden`.
pub(crate) fn write_all(
    dir: &Path,
    files: &[OutputFile],
    forbidden: Option<&str>,
    existing: Existing,
) -> Result<Vec<PathBuf>, OutputError> {
    let paths: Vec<_> = files.iter().map(|file| dir.join(file.name)).collect();
    if let Some(path) = forbidden.map(|name| dir.join(name)).filter(|path| exists(path)) {
        return Err(OutputError::OtherCa { path });
    }
    let existing_paths: Vec<_> = paths.iter().filter(|path| exists(path)).cloned().collect();
    match existing {
        Existing::Fail if !existing_paths.is_empty() => {
            return Err(OutputError::Exists {
                paths: existing_paths,
            });
        }
        Existing::Fail | Existing::Overwrite => {}
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

/// A symbolic link counts, wherever it points.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Writes a new file and renames it: never a partial file, and never the permissions of an old one.
fn write_one(file: &OutputFile, path: &Path) -> io::Result<()> {
    let temporary = path.with_file_name(format!(".{}.new", file.name));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mode = match file.permissions {
        Permissions::Public => 0o644,
        Permissions::Private => 0o600,
    };
    let mut handle = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    handle.write_all(file.content.as_bytes())?;
    handle.sync_all()?;
    fs::rename(&temporary, path)
}
