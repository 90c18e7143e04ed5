//! What a list of versions says about a deployed one, besides the selection.

use masterminds_semver::Version;

use super::candidate::{Candidate, Parsed};
use crate::VersionRequest;

/// What a list of versions says about a deployed one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The newest release of all that pass the filter, if the request does not match it, and it is higher than the version that the
    /// selection leads to.
    pub newer: Option<String>,
    /// Whether the version that the selection leads to is marked as deprecated. Never for tags, which have no marks.
    pub is_deprecated: bool,
    /// Whether the deployed version is not listed any more.
    pub is_withdrawn: bool,
}

/// Compares a list with the deployed version, which is empty if there is none, and with the selected one, which takes its place.
///
/// Iterates over the candidates twice and keeps none of them: linear time, and almost no memory.
pub fn outlook<C, I>(
    candidates: I,
    request: &VersionRequest<'_>,
    deployed: &str,
    selected: Option<&str>,
) -> Outlook
where
    C: Candidate,
    I: IntoIterator<Item = C, IntoIter: Clone>,
{
    let candidates = candidates.into_iter();
    let current = selected.unwrap_or(deployed);
    let mut listed = candidates
        .clone()
        .filter(|one| one.version() == current)
        .peekable();
    Outlook {
        is_withdrawn: !deployed.is_empty() && !lists(candidates.clone(), deployed),
        // Of several entries for one version, one without the mark takes it back.
        is_deprecated: listed.peek().is_some() && listed.all(|one| one.is_deprecated()),
        newer: newer(candidates, request, current),
    }
}

/// Whether a version is listed, as this text or in another form: `v1.2.3` for `1.2.3`.
fn lists<C: Candidate>(candidates: impl Iterator<Item = C> + Clone, deployed: &str) -> bool {
    let parsed = Version::parse(deployed).ok();
    let is_same = |one: Parsed<C>| {
        let deployed = parsed.as_ref();
        deployed.is_some_and(|deployed| one.version.to_string() == deployed.to_string())
    };
    candidates.clone().any(|one| one.version() == deployed)
        || candidates.filter_map(Parsed::parse).any(is_same)
}

fn newer<C: Candidate>(
    candidates: impl Iterator<Item = C>,
    request: &VersionRequest<'_>,
    current: &str,
) -> Option<String> {
    let passing = candidates.filter(|one| request.passes(one.version()));
    let releases = passing
        .filter_map(Parsed::parse)
        .filter(|one| !one.version.is_prerelease());
    let newest = releases.reduce(|best, next| if next.is_better_than(&best) { next } else { best })?;
    let is_outside =
        newest.version.original() != request.text() && !request.constraint().matches(&newest.version);
    let is_higher = Version::parse(current).is_ok_and(|current| newest.version.precedence(&current).is_gt());
    (is_outside && is_higher).then(|| newest.version.original().to_owned())
}
