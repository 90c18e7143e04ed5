//! helmops on a real node, with real containers: the kubelet, containerd and kube-proxy beside a control plane, in namespaces of their own.
//!
//! ```text
//! node-test ─► unshare ─► namespaces ─► node-test --inside ─► etcd, kube-apiserver, …, containerd, kubelet, kube-proxy
//!  images, state          mounts, network       │
//!                                               ├─ Site: helmops, installed as its documentation says
//!                                               └─ checks: what users do, and what happens to nodes
//! ```
//!
//! When the program inside ends, the kernel kills everything in the namespaces. Outside of them are only the folder of the state and the
//! cgroup `helmops-node`.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a check fails where an object is not as expected; results are printed"
)]

mod checks;
mod images;
mod machine;
mod node;
mod oci_archive;
mod report;
mod requirements;
mod site;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use self::checks::{Boot, Section};

/// Installs helmops on a real node, and checks what it does there. Needs root.
#[derive(Parser)]
struct Arguments {
    /// Sections of the checks; by default those of `make node-test`.
    sections: Vec<Section>,
    /// Only show whether this machine has what the test needs.
    #[arg(long)]
    check: bool,
    /// A folder with the archives of `make image`, in place of images of the programs that cargo has built.
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// After the sections, open a shell on the node.
    #[arg(long)]
    shell: bool,
    /// This is the program on the node, at its first or its second boot.
    #[arg(long, hide = true)]
    inside: Option<Boot>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("node-test: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all checks passed.
async fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(boot) = arguments.inside {
        return checks::run(boot, &arguments.sections, arguments.shell).await;
    }
    requirements::check()?;
    if arguments.check {
        return Ok(true);
    }
    machine::run(&arguments.sections, arguments.images.as_deref(), arguments.shell).await
}
