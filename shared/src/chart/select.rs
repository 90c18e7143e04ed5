//! Which version of a chart: Helm's choice.

use std::cmp::Ordering;

use thiserror::Error;

use super::{index::IndexEntry, request::VersionRequest, version::Version};

/// How many versions are listed when none will do.
const LISTED: usize = 5;

/// Why no version was chosen.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectError {
    /// The index lists the chart without any version.
    #[error("no chart version found: chart {chart:?} has no versions")]
    NoVersions {
        /// Name of the chart.
        chart: String,
    },
    /// No version will do.
    #[error("no chart version found for {chart}-{asked}: {available}")]
    NoMatch {
        /// Name of the chart.
        chart: String,
        /// What was asked for.
        asked: String,
        /// What there is instead.
        available: String,
    },
    /// The version that was chosen has no archive.
    #[error("no URLs found for {chart} {version}: the index says nowhere where the archive is")]
    NoUrl {
        /// Name of the chart.
        chart: String,
        /// The version.
        version: String,
    },
}

/// Chooses a version: the one that is written exactly as asked, otherwise the highest that will do. Of versions that
/// differ in build metadata alone the one published last is chosen, and of those the first in the index.
///
/// # Errors
/// Where none will do; the message lists what there is.
pub fn select<'i>(
    chart: &str,
    entries: &'i [IndexEntry],
    request: &VersionRequest<'_>,
) -> Result<&'i IndexEntry, SelectError> {
    if entries.is_empty() {
        return Err(SelectError::NoVersions {
            chart: chart.to_owned(),
        });
    }
    let literal = entries
        .iter()
        .find(|entry| !request.text().is_empty() && entry.version == request.text());
    let chosen = literal.or_else(|| highest(entries, |version| request.constraint().matches(version)));
    match chosen {
        Some(entry) if entry.url.is_empty() => Err(SelectError::NoUrl {
            chart: chart.to_owned(),
            version: entry.version.clone(),
        }),
        Some(entry) => Ok(entry),
        None => Err(SelectError::NoMatch {
            chart: chart.to_owned(),
            asked: request.text().to_owned(),
            available: available(entries),
        }),
    }
}

fn highest(entries: &[IndexEntry], will_do: impl Fn(&Version) -> bool) -> Option<&IndexEntry> {
    let mut best: Option<(Version, &IndexEntry)> = None;
    for entry in entries {
        let Ok(version) = Version::parse(&entry.version) else {
            continue;
        };
        if !will_do(&version) {
            continue;
        }
        let is_better = best.as_ref().is_none_or(|(highest, chosen)| {
            version
                .precedence(highest)
                .then_with(|| entry.created.cmp(&chosen.created))
                == Ordering::Greater
        });
        if is_better {
            best = Some((version, entry));
        }
    }
    best.map(|(_, entry)| entry)
}

/// What there is, for a user whose wish cannot be met.
fn available(entries: &[IndexEntry]) -> String {
    let mut versions: Vec<Version> = entries
        .iter()
        .filter_map(|entry| Version::parse(&entry.version).ok())
        .collect();
    versions.sort_by(|a, b| b.precedence(a));
    if versions.is_empty() {
        return "none of its versions is a semantic version".to_owned();
    }
    let only_prereleases = versions.iter().all(Version::is_prerelease);
    let listed: Vec<&str> = versions.iter().take(LISTED).map(Version::original).collect();
    let listed = listed.join(", ");
    let more = match versions.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if only_prereleases {
        format!(
            "every version is a pre-release, which a range includes only if it names one, such as >=0.0.0-0: {listed}{more}"
        )
    } else {
        format!("the newest versions are {listed}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(versions: &[&str]) -> Vec<IndexEntry> {
        versions
            .iter()
            .map(|version| IndexEntry {
                version: (*version).to_owned(),
                url: "a.tgz".to_owned(),
                created: String::new(),
            })
            .collect()
    }

    fn choose(versions: &[&str], asked: &str) -> Result<String, String> {
        let entries = entries(versions);
        let request = VersionRequest::parse(asked).unwrap();
        select("web", &entries, &request)
            .map(|entry| entry.version.clone())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_highest_that_will_do() {
        for (versions, asked, chosen) in [
            (&["0.1.0", "0.2.0"][..], "", "0.2.0"),
            (&["0.1.0", "0.2.0"], "*", "0.2.0"),
            (&["0.2.0", "0.1.0"], "0.1.x", "0.1.0"),
            (&["0.10.0", "0.9.0"], "0.x", "0.10.0"),
            (&["1.0.0-rc.1", "0.9.0"], "", "0.9.0"),
            (&["1.0.0-rc.1", "0.9.0"], ">=0.0.0-0", "1.0.0-rc.1"),
            (&["v1.2.3"], "1.2.3", "v1.2.3"),
            (&["1.2.3"], "v1.2.3", "1.2.3"),
            (&["1.2.3+b", "1.2.3+a"], "1.2.3+a", "1.2.3+a"),
            (&["1.2.3+b"], "1.2.3+a", "1.2.3+b"),
            (&["nonsense", "1.0.0"], "", "1.0.0"),
        ] {
            assert_eq!(
                choose(versions, asked).as_deref(),
                Ok(chosen),
                "{versions:?} {asked}"
            );
        }
    }

    #[test]
    fn of_equal_versions_the_last_published() {
        let mut twins = entries(&["1.0.0+a", "1.0.0+b", "1.0.0+c"]);
        for (entry, created) in twins.iter_mut().zip(["2026-01-01", "2026-03-01", "2026-02-01"]) {
            created.clone_into(&mut entry.created);
        }
        let request = VersionRequest::parse("1.x").unwrap();
        assert_eq!(select("web", &twins, &request).unwrap().version, "1.0.0+b");
    }

    #[test]
    fn says_what_there_is_instead() {
        assert_eq!(
            choose(&["0.1.0", "0.2.0"], "0.3.x").unwrap_err(),
            "no chart version found for web-0.3.x: the newest versions are 0.2.0, 0.1.0"
        );
        let message = choose(&["1.0.0-a", "1.0.0-b"], "").unwrap_err();
        assert!(
            message.contains("every version is a pre-release") && message.contains(">=0.0.0-0"),
            "{message}"
        );
        let many: Vec<String> = (0..9).map(|n| format!("1.{n}.0")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(
            choose(&many, "2")
                .unwrap_err()
                .ends_with("1.8.0, 1.7.0, 1.6.0, 1.5.0, 1.4.0 and 4 more")
        );
        assert!(choose(&[], "").unwrap_err().contains("has no versions"));
    }

    #[test]
    fn a_version_without_an_archive_is_told() {
        let mut entries = entries(&["1.0.0"]);
        entries[0].url.clear();
        let request = VersionRequest::parse("").unwrap();
        assert!(
            select("web", &entries, &request)
                .unwrap_err()
                .to_string()
                .contains("no URLs found")
        );
    }
}
