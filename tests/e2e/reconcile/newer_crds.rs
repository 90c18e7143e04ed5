//! CRDs of a newer version, with fields that helmops does not know.

use anyhow::{Context, ensure};
use helmops_bed::helmops::{self, Part};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::{Metrics, api_requests};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{
    SOON,
    own::{Fixture, start_controller},
};

const FLAGS: [(&str, &str); 1] = [("HELMOPS_CONTROLLERS", "helmop,bundle")];

/// The new fields of each CRD. `onlyHelmOp` is a field of HelmOps alone, and `added` one that other clients set.
const NEWER: [(&str, &[&str]); 3] = [
    (
        "helmops",
        &[
            "newer",
            "onlyHelmOp",
            "helm/properties/newer",
            "rolloutStrategy/properties/newer",
            "targets/items/properties/ofTarget",
            "targets/items/properties/helm/properties/ofTarget",
        ],
    ),
    (
        "bundles",
        &[
            "newer",
            "added",
            "helm/properties/newer",
            "rolloutStrategy/properties/newer",
            "targets/items/properties/ofTarget",
            "targets/items/properties/helm/properties/ofTarget",
        ],
    ),
    (
        "bundledeployments",
        &[
            "added",
            "options/properties/newer",
            "options/properties/ofTarget",
            "options/properties/helm/properties/newer",
            "options/properties/helm/properties/ofTarget",
            "stagedOptions/properties/newer",
            "stagedOptions/properties/ofTarget",
            "stagedOptions/properties/helm/properties/newer",
            "stagedOptions/properties/helm/properties/ofTarget",
        ],
    ),
];

/// The fields with a default in each CRD, that of a Bundle also for a field that helmops knows.
const DEFAULTED: [(&str, &[&str]); 2] = [
    (
        "bundles",
        &[
            "defaulted",
            "helm/properties/defaulted",
            "helm/properties/maxHistory",
        ],
    ),
    (
        "bundledeployments",
        &[
            "options/properties/ofDeployment",
            "options/properties/helm/properties/ofDeployment",
            "stagedOptions/properties/helm/properties/ofDeployment",
        ],
    ),
];

/// Where an object has them.
const DEFAULTS_OF_BUNDLE: [&str; 3] = ["/spec/defaulted", "/spec/helm/defaulted", "/spec/helm/maxHistory"];
const DEFAULTS_OF_DEPLOYMENT: [&str; 3] = [
    "/spec/options/ofDeployment",
    "/spec/options/helm/ofDeployment",
    "/spec/stagedOptions/helm/ofDeployment",
];

