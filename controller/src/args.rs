//! The flags.

use std::{num::NonZeroU16, path::PathBuf, time::Duration};

use clap::{ArgAction, Parser, ValueEnum};
use helmops_shared::{
    api::duration,
    runtime::{self, ProcessArgs},
};

use thiserror::Error;

use crate::{
    lease::LeaseArgs,
    memory_limit::MemoryLimit,
    resolve::{Addresses, Cidr, CidrError},
    watch::Scope,
};

/// Controller for HelmOps: resolves each HelmOp's chart to one version and writes a Bundle with it.
///
/// Every flag can be given as an environment variable too.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-controller", version = runtime::version(), args_override_self = true)]
pub struct Args {
    /// Kubeconfig file; by default the pod's own ServiceAccount, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of helmops itself, where its Lease is; by default that of the pod's ServiceAccount
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,

    /// Name by which this replica is known in the Lease; by default that of the host
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,

    /// Shard of HelmOps to work on; each has a leader of its own
    #[arg(long, env = "FLEET_SHARD_ID", value_name = "NAME")]
    pub shard_id: Option<String>,

    /// Namespaces whose HelmOps to work on, separated by commas; all of them by default. Rights in these namespaces
    /// will do then in place of rights in the whole cluster (manifests/namespaced)
    #[arg(
        long,
        env = "HELMOPS_WATCH_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub watch_namespaces: Vec<String>,

    /// Loops to run, separated by commas: helmop makes Bundles of HelmOps; bundle brings Bundles to clusters, where neither
    /// Fleet's own controller nor another one does. The second needs the first
    #[arg(
        long,
        env = "HELMOPS_CONTROLLERS",
        value_enum,
        default_value = "helmop",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub controllers: Vec<Controller>,

    /// How many objects are worked on at a time
    #[arg(long, env = "HELMOPS_WORKERS", default_value_t = DEFAULT_WORKERS, value_name = "NUMBER")]
    pub workers: NonZeroU16,

    /// Memory for the answers of chart repositories and registries, in MiB; what is dropped is asked for again. By default 16,
    /// or less where the process may use less than 256 MiB; at most a quarter of what it may use beyond 32 MiB
    #[arg(long, env = "HELMOPS_CACHE_MIB", value_name = "NUMBER")]
    pub cache_mib: Option<NonZeroU16>,

    /// Memory that the process may use, such as 256Mi; the limit of its container by default. Half of it is for the objects
    /// that it watches, and no namespace has more than three quarters of that
    #[arg(long, env = "HELMOPS_MEMORY_LIMIT", value_name = "QUANTITY")]
    pub memory_limit: Option<MemoryLimit>,

    /// Ranges of addresses that requests may go to although they are refused by default (loopback, link-local and multicast
    /// addresses, and those of metadata services), separated by commas, such as 127.0.0.0/8
    #[arg(
        long,
        env = "HELMOPS_ALLOW_CIDRS",
        value_name = "CIDRS",
        value_delimiter = ','
    )]
    pub allow_cidrs: Vec<String>,

    /// Ranges of addresses that no request goes to, separated by commas; they count before --allow-cidrs
    #[arg(long, env = "HELMOPS_DENY_CIDRS", value_name = "CIDRS", value_delimiter = ',')]
    pub deny_cidrs: Vec<String>,

    /// Shortest time between two looks for newer versions of a HelmOp, as a Go duration of at least 1s; shorter values of
    /// spec.pollingInterval are raised to it
    #[arg(long, env = "HELMOPS_MIN_POLLING_INTERVAL", default_value = "5s", value_name = "DURATION", value_parser = interval)]
    pub min_polling_interval: Duration,

    /// Have Fleet's own gauges of each HelmOp among the metrics; their number grows with that of HelmOps
    #[arg(long, env = "HELMOPS_FLEET_METRICS", default_value_t = true, action = ArgAction::Set, value_name = "BOOLEAN")]
    pub fleet_metrics: bool,
    /// Which of several replicas works.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// What both processes have in common.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// A loop that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Controller {
    /// HelmOps to Bundles.
    Helmop,
    /// Bundles to clusters, and Clusters to their namespaces.
    Bundle,
}

