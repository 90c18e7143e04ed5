//! Fleet's agent, as far as others see it: how it leaves a release, and what it has to find to leave a release as it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use helmops_bed::command::run;
use helmops_bed::tools::agent_helm;
use helmops_release::marks;
use helmops_release::names::{SetId, release_name};
use serde_json::{Value, json};
use tokio::process::Command;

use super::charts::{Deployed, History};
use crate::harness::agent::Fixture;

/// Helm takes half a second.
const DEADLINE: Duration = Duration::from_mins(1);
/// The version of all charts.
const VERSION: &str = "1.0.0";
const NOW: &str = "2026-01-02T03:04:05Z";
/// The kinds of all objects.
const KINDS: &str = "configmaps,secrets,services,serviceaccounts,roles,rolebindings,clusterroles,networkpolicies,cronjobs,deployments,statefulsets,customresourcedefinitions";

/// Fleet's agent of a cluster. Its name of releases and identity of objects are compared with Fleet's own in the tests of
/// `helmops-release`.
pub struct Fleet<'f>(pub &'f Fixture);

impl Fleet<'_> {
    pub fn release(&self, name: &str) -> String {
        release_name(&self.0.name(name))
    }

    fn set(&self, name: &str) -> SetId {
        SetId::new(&self.0.name(name), self.0.system.name())
    }

    /// Deploys as Fleet's agent does, with its field manager.
    async fn apply(&self, request: &Value) {
        let command = self.command(&agent_helm().await.unwrap());
        run(command, &request.to_string(), DEADLINE)
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    /// Reads a record with Helm.
    async fn helm(&self, arguments: &[&str]) -> String {
        let mut command = self.command(&self.0.bed.tools.helm());
        command
            .args(arguments)
            .args(["--namespace", self.0.apps.name(), "--kubeconfig"])
            .arg(&self.0.bed.kubeconfig);
        run(command, "", DEADLINE).await.unwrap().ok().unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, self.0.bed.directory.join("fleet-helm"));
        }
        command
    }

    /// Installs or upgrades a release, and reports that it is deployed as this revision and ready.
    pub async fn deploy(&self, chart: &Deployed, revision: u64) {
        let release = self.release(chart.name);
        let folder = self.chart(chart, &release, revision);
        let action = if revision == 1 { "install" } else { "upgrade" };
        let apply = match (chart.history, revision) {
            (History::Helm3, 1) => "client",
            (_, 1) => "server",
            _ => "as-before",
        };
        let request = json!({
            "action": action, "release": release, "namespace": self.0.apps.name(), "storageNamespace": self.0.apps.name(), "kubeconfig": self.0.bed.kubeconfig,
            "hookTimeout": 60_000, "apply": apply, "chart": { "archive": folder, "values": [] },
        });
        self.apply(&request).await;
        if chart.history == History::Helm3 && revision == 1 {
            let (_, mut record) = self.0.record(&release, 1).await.unwrap();
            assert!(record.apply_method.take().is_some());
            self.0.write_record(&record).await;
        }
    }

    /// The folder of a chart as Fleet's agent gives it to Helm. The marks are those of its post-renderer.
    fn chart(&self, chart: &Deployed, release: &str, revision: u64) -> PathBuf {
        let set = self.set(chart.name);
        let text = chart.objects.replace("RELEASE", release);
        let objects: Vec<Value> = if text.is_empty() {
            Vec::new()
        } else {
            serde_saphyr::from_multiple(&text).unwrap()
        };
        let folder = self.0.bed.directory.join(format!("fleet-{release}-{revision}"));
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        let marked = objects.into_iter().map(|mut object| {
            object["metadata"]["labels"][marks::SET_HASH] = json!(set.hash());
            object["metadata"]["annotations"][marks::SET_ID] = json!(set.as_str());
            if object["kind"] == "CustomResourceDefinition" {
                object["metadata"]["annotations"][marks::RESOURCE_POLICY] = json!(marks::KEEP);
            }
            serde_saphyr::to_string(&object).unwrap()
        });
        let marked: Vec<_> = marked.collect();
        std::fs::write(folder.join("templates/all.yaml"), marked.join("\n---\n")).unwrap();
        let metadata = json!({
            "apiVersion": "v2", "name": "web", "version": VERSION,
            "annotations": self.annotations(chart),
        });
        std::fs::write(folder.join("Chart.yaml"), metadata.to_string()).unwrap();
        folder
    }

    /// The annotations of a chart that connect a release with its BundleDeployment.
    fn annotations(&self, chart: &Deployed) -> Value {
        let options = &chart.over["options"];
        let keeps = options["keepResources"].as_bool().unwrap_or_default();
        json!({
            marks::BUNDLE_ID: self.0.name(chart.name),
            marks::AGENT_NAMESPACE: self.0.system.name(),
            marks::SERVICE_ACCOUNT: options["serviceAccount"].as_str().unwrap_or_default(),
            marks::KEEP_RESOURCES: keeps.to_string(),
        })
    }

    /// Writes the BundleDeployment with the status of a release that is ready.
    pub async fn report(&self, chart: &Deployed, over: &Value, revision: u64, live: &[Value]) {
        self.0.deploy(chart.name, VERSION, over).await;
        let id = self.0.spec(VERSION, over)["deploymentID"].clone();
        let resources: Vec<_> = self
            .owned(chart, live)
            .iter()
            .map(|object| resource(object))
            .collect();
        let conditions = ["Installed", "Deployed", "Ready", "Monitored"]
            .map(|kind| json!({ "type": kind, "status": "True", "lastUpdateTime": NOW }));
        let status = json!({ "status": {
            "appliedDeploymentID": id,
            "release": self.revision(chart, revision),
            "ready": true,
            "nonModified": true,
            "syncGeneration": over["options"]["forceSyncGeneration"].as_u64().unwrap_or_default(),
            "conditions": conditions,
            "resourceCounts": counts(resources.len()),
            "resources": resources,
        }});
        let status = vec![(self.0.name(chart.name), status)];
        let patched = self
            .0
            .api
            .patch_status(self.0.upstream.name(), "bundledeployments", status);
        patched.await.unwrap();
    }

    fn revision(&self, chart: &Deployed, revision: u64) -> String {
        format!("{}/{}:{revision}", self.0.apps.name(), self.release(chart.name))
    }

    /// The objects of all releases, with their field managers.
    pub async fn live(&self) -> Vec<Value> {
        let get = ["get", KINDS, "--output=json", "--show-managed-fields"];
        let listed: Value = serde_json::from_str(&self.0.kubectl(&get).await).unwrap();
        listed["items"].as_array().unwrap().clone()
    }

    /// The objects of a release, found by their label. Hooks are no part of it.
    fn owned<'o>(&self, chart: &Deployed, live: &'o [Value]) -> Vec<&'o Value> {
        let hash = self.set(chart.name).hash();
        let is_owned = |object: &&Value| {
            let metadata = &object["metadata"];
            metadata["labels"][marks::SET_HASH] == hash.as_str()
                && metadata["annotations"]["helm.sh/hook"].is_null()
        };
        live.iter().filter(is_owned).collect()
    }

    /// Why Fleet's agent would deploy a release again, or report it as changed. Helm itself reads the record.
    pub async fn problems(&self, chart: &Deployed, live: &[Value]) -> Vec<String> {
        let mut problems = Problems::of(chart);
        let found = self.0.until(chart.name, |_| Ok(())).await;
        problems.of_status(&found);
        let status = &found["status"];
        let release = self.release(chart.name);
        // The revision that the status names must exist under the name that Fleet derives, or it deploys.
        let number: u64 = (1..9)
            .find(|number| status["release"] == self.revision(chart, *number))
            .unwrap_or_default();
        let Some((secret, _)) = self.0.record(&release, number).await else {
            problems.check(false, || format!("there is no record of {}", status["release"]));
            return problems.found;
        };
        problems.of_record(&secret, &release, number);
        let revision = format!("--revision={number}");
        let metadata = ["get", "metadata", &release, &revision, "--output=json"];
        let metadata: Value = serde_json::from_str(&self.helm(&metadata).await).unwrap();
        for (annotation, expected) in self.annotations(chart).as_object().unwrap() {
            let found = &metadata["annotations"][annotation];
            problems.check(found == expected, || {
                format!("the chart has {annotation} {found}")
            });
        }
        let manifest = self.helm(&["get", "manifest", &release, &revision]).await;
        let desired: Vec<Value> = serde_saphyr::from_multiple(&manifest).unwrap();
        let desired: Vec<_> = desired.iter().filter(|object| object.is_object()).collect();
        let owned = self.owned(chart, live);
        let listed = status["resources"].as_array().map_or(0, Vec::len);
        problems.check([desired.len(), listed] == [owned.len(); 2], || {
            format!("{} objects, {} of {listed} are owned", desired.len(), owned.len())
        });
        let marks = [
            (marks::SET_ID, self.set(chart.name).as_str().to_owned()),
            ("meta.helm.sh/release-name", release),
            ("meta.helm.sh/release-namespace", self.0.apps.name().to_owned()),
        ];
        for object in desired {
            let live = owned.iter().find(|live| is_same(live, object));
            problems.of_object(object, live.copied(), &marks);
        }
        problems.found
    }
}

