//! The flags.

use std::{num::NonZeroU16, path::PathBuf};

use clap::Parser;
use helmops_fetch::AddressArgs;
use helmops_kube::lease::LeaseArgs;
use helmops_notify::source::Privileged;
use helmops_process::{self as process, MemoryLimit, ProcessArgs, own_namespace};
use url::Url;

/// Notifier for HelmOps: sends the messages of Alerts, and polls HelmOps whose charts registries announce to Receivers
///
/// Every flag can also be set through an environment variable.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-notifier", version = process::version(), args_override_self = true)]
pub struct Args {
    /// Kubeconfig file; by default the ServiceAccount of the pod, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of helmops itself, for the Lease; by default the namespace of the pod's ServiceAccount. Alerts and Receivers in it may
    /// select objects of all namespaces
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,

    /// Identity of this replica in the Lease, by default the host name; also reportingInstance in messages
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,

    /// Other namespaces whose Alerts and Receivers may select objects of all namespaces, comma-separated
    #[arg(
        long,
        env = "HELMOPS_PRIVILEGED_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub privileged_namespaces: Vec<String>,

    /// Maximum number of concurrent reconciliations
    #[arg(long, env = "HELMOPS_WORKERS", default_value_t = DEFAULT_WORKERS, value_name = "NUMBER")]
    pub workers: NonZeroU16,

    /// Memory that the process may use, such as 128Mi; by default the limit of its container. A third of it is for the cache of
    /// watched objects, of which one namespace may use at most three quarters
    #[arg(long, env = "HELMOPS_MEMORY_LIMIT", value_name = "QUANTITY")]
    pub memory_limit: Option<MemoryLimit>,

    /// The addresses to which requests may be sent.
    #[command(flatten)]
    pub addresses: AddressArgs,

    /// URL of the keys of Google, a set of JSON Web Keys, for Receivers of type gcr
    #[arg(
        long,
        env = "HELMOPS_GOOGLE_KEYS_URL",
        default_value = "https://www.googleapis.com/oauth2/v3/certs",
        value_name = "URL"
    )]
    pub google_keys_url: Url,

    /// Flags of leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// Flags that all processes have.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// Workers wait for the API server most of the time.
const DEFAULT_WORKERS: NonZeroU16 = NonZeroU16::new(10).unwrap();

impl Args {
    /// The namespaces whose Alerts and Receivers may select objects of others.
    pub fn privileged(&self) -> Privileged {
        let own = self.namespace.clone().or_else(own_namespace);
        let others = self.privileged_namespaces.iter().cloned();
        Privileged::new(own.into_iter().chain(others).map(|name| name.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flags: &[&str]) -> Args {
        Args::try_parse_from(["helmops-notifier"].iter().chain(flags)).unwrap()
    }

    #[test]
    fn the_own_namespace_and_those_of_the_flag_are_privileged() {
        let privileged =
            args(&["--namespace=helmops-system", "--privileged-namespaces=ops, sre,"]).privileged();
        for namespace in ["helmops-system", "ops", "sre"] {
            assert!(privileged.contains(namespace), "{namespace}");
        }
        assert!(!privileged.contains("") && !privileged.contains("other"));
    }
}
