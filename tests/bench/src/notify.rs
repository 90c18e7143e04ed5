//! Benchmark of the notifier: many HelmOps that fail in one outage, a restart in the middle of many messages, and idling.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::sink::Sink;
use helmops_bed::test_bed::TestBed;
use helmops_bed::usage;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

/// HelmOps that fail in an outage.
const OUTAGE: usize = 1_000;
/// HelmOps that are only watched.
const IDLE: usize = 10_000;
const NAMESPACE: &str = "default";
const DEADLINE: Duration = Duration::from_mins(10);
/// How long an idle process is measured.
const IDLE_TIME: Duration = Duration::from_mins(1);

struct Environment {
    bed: TestBed,
    api: Api,
    sink: Sink,
}

/// Runs the benchmark on its own control plane, and returns a table.
///
/// # Errors
/// If the control plane or the notifier does not start, or messages are lost.
pub async fn report() -> Result<String> {
    let environment = Environment::start().await?;
    let names: Vec<_> = (0..OUTAGE).map(|number| format!("web-{number:05}")).collect();
    environment.create(&names).await?;
    environment.alert("grouped", &json!({})).await?;
    let notifier = environment.notifier("grouped").await?;
    let mut table = "| What | Messages | Time | CPU | Peak memory |\n|---|---|---|---|---|\n".to_owned();
    let down = environment.phase(&notifier, &names, &refused(), OUTAGE).await?;
    table += &row(&format!("{OUTAGE} HelmOps fail in one outage"), &down);
    let up = environment.phase(&notifier, &names, &ready(), 0).await?;
    table += &row("they are ready again", &up);
    drop(notifier);
    table += &environment.interrupted(&names).await?;
    table += &environment.idle().await?;
    Ok(table)
}

/// The cost of a phase.
struct Phase {
    messages: usize,
    time: Duration,
    cpu: Duration,
    peak: u32,
}

fn row(what: &str, phase: &Phase) -> String {
    let Phase {
        messages,
        time,
        cpu,
        peak,
    } = phase;
    format!(
        "| {what} | {messages} | {:.1} s | {} ms | {:.1} MiB |\n",
        time.as_secs_f64(),
        cpu.as_millis(),
        f64::from(*peak) / 1024.0
    )
}

impl Environment {
    async fn start() -> Result<Self> {
        let bed = helmops::control_plane_with(&[Part::Standalone, Part::Notifications], false).await?;
        let environment = Self {
            api: Api::new(&bed)?,
            sink: Sink::start().await?,
            bed,
        };
        let spec = json!({ "type": "generic", "address": environment.sink.url() });
        environment.apply("AlertProvider", "sink", &spec).await?;
        Ok(environment)
    }

    async fn apply(&self, kind: &str, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        self.bed
            .kubectl()
            .apply(&object.to_string())
            .await?
            .ok()
            .map(drop)
    }

