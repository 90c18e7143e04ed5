//! The import of clusters: installs the agent on the cluster of each Cluster with `spec.kubeConfigSecret`, if `--import-clusters` is set.
//!
//! ```text
//! permit ─► Secret ─► source: access to the target, address for its agent
//!           Cluster ─► options, digest ─► as before? ─► nothing to do
//!                                          │ no
//!                       target: observe ─► plan (helmops-join) ─► claim, apply, Secret, Deployment ─► record on the Cluster
//! ```
//!
//! A Cluster whose import is settled costs one read of its Secret when the process starts, and nothing at its target. The target may be
//! hostile: requests go to allowed addresses, responses are bounded and hardly decoded, and a permit bounds how many there are at a time.

mod client;
mod error;
mod settings;
mod settled;
mod source;
mod target;

use std::{sync::Arc, time::Duration};

use helmops_api::{Cluster, Condition, Decoded, NamespacedName, cluster::ClusterStatus, labels};
use helmops_core::{agents::ACCOUNT, status};
use helmops_fair::FairSemaphore;
use helmops_fetch::{Addresses, Exchange};
use helmops_join::{
    access::{self, Joined, ManagementServer, token_request},
    agent_objects::{AgentOptions, has_registry, image, objects, priority_class},
    customization::{AgentCustomization, agent_namespace},
    import::{
        kubeconfig::TargetAccess,
        plan::{ImportPlan, ImportRequest, claim_of, plan},
        record::{ImportRecord, digest_of},
        target::Target,
    },
    object::as_json,
};
use helmops_kube::{key_of, name_of, path_segment};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    event::{Event, MAX_NOTE},
    reason::Reason,
};
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::{Class, ClassifiedError},
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, Failures, RetryKey, RetryState},
    workers::{Namespace, WorkerPermit},
};
use k8s_openapi::{
    api::core::v1::{Secret, ServiceAccount},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PostParams},
    core::ObjectMeta,
    runtime::reflector::ObjectRef,
};
use serde_json::json;
use tracing::Span;

#[cfg(test)]
pub use self::error::{TargetError, TargetFailure};
use self::{
    client::TargetClient,
    settings::ImportSettings,
    settled::{Inputs, Settled, reports},
    source::Source,
};
pub use self::{error::ImportError, settings::ImportArgs, source::names_secret};
use crate::{context::Context, metrics, parts, watch::DeliveryStores, work::ClusterKey, writes::MANAGER};

/// The time for one cluster, without the wait for a permit.
const DEADLINE: Duration = Duration::from_secs(30);
/// Imports at a time, and those of one namespace.
const PERMITS: usize = 8;
const PERMITS_OF_A_NAMESPACE: usize = 4;
/// How long an agent that does not report has for a token, before it is given another one.
const PATIENCE: Duration = Duration::from_hours(1);

/// What imports share.
#[derive(Debug)]
pub struct Importing {
    settings: ImportSettings,
    exchange: Exchange,
    permits: FairSemaphore<Namespace>,
    settled: Settled,
}

impl Importing {
    /// Imports with these settings, by requests to these addresses only.
    pub fn new(settings: ImportSettings, addresses: Addresses) -> Self {
        Self {
            settings,
            exchange: Exchange::new(addresses),
            permits: FairSemaphore::new(PERMITS, PERMITS_OF_A_NAMESPACE),
            settled: Settled::default(),
        }
    }

    /// The Secret of a Cluster has changed.
    pub fn forget(&self, key: &ClusterKey) {
        self.settled.forget(key);
    }
}

/// The reconciler of imports.
pub struct Imports<'c> {
    pub context: &'c Context,
    /// The stores of the bundle loop.
    pub stores: &'c DeliveryStores,
    pub importing: &'c Importing,
}

/// What an import depends on, read of the Cluster and its Secret.
struct Desired {
    source: Source,
    options: AgentOptions,
    digest: String,
    management_identity: String,
    /// The namespace of the BundleDeployments of the Cluster.
    namespace: String,
    /// What was imported before.
    record: ImportRecord,
    /// Whether the agent does not report, and is given another token now.
    needs_token: bool,
}

