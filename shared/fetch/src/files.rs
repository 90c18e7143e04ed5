//! Packs files that are all in memory.

use std::sync::Arc;

use helmops_chart::{
    ChartError, EntryId, ListedChartError, ListedFile, ListedFiles, ListedFilesError, ListedFolders,
    PackRequest, PackedListedChart, Step,
};
use helmops_model::chart::digest::sha256_hex;

/// Folders that the files are in.
const MAX_FOLDERS: usize = 20_000;

/// Packs the chart, or the manifests, of these files, with their paths. `charge` takes the memory for an archive of so many bytes besides them.
///
/// # Errors
/// If there is no chart, something in it is refused, or there is no memory.
pub fn pack(
    all: Vec<(String, Vec<u8>)>,
    request: PackRequest<EntryId>,
    charge: impl FnMut(usize) -> Result<(), ListedFilesError>,
) -> Result<PackedListedChart, ListedChartError> {
    let listed: Vec<_> = all.iter().map(|(path, content)| listed(path, content)).collect();
    let folders = ListedFolders::new(&listed, MAX_FOLDERS);
    let folders = folders.map_err(|error| ChartError::TooManyFiles { limit: error.limit })?;
    let root = folders.root();
    let mut files = ListedFiles::new(Arc::new(folders), usize::MAX);
    for (file, (_, content)) in listed.iter().zip(all) {
        files.add(file.id(), content.into());
    }
    match request.step(&mut files, root, charge)? {
        Step::Packed(packed) => Ok(*packed),
        // The files are compared with nothing, and all of them are there.
        Step::Same | Step::Missing(_) => Err(ChartError::Tree(ListedFilesError::Missing)),
    }
}

fn listed(path: &str, content: &[u8]) -> ListedFile {
    ListedFile {
        path: path.to_owned(),
        tag: sha256_hex(content),
        size: content.len() as u64,
    }
}