    async fn alert(&self, name: &str, grouping: &Value) -> Result<()> {
        let spec = json!({
            "providerRef": { "name": "sink" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }], "grouping": grouping,
        });
        self.apply("Alert", name, &spec).await
    }

    async fn create(&self, names: &[String]) -> Result<()> {
        let helmop = |name: &String| {
            let labels = json!({ "team": "web", "stage": "production" });
            let spec =
                json!({ "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x" } });
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": name, "labels": labels }, "spec": spec,
            })
        };
        self.api
            .create(NAMESPACE, "helmops", names.iter().map(helmop).collect())
            .await?;
        self.set(names, &ready()).await
    }

    async fn set(&self, names: &[String], status: &Value) -> Result<()> {
        let patch = json!({ "status": status });
        let patches = names.iter().map(|name| (name.clone(), patch.clone()));
        self.api
            .patch_status(NAMESPACE, "helmops", patches.collect())
            .await
    }

    async fn notifier(&self, name: &str) -> Result<Running> {
        let command = |program: &Path| self.bed.command(program);
        helmops::start_notifier(&self.bed, name, &command).await
    }

    async fn failing(&self, alert: &str) -> Result<i64> {
        let path = format!("apis/helmops.fleet.cattle.io/v1alpha1/namespaces/{NAMESPACE}/alerts/{alert}");
        let alert = self.api.get(&path).await?;
        Ok(alert
            .pointer("/status/failing")
            .and_then(Value::as_i64)
            .unwrap_or_default())
    }

    async fn until_failing(&self, alert: &str, number: usize) -> Result<()> {
        eventually("the status of the Alert", DEADLINE, async || {
            let failing = self.failing(alert).await?;
            ensure!(
                usize::try_from(failing) == Ok(number),
                "{failing} of {number} fail"
            );
            Ok(())
        })
        .await
    }

    /// Sets a status, and waits until the Alert has reported it.
    async fn phase(
        &self,
        notifier: &Running,
        names: &[String],
        status: &Value,
        failing: usize,
    ) -> Result<Phase> {
        let pid = notifier.process.pid()?;
        let (started, cpu, before) = (Instant::now(), usage::cpu_time(pid)?, self.sink.received().len());
        self.set(names, status).await?;
        self.until_failing("grouped", failing).await?;
        let (time, messages) = (started.elapsed(), self.sink.received().len() - before);
        // All of it happens within the window of the first change.
        ensure!(messages == 1, "{messages} messages for one change of all HelmOps");
        Ok(Phase {
            time,
            messages,
            cpu: usage::cpu_time(pid)?.saturating_sub(cpu),
            peak: usage::memory(pid)?.peak,
        })
    }

    /// Each HelmOp has a message of its own, and the process is killed when half of them are sent.
    async fn interrupted(&self, names: &[String]) -> Result<String> {
        self.bed.kubectl().run(&["delete", "alert/grouped"]).await?.ok()?;
        self.alert("each", &json!({ "wait": "0s", "maxMessages": 0 }))
            .await?;
        let mut notifier = self.notifier("killed").await?;
        let before = self.sink.received().len();
        let started = Instant::now();
        self.set(names, &refused()).await?;
        self.sink.until(before + OUTAGE / 2).await?;
        notifier.process.kill().await?;
        let notifier = self.notifier("restarted").await?;
        self.until_failing("each", OUTAGE).await?;
        let time = started.elapsed();
        let received = self.sink.received().split_off(before);
        let name = |one: &helmops_bed::sink::Received| {
            let body = one.json();
            body.pointer("/involvedObject/name")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let names: std::collections::BTreeSet<_> = received.iter().filter_map(name).collect();
        ensure!(
            names.len() == OUTAGE,
            "{} of {OUTAGE} HelmOps were reported",
            names.len()
        );
        let repeated = received.len() - names.len();
        ensure!(repeated <= 1, "{repeated} messages were repeated after a kill");
        let phase = Phase {
            messages: received.len(),
            time,
            cpu: usage::cpu_time(notifier.process.pid()?)?,
            peak: usage::memory(notifier.process.pid()?)?.peak,
        };
        let what = format!("a message for each of {OUTAGE}, and a kill in the middle ({repeated} repeated)");
        Ok(row(&what, &phase))
    }

    /// Many HelmOps, and nothing happens.
    async fn idle(&self) -> Result<String> {
        self.bed.kubectl().run(&["delete", "alert/each"]).await?.ok()?;
        let names: Vec<_> = (OUTAGE..IDLE).map(|number| format!("web-{number:05}")).collect();
        self.create(&names).await?;
        let of_one = json!({
            "providerRef": { "name": "sink" }, "eventSources": [{ "kind": "HelmOp", "name": "web-00000" }],
        });
        self.apply("Alert", "one", &of_one).await?;
        let notifier = self.notifier("idle").await?;
        let pid = notifier.process.pid()?;
        let started = usage::memory(pid).context("the notifier has ended")?;
        let cpu = usage::cpu_time(pid)?;
        tokio::time::sleep(IDLE_TIME).await;
        let used = usage::cpu_time(pid)?.saturating_sub(cpu);
        let memory = usage::memory(pid)?;
        Ok(format!(
            "| {IDLE} HelmOps, nothing happens for {} s | 0 | | {} ms | {:.1} MiB ({:.1} MiB resident; {} ms of CPU to start) |\n",
            IDLE_TIME.as_secs(),
            used.as_millis(),
            f64::from(memory.peak.max(started.peak)) / 1024.0,
            f64::from(memory.resident) / 1024.0,
            cpu.as_millis()
        ))
    }
}

fn ready() -> Value {
    json!({ "version": "1.2.3", "conditions": [
        { "type": "Accepted", "status": "True", "reason": "Accepted" }, { "type": "Ready", "status": "True", "reason": "Ready" },
    ] })
}

fn refused() -> Value {
    let message = "failed to fetch https://charts.example.com/index.yaml: connection refused";
    json!({ "version": "1.2.3", "conditions": [
        { "type": "Accepted", "status": "False", "reason": "ConnectionFailed", "message": message },
        { "type": "Ready", "status": "False", "reason": "ConnectionFailed", "message": message },
    ] })
}
