//! Registers this cluster in the management cluster, in the format of Fleet.
//!
//! ```text
//! Secret fleet-agent-bootstrap, ConfigMap fleet-agent ─► ClusterRegistration ─► wait for the credential ─► try it
//!     ─► Secret fleet-agent ─► delete the bootstrap
//! ```
//!
//! Each step can be repeated: by another replica, or after a restart. So the random text, from which the names of the request and of the
//! credential follow, is kept in the Secret, and the first one who writes the Secret `fleet-agent` decides. What the agent registers with is
//! deleted only when the credential has worked; otherwise it registers again later.

mod request;
mod verify;

use std::{fmt, time::Duration};

use anyhow::{Context as _, bail};
use helmops_join::{
    access::{self, Joined, ManagementServer},
    bootstrap::{self, Bootstrap, CLIENT_RANDOM, CLIENT_RANDOM_FOR, ClusterIdentity},
};
use helmops_process::{OnChange, exit::with_causes};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    writes::delete_exactly,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::{
    request::{Requested, request},
    verify::{Verdict, verify},
};

/// How long to wait for the credential: as Fleet's agent.
const PATIENCE: Duration = Duration::from_mins(30);
/// Between two looks for the credential: as Fleet's agent.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long permissions may take to have an effect.
const EFFECTIVE: Duration = Duration::from_mins(1);
/// The UID of this namespace identifies a cluster.
const KUBE_SYSTEM: &str = "kube-system";

/// Creates a client of the management cluster from a kubeconfig.
type Connect = dyn Fn(&str) -> anyhow::Result<Client> + Send + Sync;

/// Registers this cluster.
pub struct Registrar {
    /// This cluster. No replica is the leader yet, so nothing guards the writes: each of them can be repeated.
    downstream: Client,
    /// The namespace of the agent.
    namespace: String,
    /// The name of this pod, for people.
    pod: String,
    connect: Box<Connect>,
}

/// How an attempt to register has ended, if not with an error.
#[derive(Debug)]
pub enum Outcome {
    /// The Secret with the access, which this replica or another one has written.
    Registered(Box<Secret>),
    /// There is nothing to register with.
    Unprepared,
}

/// What is known of a credential that exists.
#[derive(Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is used.
    Usable,
    /// The management cluster does not know its token any more, and there is something to register with.
    Invalid,
}

impl Registrar {
    pub fn new(downstream: Client, namespace: &str, pod: &str) -> Self {
        Self {
            downstream,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            connect: Box::new(verify::connect),
        }
    }

    #[cfg(test)]
    pub(super) fn connecting_by(
        mut self,
        connect: impl Fn(&str) -> anyhow::Result<Client> + Send + Sync + 'static,
    ) -> Self {
        self.connect = Box::new(connect);
        self
    }

    /// Whether the credential in the Secret `fleet-agent` is to be used. With nothing to register with, it is. Otherwise it is tried: if it
    /// works, what is left to register with is deleted. Only a credential that the management cluster certainly rejects is replaced.
    pub async fn check(&self, secret: &Secret) -> Existing {
        // Without the permission to read it, too, the agent works as before.
        let Ok(Some(found)) = self.bootstrap().await else {
            return Existing::Usable;
        };
        let Some((joined, kubeconfig)) = Joined::of(secret).zip(access::kubeconfig_of(secret)) else {
            return Existing::Usable;
        };
        let Ok(client) = (self.connect)(&kubeconfig) else {
            return Existing::Usable;
        };
        match verify(&client, &joined).await {
            Verdict::Works => {
                self.delete_bootstrap(&found).await;
                Existing::Usable
            }
            Verdict::Unauthorized(error) => {
                tracing::warn!(
                    error,
                    "the management cluster rejects the token in Secret fleet-agent; registering again"
                );
                Existing::Invalid
            }
            Verdict::Fails(error) => {
                tracing::info!(
                    error,
                    "the access in Secret fleet-agent does not work now; it is used all the same"
                );
                Existing::Usable
            }
        }
    }

    /// What there is to register with now, if it can be read and used.
    pub async fn prepared(&self) -> Option<Bootstrap> {
        let found = self.bootstrap().await.ok()??;
        Bootstrap::of(&found).ok()
    }

