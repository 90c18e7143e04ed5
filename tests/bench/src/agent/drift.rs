//! How soon drift is reported, and how soon it is corrected.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helmops_bed::api::value_at;
use reqwest::Method;
use serde_json::{Value, json};

use super::environment::{DEADLINE, Environment};
use super::scenario::{CLUSTER, MESSAGE, RELEASES, is_corrected, name};

/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(10);
/// A change in another second than the one before, as those of people.
const BETWEEN: Duration = Duration::from_millis(1_100);

/// The samples.
#[derive(Debug, Default)]
pub struct Drift {
    /// From the change of an object to the status that reports it.
    pub reported: Vec<Duration>,
    /// From the change of an object to its correction.
    pub corrected: Vec<Duration>,
}

/// Changes objects of releases of both kinds, one after the other.
pub async fn measure(environment: &Environment, charts: usize, samples: usize) -> Result<Drift> {
    let mut drift = Drift::default();
    for number in 0..charts.min(2 * samples) {
        let started = Instant::now();
        change(environment, number, "drift").await?;
        if is_corrected(number) {
            until(|| has_message(environment, number)).await?;
            drift.corrected.push(started.elapsed());
        } else {
            until(|| is_modified(environment, number, true)).await?;
            drift.reported.push(started.elapsed());
            change(environment, number, MESSAGE).await?;
        }
        until(|| is_modified(environment, number, false)).await?;
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(drift)
}

async fn change(environment: &Environment, number: usize, message: &str) -> Result<()> {
    let object = format!("configmaps/{}", name(number));
    let patch = json!({ "data": { "msg": message } });
    environment
        .object(Method::PATCH, RELEASES, &object, patch)
        .await
        .map(drop)
}

async fn has_message(environment: &Environment, number: usize) -> Result<bool> {
    let object = format!("configmaps/{}", name(number));
    let found = environment
        .object(Method::GET, RELEASES, &object, Value::Null)
        .await?;
    Ok(value_at(&found, "/data/msg") == MESSAGE)
}

async fn is_modified(environment: &Environment, number: usize, expected: bool) -> Result<bool> {
    let path = format!(
        "apis/fleet.cattle.io/v1alpha1/namespaces/{CLUSTER}/bundledeployments/{}",
        name(number)
    );
    let found = environment.api.get(&path).await?;
    // `false` is omitted.
    let is_modified = value_at(&found, "/status/nonModified") != true;
    Ok(is_modified == expected)
}

async fn until(is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !is_so().await? {
        if Instant::now() > end {
            bail!("drift is neither reported nor corrected after {DEADLINE:?}");
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
