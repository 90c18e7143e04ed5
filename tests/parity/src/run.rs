//! One chart through installation, upgrade and removal, on both sides.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::archive::Archive;
use crate::by_helm::{self, Helm};
use crate::by_helmops::{HelmOp, Processes};
use crate::compare::{self, Difference, Kind};
use crate::random::Random;
use crate::record;
use crate::results::{ChartResult, StepResult};
use crate::side::{Side, unready};

/// Controllers create objects after a release, such as the volumes of a StatefulSet, and remove them after it.
const SETTLED: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(500);
/// Between two renderings, so that times in seconds differ.
const TICK: Duration = Duration::from_millis(1_100);

/// Both control planes.
#[derive(Debug)]
pub struct Sides {
    pub helm: Side,
    pub helmops: Side,
    pub processes: Processes,
}

/// How charts are deployed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `lifecycle.install.crds` and `lifecycle.upgrade.crds` of the HelmOps.
    pub crds: Option<String>,
    /// Whether only one chart runs at a time, so that the CPU time of helmops is that of the chart.
    pub is_alone: bool,
}

/// A chart that is ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub archive: Archive,
    /// The URL of its repository.
    pub repo: String,
    /// The name of the release, of its namespace and of the HelmOp.
    pub name: String,
    /// What Helm renders with default values; empty if it cannot.
    pub rendered: Vec<Value>,
    /// When it was rendered.
    pub rendered_at: Instant,
}

struct Run<'r> {
    sides: &'r Sides,
    chart: &'r Prepared,
    settings: &'r Settings,
    helm: Helm<'r>,
    helmop: HelmOp<'r>,
    folder: &'r Path,
    random: Random,
    result: ChartResult,
}

/// Runs a chart. What cannot be compared is in the result.
///
/// # Errors
/// If a control plane cannot be reached.
pub async fn chart(
    sides: &Sides,
    chart: &Prepared,
    settings: &Settings,
    folder: &Path,
) -> Result<ChartResult> {
    let before = [&sides.helm, &sides.helmops].map(|side| side.existing(&chart.name, &chart.rendered));
    let [before_helm, before_helmops] = before;
    let before: [BTreeSet<String>; 2] = [before_helm.await?, before_helmops.await?];
    let api = sides.helmops.api()?;
    let helm = Helm {
        tools: &sides.helm.bed.tools,
        kubeconfig: &sides.helm.bed.kubeconfig,
        archive: &chart.archive.path,
        release: &chart.name,
    };
    let helmop = HelmOp {
        api: &api,
        archive: &chart.archive,
        repo: &chart.repo,
        name: &chart.name,
        crds: settings.crds.as_deref(),
    };
    let mut run = Run {
        sides,
        chart,
        settings,
        helm,
        helmop,
        folder,
        random: Random::default(),
        result: ChartResult {
            file: chart.archive.file.clone(),
            bytes: chart.archive.bytes,
            ..ChartResult::default()
        },
    };
    if let Err(error) = run.all().await {
        run.result.broken = Some(format!("{error:#}"));
        // Whatever still runs for it must not disturb the next chart.
        let _ = run.helmop.remove().await;
    }
    let result = run.result;
    sides.helm.clean(&chart.name, &chart.rendered, &before[0]).await?;
    sides
        .helmops
        .clean(&chart.name, &chart.rendered, &before[1])
        .await?;
    Ok(result)
}

