//! Clusters: their namespaces and statuses.

use anyhow::{Context, ensure};
use helmops_shared::targeting::names;
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

/// A HelmOp that does not decode is left alone, but for its deletion: Fleet's finalizer goes by the metadata.
#[tokio::test]
async fn an_odd_helmop_with_fleets_finalizer_can_be_deleted() {
    let setting = Setting::new("clusters", 0).await;
    setting
        .apply(&json!({
            "kind": "HelmOp",
            "metadata": { "name": "web", "finalizers": ["fleet.cattle.io/helmop-finalizer"] },
            // The definition takes any whole number; it is more than the field holds.
            "spec": { "rolloutStrategy": { "maxUnavailable": 5_000_000_000_u64 } },
        }))
        .await;
    setting.kubectl(&["delete", "helmop/web", "--timeout=30s"]).await;
}

impl Setting {
    /// Writes into the status of a Cluster, as its agent may.
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

/// An agent may write the status of its own Cluster: the namespaces of others, and of the system, stay theirs.
#[tokio::test]
async fn a_cluster_cannot_take_the_namespace_of_another() {
    let setting = Setting::new("clusters", 2).await;
    let targets = json!([
        { "clusterName": "c0", "helm": { "values": { "of": "lab" } } },
        { "clusterName": "c1", "helm": { "values": { "of": "prod" } } },
    ]);
    setting.bundle("web", &json!({ "targets": targets })).await;
    setting.deployment(0, "web").await;
    let before = setting.deployment(1, "web").await;
    let (lab, prod) = (&setting.clusters[0], &setting.clusters[1]);
    for claim in [prod, "kube-system", "default", lab, prod] {
        setting.claim(0, claim).await;
        setting.until_namespace_is(0, lab).await;
    }
    // Another round of the Bundle, of which something can be seen.
    setting
        .bundle(
            "web",
            &json!({ "targets": targets, "helm": { "version": "1.2.4" } }),
        )
        .await;
    for cluster in 0..2 {
        setting
            .until_on(cluster, "bundledeployment/web", |found| {
                let version = &found["spec"]["options"]["helm"]["version"];
                ensure!(version == "1.2.4", "it is {version}");
                Ok(())
            })
            .await;
    }
    let after = setting.deployment(1, "web").await;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    let generation = |found: &serde_json::Value| found["metadata"]["generation"].as_i64();
    assert_eq!(
        generation(&after),
        generation(&before).map(|before| before + 1),
        "only the new version"
    );
    assert_eq!(after["metadata"]["labels"]["fleet.cattle.io/cluster"], "c1");
    let secret = setting.until_on(1, "secret/web", |_| Ok(())).await;
    assert_eq!(decoded(&secret, "values").as_deref(), Some(r#"{"of":"prod"}"#));
    let system = setting.suite.bed.kubectl().in_namespace("kube-system");
    assert_eq!(system.get("bundledeployment/web").await.unwrap(), None);
}

/// The name of a cluster's namespace is known beforehand. What somebody else has created there is used only when an
/// administrator says so.
#[tokio::test]
async fn a_namespace_that_was_there_before_must_be_adopted() {
    let setting = Setting::new("clusters", 0).await;
    let namespace = names::cluster_namespace(setting.namespace.name(), "late");
    let kubectl = suite().await.bed.kubectl();
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap().ok().unwrap();
    run(&["create", "namespace", &namespace]).await;
    let labels = json!({ "number": "0" });
    setting
        .apply(&json!({ "kind": "Cluster", "metadata": { "name": "late", "labels": labels } }))
        .await;
    let told = setting
        .until("cluster/late", |cluster| {
            let ready = ready(cluster).context("no condition")?;
            ensure!(ready["reason"] == "NamespaceConflict", "it is {ready}");
            Ok(())
        })
        .await;
    let message = ready(&told).unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("fleet.cattle.io/managed=true"), "{message}");
    setting.bundle("web", &json!({})).await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(told.contains(&namespace), "{told}");
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
