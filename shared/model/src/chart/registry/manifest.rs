//! The manifest of a chart: which layer is its archive, and which version its configuration has.

use std::collections::BTreeMap;

use bounded_text::cut;
use masterminds_semver::Version;
use serde::Deserialize;
use thiserror::Error;

use super::digest::{Digest, DigestError};

/// The media type of the configuration of a chart.
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
/// The media types of the archive of a chart: the second one is of Helm before 3.0.
pub const ARCHIVES: [&str; 2] = [
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    "application/tar+gzip",
];
/// The media type of the archive of files that Flux pushes.
const OF_FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
/// How the media types of archives of files end.
const ARCHIVES_OF_FILES: [&str; 2] = [".tar+gzip", ".tar.gzip"];
/// Maximum length of a quoted text in bytes.
const MAX_QUOTED: usize = 200;

/// Whether a layer of this media type is the archive of a chart.
pub fn is_archive(media_type: &str) -> bool {
    ARCHIVES.contains(&media_type)
}

/// The layer of a manifest that is the archive of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartLayer {
    /// Its digest, `sha256:…`.
    pub digest: String,
    /// Its size, in bytes, as the manifest has it.
    pub size: u64,
}

/// Why a manifest is not that of a chart.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ManifestError {
    /// Not a manifest.
    #[error("the manifest cannot be decoded, in line {line} column {column}")]
    Malformed {
        /// The line of the error, from 1.
        line: usize,
        /// The column of the error.
        column: usize,
    },
    /// It is of something else, such as a container image, or a list of manifests.
    #[error(
        "it is not a chart, but of type {found:?}; a chart has a configuration of type {CONFIG} and is published with `helm push`"
    )]
    NotAChart {
        /// The type of its configuration, or of the manifest.
        found: String,
    },
    /// It has no archive, or several.
    #[error("the manifest has {number} layers of type {}, but a chart has one", ARCHIVES[0])]
    Layers {
        /// The number of such layers.
        number: usize,
    },
    /// It does not have the files of a Bundle.
    #[error(
        "the manifest has not one layer with the annotation id: {id}, as the files of a Bundle have, but {number} layers"
    )]
    Content {
        /// The ID of the files.
        id: String,
        /// The number of layers.
        number: usize,
    },
    /// It is a Helm chart, and no artifact with files.
    #[error(
        "it is a chart that was published with `helm push`; name it in spec.helm.repo, and remove spec.chartSource"
    )]
    HelmChart,
    /// It has no archive of files, or several.
    #[error(
        "the manifest has {number} layers with an archive of files (tar+gzip), but an artifact has one; push the files with `flux push artifact`"
    )]
    Files {
        /// The number of such layers.
        number: usize,
    },
    /// The digest of the archive is malformed.
    #[error("the digest of the chart in the manifest cannot be used: {0}")]
    Digest(DigestError),
    /// The digest of the archive has another algorithm than SHA-256, which every tool uses.
    #[error(
        "the digest of the chart in the manifest is {0:?}, but only sha256 is supported; publish the chart with `helm push`"
    )]
    Algorithm(String),
    /// The configuration has no version, which is needed if the reference has none.
    #[error(
        "the configuration of the chart has no valid version ({found:?}), and the reference has none either; publish the chart with \
         `helm push`"
    )]
    Version {
        /// The version in it; empty for none.
        found: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The metadata of a chart, which are its configuration.
#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    version: String,
}

/// The layer of a manifest that is the archive of its chart.
///
/// # Errors
/// If it is not the manifest of a chart.
pub fn chart_layer(manifest: &[u8]) -> Result<ChartLayer, ManifestError> {
    let (_, layers) = config_and_layers(manifest)?;
    let layers = layers.into_iter();
    let mut archives: Vec<_> = layers.filter(|layer| is_archive(&layer.media_type)).collect();
    let (Some(archive), 0) = (archives.pop(), archives.len()) else {
        return Err(ManifestError::Layers {
            number: if archives.is_empty() {
                0
            } else {
                archives.len() + 1
            },
        });
    };
    of_sha256(archive)
}

