//! The archive of a chart with annotations in its `Chart.yaml`.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Component, Path},
};

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use helmops_release::chart_metadata::{self, ChartMetadataError, Origin};
use tar::{Archive, Builder, EntryType, Header};
use thiserror::Error;

/// Maximum bytes of a chart, unpacked. A release with a larger one does not fit into its Secret.
const MAX_UNPACKED: u64 = 256 << 20;
/// Maximum number of files in a chart.
const MAX_FILES: usize = 10_000;
const CHART_YAML: &str = "Chart.yaml";

/// Why an archive cannot be used.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// It is no archive, or the result cannot be written.
    #[error("the archive of the chart cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Its `Chart.yaml` is invalid.
    #[error(transparent)]
    ChartYaml(#[from] ChartMetadataError),
    /// Its `Chart.yaml` is not text.
    #[error("Chart.yaml is not UTF-8")]
    NotText,
    /// It has no `Chart.yaml`.
    #[error("the archive has no file NAME/Chart.yaml, so it is no chart")]
    NoChart,
    /// It has too many files.
    #[error("the archive has more than {MAX_FILES} files")]
    TooMany,
    /// It is too large.
    #[error("the archive has more than {MAX_UNPACKED} bytes, unpacked")]
    TooLarge,
}

/// Copies the archive of a chart, with annotations in its `Chart.yaml`. All other files stay as they are; links and devices are left
/// out.
///
/// # Errors
/// If it is no archive of a chart, or too large.
pub fn annotate(from: &Path, to: &Path, origin: &Origin) -> Result<(), ArchiveError> {
    let packed = BufReader::new(File::open(from)?);
    let mut out = GzEncoder::new(BufWriter::new(File::create(to)?), Compression::fast());
    copy(packed, &mut out, origin)?;
    out.finish()?.flush()?;
    Ok(())
}

fn copy(from: impl Read, to: impl Write, origin: &Origin) -> Result<(), ArchiveError> {
    // One byte more than the maximum: the end of the limit is no end of the archive.
    let mut unpacked = MultiGzDecoder::new(from).take(MAX_UNPACKED + 1);
    let has_chart = copy_files(&mut unpacked, to, origin)?;
    if unpacked.limit() == 0 {
        return Err(ArchiveError::TooLarge);
    }
    if has_chart {
        Ok(())
    } else {
        Err(ArchiveError::NoChart)
    }
}

/// Returns whether there is a `Chart.yaml`.
fn copy_files(unpacked: impl Read, to: impl Write, origin: &Origin) -> Result<bool, ArchiveError> {
    let mut archive = Archive::new(unpacked);
    let mut out = Builder::new(to);
    let (mut has_chart, mut files) = (false, 0);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        files += 1;
        if files > MAX_FILES {
            return Err(ArchiveError::TooMany);
        }
        let path = entry.path()?.into_owned();
        let mut header = plain_header(entry.header());
        if is_chart_yaml(&path) {
            has_chart = true;
            let text = annotated(&mut entry, origin)?;
            header.set_size(text.len().try_into().unwrap_or(u64::MAX));
            out.append_data(&mut header, &path, text.as_bytes())?;
        } else {
            header.set_size(entry.size());
            out.append_data(&mut header, &path, &mut entry)?;
        }
    }
    out.into_inner()?;
    Ok(has_chart)
}

fn annotated(entry: &mut impl Read, origin: &Origin) -> Result<String, ArchiveError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(chart_metadata::MAX_BYTES).unwrap_or(u64::MAX);
    entry.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| ArchiveError::NotText)?;
    Ok(chart_metadata::annotated(&text, origin)?)
}

/// The file of the chart itself, and not that of a dependency, such as `web/charts/db/Chart.yaml`.
fn is_chart_yaml(path: &Path) -> bool {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let parts: Vec<_> = parts.take(3).collect();
    matches!(parts.as_slice(), [Component::Normal(_), Component::Normal(name)] if *name == CHART_YAML)
}

/// A header with the time of the file, which Helm records.
fn plain_header(of: &Header) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_mtime(of.mtime().unwrap_or_default());
    header
}

#[cfg(test)]
mod tests {
    use helmops_release::marks;

    use super::*;

    fn origin() -> Origin {
        Origin {
            bundle_deployment: "web".to_owned(),
            agent_namespace: "agent".to_owned(),
            service_account: String::new(),
            keep_resources: false,
            commit: String::new(),
            attempt: None,
        }
    }

    fn packed(files: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, text) in files {
            let mut header = Header::new_gnu();
            header.set_size(text.len().try_into().unwrap());
            header.set_mtime(7);
            out.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        out.into_inner().unwrap().finish().unwrap()
    }

    fn copied(archive: &[u8]) -> Result<Vec<(String, String)>, ArchiveError> {
        let mut out = Vec::new();
        copy(archive, &mut out, &origin())?;
        let mut archive = Archive::new(&*out);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 7);
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (entry.path().unwrap().display().to_string(), text)
        });
        Ok(entries.collect())
    }

    #[test]
    fn only_the_chart_yaml_of_the_chart_itself_changes() {
        let long = format!("web/templates/{}.yaml", "x".repeat(200));
        let files = [
            ("./web/Chart.yaml", "name: web\nversion: 1.0.0\n"),
            ("web/charts/db/Chart.yaml", "name: db\n"),
            (&long, "a: b\n"),
        ];
        let copied = copied(&packed(&files)).unwrap();
        assert_eq!(copied.len(), 3);
        assert!(copied[0].1.contains(marks::BUNDLE_ID), "{}", copied[0].1);
        for (copy, (path, text)) in copied.iter().zip(files).skip(1) {
            assert_eq!((&*copy.0, &*copy.1), (path, text));
        }
    }

    #[test]
    fn what_is_no_chart_is_refused() {
        let error = copied(&packed(&[("web/values.yaml", "a: b")])).unwrap_err();
        assert!(matches!(error, ArchiveError::NoChart), "{error}");
        let error = copied(b"text").unwrap_err();
        assert!(matches!(error, ArchiveError::Io(_)), "{error}");
        let error = copied(&packed(&[("web/Chart.yaml", "[")])).unwrap_err();
        assert!(matches!(error, ArchiveError::ChartYaml(_)), "{error}");
    }

    #[test]
    fn links_are_left_out() {
        let mut out = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        out.append_link(&mut header, "web/link", "/etc/passwd").unwrap();
        let archive = out.into_inner().unwrap().finish().unwrap();
        assert!(matches!(copied(&archive), Err(ArchiveError::NoChart)));
    }

    #[test]
    fn a_large_archive_is_refused() {
        let many: Vec<_> = (0..=MAX_FILES).map(|number| format!("web/{number}")).collect();
        let many: Vec<_> = many.iter().map(|path| (&**path, "")).collect();
        let error = copied(&packed(&many)).unwrap_err();
        assert!(matches!(error, ArchiveError::TooMany), "{error}");
    }
}
