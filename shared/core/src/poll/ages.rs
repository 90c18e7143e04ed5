//! How long versions are known: `spec.minAge`.
//!
//! A repository decides what it says about the age of a version, so the time is counted from when a poll first saw it, by version and digest.
//! The status of the HelmOp has the list. If that is lost, the versions wait again.

use std::{cmp::Ordering, time::Duration};

use helmops_api::{HelmOp, helmop::SeenVersion, timestamp::timestamp};
use helmops_model::chart::resolved::ChartVersion;
use k8s_openapi::jiff::Timestamp;
use masterminds_semver::Version;

use crate::{
    admit::ValidHelmOp,
    bundle::{Lookup, RequestedChart, satisfies},
};

/// How many versions of a chart are listed. Further ones are not before others of it are taken or withdrawn: to drop one would make it wait
/// again, and a chart with a new version each day would never be updated.
const MAX_OF_CHART: usize = 10;
/// How many are listed of all charts of a HelmOp.
const MAX_SEEN: usize = 100;

/// Whether a poll may take the versions that it finds.
#[derive(Clone, Debug)]
pub struct Ages {
    /// `None` if every version is taken.
    min_age: Option<Duration>,
    now: Timestamp,
    seen: Vec<SeenVersion>,
    /// The first version that waits.
    waiting: Option<Waiting>,
}

#[derive(Clone, Debug)]
struct Waiting {
    version: String,
    /// Until when; `None` if it is not listed, because the list is full.
    until: Option<Timestamp>,
}

impl Ages {
    /// What is known at the time `now`.
    pub fn of(valid: &ValidHelmOp<'_>, now: Timestamp) -> Self {
        let status = valid.helmop.status.as_ref().filter(|_| valid.min_age.is_some());
        Self {
            min_age: valid.min_age,
            now,
            seen: status.map(|status| status.seen.clone()).unwrap_or_default(),
            waiting: None,
        }
    }

    /// Whether a poll may take a version that it has found, which is listed from now on otherwise. The first version of a chart does not wait,
    /// nor does one in place of a version that is withdrawn, which is lower, nor an exact one that is published again.
    pub fn admits(&mut self, chart: &RequestedChart<'_, '_>, found: &ChartVersion) -> bool {
        let (Some(min_age), Some(recorded)) = (self.min_age, &chart.version) else {
            return true;
        };
        let is_same = (&recorded.version, &recorded.digest) == (&found.version, &found.digest);
        let is_lower = order(&found.version, &recorded.version) == Some(Ordering::Less);
        let is_pinned = !chart.request.is_floating() && !chart.request.names_moving_tag();
        if is_pinned || is_same || is_lower || chart.holds(recorded, found) {
            return true;
        }
        let first = self.first_seen(chart, found);
        let until = first.map(|first| first.saturating_add(min_age).unwrap_or(Timestamp::MAX));
        if until.is_some_and(|until| until <= self.now) {
            return true;
        }
        self.waiting.get_or_insert_with(|| Waiting {
            version: found.version.clone(),
            until,
        });
        false
    }

    /// When a version was first seen: now, if it is not listed yet; `None` if the list is full.
    fn first_seen(&mut self, chart: &RequestedChart<'_, '_>, found: &ChartVersion) -> Option<Timestamp> {
        // What was there before under the same version, or the same tag, is not there any more.
        let is_same_place = |seen: &SeenVersion| {
            seen.version == found.version
                || order(&seen.version, &found.version) == Some(Ordering::Equal)
                || chart.request.names_moving_tag()
        };
        let known = self
            .seen
            .iter_mut()
            .find(|seen| is_of(seen, &chart.lookup) && is_same_place(seen));
        if let Some(known) = known {
            if (&known.version, &known.digest) != (&found.version, &found.digest) {
                known.version.clone_from(&found.version);
                known.digest.clone_from(&found.digest);
                known.first_seen = timestamp(self.now);
            }
            let first = known.first_seen.parse::<Timestamp>();
            // A time in the future is one of another clock.
            return Some(first.map_or(self.now, |first| first.min(self.now)));
        }
        let of_chart = self.seen.iter().filter(|seen| is_of(seen, &chart.lookup));
        if self.seen.len() >= MAX_SEEN || of_chart.count() >= MAX_OF_CHART {
            return None;
        }
        self.seen.push(SeenVersion {
            repo: chart.lookup.repo.clone(),
            chart: chart.lookup.chart.clone(),
            version: found.version.clone(),
            digest: found.digest.clone(),
            first_seen: timestamp(self.now),
        });
        Some(self.now)
    }