/// The layer with the files of a Bundle, as Fleet stores them: the only one, with their ID.
///
/// # Errors
/// If it is not the manifest of these files.
pub fn content_layer(manifest: &[u8], id: &str) -> Result<ChartLayer, ManifestError> {
    let manifest: Manifest = decoded(manifest)?;
    let number = manifest.layers.len();
    let mut layers = manifest.layers.into_iter();
    let has_id = |layer: &Descriptor| layer.annotations.get("id").is_some_and(|found| found == id);
    match (layers.next().filter(has_id), layers.next()) {
        (Some(layer), None) => of_sha256(layer),
        _ => Err(ManifestError::Content {
            id: cut(id.to_owned(), MAX_QUOTED),
            number,
        }),
    }
}

/// The layer with the files of an artifact: that of Flux, or the only archive.
///
/// # Errors
/// If the manifest is of something else, such as a chart.
pub fn files_layer(manifest: &[u8]) -> Result<ChartLayer, ManifestError> {
    let Manifest { config, layers, .. } = decoded(manifest)?;
    if config.is_some_and(|config| config.media_type == CONFIG) {
        return Err(ManifestError::HelmChart);
    }
    let is_archive = |media_type: &str| ARCHIVES_OF_FILES.iter().any(|end| media_type.ends_with(end));
    let (of_flux, others): (Vec<_>, Vec<_>) = layers
        .into_iter()
        .filter(|layer| is_archive(&layer.media_type))
        .partition(|layer| layer.media_type == OF_FLUX);
    let mut candidates = if of_flux.is_empty() { others } else { of_flux };
    let number = candidates.len();
    match (candidates.pop(), number) {
        (Some(layer), 1) => of_sha256(layer),
        _ => Err(ManifestError::Files { number }),
    }
}

fn of_sha256(layer: Descriptor) -> Result<ChartLayer, ManifestError> {
    let size = layer.size;
    let digest = blob_digest(layer)?;
    if !digest.starts_with("sha256:") {
        return Err(ManifestError::Algorithm(digest));
    }
    Ok(ChartLayer { digest, size })
}

/// The digest of the configuration of a chart, for [`chart_version`].
///
/// # Errors
/// If it is not the manifest of a chart.
pub fn config_digest(manifest: &[u8]) -> Result<String, ManifestError> {
    let (config, _) = config_and_layers(manifest)?;
    blob_digest(config)
}

/// The version in the configuration of a chart, which Helm takes from Chart.yaml.
///
/// # Errors
/// If it has none.
pub fn chart_version(config: &[u8]) -> Result<String, ManifestError> {
    let Metadata { version } = decoded(config)?;
    if Version::parse(&version).is_ok() {
        return Ok(version);
    }
    Err(ManifestError::Version {
        found: cut(version, MAX_QUOTED),
    })
}

fn config_and_layers(manifest: &[u8]) -> Result<(Descriptor, Vec<Descriptor>), ManifestError> {
    let manifest: Manifest = decoded(manifest)?;
    let not_a_chart = |found| ManifestError::NotAChart {
        found: cut(found, MAX_QUOTED),
    };
    match manifest.config {
        Some(config) if config.media_type == CONFIG => Ok((config, manifest.layers)),
        Some(config) => Err(not_a_chart(config.media_type)),
        None => Err(not_a_chart(manifest.media_type)),
    }
}

fn blob_digest(blob: Descriptor) -> Result<String, ManifestError> {
    let digest = cut(blob.digest, MAX_QUOTED);
    Digest::parse(&digest).map_err(ManifestError::Digest)?;
    Ok(digest)
}

