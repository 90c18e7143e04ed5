//! Clusters: their namespaces and statuses.

use anyhow::{Context, ensure};
use helmops_tests::wait::eventually;
use serde_json::json;

use crate::bed::{SOON, Setting, decoded, ready, suite};

/// A Cluster object is all that is needed to register one.
#[tokio::test]
async fn a_cluster_gets_its_namespace() {
    let setting = Setting::new("clusters", 1).await;
    let name = &setting.clusters[0];
    assert!(
        name.starts_with(&format!("cluster-{}", setting.namespace.name())),
        "{name}"
    );
    let kubectl = suite().await.bed.kubectl();
    let namespace = kubectl.get(&format!("namespace/{name}")).await.unwrap().unwrap();
    assert_eq!(namespace["metadata"]["labels"]["fleet.cattle.io/managed"], "true");
    let annotations = &namespace["metadata"]["annotations"];
    assert_eq!(annotations["fleet.cattle.io/cluster"], "c0");
    assert_eq!(
        annotations["fleet.cattle.io/cluster-namespace"],
        setting.namespace.name()
    );
}

/// What is deployed on a cluster that waits for its time stays until then, also when the cluster is targeted no more.
#[tokio::test]
async fn nothing_is_removed_out_of_schedule() {
    let setting = Setting::new("clusters", 2).await;
    setting.bundle("web", &json!({})).await;
    setting.deployment(0, "web").await;
    setting.deployment(1, "web").await;
    let schedule = async |is_active: bool| {
        let status = json!({ "status": { "scheduled": true, "activeSchedule": is_active } }).to_string();
        let patch = [
            "patch",
            "cluster/c0",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];
        setting.kubectl(&patch).await;
    };
    schedule(false).await;
    setting
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(found["spec"]["offSchedule"] == true, "it is {}", found["spec"]);
            Ok(())
        })
        .await;
    setting
        .patch("bundle/web", &json!({ "spec": { "targets": [] } }))
        .await;
    setting.until_places("web", &[0]).await;
    schedule(true).await;
    setting.until_places("web", &[]).await;
}

/// A Bundle that no longer decodes is left alone, but for its deletion.
#[tokio::test]
async fn an_odd_bundle_can_be_deleted() {
    let setting = Setting::new("clusters", 1).await;
    setting.bundle("web", &json!({})).await;
    setting.deployment(0, "web").await;
    // The definition takes any whole number; it is more than the field holds.
    let odd = json!({ "spec": { "rolloutStrategy": { "maxUnavailable": 5_000_000_000_u64 } } });
    setting.patch("bundle/web", &odd).await;
    setting.kubectl(&["delete", "bundle/web", "--timeout=30s"]).await;
    assert!(setting.places("web").await.is_empty());
}

/// J.6 L1.
#[tokio::test]
async fn a_cluster_counts_its_helmops() {
    let setting = Setting::new("clusters", 1).await;
    setting.bundle("by-hand", &json!({})).await;
    let labels = json!({ "fleet.cattle.io/fleet-helm-name": "web" });
    let spec = json!({
        "helm": { "chart": "web", "version": "1.2.3" }, "helmOpOptions": {}, "targets": [{ "clusterGroup": "all" }]
    });
    setting
        .apply(&json!({ "kind": "Bundle", "metadata": { "name": "web", "labels": labels }, "spec": spec }))
        .await;
    let counts = |ready: u64, display: &'static str| {
        move |cluster: &serde_json::Value| {
            let status = &cluster["status"];
            ensure!(
                status["readyHelmOps"] == ready && status["desiredReadyHelmOps"] == 1,
                "it is {status}"
            );
            ensure!(status["display"]["readyBundles"] == display, "it is {status}");
            Ok(())
        }
    };
    setting.deployment(0, "web").await;
    setting.deployment(0, "by-hand").await;
    setting.until("cluster/c0", counts(0, "0/2")).await;
    setting.agent_deploys(0, "web").await;
    setting.until("cluster/c0", counts(1, "1/2")).await;
    setting.agent_deploys(0, "by-hand").await;
    let cluster = setting.until("cluster/c0", counts(1, "2/2")).await;
    assert_eq!(ready(&cluster).unwrap()["status"], "True");
}

/// A HelmOp's status tells of its clusters.
#[tokio::test]
async fn deletion_withdraws_from_all_clusters() {
    let setting = Setting::new("clusters", 2).await;
    setting
        .secret("access", &json!({ "username": "u", "password": "p" }))
        .await;
    setting
        .bundle(
            "web",
            &json!({ "helmOpOptions": { "helmOpSecretName": "access" } }),
        )
        .await;
    for cluster in 0..2 {
        setting.deployment(cluster, "web").await;
    }
    setting
        .kubectl(&["delete", "bundle", "web", "--timeout=30s"])
        .await;
    for cluster in 0..2 {
        setting.until_none_on(cluster, "bundledeployment/web").await;
    }
    // One that somebody deletes by hand comes back.
    setting.bundle("db", &json!({})).await;
    let before = setting.deployment(0, "db").await;
    let kubectl = suite().await.bed.kubectl().in_namespace(&setting.clusters[0]);
    let deleted = kubectl
        .run(&["delete", "bundledeployment", "db", "--timeout=30s"])
        .await;
    deleted.unwrap().ok().unwrap();
    setting
        .until_on(0, "bundledeployment/db", |found| {
            ensure!(
                found["metadata"]["uid"] != before["metadata"]["uid"],
                "it is the old one"
            );
            Ok(())
        })
        .await;
    let found = setting.on(0, "bundledeployment/db").await.unwrap();
    found.context("it is gone again").unwrap();
}

