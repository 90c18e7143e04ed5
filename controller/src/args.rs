//! The flags.

use std::{num::NonZeroU16, path::PathBuf, time::Duration};

use clap::{ArgAction, Parser, ValueEnum};
use helmops_core::agents::{AGENT_TIMEOUT, Patience};
use helmops_fetch::AddressArgs;
use helmops_kube::lease::LeaseArgs;
use helmops_model::validation::names;
use helmops_process::{self as process, MemoryLimit, ProcessArgs, Quantity};
use helmops_trace::TraceArgs;
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use crate::{
    api_server::{ApiServerArgs, ApiServerArgsError},
    import::ImportArgs,
    registration::RegistrationOptions,
    watch::{AgentOptions, Scope},
};

/// Controller for HelmOps: resolves the chart of each HelmOp to one version and writes a Bundle with it
///
/// Every flag can also be set through an environment variable.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-controller", version = process::version(), args_override_self = true)]
pub struct Args {
    /// Kubeconfig file; by default the ServiceAccount of the pod, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of helmops itself, for the Lease; by default the namespace of the pod's ServiceAccount
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,

    /// Identity of this replica in the Lease; by default the host name
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,

    /// Shard to reconcile: HelmOps with the label fleet.cattle.io/shard-ref=NAME; each shard has its own leader
    #[arg(long, env = "FLEET_SHARD_ID", value_name = "NAME")]
    pub shard_id: Option<String>,

    /// Namespaces to watch, comma-separated; all namespaces by default. Needs only the permissions of manifests/namespaced
    #[arg(
        long,
        env = "HELMOPS_WATCH_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub watch_namespaces: Vec<String>,

    /// Controllers to run, comma-separated; bundle replaces Fleet's bundle controller and needs helmop
    #[arg(
        long,
        env = "HELMOPS_CONTROLLERS",
        value_enum,
        default_value = "helmop",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub controllers: Vec<Controller>,

    /// With the bundle controller: maintain the accounts of agents, a ServiceAccount with permissions for each Cluster
    #[arg(
        long,
        env = "HELMOPS_AGENT_ACCOUNTS",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub agent_accounts: bool,

    /// With the bundle controller: let agents register their clusters with ClusterRegistrationTokens. Needs the permissions of
    /// manifests/registration. Only one controller may do this: not beside Fleet's
    #[arg(
        long,
        env = "HELMOPS_CLUSTER_REGISTRATION",
        default_value_t = false,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub cluster_registration: bool,

    /// With --cluster-registration: namespace of the credentials of agents, until these have read them
    #[arg(
        long,
        env = "HELMOPS_REGISTRATION_NAMESPACE",
        default_value = "cattle-fleet-clusters-system",
        value_name = "NAME",
        value_parser = namespace
    )]
    pub registration_namespace: String,

    /// Where agents reach this API server.
    #[command(flatten)]
    pub api_server: ApiServerArgs,

    /// With the bundle controller: time without a report of its agent after which the state of a Cluster is unknown, three check-in
    /// intervals of agents; 0s disables it
    #[arg(long, env = "HELMOPS_AGENT_TIMEOUT", default_value = AGENT_TIMEOUT, value_name = "DURATION", value_parser = timeout)]
    pub agent_timeout: Duration,

    /// The import of clusters by their kubeconfigs.
    #[command(flatten)]
    pub imports: ImportArgs,

    /// Maximum number of concurrent reconciliations
    #[arg(long, env = "HELMOPS_WORKERS", default_value_t = DEFAULT_WORKERS, value_name = "NUMBER")]
    pub workers: NonZeroU16,

    /// Size of the cache for responses of chart repositories and registries, such as 16Mi, which is the default; less if
    /// --memory-limit is below 256Mi, and at most a quarter of what that exceeds 32Mi by
    #[arg(long, env = "HELMOPS_CACHE_SIZE", value_name = "QUANTITY")]
    pub cache_size: Option<Quantity>,

    /// Memory that the process may use, such as 256Mi; by default the limit of its container. Half of it is for the cache of
    /// watched objects, of which one namespace may use at most three quarters
    #[arg(long, env = "HELMOPS_MEMORY_LIMIT", value_name = "QUANTITY")]
    pub memory_limit: Option<MemoryLimit>,

    /// The addresses to which requests may be sent.
    #[command(flatten)]
    pub addresses: AddressArgs,

    /// Minimum polling interval, at least 1s; shorter values of spec.pollingInterval are raised to it
    #[arg(long, env = "HELMOPS_MIN_POLLING_INTERVAL", default_value = "5s", value_name = "DURATION", value_parser = interval)]
    pub min_polling_interval: Duration,

    /// With the bundle controller: time after which a Content is deleted that nothing refers to any more
    #[arg(long, env = "HELMOPS_CONTENT_GRACE_PERIOD", default_value = "1h", value_name = "DURATION", value_parser = grace)]
    pub content_grace_period: Duration,

    /// With the bundle controller: bytes that Contents may take together, in etcd; those of one namespace at most half of it
    #[arg(
        long,
        env = "HELMOPS_CONTENT_SIZE",
        default_value = "512Mi",
        value_name = "QUANTITY"
    )]
    pub content_size: Quantity,

    /// Expose Fleet's own metrics of each HelmOp; their number grows with the number of HelmOps
    #[arg(
        long,
        env = "HELMOPS_FLEET_METRICS",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub fleet_metrics: bool,

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

