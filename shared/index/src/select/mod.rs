//! Selects a version of a chart, by Helm's rules.
//!
//! 1. The version whose text equals the request, even if it is not a semantic version.
//! 2. Otherwise the highest version that matches the request and passes its filter, if it has one. Entries that are not semantic versions are skipped. A
//!    pre-release matches only a range that names one, such as `>=1.2.0-0`; an empty request means the latest release.
//!
//! A deprecated version is chosen like any other, as in Helm: a deprecation must not stop a deployment by range.
//!
//! Helm uses an unstable sort and takes the first of equal versions. Here the order is fixed: of versions that are equal, or
//! that differ in build metadata alone, the one published last is chosen ([`Candidate::created`]), and of those the first in
//! the list. An invalid time counts as earlier than every valid one; two invalid times are compared as texts.
//!
//! Fleet, which deploys charts with Helm, has a rule of its own for registries. It differs in three points: an empty request is
//! an error, a tag with `_` for the `+` of build metadata is skipped, and only a complete version is compared literally.

mod candidate;
mod error;
mod explain;
mod nearest;
mod outlook;
mod prerelease;

use masterminds_semver::Constraint;

use self::candidate::{Parsed, is_later};
pub use self::error::{Nearest, SelectError};
pub use self::{
    candidate::Candidate,
    explain::{Explained, Explanation, Verdict, explain},
    outlook::{Outlook, outlook},
};
use crate::VersionRequest;

/// Chooses one of the versions of `chart`.
///
/// Iterates over the candidates a few times and keeps none of them: linear time, and almost no memory.
///
/// # Errors
/// When no version matches, with the nearest ones; and when the chosen version has no archive.
pub fn select<C, I>(chart: &str, candidates: I, request: &VersionRequest<'_>) -> Result<C, SelectError>
where
    C: Candidate,
    I: IntoIterator<Item = C, IntoIter: Clone>,
{
    let chosen = choose(chart, &candidates.into_iter(), request)?;
    if chosen.url() == Some("") {
        return Err(SelectError::NoUrl {
            chart: chart.to_owned(),
            version: chosen.version().to_owned(),
        });
    }
    Ok(chosen)
}

/// The chosen version, with or without an archive.
fn choose<C: Candidate>(
    chart: &str,
    candidates: &(impl Iterator<Item = C> + Clone),
    request: &VersionRequest<'_>,
) -> Result<C, SelectError> {
    if candidates.clone().next().is_none() {
        return Err(SelectError::NoVersions {
            chart: chart.to_owned(),
        });
    }
    match literal(candidates.clone(), request.text()) {
        Some(chosen) => Ok(chosen),
        None if request.filter().is_empty() => matching(chart, candidates, request),
        None => {
            let passing = candidates
                .clone()
                .filter(|candidate| request.passes(candidate.version()));
            passing_match(chart, candidates.clone().count(), &passing, request)
        }
    }
}

/// The highest version in the range of those that pass the filter.
fn passing_match<C: Candidate>(
    chart: &str,
    listed: usize,
    passing: &(impl Iterator<Item = C> + Clone),
    request: &VersionRequest<'_>,
) -> Result<C, SelectError> {
    if passing.clone().next().is_some() {
        return matching(chart, passing, request);
    }
    Err(SelectError::Filtered {
        chart: chart.to_owned(),
        requested: request.text().to_owned(),
        filter: request.filter().to_owned(),
        listed,
    })
}

fn literal<C: Candidate>(candidates: impl Iterator<Item = C>, requested: &str) -> Option<C> {
    let equal = candidates.filter(|candidate| !requested.is_empty() && candidate.version() == requested);
    equal.reduce(|first, second| if is_later(&second, &first) { second } else { first })
}

fn matching<C: Candidate>(
    chart: &str,
    candidates: &(impl Iterator<Item = C> + Clone),
    request: &VersionRequest<'_>,
) -> Result<C, SelectError> {
    let parsed = || candidates.clone().filter_map(Parsed::parse);
    if let Some(highest) = highest(parsed(), request.constraint()) {
        return Ok(highest.candidate);
    }
    let requested = match request.filter() {
        "" => request.text().to_owned(),
        filter => format!("{} (semverFilter {filter:?})", request.text()),
    };
    let chart = chart.to_owned();
    let widened = prerelease::widened(request.constraint());
    let prerelease = widened.and_then(|(text, constraint)| Some((text, highest(parsed(), &constraint)?)));
    Err(match prerelease {
        Some((constraint, newest)) => SelectError::OnlyPrereleases {
            chart,
            requested,
            newest: newest.version.original().to_owned(),
            constraint,
        },
        None => SelectError::NoMatch {
            chart,
            requested,
            nearest: nearest::nearest(parsed, candidates.clone().count(), request.constraint()),
        },
    })
}

fn highest<C: Candidate>(
    parsed: impl Iterator<Item = Parsed<C>>,
    constraint: &Constraint,
) -> Option<Parsed<C>> {
    let matching = parsed.filter(|parsed| constraint.matches(&parsed.version));
    matching.reduce(|best, next| if next.is_better_than(&best) { next } else { best })
}

#[cfg(test)]
mod tests;
