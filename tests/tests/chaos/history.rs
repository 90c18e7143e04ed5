//! Whether a version ever went back, as what was written of each Bundle tells.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use helmops_tests::audit::Write;
use serde::Deserialize;

use super::repository::{Version, version};
use super::wanted::Class;

/// What a version was resolved from, as a Bundle records it.
#[derive(Deserialize)]
struct Record {
    constraint: String,
    version: String,
}

/// The versions of one HelmOp so far.
#[derive(Default)]
struct Past {
    /// The newest of each range.
    newest: HashMap<String, Version>,
    /// By range, as written last.
    last: HashMap<String, Version>,
}

/// Goes through all that was written of Bundles. Versions in the repository only grow, so that a range never comes to a
/// lower one again; and nobody looks for a newer one for those that are pinned, so that theirs stays while they ask for
/// the same. Gives how many versions were written.
///
/// # Errors
/// With the first write that is not so.
pub fn check(writes: &[Write]) -> Result<usize> {
    let mut pasts = HashMap::<String, Past>::new();
    let mut count = 0;
    let of_bundles = writes.iter().filter(|write| write.resource == "bundles");
    for write in of_bundles.filter(|write| write.is_accepted() || write.is_open()) {
        let (owner, versions) = read(write).with_context(|| format!("{write:?}"))?;
        let is_pinned = write.name.starts_with(Class::Pinned.word());
        let past = pasts.entry(owner).or_default();
        past.check(&versions, is_pinned)
            .with_context(|| format!("{write:?}"))?;
        if write.is_accepted() {
            count += versions.len();
            past.follow(versions);
        } else {
            // If it is done, what was asked for before it is asked for anew after it.
            past.last.retain(|range, _| versions.contains_key(range));
        }
    }
    Ok(count)
}

impl Past {
    fn check(&self, versions: &HashMap<String, Version>, is_pinned: bool) -> Result<()> {
        for (range, version) in versions {
            if let Some(newest) = self.newest.get(range) {
                ensure!(
                    newest <= version,
                    "{range} went back from {newest:?} to {version:?}"
                );
            }
            if let Some(last) = self.last.get(range).filter(|_| is_pinned) {
                ensure!(
                    last == version,
                    "{range} moved from {last:?} to {version:?} though nobody asked"
                );
            }
        }
        Ok(())
    }

    fn follow(&mut self, versions: HashMap<String, Version>) {
        self.newest
            .extend(versions.iter().map(|(range, version)| (range.clone(), *version)));
        self.last = versions;
    }
}

/// The uid of the HelmOp, and the versions by range.
fn read(write: &Write) -> Result<(String, HashMap<String, Version>)> {
    let body = write.body.as_ref().context("a write without a body")?;
    let metadata = &body["metadata"];
    let owner = metadata["ownerReferences"][0]["uid"]
        .as_str()
        .context("no owner")?;
    let annotation = &metadata["annotations"]["helmops.fleet.cattle.io/resolved"];
    let records: Vec<Record> = serde_json::from_str(annotation.as_str().context("no record")?)?;
    let main = body["spec"]["helm"]["version"].as_str().context("no version")?;
    ensure!(
        records.first().is_some_and(|record| record.version == main),
        "the record is not of its version"
    );
    let versions = records.into_iter().map(|record| {
        let version = version(&record.version).context("no concrete version")?;
        anyhow::Ok((record.constraint, version))
    });
    Ok((owner.to_owned(), versions.collect::<Result<_>>()?))
}