/// Flags that do not go together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArgsError {
    /// The loops must include the first.
    #[error(
        "--controllers=bundle: the bundle loop runs beside the helmop loop; say --controllers=helmop,bundle"
    )]
    NoHelmOpLoop,
    /// BundleDeployments are in the namespaces of clusters.
    #[error(
        "--controllers=helmop,bundle does not go with --watch-namespaces: what is brought to clusters is written into their \
         namespaces, which need rights in the whole cluster"
    )]
    NamespacesOfClusters,
    /// A range of addresses is none.
    #[error("{flag}: {source}")]
    Cidr {
        /// Which flag names it.
        flag: &'static str,
        /// What is wrong.
        source: CidrError,
    },
}

/// Workers wait for registries and the API server most of the time, so there are many more than processors.
const DEFAULT_WORKERS: NonZeroU16 = NonZeroU16::new(50).unwrap();

impl Args {
    /// Which HelmOps to work on.
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

    /// Whether Bundles are brought to clusters.
    ///
    /// # Errors
    /// Where the flags do not go together.
    pub fn delivers(&self) -> Result<bool, ArgsError> {
        let delivers = self.controllers.contains(&Controller::Bundle);
        if !self.controllers.contains(&Controller::Helmop) {
            Err(ArgsError::NoHelmOpLoop)
        } else if delivers && !self.scope().is_cluster() {
            Err(ArgsError::NamespacesOfClusters)
        } else {
            Ok(delivers)
        }
    }

    /// Memory that the process may use.
    pub fn memory_limit(&self) -> MemoryLimit {
        self.memory_limit.unwrap_or_else(MemoryLimit::detected)
    }

    /// Which addresses requests may go to.
    ///
    /// # Errors
    /// Where a range is none.
    pub fn addresses(&self) -> Result<Addresses, ArgsError> {
        Ok(Addresses {
            allow: cidrs("--allow-cidrs", &self.allow_cidrs)?,
            deny: cidrs("--deny-cidrs", &self.deny_cidrs)?,
        })
    }

    /// Memory that is wanted for answers, in bytes.
    pub fn cache_size(&self) -> Option<usize> {
        self.cache_mib.map(|mib| usize::from(mib.get()) << 20)
    }
}

/// Ranges of addresses. An empty one is none, as in an environment variable that is set to nothing.
fn cidrs(flag: &'static str, texts: &[String]) -> Result<Vec<Cidr>, ArgsError> {
    let texts = texts
        .iter()
        .map(|text| text.trim())
        .filter(|text| !text.is_empty());
    texts
        .map(|text| text.parse().map_err(|source| ArgsError::Cidr { flag, source }))
        .collect()
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text).map_err(|error| error.to_string())?;
    // The status tells times in whole seconds.
    if interval < Duration::from_secs(1) {
        return Err("too short; at least 1s".to_owned());
    }
    Ok(interval)
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
    fn ranges_of_addresses_are_read_and_an_empty_one_is_none() {
        let args = |flags: &[&str]| Args::try_parse_from(["helmops-controller"].iter().chain(flags)).unwrap();
        let read = args(&["--allow-cidrs=127.0.0.0/8, ::1/128", "--deny-cidrs="]).addresses();
        let read = read.unwrap();
        assert_eq!((read.allow.len(), read.deny.len()), (2, 0));
        let error = args(&["--deny-cidrs=10.0.0.0/8,corp"]).addresses().unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("--deny-cidrs: \"corp\" is not a range"),
            "{error}"
        );
    }

    #[test]
    fn loops_are_chosen_together() {
        assert_eq!(delivers(&[]), Ok(false));
        assert_eq!(delivers(&["--controllers=helmop,bundle"]), Ok(true));
        assert_eq!(delivers(&["--controllers=bundle"]), Err(ArgsError::NoHelmOpLoop));
        let flags = ["--controllers=helmop,bundle", "--watch-namespaces=a"];
        assert_eq!(delivers(&flags), Err(ArgsError::NamespacesOfClusters));
    }
}
