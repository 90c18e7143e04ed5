//! A chart as helmops deploys it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helmops_bed::api::Api;
use helmops_bed::helmops::{self, Running, Webhook};
use helmops_bed::test_bed::TestBed;
use helmops_bed::usage;
use helmops_bed::wait::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{archive::Archive, record};

/// The namespace of the HelmOps, and of the Cluster that is the control plane itself.
const WORKSPACE: &str = "fleet-local";
/// Longer than Helm waits for a hook.
const DEADLINE: Duration = Duration::from_mins(6);
/// Helm removes the largest chart in seconds; what stays longer stays for good.
const GONE: Duration = Duration::from_mins(2);
/// Simulated pods are ready within a second; what is not after this time stays so.
const READY: Duration = Duration::from_secs(5);

/// The processes of helmops.
#[derive(Debug)]
pub struct Processes {
    webhook: Webhook,
    controller: Running,
    agent: Running,
}

/// The end of a deployment.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The error that the HelmOp reports, if it failed.
    pub error: Option<String>,
    /// From the change of the HelmOp until its end.
    pub elapsed: Duration,
    deployment: String,
}

impl Processes {
    /// Starts the processes of helmops in a control plane.
    ///
    /// # Errors
    /// If one does not start.
    pub async fn start(bed: &TestBed) -> Result<Self> {
        let command = |program: &Path| bed.command(program);
        let webhook = helmops::start_webhook(bed, "webhook", &command).await?;
        helmops::register_webhook(&bed.kubectl(), &webhook).await?;
        Ok(Self {
            webhook,
            controller: helmops::start_standalone_controller(bed, "controller", &command).await?,
            agent: helmops::start_local_agent(bed, "agent", &command).await?,
        })
    }

    /// The CPU time of the processes, and of the Helm that the agent runs.
    ///
    /// # Errors
    /// If a process has ended.
    pub fn cpu(&self) -> Result<Duration> {
        let agent = self.agent.process.pid()?;
        let mut sum = usage::cpu_time_of_children(agent)?;
        for process in [
            &self.webhook.running.process,
            &self.controller.process,
            &self.agent.process,
        ] {
            sum += usage::cpu_time(process.pid()?).with_context(|| process.tail())?;
        }
        Ok(sum)
    }
}

/// The HelmOp of a chart.
#[derive(Clone, Copy)]
pub struct HelmOp<'r> {
    pub api: &'r Api,
    pub archive: &'r Archive,
    /// The repository of the chart.
    pub repo: &'r str,
    /// The name of the HelmOp, of the release and of its namespace.
    pub name: &'r str,
    /// `lifecycle.install.crds` and `lifecycle.upgrade.crds`; by default, Helm installs CRDs.
    pub crds: Option<&'r str>,
}

