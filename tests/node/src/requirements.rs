//! What the machine must have.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;

use crate::node::cgroup;

/// Programs, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 11] = [
    ("unshare", "util-linux"),
    ("sysctl", "procps"),
    ("ldd", "libc-bin"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
    ("ipset", "ipset"),
    ("conntrack", "conntrack"),
    ("ip", "iproute2"),
    ("strip", "binutils"),
    ("update-ca-certificates", "ca-certificates"),
];
/// The folder of the CNI plugins in Debian, and its package.
const PLUGINS: (&str, &str) = ("/usr/lib/cni", "containernetworking-plugins");

/// Packets between pods pass the rules of Services and policies.
const BRIDGES: &str = "/proc/sys/net/bridge";

/// Whether this machine can run a node.
///
/// # Errors
/// With what it lacks, and how to install it.
pub fn check() -> Result<()> {
    ensure!(geteuid().is_root(), "a node needs root");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let has = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let programs = PROGRAMS.iter().filter(|(program, _)| !has(program));
    let mut missing: Vec<_> = programs.map(|(_, package)| *package).collect();
    if !Path::new(PLUGINS.0).join("bridge").is_file() {
        missing.push(PLUGINS.1);
    }
    if !missing.is_empty() {
        let packages = missing.join(" ");
        bail!(
            "a node needs programs that this machine does not have: apt-get install --no-install-recommends {packages}"
        );
    }
    let spaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--fork"];
    let spaces = Command::new("unshare").args(spaces).arg("true").output()?;
    ensure!(
        spaces.status.success(),
        "a node needs namespaces of its own: {}",
        String::from_utf8_lossy(&spaces.stderr).trim()
    );
    ensure!(
        Path::new(BRIDGES).exists(),
        "a node needs the kernel module br_netfilter: {BRIDGES} does not exist"
    );
    let memory = Path::new(cgroup::ROOT).join("memory");
    let tree = if memory.is_dir() {
        memory
    } else {
        cgroup::ROOT.into()
    };
    let group = tree.join(format!("{}-check", cgroup::GROUP));
    std::fs::create_dir(&group).with_context(|| format!("a node needs cgroups: {}", group.display()))?;
    Ok(std::fs::remove_dir(&group)?)
}
