//! Finds the management cluster.

use std::{path::Path, time::Duration};

use helmops_api::{Cluster, NamespacedName};
use helmops_fair::ExponentialBackoff;
use helmops_join::{access::SECRET, bootstrap::Bootstrap};
use helmops_kube::lease::Leadership;
use helmops_process::{Gate, OnChange, exit::with_causes};
use helmops_runtime::client::{self, bounded};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::Instant;

use super::{
    access::{self, Access},
    credential::Credential,
    register::{Existing, Outcome, Registrar},
};
use crate::args::RunArgs;

/// Between two looks for something that does not exist yet.
const RETRY: Duration = Duration::from_secs(2);

/// Between attempts to register: an agent that was installed with an old token must not burden the management cluster.
const BACKOFF: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(10),
    max_delay: Duration::from_mins(10),
};

/// The management cluster, and which cluster this one is there.
pub struct Upstream {
    pub client: Client,
    pub cluster: NamespacedName,
    /// The namespace of the BundleDeployments.
    pub deployment_namespace: String,
    /// The access to it, if it is another cluster.
    pub access: Option<Access>,
}

impl Upstream {
    /// Waits for the access to the management cluster: the Secret, or the namespace of the Cluster if this is the management cluster
    /// itself. The token is written to a file in `folder`. `registration` is opened when the cluster is certainly not registered yet.
    ///
    /// # Errors
    /// If the access cannot be used.
    pub async fn find(
        args: &RunArgs,
        folder: &Path,
        downstream: &Client,
        leadership: &Leadership,
        registrar: &Registrar,
        registration: &Gate,
    ) -> anyhow::Result<Self> {
        if let Some(cluster) = &args.local {
            return Ok(Self {
                deployment_namespace: namespace_of(downstream, cluster, registration).await,
                client: downstream.clone(),
                cluster: cluster.clone(),
                access: None,
            });
        }
        let credential = credential(downstream, &args.namespace, registrar, registration).await?;
        let token_file = folder.join("upstream-token");
        access::write_token(&token_file, &credential.token()?).await?;
        let config = credential.configuration(&token_file)?;
        let client = client::for_work(config, leadership.clone())?;
        Ok(Self {
            client: client.clone(),
            cluster: credential.cluster.clone(),
            deployment_namespace: credential.deployment_namespace.clone(),
            access: Some(Access {
                downstream: downstream.clone(),
                upstream: client,
                leadership: leadership.clone(),
                namespace: args.namespace.clone(),
                credential,
                token_file,
                renew_at: args.renew_token_at,
            }),
        })
    }
}