impl Run<'_> {
    async fn all(&mut self) -> Result<()> {
        let defaults = self.values("defaults", &json!({}))?;
        if !self.chart.rendered.is_empty() {
            sleep_until(self.chart.rendered_at + TICK).await;
            let again = self.helm.render(&defaults).await?;
            self.random = Random::of(&self.chart.rendered, &again, &self.chart.name);
            self.result.has_random_values = !self.random.is_empty();
        }
        let cpu = self.sides.processes.cpu()?;
        let by_helm = self.helm.install(&defaults).await?;
        let installed = self.helmop.install(&json!({})).await?;
        let step = self.step(
            "install",
            &by_helm,
            installed.error.clone(),
            installed.elapsed,
            cpu,
        )?;
        let is_deployed = by_helm.error.is_none() && installed.error.is_none();
        self.compared(step, is_deployed).await?;
        if is_deployed {
            let changed = self.values("changed", &self.chart.archive.changed)?;
            let cpu = self.sides.processes.cpu()?;
            let by_helm = self.helm.upgrade(&changed).await?;
            let upgraded = self
                .helmop
                .upgrade(&installed, &self.chart.archive.changed)
                .await?;
            let step = self.step("upgrade", &by_helm, upgraded.error.clone(), upgraded.elapsed, cpu)?;
            self.compared(step, by_helm.error.is_none() && upgraded.error.is_none())
                .await?;
        }
        self.remove().await
    }

    async fn remove(&mut self) -> Result<()> {
        let api = self.sides.helm.api()?;
        let by_helm = match record::newest(&api, &self.chart.name, &self.chart.name).await? {
            Some(_) => self.helm.uninstall().await?,
            None => by_helm::Ended {
                error: None,
                elapsed: Duration::ZERO,
                cpu: Duration::ZERO,
            },
        };
        let cpu = self.sides.processes.cpu()?;
        let elapsed = self.helmop.remove().await?;
        let mut step = self.step("remove", &by_helm, None, elapsed, cpu)?;
        // What only one side has deployed, only that side leaves something of.
        if self
            .result
            .steps
            .iter()
            .all(|step| step.helm_error.is_some() == step.helmops_error.is_some())
        {
            self.compare_objects(&mut step).await?;
        }
        self.result.steps.push(step);
        Ok(())
    }

    fn step(
        &self,
        name: &str,
        by_helm: &by_helm::Ended,
        error: Option<String>,
        elapsed: Duration,
        cpu: Duration,
    ) -> Result<StepResult> {
        let used = self.sides.processes.cpu()?.saturating_sub(cpu);
        Ok(StepResult {
            name: name.to_owned(),
            differences: compare::errors(by_helm.error.as_deref(), error.as_deref())
                .into_iter()
                .collect(),
            helm_error: by_helm.error.clone(),
            helmops_error: error,
            helm_seconds: by_helm.elapsed.as_secs_f64(),
            helm_cpu: by_helm.cpu.as_secs_f64(),
            helmops_seconds: elapsed.as_secs_f64(),
            helmops_cpu: self.settings.is_alone.then_some(used.as_secs_f64()),
            ..StepResult::default()
        })
    }

    /// Adds a step, with what differs after it if both sides have deployed the chart.
    async fn compared(&mut self, mut step: StepResult, is_deployed: bool) -> Result<()> {
        if is_deployed {
            let newest = |side: &Side| {
                let api = side.api();
                let name = self.chart.name.clone();
                async move { record::newest(&api?, &name, &name).await }
            };
            let helm = newest(&self.sides.helm).await?.context("Helm has no record")?;
            let helmops = newest(&self.sides.helmops)
                .await?
                .context("helmops has no record")?;
            step.differences
                .extend(compare::records(&helm, &helmops, &self.chart.name, &self.random));
            let not_ready = self.helmop.unready().await?;
            self.compare_objects(&mut step).await?;
            self.compare_readiness(&mut step, not_ready).await?;
        }
        self.result.steps.push(step);
        Ok(())
    }

    async fn compare_objects(&self, step: &mut StepResult) -> Result<()> {
        let end = Instant::now() + SETTLED;
        loop {
            let helm = self
                .sides
                .helm
                .objects(&self.chart.name, &self.chart.rendered)
                .await?;
            let helmops = self
                .sides
                .helmops
                .objects(&self.chart.name, &self.chart.rendered)
                .await?;
            step.objects = helm.len();
            let differences = compare::live(helm, helmops, &self.random);
            if differences.is_empty() || Instant::now() > end {
                step.differences.extend(differences);
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    async fn compare_readiness(&self, step: &mut StepResult, not_ready: Option<String>) -> Result<()> {
        let objects = self
            .sides
            .helm
            .objects(&self.chart.name, &self.chart.rendered)
            .await?;
        let by_helm = unready(&objects);
        match not_ready {
            None if by_helm.is_empty() => {}
            None => step.differences.push(Difference {
                kind: Kind::Readiness,
                text: format!("the HelmOp is ready, but not {}", by_helm.join(", ")),
            }),
            Some(text)
                if text.contains("\"patch\"")
                    || text.contains("\"missing\"")
                    || text.contains("\"delete\"") =>
            {
                step.differences.push(Difference {
                    kind: Kind::Drift,
                    text,
                });
            }
            Some(text) => step.not_ready = Some(text),
        }
        Ok(())
    }

    fn values(&self, name: &str, values: &Value) -> Result<std::path::PathBuf> {
        let path = self.folder.join(format!("{name}.json"));
        std::fs::write(&path, values.to_string())?;
        Ok(path)
    }
}
