//! `make image`: runs the programs in the images, those of the management cluster on their own control plane.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::command;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::{LOCAL_AGENT, NAMESPACE, manifests};
use helmops_bed::image::Image;
use helmops_bed::node::{self, Pod};
use helmops_bed::service_account::service_account_kubeconfig;
use helmops_bed::test_bed::TestBed;
use helmops_bed::usage;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;

/// Longer than any step takes.
const DEADLINE: Duration = Duration::from_secs(30);
/// The namespace of the cluster of the agent.
const CLUSTER: &str = "cluster-fleet-local-local";
/// The startup is complete after this time.
const IDLE: Duration = Duration::from_secs(15);
/// A host that is only in the image's own /etc/hosts.
const CHARTS: &str = "charts.test";
/// Four programs.
const SIZE_LIMIT: u64 = 65_000_000;
const IDLE_LIMIT_KIB: u32 = 16 * 1024;
/// Three quarters of it are Helm.
const AGENT_SIZE_LIMIT: u64 = 110_000_000;
/// The version of a program takes a tenth of a second.
const VERSION: Duration = Duration::from_secs(10);

/// Starts webhook and controller from an image, with only its files and as in the manifests, waits until a HelmOp is reconciled, and
/// reports the size of the image and the memory of the processes. Fails if one exceeds its limit: 65 MB, 16 MiB. Of the image of the
/// agent it runs both programs with only its files, the agent as in its pod until it is ready, and reports the size, at most 110 MB.
#[derive(Parser)]
#[command(name = "image-check")]
struct Arguments {
    /// The image, as an OCI archive.
    archive: PathBuf,
    /// The image of the agent.
    agent: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("image-check: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    if let Some(agent) = &arguments.agent {
        check_agent(agent).await?;
    }
    check(&arguments.archive).await
}

async fn check_agent(archive: &Path) -> Result<()> {
    let image = Image::unpack(archive).await?;
    let size = image.size()?;
    ensure_user(&image)?;
    for (program, argument) in [("/helmops-agent", "--version"), ("/helmops-helm", "version")] {
        print_version(&image, program, argument).await?;
    }
    say(&format!("unpacked            {:5.1} MB", in_mb(size)))?;
    run_agent(&image).await?;
    say("the agent runs as the user of the image, with the volumes of its pod")?;
    ensure!(
        size < AGENT_SIZE_LIMIT,
        "the image of the agent has {size} bytes, more than {AGENT_SIZE_LIMIT}"
    );
    Ok(())
}

/// Runs a program with only the files of its image.
async fn print_version(image: &Image, program: &str, argument: &str) -> Result<()> {
    let mut command = Command::new("unshare");
    image.enter(&mut command, program);
    command.arg(argument);
    let printed = command::run(command, "", VERSION).await?.ok()?;
    say(&format!("{program:18}  {}", printed.trim()))
}

/// Runs the agent until it is ready, with the arguments of its Deployment, and with volumes that its user does not own.
async fn run_agent(image: &Image) -> Result<()> {
    let bed = TestBed::start(&Options::default()).await?;
    let install = manifests().join("local");
    let install = install.to_str().context("a path that is not UTF-8")?;
    bed.kubectl()
        .run(&["apply", "--server-side", "-k", install])
        .await?
        .ok()?;
    let volumes = [image.volume("/work")?, image.volume("/cache")?];
    let kubeconfig = service_account_kubeconfig(&bed, LOCAL_AGENT, "helmops-agent").await?;
    image.mount(&kubeconfig)?;
    // As the controller does.
    let cluster = manifests().join("examples/local-cluster.yaml");
    let cluster = cluster.to_str().context("a path that is not UTF-8")?;
    let status = json!({ "status": { "namespace": CLUSTER } }).to_string();
    let patch = [
        "patch",
        "cluster.fleet.cattle.io",
        "local",
        "--namespace=fleet-local",
    ];
    let patch = [
        &patch[..],
        &["--subresource=status", "--type=merge", "--patch", &status],
    ]
    .concat();
    let create = ["create", "namespace", CLUSTER];
    for arguments in [&["apply", "--server-side", "-f", cluster][..], &create, &patch] {
        bed.kubectl().run(arguments).await?.ok()?;
    }
    let command = |program: &Path| {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = bed.command(Path::new("unshare"));
        image.enter_as_user(&mut command, &format!("/{name}"), &volumes[0]);
        command
    };
    let mut pod = node::run_whole_local_agent_pod(&bed, "helmops-agent-0", &command).await?;
    let admin = pod.running.admin.clone();
    pod.running.process.until_ready(&admin, DEADLINE).await
}

