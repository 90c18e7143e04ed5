//! The version of a chart in an artifact, as it is recorded: with the digest of the manifest in its URL, and what it consists of as its
//! digest.

use std::time::Instant;

use helmops_chart::PackedListedChart;
use helmops_model::chart::{artifact::ArtifactChart, resolved::ChartVersion};
use helmops_runtime::error_class::ClassifiedError;

use super::{Access, ArtifactError, Artifacts, Sources};
use crate::poll::DeployedChart;

impl Artifacts {
    /// The version that is requested now: the deployed one, if the chart is the same.
    ///
    /// # Errors
    /// If the registry cannot be read, or has no such artifact or chart.
    pub async fn version(
        &self,
        sources: Sources<'_>,
        access: &Access,
        chart: &ArtifactChart,
        deployed: DeployedChart<'_>,
        since: Instant,
    ) -> Result<ChartVersion, ArtifactError> {
        let source = self.source(sources, access, chart)?;
        let digest = source.digest(since).await?;
        let url = source.url(&digest);
        let recorded = deployed.version.cloned().unwrap_or_default();
        if recorded.url == url {
            return Ok(recorded);
        }
        let found = source.content(&digest).await?;
        let content = found.content.to_string();
        // What is held counts as what the chart is.
        let known = match deployed.changed_digest {
            "" => &*recorded.digest,
            held => held,
        };
        if known == content {
            return Ok(ChartVersion {
                digest: content,
                ..recorded
            });
        }
        Ok(ChartVersion {
            version: found.version.clone(),
            digest: content,
            url,
        })
    }

    /// The archive of a version that was resolved.
    ///
    /// # Errors
    /// If the registry cannot be read, or has no such chart any more.
    pub async fn archive(
        &self,
        sources: Sources<'_>,
        access: &Access,
        chart: &ArtifactChart,
        version: &ChartVersion,
        limit: u64,
    ) -> Result<PackedListedChart, ArtifactError> {
        let source = self.source(sources, access, chart)?;
        let packed = async |digest: String| {
            let packed = source.packed(&digest, limit).await?;
            if packed.content.to_string() == version.digest {
                return Ok(packed);
            }
            Err(ArtifactError::Changed {
                url: version.url.clone(),
            })
        };
        let Some((_, digest)) = version.url.rsplit_once('@') else {
            return packed(source.digest(Instant::now()).await?).await;
        };
        match packed(digest.to_owned()).await {
            // Registries delete manifests that no tag names. The chart may be the same in another one.
            Err(error) if !error.class().is_transient() && chart.is_moving() => {
                let now = source.digest(Instant::now()).await;
                match now {
                    Ok(now) if now != digest => packed(now).await.map_err(|_| error),
                    _ => Err(error),
                }
            }
            other => other,
        }
    }
}
