//! Files that programs of the test bed share: where they are, and how they are locked.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// cargo's target folder. This program is at `target/<profile>/testbed`.
///
/// # Errors
/// If this program is in no such folder.
pub fn target() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(2);
    let target = target.with_context(|| format!("{} is in no target folder of cargo", this.display()))?;
    Ok(target.to_owned())
}

pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Opens a file to lock it, and creates it if it does not exist.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}