impl Reconciler for Imports<'_> {
    type Object = Cluster;
    type Error = ImportError;
    const CONTROLLER: Controller = metrics::IMPORTS;
    const REQUEST_ANNOTATIONS: &'static [&'static str] = &[labels::IMPORT_TO];

    fn get(&self, key: &ClusterKey) -> Option<Arc<Decoded<Cluster>>> {
        self.stores.clusters.all.get(key)
    }

    fn retry_state(&self) -> &RetryState<ClusterKey> {
        &self.context.retries.imports
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &ClusterKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("import", cluster = name_of(key).to_string())
    }

    fn forget(&self, key: &ClusterKey) {
        self.importing.settled.forget(key);
    }

    async fn reconcile(
        &self,
        key: &ClusterKey,
        cluster: &Cluster,
        permit: &mut WorkerPermit,
    ) -> Result<Done, ImportError> {
        let is_managed = labels::of(&cluster.metadata, labels::CLUSTER_MANAGEMENT).is_some();
        if cluster.spec.kube_config_secret.is_empty() || is_managed {
            return self.end(key, cluster).await;
        }
        // The namespace is in the status soon, which is a change.
        if cluster.status.namespace.is_empty() {
            return Ok(Done::UNTIL_CHANGE);
        }
        let inputs = Inputs::of(cluster);
        if let Some(done) = self.early(key, cluster, &inputs) {
            return Ok(done);
        }
        self.importing.settled.begin(key);
        let started = self.begin(cluster).await?;
        let cluster = started.as_ref().unwrap_or(cluster);
        let name = name_of(key);
        let namespace = Arc::clone(permit.namespace());
        let mut latest = None;
        let work = async {
            // Before anything is read or decoded, so that this is bounded too.
            let _permit = self.importing.permits.acquire(namespace).await;
            let import = tokio::time::timeout(DEADLINE, Box::pin(self.import(&name, cluster, &mut latest)));
            import.await.unwrap_or(Err(ImportError::Deadline))
        };
        let result = permit.release_while(work).await?;
        let latest = latest.as_ref().unwrap_or(cluster);
        self.conclude(key, (cluster, latest), inputs, result).await
    }
}

