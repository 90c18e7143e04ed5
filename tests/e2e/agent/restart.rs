//! Agents that start with releases: their own, those of Fleet's agent, and those of another replica.

use anyhow::ensure;
use futures::future::join_all;
use helmops_bed::wait::eventually;
use helmops_release::marks;
use serde_json::{Value, json};

use crate::harness::agent::Fixture;
use crate::harness::{SOON, until};

/// Fleet's agent may leave many.
const RELEASES: usize = 20;

/// Waits until all releases are ready, and returns their BundleDeployments.
async fn deployed(fixture: &Fixture) -> Vec<Value> {
    let names: Vec<_> = (0..RELEASES).map(|number| format!("web{number}")).collect();
    join_all(names.iter().map(|name| fixture.until_ready(name))).await
}

async fn deploy_all(fixture: &Fixture) {
    let none = json!({});
    let names: Vec<_> = (0..RELEASES).map(|number| format!("web{number}")).collect();
    join_all(names.iter().map(|name| fixture.deploy(name, "1.0.0", &none))).await;
}

fn versions(objects: &[Value]) -> Vec<&Value> {
    objects
        .iter()
        .map(|object| &object["metadata"]["resourceVersion"])
        .collect()
}

/// The writes on the workload cluster, as text, and those of statuses.
fn writes(fixture: &Fixture) -> (Vec<String>, Vec<String>) {
    let text =
        |write: helmops_bed::audit::Write| format!("{} {} {}", write.object(), write.subresource, write.code);
    (
        fixture.downstream_writes().into_iter().map(text).collect(),
        fixture.upstream_writes().into_iter().map(text).collect(),
    )
}

/// Waits until a started agent has compared all releases: each of them was reconciled at least once.
async fn until_reconciled(agent: &crate::harness::agent::Agent, least: f64) {
    eventually("all reconciliations", SOON, async || {
        let metrics = helmops_bed::metrics::Metrics::scrape(&format!("{}/metrics", agent.admin)).await?;
        let reconciled = metrics.sum("helmops_reconcile_total", &[]).unwrap_or_default();
        ensure!(reconciled >= least, "{reconciled} of {least}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn releases_of_fleets_agent_are_taken_over_as_they_are() {
    let fixture = Fixture::new("restart-fleet").await;
    let mut agent = fixture.start().await;
    deploy_all(&fixture).await;
    let before = deployed(&fixture).await;
    agent.process.kill().await.unwrap();
    // Fleet's agent does not write these.
    join_all((0..RELEASES).map(async |number| {
        let release = fixture.name(&format!("web{number}"));
        let (_, mut record) = fixture.record(&release, 1).await.unwrap();
        let annotations = record.chart["metadata"]["annotations"].as_object_mut().unwrap();
        assert!(annotations.remove(marks::ATTEMPT).is_some());
        record.info.description = "Install complete".to_owned();
        fixture.write_record(&record).await;
    }))
    .await;
    crate::harness::run(&fixture.system, &["delete", "configmap", "helmops-agent"]).await;
    let (downstream, upstream) = writes(&fixture);
    let agent = fixture.start().await;
    until_reconciled(&agent, RELEASES as f64).await;
    // It remembers the namespace when the first garbage collection ends.
    until(&fixture.system, "configmap/helmops-agent", |_| Ok(())).await;
    assert_eq!(versions(&deployed(&fixture).await), versions(&before));
    let (downstream_after, upstream_after) = writes(&fixture);
    assert_eq!(
        downstream_after[downstream.len()..],
        ["configmaps/helmops-agent  201"]
    );
    assert_eq!(upstream_after[upstream.len()..], [""; 0]);
    assert_eq!(fixture.helm_runs().len(), RELEASES);
    // Drift of theirs is found, too.
    let release = fixture.name("web7");
    let object = format!("configmap/{release}-config");
    fixture.kubectl(&["delete", &object]).await;
    fixture.until_error("web7", "Ready", &["missing"]).await;
}

#[tokio::test]
async fn an_agent_that_starts_with_the_wanted_state_writes_nothing() {
    let fixture = Fixture::new("restart-same").await;
    let mut agent = fixture.start().await;
    deploy_all(&fixture).await;
    let before = deployed(&fixture).await;
    until(&fixture.system, "configmap/helmops-agent", |_| Ok(())).await;
    agent.process.kill().await.unwrap();
    let written = writes(&fixture);
    let agent = fixture.start().await;
    until_reconciled(&agent, RELEASES as f64).await;
    assert_eq!(versions(&deployed(&fixture).await), versions(&before));
    assert_eq!(writes(&fixture), written);
    assert_eq!(fixture.helm_runs().len(), RELEASES);
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
