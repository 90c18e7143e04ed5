//! Checks that all HelmOps and Bundles are in the desired state.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use helmops_bed::api::Api;
use serde_json::{Value, json};

use super::desired::{DesiredHelmOp, PollClass};
use super::driver::{Key, NAMESPACES};
use super::repository::{Range, Repository, version};

/// Compares the objects with the desired state. Returns the number of HelmOps.
///
/// # Errors
/// With the number of objects that do not match, and the first of them.
pub async fn check(
    api: &Api,
    desired: &BTreeMap<Key, DesiredHelmOp>,
    repository: &Repository,
) -> Result<usize> {
    let helmops = all(api, "helmops").await?;
    let mut bundles = all(api, "bundles").await?;
    ensure!(
        helmops.keys().eq(desired.keys()),
        "{} HelmOps instead of {}",
        helmops.len(),
        desired.len()
    );
    let mut wrong = Vec::new();
    for (name, helmop) in &helmops {
        let bundle = bundles.remove(name);
        let found = bundle
            .context("there is no Bundle")
            .and_then(|bundle| check_one(&desired[name], helmop, &bundle, repository));
        wrong.extend(
            found
                .err()
                .map(|error| format!("{}/{}: {error:#}", name.0, name.1)),
        );
    }
    let orphans = bundles
        .keys()
        .map(|name| format!("{}/{}: an orphan", name.0, name.1));
    wrong.extend(orphans);
    match &*wrong {
        [] => Ok(helmops.len()),
        [first, ..] => bail!("{} are not settled, the first: {first}", wrong.len()),
    }
}

async fn all(api: &Api, resource: &str) -> Result<BTreeMap<Key, Value>> {
    let mut all = BTreeMap::new();
    for namespace in NAMESPACES {
        for object in api.list(namespace, resource).await? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            all.insert((namespace, name), object);
        }
    }
    Ok(all)
}

fn check_one(desired: &DesiredHelmOp, helmop: &Value, bundle: &Value, repository: &Repository) -> Result<()> {
    let (metadata, spec) = (&bundle["metadata"], &bundle["spec"]);
    same(
        "owner",
        &metadata["ownerReferences"][0]["uid"],
        &helmop["metadata"]["uid"],
    )?;
    same(
        "label team",
        &metadata["labels"]["team"],
        &json!(desired.team.to_string()),
    )?;
    same("repo", &spec["helm"]["repo"], &json!(repository.url()))?;
    same("values", &spec["helm"]["values"], &json!({ "a": desired.values }))?;
    let token = desired
        .token
        .map_or(Value::Null, |token| json!(token.to_string()));
    same(
        "token",
        &metadata["annotations"]["helmops.fleet.cattle.io/last-handled-poll"],
        &token,
    )?;
    in_range(desired, desired.range, &spec["helm"]["version"], repository)?;
    targets(desired, spec, repository)?;
    status(desired, helmop, bundle)
}

fn targets(desired: &DesiredHelmOp, spec: &Value, repository: &Repository) -> Result<()> {
    let targets = spec["targets"].as_array().context("the Bundle has no targets")?;
    if desired.targets.is_empty() {
        return same("targets", &targets[0]["name"], &json!("default"));
    }
    ensure!(targets.len() == desired.targets.len(), "targets are {targets:?}");
    for (target, desired_target) in targets.iter().zip(&desired.targets) {
        let number = desired_target.number;
        same("target", &target["name"], &json!(format!("t{number}")))?;
        let labels = &target["clusterSelector"]["matchLabels"];
        same("selector", labels, &json!({ "number": number.to_string() }))?;
        match desired_target.range {
            Some(range) => in_range(desired, range, &target["helm"]["version"], repository)?,
            None => same("target's chart", &target["helm"], &Value::Null)?,
        }
    }
    Ok(())
}

/// A polled HelmOp has the newest version in the range, and every other one has any version in the range.
fn in_range(desired: &DesiredHelmOp, range: Range, found: &Value, repository: &Repository) -> Result<()> {
    let version = version(found.as_str().context("the Bundle has no version")?)
        .context("the version is not concrete")?;
    let is_polled = match desired.class {
        PollClass::Pinned => false,
        PollClass::OnRequest => true,
        PollClass::Polled => desired.is_polled,
    };
    if is_polled {
        ensure!(
            repository.newest(range) == Some(version),
            "{found} is not the newest of {}",
            range.text
        );
    }
    ensure!(repository.has(range, version), "{found} is not in {}", range.text);
    Ok(())
}

fn status(desired: &DesiredHelmOp, helmop: &Value, bundle: &Value) -> Result<()> {
    let status = &helmop["status"];
    same(
        "status.version",
        &status["version"],
        &bundle["spec"]["helm"]["version"],
    )?;
    let generation = &helmop["metadata"]["generation"];
    same("generation", &status["observedGeneration"], generation)?;
    let condition = |name: &str| {
        let conditions = status["conditions"]
            .as_array()
            .context("the HelmOp has no conditions")?;
        let condition = conditions.iter().find(|condition| condition["type"] == name);
        anyhow::Ok(condition.map_or(Value::Null, |condition| condition["status"].clone()))
    };
    same("Accepted", &condition("Accepted")?, &json!("True"))?;
    // A concrete version is not polled.
    let ranges = desired.targets.iter().filter_map(|target| target.range);
    let is_floating = ranges.chain([desired.range]).any(Range::is_floating);
    let polled = if desired.is_polled && is_floating {
        json!("True")
    } else {
        Value::Null
    };
    same("Polled", &condition("Polled")?, &polled)
}

fn same(what: &str, found: &Value, desired: &Value) -> Result<()> {
    ensure!(found == desired, "{what} is {found} instead of {desired}");
    Ok(())
}
