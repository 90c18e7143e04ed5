//! The client for the API server, and its configuration.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use helmops_process::build_info::{COMMIT, VERSION};
use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    client::{ClientBuilder, retry::RetryPolicy},
    config::{InferConfigError, Kubeconfig, KubeconfigError},
};
use thiserror::Error;
use tower::{buffer::BufferLayer, filter::FilterLayer, retry::RetryLayer};

use crate::{
    kubeconfig::{UnusableKubeconfig, config_of, inferred},
    lease::{Guard, Leadership},
    path::without_dot_segments,
    proxy::InvalidProxy,
    responses::BoundedResponses,
};

/// The time for a connection. An API server that was away may have lost the first packets, and the kernel repeats them ever more rarely.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The delays of requests that the API server is too busy for, or not ready for (429, 503, 504), unless its response names one. The client's
/// own policy waits for minutes in the end, and repeats nothing for so long after the API server is ready.
const MIN_RETRY: Duration = Duration::from_millis(5);
const MAX_RETRY: Duration = Duration::from_secs(2);
const RETRIES: u32 = 15;

/// Requests that wait for the connection; more of them wait in front of it.
const PENDING_REQUESTS: usize = 1024;

/// Why there is no client for the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig is missing or does not parse.
    #[error("cannot read --kubeconfig {}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: KubeconfigError,
    },
    /// The kubeconfig refers to something that does not exist, such as a context.
    #[error("--kubeconfig {} is invalid", path.display())]
    Invalid {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: KubeconfigError,
    },
    /// There is neither a kubeconfig nor a ServiceAccount.
    #[error(
        "no API server is configured: not running in a pod with a ServiceAccount, and no kubeconfig found; set --kubeconfig"
    )]
    NotConfigured(#[source] InferConfigError),
    /// The proxy of the kubeconfig or of the environment cannot be used.
    #[error(transparent)]
    Proxy(InvalidProxy),
    /// A client cannot be created from the configuration.
    #[error("cannot create a client for the API server")]
    Client(#[source] kube::Error),
}

/// Creates a client from the kubeconfig, or from the environment without one. It sends no request yet. `process` is the user
/// agent in the logs of the API server.
///
/// # Errors
/// If the kubeconfig is missing or invalid, or if there is neither a kubeconfig nor a ServiceAccount.
pub async fn connect(process: &str, kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = configuration(process, kubeconfig).await?;
    client(config, None).map_err(ConnectError::Client)
}

/// A client whose responses always decode, and that notices soon when an API server that was away is back. No process has another one.
/// With a leadership, it writes only while this process is the leader.
///
/// # Errors
/// If the certificates of the configuration are unusable.
pub fn client(mut config: Config, leadership: Option<Leadership>) -> kube::Result<Client> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false;
    let retries = RetryPolicy::new(MIN_RETRY, MAX_RETRY, RETRIES, true)
        .map_err(|error| kube::Error::Service(error.into()))?;
    let builder = ClientBuilder::try_from(config)?
        .with_layer(&BufferLayer::new(PENDING_REQUESTS))
        .with_layer(&RetryLayer::new(retries))
        .with_layer(&BoundedResponses)
        .with_layer(&FilterLayer::new(without_dot_segments));
    Ok(match leadership {
        Some(leadership) => builder.with_layer(&Guard(leadership)).build(),
        None => builder.build(),
    })
}

/// The configuration of the client, from the kubeconfig, or from the environment without one. `process` is the user agent in
/// the logs of the API server.
///
/// # Errors
/// If the kubeconfig is missing or invalid, or if there is neither a kubeconfig nor a ServiceAccount.
pub async fn configuration(process: &str, kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => read(path)?,
        None => inferred().await?,
    };
    set_user_agent(&mut config, process);
    Ok(config)
}

/// Sets the user agent of a client, which the audit log of the API server shows.
pub fn set_user_agent(config: &mut Config, process: &str) {
    let agent = HeaderValue::from_str(&format!("{process}/{VERSION} ({COMMIT})"));
    config.headers.extend(agent.map(|agent| (USER_AGENT, agent)));
}

fn read(path: &Path) -> Result<Config, ConnectError> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|source| ConnectError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    config_of(kubeconfig, None).map_err(|error| match error {
        UnusableKubeconfig::Kubeconfig(source) => ConnectError::Invalid {
            path: path.to_owned(),
            source,
        },
        UnusableKubeconfig::Proxy(error) => ConnectError::Proxy(error),
    })
}
