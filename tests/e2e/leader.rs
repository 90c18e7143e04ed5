//! Two replicas of the controller on a real API server, with the permissions of the manifests: one is the leader, and the other
//! takes over however the leader ends. Each test has its own control plane, whose audit log contains all writes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helmops_bed::audit::{self, Terms};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::leader::{LEASE, until_holder};
use helmops_bed::metrics::Metrics;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::SOON;

/// The default lease duration plus the longest retry period, plus some time for a busy machine.
const TAKEOVER: Duration = Duration::from_secs(15 + 3 + 4);

/// Replica `one`, the leader, and replica `other`, which waits for leadership.
struct Pair {
    one: Running,
    other: Running,
    kubectl: Kubectl,
    server: ChartServer,
    bed: TestBed,
}

impl Pair {
    async fn start() -> Self {
        Self::try_start().await.unwrap()
    }

    async fn try_start() -> Result<Self> {
        let bed = helmops::control_plane(true).await?;
        let kubectl = bed.kubectl();
        let folder = bed.directory.join("charts");
        let charts = ChartRepo::build(&bed.tools, &folder, &[("alpine", &["0.1.0", "0.2.0"])]).await?;
        let server = ChartServer::http(charts.folder()).await?;
        let one = start_controller(&bed, "one").await?;
        until_holder(&kubectl, "one", SOON).await?;
        let other = start_controller(&bed, "other").await?;
        Ok(Self {
            one,
            other,
            kubectl,
            server,
            bed,
        })
    }

