//! Charts that are packed from files: the version that is requested now, and the archive of a version.

use std::{io::Write, sync::Arc};

use helmops_git::Location;
use helmops_model::chart::{
    config_maps::ConfigMapFiles,
    request::{ChartRequest, PackedRequest, PackedSource},
    resolved::ChartVersion,
};
use helmops_runtime::error_class::{Classified, ClassifiedError};
use kube::Client;
use thiserror::Error;

use super::{
    ChartResolver, Resolver,
    access::{self, Access},
    artifact::{self, ArtifactError},
    bucket::{self, BucketError},
    config_maps::{ConfigMapError, ConfigMapSource},
    download::{DownloadError, Downloaded},
    error::ResolveError,
    git::{self, GitError},
    poll::DeployedChart,
    secret::{SecretError, Server},
};

/// Why a chart cannot be packed from its files.
#[derive(Debug, Error)]
pub enum PackedError {
    /// The Secret for a Git repository is missing or invalid.
    #[error("{}", git::error::in_terms_of_git(&.0.to_string()))]
    GitSecret(SecretError),
    /// The Git repository cannot be read, or has no such chart.
    #[error(transparent)]
    Git(GitError),
    /// The Secret for a bucket is missing or invalid.
    #[error("{}", bucket::error::in_terms_of_buckets(&.0.to_string()))]
    BucketSecret(SecretError),
    /// The bucket cannot be read, or has no such chart.
    #[error(transparent)]
    Bucket(BucketError),
    /// The Secret for an artifact is missing or invalid.
    #[error("{}", artifact::error::in_terms_of_artifacts(&.0.to_string()))]
    ArtifactSecret(SecretError),
    /// The registry cannot be read, or has no such chart.
    #[error(transparent)]
    Artifact(ArtifactError),
    /// The ConfigMaps cannot be read, or have no manifests.
    #[error(transparent)]
    ConfigMaps(ConfigMapError),
}

impl PackedError {
    /// Whether the Secret is missing or invalid, so that nothing was requested.
    pub const fn is_of_secret(&self) -> bool {
        matches!(
            self,
            Self::GitSecret(_) | Self::BucketSecret(_) | Self::ArtifactSecret(_)
        )
    }

    /// Whether the source was read, and has no such chart.
    pub const fn is_of_selection(&self) -> bool {
        matches!(
            self,
            Self::Git(GitError::Select { .. } | GitError::Chart { .. })
                | Self::Bucket(BucketError::Chart { .. } | BucketError::NoArchive { .. })
                | Self::Artifact(ArtifactError::Chart { .. })
                | Self::ConfigMaps(ConfigMapError::Manifests { .. })
        )
    }

    /// The error of a Secret, in the words of the source that it is for.
    fn of_secret(source: &PackedSource, error: SecretError) -> Self {
        match source {
            PackedSource::Git(_) => Self::GitSecret(error),
            PackedSource::Bucket(_) => Self::BucketSecret(error),
            // ConfigMaps have none.
            PackedSource::Artifact(_) | PackedSource::ConfigMaps(_) => Self::ArtifactSecret(error),
        }
    }
}

impl ClassifiedError for PackedError {
    fn classify(&self) -> Classified {
        match self {
            Self::GitSecret(error) | Self::BucketSecret(error) | Self::ArtifactSecret(error) => {
                error.classify()
            }
            Self::Git(error) => error.classify(),
            Self::Bucket(error) => error.classify(),
            Self::Artifact(error) => error.classify(),
            Self::ConfigMaps(error) => error.classify(),
        }
    }
}

/// The keys that the Secret of a source has.
pub fn server(source: &PackedSource) -> Server {
    match source {
        PackedSource::Git(_) => Server::Git,
        PackedSource::Bucket(_) => Server::Bucket,
        PackedSource::Artifact(_) | PackedSource::ConfigMaps(_) => Server::Charts,
    }
}

/// The origin that credentials may be sent to; empty if they are sent to no HTTP server.
pub fn origin(source: &PackedSource, plain_http: bool) -> String {
    match source {
        PackedSource::Git(chart) => match &chart.location {
            Location::Http(url) => access::repository_origin(url.as_str(), false),
            Location::Ssh(_) => String::new(),
        },
        PackedSource::Bucket(chart) => access::repository_origin(chart.location.endpoint.as_str(), false),
        PackedSource::Artifact(chart) => access::repository_origin(&chart.repo, plain_http),
        PackedSource::ConfigMaps(_) => String::new(),
    }
}

