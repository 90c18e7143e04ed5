//! A control plane on this machine, for tests and experiments.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use helmops_bed::cluster::Cluster;
use helmops_bed::control_plane::Options;
use helmops_bed::detached::{Detached, Status};
use helmops_bed::serve::{self, Step, Until};
use helmops_bed::tools::Tools;
use helmops_bed::{demo, docs, files, helmops, permissions};

/// A Kubernetes control plane on this machine, without nodes or with a simulated one.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Folder with the state of `up`, `down` and `status` [default: testbed/ in cargo's target folder].
    #[arg(long, global = true, env = "HELMOPS_TESTBED", value_name = "FOLDER")]
    state: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Start a control plane, describe it in one line of JSON, and stop it at the end of standard input.
    Serve {
        #[command(flatten)]
        options: Options,
        /// At the end, kill the whole process group too.
        #[arg(long)]
        end_group: bool,
        /// Ignore standard input, and describe the control plane to `status` and `down`; used by `up`.
        #[arg(long)]
        detached: bool,
    },
    /// Show the main job of helmops on its own control plane.
    Demo,
    /// Start a control plane in the background.
    Up {
        #[command(flatten)]
        options: Options,
    },
    /// Stop the control plane in the background.
    Down,
    /// Show whether a control plane runs in the background.
    Status,
    /// Check words, links and names in the documentation of the repository.
    Docs {
        /// Its folder.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Compare the permissions that the manifests grant with those that were used, which control planes with
    /// `HELMOPS_PERMISSIONS` in their environment recorded in that folder.
    Permissions {
        /// The folder.
        folder: PathBuf,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let end_group = matches!(arguments.command, Command::Serve { end_group: true, .. });
    let mut result = run(arguments).await;
    if let Err(error) = &result {
        eprintln!("testbed: {error:#}");
    }
    if end_group {
        result = serve::end_group();
    }
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let detached = match arguments.state {
        Some(folder) => Detached::new(&folder)?,
        None => Detached::new(&default_state()?)?,
    };
    match arguments.command {
        Command::Serve {
            options,
            detached: false,
            ..
        } => serve::serve(&options, Until::EndOfInput, steps(&options), print).await,
        Command::Serve {
            options,
            detached: true,
            ..
        } => {
            let owner = detached.own().await?;
            let result = serve::serve(&options, Until::Signal, steps(&options), |cluster| {
                owner.announce(cluster)
            })
            .await;
            owner.withdraw()?;
            result
        }
        Command::Demo => demo().await,
        Command::Up { options } => up(&detached, &options).await,
        Command::Down => down(&detached).await,
        Command::Status => status(&detached),
        Command::Permissions { folder } => compare_permissions(&folder).await,
        Command::Docs { root } => check_docs(&root),
    }
}

fn steps(options: &Options) -> Vec<Step> {
    if options.helmops {
        vec![helmops::step()]
    } else {
        Vec::new()
    }
}

fn check_docs(root: &Path) -> Result<()> {
    let problems = docs::check(root)?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        number => bail!("{number} problems in the documentation"),
    }
}

async fn demo() -> Result<()> {
    say(
        "A cluster starts on this machine: etcd, kube-apiserver, kube-controller-manager and a simulated node.",
    )?;
    let bed = helmops::local_control_plane(false).await?;
    demo::run(&bed, &|program| bed.command(program)).await
}

async fn up(detached: &Detached, options: &Options) -> Result<()> {
    let cluster = match detached.status()? {
        Status::Stopped => detached.start(&options.arguments()).await?,
        Status::Running(cluster) => {
            eprintln!("testbed: already up, process {}; nothing to do", cluster.pid);
            cluster
        }
        Status::Changing(pid) => {
            bail!("process {pid} is starting or stopping one; try again in a few seconds")
        }
    };
    say(&exports(&cluster))
}

/// What a shell needs, one command a line.
fn exports(cluster: &Cluster) -> String {
    let mut lines = vec![format!("export KUBECONFIG={}", cluster.kubeconfig.display())];
    if let Some(charts) = &cluster.charts {
        lines.push(format!("export CHART_REPO={charts}"));
        // The plugin `kubectl-helmop` is beside this program.
        let programs = [Some(cluster.tools.kubectl()), std::env::current_exe().ok()];
        let folders = programs.iter().flatten().filter_map(|program| program.parent());
        let folders: Vec<_> = folders.map(|folder| folder.display().to_string()).collect();
        lines.push(format!("export PATH=\"{}:$PATH\"", folders.join(":")));
    }
    lines.join("\n")
}

async fn down(detached: &Detached) -> Result<()> {
    match detached.status()? {
        Status::Stopped => say("not up; nothing to do"),
        Status::Changing(_) | Status::Running(_) => {
            detached.stop().await?;
            say("down")
        }
    }
}

async fn compare_permissions(folder: &Path) -> Result<()> {
    let tools = Tools::prepare().await?;
    let granted = async |folder| permissions::granted(&helmops::objects(&tools, folder).await?);
    let [installed, registration, shard, agent, notifications] = [
        granted("standalone").await?,
        granted("registration").await?,
        granted("shard").await?,
        granted("agent/namespaced").await?,
        granted("notifications").await?,
    ];
    // Agents that have registered themselves may do what others may, and not every one of them does all of it in a test.
    let (registered, registration): (BTreeSet<_>, BTreeSet<_>) = registration
        .into_iter()
        .partition(|one| one.role == "ClusterRole helmops-registered-agent");
    let all = &(&(&(&installed | &registration) | &shard) | &agent) | &notifications;
    let mut used = permissions::usage::read(folder).await?;
    // The controller creates the Role for this, maybe when the agent runs already; a test of the agent compares it.
    used.retain(|used| used.role.is_some() || used.permission.resource != "clusters/status");
    let mut findings = permissions::findings(&all, &used);
    // The roles for some namespaces grant the same permissions there; not every one of them is tested.
    let elsewhere = permissions::beyond(&granted("namespaced").await?, &installed);
    findings.extend(elsewhere);
    findings.extend(permissions::beyond(&registered, &installed));
    if findings.is_empty() {
        return say(&format!(
            "permissions: each of the {} that the manifests grant was used, and no other was needed",
            all.len()
        ));
    }
    bail!(
        "the permissions in manifests are not those that are used:\n{}",
        findings.join("\n")
    )
}

fn status(detached: &Detached) -> Result<()> {
    match detached.status()? {
        Status::Stopped => say("not up"),
        Status::Changing(pid) => say(&format!("process {pid} is starting or stopping it")),
        Status::Running(cluster) => say(&format!(
            "up at {}, process {}, logs in {}\n{}",
            cluster.url,
            cluster.pid,
            cluster.directory.display(),
            exports(&cluster)
        )),
    }
}

fn print(cluster: &Cluster) -> Result<()> {
    say(&serde_json::to_string(cluster)?)
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}

fn default_state() -> Result<PathBuf> {
    let target = files::target().context("no folder for the state; set --state")?;
    Ok(target.join("testbed"))
}
