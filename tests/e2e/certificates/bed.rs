//! The fixture of each test.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helmops_bed::helmops::{self, ManagedWebhook, NAMESPACE};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::Metrics;
use helmops_bed::probe;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;

use super::balancer::Balancer;
use crate::harness::SOON;

/// The Secret of the manifests.
pub const SECRET: &str = "secret/helmops-webhook-tls";
/// The webhook configurations.
pub const CONFIGURATIONS: [&str; 2] = [
    "mutatingwebhookconfiguration/helmops",
    "validatingwebhookconfiguration/helmops",
];
/// A control plane, and replicas of the webhook behind a load balancer.
pub struct Bed {
    pub replicas: BTreeMap<String, ManagedWebhook>,
    pub balancer: Balancer,
    pub kubectl: Kubectl,
    pub flags: Vec<(&'static str, String)>,
    pub cluster: TestBed,
}

impl Bed {
    /// Without a replica and without webhook configurations.
    pub async fn start(flags: &[(&'static str, &str)]) -> Result<Self> {
        let cluster = helmops::control_plane(false).await?;
        Ok(Self {
            replicas: BTreeMap::new(),
            balancer: Balancer::start().await?,
            kubectl: cluster.kubectl().in_namespace(NAMESPACE),
            flags: flags
                .iter()
                .map(|(flag, value)| (*flag, (*value).to_owned()))
                .collect(),
            cluster,
        })
    }

    /// With both webhook configurations and a ready replica.
    pub async fn with_replica(flags: &[(&'static str, &str)]) -> Result<Self> {
        let mut bed = Self::start(flags).await?;
        bed.configure().await?;
        bed.add("one").await?;
        bed.until_ready("one").await?;
        Ok(bed)
    }

    pub async fn add(&mut self, name: &str) -> Result<()> {
        let command = |program: &Path| -> Command {
            let mut command = self.cluster.command(program);
            command.envs(self.flags.iter().map(|(flag, value)| (*flag, value)));
            command
        };
        let replica = helmops::start_managed_webhook(&self.cluster, name, &command).await?;
        self.balancer.add(name, replica.https, &replica.running.admin);
        self.replicas.insert(name.to_owned(), replica);
        Ok(())
    }

    pub async fn until_ready(&mut self, name: &str) -> Result<()> {
        let running = &mut self.replicas.get_mut(name).context("no such replica")?.running;
        running.process.until_ready(&running.admin, SOON).await
    }

    /// Checks once that a replica is ready.
    ///
    /// # Errors
    /// With the failed checks of `/readyz`.
    pub async fn ready(&self, name: &str) -> Result<()> {
        let url = format!("{}/readyz", self.replicas[name].running.admin);
        probe::get(&probe::client(None)?, &url).await.map(drop)
    }

    /// Terminates a replica as the kubelet does: it serves for the shutdown delay, and then exits gracefully.
    pub async fn terminate(&mut self, name: &str) -> Result<()> {
        let mut replica = self.replicas.remove(name).context("no such replica")?;
        let status = replica.running.process.terminate(SOON).await?;
        self.balancer.remove(name);
        ensure!(
            status.success(),
            "{name} ended with {status}: {}",
            replica.running.process.tail()
        );
        Ok(())
    }

    /// Applies both configurations of the manifests, without a CA bundle, with the address of the load balancer. Both fail closed,
    /// so that every failure is noticed.
    pub async fn configure(&self) -> Result<()> {
        for file in helmops::CONFIGURATIONS {
            let configuration = self.configuration(file)?;
            self.kubectl.apply(&configuration.to_string()).await?.ok()?;
        }
        Ok(())
    }

    pub fn configuration(&self, file: &str) -> Result<Value> {
        let url = format!("https://{}", self.balancer.address);
        let mut configuration = helmops::configuration_without_bundle(file, &url)?;
        configuration["webhooks"][0]["failurePolicy"] = json!("Fail");
        Ok(configuration)
    }

    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments).await?.ok()
    }

    /// Changes an object (JSON Merge Patch).
    pub async fn patch(&self, object: &str, change: &Value) -> Result<()> {
        self.run(&["patch", object, "--type=merge", "-p", &change.to_string()])
            .await?;
        Ok(())
    }

    /// The decoded content of the Secret.
    pub async fn secret(&self) -> Result<BTreeMap<String, String>> {
        let secret = self.kubectl.get(SECRET).await?.context("it does not exist")?;
        let data = secret["data"].as_object().cloned().unwrap_or_default();
        data.into_iter()
            .map(|(key, value)| Ok((key, decoded(&value)?)))
            .collect()
    }

    /// The decoded CA bundle of a configuration.
    pub async fn bundle(&self, configuration: &str) -> Result<String> {
        let found = self
            .kubectl
            .get(configuration)
            .await?
            .context("it does not exist")?;
        decoded(&found["webhooks"][0]["clientConfig"]["caBundle"])
    }

    /// Waits until the Secret is complete and both configurations have its CA bundle, and returns its content.
    pub async fn until_injected(&self) -> Result<BTreeMap<String, String>> {
        eventually("the CA bundle in both configurations", SOON, async || {
            let secret = self.secret().await?;
            for key in ["tls.crt", "tls.key", "ca.crt", "ca.key"] {
                ensure!(
                    secret.get(key).is_some_and(|text| text.contains("BEGIN")),
                    "the Secret has no {key}"
                );
            }
            for configuration in CONFIGURATIONS {
                let bundle = self.bundle(configuration).await?;
                ensure!(bundle == secret["ca.crt"], "{configuration} has {bundle:?}");
            }
            Ok(secret)
        })
        .await
    }

    /// Checks that the webhook is called, with a dry run.
    pub async fn admits(&self) -> Result<()> {
        helmops::ensure_called(&self.kubectl).await
    }

    pub async fn until_admits(&self) -> Result<()> {
        eventually("an admission", SOON, async || self.admits().await).await
    }

    pub async fn metric(&self, replica: &str, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        let admin = &self.replicas[replica].running.admin;
        let metrics = Metrics::scrape(&format!("{admin}/metrics")).await?;
        metrics.sum(name, labels).with_context(|| format!("no {name}"))
    }

    /// Asserts that no log contains a private key.
    pub fn assert_no_key_in_logs(&self, secret: &BTreeMap<String, String>) {
        for replica in self.replicas.values() {
            let log = replica.running.process.log();
            for key in ["tls.key", "ca.key"] {
                let line = secret[key].lines().nth(1).unwrap();
                assert!(!log.contains(line), "{key} is in the log");
            }
        }
    }
}

fn decoded(value: &Value) -> Result<String> {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default());
    Ok(String::from_utf8(
        bytes.map_err(|error| anyhow!("{value}: {error}"))?,
    )?)
}

/// The number of certificates in a PEM text.
pub fn certificates(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}