impl HelmOp<'_> {
    /// Creates the HelmOp, and waits until it is deployed or has failed.
    ///
    /// # Errors
    /// If neither is so in time.
    pub async fn install(&self, values: &Value) -> Result<Ended> {
        let mut spec = json!({
            "defaultNamespace": self.name,
            // As Helm does; by default, CRDs in templates stay.
            "deleteCRDResources": true,
            "helm": {
                "repo": self.repo, "chart": self.archive.chart, "version": self.archive.version,
                "releaseName": self.name, "values": values,
            },
            "targets": [{ "clusterSelector": {} }],
        });
        if let Some(crds) = self.crds
            && let Some(fields) = spec.as_object_mut()
        {
            let lifecycle = json!({ "install": { "crds": crds }, "upgrade": { "crds": crds } });
            fields.insert("lifecycle".to_owned(), lifecycle);
        }
        let helmop = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp",
            "metadata": { "name": self.name, "namespace": WORKSPACE }, "spec": spec,
        });
        let start = Instant::now();
        let path = format!("apis/fleet.cattle.io/v1alpha1/namespaces/{WORKSPACE}/helmops");
        let rejection = self.api.rejection(Method::POST, &path, &helmop).await?;
        if !rejection.is_empty() {
            return Ok(Ended {
                error: Some(rejection),
                elapsed: start.elapsed(),
                deployment: String::new(),
            });
        }
        self.until_settled("", start).await
    }

    /// Changes the values, and waits until they are deployed or have failed.
    ///
    /// # Errors
    /// If neither is so in time.
    pub async fn upgrade(&self, installed: &Ended, values: &Value) -> Result<Ended> {
        let start = Instant::now();
        let change = json!({ "spec": { "helm": { "values": values } } });
        self.api.patch(WORKSPACE, "helmops", self.name, change).await?;
        self.until_settled(&installed.deployment, start).await
    }

    /// Deletes the HelmOp, and waits until its release is gone.
    ///
    /// # Errors
    /// If it stays.
    pub async fn remove(&self) -> Result<Duration> {
        let start = Instant::now();
        let path = format!(
            "apis/fleet.cattle.io/v1alpha1/namespaces/{WORKSPACE}/helmops/{}",
            self.name
        );
        self.api.status_of(Method::DELETE, &path, &Value::Null).await?;
        eventually("the end of the release", GONE, async || {
            if let Some(deployment) = self.deployment().await? {
                bail!("BundleDeployment: {}", conditions(&deployment));
            }
            match record::newest(self.api, self.name, self.name).await? {
                None => Ok(()),
                Some(record) => bail!("revision {} is {}", record.revision, record.status),
            }
        })
        .await?;
        Ok(start.elapsed())
    }

    /// Waits a while until the deployment is ready; returns why it is not.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn unready(&self) -> Result<Option<String>> {
        let ready = eventually("readiness", READY, async || {
            let deployment = self.deployment().await?.context("there is no BundleDeployment")?;
            let is = |name: &str| deployment.pointer(&format!("/status/{name}")) == Some(&Value::Bool(true));
            if is("ready") && is("nonModified") {
                return Ok(());
            }
            let field = |name: &str| {
                deployment
                    .pointer(&format!("/status/{name}"))
                    .map(Value::to_string)
            };
            let fields: String = ["nonReadyStatus", "modifiedStatus"]
                .into_iter()
                .filter_map(field)
                .collect();
            bail!(
                "{}",
                if fields.is_empty() {
                    conditions(&deployment)
                } else {
                    fields
                }
            )
        })
        .await;
        Ok(ready.err().map(|error| format!("{:#}", error.root_cause())))
    }

    async fn until_settled(&self, before: &str, start: Instant) -> Result<Ended> {
        let (error, deployment) = eventually("a deployment", DEADLINE, async || {
            let Some(deployment) = self.deployment().await? else {
                return match self.refused().await? {
                    Some(error) => Ok((Some(error), String::new())),
                    None => bail!("there is no BundleDeployment"),
                };
            };
            let text = |pointer: &str| {
                deployment
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let wanted = text("/spec/deploymentID");
            if wanted == before {
                bail!("the BundleDeployment is not changed");
            }
            if let Some(error) = failure(&deployment) {
                return Ok((Some(error), wanted.to_owned()));
            }
            if text("/status/appliedDeploymentID") != wanted {
                bail!("{}", conditions(&deployment));
            }
            Ok((None, wanted.to_owned()))
        })
        .await?;
        Ok(Ended {
            error,
            elapsed: start.elapsed(),
            deployment,
        })
    }

    async fn deployment(&self) -> Result<Option<Value>> {
        let labels = format!("fleet.cattle.io/bundle-name={}", self.name);
        Ok(self
            .api
            .list_all("bundledeployments", &labels)
            .await?
            .into_iter()
            .next())
    }

    /// The message of a HelmOp that gets no deployment.
    async fn refused(&self) -> Result<Option<String>> {
        let path = format!(
            "apis/fleet.cattle.io/v1alpha1/namespaces/{WORKSPACE}/helmops/{}",
            self.name
        );
        let helmop = self.api.get(&path).await?;
        let conditions = helmop.pointer("/status/conditions").and_then(Value::as_array);
        let mut failed = conditions.into_iter().flatten().filter(|condition| {
            let is = |field: &str, text: &str| condition.get(field).and_then(Value::as_str) == Some(text);
            is("status", "False")
                && (is("type", "Accepted") || is("type", "Ready") && !is("reason", "Progressing"))
        });
        Ok(failed.find_map(|condition| Some(condition.get("message")?.as_str()?.to_owned())))
    }
}

/// The message of a condition that says that the deployment has failed.
fn failure(deployment: &Value) -> Option<String> {
    let conditions = deployment.pointer("/status/conditions")?.as_array()?;
    let failed = conditions.iter().find(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        text("status") == "False"
            && ["Installed", "Deployed"].contains(&text("type"))
            && !text("message").is_empty()
    })?;
    Some(failed.get("message")?.as_str()?.to_owned())
}

fn conditions(deployment: &Value) -> String {
    let conditions = deployment.pointer("/status/conditions");
    conditions.map(Value::to_string).unwrap_or_default()
}
