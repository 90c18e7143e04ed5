//! Versions as rows: what the selection makes of each, and which of them are shown.

use std::collections::BTreeSet;

use helm_index::Verdict;
use helmops_fetch::{ChartExplanation, JudgedVersion};
use serde::Serialize;

/// How many versions are shown, unless all are.
pub const SHOWN: usize = 20;

/// What the selection makes of a version, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Selected,
    /// It is in the range.
    Kept,
    /// It is not.
    Rejected,
}

impl Outcome {
    /// As in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Kept => "kept",
            Self::Rejected => "rejected",
        }
    }
}

/// A version of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The version, as listed.
    pub version: String,
    /// What the selection makes of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// Which of the versions that a person looks for it is: `current`, `recorded`, `selected`, `newest`.
    pub marks: Vec<&'static str>,
    /// Whether it is a pre-release.
    pub prerelease: bool,
    /// Whether it is marked as deprecated.
    pub deprecated: bool,
    /// Version of the application; empty if the list does not have it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// When it was published; empty if the list does not have it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created: String,
}

/// The versions that a person looks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Landmarks<'a> {
    /// The version that the Bundle has for agents.
    pub current: Option<&'a str>,
    /// The version that is recorded for the request.
    pub recorded: Option<&'a str>,
}

/// The position of the selected version.
pub fn selected(explanation: &ChartExplanation) -> Option<usize> {
    let mut versions = explanation.list.versions.iter();
    versions.position(|judged| judged.verdict == Verdict::Selected)
}

/// The position of the newest version: the highest release, unless a higher pre-release is selected, or there is no release.
pub fn newest(explanation: &ChartExplanation) -> Option<usize> {
    let versions = &explanation.list.versions;
    let is_version = |judged: &JudgedVersion| judged.verdict != Verdict::Invalid;
    let release = versions
        .iter()
        .position(|judged| is_version(judged) && !judged.is_prerelease);
    let highest = versions.iter().position(is_version);
    [release.or(highest), selected(explanation)]
        .into_iter()
        .flatten()
        .min()
}

/// All versions of a chart, newest first.
pub fn candidates(explanation: &ChartExplanation, requested: &str, marks: Landmarks<'_>) -> Vec<Candidate> {
    let list = &explanation.list;
    let (selected, newest) = (selected(explanation), newest(explanation));
    let selected_version = selected
        .and_then(|at| list.versions.get(at))
        .map(|judged| judged.listed.version.as_str());
    let rows = list.versions.iter().enumerate().map(|(at, judged)| {
        let is = |version: Option<&str>| version == Some(judged.listed.version.as_str());
        let all = [
            ("current", is(marks.current)),
            ("recorded", is(marks.recorded)),
            ("selected", selected == Some(at)),
            ("newest", newest == Some(at)),
        ];
        Candidate {
            version: judged.listed.version.clone(),
            outcome: outcome(&judged.verdict),
            reason: reason(
                judged,
                requested,
                selected_version,
                list.with_prereleases.as_deref(),
            ),
            marks: all.iter().filter(|(_, is)| *is).map(|(mark, _)| *mark).collect(),
            prerelease: judged.is_prerelease,
            deprecated: judged.listed.deprecated,
            app_version: judged.listed.app_version.clone(),
            created: judged.listed.created.clone(),
        }
    });
    rows.collect()
}

const fn outcome(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Selected => Outcome::Selected,
        verdict if verdict.is_in_range() => Outcome::Kept,
        _ => Outcome::Rejected,
    }
}

fn reason(
    judged: &JudgedVersion,
    requested: &str,
    selected: Option<&str>,
    with_prereleases: Option<&str>,
) -> String {
    let selected = selected.unwrap_or_default();
    match &judged.verdict {
        Verdict::Selected if judged.listed.version == requested => "exactly what is requested".to_owned(),
        Verdict::Selected if requested.is_empty() => "the latest release".to_owned(),
        Verdict::Selected => "the highest version in the range".to_owned(),
        Verdict::Lower => format!("in the range, but {selected} is higher"),
        Verdict::Duplicate => {
            format!("as high as {selected}, but published earlier, or listed after it")
        }
        Verdict::NotLiteral => format!("in the range, but {selected} is exactly what is requested"),
        Verdict::Prerelease => match with_prereleases {
            Some(range) => format!("pre-release; to include pre-releases, write {range:?}"),
            None => "pre-release; an alternative without a pre-release excludes it".to_owned(),
        },
        Verdict::Above(condition) => format!("above the range: not {condition}"),
        Verdict::Below(condition) => format!("below the range: not {condition}"),
        Verdict::Excluded(condition) => format!("outside of the range: not {condition}"),
        Verdict::Filtered => "spec.semverFilter does not match it".to_owned(),
        Verdict::Invalid => "not a semantic version such as 1.2.3".to_owned(),
    }
}

/// The positions that are shown: those that must be, and others in this order, up to a number.
pub fn shown(
    limit: Option<usize>,
    len: usize,
    required: impl IntoIterator<Item = usize>,
    others: impl IntoIterator<Item = usize>,
) -> BTreeSet<usize> {
    let limit = limit.unwrap_or(len);
    let mut shown = BTreeSet::new();
    for at in required.into_iter().chain(others) {
        if shown.len() >= limit {
            break;
        }
        if at < len {
            shown.insert(at);
        }
    }
    shown
}

