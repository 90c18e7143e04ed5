//! The memory of the Helm processes that run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helmops_bed::usage;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// The names of Helm: that of the agent, and that of people.
const HELM: [&str; 2] = ["helmops-helm", "helm"];
/// A run of Helm takes several of these. Its peak is read, so the last one before its end is enough.
const INTERVAL: Duration = Duration::from_millis(20);

/// Peak resident memory, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelmMemory {
    /// Of one process.
    pub one: u32,
    /// Of all that run at the same time, with the processes that they start.
    pub all: u32,
}

impl HelmMemory {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            one: self.one.max(other.one),
            all: self.all.max(other.all),
        }
    }
}

/// Observes the Helm processes of a process until it is dropped.
#[derive(Debug)]
pub struct Observer {
    peak: Arc<Mutex<HelmMemory>>,
    _task: JoinSet<()>,
}

impl Observer {
    /// Observes the children of a process.
    pub fn of(parent: u32) -> Self {
        let peak = Arc::default();
        let mut task = JoinSet::new();
        task.spawn(observe(parent, Arc::clone(&peak)));
        Self { peak, _task: task }
    }

    /// The peak so far.
    pub fn peak(&self) -> HelmMemory {
        *self.peak.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn observe(parent: u32, peak: Arc<Mutex<HelmMemory>>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = now(parent);
        let mut peak = peak.lock().unwrap_or_else(PoisonError::into_inner);
        *peak = peak.max(now);
    }
}

/// The memory now. Processes that end meanwhile use none.
fn now(parent: u32) -> HelmMemory {
    let children = usage::children(parent).unwrap_or_default();
    let is_helm = |pid: &u32| usage::program(*pid).is_ok_and(|program| HELM.contains(&&*program));
    let mut memory = HelmMemory::default();
    for helm in children.into_iter().filter(is_helm) {
        let Ok(own) = usage::memory(helm) else { continue };
        memory.one = memory.one.max(own.peak);
        let plugins = usage::children(helm).unwrap_or_default();
        let plugins = plugins.into_iter().filter_map(|pid| usage::memory(pid).ok());
        memory.all += own.resident + plugins.map(|plugin| plugin.resident).sum::<u32>();
    }
    memory
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use helmops_bed::wait::eventually;

    use super::*;

    #[tokio::test]
    async fn only_processes_with_the_name_of_helm_count() {
        let folder = tempfile::TempDir::new().unwrap();
        let helm = folder.path().join("helm");
        std::fs::copy("/bin/cat", &helm).unwrap();
        let observer = Observer::of(std::process::id());
        let run = |program: &std::path::Path| {
            let mut command = Command::new(program);
            command.stdin(Stdio::piped()).spawn().unwrap()
        };
        let mut other = run("/bin/cat".as_ref());
        tokio::time::sleep(INTERVAL * 3).await;
        assert_eq!(observer.peak(), HelmMemory::default());
        let mut helms = [run(&helm), run(&helm)];
        eventually("both to be observed", Duration::from_secs(10), async || {
            let HelmMemory { one, all } = observer.peak();
            anyhow::ensure!(one > 0 && all > one, "{one} of {all}");
            Ok(())
        })
        .await
        .unwrap();
        for child in helms.iter_mut().chain([&mut other]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
