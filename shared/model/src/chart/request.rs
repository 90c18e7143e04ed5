//! What a HelmOp requests: a chart, and a version or a range of versions.

use std::sync::Arc;

use helm_index::{VersionRequest, is_strict_version, tags};
use helmops_bucket::{BucketChart, ChartObject};
use helmops_git::{GitChart, chart::Strategy};

use super::{
    artifact::ArtifactChart, config_maps::ConfigMapFiles, delivery::content_folder,
    registry::reference::Reference, source::ChartSource,
};

/// The target's own `repo`, `chart` or `version`, or the one of `spec.helm` if the target's is empty.
pub const fn or_inherited<'a>(own: &'a str, main: &'a str) -> &'a str {
    if own.is_empty() { main } else { own }
}

/// A chart that the controller packs from files, so that no cluster fetches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedRequest {
    /// Where the files are, as records have it.
    pub repo: String,
    /// The name of the Secret with the access; empty for none.
    pub secret: String,
    /// Which chart of it is requested.
    pub source: PackedSource,
}

/// Where the files of a packed chart are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackedSource {
    /// In a Git repository.
    Git(GitChart),
    /// In a bucket.
    Bucket(BucketChart),
    /// In an artifact of a registry.
    Artifact(ArtifactChart),
    /// In ConfigMaps.
    ConfigMaps(ConfigMapFiles),
}

impl PackedSource {
    /// The field of `spec.chartSource` that names it.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Git(_) => "git",
            Self::Bucket(_) => "bucket",
            Self::Artifact(_) => "oci",
            Self::ConfigMaps(_) => "configMaps",
        }
    }

    /// Where the chart is, below the top of the source.
    pub fn path(&self) -> &str {
        match self {
            Self::Git(chart) => chart.path.as_str(),
            Self::Bucket(chart) => chart.path(),
            Self::Artifact(chart) => chart.path.as_str(),
            Self::ConfigMaps(_) => "",
        }
    }

    /// What is requested of it, besides the path; part of the key of its record.
    pub fn requested(&self) -> String {
        match self {
            Self::Git(chart) => chart.requested(),
            Self::Bucket(chart) => chart.requested(),
            Self::Artifact(chart) => chart.requested(),
            Self::ConfigMaps(_) => "current keys".to_owned(),
        }
    }

    /// Whether its files are manifests of objects, and no chart.
    pub fn has_manifests(&self) -> bool {
        match self {
            Self::Git(chart) => chart.strategy == Strategy::Manifests,
            Self::Bucket(chart) => {
                matches!(chart.object, ChartObject::Folder { strategy, .. } if strategy == Strategy::Manifests)
            }
            Self::Artifact(chart) => chart.strategy == Strategy::Manifests,
            Self::ConfigMaps(_) => true,
        }
    }

    /// Whether it is in a registry that is requested without TLS.
    pub const fn is_insecure_registry(&self) -> bool {
        matches!(self, Self::Artifact(chart) if chart.insecure)
    }

    /// Whether another content can be found later.
    pub const fn is_moving(&self) -> bool {
        match self {
            Self::Git(chart) => chart.is_moving(),
            Self::Bucket(_) | Self::ConfigMaps(_) => true,
            Self::Artifact(chart) => chart.is_moving(),
        }
    }
}

/// A chart and the versions of it that satisfy the request.
#[derive(Clone, Debug)]
pub struct ChartRequest<'a> {
    /// URL of the repository, or reference in a registry; empty for an archive, and for a packed chart.
    pub repo: &'a str,
    /// Name of the chart, or URL of an archive; empty for a packed chart.
    pub chart: &'a str,
    /// The chart that is packed from files, if it is: then nothing else chooses it.
    pub packed: Option<Arc<PackedRequest>>,
    /// Which versions satisfy the request.
    pub version: VersionRequest<'a>,
    /// What happens when the version or the tag is published again; `None` for the default.
    pub on_digest_change: Option<OnDigestChange>,
}

/// What happens when a version or a tag has another digest than the one that is recorded: `spec.onDigestChange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDigestChange {
    /// The recorded one stays deployed, and the other one is reported.
    Hold,
    /// The other one is released.
    Follow,
}

impl OnDigestChange {
    /// The text in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "Hold",
            Self::Follow => "Follow",
        }
    }

    /// Parses the text in the API; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Hold, Self::Follow]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
}

