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
    /// The name of the program, for the identity in the Lease.
    pub program: &'static str,
    /// The field manager of the Lease.
    pub field_manager: &'static str,
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
            self.field_manager,
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