/// The positions around one of them, the nearest first.
pub fn around(focus: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..=len).flat_map(move |distance| {
        let above = focus.checked_sub(distance);
        let below = (distance > 0).then_some(focus + distance);
        above.into_iter().chain(below)
    })
}

/// A row of a shortened list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row<T> {
    Item(T),
    /// This number of items that are not shown.
    Gap(usize),
}

/// The items at these positions, with a row for those that are left out.
pub fn rows<T>(items: Vec<T>, shown: &BTreeSet<usize>) -> Vec<Row<T>> {
    let (mut rows, mut gap) = (Vec::new(), 0);
    for (at, item) in items.into_iter().enumerate() {
        if !shown.contains(&at) {
            gap += 1;
            continue;
        }
        if gap > 0 {
            rows.push(Row::Gap(gap));
            gap = 0;
        }
        rows.push(Row::Item(item));
    }
    if gap > 0 {
        rows.push(Row::Gap(gap));
    }
    rows
}

#[cfg(test)]
pub(super) mod tests {
    use helm_index::{IndexEntry, VersionRequest, explain};
    use helmops_fetch::{Listed, ListedVersion};

    use super::*;

    /// The explanation for an index with these versions.
    pub fn explanation(versions: &[&str], requested: &str) -> ChartExplanation {
        let entries = versions.iter().map(|version| IndexEntry {
            version: (*version).to_owned(),
            url: "a.tgz".to_owned(),
            ..IndexEntry::default()
        });
        let explanation = explain("web", entries, &VersionRequest::parse(requested).unwrap());
        let versions = explanation.versions.into_iter().map(|explained| JudgedVersion {
            listed: ListedVersion {
                version: explained.candidate.version,
                ..ListedVersion::default()
            },
            is_prerelease: explained.is_prerelease,
            verdict: explained.verdict,
        });
        ChartExplanation {
            list: Listed {
                versions: versions.collect(),
                with_prereleases: explanation.with_prereleases,
            },
            ..ChartExplanation::default()
        }
    }

    #[test]
    fn each_version_has_a_reason_and_the_marks_that_a_person_looks_for() {
        let explanation = explanation(
            &["1.2.0", "2.0.0", "2.1.0-rc.1", "1.2.9", "1.3.0-rc.1", "1.1.0"],
            "^1.2",
        );
        let marks = Landmarks {
            current: Some("1.2.0"),
            recorded: Some("1.2.0"),
        };
        let rows = candidates(&explanation, "^1.2", marks);
        let texts: Vec<_> = rows
            .iter()
            .map(|row| {
                format!(
                    "{} {} {} [{}]",
                    row.version,
                    row.outcome.as_str(),
                    row.reason,
                    row.marks.join(" ")
                )
            })
            .collect();
        assert_eq!(
            texts,
            [
                "2.1.0-rc.1 rejected above the range: not ^1.2 []",
                "2.0.0 rejected above the range: not ^1.2 [newest]",
                r#"1.3.0-rc.1 rejected pre-release; to include pre-releases, write "^1.2-0" []"#,
                "1.2.9 selected the highest version in the range [selected]",
                "1.2.0 kept in the range, but 1.2.9 is higher [current recorded]",
                "1.1.0 rejected below the range: not ^1.2 []",
            ]
        );
    }

    #[test]
    fn the_newest_version_is_a_release_unless_a_higher_prerelease_is_selected() {
        let newest = |versions: &[&str], requested: &str| {
            let explanation = explanation(versions, requested);
            newest(&explanation).map(|at| explanation.list.versions[at].listed.version.clone())
        };
        assert_eq!(newest(&["1.0.0", "2.0.0-rc.1"], "").as_deref(), Some("1.0.0"));
        assert_eq!(
            newest(&["1.0.0", "2.0.0-rc.1"], ">=1-0").as_deref(),
            Some("2.0.0-rc.1")
        );
        assert_eq!(
            newest(&["2.0.0-rc.1", "2.0.0-rc.2"], "").as_deref(),
            Some("2.0.0-rc.2")
        );
        assert_eq!(newest(&[], ""), None);
    }

    #[test]
    fn a_shortened_list_has_the_required_rows_and_counts_the_others() {
        let items: Vec<usize> = (0..100).collect();
        let set = shown(Some(4), 100, [50, 7], 0..);
        assert_eq!(
            rows(items, &set),
            [
                Row::Item(0),
                Row::Item(1),
                Row::Gap(5),
                Row::Item(7),
                Row::Gap(42),
                Row::Item(50),
                Row::Gap(49)
            ]
        );
        assert_eq!(shown(None, 3, [], 0..100).len(), 3);
        let near: Vec<_> = shown(Some(5), 100, [0, 50], around(50, 100))
            .into_iter()
            .collect();
        assert_eq!(
            near,
            [0, 49, 50, 51, 48]
                .into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
    }
}
