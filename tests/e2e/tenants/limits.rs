//! The memory limit and the liveness probe of a pod in the manifests.

use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::helmops;
use serde_json::{Value, json};

/// The kubelet's default where a probe names no timeout, in seconds.
const DEFAULT_TIMEOUT: u64 = 1;
/// The kubelet's default where a probe names no threshold.
const DEFAULT_FAILURES: u64 = 3;

/// The limits of a container.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory, in KiB.
    pub memory: u32,
    /// How long the kubelet waits for a response of the liveness probe.
    pub timeout: Duration,
    /// How many missing responses in a row restart the container.
    pub failures: u64,
}

impl Limits {
    /// The limits in a file of the manifests.
    pub fn read(file: &str) -> Result<Self> {
        let text = std::fs::read_to_string(helmops::manifests().join("base").join(file))?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        let deployment = objects
            .iter()
            .find(|object| object["kind"] == json!("Deployment"));
        let container =
            deployment.context("no Deployment")?["spec"]["template"]["spec"]["containers"][0].clone();
        let memory = container["resources"]["limits"]["memory"]
            .as_str()
            .context("no limit of memory")?;
        let probe = &container["livenessProbe"];
        let or = |field: &str, default| probe[field].as_u64().unwrap_or(default);
        Ok(Self {
            memory: kib(memory).with_context(|| format!("a limit of {memory}"))?,
            timeout: Duration::from_secs(or("timeoutSeconds", DEFAULT_TIMEOUT)),
            failures: or("failureThreshold", DEFAULT_FAILURES),
        })
    }
}

fn kib(quantity: &str) -> Option<u32> {
    quantity
        .strip_suffix("Mi")?
        .parse::<u32>()
        .ok()?
        .checked_mul(1024)
}
