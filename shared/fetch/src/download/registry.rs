//! Charts and other files in a registry.

use std::{io::Write, time::Instant};

use bounded_text::hex;
use helm_index::VersionRequest;
use helmops_model::chart::{registry::manifest, url::redacted};
use ring::digest::{SHA256, SHA384, SHA512, digest as hash};

use super::{
    Downloaded, Sources,
    error::{DigestMismatch, DownloadError, Origin},
    store::{Required, store},
};
use crate::{
    access::Access,
    oci::{RegistryChart, RegistryError},
};

/// How charts are pulled.
pub struct Pull<'a> {
    /// Sends requests.
    pub sources: Sources<'a>,
    /// Credentials and trust.
    pub access: &'a Access,
    /// The maximum size of an archive in bytes.
    pub limit: u64,
    /// The tags are those at this time or later.
    pub since: Instant,
}

impl Pull<'_> {
    /// Pulls a version. If the digest of its manifest was recorded, that manifest is pulled, whatever its tag points to now: all clusters
    /// get the same chart.
    pub async fn version<W: Write + Send + 'static>(
        &self,
        repo: &str,
        version: &VersionRequest<'_>,
        recorded: &str,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let Sources { http, registries, .. } = self.sources;
        let chart = registries
            .chart(http, self.access, repo)
            .map_err(DownloadError::Registry)?;
        if !recorded.is_empty() {
            return self.recorded(&chart, version.text(), recorded, output).await;
        }
        let found = registries
            .version_of_chart(&chart, version, self.since)
            .await
            .map_err(DownloadError::Registry)?;
        self.manifest(&chart, &found.digest, &found.url, &[], output)
            .await
    }

    async fn recorded<W: Write + Send + 'static>(
        &self,
        chart: &RegistryChart<'_>,
        version: &str,
        digest: &str,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        chart
            .check_digest(version, digest)
            .map_err(DownloadError::Registry)?;
        let url = chart.location(&format!("@{digest}"));
        match self.manifest(chart, digest, &url, &[], output).await {
            Err(DownloadError::Registry(error)) if error.is_unknown_manifest() => {
                Err(DownloadError::Deleted {
                    url,
                    version: version.to_owned(),
                    source: Box::new(error),
                })
            }
            other => other,
        }
    }

    /// Pulls what an index names by a reference. A tag or a digest in it decides: the version of the entry may be another one.
    /// `digests` are those of the archive.
    pub async fn archive<W: Write + Send + 'static>(
        &self,
        reference: &str,
        version: &VersionRequest<'_>,
        digests: &[Required],
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let Sources { http, registries, .. } = self.sources;
        let chart = registries
            .chart(http, self.access, reference)
            .map_err(DownloadError::Registry)?;
        let digest = match (chart.pinned_digest(), chart.pinned_tag()) {
            (Some(digest), _) => Ok(digest.to_owned()),
            (None, Some(tag)) => registries.digest_of_tag(&chart, tag, self.since).await,
            (None, None) => {
                let found = registries.version_of_chart(&chart, version, self.since).await;
                found.map(|found| found.digest)
            }
        };
        let digest = digest.map_err(DownloadError::Registry)?;
        let url = redacted(reference);
        self.manifest(&chart, &digest, &url, digests, output).await
    }

    /// Pulls the files of a Bundle with an ID: the only layer of the manifest that a tag in the reference names.
    pub async fn content<W: Write + Send + 'static>(
        &self,
        reference: &str,
        id: &str,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let Sources { http, registries, .. } = self.sources;
        let chart = registries
            .chart(http, self.access, reference)
            .map_err(DownloadError::Registry)?;
        let tag = chart.pinned_tag().unwrap_or_default();
        let digest = registries.digest_of_tag(&chart, tag, self.since).await;
        let digest = digest.map_err(DownloadError::Registry)?;
        let find = |manifest: &[u8]| manifest::content_layer(manifest, id);
        self.layer(&chart, (&digest, reference), find, &[], output).await
    }

    /// Pulls the archive of files that the manifest with a digest names. `url` is that of the manifest.
    pub async fn files<W: Write + Send + 'static>(
        &self,
        chart: &RegistryChart<'_>,
        digest: &str,
        url: &str,
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        self.layer(chart, (digest, url), manifest::files_layer, &[], output)
            .await
    }

    /// Pulls the archive that the manifest with a digest names.
    async fn manifest<W: Write + Send + 'static>(
        &self,
        chart: &RegistryChart<'_>,
        digest: &str,
        url: &str,
        digests: &[Required],
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        self.layer(chart, (digest, url), manifest::chart_layer, digests, output)
            .await
    }

    /// Pulls the layer that is found in the manifest with a digest.
    async fn layer<W: Write + Send + 'static>(
        &self,
        chart: &RegistryChart<'_>,
        (digest, url): (&str, &str),
        find: impl FnOnce(&[u8]) -> Result<manifest::ChartLayer, manifest::ManifestError>,
        digests: &[Required],
        output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let permit = chart.acquire_permit().await;
        let bytes = chart
            .manifest(&permit, digest)
            .await
            .map_err(DownloadError::Registry)?;
        check_manifest(digest, &bytes, url)?;
        let layer = find(&bytes).map_err(|source| {
            DownloadError::Registry(RegistryError::Manifest {
                reference: url.to_owned(),
                source,
            })
        })?;
        let response = chart
            .blob(&permit, &layer.digest)
            .await
            .map_err(DownloadError::Registry)?;
        let of_layer = Required {
            sha256: layer.digest.trim_start_matches("sha256:").to_owned(),
            origin: Origin::Manifest,
        };
        let required: Vec<_> = digests.iter().cloned().chain([of_layer]).collect();
        let stored = store(response, url, self.limit, &required, output).await?;
        Ok(Downloaded::of(stored, url.to_owned()))
    }
}

/// The manifest must be the one that was requested.
fn check_manifest(digest: &str, manifest: &[u8], url: &str) -> Result<(), DigestMismatch> {
    let algorithm = digest.split(':').next().unwrap_or_default();
    let actual = match algorithm {
        "sha384" => hash(&SHA384, manifest),
        "sha512" => hash(&SHA512, manifest),
        _ => hash(&SHA256, manifest),
    };
    let actual = format!("{algorithm}:{}", hex(actual.as_ref()));
    if actual == digest {
        return Ok(());
    }
    Err(DigestMismatch {
        url: url.to_owned(),
        origin: Origin::Requested,
        expected: digest.to_owned(),
        actual,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_the_digest_that_it_is_requested_by() {
        for algorithm in [
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "sha384",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
        ] {
            let digest = format!("{}:{}", algorithm.0, algorithm.1);
            assert_eq!(check_manifest(&digest, b"abc", "oci://h/web"), Ok(()));
            let error = check_manifest(&digest, b"abd", "oci://h/web").unwrap_err();
            assert_eq!(error.expected, digest);
            assert!(error.actual.starts_with(algorithm.0) && error.actual != digest);
        }
    }
}
