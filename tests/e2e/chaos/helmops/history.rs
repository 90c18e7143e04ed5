//! Checks that no version was ever lower than the one before, according to the recorded writes of each Bundle.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use helmops_bed::audit::{Deletion, Write};
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
/// The history of a HelmOp ends with its deletion: a reconciliation that started before may create its Bundle once more after the
/// garbage collector has deleted it, which then deletes that one too.
///
/// # Errors
/// With the first write that violates this.
pub fn check(writes: &[Write], deletions: &[Deletion]) -> Result<usize> {
    let mut histories = HashMap::<(&str, &str), HashMap<String, VersionHistory>>::new();
    let mut deletions = deletions.iter().peekable();
    let mut count = 0;
    let of_bundles = writes.iter().filter(|write| write.resource == "bundles");
    for write in of_bundles.filter(|write| write.is_accepted() || write.is_undetermined()) {
        while let Some(deleted) = deletions.next_if(|deleted| deleted.received < write.received) {
            histories.remove(&(&*deleted.namespace, &*deleted.name));
        }
        let (owner, versions) = read(write).with_context(|| format!("{write:?}"))?;
        let is_pinned = write.name.starts_with(PollClass::Pinned.prefix());
        let of_name = histories.entry((&write.namespace, &write.name)).or_default();
        let history = of_name.entry(owner).or_default();
        history.check(&versions, is_pinned).with_context(|| {
            format!(
                "{write:?}\nwrites of the Bundle:\n{}",
                writes_of(&write.name, writes)
            )
        })?;
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

/// All writes of a Bundle, for an error.
fn writes_of(name: &str, writes: &[Write]) -> String {
    let of_bundle = writes
        .iter()
        .filter(|write| write.resource == "bundles" && write.name == name);
    let lines = of_bundle.map(|write| {
        let body = write.body.as_ref();
        let record = body.map(|body| &body["metadata"]["annotations"]["helmops.fleet.cattle.io/resolved"]);
        let generation = body.map(|body| &body["metadata"]["generation"]);
        format!(
            "{} {} based on generation {generation:?}: {record:?}\n",
            write.received, write.code
        )
    });
    lines.collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A write of the Bundle of a pinned HelmOp.
    fn write(code: u16, constraint: &str, version: &str) -> Write {
        let record = json!([{ "constraint": constraint, "version": version }]).to_string();
        Write {
            writer: String::new(),
            resource: "bundles".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: format!("{}-1", PollClass::Pinned.prefix()),
            code,
            body: Some(json!({
                "metadata": {
                    "ownerReferences": [{ "uid": "u" }],
                    "annotations": { "helmops.fleet.cattle.io/resolved": record }
                },
                "spec": { "helm": { "version": version } }
            })),
            received: String::new(),
        }
    }

    #[test]
    fn a_pinned_version_stays_unless_its_range_was_removed() {
        let (first, newer) = (write(201, "*", "1.1.2"), write(200, "*", "1.1.4"));
        let changed = check(&[first.clone(), newer.clone()], &[]).unwrap_err();
        assert!(
            format!("{changed:#}").contains("although it is pinned"),
            "{changed:#}"
        );
        for code in [200, 500, 504] {
            let removed = write(code, "1.x", "1.1.3");
            check(&[first.clone(), removed, newer.clone()], &[]).unwrap();
        }
        check(&[first, write(409, "1.x", "1.1.3"), newer], &[]).unwrap_err();
    }

    #[test]
    fn a_pinned_version_may_change_after_the_deletion_of_the_helmop() {
        let at = |mut write: Write, second: &str| {
            write.received = second.to_owned();
            write
        };
        let first = at(write(201, "*", "1.1.2"), "1");
        let newer = at(write(201, "*", "1.1.4"), "3");
        let deletion = |name: &str, second: &str| Deletion {
            namespace: String::new(),
            name: name.to_owned(),
            received: second.to_owned(),
        };
        let writes = [first.clone(), newer];
        check(&writes, &[deletion(&first.name, "2")]).unwrap();
        check(&writes, &[deletion(&first.name, "4")]).unwrap_err();
        check(&writes, &[deletion("another", "2")]).unwrap_err();
    }
}
