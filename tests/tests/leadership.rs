//! Two replicas of the controller on a real API server, with the rights as shipped: one works, and the other takes its place
//! whatever becomes of it. Each test has a control plane of its own, whose audit log tells who wrote what.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helmops_tests::audit::{self, Terms};
use helmops_tests::chart_server::ChartServer;
use helmops_tests::charts::ChartRepo;
use helmops_tests::helmops::{self, Running};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::leader::{LEASE, until_holder};
use helmops_tests::metrics::Metrics;
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use rustix::process::Signal;
use serde_json::json;

/// The machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(30);
/// The default lease duration and the longest retry period, and some time for a busy machine.
const TAKEOVER: Duration = Duration::from_secs(15 + 3 + 4);

/// Replicas `one`, which leads, and `other`, which stands by.
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
        let bed = helmops::control_plane(Path::new(env!("CARGO_BIN_EXE_testbed")), true).await?;
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

    /// Makes or changes HelmOps.
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

    /// Waits until so many Bundles have a version.
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
        // Without any, kubectl prints no list.
        let list = self.kubectl.get("bundles").await?.unwrap_or_default();
        let of_version = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|bundle| bundle["spec"]["helm"]["version"] == version);
        Ok(of_version.count())
    }

    /// Asserts that nobody wrote anything while another held the Lease.
    fn audit(&self) -> Terms {
        audit::terms(&audit::writes(&self.bed.audit_log()).unwrap()).unwrap()
    }
}

async fn start_controller(bed: &TestBed, name: &str) -> Result<Running> {
    helmops::start_controller(bed, name, &|program| bed.command(program)).await
}

async fn metric(replica: &Running, name: &str) -> Result<f64> {
    let metrics = Metrics::scrape(&format!("{}/metrics", replica.admin)).await?;
    metrics.sum(name, &[]).with_context(|| format!("no {name}"))
}

async fn until_leads(replica: &Running, leads: f64) {
    eventually("the metric", SOON, async || {
        let found = metric(replica, "helmops_leader").await?;
        ensure!((found - leads).abs() < 1e-9, "it is {found}");
        Ok(())
    })
    .await
    .unwrap();
}

fn told(replica: &Running, words: &str) -> usize {
    replica.process.log().matches(words).count()
}

#[tokio::test]
async fn one_works_and_gives_the_lease_back_when_it_stops() {
    let mut pair = Pair::start().await;
    pair.apply(0..5, "0.1.0").await;
    pair.until_bundles(5, "0.1.0").await;
    until_leads(&pair.one, 1.0).await;
    until_leads(&pair.other, 0.0).await;
    let worked = metric(&pair.other, "helmops_reconcile_total").await.unwrap();
    assert!(
        worked.abs() < 1e-9,
        "who stands by works on nothing, though it is ready"
    );
    assert_eq!(told(&pair.other, "waiting for leadership"), 1);

    let status = pair.one.process.terminate(SOON).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", pair.one.process.tail());
    let took = until_holder(&pair.kubectl, "other", SOON).await.unwrap();
    println!("handed over in {took:?}");
    assert!(took < Duration::from_secs(5), "handed over in {took:?}");
    pair.apply(0..6, "0.2.0").await;
    pair.until_bundles(6, "0.2.0").await;
    assert_eq!(pair.audit().hands, 2);
}

#[tokio::test]
async fn another_takes_over_from_one_that_is_killed() {
    let mut pair = Pair::start().await;
    // In the middle of its work.
    pair.apply(0..40, "0.1.0").await;
    pair.one.process.kill().await.unwrap();
    let killed = Instant::now();
    pair.apply(20..60, "0.2.0").await;
    // The one that stands by has these waiting when they change.
    pair.apply(60..70, "0.1.0").await;
    pair.apply(60..70, "0.2.0").await;
    until_holder(&pair.kubectl, "other", TAKEOVER).await.unwrap();
    let took = killed.elapsed();
    println!("taken over in {took:?}");
    // The last renewal was a retry period before the end at the most.
    assert!(took > Duration::from_secs(12), "not before: {took:?}");
    pair.until_bundles(50, "0.2.0").await;
    pair.until_bundles(20, "0.1.0").await;
    assert_eq!(pair.audit().hands, 2);
    let writes = audit::writes(&pair.bed.audit_log()).unwrap();
    let accepted: Vec<_> = writes.iter().filter(|write| write.is_accepted()).collect();
    for name in 60..70 {
        let bundle = format!("bundles/web{name}");
        let written = accepted.iter().filter(|write| write.object() == bundle).count();
        assert_eq!(written, 1, "{bundle} is written as it is wanted by then");
    }
}

/// It wakes up in the middle of what it did, and does not know yet what has happened meanwhile.
#[tokio::test]
async fn one_that_slept_writes_nothing_more() {
    let pair = Pair::start().await;
    pair.apply(0..60, "0.1.0").await;
    pair.one.process.signal(Signal::STOP).unwrap();
    let took = until_holder(&pair.kubectl, "other", TAKEOVER).await.unwrap();
    println!("taken over in {took:?}");
    pair.apply(30..90, "0.2.0").await;
    pair.until_bundles(60, "0.2.0").await;
    pair.until_bundles(30, "0.1.0").await;

    pair.one.process.signal(Signal::CONT).unwrap();
    until_leads(&pair.one, 0.0).await;
    eventually("the one that slept to stand by", SOON, async || {
        ensure!(
            told(&pair.one, "waiting for leadership") == 1,
            "it has not said so"
        );
        Ok(())
    })
    .await
    .unwrap();
    // Work for the new leader, which the old one sees too.
    pair.apply(0..90, "0.1.0").await;
    pair.until_bundles(90, "0.1.0").await;
    let Terms { hands, others } = pair.audit();
    println!("{others} writes");
    assert_eq!(hands, 2);
    assert!(
        others >= 300,
        "90 Bundles and statuses twice, and 30 once: {others}"
    );
}

#[tokio::test]
async fn a_leader_without_the_right_to_renew_stops_until_it_has_it_again() {
    let pair = Pair::start().await;
    let system = pair.kubectl.in_namespace(helmops::NAMESPACE);
    let delete = ["delete", "rolebinding", "helmops-controller"];
    system.run(&delete).await.unwrap().ok().unwrap();
    until_leads(&pair.one, 0.0).await;
    pair.apply(0..5, "0.1.0").await;
    // Longer than anybody waits for a Lease.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(pair.bundles("0.1.0").await.unwrap(), 0, "nobody leads");
    let log = pair.one.process.log();
    assert_eq!(log.matches("failed to renew the Lease").count(), 1, "{log}");
    assert_eq!(log.matches("was not renewed in time").count(), 1, "{log}");
    assert!(log.contains("manifests/base/rbac.yaml"), "{log}");
    helmops::apply_manifests(&pair.kubectl).await.unwrap();
    pair.until_bundles(5, "0.1.0").await;
    pair.audit();
}

#[tokio::test]
async fn a_deleted_lease_changes_nothing() {
    let pair = Pair::start().await;
    let system = pair.kubectl.in_namespace(helmops::NAMESPACE);
    let delete = ["delete", "lease", LEASE];
    system.run(&delete).await.unwrap().ok().unwrap();
    until_holder(&pair.kubectl, "one", SOON).await.unwrap();
    pair.apply(0..5, "0.1.0").await;
    pair.until_bundles(5, "0.1.0").await;
    assert_eq!(pair.audit().hands, 1);
    let transitions = metric(&pair.one, "helmops_lease_transitions_total")
        .await
        .unwrap();
    assert!((transitions - 1.0).abs() < 1e-9, "it never ceased to lead");
}
