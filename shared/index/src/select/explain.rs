//! Why each version is selected or not, for a person who expected another one.
//!
//! The selection itself is that of [`super::select`], and whether a version is in the range is determined by the same constraint. So an
//! explanation cannot contradict it.

use std::cmp::Ordering;

use masterminds_semver::{Condition, Unmet, Version};

use super::{
    candidate::{Candidate, Parsed},
    choose, prerelease,
};
use crate::VersionRequest;

/// What the selection makes of all versions of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<C> {
    /// The versions, newest first; then those that are not semantic versions, in the order of the list.
    pub versions: Vec<Explained<C>>,
    /// The range that allows the same releases and their pre-releases; `None` if the request allows pre-releases already, or if it
    /// would be too long.
    pub with_prereleases: Option<String>,
}

/// A version, and what the selection makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained<C> {
    /// The version.
    pub candidate: C,
    /// Whether it is a pre-release.
    pub is_prerelease: bool,
    /// What the selection makes of it.
    pub verdict: Verdict,
}

/// What the selection makes of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is chosen. If the index has no URL for its archive, the selection fails all the same.
    Selected,
    /// It is in the range, but the selected version is higher.
    Lower,
    /// It equals the selected version, but was published earlier, or is listed after it.
    Duplicate,
    /// It is in the range, but the text of the selected version is that of the request.
    NotLiteral,
    /// It is a pre-release that the request could mean, but none of its conditions names a pre-release.
    Prerelease,
    /// It is higher than the request allows, by these conditions.
    Above(String),
    /// It is lower than the request allows, by these conditions.
    Below(String),
    /// These conditions exclude it.
    Excluded(String),
    /// The filter does not match it.
    Filtered,
    /// It is not a semantic version.
    Invalid,
}

impl Verdict {
    /// Whether the version is in the range.
    pub const fn is_in_range(&self) -> bool {
        matches!(
            self,
            Self::Selected | Self::Lower | Self::Duplicate | Self::NotLiteral
        )
    }
}

/// A candidate with its position in the list, by which the chosen one is recognised.
#[derive(Clone, Copy)]
struct Numbered<'c, C>(usize, &'c C);

impl<C: Candidate> Candidate for Numbered<'_, C> {
    fn version(&self) -> &str {
        self.1.version()
    }

    fn created(&self) -> &str {
        self.1.created()
    }

    fn url(&self) -> Option<&str> {
        self.1.url()
    }
}

/// Explains the selection of [`super::select`] for each candidate.
///
/// Takes memory for each candidate, unlike the selection: it is for a person, not for each reconciliation.
pub fn explain<C: Candidate>(
    chart: &str,
    candidates: impl IntoIterator<Item = C>,
    request: &VersionRequest<'_>,
) -> Explanation<C> {
    let candidates: Vec<C> = candidates.into_iter().collect();
    let numbered = candidates
        .iter()
        .enumerate()
        .map(|(at, candidate)| Numbered(at, candidate));
    let chosen = choose(chart, &numbered, request).ok().map(|Numbered(at, _)| at);
    let chosen_version = chosen
        .and_then(|at| candidates.get(at))
        .and_then(|candidate| Version::parse(candidate.version()).ok());
    let widened = prerelease::widened(request.constraint());
    let judge = |version: &Version| {
        if !request.passes(version.original()) {
            Verdict::Filtered
        } else if request.constraint().matches(version) {
            in_range(version, chosen_version.as_ref(), request.text())
        } else if version.is_prerelease() && widened.as_ref().is_some_and(|(_, range)| range.matches(version))
        {
            Verdict::Prerelease
        } else {
            unmet(version, request)
        }
    };
    let (mut parsed, mut invalid) = (Vec::new(), Vec::new());
    for (at, candidate) in candidates.into_iter().enumerate() {
        let is_chosen = chosen == Some(at);
        match Version::parse(candidate.version()) {
            Ok(version) => {
                let verdict = if is_chosen {
                    Verdict::Selected
                } else {
                    judge(&version)
                };
                parsed.push((Parsed { version, candidate }, verdict));
            }
            Err(_) => invalid.push(Explained {
                candidate,
                is_prerelease: false,
                verdict: if is_chosen {
                    Verdict::Selected
                } else {
                    Verdict::Invalid
                },
            }),
        }
    }
    // Stable, as the selection prefers the first of two that are equal.
    parsed.sort_by(|(a, _), (b, _)| {
        if a.is_better_than(b) {
            Ordering::Less
        } else if b.is_better_than(a) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    });
    let versions = parsed.into_iter().map(|(parsed, verdict)| Explained {
        is_prerelease: parsed.version.is_prerelease(),
        candidate: parsed.candidate,
        verdict,
    });
    let names_one = |condition: Condition<'_>| condition.names_prerelease();
    let allows_prereleases = request.constraint().conditions().flatten().any(names_one);
    Explanation {
        versions: versions.chain(invalid).collect(),
        with_prereleases: widened.filter(|_| !allows_prereleases).map(|(text, _)| text),
    }
}

