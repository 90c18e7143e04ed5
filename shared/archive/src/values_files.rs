//! Files with values: those that a chart has besides its values.yaml.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
};

use crate::{
    ArchiveError, Limits,
    entries::for_each_file,
    files::Files,
    meter::{Decompressed, Remaining},
    nested::CHARTS,
    path::Layout,
    reader::{bytes, drain},
    templates::TEMPLATES,
};

/// How many files are named that there are instead.
const MAX_OTHERS: usize = 20;

/// Files of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValuesFiles {
    /// The content of those that were looked for, by their paths in the chart.
    pub found: BTreeMap<String, Vec<u8>>,
    /// Paths of YAML files that were not looked for: at most 20.
    pub others: Vec<String>,
}

/// The files with these paths in the folder of a chart. Templates, subcharts and `Chart.yaml` are no files with values.
///
/// # Errors
/// For what [`check`](crate::check) refuses, as far as that matters here.
pub fn values_files(
    archive: impl Read,
    limits: Limits,
    paths: &BTreeSet<String>,
) -> Result<ValuesFiles, ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    let mut files = Files::new(limits, remaining.clone());
    let mut values = ValuesFiles::default();
    let archive = Decompressed::new(archive, remaining);
    for_each_file(archive, limits.total, Layout::Chart, |file| {
        files.add(&file.path, file.size)?;
        let path = file.path.in_chart().to_owned();
        let has_values = !path.starts_with(CHARTS)
            && path.split('/').next() != Some(TEMPLATES)
            && !matches!(&*path, "Chart.yaml" | "requirements.yaml");
        if has_values && paths.contains(&path) {
            values.found.insert(path, bytes(file)?);
            return Ok(());
        }
        let is_yaml = path
            .rsplit_once('.')
            .is_some_and(|(_, end)| matches!(end, "yaml" | "yml"));
        if has_values && is_yaml && values.others.len() < MAX_OTHERS {
            values.others.push(path);
        }
        drain(file)
    })?;
    Ok(values)
}