fn decoded<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ManifestError> {
    // The decoder's own message could quote the content.
    serde_json::from_slice(json).map_err(|error| ManifestError::Malformed {
        line: error.line(),
        column: error.column(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn layer(media_type: &str, digest: &str) -> Value {
        json!({ "mediaType": media_type, "digest": digest, "size": 7 })
    }

    fn manifest(config: &str, layers: &[Value]) -> Value {
        json!({ "schemaVersion": 2, "config": layer(config, DIGEST), "layers": layers })
    }

    fn read(manifest: &Value) -> Result<ChartLayer, String> {
        chart_layer(manifest.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_archive_is_found_among_the_layers() {
        let provenance = layer("application/vnd.cncf.helm.chart.provenance.v1.prov", DIGEST);
        for media_type in ARCHIVES {
            let layers = [provenance.clone(), layer(media_type, DIGEST)];
            let expected = ChartLayer {
                digest: DIGEST.to_owned(),
                size: 7,
            };
            assert_eq!(read(&manifest(CONFIG, &layers)), Ok(expected));
        }
    }

    #[test]
    fn the_files_of_a_bundle_are_the_only_layer_and_have_their_id() {
        let layer = |id: &str| {
            let mut layer = layer("application/fleet.file", DIGEST);
            layer["annotations"] = json!({ "id": id });
            layer
        };
        let read = |layers: &[Value]| {
            let manifest = json!({ "schemaVersion": 2, "layers": layers }).to_string();
            content_layer(manifest.as_bytes(), "s-1").map(|layer| layer.digest)
        };
        assert_eq!(read(&[layer("s-1")]), Ok(DIGEST.to_owned()));
        for layers in [vec![], vec![layer("s-2")], vec![layer("s-1"), layer("s-1")]] {
            let number = layers.len();
            let id = "s-1".to_owned();
            assert_eq!(read(&layers), Err(ManifestError::Content { id, number }));
        }
    }

    #[test]
    fn the_files_of_an_artifact_are_its_only_archive_or_that_of_flux() {
        let (image, docker) = (
            layer("application/vnd.oci.image.layer.v1.tar+gzip", DIGEST),
            layer("application/vnd.docker.image.rootfs.diff.tar.gzip", DIGEST),
        );
        let (flux, text) = (layer(OF_FLUX, DIGEST), layer("text/plain", DIGEST));
        let read = |config: &str, layers: &[Value]| {
            files_layer(manifest(config, layers).to_string().as_bytes()).map(|layer| layer.size)
        };
        let config = "application/vnd.cncf.flux.config.v1+json";
        for layers in [
            vec![flux.clone()],
            vec![text.clone(), flux.clone(), image.clone()],
            vec![image.clone(), text.clone()],
            vec![docker.clone()],
        ] {
            assert_eq!(read(config, &layers), Ok(7), "{layers:?}");
        }
        for (layers, number) in [
            (vec![], 0),
            (vec![text], 0),
            (vec![image, docker], 2),
            (vec![flux.clone(), flux.clone()], 2),
        ] {
            assert_eq!(read(config, &layers), Err(ManifestError::Files { number }));
        }
        assert_eq!(read(CONFIG, &[flux]), Err(ManifestError::HelmChart));
    }

    #[test]
    fn the_version_of_a_chart_is_in_its_configuration() {
        let manifest = manifest(CONFIG, &[]).to_string();
        assert_eq!(config_digest(manifest.as_bytes()), Ok(DIGEST.to_owned()));
        let image =
            json!({ "config": layer("application/vnd.oci.image.config.v1+json", DIGEST) }).to_string();
        assert!(config_digest(image.as_bytes()).is_err());
        let version = |config: Value| chart_version(config.to_string().as_bytes());
        assert_eq!(
            version(json!({ "name": "web", "version": "1.2.3+b" })),
            Ok("1.2.3+b".to_owned())
        );
        for config in [
            json!({}),
            json!({ "version": "latest" }),
            json!({ "version": "1".repeat(1_000) }),
        ] {
            assert!(
                matches!(version(config), Err(ManifestError::Version { found }) if found.len() <= MAX_QUOTED)
            );
        }
    }

    #[test]
    fn what_is_not_the_manifest_of_a_chart_is_an_error() {
        let archive = || layer(ARCHIVES[0], DIGEST);
        let sha512 = format!("sha512:{}", "0".repeat(128));
        let index = json!({ "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [] });
        for (manifest, message) in [
            (
                manifest("application/vnd.oci.image.config.v1+json", &[archive()]),
                "image.config.v1+json",
            ),
            (index, "image.index.v1+json"),
            (json!({}), "not a chart, but of type \"\""),
            (manifest(CONFIG, &[]), "has 0 layers"),
            (manifest(CONFIG, &[archive(), archive()]), "has 2 layers"),
            (
                manifest(CONFIG, &[layer(ARCHIVES[0], "sha256:0")]),
                "needs 64 hexadecimal digits",
            ),
            (
                manifest(CONFIG, &[layer(ARCHIVES[0], "")]),
                "names no known algorithm",
            ),
            (manifest(CONFIG, &[layer(ARCHIVES[0], &sha512)]), "only sha256"),
            (json!("text"), "cannot be decoded, in line 1"),
        ] {
            let error = read(&manifest).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