impl Imports<'_> {
    /// Nothing is due: it is settled, or the backoff of the last error is not over.
    fn early(&self, key: &ClusterKey, cluster: &Cluster, inputs: &Inputs) -> Option<Done> {
        let kept = |wait| Done {
            requeue_after: wait,
            failures: Failures::Kept,
            counts_as: None,
        };
        let retry_key = RetryKey::of(&cluster.metadata, Self::REQUEST_ANNOTATIONS);
        if let Some(rest) = self.context.retries.imports.remaining(key, &retry_key) {
            return Some(kept(Some(rest)));
        }
        if !self.importing.settled.is_settled(key, inputs) {
            return None;
        }
        let record = ImportRecord::of(cluster);
        match token_due(&record, inputs.reports, Timestamp::now()) {
            // It waits for a change, and no token is the cure.
            _ if record.digest.is_empty() => Some(kept(None)),
            Some(Duration::ZERO) => None,
            wait => Some(kept(wait)),
        }
    }

    /// Reports an import that has not been reported before.
    async fn begin(&self, cluster: &Cluster) -> Result<Option<Cluster>, ImportError> {
        if imported_condition(&cluster.status).is_some() {
            return Ok(None);
        }
        let waiting = "waiting for a permit, or for the API server of the cluster".to_owned();
        let mut next = cluster.status.clone();
        set_imported(
            &mut next,
            cluster,
            &ConditionState::Unknown(Reason::Importing, waiting),
        );
        self.write(cluster, &next).await
    }

    /// The Cluster is not imported, or not any more.
    async fn end(&self, key: &ClusterKey, cluster: &Cluster) -> Result<Done, ImportError> {
        self.importing.settled.forget(key);
        let mut next = cluster.status.clone();
        condition::clear(&mut next.conditions, ConditionType::Imported);
        self.write(cluster, &next).await?;
        Ok(Done::UNTIL_CHANGE)
    }

    async fn write(&self, cluster: &Cluster, next: &ClusterStatus) -> Result<Option<Cluster>, ImportError> {
        let (client, pending) = (&self.context.client, &self.context.retries.imports.pending_writes);
        let written = MANAGER
            .write_status(client, pending, cluster, &cluster.status, next)
            .await;
        Ok(written?)
    }

    /// Reports the result, and says when the next import is due. The Cluster is the one that was imported, and the one that this import has
    /// written last.
    async fn conclude(
        &self,
        key: &ClusterKey,
        (cluster, latest): (&Cluster, &Cluster),
        inputs: Inputs,
        result: Result<ImportRecord, ImportError>,
    ) -> Result<Done, ImportError> {
        let result = match result {
            Err(error) if error.is_benign() => return Err(error),
            result => result,
        };
        let settled = &self.importing.settled;
        self.context
            .metrics
            .imported(result.as_ref().err().map(ClassifiedError::reason));
        let state = match &result {
            Ok(_) => ConditionState::True(Reason::Imported),
            Err(error @ ImportError::Waiting(_)) => {
                ConditionState::Unknown(error.reason(), error.to_string())
            }
            Err(error) => ConditionState::False(error.reason(), error.to_string()),
        };
        let reported = self.report(cluster, latest, &state).await;
        let (error, wait) = match result {
            Ok(record) => {
                let wait = token_due(&record, inputs.reports, Timestamp::now());
                // What is not reported is not done.
                if reported.is_ok() {
                    settled.settle(key, inputs.with_record(&record));
                }
                (None, wait)
            }
            // The next import is due already, for the Secret as it is now, and no backoff delays it.
            Err(_) if !settled.is_current(key) => (None, None),
            Err(error) => {
                if error.class() == Class::Permanent && reported.is_ok() {
                    settled.settle(key, inputs);
                }
                (Some(error), None)
            }
        };
        parts::done(error.into_iter().chain(reported.err()).collect(), wait)
    }

    /// Writes the condition. An import takes long enough for others to write the status meanwhile, so after a conflict the Cluster is read
    /// again, once: the conditions of others stay as they are.
    async fn report(
        &self,
        cluster: &Cluster,
        latest: &Cluster,
        state: &ConditionState,
    ) -> Result<(), ImportError> {
        let reported = self.report_on(latest, cluster, state).await;
        match reported {
            Err(error) if error.class() == Class::Conflict => {}
            reported => return reported,
        }
        let name = NamespacedName::of(&cluster.metadata);
        let api = Api::<Cluster>::namespaced(self.context.client.clone(), &path_segment(&name.namespace));
        let current = bounded(api.get_opt(&path_segment(&name.name))).await;
        let current = current.map_err(CallError::of("read", format!("Cluster {name}")))?;
        match current.filter(|current| current.metadata.uid == cluster.metadata.uid) {
            Some(current) => self.report_on(&current, cluster, state).await,
            None => Ok(()),
        }
    }

    /// Writes what is known of `imported` over the status of the Cluster as it was read last.
    async fn report_on(
        &self,
        read: &Cluster,
        imported: &Cluster,
        state: &ConditionState,
    ) -> Result<(), ImportError> {
        let next = with_result(read, imported, state);
        self.write(read, &next).await?;
        self.publish(read, &next);
        Ok(())
    }

    /// An Event for each change of the result.
    fn publish(&self, cluster: &Cluster, next: &ClusterStatus) {
        let of = |status: &ClusterStatus| {
            imported_condition(status)
                .map(|found| (found.status.clone(), found.reason.clone(), found.message.clone()))
        };
        let (before, after) = (of(&cluster.status), of(next));
        if before == after {
            return;
        }
        let events = after.into_iter().map(|(status, reason, message)| Event {
            is_warning: status == "False",
            reason,
            action: "Import",
            note: bounded_text::cut(message, MAX_NOTE),
        });
        self.context.events.publish(cluster, events.collect());
    }

    /// Imports the cluster, unless that is done. `latest` is the Cluster as this import has written it last.
    async fn import(
        &self,
        name: &NamespacedName,
        cluster: &Cluster,
        latest: &mut Option<Cluster>,
    ) -> Result<ImportRecord, ImportError> {
        let namespace = self.stores.clusters.namespace_of(cluster);
        let namespace = namespace.map_err(|refused| ImportError::Waiting(refused.to_string()))?;
        let desired = self.desired(name, cluster, namespace).await?;
        if desired.record.digest == desired.digest && !desired.needs_token {
            return Ok(desired.record);
        }
        let client = TargetClient::new(&self.importing.exchange, &desired.source.access);
        let client = client.map_err(|error| ImportError::Kubeconfig {
            secret: cluster.spec.kube_config_secret.clone(),
            error,
        })?;
        match self.attempt(&client, name, cluster, &desired, latest).await {
            // Another Cluster was faster. What is there now decides.
            Err(ImportError::Raced) => self.attempt(&client, name, cluster, &desired, latest).await,
            result => result,
        }
    }

    /// Reads what is on the cluster, and installs the agent.
    async fn attempt(
        &self,
        client: &TargetClient<'_>,
        name: &NamespacedName,
        cluster: &Cluster,
        desired: &Desired,
        latest: &mut Option<Cluster>,
    ) -> Result<ImportRecord, ImportError> {
        let record = &desired.record;
        let target = target::observe(client, desired.options.namespace()).await?;
        let request = ImportRequest {
            cluster: name,
            claim: &desired.options.claim,
            management_identity: &desired.management_identity,
            deployment_namespace: &desired.namespace,
            agent_namespace: desired.options.namespace(),
            record,
            confirmed: labels::annotation(&cluster.metadata, labels::IMPORT_TO),
            server: &desired.source.server,
            is_applied: record.digest == desired.digest,
            needs_token: desired.needs_token,
        };
        let plan = plan(&request, &target)?;
        if plan.applies && plan.adopted_image.is_none() {
            check_image(&desired.options)?;
        }
        let started = ImportRecord {
            identity: target.identity.clone(),
            digest: String::new(),
            token_written: record.token_written.clone(),
            is_adopted: plan.adopted_image.is_some(),
            image: plan.adopted_image.clone().unwrap_or_default(),
        };
        self.prepare(cluster, &desired.namespace, record, &started, &plan, latest)
            .await?;
        let token_written = self.install(client, name, desired, &target, &plan).await?;
        let done = ImportRecord {
            digest: desired.digest.clone(),
            token_written: token_written.unwrap_or_else(|| record.token_written.clone()),
            ..started
        };
        self.remember(cluster, &done, latest).await?;
        Ok(done)
    }

    async fn desired(
        &self,
        name: &NamespacedName,
        cluster: &Cluster,
        namespace: String,
    ) -> Result<Desired, ImportError> {
        let settings = &self.importing.settings;
        let secret_name = source::secret_of(cluster, settings)?;
        let api =
            Api::<Secret>::namespaced(self.context.client.clone(), &path_segment(&secret_name.namespace));
        let secret = bounded(api.get_opt(&path_segment(&secret_name.name))).await;
        let secret = secret.map_err(CallError::of("read", format!("Secret {secret_name}")))?;
        let secret = secret.ok_or_else(|| ImportError::SecretNotFound(secret_name.to_string()))?;
        let source = source::source_of(&secret, &secret_name, settings)?;
        let own = self
            .stores
            .clusters
            .namespaces
            .get(&ObjectRef::new("kube-system"));
        let own = own.and_then(|own| own.metadata.uid.clone());
        let management_identity =
            own.ok_or_else(|| ImportError::Waiting("Namespace kube-system".to_owned()))?;
        let options = AgentOptions {
            image: settings.image.clone(),
            customization: AgentCustomization::of(&cluster.spec)?,
            claim: claim_of(&management_identity, name),
            ..AgentOptions::in_scope(agent_namespace(&cluster.spec)?)
        };
        let digest = digest(&source, &options, cluster, &namespace)?;
        let record = ImportRecord::of(cluster);
        let due = token_due(&record, reports(&cluster.status), Timestamp::now());
        Ok(Desired {
            record,
            needs_token: due == Some(Duration::ZERO),
            source,
            options,
            digest,
            management_identity,
            namespace,
        })
    }

    /// Before anything is written to another cluster than before, the agent on that one loses its access. What is about to be imported
    /// is remembered first, since afterwards an adopted agent looks like an imported one.
    async fn prepare(
        &self,
        cluster: &Cluster,
        namespace: &str,
        record: &ImportRecord,
        started: &ImportRecord,
        plan: &ImportPlan,
        latest: &mut Option<Cluster>,
    ) -> Result<(), ImportError> {
        if plan.moves {
            self.end_account(namespace).await?;
        }
        let is_known = record.identity == started.identity
            && record.is_adopted == started.is_adopted
            && record.image == started.image;
        if is_known {
            return Ok(());
        }
        self.remember(cluster, started, latest).await
    }

    /// Deletes the account of the agent: its tokens end, and the cluster loop creates another account.
    async fn end_account(&self, namespace: &str) -> Result<(), ImportError> {
        let api = Api::<ServiceAccount>::namespaced(self.context.client.clone(), &path_segment(namespace));
        match bounded(api.delete(ACCOUNT, &DeleteParams::default())).await {
            Err(error) if !error.is_not_found() => {
                Err(CallError::of("delete", format!("ServiceAccount {namespace}/{ACCOUNT}"))(error).into())
            }
            _ => Ok(()),
        }
    }

    /// Applies everything, and returns when a token was written, if one was.
    async fn install(
        &self,
        client: &TargetClient<'_>,
        name: &NamespacedName,
        desired: &Desired,
        target: &Target,
        plan: &ImportPlan,
    ) -> Result<Option<String>, ImportError> {
        let mut options = AgentOptions {
            keeps_replicas: target.agent.is_some(),
            ..desired.options.clone()
        };
        if let (Some(image), Some(agent)) = (&plan.adopted_image, &target.agent) {
            options.image.clone_from(image);
            options.flags.clone_from(&agent.args);
        }
        // First, so that nothing is applied for an account that does not exist.
        let token = if plan.writes_secret {
            Some(self.token(&desired.namespace).await?)
        } else {
            None
        };
        let deployment = if plan.applies {
            target::apply_before_secret(client, &options, plan).await?
        } else {
            None
        };
        if let Some(token) = &token {
            let joined = Joined {
                cluster: name.clone(),
                deployment_namespace: desired.namespace.clone(),
            };
            let secret = access::secret(options.namespace(), &joined, &desired.source.server, token);
            let secret = secret.map_err(|error| ImportError::Secret(error.to_string()))?;
            client.apply(&secret).await?;
        }
        if let Some(deployment) = &deployment {
            client.apply(deployment).await?;
        }
        tracing::info!(
            token = token.is_some(),
            applied = plan.applies,
            adopted = plan.adopted_image.is_some(),
            "the agent is installed on the cluster of the kubeconfig"
        );
        Ok(token.map(|_| status::timestamp(Timestamp::now())))
    }

    /// A token of the account of the agent.
    async fn token(&self, namespace: &str) -> Result<String, ImportError> {
        let api = Api::<ServiceAccount>::namespaced(self.context.client.clone(), &path_segment(namespace));
        let object = || format!("ServiceAccount {namespace}/{ACCOUNT}");
        let created =
            bounded(api.create_token_request(ACCOUNT, &PostParams::default(), &token_request())).await;
        let token = match created {
            Ok(created) => created.status.and_then(|status| status.token),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(CallError::of("create a token of", object())(error).into()),
        };
        token.ok_or_else(|| ImportError::Waiting(object()))
    }

    /// Writes the record, which nothing else writes, and keeps the Cluster as it is then.
    async fn remember(
        &self,
        cluster: &Cluster,
        record: &ImportRecord,
        latest: &mut Option<Cluster>,
    ) -> Result<(), ImportError> {
        let name = NamespacedName::of(&cluster.metadata);
        let api = Api::<Cluster>::namespaced(self.context.client.clone(), &path_segment(&name.namespace));
        let annotations = json!({ labels::IMPORTED: record.to_text() });
        let change = json!({ "metadata": { "uid": cluster.metadata.uid, "annotations": annotations } });
        let written =
            bounded(api.patch(&path_segment(&name.name), &MANAGER.patch(), &Patch::Merge(change))).await;
        let written = written.map_err(CallError::of("annotate", format!("Cluster {name}")))?;
        let pending = &self.context.retries.imports.pending_writes;
        pending.record(key_of(cluster).into_kind_unchecked(()), &written);
        *latest = Some(written);
        Ok(())
    }
}

