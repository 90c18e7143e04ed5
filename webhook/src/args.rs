//! The flags.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Parser};
use helmops_shared::runtime::{self, ProcessArgs};

/// Admission webhook for HelmOps: fills in defaults and denies what could never work, with an exact error.
///
/// It serves HTTPS on /mutate and /validate for AdmissionReview (admission.k8s.io/v1). Access to the API server is needed
/// for Policies alone, and never while a request is answered. Every flag can be given as an environment variable too.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-webhook", version = runtime::version())]
pub struct Args {
    /// Address that serves the webhooks over HTTPS
    #[arg(
        long,
        env = "HELMOPS_BIND_ADDRESS",
        default_value = "0.0.0.0:10250",
        value_name = "IP:PORT"
    )]
    pub bind_address: SocketAddr,

    /// File with the serving certificate and its chain, PEM; a change is taken over without a restart
    #[arg(
        long,
        env = "HELMOPS_TLS_CERT_FILE",
        default_value = "/etc/helmops/tls/tls.crt",
        value_name = "FILE"
    )]
    pub tls_cert_file: PathBuf,

    /// File with the private key of the serving certificate, PEM
    #[arg(
        long,
        env = "HELMOPS_TLS_PRIVATE_KEY_FILE",
        default_value = "/etc/helmops/tls/tls.key",
        value_name = "FILE"
    )]
    pub tls_private_key_file: PathBuf,

    /// Kubeconfig file, for Policies; by default the pod's own ServiceAccount, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Deny what the Policies of a namespace forbid; the controller does not deploy it in any case
    #[arg(
        long,
        env = "HELMOPS_POLICIES",
        default_value_t = true,
        action = ArgAction::Set,
        value_name = "true|false"
    )]
    pub policies: bool,

    /// What both processes have in common.
    #[command(flatten)]
    pub process: ProcessArgs,
}
