//! Requests to admission while something happens to helmops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use helmops_bed::api::Api;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{NAMESPACE, Site};

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(20);
/// More say nothing new.
const SHOWN: usize = 3;

/// A valid HelmOp that no request creates.
pub fn probe() -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": "probe", "namespace": NAMESPACE },
        "spec": {
            "helm": { "repo": "https://charts.example.com", "chart": "web" },
            "targets": [{ "clusterSelector": {} }],
        },
    })
}

/// Creates a HelmOp without keeping it.
pub async fn create(api: &Api, helmop: &Value) -> Result<String> {
    let path = format!("apis/fleet.cattle.io/v1alpha1/namespaces/{NAMESPACE}/helmops?dryRun=All");
    api.call(Method::POST, &path, helmop.clone()).await
}

/// A task that makes requests until it is stopped.
pub struct AdmissionLoop {
    is_over: Arc<AtomicBool>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl AdmissionLoop {
    pub fn start(site: &Site) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (api, stop) = (site.api()?, Arc::clone(&is_over));
        let task = tokio::task::spawn_local(async move {
            let (mut accepted, mut failures) = (0, Vec::new());
            while !stop.load(Ordering::Relaxed) {
                match create(&api, &probe()).await {
                    Ok(_) => accepted += 1,
                    Err(error) => failures.push(format!("{error:#}")),
                }
                sleep(PAUSE).await;
            }
            (accepted, failures)
        });
        Ok(Self { is_over, task })
    }

    /// The number of accepted requests.
    ///
    /// # Errors
    /// If one was not; with the first of them.
    pub async fn stop(self) -> Result<usize> {
        self.is_over.store(true, Ordering::Relaxed);
        let (accepted, failures) = self.task.await.context("the requests ended")?;
        if !failures.is_empty() {
            let shown: Vec<_> = failures.iter().take(SHOWN).cloned().collect();
            bail!(
                "{} of {} failed: {}",
                failures.len(),
                failures.len() + accepted,
                shown.join("; ")
            );
        }
        Ok(accepted)
    }
}
