//! The age of a version before a poll takes it.

use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::standalone::{Fixture, Repository};
use crate::harness::{condition, until_version};

/// The time for which the version waits in the end.
const MIN_AGE: Duration = Duration::from_secs(15);

/// Waits until a version is seen, and returns since when.
async fn until_seen(fixture: &Fixture, version: &str) -> Timestamp {
    let helmop = fixture
        .until("helmop/web", |helmop| {
            let seen = helmop["status"]["seen"].as_array().context("none is seen")?;
            let is_seen = seen.iter().any(|seen| seen["version"] == version);
            ensure!(is_seen, "seen are {seen:?}");
            Ok(())
        })
        .await;
    let seen = helmop["status"]["seen"].as_array().unwrap();
    let seen = seen.iter().find(|seen| seen["version"] == version).unwrap();
    seen["firstSeen"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_version_is_taken_when_it_is_known_for_long_enough() {
    let fixture = Fixture::new("min-age", 0).await;
    let repository = Repository::new(&fixture).await;
    repository.helmop(&fixture, &json!({ "minAge": "1h" })).await;
    until_version(&fixture.namespace, "web", "1.0.0").await;
    repository.add("1.1.0").await;
    let first_seen = until_seen(&fixture, "1.1.0").await;
    repository.until_polled_again().await;
    let helmop = fixture.until("helmop/web", |_| Ok(())).await;
    let polled = condition(&helmop, "Polled").unwrap();
    let until = (first_seen + Duration::from_hours(1)).to_string();
    let message = polled["message"].as_str().unwrap();
    assert!(message.contains("1.1.0") && message.contains(&until), "{message}");
    assert_eq!(until_seen(&fixture, "1.1.0").await, first_seen, "it stays");
    assert_eq!(helmop["status"]["version"], "1.0.0");
    until_version(&fixture.namespace, "web", "1.0.0").await;

    // The one that is newest waits, and is taken by a poll when it is old enough.
    let short = json!({ "minAge": format!("{}s", MIN_AGE.as_secs()) });
    repository.helmop(&fixture, &short).await;
    repository.add("1.2.0").await;
    let first_seen = until_seen(&fixture, "1.2.0").await;
    until_version(&fixture.namespace, "web", "1.2.0").await;
    let age = Timestamp::now().duration_since(first_seen);
    assert!(age.unsigned_abs() >= MIN_AGE, "{age}");
    fixture
        .until("helmop/web", |helmop| {
            let seen = &helmop["status"]["seen"];
            ensure!(*seen == Value::Null || *seen == json!([]), "it is {seen}");
            Ok(())
        })
        .await;
}
