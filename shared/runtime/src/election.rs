//! The leader election of a process, as its flags configure it.

use helmops_kube::lease::{Election, Leadership, LeaseArgs, LeaseMetrics, LeaseName, identity};
use helmops_process::{Health, Supervisor};
use kube::Config;
use prometheus::Registry;
use tokio_util::task::TaskTracker;

use crate::client;

/// A process that may become the leader.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The flags.
    pub args: &'a LeaseArgs,
    /// The name of the program: the field manager of the Lease, and a part of the identity in it.
    pub program: &'static str,
    /// The name of the pod, if it is known: the identity in the Lease.
    pub pod_name: Option<&'a str>,
}

/// An election that has not started, if leader election is enabled.
pub struct PendingElection(Option<Election>);

impl Candidate<'_> {
    /// Creates the leader election, if it is enabled, and the leadership that it controls. `lease` is computed only if it is enabled.
    ///
    /// # Errors
    /// If the flags contradict each other, the name of the Lease is unknown, or the configuration is unusable.
    pub fn elect(
        self,
        lease: impl FnOnce() -> anyhow::Result<LeaseName>,
        config: Config,
        registry: &Registry,
        health: &Health,
    ) -> anyhow::Result<(PendingElection, Leadership)> {
        let metrics = LeaseMetrics::register(registry)?;
        if !self.args.leader_elect {
            metrics.leads(true);
            return Ok((PendingElection(None), Leadership::always()));
        }
        let timing = self.args.timing()?;
        let (election, leadership) = Election::new(
            client::for_election(config)?,
            self.program,
            lease()?,
            identity(self.pod_name, self.program),
            timing,
            metrics,
            health,
        );
        Ok((PendingElection(Some(election)), leadership))
    }
}

impl PendingElection {
    /// Starts the election. The Lease is held until the tracked tasks have ended.
    pub fn start(self, supervisor: &mut Supervisor, work: &TaskTracker) {
        let Some(election) = self.0 else { return };
        let drained = work.clone();
        let election = election.run(supervisor.stop_token(), async move { drained.wait().await });
        supervisor.spawn("leader election", election);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helmops_process::Health;
    use prometheus::Registry;

    use super::*;
    use crate::health_signals::HealthSignals;

    /// As an agent that waits for the access to the management cluster: it must not be restarted, and is not ready.
    #[tokio::test(start_paused = true)]
    async fn a_process_is_live_but_unready_before_its_election_and_loops_start() {
        let health = Health::default();
        let args = LeaseArgs {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        };
        let candidate = Candidate {
            args: &args,
            program: "example",
            pod_name: Some("example-0"),
        };
        // Without a default provider there is no client.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        let lease = || Ok(LeaseName::new(Some("default"), "example".to_owned())?);
        let election = candidate.elect(lease, config, &Registry::new(), &health);
        let (_pending, _leadership) = election.unwrap();
        let _signals = HealthSignals::new(&health);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(health.live().ok(), "{:?}", health.live());
        assert!(!health.ready().ok());
    }
}
