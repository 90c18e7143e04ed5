//! Runs charts, several at a time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use futures::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops;
use helmops_bed::tools::Tools;
use tokio::time::Instant;

use crate::archive::{Archive, identity};
use crate::by_helm::Helm;
use crate::by_helmops::Processes;
use crate::claims::{Claims, next};
use crate::results::{ChartResult, Results};
use crate::run::{Prepared, Settings, Sides, chart};
use crate::side::Side;

/// Archives that are read ahead: a chart that shares nothing with those that run is chosen among them.
const AHEAD: usize = 24;

/// Compares charts on two control planes, which it starts, and adds their results.
///
/// # Errors
/// If a control plane does not start or cannot be reached.
pub async fn compare(
    waiting: Vec<PathBuf>,
    parallel: usize,
    settings: &Settings,
    results: &Results,
) -> Result<()> {
    let tools = Tools::prepare().await?;
    let folder = tempfile::tempdir()?;
    let bed = helmops::local_control_plane(false).await?;
    let options = Options {
        nodes: true,
        ..Options::default()
    };
    let sides = Sides {
        helm: Side::new(bed.start_beside(&options).await?),
        processes: Processes::start(&bed).await?,
        helmops: Side::new(bed),
    };
    let server = ChartServer::http(folder.path()).await?;
    let mut queue = Queue {
        tools,
        folder: folder.path(),
        url: server.url(),
        total: waiting.len(),
        unread: waiting.into(),
        ready: VecDeque::new(),
        number: 0,
    };
    let mut running: Vec<(String, Claims)> = Vec::new();
    let mut tasks: FuturesUnordered<LocalBoxFuture<'_, Result<ChartResult>>> = FuturesUnordered::new();
    let mut done = 0;
    loop {
        while tasks.len() < parallel {
            let claims: Vec<_> = running.iter().map(|(_, claims)| claims.clone()).collect();
            let Some((prepared, claims)) = queue.next(&claims, results).await? else {
                break;
            };
            running.push((prepared.archive.file.clone(), claims));
            let sides = &sides;
            tasks.push(
                async move {
                    let folder = tempfile::tempdir()?;
                    chart(sides, &prepared, settings, folder.path())
                        .await
                        .with_context(|| prepared.archive.file.clone())
                }
                .boxed_local(),
            );
        }
        let Some(result) = tasks.next().await else {
            return Ok(());
        };
        let result = result?;
        running.retain(|(file, _)| *file != result.file);
        done += 1;
        eprintln!("{done}/{} {}", queue.total, line(&result));
        results.add(&result)?;
    }
}

/// One line about a chart while others run.
fn line(result: &ChartResult) -> String {
    let differences = result
        .steps
        .iter()
        .map(|step| step.differences.len())
        .sum::<usize>();
    let end = match (&result.broken, differences) {
        (Some(broken), _) => format!("not compared: {broken}"),
        (None, 0) if result.steps.iter().any(|step| step.helm_error.is_some()) => {
            "equal (fails in both)".to_owned()
        }
        (None, 0) => "equal".to_owned(),
        (None, number) => format!("{number} differences"),
    };
    format!("{}: {end}", result.file)
}

/// The charts that are still to be run.
struct Queue<'q> {
    tools: Tools,
    folder: &'q Path,
    url: String,
    total: usize,
    unread: VecDeque<PathBuf>,
    ready: VecDeque<(Prepared, Claims)>,
    number: usize,
}

impl Queue<'_> {
    /// The next chart that may run beside others.
    async fn next(&mut self, running: &[Claims], results: &Results) -> Result<Option<(Prepared, Claims)>> {
        while self.ready.len() < AHEAD
            && let Some(path) = self.unread.pop_front()
        {
            self.number += 1;
            match self.prepare(&path).await {
                Ok(ready) => self.ready.push_back(ready),
                Err(error) => {
                    let (file, bytes) = identity(&path)?;
                    results.add(&ChartResult {
                        file,
                        bytes,
                        broken: Some(format!("Helm cannot read it: {error:#}")),
                        ..ChartResult::default()
                    })?;
                }
            }
        }
        // The first one is not overtaken forever: when all others have ended, it runs.
        let waiting: Vec<_> = self.ready.iter().map(|(_, claims)| claims).collect();
        let index = next(&waiting, running);
        Ok(index.and_then(|index| self.ready.remove(index)))
    }

    async fn prepare(&self, path: &Path) -> Result<(Prepared, Claims)> {
        let archive = Archive::read(&self.tools, path).await?;
        let name = format!("p{}-{}", self.number, short(&archive.chart));
        let folder = self.folder.join(&name);
        archive.publish(&self.tools, &folder).await?;
        let values = self.folder.join("defaults.json");
        std::fs::write(&values, "{}")?;
        let helm = Helm {
            tools: &self.tools,
            kubeconfig: Path::new(""),
            archive: &archive.path,
            release: &name,
        };
        // One that cannot be rendered fails on both sides.
        let rendered = helm.render(&values).await.unwrap_or_default();
        let rendered_at = Instant::now();
        let claims = Claims::of(&rendered, &name);
        let repo = format!("{}/{name}", self.url);
        Ok((
            Prepared {
                archive,
                repo,
                name,
                rendered,
                rendered_at,
            },
            claims,
        ))
    }
}

/// What of the name of a chart is in that of the release.
fn short(chart: &str) -> String {
    let name: String = chart
        .to_lowercase()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .take(20)
        .collect();
    name.trim_matches('-').to_owned()
}
