//! Which version of a chart: Helm's choice.
//!
//! 1. The version that is written exactly as asked, even if it is no semantic version.
//! 2. Otherwise the highest that the request allows. What is no semantic version is passed over. A pre-release is allowed
//!    only by a range that names one, such as `>=1.2.0-0`; an empty request means the latest release.
//!
//! A deprecated version is chosen like any other: Helm does so, and who deploys it by range is not to be stopped by a mark.
//!
//! Helm sorts with an algorithm that leaves equal versions in any order, and then takes the first. Here the order is fixed:
//! of versions that are equal, or that differ in build metadata alone, the one published last is chosen
//! ([`Candidate::created`]), and of those the first in the list. A time that cannot be read counts as earlier than every
//! time that can; two of those are compared as texts.
//!
//! Fleet chooses from a registry by a rule of its own, which differs in three points: an empty request is an error there,
//! a tag with `_` for the `+` of build metadata is passed over, and only a complete version is looked for literally.

mod candidate;
mod condition;
mod error;
mod nearest;
mod prerelease;

pub use self::candidate::Candidate;
use self::candidate::Published;
pub use self::error::{Nearest, SelectError};
use super::{constraint::Constraint, request::VersionRequest, version::Version};

/// Chooses one of the versions of `chart`.
///
/// The candidates are gone through a few times, and none of them is kept: a list of any length takes time in proportion to
/// it and next to no memory.
///
/// # Errors
/// Where none will do, with what there is instead; and where the one that was chosen has no archive.
pub fn select<C, I>(chart: &str, candidates: I, request: &VersionRequest<'_>) -> Result<C, SelectError>
where
    C: Candidate,
    I: IntoIterator<Item = C, IntoIter: Clone>,
{
    let candidates = candidates.into_iter();
    if candidates.clone().next().is_none() {
        return Err(SelectError::NoVersions {
            chart: chart.to_owned(),
        });
    }
    let chosen = match literal(candidates.clone(), request.text()) {
        Some(chosen) => chosen,
        None => in_range(chart, &candidates, request)?,
    };
    if chosen.url() == Some("") {
        return Err(SelectError::NoUrl {
            chart: chart.to_owned(),
            version: chosen.version().to_owned(),
        });
    }
    Ok(chosen)
}

fn literal<C: Candidate>(candidates: impl Iterator<Item = C>, asked: &str) -> Option<C> {
    let named = candidates.filter(|candidate| !asked.is_empty() && candidate.version() == asked);
    named.reduce(|first, second| if later(&second, &first) { second } else { first })
}

fn in_range<C: Candidate>(
    chart: &str,
    candidates: &(impl Iterator<Item = C> + Clone),
    request: &VersionRequest<'_>,
) -> Result<C, SelectError> {
    let known = || candidates.clone().filter_map(Known::read);
    if let Some(highest) = highest(known(), request.constraint()) {
        return Ok(highest.candidate);
    }
    let (chart, asked) = (chart.to_owned(), request.text().to_owned());
    let widened = prerelease::widened(request.constraint());
    let prerelease = widened.and_then(|(text, constraint)| Some((text, highest(known(), &constraint)?)));
    Err(match prerelease {
        Some((constraint, newest)) => SelectError::OnlyPrereleases {
            chart,
            asked,
            newest: newest.version.original().to_owned(),
            constraint,
        },
        None => SelectError::NoMatch {
            chart,
            asked,
            nearest: nearest::nearest(known, candidates.clone().count(), request.constraint()),
        },
    })
}

/// A candidate whose version can be read.
struct Known<C> {
    version: Version,
    candidate: C,
}

impl<C: Candidate> Known<C> {
    fn read(candidate: C) -> Option<Self> {
        let version = Version::parse(candidate.version()).ok()?;
        Some(Self { version, candidate })
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let order = self.version.precedence(&other.version);
        order.is_gt() || (order.is_eq() && later(&self.candidate, &other.candidate))
    }
}

fn highest<C: Candidate>(known: impl Iterator<Item = Known<C>>, wanted: &Constraint) -> Option<Known<C>> {
    let allowed = known.filter(|known| wanted.matches(&known.version));
    allowed.reduce(|best, next| if next.is_better_than(&best) { next } else { best })
}

/// Whether `a` was published after `b`.
fn later<C: Candidate>(a: &C, b: &C) -> bool {
    Published::read(a.created()) > Published::read(b.created())
}

#[cfg(test)]
mod tests;
