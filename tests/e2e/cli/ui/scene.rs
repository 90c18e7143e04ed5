//! HelmOps, Bundles and clusters in chosen states. No controller runs, so that they stay as they are.

use helmops_bed::api::Api;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::Part;
use helmops_bed::test_bed::TestBed;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The namespace of the HelmOps and clusters.
pub const NAMESPACE: &str = "shop";
/// The namespace of all BundleDeployments.
const DEPLOYMENTS: &str = "clusters";
/// What a text of the cluster must never become.
pub const HOSTILE: &str =
    "<img src=x onerror=\"document.title='hacked'\"></td><script>document.title='hacked'</script>";

/// A control plane with objects.
pub struct Scene {
    pub bed: TestBed,
    pub api: Api,
}

/// What a cluster is doing in a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Ready,
    NotReady,
    Failed,
    Held,
}

/// `seconds` ago.
pub fn ago(seconds: i64) -> String {
    let time = Timestamp::now() - SignedDuration::from_secs(seconds);
    Timestamp::from_second(time.as_second()).unwrap().to_string()
}

impl Scene {
    pub async fn start() -> Self {
        let options = Options {
            manifests: Part::paths(&[Part::Base, Part::Standalone]),
            ..Options::default()
        };
        let bed = TestBed::start(&options).await.unwrap();
        let scene = Self {
            api: Api::new(&bed).unwrap(),
            bed,
        };
        for namespace in [NAMESPACE, DEPLOYMENTS] {
            let created = scene.bed.kubectl().run(&["create", "namespace", namespace]).await;
            created.unwrap().ok().unwrap();
        }
        scene
    }

    /// A HelmOp with a status.
    pub async fn helmop(&self, name: &str, spec: Value, status: Value) {
        let mut all = json!({
            "pollingInterval": "15m",
            "helm": { "repo": "https://charts.example.com", "chart": name, "version": "^1.0" }
        });
        json_patch::merge(&mut all, &spec);
        let object = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": name }, "spec": all });
        self.api.create(NAMESPACE, "helmops", vec![object]).await.unwrap();
        self.status(name, status).await;
    }

    /// Changes the status of a HelmOp.
    pub async fn status(&self, name: &str, change: Value) {
        let patches = vec![(name.to_owned(), json!({ "status": change }))];
        self.api
            .patch_status(NAMESPACE, "helmops", patches)
            .await
            .unwrap();
    }

    /// A HelmOp that is ready on all clusters.
    pub async fn healthy(&self, name: &str, clusters: i64) {
        self.helmop(name, json!({}), ready(clusters)).await;
    }

    /// A HelmOp in a roll-out of 1.2.0 to clusters that are doing these things, with its Bundle and BundleDeployments.
    pub async fn rollout(&self, name: &str, doing: &[Doing]) {
        let count = |what| i64::try_from(doing.iter().filter(|doing| **doing == what).count()).unwrap();
        let (all, ready) = (i64::try_from(doing.len()).unwrap(), count(Doing::Ready));
        let summary = json!({
            "ready": ready, "desiredReady": all, "notReady": count(Doing::NotReady), "errApplied": count(Doing::Failed),
            "outOfSync": count(Doing::Held)
        });
        let message = format!(
            "ErrApplied({}) [Cluster shop/c002: upgrade to chart {name} 1.2.0 failed]",
            count(Doing::Failed)
        );
        let state = if count(Doing::Failed) > 0 {
            "ErrApplied"
        } else {
            "NotReady"
        };
        self.helmop(
            name,
            json!({ "dependsOn": [{ "name": "calm" }], "rolloutStrategy": { "partitions": [{ "name": "canary" }] } }),
            json!({
                "version": "1.2.0", "observedGeneration": 1, "readyClusters": ready, "desiredReadyClusters": all,
                "lastPollingTriggered": ago(240), "summary": summary, "display": { "state": state },
                "conditions": [condition("Accepted", "True", "Accepted", ""), condition("Polled", "True", "Polled", ""), condition("Ready", "False", "NotReady", &message)]
            }),
        )
        .await;
        let record = json!([{ "repo": "https://charts.example.com", "chart": name, "constraint": "^1.0", "version": "1.2.0", "digest": "4b1f0c9be2a8d7f1", "url": "" }]);
        let bundle = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",
            "metadata": { "name": name, "annotations": { "helmops.fleet.cattle.io/resolved": record.to_string() } }, "spec": {}
        });
        self.api.create(NAMESPACE, "bundles", vec![bundle]).await.unwrap();
        let held = count(Doing::Held);
        let incomplete = count(Doing::NotReady) + count(Doing::Failed);
        let partition = |name: &str, count: i64, unavailable: i64, summary: Value| json!({ "name": name, "count": count, "maxUnavailable": 1, "unavailable": unavailable, "summary": summary });
        let status = json!({ "status": {
            "summary": summary, "unavailable": incomplete, "maxUnavailable": all, "maxUnavailablePartitions": 0, "maxNew": 50,
            "partitions": [
                partition("canary", all - held, incomplete, json!({ "ready": ready, "notReady": count(Doing::NotReady), "errApplied": count(Doing::Failed) })),
                partition("rest", held, 0, json!({ "outOfSync": held }))
            ]
        } });
        self.api
            .patch_status(NAMESPACE, "bundles", vec![(name.to_owned(), status)])
            .await
            .unwrap();
        self.deployments(name, doing).await;
    }

    async fn deployments(&self, name: &str, doing: &[Doing]) {
        let object = |index: usize| format!("{name}-{index:03}");
        let options = |version: &str| json!({ "helm": { "repo": "https://charts.example.com", "chart": name, "version": version } });
        let objects = doing.iter().enumerate().map(|(index, doing)| {
            let (current, id) = if *doing == Doing::Held { ("1.1.0", ":a") } else { ("1.2.0", ":b") };
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
                "metadata": { "name": object(index), "labels": {
                    "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": NAMESPACE,
                    "fleet.cattle.io/cluster": format!("c{index:03}"), "fleet.cattle.io/cluster-namespace": NAMESPACE
                } },
                "spec": { "deploymentID": id, "stagedDeploymentID": ":b", "options": options(current), "stagedOptions": options("1.2.0"), "lifecycle": {} }
            })
        });
        self.api
            .create(DEPLOYMENTS, "bundledeployments", objects.collect())
            .await
            .unwrap();
        let statuses = doing
            .iter()
            .enumerate()
            .map(|(index, doing)| (object(index), json!({ "status": deployed(name, *doing) })));
        self.api
            .patch_status(DEPLOYMENTS, "bundledeployments", statuses.collect())
            .await
            .unwrap();
    }

    /// Clusters `c000` and so on. The agent of each seventh is silent.
    pub async fn clusters(&self, number: usize) {
        let object = |index: usize| {
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
                "metadata": { "name": format!("c{index:03}"), "labels": { "env": "prod", "region": format!("eu-{}", index % 3) } }, "spec": {}
            })
        };
        self.api
            .create(NAMESPACE, "clusters", (0..number).map(object).collect())
            .await
            .unwrap();
        let status = |index: usize| {
            let seen = if index % 7 == 6 { 7200 } else { 60 };
            let status = json!({
                "namespace": DEPLOYMENTS, "agent": { "lastSeen": ago(seen), "namespace": "cattle-fleet-system" },
                "conditions": [condition("Ready", "True", "Ready", "")], "summary": { "ready": 2, "desiredReady": 2 },
                "readyHelmOps": 2, "desiredReadyHelmOps": 2
            });
            (format!("c{index:03}"), json!({ "status": status }))
        };
        self.api
            .patch_status(NAMESPACE, "clusters", (0..number).map(status).collect())
            .await
            .unwrap();
    }
}

