//! The list of HelmOps, and its changes.

use std::collections::BTreeMap;

use helmops_api::WithoutObjects;
use jiff::Timestamp;
use kube::runtime::watcher;

use super::{
    screen::{Screen, next},
    watched::Watched,
};
use crate::{
    cluster::{Cluster, selection::Scope},
    failure::Failure,
    state::summary::{Columns, HelmOpSummary, sort},
    terminal::{Console, table::MoreRows},
};

/// The list of HelmOps, and its changes.
///
/// # Errors
/// If HelmOps cannot be watched.
pub async fn list(
    cluster: &Cluster,
    scope: Scope<'_>,
    selector: Option<&str>,
    columns: Columns,
    screen: Screen,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let config = watcher::Config {
        label_selector: selector.map(str::to_owned),
        ..watcher::Config::default()
    };
    let mut changes = std::pin::pin!(cluster.watch::<WithoutObjects>(scope, config));
    let mut watched = Watched::default();
    let mut before: Option<(Vec<HelmOpSummary>, MoreRows)> = None;
    while let Some(()) = next(&mut changes, screen, |change| watched.apply(change)).await? {
        if !watched.is_current() {
            continue;
        }
        let now = Timestamp::now();
        let objects = watched.objects.values();
        let mut summaries: Vec<_> = objects
            .map(|one| HelmOpSummary::of_listed(one, None, now))
            .collect();
        sort(&mut summaries);
        let rows = match before {
            Some((before, mut rows)) if screen == Screen::Lines => {
                for changed in changed(&before, &summaries) {
                    rows.row(&columns.cells(&changed, now), &mut console.out, console.styles)?;
                }
                rows
            }
            _ => {
                screen.clear(console)?;
                columns
                    .table(&summaries, now)
                    .begin(&mut console.out, console.styles)?
            }
        };
        console.out.flush()?;
        before = Some((summaries, rows));
    }
    Ok(())
}

fn by_name(summaries: &[HelmOpSummary]) -> BTreeMap<(&str, &str), &HelmOpSummary> {
    let summaries = summaries.iter();
    summaries
        .map(|one| ((&*one.namespace, &*one.name), one))
        .collect()
}

/// The summaries that differ from those before, and those of HelmOps that are gone.
fn changed(before: &[HelmOpSummary], after: &[HelmOpSummary]) -> Vec<HelmOpSummary> {
    let (mut old, new) = (by_name(before), by_name(after));
    let mut changed = Vec::new();
    for (key, summary) in new {
        if old.remove(&key) != Some(summary) {
            changed.push(summary.clone());
        }
    }
    changed.extend(old.into_values().map(|gone| HelmOpSummary {
        state: "Deleted".to_owned(),
        reason: String::new(),
        message: String::new(),
        ..gone.clone()
    }));
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_what_is_new_changed_or_gone() {
        let summary = |name: &str, version: &str| HelmOpSummary {
            name: name.to_owned(),
            version: version.to_owned(),
            state: "Ready".to_owned(),
            ..HelmOpSummary::default()
        };
        let before = [summary("a", "1"), summary("b", "1"), summary("c", "1")];
        let after = [summary("a", "1"), summary("b", "2"), summary("d", "1")];
        let changed: Vec<_> = changed(&before, &after)
            .into_iter()
            .map(|one| (one.name, one.state))
            .collect();
        let expected = [("b", "Ready"), ("d", "Ready"), ("c", "Deleted")];
        assert_eq!(
            changed,
            expected.map(|(name, state)| (name.to_owned(), state.to_owned()))
        );
    }
}
