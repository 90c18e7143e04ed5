//! The groups of containers: their processes, memory and CPU time. With cgroup v1 each controller has a tree of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

pub const ROOT: &str = "/sys/fs/cgroup";
/// The group with all containers of the node: see config/kubelet.yaml.
pub const GROUP: &str = "helmops-node";

/// What a container uses.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes, without what the kernel can take back at any time: what `kubectl top` shows.
    pub working_set: u64,
    /// Bytes: the most since its start, with the page cache.
    pub peak: u64,
    pub cpu: Duration,
}

/// The processes of a container, as this PID namespace numbers them.
pub fn processes(container: &str) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(folder("memory", container)?.join("cgroup.procs"))?;
    text.lines().map(|line| Ok(line.parse()?)).collect()
}

/// The current use.
pub fn usage(container: &str) -> Result<Usage> {
    if Path::new(ROOT).join("cgroup.controllers").is_file() {
        let group = folder("", container)?;
        let micros = field(&group.join("cpu.stat"), "usage_usec")?;
        return Ok(Usage {
            working_set: number(&group.join("memory.current"))?
                .saturating_sub(field(&group.join("memory.stat"), "inactive_file")?),
            peak: number(&group.join("memory.peak"))?,
            cpu: Duration::from_micros(micros),
        });
    }
    let group = folder("memory", container)?;
    Ok(Usage {
        working_set: number(&group.join("memory.usage_in_bytes"))?
            .saturating_sub(field(&group.join("memory.stat"), "total_inactive_file")?),
        peak: number(&group.join("memory.max_usage_in_bytes"))?,
        cpu: Duration::from_nanos(number(&folder("cpuacct", container)?.join("cpuacct.usage"))?),
    })
}

/// The folder of a container in the tree of a controller of cgroup v1, or in the only tree of v2.
fn folder(controller: &str, container: &str) -> Result<PathBuf> {
    let tree = Path::new(ROOT).join(controller).join(GROUP);
    let tree = if tree.is_dir() {
        tree
    } else {
        Path::new(ROOT).join(GROUP)
    };
    find(&tree, container).with_context(|| format!("container {container} has no cgroup"))
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    // A group may end meanwhile.
    let entries = std::fs::read_dir(folder).ok()?;
    let mut folders = entries.filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()));
    folders.find_map(|path| {
        if path.ends_with(name) {
            Some(path)
        } else {
            find(&path, name)
        }
    })
}

fn number(file: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.trim()
        .parse()
        .with_context(|| format!("{} is no number", file.display()))
}

fn field(file: &Path, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line
        .with_context(|| format!("{} has no {name}", file.display()))?
        .parse()?)
}
