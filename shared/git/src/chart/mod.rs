//! The charts in a commit: [`Objects`] are files in folders.

use std::sync::Arc;

pub use helmops_chart::{ChartPath, ChartPathError, Strategy, assemble, assemble_manifests, pack};
use helmops_chart::{Entry, FileError, FileTree};

use crate::{ObjectId, ObjectKind, Objects, PackError, object::entries};

/// What a chart consists of, by the hashes that Git has.
pub type Content = helmops_chart::Content<ObjectId>;
/// Why a folder of a commit cannot be deployed as a chart.
pub type ChartError = helmops_chart::ChartError<PackError>;
/// The files of a chart.
pub type ChartFiles = helmops_chart::ChartFiles<ObjectId>;
/// What there is of a chart.
pub type Assembly = helmops_chart::Assembly<ObjectId>;
/// A packed chart.
pub type PackedChart = helmops_chart::PackedChart<ObjectId>;

impl FileTree for Objects {
    type Id = ObjectId;
    type Error = PackError;

    fn entries(&mut self, folder: ObjectId) -> Result<Vec<Entry<ObjectId>>, PackError> {
        let content = self.content(folder, ObjectKind::Tree)?;
        let all = entries(self.format(), &content).ok_or(PackError::Damaged("a folder is malformed"))?;
        let owned = all.into_iter().map(|entry| Entry {
            name: entry.name.to_vec(),
            kind: entry.kind,
            id: entry.id,
        });
        Ok(owned.collect())
    }

    fn contains(&self, file: ObjectId) -> bool {
        Self::contains(self, file)
    }

    fn file(&mut self, file: ObjectId) -> Result<Arc<[u8]>, FileError<PackError>> {
        self.content(file, ObjectKind::Blob).map_err(|error| match error {
            PackError::ObjectTooLarge { limit, .. } => FileError::TooLarge { limit },
            other => FileError::Tree(other),
        })
    }
}

#[cfg(test)]
mod tests;
