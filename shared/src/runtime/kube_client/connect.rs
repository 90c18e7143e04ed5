//! The way to the API server.

use std::path::{Path, PathBuf};

use axum::http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

use crate::runtime::build_info::{COMMIT, VERSION};

/// Why there is no way to the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig is missing or damaged.
    #[error("cannot read --kubeconfig {}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// The kubeconfig names something that is not there.
    #[error("--kubeconfig {} is not usable", path.display())]
    Unusable {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// Nothing says where the API server is.
    #[error(
        "no way to the API server: not in a pod with a ServiceAccount, and no kubeconfig; give --kubeconfig"
    )]
    Nowhere(#[source] InferConfigError),
    /// The configuration is there, but no client can be made of it.
    #[error("cannot make a client for the API server")]
    Client(#[source] kube::Error),
}

/// Makes a client as the kubeconfig says, or as the surroundings do. It does not talk to the API server yet. `process` is
/// whom the API server's logs name.
///
/// # Errors
/// Where the kubeconfig is missing or damaged, or there is none and no ServiceAccount either.
pub async fn connect(process: &str, kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = configuration(process, kubeconfig).await?;
    Client::try_from(config).map_err(ConnectError::Client)
}

/// The way to the API server that the kubeconfig says, or the surroundings do. `process` is whom the API server's logs
/// name.
///
/// # Errors
/// Where the kubeconfig is missing or damaged, or there is none and no ServiceAccount either.
pub async fn configuration(process: &str, kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => read(path).await?,
        None => Config::infer().await.map_err(ConnectError::Nowhere)?,
    };
    let agent = HeaderValue::from_str(&format!("{process}/{VERSION} ({COMMIT})"));
    config.headers.extend(agent.map(|agent| (USER_AGENT, agent)));
    Ok(config)
}

async fn read(path: &Path) -> Result<Config, ConnectError> {
    let at = || path.to_owned();
    let kubeconfig =
        Kubeconfig::read_from(path).map_err(|source| ConnectError::Unreadable { path: at(), source })?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|source| ConnectError::Unusable { path: at(), source })
}
