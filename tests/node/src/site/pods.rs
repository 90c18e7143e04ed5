//! The pods of helmops and their processes.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Site;
use crate::node::{cgroup, is_true};

/// Pods of helmops.
const LABEL: &str = "app.kubernetes.io%2Fpart-of%3Dhelmops";

impl Site {
    /// All pods of helmops that run or will run.
    pub async fn pods(&self) -> Result<Vec<Value>> {
        self.list(&format!("api/v1/pods?labelSelector={LABEL}")).await
    }

    /// A list of objects by its path.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.api()?.get(path).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// An error unless the pods of helmops are as many as the Deployments want, and all are ready.
    pub async fn settled(&self) -> Result<()> {
        let deployments = self
            .list(&format!("apis/apps/v1/deployments?labelSelector={LABEL}"))
            .await?;
        ensure!(!deployments.is_empty(), "helmops is not installed");
        for deployment in &deployments {
            let (spec, status) = (&deployment["spec"], &deployment["status"]);
            let is_current = status["observedGeneration"] == deployment["metadata"]["generation"];
            ensure!(
                is_current
                    && status["updatedReplicas"] == spec["replicas"]
                    && status["replicas"] == spec["replicas"],
                "Deployment {} has {status}",
                deployment["metadata"]["name"]
            );
        }
        for pod in self.pods().await? {
            let name = &pod["metadata"]["name"];
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "pod {name} ends");
            // An evicted pod stays until it is deleted.
            let is_over = matches!(phase, "Failed" | "Succeeded");
            ensure!(
                is_over || is_true(&pod, "Ready"),
                "pod {name} is not ready: {}",
                pod["status"]
            );
        }
        Ok(())
    }

    /// The first running pod of a process such as `helmops-agent`.
    pub async fn pod(&self, process: &str) -> Result<Value> {
        let path = format!(
            "api/v1/pods?labelSelector=app.kubernetes.io%2Fname%3D{process}&fieldSelector=status.phase%3DRunning"
        );
        let mut pods = self.list(&path).await?;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.into_iter()
            .next()
            .with_context(|| format!("{process} has no running pod"))
    }

    /// The address of the pod of a process.
    pub async fn address(&self, process: &str) -> Result<String> {
        let pod = self.pod(process).await?;
        Ok(pod["status"]["podIP"]
            .as_str()
            .context("the pod has no address")?
            .to_owned())
    }

    /// The id of the container of a process.
    pub async fn container(&self, process: &str) -> Result<String> {
        container(&self.pod(process).await?)
    }

    /// The processes of the container of a process, the first one first.
    pub async fn processes(&self, process: &str) -> Result<Vec<u32>> {
        cgroup::processes(&self.container(process).await?)
    }

    /// How often containers of helmops have restarted.
    pub async fn restarts(&self) -> Result<u64> {
        let pods = self.pods().await?;
        let counts = pods
            .iter()
            .map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64());
        Ok(counts.flatten().sum())
    }
}

/// The id of the only container of a pod.
pub fn container(pod: &Value) -> Result<String> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str();
    let id = id.and_then(|id| id.rsplit('/').next());
    Ok(id.context("the container has not started")?.to_owned())
}
