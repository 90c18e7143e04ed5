//! Reads an archive once, and checks each file.

use std::io::{self, Read};

use crate::{
    ArchiveError, Chart, Limits,
    entries::{File, for_each_file},
    files::Files,
    metadata::{ChartYaml, Dependencies},
    meter::{Decompressed, Remaining},
    nested,
    path::Layout,
};

/// The file that describes a chart.
const CHART_YAML: &str = "Chart.yaml";
/// Where charts of the first format declare their dependencies.
const REQUIREMENTS: &str = "requirements.yaml";

/// Reads an archive.
pub fn read(archive: impl Read, limits: Limits) -> Result<Chart, ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    let mut files = Files::new(limits, remaining.clone());
    let mut chart_yaml = None;
    let mut dependencies = Dependencies::default();
    for_each_file(
        Decompressed::new(archive, remaining.clone()),
        limits.total,
        Layout::Chart,
        |file| {
            files.add(&file.path, file.size)?;
            let path = file.path.clone();
            match path.in_chart() {
                CHART_YAML => {
                    let parsed = ChartYaml::parse(&text(file)?)?;
                    dependencies.declare(parsed.dependencies.clone());
                    chart_yaml = Some(parsed);
                }
                REQUIREMENTS => dependencies.declare(ChartYaml::requirements(&bytes(file)?)?),
                in_chart if nested::is_archive(in_chart) => {
                    dependencies.found_archive(in_chart);
                    nested::check(&*bytes(file)?, &path, limits, &remaining, 1)?;
                }
                in_chart if nested::is_chart_yaml(in_chart) => {
                    dependencies.found_folder(in_chart, &bytes(file)?);
                }
                _ => drain(file)?,
            }
            Ok(())
        },
    )?;
    let Some(ChartYaml { name, version, .. }) = chart_yaml else {
        return Err(ArchiveError::NoChartYaml);
    };
    dependencies.check()?;
    Ok(Chart {
        name,
        version,
        files: limits.files - remaining.files(),
        bytes: limits.total - remaining.bytes(),
    })
}

/// Reads a file that is not looked at.
pub fn drain<R: Read>(mut file: File<'_, '_, R>) -> Result<(), ArchiveError> {
    match io::copy(&mut file.content, &mut io::sink()) {
        Ok(_) => Ok(()),
        Err(error) => Err(file.content.cause(ArchiveError::Input(error))),
    }
}

/// The content of a file, whose size was checked.
pub fn bytes<R: Read>(mut file: File<'_, '_, R>) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    let read = file.content.read_to_end(&mut content);
    match read {
        Ok(_) => Ok(content),
        Err(error) => Err(file.content.cause(ArchiveError::Input(error))),
    }
}

fn text<R: Read>(file: File<'_, '_, R>) -> Result<String, ArchiveError> {
    let text = String::from_utf8(bytes(file)?)
        .map_err(|_| ArchiveError::ChartYaml("it is not UTF-8 text".to_owned()))?;
    // Helm ignores it too.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
