//! The flags.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;
use helmops_process::{self as process, ProcessArgs};

/// Receives the requests with which registries announce new charts, and records them in the status of Receivers
///
/// Serves POST /hook/DIGEST over plain HTTP; TLS belongs to the Ingress or Gateway in front of it. It reads one Secret, which the
/// notifier writes, and can neither read others nor change HelmOps. Every flag can also be set through an environment variable.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-receiver", version = process::version(), args_override_self = true)]
pub struct Args {
    /// Address to receive requests on, over plain HTTP
    #[arg(
        long,
        env = "HELMOPS_BIND_ADDRESS",
        default_value = "[::]:9292",
        value_name = "IP:PORT"
    )]
    pub bind_address: SocketAddr,

    /// Namespace of helmops itself, with the Secret helmops-receivers; by default the namespace of the pod's ServiceAccount
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,

    /// Kubeconfig file; by default the ServiceAccount of the pod, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Flags of all processes.
    #[command(flatten)]
    pub process: ProcessArgs,
}