/// The status of a Cluster as it was read last, with the result of the import of `imported`, which may be an older one.
fn with_result(read: &Cluster, imported: &Cluster, state: &ConditionState) -> ClusterStatus {
    let mut next = read.status.clone();
    if matches!(state, ConditionState::True(_)) {
        next.agent_deployed_generation = Some(imported.spec.redeploy_agent_generation);
    }
    set_imported(&mut next, imported, state);
    next
}

/// An image without a registry would be another one on the cluster, and run with all permissions.
fn check_image(options: &AgentOptions) -> Result<(), ImportError> {
    let image = image(options)?;
    if has_registry(&image) {
        Ok(())
    } else {
        Err(ImportError::Image(image))
    }
}

fn imported_condition(status: &ClusterStatus) -> Option<&Condition> {
    Condition::find(&status.conditions, ConditionType::Imported.as_str())
}

/// Sets the condition `Imported` for the generation of a Cluster.
fn set_imported(status: &mut ClusterStatus, cluster: &Cluster, state: &ConditionState) {
    let now = status::timestamp(Timestamp::now());
    let generation = cluster.metadata.generation;
    condition::set(
        &mut status.conditions,
        ConditionType::Imported,
        state,
        generation,
        &now,
    );
}

/// When the agent is given another token, since it does not report; `None` if it reports.
fn token_due(record: &ImportRecord, reports: bool, now: Timestamp) -> Option<Duration> {
    if reports {
        return None;
    }
    let Ok(written) = record.token_written.parse::<Timestamp>() else {
        return Some(Duration::ZERO);
    };
    // A time in the future, of a wrong clock, delays nothing without bound.
    let age = Duration::try_from(now.duration_since(written)).unwrap_or(PATIENCE);
    Some(PATIENCE.saturating_sub(age))
}

