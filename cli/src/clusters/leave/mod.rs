//! `cluster leave`: from a cluster with an agent to one without, in an order in which nothing is uninstalled by mistake.
//!
//! ```text
//! releases stay (the default):   stop the agent ─► delete the Cluster ─► delete what the agent had
//! --delete-releases:             delete the Cluster, held by a finalizer ─► the agent uninstalls ─► release the Cluster ─► the same
//! ```
//!
//! A BundleDeployment that is deleted is a request to uninstall its release. So the agent has to be gone before its Cluster is, or,
//! if the releases are to go too, it has to keep its account until it is done.

pub mod agent;
pub mod cluster;
pub mod releases;

use std::{
    io::{IsTerminal, stdin},
    time::Duration,
};

use helmops_api::NamespacedName;

use super::{
    agent_objects,
    join::management,
    steps::Steps,
    workload::{self, Workload, WorkloadArgs},
};
use crate::{
    cluster::{Cluster, ClusterArgs, duration::duration},
    failure::Failure,
    terminal::{Console, marks::Marks},
};

/// The arguments of `cluster leave`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Remove the agent and the Cluster; what is deployed keeps running, as releases of Helm
  kubectl helmop cluster leave edge-1 -n fleet-default --to-context edge-1

  # Uninstall all releases first
  kubectl helmop cluster leave edge-1 -n fleet-default --to-context edge-1 --delete-releases

  # The cluster does not exist any more
  kubectl helmop cluster leave edge-1 -n fleet-default --without-agent")]
pub struct LeaveArgs {
    /// Name of the Cluster
    pub name: String,
    /// The workload cluster.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Uninstall what HelmOps have deployed there; by default all releases stay
    #[arg(long, conflicts_with = "without_agent")]
    pub delete_releases: bool,
    /// Keep what HelmOps have deployed there, which is the default
    #[arg(long, conflicts_with = "delete_releases")]
    pub keep_releases: bool,
    /// Remove the Cluster only, because the workload cluster does not exist any more or cannot be reached
    #[arg(long, conflicts_with_all = ["to_context", "to_kubeconfig"])]
    pub without_agent: bool,
    /// Skip the confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// How long to wait for each step, such as the releases to be uninstalled
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

const AGAIN: &str = "then run the command again: it continues";

/// Removes a cluster.
///
/// # Errors
/// If a step fails; its name is printed, and the steps before are not repeated.
pub async fn run(args: &LeaveArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let management = cluster.connect().await?;
    let name = NamespacedName::new(&management.namespace, &args.name);
    let workload = if args.without_agent {
        None
    } else if args.workload.to_context.is_none() && args.workload.to_kubeconfig.is_none() {
        let message = "--to-context is missing: the workload cluster has an agent that would stay";
        return Err(Failure::unable(message)
            .with_hint("if that cluster does not exist any more, use --without-agent"));
    } else {
        Some(args.workload.connect(cluster).await?)
    };
    let leave = Leave {
        args,
        name,
        steps: Steps::new(Marks::of_process(), AGAIN),
        management,
        workload,
    };
    Box::pin(leave.run(console)).await
}

/// One run of the command.
struct Leave<'a> {
    args: &'a LeaveArgs,
    name: NamespacedName,
    steps: Steps,
    management: Cluster,
    workload: Option<Cluster>,
}

/// What is known before the first write.
struct Known {
    /// The Cluster, unless an earlier run has deleted it.
    cluster: Option<helmops_api::Cluster>,
    /// The namespace of the agent.
    agent_namespace: String,
    found: Workload,
    /// What the agent keeps on the cluster.
    releases: Vec<releases::Release>,
}

