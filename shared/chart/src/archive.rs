//! The archive of a chart: the same bytes for the same files.

use std::io::{self, Write};

use bounded_text::{excerpt, hex};
use go_formats::yaml;
use helm_archive::{ArchiveError, ArchiveWriter, Limits};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::{
    ChartFiles, Content, FileTree, content,
    error::ChartError,
    files,
    locate::{CHART_YAML, MAX_SHOWN},
    metadata::ChartYaml,
};

/// What a file of Git LFS begins with, if only the reference to it is in the repository.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Digits of a digest in a version.
const SHORT: usize = 12;

/// What is packed, and which version it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// A chart, with the version of its `Chart.yaml` and the start of the digest of its content as build metadata.
    #[default]
    Revision,
    /// A chart, with the version of its `Chart.yaml`.
    ChartVersion,
    /// Manifests of objects, which are no chart. Their version is `0.0.0` with the start of the digest of their content.
    Manifests,
}

impl Strategy {
    /// The text in the API, and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Revision => "Revision",
            Self::ChartVersion => "ChartVersion",
            Self::Manifests => "manifests",
        }
    }

    /// Parses the text in the API, which may be empty; `None` for any other text. Manifests have another field.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        [Self::Revision, Self::ChartVersion]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
}

/// A packed chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedChart<Id> {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The archive, as Helm reads it.
    pub archive: Vec<u8>,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub digest: String,
    /// What it consists of.
    pub content: Content<Id>,
}

/// Packs a chart into an archive of at most `limit` bytes.
///
/// # Errors
/// If a file is refused, or the result is not the archive of a chart.
pub fn pack<T: FileTree>(
    tree: &mut T,
    chart: ChartFiles<T::Id>,
    strategy: Strategy,
    limit: usize,
) -> Result<PackedChart<T::Id>, ChartError<T::Error>> {
    let ChartFiles {
        content,
        files,
        chart_yaml,
    } = chart;
    let mut archive = ArchiveWriter::new(Bounded {
        bytes: Vec::new(),
        limit,
    });
    let digest = match strategy {
        Strategy::Manifests => {
            content::digest_of(files.iter().map(|(path, file)| format!("{} {path}", file.id)))
        }
        Strategy::Revision | Strategy::ChartVersion => content.digest(),
    };
    let version = version(&chart_yaml.version, strategy, &digest);
    let mut total = 0;
    for (path, file) in files {
        let bytes = files::file(tree, file.id, &file.source)?;
        // Before it is compressed: one object may be the content of all files.
        total += bytes.len() as u64;
        if total > Limits::HELM.total {
            return Err(ChartError::Invalid {
                path: excerpt(&file.source, MAX_SHOWN),
                cause: format!(
                    "with it the files have more than {} MiB, which is the limit; move large files out of the folder, or name them in the .helmignore of a chart",
                    Limits::HELM.total >> 20
                ),
            });
        }
        if bytes.starts_with(LFS) {
            return Err(ChartError::Refused {
                path: excerpt(&file.source, MAX_SHOWN),
                problem: "is a reference to a file of Git LFS, which is not fetched; commit the file itself, move it out of the folder, or name it in the .helmignore of a chart",
            });
        }
        let path = format!("{}/{path}", chart_yaml.name);
        let written = if strategy == Strategy::Revision
            && path.strip_prefix(&*chart_yaml.name) == Some("/Chart.yaml")
        {
            archive.add(
                &path,
                with_version::<T::Error>(&chart_yaml, &version, &file.source)?.as_bytes(),
            )
        } else {
            archive.add(&path, &bytes)
        };
        written.map_err(|error| write_error::<T::Error>(&error, &file.source, limit))?;
    }
    let archive = archive
        .finish()
        .map_err(|error| write_error::<T::Error>(&error, CHART_YAML, limit))?
        .bytes;
    if strategy == Strategy::Manifests {
        return Ok(packed(archive, content, chart_yaml.name, version));
    }
    Ok(as_is(archive, content)?)
}

/// An archive that is deployed as it is.
///
/// # Errors
/// If it is not the archive of a chart.
pub fn as_is<Id>(archive: Vec<u8>, content: Content<Id>) -> Result<PackedChart<Id>, ArchiveError> {
    let checked = helm_archive::check(&*archive, Limits::HELM)?;
    Ok(packed(archive, content, checked.name, checked.version))
}

fn packed<Id>(archive: Vec<u8>, content: Content<Id>, name: String, version: String) -> PackedChart<Id> {
    PackedChart {
        name,
        version,
        digest: hex(digest(&SHA256, &archive).as_ref()),
        archive,
        content,
    }
}

/// The version of the packed chart.
fn version(version: &str, strategy: Strategy, digest: &str) -> String {
    match strategy {
        Strategy::ChartVersion => version.to_owned(),
        Strategy::Revision | Strategy::Manifests => {
            let separator = if version.contains('+') { '.' } else { '+' };
            let short: String = digest.chars().take(SHORT).collect();
            format!("{version}{separator}{short}")
        }
    }
}

/// A `Chart.yaml` with another version. Comments are lost, as with `helm package --version`.
fn with_version<E>(chart: &ChartYaml, version: &str, source: &str) -> Result<String, ChartError<E>> {
    let mut value = chart.value.clone();
    if let Value::Object(fields) = &mut value {
        fields.insert("version".to_owned(), version.into());
    }
    yaml::emit_exact(&value).map_err(|error| ChartError::Invalid {
        path: excerpt(source, MAX_SHOWN),
        cause: error.to_string(),
    })
}

/// Bytes, up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_error<E>(error: &io::Error, source: &str, limit: usize) -> ChartError<E> {
    let cause = match error.kind() {
        io::ErrorKind::FileTooLarge => {
            format!(
                "with it the archive of the files has more than {} MiB, which is the limit; move large files out of the folder, or name them in the .helmignore of a chart",
                limit >> 20
            )
        }
        _ => format!("it cannot be packed: {error}"),
    };
    ChartError::Invalid {
        path: excerpt(source, MAX_SHOWN),
        cause,
    }
}
