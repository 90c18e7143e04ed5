//! Clusters: their namespaces and statuses.

use anyhow::{Context, ensure};
use helmops_bed::wait::eventually;
use helmops_model::names;
use serde_json::{Value, json};

use crate::harness::denial::{Denial, Rule};
use crate::harness::standalone::{Fixture, decoded, suite};
use crate::harness::{SOON, condition, run};

/// A Cluster object is all that is needed to register one.
#[tokio::test]
async fn a_cluster_gets_a_namespace() {
    let fixture = Fixture::new("clusters", 1).await;
    let name = &fixture.clusters[0];
    assert!(
        name.starts_with(&format!("cluster-{}", fixture.namespace.name())),
        "{name}"
    );
    let kubectl = suite().await.bed.kubectl();
    let namespace = kubectl.get(&format!("namespace/{name}")).await.unwrap().unwrap();
    assert_eq!(namespace["metadata"]["labels"]["fleet.cattle.io/managed"], "true");
    let annotations = &namespace["metadata"]["annotations"];
    assert_eq!(annotations["fleet.cattle.io/cluster"], "c0");
    assert_eq!(
        annotations["fleet.cattle.io/cluster-namespace"],
        fixture.namespace.name()
    );
}

/// A cluster outside its schedule keeps its deployments, even when no target selects the cluster any longer.
#[tokio::test]
async fn nothing_is_removed_outside_the_schedule() {
    let fixture = Fixture::new("clusters", 2).await;
    fixture.bundle("web", &json!({})).await;
    fixture.deployment(0, "web").await;
    fixture.deployment(1, "web").await;
    let schedule = json!({
        "kind": "Schedule",
        "metadata": { "name": "later" },
        "spec": { "schedule": "0 0 2 1 1 ? 2099", "duration": "1h", "targets": { "clusters": [{ "clusterName": "c0" }] } },
    });
    fixture.apply(&schedule).await;
    fixture
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(found["spec"]["offSchedule"] == true, "it is {}", found["spec"]);
            Ok(())
        })
        .await;
    fixture
        .patch("bundle/web", &json!({ "spec": { "targets": [] } }))
        .await;
    fixture.until_clusters_are("web", &[0]).await;
    fixture.kubectl(&["delete", "schedule/later"]).await;
    fixture.until_clusters_are("web", &[]).await;
}

/// A Bundle that no longer decodes is not reconciled, except for its deletion.
#[tokio::test]
async fn an_invalid_bundle_can_be_deleted() {
    let fixture = Fixture::new("clusters", 1).await;
    fixture.bundle("web", &json!({})).await;
    fixture.deployment(0, "web").await;
    // The CRD allows any integer; this one is more than the field holds.
    let invalid = json!({ "spec": { "rolloutStrategy": { "maxUnavailable": 5_000_000_000_u64 } } });
    fixture.patch("bundle/web", &invalid).await;
    fixture.kubectl(&["delete", "bundle/web", "--timeout=30s"]).await;
    assert!(fixture.clusters_of("web").await.is_empty());
}

/// J.6 L1.
#[tokio::test]
async fn a_cluster_counts_its_helmops() {
    let fixture = Fixture::new("clusters", 1).await;
    fixture.bundle("by-hand", &json!({})).await;
    let labels = json!({ "fleet.cattle.io/fleet-helm-name": "web" });
    let spec = json!({
        "helm": { "chart": "web", "version": "1.2.3" }, "helmOpOptions": {}, "targets": [{ "clusterGroup": "all" }]
    });
    fixture
        .apply(&json!({ "kind": "Bundle", "metadata": { "name": "web", "labels": labels }, "spec": spec }))
        .await;
    let counts = |ready: u64, display: &'static str| {
        move |cluster: &Value| {
            let status = &cluster["status"];
            ensure!(
                status["readyHelmOps"] == ready && status["desiredReadyHelmOps"] == 1,
                "it is {status}"
            );
            ensure!(status["display"]["readyBundles"] == display, "it is {status}");
            Ok(())
        }
    };
    fixture.deployment(0, "web").await;
    fixture.deployment(0, "by-hand").await;
    fixture.until("cluster/c0", counts(0, "0/2")).await;
    fixture.agent_deploys(0, "web").await;
    fixture.until("cluster/c0", counts(1, "1/2")).await;
    fixture.agent_deploys(0, "by-hand").await;
    let cluster = fixture.until("cluster/c0", counts(1, "2/2")).await;
    assert_eq!(condition(&cluster, "Ready").unwrap()["status"], "True");
}