    /// Registers this cluster. `replaced` is the Secret `fleet-agent` that does not work any more, if there is one.
    ///
    /// # Errors
    /// If a step fails: the next attempt starts with what is left.
    pub async fn register(&self, replaced: Option<&Secret>) -> anyhow::Result<Outcome> {
        let Some(found) = self.bootstrap().await? else {
            return Ok(Outcome::Unprepared);
        };
        let mut bootstrap = Bootstrap::of(&found)?;
        let identity = self.identity().await?;
        let purpose = request::purpose(&bootstrap, &identity);
        if bootstrap.client_random.is_empty() || text(&found, CLIENT_RANDOM_FOR).as_ref() != Some(&purpose) {
            bootstrap.client_random = self.choose_random(&found, purpose).await?;
        }
        if identity.trusts_system && verify::is_trusted_by_system(&bootstrap.server).await {
            bootstrap.server.authorities.clear();
        }
        let upstream = (self.connect)(
            &bootstrap
                .server
                .kubeconfig(&bootstrap.workspace, &bootstrap.token),
        )?;
        let requested = request(&upstream, &bootstrap, &identity, &self.pod).await?;
        match self.complete(&upstream, &bootstrap, &requested, replaced).await {
            Ok(secret) => {
                self.delete_bootstrap(&found).await;
                Ok(Outcome::Registered(Box::new(secret)))
            }
            Err(error) => {
                // The next one is another request, in case that this one is lost.
                self.forget_random(&bootstrap.client_random).await;
                Err(error)
            }
        }
    }

    /// From the request to the Secret with the access.
    async fn complete(
        &self,
        upstream: &Client,
        bootstrap: &Bootstrap,
        requested: &Requested,
        replaced: Option<&Secret>,
    ) -> anyhow::Result<Secret> {
        let server = &bootstrap.server;
        let credential = match self.wait(upstream, bootstrap, requested, replaced).await? {
            Received::Credential(credential) => *credential,
            Received::Access(secret) => return Ok(*secret),
        };
        let joined = Joined::of(&credential).context("the credential names no Cluster or no namespace")?;
        let token = text(&credential, "token").context("the credential has no token")?;
        self.try_out(server, &joined, &token).await?;
        let secret = access::secret(&self.namespace, &joined, server, &token)?;
        let secret: Secret = serde_json::from_value(serde_json::to_value(secret)?)?;
        let written = self.write(secret, replaced).await?;
        tracing::info!(cluster = %joined.cluster, namespace = joined.deployment_namespace, "this cluster is registered");
        Ok(written)
    }

    /// Waits for the credential, or until another replica has written the access.
    async fn wait(
        &self,
        upstream: &Client,
        bootstrap: &Bootstrap,
        requested: &Requested,
        replaced: Option<&Secret>,
    ) -> anyhow::Result<Received> {
        let namespace = &bootstrap.registration_namespace;
        let name = &requested.credential;
        let credentials = Api::<Secret>::namespaced(upstream.clone(), namespace);
        let deadline = Instant::now() + PATIENCE;
        let mut logged = OnChange::default();
        while Instant::now() < deadline {
            if let Ok(Some(secret)) = self.access().await
                && replaced
                    .is_none_or(|replaced| replaced.uid() != secret.uid() || replaced.data != secret.data)
            {
                return Ok(Received::Access(Box::new(secret)));
            }
            if self
                .prepared()
                .await
                .is_some_and(|prepared| !prepared.is_like(bootstrap))
            {
                bail!("what this cluster registers with was changed");
            }
            let waiting = match bounded(credentials.get(name)).await {
                Ok(credential) => return Ok(Received::Credential(Box::new(credential))),
                Err(error) if error.status().is_some_and(|status| status.code == 401) => {
                    return Err(error).context(
                        "the token is not valid any more; create another one in the management cluster",
                    );
                }
                // It does not exist yet, or may not be read yet.
                Err(error) => with_causes(&error),
            };
            if logged.record(Some(waiting.clone())) {
                tracing::info!(
                    waiting,
                    registration = requested.name,
                    workspace = bootstrap.workspace,
                    secret = format!("{namespace}/{name}"),
                    "waiting for the credential; `kubectl describe clusterregistrations` in the management cluster says why it is not granted"
                );
            }
            sleep(INTERVAL).await;
        }
        bail!(
            "the management cluster has not granted the credential within {} minutes; see ClusterRegistration {}/{} there",
            PATIENCE.as_secs() / 60,
            bootstrap.workspace,
            requested.name
        )
    }

    /// Uses the credential: nothing is given up before it works.
    async fn try_out(&self, server: &ManagementServer, joined: &Joined, token: &str) -> anyhow::Result<()> {
        let client = (self.connect)(&server.kubeconfig(&joined.deployment_namespace, token))?;
        let deadline = Instant::now() + EFFECTIVE;
        loop {
            match verify(&client, joined).await {
                Verdict::Works => return Ok(()),
                Verdict::Unauthorized(error) | Verdict::Fails(error) if Instant::now() >= deadline => {
                    bail!(
                        "the credential of Cluster {} does not work: {error}",
                        joined.cluster
                    )
                }
                Verdict::Unauthorized(_) | Verdict::Fails(_) => sleep(INTERVAL).await,
            }
        }
    }

