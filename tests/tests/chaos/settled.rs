//! Whether everything is as it was asked for last.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use helmops_tests::api::Api;
use serde_json::{Value, json};

use super::driver::{NAMESPACES, Name};
use super::repository::{Range, Repository, version};
use super::wanted::{Class, Wanted};

/// Compares what there is with what is wanted. Gives the number of HelmOps.
///
/// # Errors
/// With what is not as it should be, some of it.
pub async fn check(api: &Api, wanted: &BTreeMap<Name, Wanted>, repository: &Repository) -> Result<usize> {
    let helmops = all(api, "helmops").await?;
    let mut bundles = all(api, "bundles").await?;
    ensure!(
        helmops.keys().eq(wanted.keys()),
        "{} HelmOps instead of {}",
        helmops.len(),
        wanted.len()
    );
    let mut wrong = Vec::new();
    for (name, helmop) in &helmops {
        let bundle = bundles.remove(name);
        let found = bundle
            .context("there is no Bundle")
            .and_then(|bundle| one(&wanted[name], helmop, &bundle, repository));
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

async fn all(api: &Api, resource: &str) -> Result<BTreeMap<Name, Value>> {
    let mut all = BTreeMap::new();
    for namespace in NAMESPACES {
        for object in api.list(namespace, resource).await? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            all.insert((namespace, name), object);
        }
    }
    Ok(all)
}

fn one(wanted: &Wanted, helmop: &Value, bundle: &Value, repository: &Repository) -> Result<()> {
    let (metadata, spec) = (&bundle["metadata"], &bundle["spec"]);
    same(
        "owner",
        &metadata["ownerReferences"][0]["uid"],
        &helmop["metadata"]["uid"],
    )?;
    same(
        "label team",
        &metadata["labels"]["team"],
        &json!(wanted.team.to_string()),
    )?;
    same("repo", &spec["helm"]["repo"], &json!(repository.url()))?;
    same("values", &spec["helm"]["values"], &json!({ "a": wanted.values }))?;
    let token = wanted.token.map_or(Value::Null, |token| json!(token.to_string()));
    same(
        "token",
        &metadata["annotations"]["helmops.fleet.cattle.io/last-handled-poll"],
        &token,
    )?;
    in_range(wanted, wanted.range, &spec["helm"]["version"], repository)?;
    targets(wanted, spec, repository)?;
    status(wanted, helmop, bundle)
}

fn targets(wanted: &Wanted, spec: &Value, repository: &Repository) -> Result<()> {
    let targets = spec["targets"].as_array().context("no targets")?;
    if wanted.targets.is_empty() {
        return same("targets", &targets[0]["name"], &json!("default"));
    }
    ensure!(targets.len() == wanted.targets.len(), "targets are {targets:?}");
    for (target, wanted_target) in targets.iter().zip(&wanted.targets) {
        let number = wanted_target.number;
        same("target", &target["name"], &json!(format!("t{number}")))?;
        let labels = &target["clusterSelector"]["matchLabels"];
        same("selector", labels, &json!({ "number": number.to_string() }))?;
        match wanted_target.range {
            Some(range) => in_range(wanted, range, &target["helm"]["version"], repository)?,
            None => same("target's chart", &target["helm"], &Value::Null)?,
        }
    }
    Ok(())
}

/// Who looks has the newest by now, and everybody has one of those that were asked for.
fn in_range(wanted: &Wanted, range: Range, found: &Value, repository: &Repository) -> Result<()> {
    let version = version(found.as_str().context("no version")?).context("no concrete version")?;
    let looks = match wanted.class {
        Class::Pinned => false,
        Class::Asked => true,
        Class::Polled => wanted.is_polled,
    };
    if looks {
        ensure!(
            repository.newest(range) == Some(version),
            "{found} is not the newest of {}",
            range.text
        );
    }
    ensure!(repository.has(range, version), "{found} is not in {}", range.text);
    Ok(())
}

fn status(wanted: &Wanted, helmop: &Value, bundle: &Value) -> Result<()> {
    let status = &helmop["status"];
    same(
        "status.version",
        &status["version"],
        &bundle["spec"]["helm"]["version"],
    )?;
    let generation = &helmop["metadata"]["generation"];
    same("generation", &status["observedGeneration"], generation)?;
    let condition = |name: &str| {
        let conditions = status["conditions"].as_array().context("no conditions")?;
        let condition = conditions.iter().find(|condition| condition["type"] == name);
        anyhow::Ok(condition.map_or(Value::Null, |condition| condition["status"].clone()))
    };
    same("Accepted", &condition("Accepted")?, &json!("True"))?;
    // A version that cannot move is not polled.
    let ranges = wanted.targets.iter().filter_map(|target| target.range);
    let is_floating = ranges.chain([wanted.range]).any(Range::is_floating);
    let polled = if wanted.is_polled && is_floating {
        json!("True")
    } else {
        Value::Null
    };
    same("Polled", &condition("Polled")?, &polled)
}

fn same(what: &str, found: &Value, wanted: &Value) -> Result<()> {
    ensure!(found == wanted, "{what} is {found} instead of {wanted}");
    Ok(())
}
