//! The content of a chart: the files of its archive, in a folder.

use helm_archive::{ArchiveError, Layout, files};
use thiserror::Error;

use crate::{ContentError, Encoded, Limits, Manifest};

/// Why a chart has no content.
#[derive(Debug, Error)]
pub enum ChartContentError {
    /// The archive is refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The files are refused.
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl ChartContentError {
    /// Whether the chart is too large.
    pub const fn is_size(&self) -> bool {
        match self {
            Self::Archive(error) => matches!(
                error,
                ArchiveError::TooLarge { .. }
                    | ArchiveError::TooManyFiles { .. }
                    | ArchiveError::FileTooLarge { .. }
            ),
            Self::Content(error) => error.is_size(),
        }
    }
}

/// Encodes the files of an archive in a folder: `web/Chart.yaml` and so on; in none if its name is empty. The same files give the same content, however the archive was made.
/// It takes the memory of all files, as far as `archive_limits` allow, and that of the result.
///
/// Whether it is the archive of a chart is for [`helm_archive::check`], which also finds how much memory that is.
///
/// # Errors
/// If the archive cannot be unpacked, or is larger than the limits.
pub fn of_chart(
    archive: &[u8],
    folder: &str,
    archive_limits: helm_archive::Limits,
    limits: Limits,
) -> Result<Encoded, ChartContentError> {
    let mut files = files(archive, archive_limits, Layout::Chart)?;
    for (path, _) in &mut files {
        if !folder.is_empty() {
            path.insert(0, '/');
            path.insert_str(0, folder);
        }
    }
    Ok(Manifest::of_files(files, limits)?.encode(limits)?)
}
