//! Clusters of one roll-out in different stages of their life cycles.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::state;
use crate::harness::condition;
use crate::harness::joined::Fixture;

/// Upgrades of several clusters, one after the other.
const LONG: Duration = Duration::from_mins(2);
const CLUSTERS: usize = 5;
const MAX_UNAVAILABLE: usize = 2;
/// It fails in version 2.0.0 where the values say so.
const CONFIG: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-config}
data:
  msg: {{ .Chart.Version | quote }}
  state: {{ if and .Values.broken (eq .Chart.Version "2.0.0") }}Failed{{ else }}Ready{{ end }}
"#;

impl Fixture {
    /// Deploys a version to all clusters. On some it fails.
    async fn roll_out(&self, version: &str, broken: &[usize]) {
        let mut targets = self.targets();
        for cluster in broken {
            targets[*cluster]["helm"] = json!({ "values": { "broken": true } });
        }
        let ready = json!({ "apiVersion": "v1", "kind": "ConfigMap", "failed": "data.state == 'Failed'", "current": "data.state == 'Ready'" });
        let spec = json!({
            "helm": { "version": version },
            "targets": targets,
            "rolloutStrategy": { "maxUnavailable": MAX_UNAVAILABLE },
            "lifecycle": {
                "wait": { "expressions": [ready] },
                "upgrade": { "retries": 100, "retryInterval": "1s", "remediation": "rollback" },
            },
        });
        self.apply("web", &spec).await;
    }

    /// The BundleDeployment of each cluster, all of the same moment: requests for one after the other would count clusters as
    /// unavailable that are so at different times.
    async fn deployments(&self) -> Result<Vec<Value>> {
        let list = self
            .workspace
            .api
            .get("apis/fleet.cattle.io/v1alpha1/bundledeployments")
            .await?;
        let items = list["items"].as_array().context("no list")?;
        let clusters = self.workspace.clusters.iter();
        clusters
            .map(|namespace| {
                let found = items
                    .iter()
                    .find(|found| found["metadata"]["namespace"] == **namespace);
                found.cloned().with_context(|| format!("{namespace} has none"))
            })
            .collect()
    }

    /// Waits until exactly these clusters run a version, and never are more unavailable than allowed.
    async fn until_running(&self, version: &str, expected: &[usize]) {
        eventually(&format!("{version} on {expected:?}"), LONG, async || {
            let deployments = self.deployments().await?;
            let unavailable = deployments.iter().filter(|found| !is_available(found)).count();
            assert!(unavailable <= MAX_UNAVAILABLE, "{unavailable} are unavailable");
            let running: Vec<_> = (0..)
                .zip(&deployments)
                .filter(|(_, found)| is_available(found) && version_of(found) == version)
                .map(|(cluster, _)| cluster)
                .collect();
            ensure!(running == expected, "it runs on {running:?}");
            Ok(())
        })
        .await
        .unwrap();
        for cluster in expected {
            self.clusters[*cluster].until_msg("web", version).await;
        }
    }

    /// How often the upgrade of a cluster was rolled back.
    fn rollbacks(&self, cluster: usize) -> usize {
        let runs = self.clusters[cluster].helm_runs_of("web");
        runs.iter().filter(|run| *run == "rollback").count()
    }

    /// Waits until a cluster was rolled back again.
    async fn until_rolled_back(&self, cluster: usize) {
        let before = self.rollbacks(cluster);
        eventually("another rollback", LONG, async || {
            let now = self.rollbacks(cluster);
            ensure!(now > before, "{now} until now");
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// As the roll-out counts.
fn is_available(found: &Value) -> bool {
    found["status"]["appliedDeploymentID"] == found["spec"]["deploymentID"]
        && found["status"]["ready"] == true
}

fn version_of(found: &Value) -> &str {
    found["spec"]["options"]["helm"]["version"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_cluster_in_remediation_delays_others_only_within_the_limit() {
    let fixture = Fixture::new("life-rollout", CLUSTERS).await;
    for version in ["1.0.0", "2.0.0"] {
        fixture.charts().web(version, &[("config", CONFIG)]).await;
    }
    fixture.roll_out("1.0.0", &[]).await;
    eventually("version 1.0.0 on all clusters", LONG, async || {
        let deployments = fixture.deployments().await?;
        ensure!(deployments.iter().all(is_available), "not all are available");
        Ok(())
    })
    .await
    .unwrap();

    // Two may be unavailable, and two are: the others wait, however often these are rolled back and tried again.
    fixture.roll_out("2.0.0", &[0, 1]).await;
    for cluster in [0, 1, 0, 1] {
        fixture.until_rolled_back(cluster).await;
    }
    fixture.until_running("1.0.0", &[2, 3, 4]).await;
    for (cluster, found) in (0..).zip(fixture.deployments().await.unwrap()) {
        assert_eq!(found["spec"]["stagedOptions"]["helm"]["version"], "2.0.0");
        let expected = if cluster < MAX_UNAVAILABLE {
            "2.0.0"
        } else {
            "1.0.0"
        };
        assert_eq!(version_of(&found), expected, "c{cluster}");
        fixture.clusters[cluster].until_msg("web", "1.0.0").await;
    }
    // For the person who looks: which cluster failed, why, and who waits.
    let workspace = fixture.workspace.namespace.kubectl();
    eventually("the state of the roll-out", LONG, async || {
        let found = workspace.get("helmop/web").await?.context("there is none")?;
        let counts = &found["status"]["lifecycle"];
        ensure!(counts["remediated"] == 2 && counts["released"] == 3, "{counts}");
        let ready = condition(&found, "Ready").context("not reported")?;
        let text = ready["message"].as_str().unwrap_or_default();
        for part in [
            "ErrApplied(2)",
            "OutOfSync(3)",
            "/c0",
            "chart web 2.0.0 failed",
            "rolled back",
        ] {
            ensure!(text.contains(part), "{part:?} is not in {text:?}");
        }
        Ok(())
    })
    .await
    .unwrap();

    eventually("an Event of the HelmOp", LONG, async || {
        let get = [
            "get",
            "events",
            "--field-selector=reason=ReleasesFailed",
            "--output=json",
        ];
        let events: Value = serde_json::from_str(&workspace.run(&get).await?.ok()?)?;
        let about = &events["items"][0]["involvedObject"];
        ensure!(
            about["kind"] == "HelmOp" && about["name"] == "web",
            "it is {about}"
        );
        Ok(())
    })
    .await
    .unwrap();

    // One is repaired: the others follow one at a time, while the last one is still rolled back and tried again.
    fixture.roll_out("2.0.0", &[1]).await;
    fixture.until_running("2.0.0", &[0, 2, 3, 4]).await;
    fixture.until_rolled_back(1).await;
    let found = &fixture.deployments().await.unwrap()[1];
    assert_eq!(state(found, "Released"), "False UpgradeFailed");
    fixture.roll_out("2.0.0", &[]).await;
    fixture.until_running("2.0.0", &[0, 1, 2, 3, 4]).await;
    fixture.workspace.until_ready_is("helmop/web", "Ready").await;
}