/// What is wrong with a release.
struct Problems {
    name: &'static str,
    found: Vec<String>,
}

impl Problems {
    const fn of(chart: &Deployed) -> Self {
        Self {
            name: chart.name,
            found: Vec::new(),
        }
    }

    fn check(&mut self, is_right: bool, problem: impl FnOnce() -> String) {
        if !is_right {
            self.found.push(format!("{}: {}", self.name, problem()));
        }
    }

    fn of_status(&mut self, deployment: &Value) {
        let (wanted, status) = (&deployment["spec"]["deploymentID"], &deployment["status"]);
        self.check(status["appliedDeploymentID"] == *wanted, || {
            format!("{wanted} is not applied: {status}")
        });
        self.check(status["ready"] == true && status["nonModified"] == true, || {
            format!("it is not ready or modified: {status}")
        });
        for kind in ["Installed", "Deployed", "Ready", "Monitored"] {
            let condition = crate::harness::condition(deployment, kind);
            let is_true = condition.is_some_and(|condition| condition["status"] == "True");
            self.check(is_true, || format!("{kind} is {condition:?}"));
        }
    }

    fn of_record(&mut self, secret: &Value, release: &str, revision: u64) {
        let kind = &secret["type"];
        self.check(kind == "helm.sh/release.v1", || {
            format!("the type of the record is {kind}")
        });
        for (label, expected) in [
            ("name", release),
            ("owner", "helm"),
            ("status", "deployed"),
            ("version", &revision.to_string()),
        ] {
            let found = &secret["metadata"]["labels"][label];
            self.check(found == expected, || {
                format!("the label {label} of the record is {found}")
            });
        }
    }