    /// The versions of a chart that are listed, old enough and higher than the recorded one, the highest first: one of them is taken if the
    /// newest one is too young, unless it is withdrawn.
    pub fn old_enough(&self, chart: &RequestedChart<'_, '_>) -> Vec<String> {
        let (Some(min_age), Some(recorded)) = (self.min_age, &chart.version) else {
            return Vec::new();
        };
        if !chart.request.is_floating() {
            return Vec::new();
        }
        let is_old = |seen: &&SeenVersion| {
            let first = seen.first_seen.parse::<Timestamp>().ok();
            first
                .and_then(|first| first.saturating_add(min_age).ok())
                .is_some_and(|until| until <= self.now)
        };
        let own = self
            .seen
            .iter()
            .filter(|seen| is_of(seen, &chart.lookup))
            .filter(is_old);
        let mut versions: Vec<_> = own
            .filter(|seen| satisfies(&chart.request.version, &seen.version))
            .filter_map(|seen| Some((parsed(&seen.version)?, seen.version.clone())))
            .filter(|(_, version)| order(version, &recorded.version) == Some(Ordering::Greater))
            .collect();
        versions.sort_by(|(one, _), (other, _)| other.precedence(one));
        versions.into_iter().map(|(_, version)| version).collect()
    }

    /// Drops a version of a chart that is not in its repository any more.
    pub fn forget(&mut self, chart: &RequestedChart<'_, '_>, version: &str) {
        self.seen
            .retain(|seen| !is_of(seen, &chart.lookup) || seen.version != version);
    }

    /// Drops what no chart of the HelmOp would take any more, as it is out of the range that is requested now, or not newer than the version
    /// that the chart has.
    pub fn settle(&mut self, charts: &[RequestedChart<'_, '_>]) {
        self.seen.retain(|seen| {
            let mut own = charts.iter().filter(|chart| is_of(seen, &chart.lookup));
            own.any(|chart| may_take(chart, seen))
        });
    }

    /// The list for the status.
    pub fn seen(&self) -> &[SeenVersion] {
        &self.seen
    }

    /// What waits, and until when; empty if nothing does.
    pub fn note(&self, helmop: &HelmOp) -> String {
        let Some(Waiting { version, until }) = &self.waiting else {
            return String::new();
        };
        let age = helmop.spec.min_age.as_deref().unwrap_or_default();
        match until {
            Some(until) => format!(
                "version {version} is taken by the first poll after {}: spec.minAge is {age}, since it was first seen",
                timestamp(*until)
            ),
            None => format!(
                "version {version} waits for spec.minAge, {age}, which does not begin while status.seen is full, with {MAX_OF_CHART} versions of \
                 a chart or {MAX_SEEN} of all: one of those has to be taken or withdrawn first"
            ),
        }
    }
}

/// Whether a poll may take a version that is listed in place of the one that a chart has: a higher one, or the same with another content.
fn may_take(chart: &RequestedChart<'_, '_>, seen: &SeenVersion) -> bool {
    let Some(recorded) = &chart.version else {
        return false;
    };
    if (&recorded.version, &recorded.digest) == (&seen.version, &seen.digest) {
        return false;
    }
    if chart.request.names_moving_tag() {
        return true;
    }
    satisfies(&chart.request.version, &seen.version)
        && (seen.version == recorded.version
            || order(&seen.version, &recorded.version).is_some_and(Ordering::is_ge))
}

fn is_of(seen: &SeenVersion, lookup: &Lookup) -> bool {
    (&seen.repo, &seen.chart) == (&lookup.repo, &lookup.chart)
}

/// How two versions compare; `None` if one of them is none, such as a tag.
fn order(one: &str, other: &str) -> Option<Ordering> {
    Some(parsed(one)?.precedence(&parsed(other)?))
}

