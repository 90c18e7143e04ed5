//! CRDs without `spec.lifecycle`, as Fleet's own are.

use anyhow::{Context, ensure};
use helmops_bed::helmops::{self, Part};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{SOON, own::Fixture};

const FLAGS: [(&str, &str); 1] = [("HELMOPS_CONTROLLERS", "helmop,bundle")];

/// The life cycles in the schemas.
const OF_BUNDLE: [&str; 2] = ["lifecycle", "targets/items/properties/lifecycle"];
const OF_DEPLOYMENT: [&str; 1] = ["lifecycle"];

/// Removes fields from a CRD, or adds them, and waits until the API server does not store them any more, or stores them.
async fn change_crd(kubectl: &Kubectl, plural: &str, kind: &str, op: &str, fields: &[&str]) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let change = |field: &&str| {
        let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{field}");
        json!({ "op": op, "path": path, "value": schema })
    };
    let patch = fields.iter().map(change).collect::<Value>().to_string();
    let crd = format!("{plural}.fleet.cattle.io");
    let arguments = ["patch", "crd", &crd, "--type=json", "-p", &patch];
    kubectl.run(&arguments).await.unwrap().ok().unwrap();
    let probe = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind, "metadata": { "name": "probe" },
        "spec": { "lifecycle": { "suspend": true } },
    });
    eventually("the changed CRD", SOON, async || {
        let create = [
            "create",
            "--dry-run=server",
            "--validate=ignore",
            "--output=json",
            "--filename=-",
        ];
        let created = kubectl.run_with_input(&create, &probe.to_string()).await?.ok()?;
        let created: Value = serde_json::from_str(&created)?;
        ensure!(
            created["spec"]["lifecycle"].is_null() == (op == "remove"),
            "stored: {created}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

impl Fixture {
    /// A control plane in which the CRDs of Bundles and BundleDeployments are without `lifecycle`.
    async fn start_without_lifecycle() -> Self {
        let bed = helmops::control_plane_with(&[Part::Standalone], true)
            .await
            .unwrap();
        let kubectl = bed.kubectl();
        change_crd(&kubectl, "bundles", "Bundle", "remove", &OF_BUNDLE).await;
        change_crd(
            &kubectl,
            "bundledeployments",
            "BundleDeployment",
            "remove",
            &OF_DEPLOYMENT,
        )
        .await;
        Self::on(bed, &FLAGS).await.unwrap()
    }

    /// Waits for a Warning event of an object of this kind, and checks that it names the CRD that has to be replaced.
    async fn until_unsupported(&self, kind: &str, crd: &str) {
        eventually("the event", SOON, async || {
            let list = ["get", "events.events.k8s.io", "--output=json"];
            let list: Value = serde_json::from_str(&self.kubectl.run(&list).await?.ok()?)?;
            let events = list["items"].as_array().context("no list")?;
            let note = format!("the CRD of {crd} in the cluster lacks it");
            let is = |event: &Value| {
                event["reason"] == "LifecycleUnsupported"
                    && event["type"] == "Warning"
                    && event["regarding"]["kind"] == kind
                    && event["regarding"]["name"] == "web"
                    && event["note"].as_str().is_some_and(|found| found.contains(&note))
            };
            ensure!(events.iter().any(is), "{list}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_life_cycle_that_the_crds_lack_is_reported_and_not_written_again_and_again() {
    let fixture = Fixture::start_without_lifecycle().await;
    let own = fixture.kubectl.clone();
    fixture
        .apply_object(&json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "c1", "labels": { "number": "none" } },
        }))
        .await;
    let helm = json!({ "repo": fixture.server.url(), "chart": "alpine", "version": "0.1.0" });
    let lifecycle = json!({ "upgrade": { "retries": 3 } });
    let targets = json!([{ "clusterName": "c1", "lifecycle": { "suspend": true } }]);
    let over = json!({ "helm": helm, "lifecycle": lifecycle, "targets": targets });
    fixture.apply("web", &over).await;
    fixture.until_unsupported("HelmOp", "Bundle").await;
    let ready = ["/status/display/readyBundles"];
    let cluster = fixture
        .until_fields_are(&own, "cluster/c1", &ready, &json!("0/1"))
        .await;
    let namespace = cluster["status"]["namespace"].as_str().unwrap().to_owned();
    let on_cluster = fixture.kubectl.in_namespace(&namespace);
    let bundle = fixture.kubectl.get("bundle/web").await.unwrap().unwrap();
    assert_eq!(bundle["spec"].get("lifecycle"), None);

    fixture.reconcile_again(0).await;
    let written = fixture.spec_writes().await;
    for number in 1..4 {
        fixture.reconcile_again(number).await;
    }
    assert_eq!(
        fixture.spec_writes().await,
        written,
        "nothing is written when idle"
    );

    // The CRD of Bundles has it now, and that of BundleDeployments has not.
    change_crd(&own, "bundles", "Bundle", "add", &OF_BUNDLE).await;
    let force = "helmops.fleet.cattle.io/force-requested-at=1";
    fixture.run(&["annotate", "helmop/web", force]).await;
    let token = ["/spec/lifecycle/requests/force"];
    let bundle = fixture
        .until_fields_are(&own, "bundle/web", &token, &json!("1"))
        .await;
    assert_eq!(
        bundle["spec"]["targets"][0]["lifecycle"],
        json!({ "suspend": true })
    );
    fixture.until_unsupported("Bundle", "BundleDeployment").await;
    fixture.reconcile_again(4).await;
    let written = fixture.spec_writes().await;
    for number in 5..8 {
        fixture.reconcile_again(number).await;
    }
    assert_eq!(
        fixture.spec_writes().await,
        written,
        "nothing is written when idle"
    );

    // Now both have it. A request reaches the cluster with the life cycle of its target, and deploys nothing new.
    let before = on_cluster.get("bundledeployment/web").await.unwrap().unwrap();
    change_crd(
        &own,
        "bundledeployments",
        "BundleDeployment",
        "add",
        &OF_DEPLOYMENT,
    )
    .await;
    let force = "helmops.fleet.cattle.io/force-requested-at=2";
    fixture
        .run(&["annotate", "--overwrite", "helmop/web", force])
        .await;
    let after = fixture
        .until_fields_are(&on_cluster, "bundledeployment/web", &token, &json!("2"))
        .await;
    assert_eq!(after["spec"]["lifecycle"]["suspend"], true);
    assert_eq!(after["spec"]["lifecycle"]["upgrade"]["retries"], 3);
    for field in ["deploymentID", "stagedDeploymentID", "options"] {
        assert_eq!(after["spec"][field], before["spec"][field], "{field}");
    }
}