    /// Writes the access. If another replica was faster, its one counts.
    async fn write(&self, mut secret: Secret, replaced: Option<&Secret>) -> anyhow::Result<Secret> {
        let api = self.secrets();
        let object = || format!("Secret {}/{}", self.namespace, access::SECRET);
        if let Some(replaced) = replaced {
            // Fails with a conflict if another replica has replaced it already.
            secret.metadata.resource_version = replaced.resource_version();
            let change = json!({ "metadata": secret.metadata, "data": secret.data });
            let written =
                bounded(api.patch(access::SECRET, &PatchParams::default(), &Patch::Merge(change))).await;
            match written {
                Err(error) if error.is_conflict() => {}
                written => return Ok(written.map_err(CallError::of("update", object()))?),
            }
        } else {
            match bounded(api.create(&PostParams::default(), &secret)).await {
                Err(error) if error.exists_already() => {}
                written => return Ok(written.map_err(CallError::of("create", object()))?),
            }
        }
        let found = self.access().await?;
        found.context("Secret fleet-agent was deleted")
    }

    /// The Secret with the access, if there is certainly one or none.
    async fn access(&self) -> Result<Option<Secret>, CallError> {
        self.read(access::SECRET).await
    }

    async fn bootstrap(&self) -> Result<Option<Secret>, CallError> {
        self.read(bootstrap::SECRET).await
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>, CallError> {
        match bounded(self.secrets().get(name)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_missing_object() => Ok(None),
            Err(error) => Err(CallError::of("read", format!("Secret {}/{name}", self.namespace))(error)),
        }
    }

    async fn identity(&self) -> anyhow::Result<ClusterIdentity> {
        let api = Api::<ConfigMap>::namespaced(self.downstream.clone(), &self.namespace);
        let name = bootstrap::CONFIGURATION;
        let found = bounded(api.get_opt(name)).await;
        let found = found.map_err(CallError::of(
            "read",
            format!("ConfigMap {}/{name}", self.namespace),
        ))?;
        let mut identity = ClusterIdentity::of(found.as_ref())?;
        if identity.client_id.is_empty() {
            let namespaces = Api::<Namespace>::all(self.downstream.clone());
            let found = bounded(namespaces.get_metadata(KUBE_SYSTEM)).await;
            let found = found.map_err(CallError::of("read", format!("Namespace {KUBE_SYSTEM}")));
            let found = found.context(
                "this cluster cannot be identified; without permission to read that namespace, set clientID in ConfigMap fleet-agent",
            )?;
            identity.client_id = found.uid().context("the namespace kube-system has no UID")?;
        }
        Ok(identity)
    }

    /// Keeps a random text in the Secret. Of two replicas, one gets a conflict, and starts again with the text of the other.
    async fn choose_random(&self, found: &Secret, purpose: String) -> anyhow::Result<String> {
        let random = request::random()?;
        let data = json!({
            CLIENT_RANDOM: ByteString(random.clone().into_bytes()),
            CLIENT_RANDOM_FOR: ByteString(purpose.into_bytes()),
        });
        self.patch_bootstrap(found, data)
            .await
            .context("the Secret with what this cluster registers with cannot be changed")?;
        Ok(random)
    }

    async fn forget_random(&self, random: &str) {
        if let Ok(Some(found)) = self.bootstrap().await
            && text(&found, CLIENT_RANDOM).as_deref() == Some(random)
            && let Err(error) = self.patch_bootstrap(&found, json!({ CLIENT_RANDOM: null })).await
        {
            tracing::warn!(
                error = with_causes(&error),
                "the next attempt to register is the same request"
            );
        }
    }

    async fn patch_bootstrap(&self, found: &Secret, data: serde_json::Value) -> Result<(), CallError> {
        let change = json!({ "metadata": { "resourceVersion": found.resource_version() }, "data": data });
        let (api, params) = (self.secrets(), PatchParams::default());
        let patched = bounded(api.patch(bootstrap::SECRET, &params, &Patch::Merge(change))).await;
        let object = format!("Secret {}/{}", self.namespace, bootstrap::SECRET);
        patched.map(drop).map_err(CallError::of("update", object))
    }

    /// What the agent has registered with is of no use any more. That it stays is no reason not to work.
    async fn delete_bootstrap(&self, found: &Secret) {
        let deleted: Result<_, ApiError> =
            bounded(self.secrets().delete(bootstrap::SECRET, &delete_exactly(found))).await;
        match deleted {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(
                    error = with_causes(&error),
                    "Secret fleet-agent-bootstrap cannot be deleted; delete it yourself"
                );
            }
            _ => {}
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.downstream.clone(), &self.namespace)
    }
}

/// What ends the wait.
enum Received {
    Credential(Box<Secret>),
    /// Another replica has written it.
    Access(Box<Secret>),
}

impl fmt::Debug for Registrar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrar")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let ByteString(value) = secret.data.as_ref()?.get(key)?;
    String::from_utf8(value.clone())
        .ok()
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
