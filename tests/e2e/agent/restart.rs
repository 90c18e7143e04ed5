//! Agents that start with releases: their own, and those of another replica.

use std::time::Duration;

use anyhow::ensure;
use helmops_bed::audit::Write;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::engine::ENDLESS_HOOK;
use crate::harness::agent::Fixture;
use crate::harness::{SOON, until};

/// How many releases there are.
const RELEASES: u16 = 20;
/// Each takes half a second of CPU time, on a machine that is busy with other tests.
const MANY: Duration = Duration::from_mins(2);

fn names() -> impl Iterator<Item = String> {
    (0..RELEASES).map(|number| format!("web{number}"))
}

/// Deploys all releases, and returns their BundleDeployments.
async fn deploy_all(fixture: &Fixture) -> Vec<Value> {
    let none = json!({});
    for name in names() {
        fixture.deploy(&name, "1.0.0", &none).await;
    }
    eventually("all releases to be ready", MANY, async || {
        let deployments = deployments(fixture).await;
        let ready = deployments
            .iter()
            .filter(|found| found["status"]["ready"] == true)
            .count();
        ensure!(ready == usize::from(RELEASES), "{ready} are");
        Ok(deployments)
    })
    .await
    .unwrap()
}

/// The BundleDeployments.
async fn deployments(fixture: &Fixture) -> Vec<Value> {
    let listed = fixture
        .api
        .list(fixture.upstream.name(), "bundledeployments")
        .await;
    listed.unwrap()
}

fn versions(objects: &[Value]) -> Vec<&Value> {
    objects
        .iter()
        .map(|object| &object["metadata"]["resourceVersion"])
        .collect()
}

/// The writes on the workload cluster, as text, and those of statuses.
fn writes(fixture: &Fixture) -> (Vec<String>, Vec<String>) {
    let text = |write: Write| format!("{} {} {}", write.object(), write.subresource, write.code);
    (
        fixture.downstream_writes().into_iter().map(text).collect(),
        fixture.upstream_writes().into_iter().map(text).collect(),
    )
}

#[tokio::test]
async fn an_agent_that_starts_with_the_wanted_state_writes_nothing() {
    let fixture = Fixture::new("restart").await;
    let mut agent = fixture.start().await;
    let before = deploy_all(&fixture).await;
    until(&fixture.system, "configmap/helmops-agent", |_| Ok(())).await;
    agent.process.kill().await.unwrap();
    let written = writes(&fixture);
    let agent = fixture.start().await;
    agent.until_reconciled(RELEASES).await;
    assert_eq!(writes(&fixture), written);
    assert_eq!(fixture.helm_runs().len(), usize::from(RELEASES));
    let after = deployments(&fixture).await;
    assert_eq!(versions(&after), versions(&before));
    // Drift is found.
    let object = format!("configmap/{}-config", fixture.name("web7"));
    fixture.kubectl(&["delete", &object]).await;
    fixture.until_error("web7", "Ready", &["missing"]).await;
}

/// The name of the replica that holds the Lease.
async fn leader(fixture: &Fixture) -> anyhow::Result<String> {
    let lease = fixture
        .system
        .kubectl()
        .get("lease/fleet-agent")
        .await?
        .unwrap_or_default();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    ensure!(!holder.is_empty(), "no replica holds the Lease");
    Ok(holder.split('_').next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn one_replica_works_and_the_other_one_takes_over() {
    let fixture = Fixture::new("restart-replicas").await;
    let flags = ["--lease-duration=6s", "--renew-deadline=5s", "--retry-period=1s"];
    let mut first = fixture.start_with("first", &flags).await.unwrap();
    eventually("the first leader", SOON, async || leader(&fixture).await)
        .await
        .unwrap();
    let mut second = fixture.start_with("second", &flags).await.unwrap();
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    assert_eq!(leader(&fixture).await.unwrap(), "first");
    assert_eq!(fixture.helm_runs().len(), 1);
    first.process.kill().await.unwrap();
    fixture.deploy("other", "1.0.0", &json!({})).await;
    fixture.until_ready("other").await;
    assert_eq!(leader(&fixture).await.unwrap(), "second");
    assert_eq!(fixture.helm_runs_of(&fixture.name("web")), ["install"]);
    // It was on standby for longer than until the first heartbeat of an agent.
    let log = second.process.log();
    assert!(!log.contains("heartbeat cannot be written"), "{log}");
    // A third one takes over as soon as the leader ends by itself.
    let _third = fixture.start_with("third", &flags).await.unwrap();
    second.process.terminate(SOON).await.unwrap();
    eventually("the third leader", SOON, async || {
        let leader = leader(&fixture).await?;
        ensure!(leader == "third", "it is {leader}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Otherwise the next leader would run Helm for the same release at the same time.
#[tokio::test]
async fn helm_ends_with_the_leadership_of_its_agent() {
    let fixture = Fixture::new("restart-lease").await;
    fixture.charts.web("2.0.0", &[("hook", ENDLESS_HOOK)]).await;
    let flags = [
        "--lease-duration=20s",
        "--renew-deadline=10s",
        "--retry-period=1s",
    ];
    let _agent = fixture.start_with("first", &flags).await.unwrap();
    fixture.deploy("web", "2.0.0", &json!({})).await;
    let release = fixture.name("web");
    fixture.until_status(&release, 1, "pending-install").await;
    let other = json!({ "spec": { "holderIdentity": "other", "renewTime": "2999-01-01T00:00:00.000000Z" } });
    let patch = [
        "patch",
        "lease",
        "fleet-agent",
        "--type=merge",
        "-p",
        &other.to_string(),
    ];
    crate::harness::run(&fixture.system, &patch).await;
    let start = std::time::Instant::now();
    fixture.until_status(&release, 1, "failed").await;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}
