//! Checks that no version was ever lower than the one before, according to the recorded writes of each Bundle.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use helmops_bed::audit::Write;
use serde::Deserialize;

use super::desired::PollClass;
use super::repository::{Version, version};

/// A constraint and the version that it was resolved to, as recorded in a Bundle.
#[derive(Deserialize)]
struct Record {
    constraint: String,
    version: String,
}

/// The versions of one HelmOp so far.
#[derive(Default)]
struct VersionHistory {
    /// The newest version of each range.
    newest: HashMap<String, Version>,
    /// The last written version of each range.
    last: HashMap<String, Version>,
}

/// Checks all writes of Bundles. Versions in the repository only grow, so a range is never resolved to a lower version than
/// before. Pinned HelmOps are not polled, so their version stays as long as their range does. Returns the number of written
/// versions.
///
/// # Errors
/// With the first write that violates this.
pub fn check(writes: &[Write]) -> Result<usize> {
    let mut histories = HashMap::<String, VersionHistory>::new();
    let mut count = 0;
    let of_bundles = writes.iter().filter(|write| write.resource == "bundles");
    for write in of_bundles.filter(|write| write.is_accepted() || write.is_undetermined()) {
        let (owner, versions) = read(write).with_context(|| format!("{write:?}"))?;
        let is_pinned = write.name.starts_with(PollClass::Pinned.prefix());
        let history = histories.entry(owner).or_default();
        history
            .check(&versions, is_pinned)
            .with_context(|| format!("{write:?}"))?;
        if write.is_accepted() {
            count += versions.len();
            history.record(versions);
        } else {
            // If it was applied, a range that it removed may be resolved again when it comes back.
            history.last.retain(|range, _| versions.contains_key(range));
        }
    }
    Ok(count)
}

impl VersionHistory {
    fn check(&self, versions: &HashMap<String, Version>, is_pinned: bool) -> Result<()> {
        for (range, version) in versions {
            if let Some(newest) = self.newest.get(range) {
                ensure!(
                    newest <= version,
                    "{range} changed from {newest:?} to the lower {version:?}"
                );
            }
            if let Some(last) = self.last.get(range).filter(|_| is_pinned) {
                ensure!(
                    last == version,
                    "{range} changed from {last:?} to {version:?} although it is pinned"
                );
            }
        }
        Ok(())
    }

    fn record(&mut self, versions: HashMap<String, Version>) {
        self.newest
            .extend(versions.iter().map(|(range, version)| (range.clone(), *version)));
        self.last = versions;
    }
}

/// The uid of the HelmOp, and the versions by range.
fn read(write: &Write) -> Result<(String, HashMap<String, Version>)> {
    let body = write.body.as_ref().context("the write has no body")?;
    let metadata = &body["metadata"];
    let owner = metadata["ownerReferences"][0]["uid"]
        .as_str()
        .context("the Bundle has no owner")?;
    let annotation = &metadata["annotations"]["helmops.fleet.cattle.io/resolved"];
    let records: Vec<Record> =
        serde_json::from_str(annotation.as_str().context("the Bundle has no record")?)?;
    let main = body["spec"]["helm"]["version"]
        .as_str()
        .context("the Bundle has no version")?;
    ensure!(
        records.first().is_some_and(|record| record.version == main),
        "the record does not match the version"
    );
    let versions = records.into_iter().map(|record| {
        let version = version(&record.version).context("the version is not concrete")?;
        anyhow::Ok((record.constraint, version))
    });
    Ok((owner.to_owned(), versions.collect::<Result<_>>()?))
}