/// The status of a HelmOp that is ready on all clusters.
pub fn ready(clusters: i64) -> Value {
    json!({
        "version": "1.2.0", "observedGeneration": 1, "readyClusters": clusters, "desiredReadyClusters": clusters,
        "lastPollingTriggered": ago(240), "summary": { "ready": clusters, "desiredReady": clusters },
        "conditions": [condition("Accepted", "True", "Accepted", ""), condition("Polled", "True", "Polled", ""), condition("Ready", "True", "Ready", "")]
    })
}

/// A condition.
pub fn condition(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": r#type, "status": status, "reason": reason, "message": message, "lastTransitionTime": ago(3600), "lastUpdateTime": ago(60) })
}

fn deployed(name: &str, doing: Doing) -> Value {
    let attempt = |revision: i64, action: &str, version: &str, outcome: &str, seconds: i64, message: &str| json!({ "revision": revision, "action": action, "chart": name, "version": version, "deploymentID": ":b", "outcome": outcome, "time": ago(seconds), "message": message });
    let old = attempt(1, "install", "1.1.0", "superseded", 90_000, "");
    let late = "deployment.apps apps/web is not ready: Available: 0/1 (after 300 s)";
    match doing {
        Doing::Ready | Doing::NotReady => json!({
            "appliedDeploymentID": ":b", "release": "apps/web:2", "ready": doing == Doing::Ready, "nonModified": true,
            "conditions": [condition("Deployed", "True", "", "")],
            "nonReadyStatus": if doing == Doing::Ready { json!([]) } else { json!([{ "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "apps", "name": "web", "summary": { "state": "in-progress", "transitioning": true, "message": ["Available: 0/1"] } }]) },
            "lifecycle": { "history": [attempt(2, "upgrade", "1.2.0", "deployed", 300, ""), old] }
        }),
        Doing::Failed => json!({
            "appliedDeploymentID": ":a", "release": "apps/web:3", "ready": true, "nonModified": true,
            "conditions": [condition("Deployed", "False", "Error", &format!("upgrade to chart {name} 1.2.0 failed: {late}; rolled back, as revision 3"))],
            "lifecycle": { "failures": 1, "nextAttempt": ago(-240), "history": [
                attempt(3, "rollback", "1.1.0", "deployed", 60, ""), attempt(2, "upgrade", "1.2.0", "failed", 360, late), old
            ] }
        }),
        Doing::Held => json!({
            "appliedDeploymentID": ":a", "release": "apps/web:1", "ready": true, "nonModified": true,
            "conditions": [condition("Deployed", "True", "", "")],
            "lifecycle": { "history": [attempt(1, "install", "1.1.0", "deployed", 90_000, "")] }
        }),
    }
}
