//! A chart of a HelmOp, and its version.

use helm_index::Outlook;
use helmops_api::ResolvedChart;
use helmops_model::chart::{
    request::{ChartRequest, OnDigestChange},
    resolved::ChartVersion,
};

use super::Lookup;

/// A chart of a HelmOp whose version must be resolved.
#[derive(Clone, Debug)]
pub struct RequestedChart<'v, 'a> {
    /// What the version is recorded for.
    pub lookup: Lookup,
    /// The first request of the HelmOp for it.
    pub request: &'v ChartRequest<'a>,
    /// The recorded version, until another one is resolved; `None` if there is none yet.
    pub version: Option<ChartVersion>,
    /// The digest that the recorded version, or the tag, has now, if it is another one and the recorded one is held. Otherwise empty.
    pub changed_digest: String,
    /// The ID of the Content with the files of the recorded version. Empty if there is none, or if agents download it themselves.
    pub content: String,
    /// What a poll in this reconciliation has found out, besides the version.
    pub polled: Option<PolledChart>,
}

/// What a poll has found out about a chart, besides its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolledChart {
    /// The version that was recorded before; empty if there was none.
    pub before: String,
    /// What the list of versions says; `None` if none was read because of an error.
    pub outlook: Option<Outlook>,
}

impl RequestedChart<'_, '_> {
    /// Takes what a resolution has found, unless the recorded digest is held ([`ChartRequest::follows_digest`]).
    pub fn resolved(&mut self, found: ChartVersion) {
        let holds = self
            .version
            .as_ref()
            .is_some_and(|recorded| self.holds(recorded, &found));
        self.changed_digest.clear();
        if holds {
            self.changed_digest = found.digest;
        } else {
            // The same files may be found at another URL: in a later commit, which reverts to them. The version of manifests is that of their
            // files, and the digest has hidden ones besides.
            let is_manifests = self.request.has_manifests();
            let has_files = |recorded: &ChartVersion| {
                *recorded == found
                    || recorded.version == found.version
                        && !found.digest.is_empty()
                        && (is_manifests || recorded.digest == found.digest)
            };
            if !self.version.as_ref().is_some_and(has_files) {
                self.content.clear();
            }
            self.version = Some(found);
        }
    }

    /// Goes back to what was recorded, because what was resolved cannot be delivered.
    pub fn go_back_to(&mut self, recorded: &Self) {
        self.version.clone_from(&recorded.version);
        self.changed_digest.clone_from(&recorded.changed_digest);
        self.content.clone_from(&recorded.content);
    }

    /// Whether the recorded version stays although another digest was found: of the same version, or of the same tag.
    pub fn holds(&self, recorded: &ChartVersion, found: &ChartVersion) -> bool {
        let is_same = recorded.version == found.version || self.request.names_moving_tag();
        let is_changed =
            !recorded.digest.is_empty() && !found.digest.is_empty() && recorded.digest != found.digest;
        is_same && is_changed && !self.request.follows_digest() && !self.request.has_manifests()
    }

    /// The record of its version, if it has one.
    pub(super) fn record(&self) -> Option<ResolvedChart> {
        let record = self.lookup.clone().into_record(self.version.clone()?);
        let follows = self.request.follows_digest();
        let policy = follows.then_some(OnDigestChange::Follow);
        Some(ResolvedChart {
            on_digest_change: policy.map_or("", OnDigestChange::as_str).to_owned(),
            changed_digest: self.changed_digest.clone(),
            content: self.content.clone(),
            manifests: self.request.has_manifests(),
            ..record
        })
    }
}