impl ChartRequest<'_> {
    /// Where the chart comes from.
    pub fn source(&self) -> ChartSource<'_> {
        match &self.packed {
            Some(packed) => ChartSource::Packed {
                repo: &packed.repo,
                path: packed.source.path(),
            },
            None => ChartSource::of(self.repo, self.chart),
        }
    }

    /// Whether manifests of objects are requested, and no chart.
    pub fn has_manifests(&self) -> bool {
        self.packed
            .as_ref()
            .is_some_and(|packed| packed.source.has_manifests())
    }

    /// The folder of its files in their content, see [`content_folder`]; empty for manifests, which need none.
    pub fn content_folder(&self) -> &str {
        if self.has_manifests() {
            return "";
        }
        content_folder(self.source())
    }

    /// Whether a newer version can appear later; see [`is_floating`].
    pub fn is_floating(&self) -> bool {
        if let Some(packed) = &self.packed {
            return packed.source.is_moving();
        }
        is_floating(self.repo, self.chart, self.version.text())
    }

    /// Whether a poll can find something else than what is recorded; see [`is_polled`].
    pub fn is_polled(&self) -> bool {
        if let Some(packed) = &self.packed {
            return packed.source.is_moving();
        }
        let names = (self.repo, self.chart, self.version.text());
        is_polled(names, self.on_digest_change)
    }

    /// Whether another digest of the same version, or of the same tag, is released.
    pub fn follows_digest(&self) -> bool {
        match self.on_digest_change {
            Some(policy) => policy == OnDigestChange::Follow,
            None => self.names_moving_tag(),
        }
    }

    /// Whether the reference names a tag that is no version, such as `latest`, and no digest.
    pub fn names_moving_tag(&self) -> bool {
        names_moving_tag(self.source())
    }
}

/// Whether a poll can find something else than what is recorded: a newer version, or another digest of a tag or, with a policy for it, of
/// the version. A digest in the reference never changes, and an archive is not polled.
pub fn is_polled((repo, chart, version): (&str, &str, &str), policy: Option<OnDigestChange>) -> bool {
    let source = ChartSource::of(repo, chart);
    let can_move = match source {
        // The request decides about a packed chart.
        ChartSource::Archive { .. } | ChartSource::Packed { .. } => false,
        ChartSource::Repository { .. } => true,
        ChartSource::Oci { repo } => Reference::parse(repo).is_ok_and(|reference| reference.digest.is_none()),
    };
    is_floating(repo, chart, version) || can_move && (policy.is_some() || names_moving_tag(source))
}

fn names_moving_tag(source: ChartSource<'_>) -> bool {
    let ChartSource::Oci { repo } = source else {
        return false;
    };
    Reference::parse(repo).is_ok_and(|reference| {
        let tag = reference.tag.map(tags::of_version);
        reference.digest.is_none() && tag.is_some_and(|tag| tags::version_of(&tag).is_none())
    })
}

/// Whether a newer version can appear later: not for an archive, which has no versions, nor for an exact version, nor if
/// the reference to a registry names a tag or a digest.
pub fn is_floating(repo: &str, chart: &str, version: &str) -> bool {
    let has_versions = match ChartSource::of(repo, chart) {
        ChartSource::Archive { .. } | ChartSource::Packed { .. } => false,
        ChartSource::Repository { .. } => true,
        ChartSource::Oci { repo } => Reference::parse(repo)
            .is_ok_and(|reference| reference.tag.is_none() && reference.digest.is_none()),
    };
    has_versions && !is_strict_version(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_request_is_polled_if_it_can_have_another_result() {
        let pinned = format!("oci://h/web@{DIGEST}");
        let both = format!("oci://h/web:latest@{DIGEST}");
        // Whether it is polled without a policy and with one, and whether it is followed by default.
        for (repo, chart, version, polled, follows) in [
            ("https://h", "web", "1.x", [true, true], false),
            ("https://h", "web", "1.2.3", [false, true], false),
            ("", "https://h/web-1.2.3.tgz", "", [false, false], false),
            ("oci://h/web", "", "", [true, true], false),
            ("oci://h/web", "", "1.2.3", [false, true], false),
            ("oci://h/web:1.2.3", "", "", [false, true], false),
            ("oci://h/web:latest", "", "", [true, true], true),
            ("oci://h/web:1.2", "", "1.2.3", [true, true], true),
            (&pinned, "", "1.x", [false, false], false),
            (&both, "", "", [false, false], false),
        ] {
            let request = |on_digest_change| ChartRequest {
                repo,
                chart,
                packed: None,
                version: VersionRequest::parse(version).unwrap(),
                on_digest_change,
            };
            let policies = [None, Some(OnDigestChange::Hold)];
            let found = policies.map(|policy| request(policy).is_polled());
            assert_eq!(found, polled, "{repo} {chart} {version}");
            assert_eq!(
                request(None).follows_digest(),
                follows,
                "{repo} {chart} {version}"
            );
            assert!(request(Some(OnDigestChange::Follow)).follows_digest());
            assert!(!request(Some(OnDigestChange::Hold)).follows_digest());
        }
    }
}
