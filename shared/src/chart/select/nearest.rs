//! The versions nearest to a request that none of them meets.

use std::collections::BTreeSet;

use super::condition::{self, Condition};
use super::{Known, Nearest};
use crate::chart::constraint::Constraint;
use crate::chart::version::Version;

/// How many are listed: a few on either side, few enough for a line.
const LISTED: usize = 6;

/// The known versions on both sides of each version that the constraint names.
pub(super) fn nearest<C>(known: &[Known<'_, C>], candidates: usize, constraint: &Constraint) -> Nearest {
    let normal = constraint.to_string();
    let conditions: Vec<Condition<'_>> = condition::groups(&normal).flatten().collect();
    let sorted = sorted(known, &conditions);
    let edges = conditions.iter().filter_map(Condition::edge);
    let mut places: BTreeSet<usize> = edges.map(|edge| place(&sorted, &edge)).collect();
    if places.is_empty() {
        places.insert(sorted.len());
    }
    let listed = around(&places, sorted.len());
    let newest_first = listed.iter().rev().filter_map(|at| sorted.get(*at));
    let versions: Vec<String> = newest_first
        .map(|version| version.original().to_owned())
        .collect();
    Nearest {
        others: candidates.saturating_sub(versions.len()),
        versions,
    }
}

/// In ascending order, each text once. Pre-releases are left out where the request cannot mean one and there are releases.
fn sorted<'k, C>(known: &'k [Known<'_, C>], conditions: &[Condition<'_>]) -> Vec<&'k Version> {
    let names_one = |condition: &Condition<'_>| condition.names_prerelease() || condition.precision() == 3;
    let with_prereleases =
        conditions.iter().any(names_one) || known.iter().all(|known| known.version.is_prerelease());
    let mut sorted: Vec<&Version> = known
        .iter()
        .map(|known| &known.version)
        .filter(|version| with_prereleases || !version.is_prerelease())
        .collect();
    sorted.sort_by(|a, b| a.precedence(b).then_with(|| a.original().cmp(b.original())));
    sorted.dedup_by(|a, b| a.original() == b.original());
    sorted
}

/// Where a version would stand among the others: so many are below it.
fn place(sorted: &[&Version], version: &Version) -> usize {
    sorted.partition_point(|other| other.precedence(version).is_lt())
}

/// At most [`LISTED`] of the positions below `len`, those beside the places first.
fn around(places: &BTreeSet<usize>, len: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for distance in 0..LISTED {
        for place in places {
            let below = place.checked_sub(distance + 1);
            for at in [below, place.checked_add(distance)].into_iter().flatten() {
                if at < len && found.len() < LISTED {
                    found.insert(at);
                }
            }
        }
    }
    found
}
