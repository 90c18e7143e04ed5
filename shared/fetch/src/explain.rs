//! Which version of a chart would be selected, and why: for a person, not for a reconciliation.
//!
//! The selection is that of a reconciliation, with the same requests. The explanation is about the same response.

use helm_index::{Explanation, SkippedEntry, Verdict};

/// Whether all versions are listed although the selection does not need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Only if the selection needs them: an exact version in a registry is requested by its tag.
    AsNeeded,
    /// Always.
    Always,
}

/// The versions of a chart, and why each is selected or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartExplanation {
    /// The versions.
    pub list: Listed,
    /// Invalid entries of the index, as far as they are kept.
    pub skipped: Vec<SkippedEntry>,
    /// How many tags of the registry are no versions.
    pub other_tags: usize,
}

/// The versions that a repository or registry lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Newest first.
    pub versions: Vec<JudgedVersion>,
    /// The range that allows pre-releases too; see [`Explanation`].
    pub with_prereleases: Option<String>,
}

/// A version that a repository or registry lists, and what the selection makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedVersion {
    /// The version.
    pub listed: ListedVersion,
    /// Whether it is a pre-release.
    pub is_prerelease: bool,
    /// What the selection makes of it.
    pub verdict: Verdict,
}

/// A version that a repository or registry lists. Texts are empty if the list does not have them; a registry lists versions alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedVersion {
    /// The version, as listed.
    pub version: String,
    /// Digest of the archive.
    pub digest: String,
    /// URL of the archive, without credentials.
    pub url: String,
    /// When it was published, as listed.
    pub created: String,
    /// Version of the application that the chart deploys.
    pub app_version: String,
    /// Whether it is marked as deprecated.
    pub deprecated: bool,
}

impl Listed {
    /// From the explanation of a selection.
    pub(super) fn new<C>(explanation: Explanation<C>, listed: impl Fn(C) -> ListedVersion) -> Self {
        let versions = explanation.versions.into_iter().map(|explained| JudgedVersion {
            listed: listed(explained.candidate),
            is_prerelease: explained.is_prerelease,
            verdict: explained.verdict,
        });
        Self {
            versions: versions.collect(),
            with_prereleases: explanation.with_prereleases,
        }
    }
}