/// A single BundleDeployment that is deleted by hand is created again.
#[tokio::test]
async fn deleting_a_bundle_removes_it_from_all_clusters() {
    let fixture = Fixture::new("clusters", 2).await;
    fixture
        .secret("access", &json!({ "username": "u", "password": "p" }))
        .await;
    fixture
        .bundle(
            "web",
            &json!({ "helmOpOptions": { "helmOpSecretName": "access" }, "helm": { "values": { "a": 1 } } }),
        )
        .await;
    for cluster in 0..2 {
        fixture.deployment(cluster, "web").await;
    }
    // The values of the other cluster have no owner, so the controller deletes them when it is no target any more.
    let first = json!({ "targets": [{ "clusterName": "c0" }] });
    fixture.patch("bundle/web", &json!({ "spec": first })).await;
    fixture.until_none_on(1, "bundledeployment/web").await;
    fixture.until_none_on(1, "secret/web").await;
    fixture
        .kubectl(&["delete", "bundle", "web", "--timeout=30s"])
        .await;
    fixture.until_none_on(0, "bundledeployment/web").await;
    let values = fixture.on(0, "secret/web").await.unwrap();
    assert_eq!(values, None, "the finalizer of the Bundle waits for its deletion");
    fixture.bundle("db", &json!({})).await;
    let before = fixture.deployment(0, "db").await;
    let kubectl = suite().await.bed.kubectl().in_namespace(&fixture.clusters[0]);
    let deleted = kubectl
        .run(&["delete", "bundledeployment", "db", "--timeout=30s"])
        .await;
    deleted.unwrap().ok().unwrap();
    fixture
        .until_on(0, "bundledeployment/db", |found| {
            ensure!(
                found["metadata"]["uid"] != before["metadata"]["uid"],
                "it is the old one"
            );
            Ok(())
        })
        .await;
    let found = fixture.on(0, "bundledeployment/db").await.unwrap();
    found.context("it is gone again").unwrap();
}

/// The other deployments of the Bundle are deleted meanwhile.
#[tokio::test]
async fn a_deployment_that_cannot_be_deleted_blocks_no_other() {
    let fixture = Fixture::new("clusters", 2).await;
    fixture.bundle("web", &json!({})).await;
    for cluster in 0..2 {
        fixture.deployment(cluster, "web").await;
    }
    let rule = Rule {
        group: "fleet.cattle.io",
        resource: "bundledeployments",
        operation: "DELETE",
        allowed: "false",
        message: "it stays",
    };
    let delete = ["delete", "bundledeployment", "web", "--dry-run=server"];
    let cluster = fixture.suite.bed.kubectl();
    let denial = Denial::start(&cluster, &fixture.clusters[0], &rule, (&delete, &Value::Null)).await;
    fixture
        .kubectl(&["delete", "bundle", "web", "--wait=false"])
        .await;
    fixture.until_none_on(1, "bundledeployment/web").await;
    assert!(fixture.on(0, "bundledeployment/web").await.unwrap().is_some());
    denial.end().await;
    fixture.until_none_on(0, "bundledeployment/web").await;
}

