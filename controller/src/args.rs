//! The flags.

use std::{num::NonZeroU16, path::PathBuf};

use clap::Parser;
use helmops_shared::runtime::{self, ProcessArgs};

/// Controller for HelmOps: resolves each HelmOp's chart to one version and writes a Bundle with it.
///
/// Every flag can be given as an environment variable too.
#[derive(Clone, Debug, Parser)]
#[command(name = "helmops-controller", version = runtime::version())]
pub struct Args {
    /// Kubeconfig file; by default the pod's own ServiceAccount, or else ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// How many HelmOps are worked on at a time
    #[arg(long, env = "HELMOPS_WORKERS", default_value_t = DEFAULT_WORKERS, value_name = "NUMBER")]
    pub workers: NonZeroU16,

    /// What both processes have in common.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// Workers wait for registries and the API server most of the time, so there are many more than processors.
const DEFAULT_WORKERS: NonZeroU16 = NonZeroU16::new(50).unwrap();
