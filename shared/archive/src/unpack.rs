//! All files of an archive, in memory.

use std::io::Read;

use crate::{
    ArchiveError, Limits,
    entries::for_each_file,
    files::Files,
    meter::{Decompressed, Remaining},
    path::Layout,
    reader::bytes,
};

/// The bytes of all files of an archive, unpacked.
///
/// # Errors
/// As [`files`].
pub fn size(archive: impl Read, limits: Limits, layout: Layout) -> Result<u64, ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    let mut files = Files::new(limits, remaining.clone());
    let mut total = 0_u64;
    let archive = Decompressed::new(archive, remaining);
    for_each_file(archive, limits.total, layout, |file| {
        files.add(&file.path, file.size)?;
        total = total.saturating_add(file.size);
        Ok(())
    })?;
    Ok(total)
}

/// All files of an archive by their paths in the folder of the chart, or below the top, in the order of the archive. They take at most [`Limits::total`] bytes.
///
/// Whether it is a chart, and complete, is for [`check`](crate::check): archives of subcharts are files here.
///
/// # Errors
/// For what [`check`](crate::check) refuses, except in archives of subcharts and `Chart.yaml`.
pub fn files(
    archive: impl Read,
    limits: Limits,
    layout: Layout,
) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    let mut files = Files::new(limits, remaining.clone());
    let mut all = Vec::new();
    let archive = Decompressed::new(archive, remaining);
    for_each_file(archive, limits.total, layout, |file| {
        files.add(&file.path, file.size)?;
        let path = file.path.in_chart().to_owned();
        all.push((path, bytes(file)?));
        Ok(())
    })?;
    Ok(all)
}