/// A cluster keeps its deployments when its status is wiped, and gets them again when its namespace is deleted.
#[tokio::test]
async fn a_wiped_status_and_a_deleted_namespace_are_restored() {
    let fixture = Fixture::new("clusters", 1).await;
    fixture.bundle("web", &json!({})).await;
    let before = fixture.deployment(0, "web").await;
    let wiped = vec![("c0".to_owned(), json!({ "status": null }))];
    let api = &fixture.api;
    api.patch_status(fixture.namespace.name(), "clusters", wiped)
        .await
        .unwrap();
    fixture
        .until("cluster/c0", |cluster| {
            ensure!(
                cluster["status"]["namespace"] == *fixture.clusters[0],
                "it is {}",
                cluster["status"]
            );
            Ok(())
        })
        .await;
    fixture
        .bundle("web", &json!({ "helm": { "version": "1.2.4" } }))
        .await;
    let after = fixture
        .until_on(0, "bundledeployment/web", |found| {
            let version = &found["spec"]["options"]["helm"]["version"];
            ensure!(version == "1.2.4", "it is {version}");
            Ok(())
        })
        .await;
    assert_eq!(
        before["metadata"]["uid"], after["metadata"]["uid"],
        "it was never deleted"
    );
    // kubectl returns when the namespace is gone: how long that takes is up to kube-controller-manager, not to helmops.
    let kubectl = suite().await.bed.kubectl();
    run(&kubectl, &["delete", "namespace", &fixture.clusters[0]]).await;
    fixture
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(
                found["metadata"]["uid"] != before["metadata"]["uid"],
                "it is the old one"
            );
            Ok(())
        })
        .await;
}

