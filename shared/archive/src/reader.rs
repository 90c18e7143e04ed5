//! Reads an archive once: checks each file, and passes it on.

use std::io::Read;

use crate::{
    ArchiveError, Chart, Limits,
    entries::{File, for_each_file},
    files::Files,
    metadata::{ChartYaml, Dependencies},
    meter::{Decompressed, Remaining},
    nested,
    sink::Sink,
};

/// The file that describes a chart.
const CHART_YAML: &str = "Chart.yaml";
/// Where charts of the first format declare their dependencies.
const REQUIREMENTS: &str = "requirements.yaml";

/// Reads an archive into a sink, with an edited `Chart.yaml`.
pub fn read<S: Sink>(
    archive: impl Read,
    mut sink: S,
    limits: Limits,
    edit: impl FnOnce(&str) -> String,
) -> Result<(Chart, S), ArchiveError> {
    let remaining = Remaining::new(limits.total, limits.files);
    let mut files = Files::new(limits, remaining.clone());
    let mut edit = Some(edit);
    let mut chart_yaml = None;
    let mut dependencies = Dependencies::default();
    for_each_file(
        Decompressed::new(archive, remaining.clone()),
        limits.total,
        |file| {
            files.add(&file.path, file.size)?;
            let path = file.path.clone();
            match path.in_chart() {
                CHART_YAML => {
                    let text = text(file)?;
                    let parsed = ChartYaml::parse(&text)?;
                    dependencies.declare(parsed.dependencies.clone());
                    chart_yaml = Some(parsed);
                    // A second `Chart.yaml` is a duplicate, which was an error above.
                    let edited = edit.take().map_or_else(|| text.clone(), |edit| edit(&text));
                    sink.file(&path, 0, edited.len() as u64, &mut edited.as_bytes())
                }
                REQUIREMENTS => {
                    let (modified, content) = (file.modified, bytes(file)?);
                    dependencies.declare(ChartYaml::requirements(&content)?);
                    sink.file(&path, modified, content.len() as u64, &mut &*content)
                }
                in_chart if nested::is_archive(in_chart) => {
                    dependencies.found_archive(in_chart);
                    let (modified, content) = (file.modified, bytes(file)?);
                    nested::check(&*content, &path, limits, &remaining, 1)?;
                    sink.file(&path, modified, content.len() as u64, &mut &*content)
                }
                in_chart if nested::is_chart_yaml(in_chart) => {
                    let (modified, content) = (file.modified, bytes(file)?);
                    dependencies.found_folder(in_chart, &content);
                    sink.file(&path, modified, content.len() as u64, &mut &*content)
                }
                _ => {
                    let (modified, size, mut content) = (file.modified, file.size, file.content);
                    sink.file(&path, modified, size, &mut content)
                        .map_err(|error| content.cause(error))
                }
            }
        },
    )?;
    let Some(ChartYaml { name, version, .. }) = chart_yaml else {
        return Err(ArchiveError::NoChartYaml);
    };
    dependencies.check()?;
    let chart = Chart {
        name,
        version,
        files: limits.files - remaining.files(),
        bytes: limits.total - remaining.bytes(),
    };
    Ok((chart, sink))
}

/// The content of a file, whose size was checked.
pub fn bytes<R: Read>(mut file: File<'_, '_, R>) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    let read = file.content.read_to_end(&mut content);
    match read {
        Ok(_) => Ok(content),
        Err(error) => Err(file.content.cause(ArchiveError::Output(error))),
    }
}

fn text<R: Read>(file: File<'_, '_, R>) -> Result<String, ArchiveError> {
    let text = String::from_utf8(bytes(file)?)
        .map_err(|_| ArchiveError::ChartYaml("it is not UTF-8 text".to_owned()))?;
    // Helm ignores it too.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
