//! The machine, from outside: images and state of the node, its boots, and what is removed afterwards.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use helmops_bed::tools::{self, Tools};
use helmops_bed::{files, wait};
use tokio::process::Command;

use crate::checks::{self, Boot, Section};
use crate::images;
use crate::node::cgroup;

/// Folders that the node keeps its state in.
const FOLDERS: [&str; 10] = [
    "cgroup",
    "pod-logs",
    "cni",
    "cni-conf",
    "kubelet",
    "containerd",
    "etcd",
    "charts",
    IMAGES,
    "site",
];
/// The folder of the state of the node, in the target folder of cargo.
pub const STATE: &str = "node";
/// The folder of the archives of images: see [`images`].
pub const IMAGES: &str = "images";

/// Runs the sections, before and after a loss of power. Whether all checks passed.
pub async fn run(sections: &[Section], real_images: Option<&Path>, shell: bool) -> Result<bool> {
    let start = Instant::now();
    let tools = Tools::prepare().await?;
    let mut folders = tools::node().await?;
    folders.push(tools.folder().to_owned());
    let state = files::target()?.join(STATE);
    remove_cgroups().await?;
    prepare(&state, &folders, real_images).await?;
    println!("programs and images: {:.0} s", start.elapsed().as_secs_f64());
    let mut passed = true;
    for boot in [Boot::First, Boot::Second] {
        // The first one installs helmops.
        if boot == Boot::Second && checks::of(boot, sections).is_empty() {
            continue;
        }
        passed &= boot_once(&state, &folders, boot, sections, shell).await?;
        remove_cgroups().await?;
    }
    println!("node-test: {:.0} s", start.elapsed().as_secs_f64());
    if passed {
        std::fs::remove_dir_all(&state)?;
    } else {
        println!("the logs of the node are in {}", state.display());
    }
    Ok(passed)
}

/// Writes the files of a new node.
async fn prepare(state: &Path, tools: &[PathBuf], real_images: Option<&Path>) -> Result<()> {
    if state.exists() {
        std::fs::remove_dir_all(state).with_context(|| format!("cannot remove {}", state.display()))?;
    }
    for folder in FOLDERS {
        std::fs::create_dir_all(state.join(folder))?;
    }
    images::write(&state.join(IMAGES), tools, real_images).await
}

/// Starts the machine, and runs the sections of this boot on it.
async fn boot_once(
    state: &Path,
    tools: &[PathBuf],
    boot: Boot,
    sections: &[Section],
    shell: bool,
) -> Result<bool> {
    let mut path: OsString = std::env::join_paths(tools)?;
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    // The machine ends with this program, however this one ends.
    let mut machine = Command::new("setpriv");
    machine
        .args(["--pdeathsig=KILL", "unshare"])
        .args([
            "--mount",
            "--net",
            "--pid",
            "--uts",
            "--ipc",
            "--fork",
            "--kill-child",
        ])
        .args(["--propagation=private", "--mount-proc"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("namespaces"))
        .arg(state)
        .arg(std::env::current_exe()?)
        .arg(format!("--inside={}", boot.name()))
        .args(sections.iter().map(|section| section.name()))
        .env("PATH", path)
        .env("KUBECONFIG", state.join("admin.kubeconfig"))
        .kill_on_drop(true);
    if shell {
        machine.arg("--shell");
    }
    let status = machine.status().await.context("cannot run setpriv")?;
    Ok(status.success())
}

/// Removes the groups of containers that the kernel has killed.
async fn remove_cgroups() -> Result<()> {
    let deadline = std::time::Duration::from_secs(20);
    wait::eventually("the end of all containers", deadline, async || {
        for folder in cgroups()? {
            remove_cgroup(&folder)?;
        }
        ensure!(cgroups()?.is_empty(), "a cgroup is left");
        Ok(())
    })
    .await
}

/// The group of each controller, or the only one.
fn cgroups() -> Result<Vec<PathBuf>> {
    let root = PathBuf::from(cgroup::ROOT);
    let mut folders = vec![root.join(cgroup::GROUP)];
    for controller in std::fs::read_dir(root)? {
        folders.push(controller?.path().join(cgroup::GROUP));
    }
    folders.retain(|folder| folder.is_dir());
    Ok(folders)
}

/// Files of a cgroup cannot be removed, only the folders, from the inside.
fn remove_cgroup(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path())?;
        }
    }
    std::fs::remove_dir(folder).with_context(|| format!("cannot remove {}", folder.display()))
}