/// Adds the new fields to the CRDs, and waits until the API server accepts them.
async fn upgrade_crds(kubectl: &Kubectl) {
    for (plural, paths) in NEWER {
        let schema = json!({ "type": "object", "properties": { "level": { "type": "integer" } } });
        let defaulted = json!({ "type": "integer", "default": 5 });
        let add = |path: &&str, schema: &Value| {
            let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{path}");
            json!({ "op": "add", "path": path, "value": schema })
        };
        let defaults = DEFAULTED.iter().filter(|(of, _)| *of == plural);
        let defaults = defaults.flat_map(|(_, paths)| paths.iter().map(|path| add(path, &defaulted)));
        let added = paths.iter().map(|path| add(path, &schema));
        let patch = added.chain(defaults).collect::<Value>().to_string();
        let crd = format!("{plural}.fleet.cattle.io");
        let arguments = ["patch", "crd", &crd, "--type=json", "-p", &patch];
        kubectl.run(&arguments).await.unwrap().ok().unwrap();
    }
    let level = json!({ "level": 1 });
    for (kind, spec) in [
        ("HelmOp", json!({ "newer": level })),
        ("Bundle", json!({ "newer": level })),
        ("BundleDeployment", json!({ "added": level })),
    ] {
        let object = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind, "metadata": { "name": "probe" }, "spec": spec
        });
        eventually("the fields in the CRD", SOON, async || {
            let error = kubectl.rejection(&object).await?;
            ensure!(error.is_empty(), "{error}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

impl Fixture {
    /// A control plane with newer CRDs, in which the controller brings Bundles to clusters.
    async fn start_with_newer_crds() -> Self {
        let bed = helmops::control_plane_with(&[Part::Standalone], true)
            .await
            .unwrap();
        let kubectl = bed.kubectl();
        upgrade_crds(&kubectl).await;
        Self::on(bed, &FLAGS).await.unwrap()
    }

    /// Applies HelmOp `web`, with new fields of this level in each block.
    async fn apply_newer(&self, version: &str, level: u8) {
        let level = json!({ "level": level });
        let helm = json!({
            "repo": self.server.url(), "chart": "alpine", "version": version, "newer": level,
        });
        let target = json!({ "clusterName": "c1", "ofTarget": level, "helm": { "ofTarget": level } });
        let over = json!({
            "helm": helm, "newer": level, "onlyHelmOp": level, "rolloutStrategy": { "newer": level },
            "targets": [target],
        });
        self.apply("web", &over).await;
    }

    /// Waits until each of these fields of an object has this value.
    pub(super) async fn until_fields_are(
        &self,
        kubectl: &Kubectl,
        object: &str,
        fields: &[&str],
        value: &Value,
    ) -> Value {
        eventually(object, SOON, async || {
            let found = kubectl.get(object).await?.context("there is none")?;
            for field in fields {
                let is = found.pointer(field).unwrap_or(&Value::Null);
                ensure!(is == value, "{field} is {is}");
            }
            Ok(found)
        })
        .await
        .unwrap()
    }

    /// Waits until both loops have reconciled `web` again, although nothing has changed that they write.
    pub(super) async fn reconcile_again(&self, number: u8) {
        // A label of a Cluster can change which Bundles it gets.
        let changes = [
            ("helmop", ["annotate", "--overwrite", "bundle/web"]),
            ("bundle", ["label", "--overwrite", "cluster/c1"]),
        ];
        for (reconciler, change) in changes {
            let reconciled = async || {
                let metrics = Metrics::scrape(&format!("{}/metrics", self.controller.admin)).await?;
                let labels = [("controller", reconciler)];
                metrics
                    .sum("helmops_reconcile_total", &labels)
                    .context("no such metric")
            };
            let before = reconciled().await.unwrap();
            self.run(&[&change[..], &[&*format!("number=n{number}")]].concat())
                .await;
            eventually("a reconciliation", SOON, async || {
                ensure!(reconciled().await? > before, "none by {reconciler}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    /// The generations of the Bundle and the BundleDeployment of `web`.
    async fn generations(&self, on_cluster: &Kubectl) -> [Value; 2] {
        let bundle = self.kubectl.get("bundle/web").await.unwrap().unwrap();
        let deployment = on_cluster.get("bundledeployment/web").await.unwrap().unwrap();
        [bundle, deployment].map(|object| object["metadata"]["generation"].clone())
    }

    /// The writes of Bundles and BundleDeployments.
    pub(super) async fn spec_writes(&self) -> [u64; 4] {
        let count = async |resource, verb| api_requests(&self.bed, resource, verb).await.unwrap();
        [
            count("bundles", "POST").await,
            count("bundles", "PUT").await,
            count("bundledeployments", "POST").await,
            count("bundledeployments", "PUT").await,
        ]
    }
}

const OF_BUNDLE: [&str; 5] = [
    "/spec/newer",
    "/spec/helm/newer",
    "/spec/rolloutStrategy/newer",
    "/spec/targets/0/ofTarget",
    "/spec/targets/0/helm/ofTarget",
];

const OF_DEPLOYMENT: [&str; 8] = [
    "/spec/options/newer",
    "/spec/options/ofTarget",
    "/spec/options/helm/newer",
    "/spec/options/helm/ofTarget",
    "/spec/stagedOptions/newer",
    "/spec/stagedOptions/ofTarget",
    "/spec/stagedOptions/helm/newer",
    "/spec/stagedOptions/helm/ofTarget",
];

#[tokio::test]
async fn fields_of_newer_crds_survive_from_helmop_to_cluster() {
    let mut fixture = Fixture::start_with_newer_crds().await;
    let (level, next) = (json!({ "level": 1 }), json!({ "level": 2 }));
    fixture
        .apply_object(&json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "c1", "labels": { "number": "none" } },
        }))
        .await;
    // The API server counts a dry run as a write.
    let created = fixture.spec_writes().await;
    fixture.apply_newer("0.1.0", 1).await;
    let own = fixture.kubectl.clone();
    fixture
        .until_fields_are(&own, "bundle/web", &OF_BUNDLE, &level)
        .await;
    let cluster = fixture
        .until_fields_are(
            &own,
            "cluster/c1",
            &["/status/display/readyBundles"],
            &json!("0/1"),
        )
        .await;
    let namespace = cluster["status"]["namespace"].as_str().unwrap();
    let on_cluster = fixture.kubectl.in_namespace(namespace);
    let deployed = fixture
        .until_fields_are(&on_cluster, "bundledeployment/web", &OF_DEPLOYMENT, &level)
        .await;

    // The API server adds defaults, and drops the field that Bundles do not have; neither is a difference.
    let default = json!(5);
    let bundle = fixture
        .until_fields_are(&own, "bundle/web", &DEFAULTS_OF_BUNDLE, &default)
        .await;
    fixture
        .until_fields_are(
            &on_cluster,
            "bundledeployment/web",
            &DEFAULTS_OF_DEPLOYMENT,
            &default,
        )
        .await;
    assert_eq!(bundle["spec"].get("onlyHelmOp"), None);
    fixture.reconcile_again(0).await;
    let written = fixture.spec_writes().await;
    assert_eq!((written[0], written[2]), (created[0] + 1, created[2] + 1));
    for number in 1..4 {
        fixture.reconcile_again(number).await;
    }
    assert_eq!(
        fixture.spec_writes().await,
        written,
        "nothing is written when idle"
    );

    // Other clients add fields; then the HelmOp changes.
    let added = json!({ "spec": { "added": level } }).to_string();
    let patch = ["--type=merge", "-p", &added];
    fixture
        .run(&[&["patch", "bundle/web"], &patch[..]].concat())
        .await;
    let patch_deployment = [&["patch", "bundledeployment/web"], &patch[..]].concat();
    on_cluster.run(&patch_deployment).await.unwrap().ok().unwrap();
    fixture.apply_newer("0.2.0", 2).await;
    let bundle = fixture
        .until_fields_are(&own, "bundle/web", &OF_BUNDLE, &next)
        .await;
    assert_eq!(bundle["spec"]["added"], level);
    assert_eq!(bundle["spec"]["helm"]["version"], "0.2.0");
    let upgraded = fixture
        .until_fields_are(&on_cluster, "bundledeployment/web", &OF_DEPLOYMENT, &next)
        .await;
    assert_eq!(upgraded["spec"]["added"], level);
    assert_ne!(upgraded["spec"]["deploymentID"], deployed["spec"]["deploymentID"]);

    // A restart changes nothing.
    fixture.reconcile_again(4).await;
    let before = fixture.generations(&on_cluster).await;
    fixture.stop_controller().await;
    fixture.controller = start_controller(&fixture.bed, "controller-2", &FLAGS)
        .await
        .unwrap();
    fixture.until_reconciled(0.0, 3.0).await;
    fixture.reconcile_again(5).await;
    assert_eq!(fixture.generations(&on_cluster).await, before);

    // Fields that are removed from the HelmOp are removed everywhere; those of other clients stay.
    let helmop = json!({ "spec": {
        "newer": null, "onlyHelmOp": null, "rolloutStrategy": null, "helm": { "newer": null },
        "targets": [{ "clusterName": "c1" }],
    } });
    fixture
        .run(&["patch", "helmop/web", "--type=merge", "-p", &helmop.to_string()])
        .await;
    let bundle = fixture
        .until_fields_are(&own, "bundle/web", &OF_BUNDLE, &Value::Null)
        .await;
    assert_eq!(bundle["spec"]["added"], level);
    let deployment = fixture
        .until_fields_are(&on_cluster, "bundledeployment/web", &OF_DEPLOYMENT, &Value::Null)
        .await;
    assert_eq!(deployment["spec"]["added"], level);
}