impl ChartResolver<'_> {
    /// The version that is requested now: the deployed one, if the chart is the same.
    pub(super) async fn packed_version(
        &mut self,
        request: &PackedRequest,
        deployed: DeployedChart<'_>,
    ) -> Result<ChartVersion, ResolveError> {
        let (resolver, client, since) = (self.resolver, self.context.client, self.context.since);
        let access = self.packed_access(request).await.map_err(ResolveError::Packed)?;
        let version = match &request.source {
            PackedSource::Git(chart) => {
                let version = resolver
                    .git
                    .version(&resolver.http, access, chart, deployed, since);
                Box::pin(version).await.map_err(PackedError::Git)
            }
            PackedSource::Bucket(chart) => {
                let version = resolver
                    .buckets
                    .version(&resolver.http, access, chart, deployed, since);
                Box::pin(version).await.map_err(PackedError::Bucket)
            }
            PackedSource::Artifact(chart) => {
                let sources = resolver.sources();
                let version = resolver
                    .artifacts
                    .version(sources, access, chart, deployed, since);
                Box::pin(version).await.map_err(PackedError::Artifact)
            }
            PackedSource::ConfigMaps(files) => {
                let version = config_maps(resolver, client, access, files)
                    .version(deployed)
                    .await;
                version.map_err(PackedError::ConfigMaps)
            }
        };
        version.map_err(ResolveError::Packed)
    }

    /// Writes the archive of a version that was resolved.
    pub(super) async fn packed_archive<W: Write + Send + 'static>(
        &mut self,
        request: &PackedRequest,
        version: &ChartVersion,
        limit: u64,
        mut output: W,
    ) -> Result<Downloaded<W>, DownloadError> {
        let (resolver, client) = (self.resolver, self.context.client);
        let access = self.packed_access(request).await.map_err(DownloadError::Packed)?;
        let packed = match &request.source {
            PackedSource::Git(chart) => {
                let archive = resolver
                    .git
                    .archive(&resolver.http, access, chart, version, limit);
                let packed = Box::pin(archive).await;
                packed
                    .map(|packed| (packed.archive, packed.digest))
                    .map_err(PackedError::Git)
            }
            PackedSource::Bucket(chart) => {
                let archive = resolver
                    .buckets
                    .archive(&resolver.http, access, chart, version, limit);
                let packed = Box::pin(archive).await;
                packed
                    .map(|packed| (packed.archive, packed.digest))
                    .map_err(PackedError::Bucket)
            }
            PackedSource::Artifact(chart) => {
                let archive = resolver
                    .artifacts
                    .archive(resolver.sources(), access, chart, version, limit);
                let packed = Box::pin(archive).await;
                packed
                    .map(|packed| (packed.archive, packed.digest))
                    .map_err(PackedError::Artifact)
            }
            PackedSource::ConfigMaps(files) => {
                let source = config_maps(resolver, client, access, files);
                let packed = source.archive(version, limit).await;
                packed
                    .map(|packed| (packed.archive, packed.digest))
                    .map_err(PackedError::ConfigMaps)
            }
        };
        let (archive, sha256) = packed.map_err(DownloadError::Packed)?;
        output.write_all(&archive).map_err(DownloadError::Write)?;
        Ok(Downloaded {
            output,
            sha256,
            bytes: archive.len() as u64,
            url: version.url.clone(),
        })
    }

    /// Whether a chart has changed since its version was resolved, as far as that is known without a poll.
    ///
    /// # Errors
    /// If what it consists of cannot be read.
    pub async fn has_changed(
        &mut self,
        request: &ChartRequest<'_>,
        version: &ChartVersion,
    ) -> Result<bool, ResolveError> {
        let Some(PackedRequest {
            source: PackedSource::ConfigMaps(files),
            ..
        }) = request.packed.as_deref()
        else {
            return Ok(false);
        };
        let (resolver, client) = (self.resolver, self.context.client);
        let access = self.access().await.map_err(ResolveError::Secret)?;
        let source = config_maps(resolver, client, access, files);
        let changed = source.has_changed(version).await;
        changed.map_err(|error| ResolveError::Packed(PackedError::ConfigMaps(error)))
    }

    async fn packed_access(&mut self, request: &PackedRequest) -> Result<&Arc<Access>, PackedError> {
        let access = self.access().await;
        access.map_err(|error| PackedError::of_secret(&request.source, error))
    }
}

fn config_maps<'a>(
    resolver: &'a Resolver,
    client: &'a Client,
    access: &'a Access,
    files: &'a ConfigMapFiles,
) -> ConfigMapSource<'a> {
    ConfigMapSource {
        client,
        namespace: &access.namespace,
        files,
        budget: &resolver.budget,
        compute: &resolver.buckets.compute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_by_the_field_of_the_source() {
        let missing = || SecretError::NotFound {
            namespace: "a".to_owned(),
            name: "access".to_owned(),
        };
        for (error, field) in [
            (
                PackedError::GitSecret(missing()),
                "spec.chartSource.git.secretRef",
            ),
            (
                PackedError::BucketSecret(missing()),
                "spec.chartSource.bucket.secretRef",
            ),
            (
                PackedError::ArtifactSecret(missing()),
                "spec.chartSource.oci.secretRef",
            ),
        ] {
            let text = error.to_string();
            assert!(text.contains(field) && !text.contains("Helm"), "{text}");
        }
    }
}
