//! The archives of subcharts. Helm reads them too, with limits of their own for each; here they count together.

use std::io::Read;

use crate::{
    ArchiveError, Limits,
    entries::{File, for_each_file},
    files::Files,
    meter::{Decompressed, Remaining},
    path::{EntryPath, Layout, shown},
    reader::drain,
};

/// The folder of subcharts.
pub const CHARTS: &str = "charts/";

/// The part of a path below a folder of subcharts that Helm reads, at any depth.
fn in_charts(in_chart: &str) -> Option<&str> {
    let mut rest = in_chart.strip_prefix(CHARTS)?;
    // A subchart in a folder has subcharts of its own.
    while let Some((_, below)) = rest.split_once('/')
        && let Some(deeper) = below.strip_prefix(CHARTS)
    {
        rest = deeper;
    }
    // Helm ignores these.
    (!rest.starts_with(['_', '.'])).then_some(rest)
}

/// Whether Helm reads a file as the archive of a subchart.
pub fn is_archive(in_chart: &str) -> bool {
    in_charts(in_chart).is_some_and(|name| !name.contains('/') && has_extension(name))
}

/// Whether a file describes a direct subchart in a folder.
pub fn is_chart_yaml(in_chart: &str) -> bool {
    let parts: Vec<_> = in_chart.split('/').collect();
    matches!(*parts, ["charts", _, "Chart.yaml"])
}

#[expect(clippy::case_sensitive_file_extension_comparisons, reason = "as in Helm")]
fn has_extension(name: &str) -> bool {
    name.ends_with(".tgz")
}

/// Gets the files of a chart and of the archives of its subcharts.
pub trait Visitor {
    /// A file that is no archive of a subchart.
    fn file<R: Read>(&mut self, file: File<'_, '_, R>) -> Result<(), ArchiveError>;
}

/// Reads each file to its end.
struct Reader;

impl Visitor for Reader {
    fn file<R: Read>(&mut self, file: File<'_, '_, R>) -> Result<(), ArchiveError> {
        drain(file)
    }
}

/// Checks the archive of a subchart, which is `depth` deep.
pub fn check<R: Read>(
    archive: R,
    path: &EntryPath,
    limits: Limits,
    remaining: &Remaining,
    depth: usize,
) -> Result<(), ArchiveError> {
    visit_nested(archive, path, limits, remaining, depth, &mut Reader)
}

fn visit_nested<R: Read>(
    archive: R,
    path: &EntryPath,
    limits: Limits,
    remaining: &Remaining,
    depth: usize,
    visitor: &mut impl Visitor,
) -> Result<(), ArchiveError> {
    let path = shown(path.as_str().as_bytes());
    if depth > limits.depth {
        return Err(ArchiveError::TooDeep {
            path,
            limit: limits.depth,
        });
    }
    // The type of a reader within a reader within a reader would have no end.
    let archive: Box<dyn Read + '_> = Box::new(archive);
    visit(archive, limits, remaining, depth, visitor).map_err(|source| match source {
        // These concern the archive as a whole.
        ArchiveError::TooLarge { .. }
        | ArchiveError::TooManyFiles { .. }
        | ArchiveError::Input(_)
        | ArchiveError::TooDeep { .. } => source,
        source => ArchiveError::Nested {
            path,
            source: Box::new(source),
        },
    })
}

/// Visits the files of a chart that is `depth` deep in others, and those of its subcharts.
pub fn visit(
    archive: Box<dyn Read + '_>,
    limits: Limits,
    remaining: &Remaining,
    depth: usize,
    visitor: &mut impl Visitor,
) -> Result<(), ArchiveError> {
    let mut files = Files::new(limits, remaining.clone());
    for_each_file(
        Decompressed::new(archive, remaining.clone()),
        limits.total,
        Layout::Chart,
        |mut file| {
            files.add(&file.path, file.size)?;
            if is_archive(file.path.in_chart()) {
                let visited = visit_nested(
                    &mut file.content,
                    &file.path,
                    limits,
                    remaining,
                    depth + 1,
                    visitor,
                );
                return visited.map_err(|error| file.content.cause(error));
            }
            visitor.file(file)
        },
    )?;
    if files.contains("Chart.yaml") {
        Ok(())
    } else {
        Err(ArchiveError::NoChartYaml)
    }
}
