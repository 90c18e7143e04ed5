//! Two replicas of the controller, one of which leads until it is killed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_tests::helmops::{self, Running};
use helmops_tests::leader::{LEASE, holder};
use helmops_tests::random::Chance;
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use tokio::process::Command;
use tokio::time::sleep;

/// Takeovers take seconds.
const FLAGS: [(&str, &str); 4] = [
    ("HELMOPS_LEASE_DURATION", "3s"),
    ("HELMOPS_RENEW_DEADLINE", "2s"),
    ("HELMOPS_RETRY_PERIOD", "500ms"),
    ("HELMOPS_MIN_POLLING_INTERVAL", "1s"),
];
/// A takeover, on a machine that is busy with other tests.
const TAKEOVER: Duration = Duration::from_secs(30);
/// A leader lives so long at the most: it is killed while it fills its first requests, in the middle of work or later.
const LIFE: usize = 3000;

/// The processes that live.
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

    /// Kills so many leaders, each at a moment by chance, and starts another replica for each of them.
    pub async fn kill(&mut self, number: usize, chance: &mut Chance) -> Result<()> {
        for _ in 0..number {
            self.until_led().await?;
            sleep(Duration::from_millis(chance.below(LIFE) as u64)).await;
            // It may be another one by now.
            let leader = self.until_led().await?;
            let (_, mut killed) = self.alive.remove(leader);
            killed.process.kill().await?;
            self.add().await?;
        }
        Ok(())
    }

    /// Waits until one of those who live leads, and says which.
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
