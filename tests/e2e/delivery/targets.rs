//! The clusters that a Bundle is deployed to, and what each gets. N and W are the rows of Fleet's own tests.

use anyhow::ensure;
use serde_json::json;

use crate::harness::{
    message,
    standalone::{Fixture, decoded},
};

/// N1, N2, N5.
#[tokio::test]
async fn a_bundle_is_deployed_to_all_clusters_of_a_group() {
    let fixture = Fixture::new("targets", 3).await;
    fixture
        .bundle(
            "n1",
            &json!({ "helmOpOptions": { "helmOpInsecureSkipTLSVerify": true } }),
        )
        .await;
    fixture
        .bundle("n2", &json!({ "helm": { "version": "v1.2.3" } }))
        .await;
    fixture.bundle("n5", &json!({ "helmOpOptions": null })).await;
    for cluster in 0..3 {
        let n1 = fixture.deployment(cluster, "n1").await;
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
        let n2 = fixture.deployment(cluster, "n2").await;
        assert_eq!(n2["spec"]["options"]["helm"]["version"], "v1.2.3");
        let n5 = fixture.deployment(cluster, "n5").await;
        assert_eq!(n5["spec"].get("helmChartOptions"), None);
        fixture.agent_deploys(cluster, "n1").await;
    }
    assert_eq!(fixture.until_ready_is("bundle/n1", "Ready").await, "");
    let message = fixture.until_ready_is("bundle/n2", "NotReady").await;
    assert!(message.starts_with("WaitApplied(3) [Cluster "), "{message}");
}

/// N4.
#[tokio::test]
async fn a_version_range_is_not_deployed() {
    let fixture = Fixture::new("targets", 1).await;
    fixture
        .bundle("n4", &json!({ "helm": { "version": "1.x.x" } }))
        .await;
    let message = fixture.until_ready_is("bundle/n4", "InvalidVersion").await;
    assert!(message.contains("version cannot be deployed"), "{message}");
    assert_eq!(fixture.clusters_of("n4").await, [0_usize; 0]);
    // An existing deployment stays.
    fixture.bundle("n4", &json!({})).await;
    fixture.deployment(0, "n4").await;
    fixture
        .bundle("n4", &json!({ "helm": { "version": ">1" } }))
        .await;
    fixture.until_ready_is("bundle/n4", "InvalidVersion").await;
    assert_eq!(fixture.clusters_of("n4").await, [0]);
}

/// W1: customisation by targets, and clusters that start and stop to match.
#[tokio::test]
async fn deployments_follow_the_labels_of_clusters() {
    let fixture = Fixture::new("targets", 4).await;
    let targets = json!([
        { "clusterName": "c3", "doNotDeploy": true },
        { "clusterSelector": { "matchLabels": { "parity": "odd" } }, "namespace": "of-odd" },
        { "clusterName": "c0" },
    ]);
    fixture.bundle("web", &json!({ "targets": targets })).await;
    let odd = fixture.deployment(1, "web").await;
    assert_eq!(odd["spec"]["options"]["namespace"], "of-odd");
    let named = fixture.deployment(0, "web").await;
    assert_eq!(named["spec"]["options"].get("namespace"), None);
    fixture
        .until("bundle/web", |bundle| {
            ensure!(
                bundle["status"]["display"]["readyClusters"] == "0/2",
                "{}",
                bundle["status"]
            );
            Ok(())
        })
        .await;
    assert_eq!(fixture.clusters_of("web").await, [0, 1]);
    fixture
        .kubectl(&["label", "--overwrite", "cluster/c1", "parity=even"])
        .await;
    fixture
        .kubectl(&["label", "--overwrite", "cluster/c2", "parity=odd"])
        .await;
    fixture.deployment(2, "web").await;
    fixture.until_none_on(1, "bundledeployment/web").await;
    fixture.kubectl(&["delete", "cluster/c0"]).await;
    fixture.until_none_on(0, "bundledeployment/web").await;
}

#[tokio::test]
async fn a_bundle_without_clusters_is_not_ready() {
    let fixture = Fixture::new("targets", 1).await;
    fixture.bundle("web", &json!({ "targets": [] })).await;
    let message = fixture.until_ready_is("bundle/web", "NoClusters").await;
    assert!(message.contains("no cluster is targeted"), "{message}");
}

/// A template error is reported for its cluster and delays no other.
#[tokio::test]
async fn values_are_rendered_for_each_cluster() {
    let fixture = Fixture::new("targets", 2).await;
    fixture
        .patch("cluster/c1", &json!({"spec":{"templateValues":{"zone":"z1"}}}))
        .await;
    let values = json!({ "number": "global.fleet.clusterLabels.number", "zone": "${ .ClusterValues.zone }" });
    let bundle = json!({ "helm": { "values": values } });
    fixture.bundle("web", &bundle).await;
    let deployment = fixture.deployment(1, "web").await;
    assert_eq!(deployment["spec"]["options"]["helm"].get("values"), None);
    // The controller may see the labels and values of the cluster after the Bundle.
    let secret = fixture
        .until_on(1, "secret/web", |secret| {
            let values = decoded(secret, "values");
            let expected = r#"{"number":"1","zone":"z1"}"#;
            ensure!(values.as_deref() == Some(expected), "the values are {values:?}");
            Ok(())
        })
        .await;
    assert_eq!(secret["type"], "fleet.cattle.io/bundle-deployment/v1alpha1");
    let of_c0 = format!(
        "ErrApplied(1) [Cluster {}/c0: helm.values.zone: ",
        fixture.namespace.name()
    );
    fixture
        .until("bundle/web", |bundle| {
            let ready = message(bundle, "Ready");
            ensure!(ready.contains(&of_c0), "it is {ready:?}");
            Ok(())
        })
        .await;
    assert_eq!(fixture.clusters_of("web").await, [1]);
    fixture
        .patch("cluster/c0", &json!({"spec":{"templateValues":{"zone":"z0"}}}))
        .await;
    fixture.deployment(0, "web").await;
    // A Bundle without values needs no Secret.
    fixture
        .bundle("web", &json!({ "helm": { "values": null } }))
        .await;
    for cluster in 0..2 {
        fixture.until_none_on(cluster, "secret/web").await;
    }
}

/// The controller that creates a Bundle of files also deploys it.
#[tokio::test]
async fn a_bundle_of_files_is_unsupported() {
    let fixture = Fixture::new("targets", 1).await;
    fixture
        .bundle(
            "files",
            &json!({ "resources": [{ "name": "a.yaml", "content": "a: 1" }] }),
        )
        .await;
    let message = fixture.until_ready_is("bundle/files", "UnsupportedBundle").await;
    assert!(message.contains("spec.resources"), "{message}");
}

/// Policies apply to Bundles in the same way as to HelmOps.
#[tokio::test]
async fn policies_apply_to_bundles() {
    let fixture = Fixture::new("targets", 1).await;
    fixture
        .apply(&json!({ "kind": "Policy", "metadata": { "name": "limits" }, "requireServiceAccount": true }))
        .await;
    fixture.bundle("web", &json!({})).await;
    let message = fixture.until_ready_is("bundle/web", "PolicyViolation").await;
    assert!(message.contains("serviceAccount is required"), "{message}");
    fixture
        .bundle("web", &json!({ "serviceAccount": "deployer" }))
        .await;
    let deployment = fixture.deployment(0, "web").await;
    let options = &deployment["spec"]["options"];
    assert_eq!(
        (&options["serviceAccount"], &options["createNamespace"]),
        (&json!("deployer"), &json!(false))
    );
}