/// Why a version in the range is not chosen. The chosen version is `None` if its text, which is that of the request, is no semantic
/// version.
fn in_range(version: &Version, chosen: Option<&Version>, requested: &str) -> Verdict {
    let Some(chosen) = chosen else {
        return Verdict::NotLiteral;
    };
    let is_literal = chosen.original() == requested;
    match chosen.precedence(version) {
        Ordering::Greater => Verdict::Lower,
        Ordering::Equal if !is_literal || version.original() == requested => Verdict::Duplicate,
        Ordering::Equal | Ordering::Less => Verdict::NotLiteral,
    }
}

/// The conditions that a version outside of the range does not meet, and on which side of it the version is.
fn unmet(version: &Version, request: &VersionRequest<'_>) -> Verdict {
    let conditions: Vec<_> = request
        .constraint()
        .unmet(version)
        .flatten()
        .filter_map(|unmet| match unmet {
            Unmet::Condition(condition) => Some(condition),
            Unmet::Prerelease => None,
        })
        .collect();
    let text = conditions
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" || ");
    let is_on = |side: Ordering| {
        conditions.iter().all(|condition| {
            condition.operator != masterminds_semver::Operator::NotEqual
                && version.precedence(condition.bound) == side
        })
    };
    match () {
        () if conditions.is_empty() => Verdict::Excluded(request.text().to_owned()),
        () if is_on(Ordering::Less) => Verdict::Below(text),
        () if is_on(Ordering::Greater) => Verdict::Above(text),
        () => Verdict::Excluded(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(versions: &[&'static str], request: &str) -> Vec<(&'static str, Verdict)> {
        let request = VersionRequest::parse(request).unwrap();
        let explanation = explain("web", versions.iter().map(|text| Text(text)), &request);
        let versions = explanation.versions.into_iter();
        versions
            .map(|explained| (explained.candidate.0, explained.verdict))
            .collect()
    }

    struct Text(&'static str);

    impl Candidate for Text {
        fn version(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn each_version_has_the_reason_why_it_is_not_selected() {
        use Verdict::{Above, Below, Duplicate, Excluded, Invalid, Lower, NotLiteral, Prerelease, Selected};
        let text = |text: &str| text.to_owned();
        for (request, versions, expected) in [
            (
                "^1.2",
                &[
                    "1.1.0",
                    "1.2.0",
                    "2.0.0",
                    "x",
                    "1.3.0-rc.1",
                    "1.2.5",
                    "2.1.0-rc.1",
                ][..],
                vec![
                    ("2.1.0-rc.1", Above(text("^1.2"))),
                    ("2.0.0", Above(text("^1.2"))),
                    ("1.3.0-rc.1", Prerelease),
                    ("1.2.5", Selected),
                    ("1.2.0", Lower),
                    ("1.1.0", Below(text("^1.2"))),
                    ("x", Invalid),
                ],
            ),
            (
                ">=1 <2, !=1.5.0 || 3.x",
                &["1.5.0", "1.4.0", "2.0.0", "0.9.0", "4.0.0"],
                vec![
                    ("4.0.0", Above(text("<2 || 3.x"))),
                    ("2.0.0", Excluded(text("<2 || 3.x"))),
                    ("1.5.0", Excluded(text("!=1.5.0 || 3.x"))),
                    ("1.4.0", Selected),
                    ("0.9.0", Below(text(">=1 || 3.x"))),
                ],
            ),
            (
                "",
                &["1.0.0-rc.1", "0.9.0", "0.9.0+b"],
                vec![
                    ("1.0.0-rc.1", Prerelease),
                    ("0.9.0", Selected),
                    ("0.9.0+b", Duplicate),
                ],
            ),
            (
                "1.2",
                &["1.2.5", "1.2", "1.1.0"],
                vec![
                    ("1.2.5", NotLiteral),
                    ("1.2", Selected),
                    ("1.1.0", Below(text("1.2"))),
                ],
            ),
            (
                "1.2.0",
                &["1.2", "1.2.0", "1.2.0"],
                vec![("1.2", NotLiteral), ("1.2.0", Selected), ("1.2.0", Duplicate)],
            ),
            (
                ">=1.2-0",
                &["1.2.0-a", "1.1.9"],
                vec![("1.2.0-a", Selected), ("1.1.9", Below(text(">=1.2-0")))],
            ),
        ] {
            assert_eq!(verdicts(versions, request), expected, "{request}");
        }
    }

    #[test]
    fn the_range_that_allows_prereleases_is_suggested_unless_they_are_allowed() {
        let suggestion = |request: &str| {
            explain("web", [Text("1.0.0")], &VersionRequest::parse(request).unwrap()).with_prereleases
        };
        assert_eq!(suggestion("^1.2").as_deref(), Some("^1.2-0"));
        assert_eq!(suggestion("").as_deref(), Some(">=0.0.0-0"));
        assert_eq!(suggestion(">=1.2-0"), None);
    }
}