    fn of_object(&mut self, desired: &Value, live: Option<&Value>, marks: &[(&str, String)]) {
        let name = format!("{} {}", desired["kind"], desired["metadata"]["name"]);
        let Some(live) = live else {
            self.check(false, || format!("{name} is missing, or without its label"));
            return;
        };
        self.check(contains(live, desired), || format!("{name} is changed: {live}"));
        for (annotation, expected) in marks {
            let found = &live["metadata"]["annotations"][annotation];
            self.check(found == expected, || format!("{name} has {annotation} {found}"));
        }
        for fields in live["metadata"]["managedFields"].as_array().unwrap() {
            let manager = fields["manager"].as_str().unwrap_or_default();
            let is_known = manager == "fleetagent" || manager.starts_with("kube-");
            self.check(is_known, || format!("{name} has fields of {manager}"));
        }
    }
}

fn resource(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut resource = json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": metadata["name"],
        "createdAt": metadata["creationTimestamp"],
    });
    if metadata["namespace"].is_string() {
        resource["namespace"] = metadata["namespace"].clone();
    }
    resource
}

/// Without zeros.
fn counts(ready: usize) -> Value {
    if ready == 0 {
        return json!({});
    }
    json!({ "ready": ready, "desiredReady": ready })
}

fn is_same(one: &Value, other: &Value) -> bool {
    one["kind"] == other["kind"] && one["metadata"]["name"] == other["metadata"]["name"]
}

/// Whether everything in `desired` is in `live`.
fn contains(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, desired)| {
            let is_empty = desired.as_object().is_some_and(serde_json::Map::is_empty);
            live.get(key).map_or(is_empty, |live| contains(live, desired))
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live
                    .iter()
                    .zip(desired)
                    .all(|(live, desired)| contains(live, desired))
        }
        (live, desired) => live == desired,
    }
}