/// The namespace of a Cluster, when the controller has created it.
async fn namespace_of(client: &Client, cluster: &NamespacedName, registration: &Gate) -> String {
    let api = Api::<Cluster>::namespaced(client.clone(), &cluster.namespace);
    let mut logged = OnChange::default();
    loop {
        let waiting = match bounded(api.get_opt(&cluster.name)).await {
            Ok(Some(found)) if !found.status.namespace.is_empty() => return found.status.namespace,
            Ok(found) => {
                registration.open();
                let is_known = found.is_some();
                let waiting = if is_known {
                    "it has no namespace yet"
                } else {
                    "it does not exist"
                };
                waiting.to_owned()
            }
            Err(error) => with_causes(&error),
        };
        if logged.record(Some(waiting.clone())) {
            tracing::info!(%cluster, waiting, "waiting for the Cluster of this cluster");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The Secret, when it exists. If there is certainly none, or its token is certainly rejected, this cluster registers itself, as far as there
/// is something to register with.
async fn credential(
    client: &Client,
    namespace: &str,
    registrar: &Registrar,
    registration: &Gate,
) -> anyhow::Result<Credential> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let mut logged = OnChange::default();
    let (mut failures, mut next) = (0, Instant::now());
    let mut tried: Option<Bootstrap> = None;
    loop {
        let replaced = match bounded(api.get(SECRET)).await {
            Ok(secret) => match registrar.check(&secret).await {
                Existing::Usable => return Ok(Credential::of(&secret)?),
                Existing::Invalid => Ok(Some(secret)),
            },
            Err(error) if error.is_missing_object() => Ok(None),
            Err(error) => Err(with_causes(&error)),
        };
        let waiting = match replaced {
            Err(waiting) => waiting,
            Ok(replaced) => {
                registration.open();
                let prepared = registrar.prepared().await;
                if let Some(prepared) = prepared
                    && tried.as_ref().is_none_or(|tried| !tried.is_like(&prepared))
                {
                    // Another token is tried immediately.
                    (failures, next) = (0, Instant::now());
                    tried = Some(prepared);
                }
                if Instant::now() < next {
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                match registrar.register(replaced.as_ref()).await {
                    Ok(Outcome::Registered(secret)) => return Ok(Credential::of(&secret)?),
                    Ok(Outcome::Unprepared) => {
                        "it does not exist; join the cluster as docs/agent.md describes".to_owned()
                    }
                    Err(error) => {
                        next = Instant::now() + BACKOFF.after(failures);
                        failures = failures.saturating_add(1);
                        format!("this cluster cannot be registered now, and tries it again later: {error:#}")
                    }
                }
            }
        };
        if logged.record(Some(waiting.clone())) {
            tracing::info!(
                namespace,
                name = SECRET,
                waiting,
                "waiting for the Secret with the access to the management cluster"
            );
        }
        tokio::time::sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use helmops_process::Health;
    use serde_json::json;

    use super::*;
    use crate::testing::server;

    /// Responds to the first requests with these, and then with the last one.
    fn client(responses: &'static [(u16, &'static str)]) -> Client {
        let requests = AtomicUsize::new(0);
        let (client, _) = server(move |_, _| {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            let (code, namespace) = responses[number.min(responses.len() - 1)];
            let body = match code {
                200 => json!({ "metadata": { "name": "local" }, "status": { "namespace": namespace } }),
                404 => json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": code }),
                _ => json!({ "kind": "Status", "status": "Failure", "code": code }),
            };
            (code, body)
        });
        client
    }

    /// Otherwise installers that wait until everything is ready would wait for a Cluster that is only registered after that.
    #[tokio::test(start_paused = true)]
    async fn an_agent_is_ready_while_its_cluster_is_not_registered() {
        let cluster = NamespacedName::new("fleet-local", "local");
        for (responses, is_ready) in [
            (&[(404, "")][..], true),
            (&[(200, "")], true),
            (&[(403, "")], false),
            (&[(403, ""), (404, "")], true),
        ] {
            let health = Health::default();
            let registration = health.gate("registration");
            health.set_started();
            let client = client(responses);
            let found = namespace_of(&client, &cluster, &registration);
            let waited = tokio::time::timeout(RETRY * 3, found).await;
            assert!(waited.is_err(), "{responses:?}");
            assert_eq!(health.ready().ok(), is_ready, "{responses:?}");
        }
    }

    /// A second registration would end the access of the first one.
    #[tokio::test(start_paused = true)]
    async fn an_access_that_cannot_be_read_is_no_reason_to_register() {
        for (code, reason, registers) in [
            (404, "NotFound", true),
            // Something in between, which knows no objects.
            (404, "", false),
            (403, "Forbidden", false),
            (500, "InternalError", false),
        ] {
            let (downstream, requests) = server(move |_, path| {
                let code = if path.ends_with("/fleet-agent") { code } else { 500 };
                let status = json!({ "kind": "Status", "status": "Failure", "reason": reason, "code": code });
                (code, status)
            });
            let registrar = Registrar::new(downstream.clone(), "system", "agent-0");
            let gate = Health::default().gate("registration");
            let found = credential(&downstream, "system", &registrar, &gate);
            assert!(tokio::time::timeout(RETRY * 3, found).await.is_err(), "{code}");
            let requests = helmops_process::lock(&requests);
            let bootstrap = requests
                .iter()
                .any(|request| request.contains("fleet-agent-bootstrap"));
            assert_eq!(bootstrap, registers, "{code} {reason}");
        }
    }

    #[tokio::test]
    async fn an_agent_that_is_registered_is_not_ready_before_its_caches_are_synced() {
        let health = Health::default();
        let registration = health.gate("registration");
        health.set_started();
        let (client, cluster) = (
            client(&[(200, "cluster-a")]),
            NamespacedName::new("fleet-local", "local"),
        );
        let found = namespace_of(&client, &cluster, &registration).await;
        assert_eq!((&*found, health.ready().ok()), ("cluster-a", false));
    }
}
