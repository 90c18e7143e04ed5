//! The versions nearest to a request that no version matches.

use std::{cmp::Ordering, collections::BTreeSet};

use masterminds_semver::{Condition, Constraint, Operator, Precision, Version};

use super::{candidate::Parsed, error::Nearest};

/// How many are listed: a few on either side, and short enough for a line.
const LISTED: usize = 6;

/// The existing versions on both sides of each version that the constraint names.
///
/// Each call of `parsed` returns an iterator over all of them.
pub(super) fn nearest<C, I: Iterator<Item = Parsed<C>>>(
    parsed: impl Fn() -> I,
    candidates: usize,
    constraint: &Constraint,
) -> Nearest {
    let conditions: Vec<Condition<'_>> = constraint.conditions().flatten().collect();
    let edges: BTreeSet<Ranked> = conditions.iter().filter_map(edge).map(Ranked).collect();
    let versions = listed(&near_edges(&edges, eligible(&parsed, &conditions)), &edges);
    Nearest {
        others: candidates.saturating_sub(versions.len()),
        versions,
    }
}

/// The version at which the result of a condition changes; `None` if it holds for all versions.
fn edge(condition: &Condition<'_>) -> Option<Version> {
    let Condition {
        operator,
        precision,
        bound,
        ..
    } = *condition;
    let (major, minor) = match (operator, precision) {
        (_, Precision::None) => return None,
        // ">1.2" starts at 1.3.0.
        (Operator::Greater, Precision::Major) => (bound.major().saturating_add(1), 0),
        (Operator::Greater, Precision::MajorMinor) => (bound.major(), bound.minor().saturating_add(1)),
        _ => return Some(bound.clone()),
    };
    let hyphen = if condition.names_prerelease() { "-" } else { "" };
    Version::parse(&format!("{major}.{minor}.0{hyphen}{}", condition.prerelease)).ok()
}

/// The versions to list, newest first.
fn listed(sorted: &[Ranked], edges: &BTreeSet<Ranked>) -> Vec<String> {
    let mut points: BTreeSet<usize> = edges.iter().map(|edge| insertion_point(sorted, edge)).collect();
    if points.is_empty() {
        points.insert(sorted.len());
    }
    let neighbours = neighbours(&points, sorted.len());
    let newest_first = neighbours.iter().rev().filter_map(|at| sorted.get(*at));
    newest_first
        .map(|ranked| ranked.0.original().to_owned())
        .collect()
}

/// All versions, but without pre-releases if the request cannot mean one and there are releases.
fn eligible<C, I: Iterator<Item = Parsed<C>>>(
    parsed: &impl Fn() -> I,
    conditions: &[Condition<'_>],
) -> impl Iterator<Item = Version> {
    let names_one =
        |condition: &Condition<'_>| condition.names_prerelease() || condition.precision == Precision::All;
    let with_prereleases =
        conditions.iter().any(names_one) || parsed().all(|parsed| parsed.version.is_prerelease());
    parsed()
        .map(|parsed| parsed.version)
        .filter(move |version| with_prereleases || !version.is_prerelease())
}

/// The versions in ascending order, each text once. Between two edges, only the first and the last few are kept, since no
/// others can be listed: the memory depends on the constraint alone.
fn near_edges(edges: &BTreeSet<Ranked>, versions: impl Iterator<Item = Version>) -> Vec<Ranked> {
    let edges: Vec<&Ranked> = edges.iter().collect();
    let mut gaps: Vec<Gap> = Vec::new();
    gaps.resize_with(edges.len() + 1, Gap::default);
    for version in versions {
        let at = edges.partition_point(|edge| edge.0.precedence(&version).is_le());
        if let Some(gap) = gaps.get_mut(at) {
            gap.add(Ranked(version));
        }
    }
    gaps.into_iter().flat_map(Gap::sorted).collect()
}

/// The versions between two edges that are kept.
#[derive(Default)]
struct Gap {
    lowest: BTreeSet<Ranked>,
    highest: BTreeSet<Ranked>,
}

impl Gap {
    fn add(&mut self, version: Ranked) {
        if self.highest.len() < LISTED || self.highest.first().is_some_and(|least| *least < version) {
            self.highest.insert(version.clone());
            if self.highest.len() > LISTED {
                self.highest.pop_first();
            }
        }
        if self.lowest.len() < LISTED || self.lowest.last().is_some_and(|most| version < *most) {
            self.lowest.insert(version);
            if self.lowest.len() > LISTED {
                self.lowest.pop_last();
            }
        }
    }

    fn sorted(mut self) -> BTreeSet<Ranked> {
        self.lowest.append(&mut self.highest);
        self.lowest
    }
}

/// A version ordered by precedence, then by text.
#[derive(Clone)]
struct Ranked(Version);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.0.precedence(&other.0);
        order.then_with(|| self.0.original().cmp(other.0.original()))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// The index at which a version would be inserted: the number of versions below it.
fn insertion_point(sorted: &[Ranked], version: &Ranked) -> usize {
    sorted.partition_point(|other| other.0.precedence(&version.0).is_lt())
}

/// At most [`LISTED`] of the indexes below `len`, the nearest to `points` first.
fn neighbours(points: &BTreeSet<usize>, len: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for distance in 0..LISTED {
        for point in points {
            let below = point.checked_sub(distance + 1);
            for at in [below, point.checked_add(distance)].into_iter().flatten() {
                if at < len && found.len() < LISTED {
                    found.insert(at);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranked(text: &str) -> Ranked {
        Ranked(Version::parse(text).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn bounded_memory_lists_the_same_versions_as_the_whole_list(
            versions in prop::collection::vec("v?[0-3]\\.[0-3](\\.[0-3])?(-[ab0])?(\\+b)?", 0..200),
            edges in prop::collection::btree_set("[0-3]\\.[0-3]\\.[0-3](-a)?", 0..4),
        ) {
            let edges: BTreeSet<Ranked> = edges.iter().map(|text| ranked(text)).collect();
            let all: BTreeSet<Ranked> = versions.iter().map(|text| ranked(text)).collect();
            let all: Vec<Ranked> = all.into_iter().collect();
            let kept = near_edges(&edges, versions.iter().map(|text| ranked(text).0));
            prop_assert!(kept.len() <= (edges.len() + 1) * 2 * LISTED);
            prop_assert_eq!(listed(&kept, &edges), listed(&all, &edges));
        }
    }
}
