//! The archive of a chart that is made of files.

use std::io::BufWriter;

use helm_archive::{ArchiveWriter, is_path};
use helmops_content::ContentError;
use helmops_model::chart::digest::HashingWriter;
use helmops_release::content::ChartEntry;
use tempfile::NamedTempFile;

use super::LIMITS;
use crate::charts::{Archive, ChartError};

/// All files of an archive, in bytes.
const MAX_FILES: u64 = helm_archive::Limits::HELM.total;

/// Writes an archive: the same entries give the same bytes. Files beside the chart that no archive can have are left out: Kustomize refuses a
/// kustomization that names one of them.
pub fn pack(entries: Vec<ChartEntry>, file: NamedTempFile) -> Result<Archive, ChartError> {
    // A handle of its own: the file is deleted with `file` after an error.
    let output = BufWriter::new(file.reopen()?);
    let mut archive = ArchiveWriter::new(HashingWriter::new(output));
    let mut total = 0;
    for entry in entries {
        let bytes = match entry.content.bytes(LIMITS) {
            Err(error) if error.is_size() && !entry.is_of_chart => continue,
            bytes => bytes?,
        };
        if !entry.is_of_chart && !is_path(&entry.path) {
            continue;
        }
        total += bytes.len() as u64;
        if total > MAX_FILES {
            return Err(ContentError::TooLarge { limit: MAX_FILES }.into());
        }
        archive.add(&entry.path, &bytes)?;
    }
    let (_, sha256, bytes) = archive.finish()?.finish()?;
    Ok(Archive { file, sha256, bytes })
}
