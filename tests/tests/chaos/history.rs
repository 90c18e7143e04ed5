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
pub fn check(writes: &[Write]) -> Result<u32> {
    let mut pasts = HashMap::<String, Past>::new();
    let mut count = 0;
    let accepted = writes.iter().filter(|write| write.is_accepted());
    for write in accepted.filter(|write| write.resource == "bundles") {
        let (owner, versions) = read(write).with_context(|| format!("{write:?}"))?;
        let is_pinned = write.name.starts_with(Class::Pinned.word());
        let past = pasts.entry(owner).or_default();
        for (range, version) in &versions {
            let newest = past.newest.entry(range.clone()).or_insert(*version);
            ensure!(
                *newest <= *version,
                "{range} went back from {newest:?} to {version:?}: {write:?}"
            );
            *newest = *version;
            let last = past.last.get(range).copied();
            ensure!(
                !is_pinned || last.is_none_or(|last| last == *version),
                "{range} moved from {last:?} to {version:?} though nobody asked: {write:?}"
            );
            count += 1;
        }
        past.last = versions;
    }
    Ok(count)
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
