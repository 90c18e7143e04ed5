//! Which clusters a Bundle goes to, and what each gets. N and W are the rows of Fleet's own tests.

use anyhow::ensure;
use serde_json::json;

use crate::bed::{Setting, decoded};

/// N1, N2, N5.
#[tokio::test]
async fn a_bundle_goes_to_all_clusters_of_a_group() {
    let setting = Setting::new("targets", 3).await;
    setting
        .bundle(
            "n1",
            &json!({ "helmOpOptions": { "helmOpInsecureSkipTLSVerify": true } }),
        )
        .await;
    setting
        .bundle("n2", &json!({ "helm": { "version": "v1.2.3" } }))
        .await;
    setting.bundle("n5", &json!({ "helmOpOptions": null })).await;
    for cluster in 0..3 {
        let n1 = setting.deployment(cluster, "n1").await;
        assert_eq!(
            n1["spec"]["helmChartOptions"],
            json!({ "helmOpInsecureSkipTLSVerify": true })
        );
        assert_eq!(
            n1["metadata"]["finalizers"],
            json!(["fleet.cattle.io/bundle-deployment-finalizer"])
        );
        let helm = &n1["spec"]["options"]["helm"];
        assert_eq!((&helm["version"], helm.get("values")), (&json!("1.2.3"), None));
        let id = n1["spec"]["deploymentID"].as_str().unwrap();
        assert!(id.starts_with(':') && id.len() == 65, "{id}");
        let n2 = setting.deployment(cluster, "n2").await;
        assert_eq!(n2["spec"]["options"]["helm"]["version"], "v1.2.3");
        let n5 = setting.deployment(cluster, "n5").await;
        assert_eq!(n5["spec"].get("helmChartOptions"), None);
        setting.agent_deploys(cluster, "n1").await;
    }
    assert_eq!(setting.until_ready_is("bundle/n1", "Ready").await, "");
    let told = setting.until_ready_is("bundle/n2", "NotReady").await;
    assert!(told.starts_with("WaitApplied(3) [Cluster "), "{told}");
}

/// N4.
#[tokio::test]
async fn a_range_is_no_version() {
    let setting = Setting::new("targets", 1).await;
    setting
        .bundle("n4", &json!({ "helm": { "version": "1.x.x" } }))
        .await;
    let told = setting.until_ready_is("bundle/n4", "InvalidVersion").await;
    assert!(told.contains("version cannot be deployed"), "{told}");
    assert_eq!(setting.places("n4").await, [0_usize; 0]);
    // What is there already stays.
    setting.bundle("n4", &json!({})).await;
    setting.deployment(0, "n4").await;
    setting
        .bundle("n4", &json!({ "helm": { "version": ">1" } }))
        .await;
    setting.until_ready_is("bundle/n4", "InvalidVersion").await;
    assert_eq!(setting.places("n4").await, [0]);
}

/// W1: what targets customise, and clusters that come and go.
#[tokio::test]
async fn clusters_come_and_go_with_their_labels() {
    let setting = Setting::new("targets", 4).await;
    let targets = json!([
        { "clusterName": "c3", "doNotDeploy": true },
        { "clusterSelector": { "matchLabels": { "parity": "odd" } }, "namespace": "of-odd" },
        { "clusterName": "c0" },
    ]);
    setting.bundle("web", &json!({ "targets": targets })).await;
    let odd = setting.deployment(1, "web").await;
    assert_eq!(odd["spec"]["options"]["namespace"], "of-odd");
    let named = setting.deployment(0, "web").await;
    assert_eq!(named["spec"]["options"].get("namespace"), None);
    setting
        .until("bundle/web", |bundle| {
            ensure!(
                bundle["status"]["display"]["readyClusters"] == "0/2",
                "{}",
                bundle["status"]
            );
            Ok(())
        })
        .await;
    assert_eq!(setting.places("web").await, [0, 1]);
    setting
        .kubectl(&["label", "--overwrite", "cluster/c1", "parity=even"])
        .await;
    setting
        .kubectl(&["label", "--overwrite", "cluster/c2", "parity=odd"])
        .await;
    setting.deployment(2, "web").await;
    setting.until_none_on(1, "bundledeployment/web").await;
    setting.kubectl(&["delete", "cluster/c0"]).await;
    setting.until_none_on(0, "bundledeployment/web").await;
}

#[tokio::test]
async fn no_cluster_is_no_success() {
    let setting = Setting::new("targets", 1).await;
    setting.bundle("web", &json!({ "targets": [] })).await;
    let told = setting.until_ready_is("bundle/web", "NoClusters").await;
    assert!(told.contains("no cluster is targeted"), "{told}");
}

/// One bad template holds up nobody else, and says so.
#[tokio::test]
async fn values_are_made_for_each_cluster() {
    let setting = Setting::new("targets", 2).await;
    setting
        .patch("cluster/c1", &json!({"spec":{"templateValues":{"zone":"z1"}}}))
        .await;
    let values = json!({ "number": "global.fleet.clusterLabels.number", "zone": "${ .ClusterValues.zone }" });
    setting
        .bundle("web", &json!({ "helm": { "values": values } }))
        .await;
    let deployment = setting.deployment(1, "web").await;
    assert_eq!(deployment["spec"]["options"]["helm"].get("values"), None);
    let secret = setting.until_on(1, "secret/web", |_| Ok(())).await;
    assert_eq!(secret["type"], "fleet.cattle.io/bundle-deployment/v1alpha1");
    let owner = &secret["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&deployment["metadata"]["uid"], &json!(true))
    );
    assert_eq!(
        decoded(&secret, "values").as_deref(),
        Some(r#"{"number":"1","zone":"z1"}"#)
    );
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    let of_c0 = format!("ErrApplied(1) [Cluster {}/c0: ", setting.namespace.name());
    assert!(told.contains(&of_c0) && told.contains("zone"), "{told}");
    assert_eq!(setting.places("web").await, [1]);
    setting
        .patch("cluster/c0", &json!({"spec":{"templateValues":{"zone":"z0"}}}))
        .await;
    setting.deployment(0, "web").await;
    // Without values there is no Secret.
    setting
        .bundle("web", &json!({ "helm": { "values": null } }))
        .await;
    for cluster in 0..2 {
        setting.until_none_on(cluster, "secret/web").await;
    }
}

/// Files are deployed by whoever made the Bundle of them.
#[tokio::test]
async fn a_bundle_of_files_is_refused() {
    let setting = Setting::new("targets", 1).await;
    setting
        .bundle(
            "files",
            &json!({ "resources": [{ "name": "a.yaml", "content": "a: 1" }] }),
        )
        .await;
    let told = setting.until_ready_is("bundle/files", "UnsupportedBundle").await;
    assert!(told.contains("spec.resources"), "{told}");
}

/// Policies say of Bundles what they say of HelmOps.
#[tokio::test]
async fn a_bundle_is_held_to_policies() {
    let setting = Setting::new("targets", 1).await;
    setting
        .apply(&json!({ "kind": "Policy", "metadata": { "name": "limits" }, "requireServiceAccount": true }))
        .await;
    setting.bundle("web", &json!({})).await;
    let told = setting.until_ready_is("bundle/web", "PolicyViolation").await;
    assert!(told.contains("serviceAccount is required"), "{told}");
    setting
        .bundle("web", &json!({ "serviceAccount": "deployer" }))
        .await;
    let deployment = setting.deployment(0, "web").await;
    let options = &deployment["spec"]["options"];
    assert_eq!(
        (&options["serviceAccount"], &options["createNamespace"]),
        (&json!("deployer"), &json!(false))
    );
}
