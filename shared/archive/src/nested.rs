//! The archives of subcharts. Helm reads them too, with limits of their own for each; here they count together.

use std::io::{self, Read};

use crate::{
    ArchiveError, Limits,
    entries::for_each_file,
    files::Files,
    meter::{Decompressed, Remaining},
    path::{EntryPath, shown},
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

/// Checks the archive of a subchart, which is `depth` deep.
pub fn check<R: Read>(
    archive: R,
    path: &EntryPath,
    limits: Limits,
    remaining: &Remaining,
    depth: usize,
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
    read(archive, limits, remaining, depth).map_err(|source| within(path, source))
}

/// What is wrong with the archive of a subchart.
pub fn within(path: String, source: ArchiveError) -> ArchiveError {
    match source {
        // These concern the archive as a whole.
        ArchiveError::TooLarge { .. }
        | ArchiveError::TooManyFiles { .. }
        | ArchiveError::Input(_)
        | ArchiveError::TooDeep { .. } => source,
        source => ArchiveError::Nested {
            path,
            source: Box::new(source),
        },
    }
}

fn read(
    archive: Box<dyn Read + '_>,
    limits: Limits,
    remaining: &Remaining,
    depth: usize,
) -> Result<(), ArchiveError> {
    let mut files = Files::new(limits, remaining.clone());
    for_each_file(
        Decompressed::new(archive, remaining.clone()),
        limits.total,
        |mut file| {
            files.add(&file.path, file.size)?;
            if is_archive(file.path.in_chart()) {
                let checked = check(&mut file.content, &file.path, limits, remaining, depth + 1);
                return checked.map_err(|error| file.content.cause(error));
            }
            let mut content = file.content;
            match io::copy(&mut content, &mut io::sink()) {
                Ok(_) => Ok(()),
                Err(error) => Err(content.cause(ArchiveError::Output(error))),
            }
        },
    )?;
    if files.contains("Chart.yaml") {
        Ok(())
    } else {
        Err(ArchiveError::NoChartYaml)
    }
}
