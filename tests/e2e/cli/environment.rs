//! A workspace with a cluster whose agent runs, and `kubectl helmop` in it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::command::{Output, run};
use helmops_bed::helm::Helm;
use helmops_bed::test_bed::binary;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::agent::{self, Agent, Permissions};
use crate::harness::{SOON, standalone};

/// A command that fetches and renders a chart.
const DEADLINE: Duration = Duration::from_mins(1);

/// A workspace with one cluster, `c0`, whose agent runs. The control plane is both clusters.
pub struct Environment {
    pub helmops: standalone::Fixture,
    pub cluster: agent::Fixture,
    pub agent: Agent,
}

impl Environment {
    pub async fn new(prefix: &str) -> Self {
        let helmops = standalone::Fixture::new(prefix, 1).await;
        let bed = &helmops.suite.bed;
        let cluster = agent::Fixture::on(bed.clone().into(), prefix, Permissions::ClusterAdmin).await;
        let cluster = cluster.unwrap();
        let (namespace, workspace) = (&helmops.clusters[0], helmops.namespace.name());
        eventually("the account of the agent", SOON, async || {
            cluster.join_as(namespace, workspace, "c0").await
        })
        .await
        .unwrap();
        let agent = cluster.start().await;
        Self {
            helmops,
            cluster,
            agent,
        }
    }

    /// The namespace of the HelmOps.
    pub fn workspace(&self) -> &str {
        self.helmops.namespace.name()
    }

    /// The namespace of the releases.
    pub fn apps(&self) -> &str {
        self.cluster.apps.name()
    }

    /// Runs `kubectl helmop` in the workspace.
    pub async fn helmop(&self, arguments: &[&str]) -> Output {
        self.helmop_with(arguments, "").await
    }

    /// The same, with a text as its standard input.
    pub async fn helmop_with(&self, arguments: &[&str], input: &str) -> Output {
        let bed = &self.helmops.suite.bed;
        let plugin = binary("kubectl-helmop").unwrap();
        let folder = |path: &Path| path.parent().unwrap().to_owned();
        let path = std::env::join_paths([folder(&plugin), folder(&bed.tools.helm())]).unwrap();
        let mut command = Command::new(bed.tools.kubectl());
        command
            .arg("helmop")
            .args(arguments)
            .args(["--namespace", self.workspace()])
            .env("PATH", path)
            .env("KUBECONFIG", &bed.kubeconfig)
            .current_dir(&bed.directory);
        run(command, input, DEADLINE).await.unwrap()
    }

    /// Runs `kubectl helmop`, which must succeed, and returns what it prints.
    pub async fn ok(&self, arguments: &[&str]) -> String {
        self.helmop(arguments).await.ok().unwrap()
    }

    /// Runs `kubectl helmop`, which must fail with this exit code, and returns what it prints on standard error.
    pub async fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.helmop(arguments).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        output.stderr
    }

    /// Helm of a user, in the namespace of the releases.
    pub async fn user_helm(&self, arguments: &[&str]) -> String {
        let bed = &self.helmops.suite.bed;
        let kubeconfig = bed.kubeconfig.to_str().unwrap();
        let mut all = arguments.to_vec();
        all.extend(["--namespace", self.apps(), "--kubeconfig", kubeconfig]);
        Helm::new(&bed.tools, &bed.directory).run(&all).await.unwrap()
    }

    /// Waits until the BundleDeployment of a HelmOp is deployed as this revision.
    pub async fn until_revision(&self, helmop: &str, release: &str, revision: u64) -> Value {
        let expected = format!("{}/{release}:{revision}", self.apps());
        self.helmops
            .until_on(0, &format!("bundledeployment/{helmop}"), |found| {
                let status = &found["status"];
                ensure!(
                    status["appliedDeploymentID"] == found["spec"]["deploymentID"],
                    "{}",
                    status["conditions"]
                );
                ensure!(status["release"] == expected, "it is {}", status["release"]);
                Ok(())
            })
            .await
    }
}

impl agent::Fixture {
    /// Gives the agent the access to the namespace of a Cluster of the controller.
    async fn join_as(&self, namespace: &str, workspace: &str, cluster: &str) -> Result<()> {
        let token = self.token(namespace, 3600).await?;
        let kubeconfig = agent::kubeconfig(&self.management, &token, namespace);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleet-agent" },
            "stringData": {
                "deploymentNamespace": namespace, "clusterNamespace": workspace, "clusterName": cluster,
                "kubeconfig": kubeconfig,
            },
        });
        let applied = self.system.kubectl().apply(&secret.to_string()).await?;
        applied.ok().context("the Secret was not accepted")?;
        Ok(())
    }
}
