//! The accounts that deploy.

use std::{collections::HashMap, sync::Mutex};

use helmops_helm::{account::identity, request::Identity};
use helmops_kube::lease::Leadership;
use helmops_process::lock;
use helmops_runtime::client;
use kube::{Client, Config};

use crate::error::AgentError;

/// The accounts that deploy, and their clients. An account is looked up each time: it may have been deleted.
pub struct Accounts {
    /// With the permissions of the agent.
    agent: Client,
    config: Config,
    leadership: Leadership,
    /// The namespace of the agent.
    namespace: String,
    /// The ServiceAccount of deployments that name none, which must exist; `None` for that of Fleet, else the agent itself.
    default: Option<String>,
    /// A client for each account that was found, which are few: only an admin creates accounts in the namespace of the agent. Each client has
    /// connections of its own.
    clients: Mutex<HashMap<String, Client>>,
}

impl Accounts {
    /// The accounts in the namespace of the agent. `agent` is a client with the permissions of the agent, of the same configuration.
    pub fn new(
        agent: Client,
        config: Config,
        leadership: Leadership,
        namespace: &str,
        default: Option<String>,
    ) -> Self {
        Self {
            agent,
            config,
            leadership,
            namespace: namespace.to_owned(),
            default,
            clients: Mutex::default(),
        }
    }

    /// The account of a deployment, and its client. `service_account` is what the deployment names; empty for none.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub async fn deployer(&self, service_account: &str) -> Result<(Identity, Client), AgentError> {
        let named = match (service_account, &self.default) {
            ("", Some(default)) => default,
            (named, _) => named,
        };
        let identity = identity(&self.agent, &self.namespace, named).await;
        if identity.is_err() {
            // Most likely it does not exist.
            lock(&self.clients).remove(named);
        }
        let identity = identity?;
        let client = match &identity {
            Identity::ServiceAccount { name, .. } => self.client(&identity, name)?,
            Identity::Agent => self.agent.clone(),
        };
        Ok((identity, client))
    }

    fn client(&self, identity: &Identity, name: &str) -> Result<Client, AgentError> {
        let mut clients = lock(&self.clients);
        if let Some(known) = clients.get(name) {
            return Ok(known.clone());
        }
        let mut config = self.config.clone();
        config.auth_info.impersonate = identity.user();
        let client = client::for_work(config, self.leadership.clone());
        let client = client.map_err(|error| AgentError::Client(error.to_string()))?;
        clients.insert(name.to_owned(), client.clone());
        Ok(client)
    }
}
