//! What the agent has done: its runs of Helm, records, Events, objects and writes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::api::Api;
use helmops_bed::audit::{self, Write};
use helmops_bed::tools::agent_helm;
use helmops_bed::wait::eventually;
use helmops_release::record::{Record, secret_name};
use serde_json::{Value, json};

use super::{ACCOUNT, Fixture, user};
use crate::harness::{SOON, run, until_none};

/// A program that writes the action and the release of each run to the file `runs`, and then is Helm, after a delay if there is one.
pub(super) async fn helm_that_counts(folder: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let (program, runs) = (folder.join("helm"), folder.join("runs"));
    let helm = agent_helm().await?;
    let script = format!(
        "#!/bin/sh\necho \"$1 $2\" >> '{}'\nif read -r delay 2> /dev/null < '{}'-\"$1\"; then sleep \"$delay\"; fi\nexec '{}' \"$@\"\n",
        runs.display(),
        folder.join(DELAY).display(),
        helm.display()
    );
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// The file with the delay of an action of Helm in seconds, before the name of the action.
const DELAY: &str = "delay";

impl Fixture {
    /// The Events of the agent in the namespace of the releases: reason and text.
    pub async fn events(&self) -> Vec<(String, String)> {
        let path = format!("apis/events.k8s.io/v1/namespaces/{}/events", self.apps.name());
        let list = self.apps.kubectl().api().unwrap().get(&path).await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = list["items"].as_array().unwrap().iter();
        events
            .filter(|event| event["reportingController"] == ACCOUNT)
            .map(|event| (text(&event["reason"]), text(&event["note"])))
            .collect()
    }

    /// Waits for an Event of the agent with this reason, and returns it: reason and text.
    pub async fn event(&self, reason: &str) -> (String, String) {
        eventually(&format!("an Event {reason}"), SOON, async || {
            let events = self.events().await;
            let found = events.iter().find(|(found, _)| found == reason);
            found.cloned().with_context(|| format!("there are {events:?}"))
        })
        .await
        .unwrap()
    }

    /// The runs of Helm so far, such as `install web`.
    pub fn helm_runs(&self) -> Vec<String> {
        let runs = std::fs::read_to_string(self.files.path().join("runs")).unwrap_or_default();
        runs.lines()
            .filter(|run| !run.starts_with("version"))
            .map(str::to_owned)
            .collect()
    }

    /// The runs of Helm for a release, such as `install`, without the rendering before an installation that would be uninstalled if it
    /// fails: it shows which objects exist already.
    pub fn helm_runs_of(&self, release: &str) -> Vec<String> {
        let runs = self.helm_runs();
        let mut runs: Vec<_> = runs
            .iter()
            .filter_map(|run| run.strip_suffix(&format!(" {release}")))
            .map(str::to_owned)
            .collect();
        for at in (1..runs.len()).rev() {
            if runs[at] == "install" && runs[at - 1] == "render" {
                runs.remove(at - 1);
            }
        }
        runs
    }

    /// Lets each run of an action of Helm take longer.
    pub fn delay_helm(&self, action: &str, seconds: u8) {
        let file = self.files.path().join(format!("{DELAY}-{action}"));
        std::fs::write(file, format!("{seconds}\n")).unwrap();
    }

    /// The writes of the agent to the workload cluster, without its Leases.
    pub fn downstream_writes(&self) -> Vec<Write> {
        let mut writes = audit::writes_of(&self.bed.audit_log(), &user(self.system.name())).unwrap();
        writes.retain(|write| write.resource != "leases");
        writes
    }

    /// The writes of the agent to the management cluster, without its heartbeat.
    pub fn upstream_writes(&self) -> Vec<Write> {
        let mut writes = audit::writes_of(&self.bed.audit_log(), &user(self.upstream.name())).unwrap();
        writes.retain(|write| write.resource != "clusters");
        writes
    }

    /// The requests of the agent and of Helm so far, to both clusters.
    pub fn requests(&self) -> Vec<audit::Request> {
        audit::requests_of(&self.bed.audit_log(), &user(self.system.name())).unwrap()
    }

    /// How often the agent itself, and not Helm, has listed the records of a release.
    pub fn lists_of_records(&self, release: &str) -> usize {
        let requests = self.requests();
        let (secrets, selected) = (
            format!("/namespaces/{}/secrets?", self.apps.name()),
            format!("name%3D{release}&"),
        );
        let is_list = |request: &&audit::Request| {
            request.verb == "list"
                && request.uri.contains(&secrets)
                && request.uri.contains(&selected)
                && request.user_agent.starts_with("helmops-agent")
        };
        requests.iter().filter(is_list).count()
    }

    /// The value `msg` in the ConfigMap of a release of the chart `web`.
    pub async fn msg(&self, release: &str) -> Option<String> {
        let found = self.object(&format!("configmap/{release}-config")).await?;
        Some(found["data"]["msg"].as_str()?.to_owned())
    }

    /// Waits until the ConfigMap of a release has this value.
    pub async fn until_msg(&self, release: &str, expected: &str) {
        eventually(&format!("msg {expected}"), SOON, async || {
            let msg = self.msg(release).await;
            ensure!(msg.as_deref() == Some(expected), "it is {msg:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// An object of the namespace of the releases.
    pub async fn object(&self, object: &str) -> Option<Value> {
        self.apps.kubectl().get(object).await.unwrap()
    }

    /// Waits until there is no such object in the namespace of the releases.
    pub async fn until_none(&self, object: &str) {
        until_none(&self.apps, object).await;
    }

    /// kubectl in the namespace of the releases.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        run(&self.apps, arguments).await
    }

    /// The Secret of a record, with the record.
    pub async fn record(&self, release: &str, revision: u64) -> Option<(Value, Record)> {
        let secret = self
            .object(&format!("secret/{}", secret_name(release, revision)))
            .await?;
        let data = STANDARD.decode(secret["data"]["release"].as_str()?).ok()?;
        Some((secret, Record::decode(&data).ok()?))
    }

    /// Waits until a revision has this status.
    pub async fn until_status(&self, release: &str, revision: u64, status: &str) -> Record {
        eventually(
            &format!("revision {revision} of {release} to be {status}"),
            SOON,
            async || {
                let (_, record) = self.record(release, revision).await.context("no such record")?;
                let found = record.info.status;
                ensure!(found.as_str() == status, "it is {found}");
                Ok(record)
            },
        )
        .await
        .unwrap()
    }

    /// Replaces the content of a record.
    pub async fn write_record(&self, record: &Record) {
        let name = record.secret_name();
        let data = String::from_utf8(record.encode().unwrap()).unwrap();
        let labels = record.labels(&[].into(), 1_700_000_000);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": { "name": name, "labels": labels }, "stringData": { "release": data },
        });
        let applied = self.apps.kubectl().apply(&secret.to_string()).await;
        applied.unwrap().ok().unwrap();
    }

    /// The Secrets of all records.
    pub async fn records(&self) -> Vec<String> {
        records_in(&self.api, self.apps.name()).await
    }
}

/// The Secrets of all records in a namespace.
pub async fn records_in(api: &Api, namespace: &str) -> Vec<String> {
    let path = format!("api/v1/namespaces/{namespace}/secrets?labelSelector=owner=helm");
    let secrets = api.get(&path).await.unwrap();
    let name = |secret: &Value| format!("secret/{}", secret["metadata"]["name"].as_str().unwrap());
    secrets["items"].as_array().unwrap().iter().map(name).collect()
}