fn parsed(version: &str) -> Option<Version> {
    Version::parse(version).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bundle::RequestedCharts;

    const HOUR: i64 = 3_600;

    fn recorded() -> Value {
        json!([{ "repo": "https://charts.example.com", "chart": "web", "constraint": "1.x", "version": "1.0.0", "digest": "a" }])
    }

    fn helmop(seen: &Value, min_age: &str) -> HelmOp {
        serde_json::from_value(json!({
            "metadata": { "name": "web" },
            "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" }, "minAge": min_age, "pollingInterval": "1h" },
            "status": { "resolved": recorded(), "seen": seen },
        }))
        .unwrap()
    }

    /// Polls that find these versions, with the hours between them; returns what each takes, and the note of the last one.
    fn polls(min_age: &str, found: &[(i64, &str, &str)]) -> (Vec<String>, String) {
        let (taken, note, _) = polled(&helmop(&json!([]), min_age), found);
        (taken, note)
    }

    /// Polls of a HelmOp; also returns the list after the last one.
    fn polled(helmop: &HelmOp, found: &[(i64, &str, &str)]) -> (Vec<String>, String, Vec<SeenVersion>) {
        let (mut helmop, mut taken, mut note) = (helmop.clone(), Vec::new(), String::new());
        for (hour, version, digest) in found {
            let (next, seen) = {
                let valid = ValidHelmOp::try_from(&helmop).unwrap();
                let mut charts = RequestedCharts::of(&valid, None);
                let now = Timestamp::from_second(1_800_000_000 + hour * HOUR).unwrap();
                let mut ages = Ages::of(&valid, now);
                let chart = &mut charts.as_mut_slice()[0];
                let content = |version: &str, digest: &str| ChartVersion {
                    version: version.to_owned(),
                    digest: digest.to_owned(),
                    ..ChartVersion::default()
                };
                let found = content(version, digest);
                let take = if ages.admits(chart, &found) {
                    Some(found)
                } else {
                    let older = ages.old_enough(chart).into_iter().next();
                    older.map(|older| content(&older, digest))
                };
                taken.push(
                    take.as_ref()
                        .map_or_else(String::new, |take| take.version.clone()),
                );
                if let Some(take) = take {
                    chart.resolved(take);
                }
                ages.settle(charts.as_slice());
                note = ages.note(&helmop);
                (charts.records(), ages.seen().to_vec())
            };
            let status = helmop.status.as_mut().unwrap();
            status.resolved = next;
            status.seen = seen;
        }
        (taken, note, helmop.status.unwrap().seen)
    }

    #[test]
    fn a_version_is_taken_when_it_is_old_enough() {
        let (taken, note) = polls("72h", &[(0, "1.1.0", "b"), (71, "1.1.0", "b")]);
        assert_eq!(taken, ["", ""]);
        assert_eq!(
            note,
            "version 1.1.0 is taken by the first poll after 2027-01-18T08:00:00Z: spec.minAge is 72h, since it was first seen"
        );
        let (taken, note) = polls("72h", &[(0, "1.1.0", "b"), (72, "1.1.0", "b")]);
        assert_eq!(
            (taken, note),
            (vec![String::new(), "1.1.0".to_owned()], String::new())
        );
        // Another content under the same version waits as another version does.
        let (taken, _) = polls(
            "72h",
            &[(0, "1.1.0", "b"), (72, "1.1.0", "c"), (144, "1.1.0", "c")],
        );
        assert_eq!(taken, ["", "", "1.1.0"]);
        let (taken, note) = polls("0s", &[(0, "1.1.0", "b")]);
        assert_eq!((taken, note), (vec!["1.1.0".to_owned()], String::new()));
    }

    #[test]
    fn a_chart_with_a_new_version_each_day_is_updated() {
        let found: Vec<_> = (0..5).map(|day| (day * 24, format!("1.{}.0", day + 1))).collect();
        let found: Vec<_> = found
            .iter()
            .map(|(hour, version)| (*hour, &**version, "b"))
            .collect();
        let (taken, _) = polls("72h", &found);
        assert_eq!(taken, ["", "", "", "1.1.0", "1.2.0"]);
    }

    #[test]
    fn what_is_recorded_or_takes_the_place_of_a_withdrawn_version_does_not_wait() {
        assert_eq!(polls("72h", &[(0, "1.0.0", "a")]).0, ["1.0.0"]);
        assert_eq!(polls("72h", &[(0, "0.9.0", "z")]).0, ["0.9.0"]);
        // It is held for another reason, and reported.
        assert_eq!(polls("72h", &[(0, "1.0.0", "other")]).0, ["1.0.0"]);
    }

    #[test]
    fn an_exact_version_that_is_followed_does_not_wait() {
        let mut helmop = helmop(&json!([]), "72h");
        helmop.spec.bundle.options.helm.as_mut().unwrap().version = "1.0.0".to_owned();
        helmop.spec.on_digest_change = "Follow".to_owned();
        helmop.status.as_mut().unwrap().resolved[0].constraint = "1.0.0".to_owned();
        let valid = ValidHelmOp::try_from(&helmop).unwrap();
        let charts = RequestedCharts::of(&valid, None);
        let mut ages = Ages::of(&valid, Timestamp::UNIX_EPOCH);
        let found = ChartVersion {
            version: "1.0.0".to_owned(),
            digest: "b".to_owned(),
            ..ChartVersion::default()
        };
        assert!(charts.as_slice()[0].version.is_some());
        assert!(ages.admits(&charts.as_slice()[0], &found));
    }

    #[test]
    fn the_list_is_bounded_and_what_was_seen_first_stays() {
        let found: Vec<_> = (1..80).map(|minor| (minor, format!("1.{minor}.0"))).collect();
        let found: Vec<_> = found
            .iter()
            .map(|(hour, version)| (*hour, &**version, "b"))
            .collect();
        let (taken, note) = polls("30h", &found[..20]);
        assert_eq!(taken, [""; 20]);
        assert!(
            note.starts_with(
                "version 1.20.0 waits for spec.minAge, 30h, which does not begin while status.seen is full"
            ),
            "{note}"
        );
        let (taken, _) = polls("30h", &found);
        assert_eq!(taken[29], "");
        assert_eq!(taken[30], "1.1.0");
        assert_eq!(taken[38], "1.9.0");
        // The list had room again when the first one was taken.
        assert_eq!(taken[62], "1.33.0");
        assert_eq!(taken[70], "1.41.0");
    }

    #[test]
    fn what_no_poll_takes_any_more_is_not_listed() {
        let seen = |version: &str, digest: &str| {
            json!({
                "repo": "https://charts.example.com", "chart": "web", "version": version, "digest": digest,
                "firstSeen": "2027-01-15T08:00:00Z",
            })
        };
        let left = |seen: Value, found: &[(i64, &str, &str)]| {
            let (_, _, left) = polled(&helmop(&seen, "72h"), found);
            let left = left
                .into_iter()
                .map(|seen| format!("{} {}", seen.version, seen.digest));
            left.collect::<Vec<_>>()
        };
        let current = [(0, "1.0.0", "a")];
        // Out of the range, lower, the recorded one, and not a version.
        for (version, digest) in [("2.0.0", "b"), ("0.9.0", "b"), ("1.0.0", "a"), ("latest", "b")] {
            assert!(
                left(json!([seen(version, digest)]), &current).is_empty(),
                "{version}"
            );
        }
        assert_eq!(left(json!([seen("1.2.0", "b")]), &current), ["1.2.0 b"]);
        // One version, or build of it, is there at a time.
        let builds = [
            (0, "1.1.0", "b"),
            (1, "1.1.0", "c"),
            (2, "1.1.0+1", "d"),
            (3, "1.1.0+2", "e"),
        ];
        assert_eq!(left(json!([]), &builds), ["1.1.0+2 e"]);
        // Builds of the recorded version leave nothing when one of them is taken.
        let builds = [(0, "1.0.0+1", "b"), (1, "1.0.0+2", "c")];
        assert_eq!(left(json!([]), &builds), ["1.0.0+2 c"]);
        let taken = [builds[0], builds[1], (73, "1.0.0+2", "c")];
        assert!(left(json!([]), &taken).is_empty());
    }

    #[test]
    fn a_tag_that_moves_waits_with_its_last_digest() {
        let mut helmop = helmop(&json!([]), "72h");
        let repo = "oci://registry.example.com/charts/web:latest";
        helmop.spec.bundle.options.helm = serde_json::from_value(json!({ "repo": repo })).unwrap();
        let resolved = {
            let valid = ValidHelmOp::try_from(&helmop).unwrap();
            let mut charts = RequestedCharts::of(&valid, None);
            charts.as_mut_slice()[0].version = Some(ChartVersion {
                version: "1.0.0".to_owned(),
                digest: "a".to_owned(),
                ..ChartVersion::default()
            });
            charts.records()
        };
        helmop.status.as_mut().unwrap().resolved = resolved;
        let pushed = [(0, "1.0.0", "b"), (1, "1.1.0", "c"), (2, "1.0.0", "d")];
        let (taken, _, seen) = polled(&helmop, &pushed);
        assert_eq!(taken, [""; 3]);
        let seen: Vec<_> = seen.iter().map(|seen| &*seen.digest).collect();
        assert_eq!(seen, ["d"]);
        let (taken, _, seen) = polled(&helmop, &[pushed[0], (72, "1.0.0", "b")]);
        assert_eq!((&*taken[1], seen.len()), ("1.0.0", 0));
    }
}