fn ensure_user(image: &Image) -> Result<()> {
    ensure!(
        image.user() == Some("65532:65532"),
        "the user of the image is {:?}, not 65532:65532",
        image.user()
    );
    Ok(())
}

async fn check(archive: &Path) -> Result<()> {
    let image = Image::unpack(archive).await?;
    let size = image.size()?;
    ensure_user(&image)?;
    image.add_host(CHARTS, "127.0.0.1")?;
    let bed = TestBed::start(&Options::default()).await?;
    let install = manifests();
    let install = install.to_str().context("a path that is not UTF-8")?;
    bed.kubectl()
        .run(&["apply", "--server-side", "-k", install])
        .await?
        .ok()?;
    let server = serve_charts(&bed).await?;
    // Before the start: processes read the list of CAs once.
    image.trust(server.ca().context("a server without TLS")?)?;
    for program in ["/helmops-notifier", "/helmops-receiver"] {
        print_version(&image, program, "--version").await?;
    }
    let mut webhook = start(&bed, &image, "helmops-webhook").await?;
    let mut controller = start(&bed, &image, "helmops-controller").await?;
    node::route_service_to(&bed.kubectl(), &webhook).await?;
    for pod in [&mut webhook, &mut controller] {
        let admin = pod.running.admin.clone();
        pod.running.process.until_ready(&admin, DEADLINE).await?;
    }
    tokio::time::sleep(IDLE).await;
    say(&format!("unpacked            {:5.1} MB", in_mb(size)))?;
    let mut idle = Vec::new();
    for (name, pod) in [("helmops-webhook", &webhook), ("helmops-controller", &controller)] {
        let resident = usage::memory(pod.running.process.pid()?)?.resident;
        say(&format!(
            "{name:18}  {:5.1} MiB resident, idle",
            f64::from(resident) / 1024.0
        ))?;
        idle.push(resident);
    }
    wait_for_version(&bed, &server).await?;
    say(
        "a HelmOp was admitted and its version resolved: the image resolves the host name, and its list of CAs contains that of \
         the server",
    )?;
    ensure!(
        size < SIZE_LIMIT,
        "the image has {size} bytes, more than {SIZE_LIMIT}"
    );
    ensure!(
        idle.iter().all(|&kib| kib < IDLE_LIMIT_KIB),
        "more than {IDLE_LIMIT_KIB} KiB resident: {idle:?}"
    );
    Ok(())
}

async fn start(bed: &TestBed, image: &Image, deployment: &str) -> Result<Pod> {
    image.mount(&service_account_kubeconfig(bed, NAMESPACE, deployment).await?)?;
    let command = |program: &Path| {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = bed.command(Path::new("unshare"));
        image.enter(&mut command, &format!("/{name}"));
        command
    };
    node::run_pod(bed, deployment, deployment, &command).await
}

async fn serve_charts(bed: &TestBed) -> Result<ChartServer> {
    let folder = bed.directory.join("charts");
    ChartRepo::build(&bed.tools, &folder, &[("web", &["1.0.0", "1.1.0"])]).await?;
    ChartServer::https_as(&folder, CHARTS).await
}

async fn wait_for_version(bed: &TestBed, server: &ChartServer) -> Result<()> {
    let repo = server.url().replace("127.0.0.1", CHARTS);
    let helmop = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "helm": { "repo": repo, "chart": "web", "version": "1.x" }, "targets": [{ "clusterSelector": {} }] },
    });
    bed.kubectl().apply(&helmop.to_string()).await?.ok()?;
    eventually("a version", DEADLINE, async || {
        let helmop = bed.kubectl().get("helmop/web").await?.context("no HelmOp")?;
        let version = helmop.pointer("/status/version").and_then(Value::as_str);
        ensure!(version == Some("1.1.0"), "{helmop}");
        Ok(())
    })
    .await
}

fn in_mb(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "  {line}").context("cannot write to standard output")
}