    /// Creates or changes HelmOps.
    async fn apply(&self, names: impl Iterator<Item = usize>, version: &str) {
        let helm = json!({ "repo": self.server.url(), "chart": "alpine", "version": version });
        let objects = names.map(|name| {
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp",
                "metadata": { "name": format!("web{name}") }, "spec": { "helm": helm },
            })
        });
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>() });
        self.kubectl.apply(&list.to_string()).await.unwrap().ok().unwrap();
    }

    /// Waits until `number` Bundles have a version.
    async fn until_bundles(&self, number: usize, version: &str) {
        eventually("the Bundles", SOON, async || {
            let found = self.bundles(version).await?;
            ensure!(found == number, "{found} of {number} have {version}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn bundles(&self, version: &str) -> Result<usize> {
        // Without Bundles, kubectl prints no list.
        let list = self.kubectl.get("bundles").await?.unwrap_or_default();
        let of_version = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|bundle| bundle["spec"]["helm"]["version"] == version);
        Ok(of_version.count())
    }

    /// Asserts that only the holder of the Lease wrote.
    fn audit(&self) -> Terms {
        audit::check_terms(&audit::writes(&self.bed.audit_log()).unwrap()).unwrap()
    }
}

async fn start_controller(bed: &TestBed, name: &str) -> Result<Running> {
    helmops::start_controller(bed, name, &|program| bed.command(program)).await
}

async fn metric(replica: &Running, name: &str) -> Result<f64> {
    let metrics = Metrics::scrape(&format!("{}/metrics", replica.admin)).await?;
    metrics.sum(name, &[]).with_context(|| format!("no {name}"))
}

async fn until_leader_metric(replica: &Running, expected: f64) {
    eventually("helmops_leader to change", SOON, async || {
        let found = metric(replica, "helmops_leader").await?;
        ensure!((found - expected).abs() < 1e-9, "it is {found}");
        Ok(())
    })
    .await
    .unwrap();
}

fn log_matches(replica: &Running, text: &str) -> usize {
    replica.process.log().matches(text).count()
}

#[tokio::test]
async fn only_the_leader_reconciles_and_it_releases_the_lease_on_shutdown() {
    let mut pair = Pair::start().await;
    pair.apply(0..5, "0.1.0").await;
    pair.until_bundles(5, "0.1.0").await;
    until_leader_metric(&pair.one, 1.0).await;
    until_leader_metric(&pair.other, 0.0).await;
    let reconciled = metric(&pair.other, "helmops_reconcile_total").await.unwrap();
    assert!(
        reconciled.abs() < 1e-9,
        "the other replica is ready but reconciles nothing"
    );
    assert_eq!(log_matches(&pair.other, "waiting for leadership"), 1);

    let status = pair.one.process.terminate(SOON).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", pair.one.process.tail());
    let took = until_holder(&pair.kubectl, "other", SOON).await.unwrap();
    println!("handed over in {took:?}");
    assert!(took < Duration::from_secs(5), "handed over in {took:?}");
    pair.apply(0..6, "0.2.0").await;
    pair.until_bundles(6, "0.2.0").await;
    assert_eq!(pair.audit().acquisitions, 2);
}

#[tokio::test]
async fn another_replica_takes_over_from_a_killed_leader() {
    let mut pair = Pair::start().await;
    // While it reconciles.
    pair.apply(0..40, "0.1.0").await;
    pair.one.process.kill().await.unwrap();
    let killed = Instant::now();
    pair.apply(20..60, "0.2.0").await;
    // These are in the workqueue of the other replica when they change.
    pair.apply(60..70, "0.1.0").await;
    pair.apply(60..70, "0.2.0").await;
    until_holder(&pair.kubectl, "other", TAKEOVER).await.unwrap();
    let took = killed.elapsed();
    println!("taken over in {took:?}");
    // The last renewal was at most a retry period before the kill.
    assert!(
        took > Duration::from_secs(12),
        "not before the Lease expires: {took:?}"
    );
    pair.until_bundles(50, "0.2.0").await;
    pair.until_bundles(20, "0.1.0").await;
    assert_eq!(pair.audit().acquisitions, 2);
    let writes = audit::writes(&pair.bed.audit_log()).unwrap();
    let accepted: Vec<_> = writes.iter().filter(|write| write.is_accepted()).collect();
    for name in 60..70 {
        let bundle = format!("bundles/web{name}");
        let written = accepted.iter().filter(|write| write.object() == bundle).count();
        assert_eq!(written, 1, "{bundle} is written once, in its final state");
    }
}

/// The old leader continues in the middle of a reconciliation, and has not observed the takeover yet.
#[tokio::test]
async fn a_suspended_leader_writes_nothing_after_the_takeover() {
    let pair = Pair::start().await;
    pair.apply(0..60, "0.1.0").await;
    pair.one.process.signal(Signal::STOP).unwrap();
    let took = until_holder(&pair.kubectl, "other", TAKEOVER).await.unwrap();
    println!("taken over in {took:?}");
    pair.apply(30..90, "0.2.0").await;
    pair.until_bundles(60, "0.2.0").await;
    pair.until_bundles(30, "0.1.0").await;

    pair.one.process.signal(Signal::CONT).unwrap();
    until_leader_metric(&pair.one, 0.0).await;
    eventually("the old leader to wait for leadership", SOON, async || {
        ensure!(
            log_matches(&pair.one, "waiting for leadership") == 1,
            "the log does not contain it"
        );
        Ok(())
    })
    .await
    .unwrap();
    // Work for the new leader, which the old one observes too.
    pair.apply(0..90, "0.1.0").await;
    pair.until_bundles(90, "0.1.0").await;
    let Terms {
        acquisitions: hands,
        other_writes,
    } = pair.audit();
    println!("{other_writes} writes");
    assert_eq!(hands, 2);
    assert!(
        other_writes >= 300,
        "90 Bundles and statuses twice, and 30 once: {other_writes}"
    );
}

#[tokio::test]
async fn a_leader_without_the_permission_to_renew_stops_until_it_is_restored() {
    let pair = Pair::start().await;
    let system = pair.kubectl.in_namespace(helmops::NAMESPACE);
    let delete = ["delete", "rolebinding", "helmops-controller"];
    system.run(&delete).await.unwrap().ok().unwrap();
    until_leader_metric(&pair.one, 0.0).await;
    pair.apply(0..5, "0.1.0").await;
    // Longer than the retry period of the other replica.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(pair.bundles("0.1.0").await.unwrap(), 0, "there is no leader");
    let log = pair.one.process.log();
    assert_eq!(log.matches("failed to renew the Lease").count(), 1, "{log}");
    assert_eq!(log.matches("was not renewed in time").count(), 1, "{log}");
    assert!(log.contains("manifests/base/rbac.yaml"), "{log}");
    helmops::apply(&pair.kubectl, &[Part::Base]).await.unwrap();
    pair.until_bundles(5, "0.1.0").await;
    pair.audit();
}

#[tokio::test]
async fn the_leader_stays_the_same_after_the_lease_is_deleted() {
    let pair = Pair::start().await;
    let system = pair.kubectl.in_namespace(helmops::NAMESPACE);
    let delete = ["delete", "lease", LEASE];
    system.run(&delete).await.unwrap().ok().unwrap();
    until_holder(&pair.kubectl, "one", SOON).await.unwrap();
    pair.apply(0..5, "0.1.0").await;
    pair.until_bundles(5, "0.1.0").await;
    assert_eq!(pair.audit().acquisitions, 1);
    let transitions = metric(&pair.one, "helmops_lease_transitions_total")
        .await
        .unwrap();
    assert!((transitions - 1.0).abs() < 1e-9, "leadership was not interrupted");
}
