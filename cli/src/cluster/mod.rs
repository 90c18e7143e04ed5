//! The cluster that a command is about, selected as kubectl selects it, and its objects.

pub mod alike;
pub mod api_error;
pub mod apply;
pub mod contexts;
pub mod duration;
pub mod objects;
pub mod permission;
pub mod request;
pub mod selection;
pub mod until;
pub mod watch;

pub mod records;

use std::path::PathBuf;

use helmops_kube::{ConnectError, UnusableKubeconfig, config_of, inferred, set_user_agent};
use kube::{Client, Config, config::Kubeconfig};

use crate::failure::Failure;

/// The flags of kubectl that select cluster and namespace.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Namespace; by default that of the context
    #[arg(short, long, value_name = "NAME", global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,
    /// Kubeconfig file; by default those in $KUBECONFIG, or else ~/.kube/config
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
}

/// The cluster of a context.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    /// The namespace of the flag, or of the context.
    pub namespace: String,
    /// The address of the API server.
    pub server: String,
}

/// The selected context, before there is a client for it.
struct Selected {
    config: Config,
    /// The namespace of the flag.
    namespace: Option<String>,
}

impl Selected {
    /// Creates the client. It sends no request, but blocks the thread as long as a program for logins of the kubeconfig runs.
    fn connect(self) -> Result<Cluster, Failure> {
        let Self { config, namespace } = self;
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = helmops_kube::client(config, None)
            .map_err(|error| Failure::because("cannot create a client for the API server", &error))?;
        Ok(Cluster {
            client,
            namespace,
            server,
        })
    }
}

impl ClusterArgs {
    /// Creates the client. It sends no request yet.
    pub async fn connect(&self) -> Result<Cluster, Failure> {
        self.select().await?.connect()
    }

    /// Reads what [`Selected::connect`] needs.
    async fn select(&self) -> Result<Selected, Failure> {
        let mut config = self.config().await?;
        set_user_agent(&mut config, "kubectl-helmop");
        Ok(Selected {
            namespace: self.namespace.clone(),
            config,
        })
    }

    /// The configuration of the selected context; without a kubeconfig, that of the pod in which the command runs.
    ///
    /// # Errors
    /// If there is no such context or file, or if the proxy cannot be used.
    pub async fn config(&self) -> Result<Config, Failure> {
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map_err(|error| {
                Failure::because(format!("cannot read --kubeconfig {}", path.display()), &error)
            })?,
            None if self.context.is_none() => {
                return inferred().await.map_err(|error| match error {
                    ConnectError::NotConfigured(error) => {
                        Failure::because("no cluster is configured", &error)
                            .with_hint("set KUBECONFIG or --kubeconfig to a file that kubectl can use")
                    }
                    error => Failure::unable(error.to_string()),
                });
            }
            None => {
                Kubeconfig::read().map_err(|error| Failure::because("cannot read the kubeconfig", &error))?
            }
        };
        config_of(kubeconfig, self.context.as_deref()).map_err(|error| match error {
            UnusableKubeconfig::Kubeconfig(error) => Failure::because("the kubeconfig is invalid", &error)
                .with_hint("list the contexts with: kubectl config get-contexts"),
            UnusableKubeconfig::Proxy(error) => Failure::unable(error.to_string()),
        })
    }
}
