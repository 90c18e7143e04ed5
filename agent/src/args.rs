//! The flags.

use std::{
    num::{NonZeroU16, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgAction, Parser, Subcommand, builder::NonEmptyStringValueParser};
use helmops_api::NamespacedName;
use helmops_fetch::AddressArgs;
use helmops_kube::lease::LeaseArgs;
use helmops_process::{MemoryLimit, ProcessArgs, Quantity};
use helmops_trace::TraceArgs;

/// Agent of a cluster: keeps the Helm releases that the BundleDeployments of the cluster describe
///
/// Every flag can also be set through an environment variable.
#[derive(Debug, Parser)]
#[command(name = "helmops-agent", version = helmops_process::version(), args_override_self = true)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// What to run in place of the agent.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Flags of the agent.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What Helm runs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Change the objects of a chart from standard input to standard output; helmops-helm runs it
    #[command(hide = true)]
    PostRender,
}

/// The flags of the process.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Kubeconfig file of this cluster; by default the ServiceAccount of the pod, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the agent: its Lease, the Secret fleet-agent, and the ServiceAccounts that it impersonates
    #[arg(
        long,
        env = "NAMESPACE",
        default_value = "cattle-fleet-system",
        value_name = "NAME"
    )]
    pub namespace: String,

    /// Scope of the agent, spec.agentNamespace of the Cluster: a part of the identity of all objects
    #[arg(long, env = "AGENT_SCOPE", default_value = "", value_name = "NAME")]
    pub agent_scope: String,

    /// Identity of this replica in the Lease; by default the host name
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,

    /// This cluster is the management cluster itself, so no Secret is needed: namespace and name of its Cluster
    #[arg(long, env = "HELMOPS_LOCAL", value_name = "NAMESPACE/NAME", value_parser = namespaced_name)]
    pub local: Option<NamespacedName>,

    /// Interval of the heartbeat, status.agent.lastSeen of the Cluster
    #[arg(long, env = "CHECKIN_INTERVAL", default_value = "15m", value_name = "DURATION", value_parser = interval)]
    pub checkin_interval: Duration,

    /// The part of the life of the token for the management cluster after which it is renewed: there is time for many attempts then
    #[arg(
        long,
        env = "HELMOPS_RENEW_TOKEN_AT",
        default_value = "0.5",
        value_name = "PART",
        value_parser = part,
        hide = true
    )]
    pub renew_token_at: f64,

    /// Interval of the search for releases whose BundleDeployment was deleted while the agent was away
    #[arg(long, env = "HELMOPS_COLLECTION_INTERVAL", default_value = "15m", value_name = "DURATION", value_parser = interval)]
    pub collection_interval: Duration,

    /// Namespaces with releases, comma-separated; all namespaces by default. Needs only the permissions of manifests/agent/namespaced
    #[arg(
        long,
        env = "HELMOPS_RELEASE_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub release_namespaces: Vec<String>,

    /// ServiceAccount in the namespace of the agent that deploys what names no serviceAccount; nothing of that is deployed while it does not
    /// exist. By default, that is fleet-default, as in Fleet, and while it does not exist, the account of the agent
    #[arg(
        long,
        env = "HELMOPS_DEFAULT_SERVICE_ACCOUNT",
        value_name = "NAME",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub default_service_account: Option<String>,

    /// Whether a status shows the last lines of the log of a container that crashes, as far as the account that deploys can read it. Also
    /// those who cannot read logs on this cluster see them
    #[arg(
        long,
        env = "HELMOPS_SHOW_POD_LOGS",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub show_pod_logs: bool,

    /// The program helmops-helm
    #[arg(
        long,
        env = "HELMOPS_HELM",
        default_value = "helmops-helm",
        value_name = "FILE"
    )]
    pub helm: PathBuf,

    /// Memory that the agent may use together with Helm, such as 1Gi; by default, the limit of its container. Of what the agent does not
    /// need itself, each run of Helm may use its part, and an eighth is left to runs that wait for hooks
    #[arg(long, env = "HELMOPS_MEMORY_LIMIT", value_name = "QUANTITY")]
    pub memory_limit: Option<MemoryLimit>,

    /// How many runs of Helm the Bundles of one namespace may have at a time; there is one more for those of others. Each takes about
    /// 70 MiB for a usual chart
    #[arg(
        long,
        env = "HELMOPS_HELM_PROCESSES",
        default_value = "2",
        value_name = "NUMBER"
    )]
    pub helm_processes: NonZeroUsize,

    /// Folder for the values and credentials of running Helm processes, which should be in memory
    #[arg(
        long,
        env = "HELMOPS_WORK_DIR",
        default_value = "/work",
        value_name = "FOLDER"
    )]
    pub work_dir: PathBuf,

    /// Folder for charts, so that they are not fetched again
    #[arg(
        long,
        env = "HELMOPS_CACHE_DIR",
        default_value = "/cache",
        value_name = "FOLDER"
    )]
    pub cache_dir: PathBuf,

    /// Size of all charts in the cache, such as 256Mi
    #[arg(
        long,
        env = "HELMOPS_CACHE_SIZE",
        default_value = "256Mi",
        value_name = "QUANTITY"
    )]
    pub cache_size: Quantity,

    /// Maximum number of concurrent reconciliations
    #[arg(long, env = "HELMOPS_WORKERS", default_value = "20", value_name = "NUMBER")]
    pub workers: NonZeroU16,

    /// The addresses to which requests may be sent.
    #[command(flatten)]
    pub addresses: AddressArgs,

    /// Flags of leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// Flags that all processes have.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Where traces are sent.
    #[command(flatten)]
    pub traces: TraceArgs,
}

impl RunArgs {
    /// Memory that the agent may use together with Helm.
    pub fn memory_limit(&self) -> MemoryLimit {
        self.memory_limit.unwrap_or_else(MemoryLimit::detected)
    }
}

fn namespaced_name(text: &str) -> Result<NamespacedName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(NamespacedName::new(namespace, name))
        }
        _ => Err("must be NAMESPACE/NAME of a Cluster, such as fleet-local/local".to_owned()),
    }
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

/// A Go duration of at least a second. An empty text and 0 mean the default of Fleet's agent: 15 minutes.
fn interval(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Ok(Duration::from_mins(15));
    }
    let interval = go_formats::duration::parse(text).map_err(|error| error.to_string())?;
    match interval {
        Duration::ZERO => Ok(Duration::from_mins(15)),
        interval if interval < Duration::from_secs(1) => Err("must be at least 1s".to_owned()),
        interval => Ok(interval),
    }
}