/// A digest of all that an import depends on.
fn digest(
    source: &Source,
    options: &AgentOptions,
    cluster: &Cluster,
    namespace: &str,
) -> Result<String, ImportError> {
    let Source { access, server } = source;
    let TargetAccess {
        server: target,
        authorities,
        token,
        certificate,
    } = access;
    let ManagementServer {
        server,
        authorities: own_authorities,
        server_name,
    } = server;
    let all: Vec<_> = objects(options)?.iter().map(as_json).collect();
    let class = priority_class(options)?.as_ref().map(as_json);
    let access = (target.as_str(), authorities, token, certificate);
    let server = (server, own_authorities, server_name);
    let cluster = (
        &cluster.metadata.uid,
        cluster.spec.redeploy_agent_generation,
        namespace,
    );
    Ok(digest_of(&(all, class, access, server, cluster)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_registry_is_given_to_no_cluster() {
        let with = |image: &str, registry: &str| {
            check_image(&AgentOptions {
                image: image.to_owned(),
                customization: AgentCustomization {
                    registry: registry.to_owned(),
                    ..AgentCustomization::default()
                },
                ..AgentOptions::default()
            })
        };
        for (image, registry, expected) in [
            ("", "", false),
            ("helmops-agent:0.1.0", "", false),
            ("team/helmops-agent:0.1.0", "", false),
            ("helmops-agent:0.1.0", "mirror.example.com", true),
            ("", "mirror.example.com", true),
            ("registry.example.com/helmops-agent:1", "", true),
        ] {
            let checked = with(image, registry);
            assert_eq!(checked.is_ok(), expected, "{image:?} {registry:?}");
            if let Err(error) = checked {
                assert_eq!(error.reason(), Reason::ImportUnconfigured);
                assert!(error.to_string().contains("HELMOPS_AGENT_IMAGE"), "{error}");
            }
        }
    }

    /// Others have written the status during the import, and the spec is newer than the one that was imported.
    #[test]
    fn the_result_is_written_over_the_newest_status() {
        let cluster = |generation: i64, conditions: serde_json::Value| -> Cluster {
            let object = json!({
                "metadata": { "generation": generation }, "spec": { "redeployAgentGeneration": generation },
                "status": { "conditions": conditions },
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let imported = cluster(1, json!([{ "type": "Ready", "status": "True" }]));
        let silent = json!([{ "type": "Ready", "status": "Unknown", "reason": "AgentSilent" }]);
        let read = cluster(2, silent);
        let next = with_result(&read, &imported, &ConditionState::True(Reason::Imported));
        assert_eq!(next.agent_deployed_generation, Some(1));
        let of = |r#type: &str| next.conditions.iter().find(|one| one.r#type == r#type).unwrap();
        assert_eq!(of("Ready").reason, "AgentSilent");
        assert_eq!(of("Imported").observed_generation, Some(1));
        let failed = ConditionState::False(Reason::ImportFailed, String::new());
        assert_eq!(
            with_result(&read, &imported, &failed).agent_deployed_generation,
            None
        );
    }

    #[test]
    fn an_agent_that_does_not_report_is_given_a_token_once_an_hour() {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let record = |written: &str| ImportRecord {
            token_written: written.to_owned(),
            ..ImportRecord::default()
        };
        let minutes = |minutes| Some(Duration::from_mins(minutes));
        for (written, reports, expected) in [
            ("", true, None),
            ("2020-01-01T00:00:00Z", true, None),
            ("", false, Some(Duration::ZERO)),
            ("2026-01-01T11:00:00Z", false, Some(Duration::ZERO)),
            ("2026-01-01T11:50:00Z", false, minutes(50)),
            ("2026-01-01T13:00:00Z", false, Some(Duration::ZERO)),
        ] {
            assert_eq!(
                token_due(&record(written), reports, now),
                expected,
                "{written:?} {reports}"
            );
        }
    }
}
