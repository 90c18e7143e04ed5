//! Who reads the cluster for a chart. Charts and HelmOps are of tenants, and choose what is read: so it is the account that would deploy
//! them, not the person who looks.

use helmops_api::BundleDeploymentOptions;
use helmops_helm::{account::identity, request::Identity};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config};

use crate::{
    cluster::{
        ClusterArgs,
        permission::{Permission, missing},
    },
    failure::Failure,
};

/// The accounts of agents themselves: of this project, and of Fleet.
const AGENTS: [&str; 2] = ["helmops-agent", "fleet-agent"];

/// Who reads the cluster for a chart and its values.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AccountArgs {
    /// Read what lookup and valuesFrom name with your own permissions, not as the account that would deploy
    #[arg(long)]
    pub as_myself: bool,
    /// Namespace of the agent, which has the account; by default that of the Cluster, or cattle-fleet-system
    #[arg(long, value_name = "NAME")]
    pub agent_namespace: Option<String>,
}

impl AccountArgs {
    /// The account. `agent_namespace` is used if there is no flag for it.
    ///
    /// # Errors
    /// If the person is not allowed to impersonate it.
    pub async fn account(
        &self,
        options: &BundleDeploymentOptions,
        agent_namespace: &str,
        cluster: &ClusterArgs,
    ) -> Result<Account, Failure> {
        if self.as_myself {
            return Account::of_person(cluster).await;
        }
        let namespace = self.agent_namespace.as_deref().unwrap_or(agent_namespace);
        Account::of_deployer(cluster, namespace, &options.service_account).await
    }
}

/// Who reads.
pub struct Account {
    /// The user that Helm impersonates.
    pub(super) identity: Identity,
    /// The credentials of the person.
    pub(super) config: Config,
    /// A client that impersonates it.
    pub client: Client,
}

impl Account {
    /// The person.
    ///
    /// # Errors
    /// If no cluster is configured.
    async fn of_person(cluster: &ClusterArgs) -> Result<Self, Failure> {
        Ok(Self {
            identity: Identity::Agent,
            config: cluster.config().await?,
            client: cluster.connect().await?.client,
        })
    }

    /// The account that the agent deploys with: the named ServiceAccount in its namespace, the default one, or its own.
    ///
    /// # Errors
    /// If it does not exist, or the person is not allowed to impersonate it.
    async fn of_deployer(
        cluster: &ClusterArgs,
        agent_namespace: &str,
        service_account: &str,
    ) -> Result<Self, Failure> {
        let person = cluster.connect().await?.client;
        let attempt = "the account that would deploy the chart is not known";
        let found = identity(&person, agent_namespace, service_account).await;
        let found = found.map_err(|error| Failure::because(attempt, &error).with_hint(HINT))?;
        let identity = match found {
            Identity::ServiceAccount { .. } => found,
            Identity::Agent => Identity::ServiceAccount {
                namespace: agent_namespace.to_owned(),
                name: of_agent(&person, agent_namespace).await?,
            },
        };
        if let Identity::ServiceAccount { namespace, name } = &identity {
            let needed = Permission::new("impersonate", "", "serviceaccounts")
                .within(namespace)
                .on(name);
            let lacking = missing(&person, &[needed]).await;
            let lacking = lacking.map_err(|error| Failure::because("cannot review permissions", &error))?;
            if let Some(permission) = lacking.first() {
                return Err(Failure::unable(format!(
                    "the chart is read as ServiceAccount {namespace}/{name}, which would deploy it, and you lack a permission: {permission}"
                ))
                .with_hint(HINT));
            }
        }
        let config = unimpersonated(cluster.config().await?);
        let mut impersonating = config.clone();
        impersonating.auth_info.impersonate = identity.user();
        let client = helmops_kube::client(impersonating, None)
            .map_err(|error| Failure::because("cannot create a client for the API server", &error))?;
        Ok(Self {
            identity,
            config,
            client,
        })
    }
}

/// What to do without the account.
const HINT: &str = "the agent may be in another namespace (--agent-namespace); --as-myself reads with your own permissions what the chart and valuesFrom name";

/// The account of the agent itself.
async fn of_agent(client: &Client, namespace: &str) -> Result<String, Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    for name in AGENTS {
        let found = accounts.get_metadata_opt(name).await;
        let found = found.map_err(|error| {
            Failure::because(format!("cannot read ServiceAccount {namespace}/{name}"), &error).with_hint(HINT)
        })?;
        if found.is_some() {
            return Ok(name.to_owned());
        }
    }
    Err(Failure::unable(format!(
        "the chart would be deployed with the account of the agent, and namespace {namespace} has neither ServiceAccount {}",
        AGENTS.join(" nor ")
    ))
    .with_hint(HINT))
}

/// Groups of the kubeconfig would add to the permissions of the account.
fn unimpersonated(mut config: Config) -> Config {
    let auth = &mut config.auth_info;
    (auth.impersonate, auth.impersonate_uid) = (None, None);
    (auth.impersonate_groups, auth.impersonate_user_extra) = (None, None);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_gets_no_groups_of_the_kubeconfig() {
        let mut config = Config::new("https://h.example".parse().unwrap());
        config.auth_info.impersonate = Some("admin".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        config.auth_info.token_file = Some("/token".to_owned());
        let auth = unimpersonated(config).auth_info;
        assert_eq!((auth.impersonate, auth.impersonate_groups), (None, None));
        assert_eq!(auth.token_file.as_deref(), Some("/token"));
    }
}
