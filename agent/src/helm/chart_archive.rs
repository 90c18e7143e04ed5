//! The archive of a chart with annotations in its `Chart.yaml`.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::Path,
};

use helm_archive::{Limits, rewrite};
use helmops_release::chart_metadata::{ChartMetadataError, Origin, annotated};
use thiserror::Error;

/// Why an archive cannot be used.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// It cannot be read, or the copy cannot be written.
    #[error("the archive of the chart cannot be copied: {0}")]
    Io(#[from] io::Error),
    /// It is not the archive of a chart.
    #[error(transparent)]
    Archive(#[from] helm_archive::ArchiveError),
    /// Its `Chart.yaml` cannot have annotations.
    #[error(transparent)]
    ChartYaml(#[from] ChartMetadataError),
}

/// Copies the archive of a chart, with annotations in its `Chart.yaml`.
///
/// # Errors
/// If it is not the archive of a chart.
pub fn annotate(from: &Path, to: &Path, origin: &Origin) -> Result<(), ArchiveError> {
    let from = BufReader::new(File::open(from)?);
    copy(from, BufWriter::new(File::create(to)?), origin)
}

fn copy(from: impl Read, to: impl Write, origin: &Origin) -> Result<(), ArchiveError> {
    let mut error = None;
    let edit = |chart_yaml: &str| {
        annotated(chart_yaml, origin).unwrap_or_else(|found| {
            error = Some(found);
            chart_yaml.to_owned()
        })
    };
    rewrite(from, to, Limits::default(), edit)?;
    error.map_or(Ok(()), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, read::GzDecoder, write::GzEncoder};
    use helmops_release::marks;
    use tar::{Archive, Builder, Header};

    use super::*;

    fn origin() -> Origin {
        Origin {
            bundle_deployment: "web".to_owned(),
            agent_namespace: "agent".to_owned(),
            ..Origin::default()
        }
    }

    fn packed(files: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, text) in files {
            let mut header = Header::new_gnu();
            header.set_size(text.len().try_into().unwrap());
            out.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        out.into_inner().unwrap().finish().unwrap()
    }

    fn copied(archive: &[u8]) -> Result<Vec<String>, ArchiveError> {
        let mut out = Vec::new();
        copy(archive, &mut out, &origin())?;
        let mut archive = Archive::new(GzDecoder::new(&*out));
        let contents = archive.entries().unwrap().map(|entry| {
            let mut text = String::new();
            entry.unwrap().read_to_string(&mut text).unwrap();
            text
        });
        Ok(contents.collect())
    }

    #[test]
    fn only_the_chart_yaml_of_the_chart_itself_changes() {
        let chart = "name: web\nversion: 1.0.0\n";
        let subchart = "name: db\nversion: 2.0.0\n";
        let files = [("web/Chart.yaml", chart), ("web/charts/db/Chart.yaml", subchart)];
        let copied = copied(&packed(&files)).unwrap();
        assert!(copied[0].contains(marks::BUNDLE_ID), "{}", copied[0]);
        assert_eq!(copied[1], subchart);
    }

    #[test]
    fn what_is_no_chart_is_refused() {
        let error = copied(b"text").unwrap_err();
        assert!(matches!(error, ArchiveError::Archive(_)), "{error}");
        let annotations = "name: web\nversion: 1.0.0\nannotations: none\n";
        let error = copied(&packed(&[("web/Chart.yaml", annotations)])).unwrap_err();
        assert!(matches!(error, ArchiveError::ChartYaml(_)), "{error}");
    }
}
