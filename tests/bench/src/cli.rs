//! `kubectl helmop` as a person waits for it: its size, its start, and the list of 1,000 HelmOps of a real API server.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::helmops;
use helmops_bed::test_bed::TestBed;
use serde_json::{Value, json};

use crate::figures::median;

/// The most that is acceptable: bytes, and seconds.
const LIMITS: Figures = Figures {
    size: 15_000_000,
    start: 0.010,
    status: 0.300,
};
const NAMESPACE: &str = "bench";
/// How many HelmOps are listed.
const HELMOPS: usize = 1_000;
/// How many objects the status of each lists.
const OBJECTS: usize = 10;

/// The size, and the medians of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// The size of the program, in bytes.
    pub size: u64,
    /// `version --client`, from the start of the process to its end, in seconds.
    pub start: f64,
    /// `status` of 1,000 HelmOps, from the start of the process to its first output, in seconds.
    pub status: f64,
}

/// Measures the program, each some times, with a control plane of its own.
///
/// # Errors
/// If the program fails, or lists not all HelmOps.
pub async fn measure(program: &Path, repeat: usize) -> Result<Figures> {
    let about = std::fs::metadata(program);
    let about = about.with_context(|| format!("cannot read {}; build it first", program.display()))?;
    let bed = helmops::control_plane(false).await?;
    create(&bed).await?;
    let (mut starts, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..repeat {
        let mut version = Command::new(program);
        version.args(["version", "--client"]);
        let (_, end, _) = timed(&mut version)?;
        starts.push(end);
        let mut status = Command::new(program);
        status
            .args(["status", "--namespace", NAMESPACE])
            .env("KUBECONFIG", &bed.kubeconfig);
        let (first, _, text) = timed(&mut status)?;
        ensure!(text.lines().count() == HELMOPS + 1, "{text}");
        lists.push(first);
    }
    Ok(Figures {
        size: about.len(),
        start: median(starts.into_iter()),
        status: median(lists.into_iter()),
    })
}

/// Seconds until the first output of a command and until its end, and the output.
fn timed(command: &mut Command) -> Result<(f64, f64, String)> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().context("standard output is not piped")?;
    let mut bytes = vec![0];
    output.read_exact(&mut bytes).context("there is no output")?;
    let first = started.elapsed();
    output.read_to_end(&mut bytes)?;
    let status = child.wait()?;
    ensure!(status.success(), "it ended ({status})");
    let text = String::from_utf8(bytes)?;
    Ok((first.as_secs_f64(), started.elapsed().as_secs_f64(), text))
}

async fn create(bed: &TestBed) -> Result<()> {
    let create = ["create", "namespace", NAMESPACE];
    bed.kubectl().run(&create).await?.ok()?;
    let api = Api::new(bed)?;
    let helmops = (0..HELMOPS).map(helmop).collect();
    api.create(NAMESPACE, "helmops", helmops).await?;
    let statuses =
        (0..HELMOPS).map(|number| (NAMESPACE.to_owned(), name(number), json!({ "status": status() })));
    api.patch_statuses("helmops", statuses.collect()).await
}

fn name(number: usize) -> String {
    format!("app-{number:04}")
}

fn helmop(number: usize) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": name(number), "labels": { "team": format!("team-{}", number % 40) } },
        "spec": {
            "helm": {
                "repo": "https://charts.example.com/stable", "chart": "web", "version": "^1.2",
                "values": { "replicas": 3, "ingress": { "host": "web.example.com", "tls": true } },
            },
            "pollingInterval": "15m",
            "targets": [{ "clusterSelector": { "matchLabels": { "env": "production" } } }],
        },
    })
}

fn status() -> Value {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": kind,
            "lastUpdateTime": "2026-01-01T12:00:00Z", "lastTransitionTime": "2026-01-01T12:00:00Z",
        })
    };
    let object = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": format!("web-{number}"), "state": "Ready",
        })
    };
    let conditions = ["Accepted", "Ready", "Polled"].map(condition);
    json!({
        "version": "1.2.3",
        "conditions": conditions,
        "readyClusters": 3, "desiredReadyClusters": 3,
        "lastPollingTriggered": "2026-01-01T12:00:00Z",
        "resources": (0..OBJECTS).map(object).collect::<Vec<_>>(),
    })
}

/// The figures in words.
pub fn report(figures: Figures) -> String {
    let Figures { size, start, status } = figures;
    format!(
        "{size} bytes; starts in {:.1} ms; first output of status with {HELMOPS} HelmOps after {:.0} ms",
        start * 1e3,
        status * 1e3
    )
}

/// The limits that are not met.
pub fn shortfall(figures: Figures) -> Option<String> {
    let exceeded =
        figures.size > LIMITS.size || figures.start > LIMITS.start || figures.status > LIMITS.status;
    exceeded.then(|| format!("these are allowed: {}", report(LIMITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_limit() {
        assert_eq!(
            report(LIMITS),
            "15000000 bytes; starts in 10.0 ms; first output of status with 1000 HelmOps after 300 ms"
        );
        assert_eq!(shortfall(LIMITS), None);
        for exceeded in [
            Figures {
                size: LIMITS.size + 1,
                ..LIMITS
            },
            Figures {
                start: 0.011,
                ..LIMITS
            },
            Figures {
                status: 0.301,
                ..LIMITS
            },
        ] {
            assert!(shortfall(exceeded).is_some(), "{exceeded:?}");
        }
    }

    #[test]
    fn the_first_output_is_timed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo a; sleep 0.2; echo b"]);
        let (first, end, _) = timed(&mut shell).unwrap();
        assert!(first < end - 0.15, "{first} {end}");
        shell = Command::new("false");
        assert!(timed(&mut shell).is_err());
    }
}