impl Leave<'_> {
    async fn run(&self, console: &mut Console<'_>) -> Result<(), Failure> {
        let known = self
            .steps
            .run(console, "Reading both clusters", Box::pin(self.observe()))
            .await?;
        if !self.args.yes {
            confirm(&self.question(&known), console)?;
        }
        if self.args.delete_releases {
            self.uninstall(&known, console).await?;
        }
        // Without the agent, nothing can be uninstalled any more.
        if let Some(workload) = &self.workload {
            let what = "Stopping the agent";
            let step = Box::pin(agent::stop(
                &workload.client,
                &known.agent_namespace,
                self.args.timeout,
            ));
            self.steps.run(console, what, step).await?;
        }
        let what = format!("Deleting Cluster {}", self.name);
        let step = Box::pin(cluster::delete(
            &self.management.client,
            &self.name,
            self.args.timeout,
        ));
        self.steps.run(console, &what, step).await?;
        if let Some(workload) = &self.workload {
            let what = "Deleting what the agent had";
            let keeps_access = known.found.fleets_agent.is_some();
            let step = Box::pin(agent::delete(
                &workload.client,
                &known.agent_namespace,
                keeps_access,
            ));
            self.steps.run(console, what, step).await?;
        }
        self.conclude(&known, console)
    }

    async fn observe(&self) -> Result<(Known, String), Failure> {
        let cluster = management::get(&self.management.client, &self.name).await?;
        let scope = cluster
            .as_ref()
            .map(|cluster| cluster.spec.agent_namespace.clone())
            .unwrap_or_default();
        let agent_namespace = if scope.is_empty() {
            agent_objects::NAMESPACE.to_owned()
        } else {
            scope
        };
        let found = match &self.workload {
            Some(workload) => workload::observe(&workload.client, &agent_namespace).await?,
            None => Workload::default(),
        };
        self.admit(cluster.is_some(), &found)?;
        let releases = match &cluster {
            Some(cluster) => releases::of(&self.management.client, &cluster.status.namespace).await?,
            None => Vec::new(),
        };
        let done = format!("Cluster {}, releases on it: {}", self.name, releases.len());
        let known = Known {
            cluster,
            agent_namespace,
            found,
            releases,
        };
        Ok((known, done))
    }

    /// Whether this is the cluster that is to leave.
    fn admit(&self, exists: bool, found: &Workload) -> Result<(), Failure> {
        let name = &self.name;
        if let Some(joined) = &found.joined
            && joined.cluster != *name
        {
            let message = format!(
                "the agent on {} is that of Cluster {}, not of {name}; nothing was changed",
                self.args.workload.shown(),
                joined.cluster
            );
            return Err(Failure::negative(message)
                .with_hint("select the workload cluster of this Cluster with --to-context"));
        }
        if found.has_fleets_agent {
            return Err(Failure::negative("Fleet's agent runs on this cluster: it would uninstall all releases").with_hint(
                "to keep them, scale it to zero first: kubectl --namespace cattle-fleet-system scale deployment fleet-agent --replicas=0",
            ));
        }
        if !exists && found.joined.is_none() && found.image.is_none() {
            let message = format!("there is no Cluster {name}");
            return Err(Failure::negative(message).with_hint(
                "list those of all namespaces with: kubectl helmop cluster list --all-namespaces",
            ));
        }
        Ok(())
    }

    fn question(&self, known: &Known) -> String {
        let name = &self.name;
        let count = known.releases.len();
        let releases = if self.args.delete_releases {
            format!("The agent UNINSTALLS its releases ({count}) first.")
        } else {
            format!("Its releases ({count}) stay and keep running.")
        };
        let from = match &self.workload {
            Some(_) => format!(" and the agent on {}", self.args.workload.shown()),
            None => String::new(),
        };
        format!("Remove Cluster {name}{from}? {releases}")
    }

    /// Has the agent uninstall all releases while it still has its account.
    async fn uninstall(&self, known: &Known, console: &mut Console<'_>) -> Result<(), Failure> {
        let (Some(cluster), Some(workload)) = (&known.cluster, &self.workload) else {
            return Ok(());
        };
        let client = &self.management.client;
        let what = format!("Withdrawing what is deployed to Cluster {}", self.name);
        let step = Box::pin(cluster::withdraw(client, cluster, &self.name, self.args.timeout));
        self.steps.run(console, &what, step).await?;
        let what = "Waiting for the agent to uninstall the releases";
        let step = Box::pin(releases::until_gone(
            &workload.client,
            &known.releases,
            self.args.timeout,
        ));
        self.steps.run(console, what, step).await
    }

    fn conclude(&self, known: &Known, console: &mut Console<'_>) -> Result<(), Failure> {
        writeln!(console.out, "\nCluster {} has left.", self.name)?;
        let namespace = known
            .cluster
            .as_ref()
            .map(|cluster| cluster.status.namespace.as_str());
        if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
            writeln!(
                console.out,
                "Its namespace stays, since it may contain other objects. To delete it: kubectl delete namespace {namespace}"
            )?;
        }
        if !self.args.delete_releases && !known.releases.is_empty() {
            writeln!(
                console.out,
                "Its releases stay on the workload cluster: helm list --all-namespaces shows them. If the cluster joins again under \
                 the same name, its agent continues with them."
            )?;
        }
        Ok(())
    }
}

/// Waits for the confirmation at the terminal.
fn confirm(question: &str, console: &mut Console<'_>) -> Result<(), Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::unable(format!("not confirmed: {question}")).with_hint("confirm with --yes"));
    }
    console.out.flush()?;
    write!(console.err, "{question} [y/N] ")?;
    console.err.flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if is_yes(&answer) {
        Ok(())
    } else {
        Err(Failure::negative("not confirmed; nothing was changed"))
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_a_confirmation() {
        for (answer, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("\n", false),
            ("no\n", false),
            ("", false),
        ] {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