/// A controller that can be enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Controller {
    /// Writes a Bundle for each HelmOp.
    Helmop,
    /// Writes a BundleDeployment for each target of a Bundle, and creates the namespaces of Clusters.
    Bundle,
}

/// Invalid flags, or flags that cannot be combined.
#[derive(Debug, Error)]
pub enum ArgsError {
    /// The helmop controller is required.
    #[error(
        "--controllers=bundle: the bundle controller needs the helmop controller; use --controllers=helmop,bundle"
    )]
    NoHelmOpLoop,
    /// BundleDeployments are written to the namespaces of clusters.
    #[error(
        "--controllers=helmop,bundle cannot be combined with --watch-namespaces: BundleDeployments are written to the namespaces \
         of clusters, which needs permissions in the whole cluster"
    )]
    NamespacesOfClusters,
    /// A flag that needs the accounts of agents, which the loop of Clusters maintains.
    #[error(
        "{0} needs --controllers=helmop,bundle and --agent-accounts: the bundle controller maintains the accounts of agents"
    )]
    NoAccounts(&'static str),
    /// The address or the CA for agents.
    #[error(transparent)]
    ApiServer(#[from] ApiServerArgsError),
}

/// Workers wait for registries and the API server most of the time, so there are many more of them than processors.
const DEFAULT_WORKERS: NonZeroU16 = NonZeroU16::new(50).unwrap();

impl Args {
    /// Which HelmOps to reconcile.
    pub fn scope(&self) -> Scope {
        let mut namespaces: Vec<_> = self
            .watch_namespaces
            .iter()
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        namespaces.sort();
        namespaces.dedup();
        Scope {
            namespaces,
            shard: self.shard_id.clone().unwrap_or_default(),
        }
    }

    /// Whether Bundles are deployed to clusters.
    ///
    /// # Errors
    /// If the flags cannot be combined.
    pub fn delivers(&self) -> Result<bool, ArgsError> {
        let delivers = self.controllers.contains(&Controller::Bundle);
        if !self.controllers.contains(&Controller::Helmop) {
            Err(ArgsError::NoHelmOpLoop)
        } else if delivers && !self.scope().is_cluster_wide() {
            Err(ArgsError::NamespacesOfClusters)
        } else {
            Ok(delivers)
        }
    }

    /// What is done for the agents of clusters by a process that starts now; `None` if Bundles are not deployed to clusters.
    ///
    /// # Errors
    /// If the flags cannot be combined.
    pub fn agents(&self, now: Timestamp) -> Result<Option<AgentOptions>, ArgsError> {
        let patience = Patience {
            limit: self.agent_timeout,
            since: now,
        };
        // Clusters are not sharded: the default shard maintains all accounts.
        let has_accounts = self.agent_accounts && self.scope().shard.is_empty();
        let delivers = self.delivers()?;
        if self.cluster_registration && !(delivers && self.agent_accounts) {
            return Err(ArgsError::NoAccounts("--cluster-registration"));
        }
        if self.imports.import_clusters && !(delivers && self.agent_accounts) {
            return Err(ArgsError::NoAccounts("--import-clusters"));
        }
        let registers = self.cluster_registration && has_accounts;
        let server = registers.then(|| self.api_server.read()).transpose()?;
        let registration =
            server.map(|server| RegistrationOptions::new(&self.registration_namespace, server));
        let options = AgentOptions {
            has_accounts,
            imports: has_accounts && self.imports.import_clusters,
            patience,
            registration,
        };
        Ok(delivers.then_some(options))
    }

    /// Size of the cache for responses in bytes, if a flag sets it.
    pub fn cache_size(&self) -> Option<usize> {
        self.cache_size.map(Quantity::bytes)
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = go_formats::duration::parse(text).map_err(|error| error.to_string())?;
    // Times in the status are in whole seconds.
    if interval < Duration::from_secs(1) {
        return Err("too short; at least 1s".to_owned());
    }
    Ok(interval)
}

/// The name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    names::namespace(text).map_err(str::to_owned)?;
    Ok(text.to_owned())
}

/// The Bundle that a Content is written for mostly follows within this time. If it does not, the chart is stored again.
const MIN_GRACE: Duration = Duration::from_secs(5);

fn grace(text: &str) -> Result<Duration, String> {
    match timeout(text)? {
        grace if grace < MIN_GRACE => Err(format!("must be at least {}s", MIN_GRACE.as_secs())),
        grace => Ok(grace),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    go_formats::duration::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivers(flags: &[&str]) -> Result<bool, ArgsError> {
        let program = ["helmops-controller"];
        Args::try_parse_from(program.iter().chain(flags))
            .unwrap()
            .delivers()
    }

    #[test]
    fn booleans_and_sizes_are_parsed_as_in_kubernetes_components() {
        let args = |flag: &str| Args::try_parse_from(["helmops-controller", flag]);
        assert!(!args("--fleet-metrics=false").unwrap().fleet_metrics);
        assert!(args("--fleet-metrics").unwrap().fleet_metrics);
        assert_eq!(args("--cache-size=16Mi").unwrap().cache_size(), Some(16 << 20));
        let error = args("--cache-size=16MB").unwrap_err().to_string();
        assert!(error.contains("16MB") && error.contains("256Mi"), "{error}");
    }

    #[test]
    fn only_the_default_shard_of_the_bundle_controller_maintains_accounts() {
        let has_accounts = |flags: &[&str]| {
            let args = Args::try_parse_from(["helmops-controller"].iter().chain(flags)).unwrap();
            let agents = args.agents(Timestamp::UNIX_EPOCH).unwrap();
            agents.map(|agents| agents.has_accounts)
        };
        let bundle = "--controllers=helmop,bundle";
        assert_eq!(has_accounts(&[]), None);
        assert_eq!(has_accounts(&[bundle]), Some(true));
        assert_eq!(has_accounts(&[bundle, "--agent-accounts=false"]), Some(false));
        assert_eq!(has_accounts(&[bundle, "--shard-id=b"]), Some(false));
    }

    #[test]
    fn only_the_default_shard_with_accounts_imports_clusters() {
        let imports = |flags: &[&str]| {
            let args = Args::try_parse_from(["helmops-controller"].iter().chain(flags)).unwrap();
            let agents = args.agents(Timestamp::UNIX_EPOCH)?;
            Ok(agents.map(|agents| agents.imports))
        };
        let (bundle, import) = ("--controllers=helmop,bundle", "--import-clusters");
        assert!(
            matches!(imports(&[bundle]), Ok(Some(false))),
            "it is off by default"
        );
        assert!(matches!(imports(&[bundle, import]), Ok(Some(true))));
        assert!(matches!(
            imports(&[bundle, import, "--shard-id=b"]),
            Ok(Some(false))
        ));
        for flags in [&[import][..], &[bundle, import, "--agent-accounts=false"]] {
            assert!(matches!(
                imports(flags),
                Err(ArgsError::NoAccounts("--import-clusters"))
            ));
        }
    }

    #[test]
    fn the_bundle_controller_needs_the_helmop_controller_and_all_namespaces() {
        assert!(matches!(delivers(&[]), Ok(false)));
        assert!(matches!(delivers(&["--controllers=helmop,bundle"]), Ok(true)));
        assert!(matches!(
            delivers(&["--controllers=bundle"]),
            Err(ArgsError::NoHelmOpLoop)
        ));
        let flags = ["--controllers=helmop,bundle", "--watch-namespaces=a"];
        assert!(matches!(delivers(&flags), Err(ArgsError::NamespacesOfClusters)));
    }

    #[test]
    fn registration_needs_the_accounts_and_is_done_by_the_default_shard() {
        let registers = |flags: &[&str]| {
            let program = ["helmops-controller", "--cluster-registration"];
            let args = Args::try_parse_from(program.iter().chain(flags)).unwrap();
            let agents = args.agents(Timestamp::UNIX_EPOCH)?;
            Ok::<_, ArgsError>(agents.and_then(|agents| agents.registration).is_some())
        };
        let bundle = "--controllers=helmop,bundle";
        assert!(matches!(registers(&[bundle]), Ok(true)));
        assert!(matches!(registers(&[bundle, "--shard-id=b"]), Ok(false)));
        for flags in [&[][..], &[bundle, "--agent-accounts=false"]] {
            assert!(matches!(
                registers(flags),
                Err(ArgsError::NoAccounts("--cluster-registration"))
            ));
        }
    }
}