/// A cluster whose deployment nobody may remove keeps no other from being cleared.
#[tokio::test]
async fn one_that_cannot_be_withdrawn_holds_up_no_other() {
    let setting = Setting::new("clusters", 2).await;
    setting.bundle("web", &json!({})).await;
    for cluster in 0..2 {
        setting.deployment(cluster, "web").await;
    }
    let name = format!("keep-{}", setting.clusters[0]);
    let rule = json!({
        "apiGroups": ["fleet.cattle.io"], "apiVersions": ["*"], "resources": ["bundledeployments"], "operations": ["DELETE"],
    });
    let place = json!({ "matchLabels": { "kubernetes.io/metadata.name": setting.clusters[0] } });
    for mut object in [
        json!({
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "matchConstraints": { "resourceRules": [rule], "namespaceSelector": place },
                "validations": [{ "expression": "false", "message": "it stays" }],
            },
        }),
        json!({
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }),
    ] {
        object["apiVersion"] = json!("admissionregistration.k8s.io/v1");
        object["metadata"] = json!({ "name": name });
        let applied = setting.suite.bed.kubectl().apply(&object.to_string()).await;
        applied.unwrap().ok().unwrap();
    }
    let kubectl = setting.suite.bed.kubectl().in_namespace(&setting.clusters[0]);
    eventually("the API server to enforce it", SOON, async || {
        let try_it = ["delete", "bundledeployment", "web", "--dry-run=server"];
        let denied = kubectl.run(&try_it).await?;
        ensure!(denied.stderr.contains("it stays"), "{denied:?}");
        Ok(())
    })
    .await
    .unwrap();
    setting
        .kubectl(&["delete", "bundle", "web", "--wait=false"])
        .await;
    setting.until_none_on(1, "bundledeployment/web").await;
    assert!(setting.on(0, "bundledeployment/web").await.unwrap().is_some());
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        setting.kubectl(&["delete", kind, &name]).await;
    }
    setting.until_none_on(0, "bundledeployment/web").await;
}

/// Neither a wiped status nor a namespace that is gone takes anything from a cluster.
#[tokio::test]
async fn a_cluster_is_mended() {
    let setting = Setting::new("clusters", 1).await;
    setting.bundle("web", &json!({})).await;
    let before = setting.deployment(0, "web").await;
    let wiped = vec![("c0".to_owned(), json!({ "status": null }))];
    let api = &setting.api;
    api.patch_status(setting.namespace.name(), "clusters", wiped)
        .await
        .unwrap();
    setting
        .until("cluster/c0", |cluster| {
            ensure!(
                cluster["status"]["namespace"] == *setting.clusters[0],
                "it is {}",
                cluster["status"]
            );
            Ok(())
        })
        .await;
    setting
        .bundle("web", &json!({ "helm": { "version": "1.2.4" } }))
        .await;
    let after = setting
        .until_on(0, "bundledeployment/web", |found| {
            let version = &found["spec"]["options"]["helm"]["version"];
            ensure!(version == "1.2.4", "it is {version}");
            Ok(())
        })
        .await;
    assert_eq!(
        before["metadata"]["uid"], after["metadata"]["uid"],
        "it was never withdrawn"
    );
    let kubectl = suite().await.bed.kubectl();
    let deleted = kubectl
        .run(&["delete", "namespace", &setting.clusters[0], "--wait=false"])
        .await;
    deleted.unwrap().ok().unwrap();
    setting
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(
                found["metadata"]["uid"] != before["metadata"]["uid"],
                "it is the old one"
            );
            Ok(())
        })
        .await;
}

/// Two Bundles of one name on one cluster: the first keeps it.
#[tokio::test]
async fn bundles_of_one_name_do_not_fight() {
    let (home, other) = (
        Setting::new("clusters", 1).await,
        Setting::new("clusters", 0).await,
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
    let told = other.until_ready_is("bundle/web", "NotReady").await;
    assert!(
        told.contains("has BundleDeployment web of a Bundle of another namespace"),
        "{told}"
    );
    let secret = home.until_on(0, "secret/web", |_| Ok(())).await;
    assert_eq!(decoded(&secret, "values").as_deref(), Some(r#"{"of":"home"}"#));
    let now = home.deployment(0, "web").await;
    assert_eq!(first["spec"], now["spec"]);
}
