//! Two replicas of the controller; the leader is killed and replaced.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::helmops::{self, Running};
use helmops_bed::leader::{LEASE, holder};
use helmops_bed::random::Rng;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use tokio::process::Command;
use tokio::time::sleep;

/// With these, a takeover takes seconds.
const FLAGS: [(&str, &str); 4] = [
    ("HELMOPS_LEASE_DURATION", "3s"),
    ("HELMOPS_RENEW_DEADLINE", "2s"),
    ("HELMOPS_RETRY_PERIOD", "500ms"),
    ("HELMOPS_MIN_POLLING_INTERVAL", "1s"),
];
/// Enough for a takeover on a machine that is busy with other tests.
const TAKEOVER: Duration = Duration::from_secs(30);
/// The longest life of a leader in milliseconds: it is killed during its first requests, while it reconciles, or later.
const MAX_LIFE: usize = 3000;

/// The running processes.
pub struct Replicas<'b> {
    bed: &'b TestBed,
    alive: Vec<(String, Running)>,
    counter: usize,
}

impl<'b> Replicas<'b> {
    pub async fn start(bed: &'b TestBed) -> Result<Self> {
        let mut replicas = Self {
            bed,
            alive: Vec::new(),
            counter: 0,
        };
        replicas.add().await?;
        replicas.add().await?;
        Ok(replicas)
    }

    /// Kills this number of leaders, each after a random time, and starts another replica for each of them.
    pub async fn kill(&mut self, number: usize, rng: &mut Rng) -> Result<()> {
        for _ in 0..number {
            self.until_led().await?;
            sleep(Duration::from_millis(rng.below(MAX_LIFE) as u64)).await;
            // The leader may have changed.
            let leader = self.until_led().await?;
            let (_, mut killed) = self.alive.remove(leader);
            killed.process.kill().await?;
            self.add().await?;
        }
        Ok(())
    }

    /// Waits until one of the running replicas is the leader, and returns its index.
    async fn until_led(&self) -> Result<usize> {
        eventually("a leader", TAKEOVER, async || {
            let holder = holder(&self.bed.kubectl(), LEASE).await?;
            let name = holder.split('_').next().unwrap_or_default();
            self.alive
                .iter()
                .position(|(alive, _)| alive == name)
                .with_context(|| format!("{holder:?} holds the Lease"))
        })
        .await
    }

    async fn add(&mut self) -> Result<()> {
        self.counter += 1;
        let name = format!("replica-{}", self.counter);
        let command = |program: &Path| -> Command {
            let mut command = self.bed.command(program);
            command.envs(FLAGS);
            command
        };
        let running = helmops::start_controller(self.bed, &name, &command).await?;
        self.alive.push((name, running));
        Ok(())
    }
}
