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
pub mod plan;
pub mod releases;

use std::{
    io::{IsTerminal, stdin},
    time::Duration,
};

use helmops_api::NamespacedName;

use self::plan::Fate;
use super::{
    agent_namespace,
    join::{management, plan::lacking},
    steps::Steps,
    workload::{self, Workload, WorkloadArgs},
};
use crate::{
    cluster::{
        Cluster, ClusterArgs, api_error,
        duration::duration,
        permission::{self, Permission},
    },
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
    #[arg(long, conflicts_with_all = ["delete_releases", "without_agent"])]
    pub keep_releases: bool,
    /// Remove the Cluster only, because the workload cluster does not exist any more; an agent that still runs uninstalls its releases
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
    agent_namespace: String,
    found: Workload,
    /// What the agent keeps on the cluster.
    releases: Vec<releases::Release>,
    /// The BundleDeployments that do not decode, with the error: their releases are not known.
    undecoded: Vec<String>,
}

impl Leave<'_> {
    async fn run(&self, console: &mut Console<'_>) -> Result<(), Failure> {
        let what = "Checking your permissions";
        let step = Box::pin(self.check_permissions());
        let cluster = self.steps.run(console, what, step).await?;
        let what = if self.workload.is_some() {
            "Reading both clusters"
        } else {
            "Reading the Cluster"
        };
        let known = self
            .steps
            .run(console, what, Box::pin(self.observe(cluster)))
            .await?;
        let fate = self.fate(&known);
        if let Some(text) = plan::warning(&self.name, known.cluster.as_ref(), fate) {
            self.steps.warn(console, &text)?;
        }
        if let Some(text) = plan::unknown_releases(&known.undecoded, fate) {
            self.steps.warn(console, &text)?;
        }
        if !self.args.yes {
            let context = self.workload.as_ref().map(|_| self.args.workload.shown());
            let count = known.releases.len();
            let question = plan::question(&self.name, context.as_deref(), fate, count);
            confirm(&question, console)?;
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

    fn fate(&self, known: &Known) -> Fate {
        let (deletes, has_agent) = (self.args.delete_releases, self.workload.is_some());
        Fate::of(deletes, has_agent, known.cluster.as_ref())
    }

    /// Reads the Cluster if that is possible, and checks the permissions of all steps before the first one: an agent that is stopped
    /// for a Cluster that stays would leave its releases alone.
    async fn check_permissions(&self) -> Result<(Option<helmops_api::Cluster>, String), Failure> {
        let client = &self.management.client;
        let failed = |error: kube::Error| api_error::failed("cannot check permissions", &error);
        let get = Permission::new("get", "fleet.cattle.io", "clusters").within(&self.name.namespace);
        let may_get = get.on(&self.name.name).is_granted(client).await;
        let cluster = if may_get.map_err(failed)? {
            management::get(client, &self.name).await?
        } else {
            // It is listed with the other permissions that are missing.
            None
        };
        let deletes = self.args.delete_releases;
        let needed = plan::management_permissions(&self.name, cluster.as_ref(), deletes);
        let in_management = permission::missing(client, &needed).await.map_err(failed)?;
        let in_workload = match &self.workload {
            Some(workload) => {
                let namespace = agent_namespace(cluster.as_ref());
                let objects = agent::objects(&namespace)?;
                let needed = plan::workload_permissions(&objects, &namespace, deletes);
                let missing = permission::missing(&workload.client, &needed).await;
                missing.map_err(failed)?
            }
            None => Vec::new(),
        };
        match lacking(&in_management, &in_workload) {
            Some(failure) => Err(failure),
            None => Ok((cluster, "you have all permissions that are needed".to_owned())),
        }
    }

    async fn observe(&self, cluster: Option<helmops_api::Cluster>) -> Result<(Known, String), Failure> {
        let agent_namespace = agent_namespace(cluster.as_ref());
        let found = match &self.workload {
            Some(workload) => Some(workload::observe(&workload.client, &agent_namespace).await?),
            None => None,
        };
        let context = self.args.workload.shown();
        plan::admit(&self.name, cluster.as_ref(), &context, found.as_ref())?;
        let (releases, undecoded) = match &cluster {
            Some(cluster) => {
                let found = releases::of(&self.management.client, &cluster.status.namespace);
                let (current, undecoded) = found.await?;
                (releases::merged(releases::recorded(cluster)?, current), undecoded)
            }
            None => (Vec::new(), Vec::new()),
        };
        let done = format!("Cluster {}, releases on it: {}", self.name, releases.len());
        let known = Known {
            cluster,
            agent_namespace,
            found: found.unwrap_or_default(),
            releases,
            undecoded,
        };
        Ok((known, done))
    }

    /// Has the agent uninstall all releases while it still has its account.
    async fn uninstall(&self, known: &Known, console: &mut Console<'_>) -> Result<(), Failure> {
        let (Some(cluster), Some(workload)) = (&known.cluster, &self.workload) else {
            return Ok(());
        };
        let client = &self.management.client;
        let what = format!("Withdrawing what is deployed to Cluster {}", self.name);
        let record = releases::record(&known.releases)?;
        let timeout = self.args.timeout;
        let step = Box::pin(cluster::withdraw(client, cluster, &self.name, &record, timeout));
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
        if self.fate(known) == Fate::Kept && !known.releases.is_empty() {
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