/// The first of two Bundles with one name on one cluster keeps the BundleDeployment.
#[tokio::test]
async fn bundles_with_one_name_do_not_overwrite_each_other() {
    let (home, other) = (
        Fixture::new("clusters", 1).await,
        Fixture::new("clusters", 0).await,
    );
    let values = |text: &str| json!({ "helm": { "values": { "of": text } } });
    home.bundle("web", &values("home")).await;
    let first = home.deployment(0, "web").await;
    let label = format!("kubernetes.io/metadata.name={}", home.namespace.name());
    let (key, name) = label.split_once('=').unwrap();
    other
        .apply(&json!({
            "kind": "BundleNamespaceMapping", "metadata": { "name": "to-home" },
            "bundleSelector": {}, "namespaceSelector": { "matchLabels": { key: name } },
        }))
        .await;
    let mut second = values("other");
    second["targets"] = json!([{ "clusterSelector": {} }]);
    other.bundle("web", &second).await;
    let message = other.until_ready_is("bundle/web", "NotReady").await;
    assert!(
        message.contains("already has BundleDeployment web of a Bundle in another namespace"),
        "{message}"
    );
    let secret = home.until_on(0, "secret/web", |_| Ok(())).await;
    assert_eq!(decoded(&secret, "values").as_deref(), Some(r#"{"of":"home"}"#));
    let now = home.deployment(0, "web").await;
    assert_eq!(first["spec"], now["spec"]);
}

/// A HelmOp that does not decode is not reconciled, except for its deletion: removing Fleet's finalizer needs only the metadata.
#[tokio::test]
async fn an_invalid_helmop_with_fleets_finalizer_can_be_deleted() {
    let fixture = Fixture::new("clusters", 0).await;
    fixture
        .apply(&json!({
            "kind": "HelmOp",
            "metadata": { "name": "web", "finalizers": ["fleet.cattle.io/helmop-finalizer"] },
            // The CRD allows any integer; this one is more than the field holds.
            "spec": { "rolloutStrategy": { "maxUnavailable": 5_000_000_000_u64 } },
        }))
        .await;
    fixture.kubectl(&["delete", "helmop/web", "--timeout=30s"]).await;
}

impl Fixture {
    /// Writes a namespace into the status of a Cluster, as its agent may.
    async fn claim(&self, cluster: usize, namespace: &str) {
        let claim = vec![(
            format!("c{cluster}"),
            json!({ "status": { "namespace": namespace } }),
        )];
        let api = &self.api;
        api.patch_status(self.namespace.name(), "clusters", claim)
            .await
            .unwrap();
    }

    async fn until_namespace_is(&self, cluster: usize, namespace: &str) {
        self.until(&format!("cluster/c{cluster}"), |found| {
            let status = &found["status"]["namespace"];
            ensure!(*status == *namespace, "it is {status}");
            Ok(())
        })
        .await;
    }
}

/// An agent may write the status of its own Cluster, but cannot claim a namespace of another cluster or of the system.
#[tokio::test]
async fn a_cluster_cannot_claim_the_namespace_of_another() {
    let fixture = Fixture::new("clusters", 2).await;
    let targets = json!([
        { "clusterName": "c0", "helm": { "values": { "of": "lab" } } },
        { "clusterName": "c1", "helm": { "values": { "of": "prod" } } },
    ]);
    fixture.bundle("web", &json!({ "targets": targets })).await;
    fixture.deployment(0, "web").await;
    let before = fixture.deployment(1, "web").await;
    let (lab, prod) = (&fixture.clusters[0], &fixture.clusters[1]);
    for claim in [prod, "kube-system", "default", lab, prod] {
        fixture.claim(0, claim).await;
        fixture.until_namespace_is(0, lab).await;
    }
    // Another reconciliation of the Bundle, with an observable effect.
    fixture
        .bundle(
            "web",
            &json!({ "targets": targets, "helm": { "version": "1.2.4" } }),
        )
        .await;
    for cluster in 0..2 {
        fixture
            .until_on(cluster, "bundledeployment/web", |found| {
                let version = &found["spec"]["options"]["helm"]["version"];
                ensure!(version == "1.2.4", "it is {version}");
                Ok(())
            })
            .await;
    }
    let after = fixture.deployment(1, "web").await;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    let generation = |found: &Value| found["metadata"]["generation"].as_i64();
    assert_eq!(
        generation(&after),
        generation(&before).map(|before| before + 1),
        "only the new version"
    );
    assert_eq!(after["metadata"]["labels"]["fleet.cattle.io/cluster"], "c1");
    let secret = fixture.until_on(1, "secret/web", |_| Ok(())).await;
    assert_eq!(decoded(&secret, "values").as_deref(), Some(r#"{"of":"prod"}"#));
    let system = fixture.suite.bed.kubectl().in_namespace("kube-system");
    assert_eq!(system.get("bundledeployment/web").await.unwrap(), None);
}

/// The name of a cluster's namespace is predictable. A namespace that another client has created under this name is used only
/// when an administrator labels it.
#[tokio::test]
async fn an_existing_namespace_must_be_adopted_explicitly() {
    let fixture = Fixture::new("clusters", 0).await;
    let namespace = names::cluster_namespace(fixture.namespace.name(), "late");
    let kubectl = suite().await.bed.kubectl();
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap().ok().unwrap();
    run(&["create", "namespace", &namespace]).await;
    let labels = json!({ "number": "0" });
    fixture
        .apply(&json!({ "kind": "Cluster", "metadata": { "name": "late", "labels": labels } }))
        .await;
    let cluster = fixture
        .until("cluster/late", |cluster| {
            let ready = condition(cluster, "Ready").context("no condition")?;
            ensure!(ready["reason"] == "NamespaceConflict", "it is {ready}");
            Ok(())
        })
        .await;
    let message = condition(&cluster, "Ready").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains("fleet.cattle.io/managed=true"), "{message}");
    fixture.bundle("web", &json!({})).await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(message.contains(&namespace), "{message}");
    run(&["label", "namespace", &namespace, "fleet.cattle.io/managed=true"]).await;
    let in_namespace = kubectl.in_namespace(&namespace);
    eventually("the Bundle to arrive", SOON, async || {
        let found = in_namespace.get("bundledeployment/web").await?;
        ensure!(found.is_some(), "it is not there");
        Ok(())
    })
    .await
    .unwrap();
}
