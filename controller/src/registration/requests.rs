//! The loop of requests: all ClusterRegistrations of a workspace.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bounded_text::cut;
use futures::{TryStreamExt, pin_mut};
use helmops_api::{
    Cluster, ClusterRegistration, ClusterRegistrationToken, Decoded, NamespacedName, timestamp::timestamp,
    weight::Weight,
};
use helmops_core::{
    agents::ObservedObject,
    policy::Policies,
    registration::{
        self, Decision, Grant, Planned, Refusal, Takeover, Waiting, Workspace, event_of, pause, plan,
        registration_of, status,
    },
};
use helmops_kube::key;
use helmops_model::{
    condition::ConditionState,
    event::{Event, MAX_NOTE},
    names::{fleets_account, registered_account},
    reason::Reason,
};
use helmops_process::Throttle;
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::ClassifiedError,
    pages::pages,
    pending_writes::PendingWrites,
    queue::RequeueAfter,
    retry_state::{Done, RetryKey},
    store_budget,
    writes::delete_exactly,
};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::ServiceAccount, jiff::Timestamp};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::Instrument;

use super::{RegistrationError, credential::Credentials};
use crate::{
    context::Context,
    metrics::{self, RegistrationResult},
    parts,
    watch::{Accounts, DeliveryStores, Registrations},
    writes::MANAGER,
};

/// Between two looks at something that another loop or Kubernetes makes: an agent waits.
pub(super) const SOON: Duration = Duration::from_millis(500);
/// Between two looks at something that takes as long as others want.
pub(super) const LATER: Duration = Duration::from_secs(5);
/// Until others of the 100 requests that wait for an agent are tried.
const TURN: Duration = Duration::from_mins(1);
/// ClusterRegistrations of a workspace that are read, and the memory for what is kept of them, in bytes. Their authors choose both.
const MAX_LISTED: usize = 20_000;
const MAX_BYTES: usize = 64 << 20;
/// Objects of a page: each may have as much as the API server stores, 1.5 MB.
const PAGE: u32 = 20;
/// Everyone with a token can cause the warning.
static WARNINGS: LazyLock<Throttle> = LazyLock::new(|| Throttle::new(Duration::from_mins(5)));
/// The action of Events.
const REGISTER: &str = "RegisterCluster";

/// Reconciles the requests of a workspace, and returns when to do it again.
pub async fn reconcile(
    context: &Context,
    stores: &DeliveryStores,
    registrations: &Registrations,
    workspace: String,
) -> RequeueAfter {
    let started = Instant::now();
    let Some(accounts) = &stores.accounts else {
        return None;
    };
    let round = Round {
        context,
        stores,
        registrations,
        accounts,
        workspace: &workspace,
        now: Timestamp::now(),
    };
    let span = tracing::error_span!("reconcile", registrations = workspace);
    let result = round.run().instrument(span).await;
    let failure = match &result {
        Ok(done) => done.counts_as,
        Err(error) => Some(error.reason()),
    };
    let of_loop = metrics::REGISTRATIONS;
    context
        .metrics
        .reconciles
        .reconciled(of_loop, failure, started.elapsed());
    context
        .retries
        .registrations
        .requeue_after(&workspace, RetryKey::default(), result)
}

/// One reconciliation of a workspace.
pub(super) struct Round<'r> {
    pub context: &'r Context,
    pub stores: &'r DeliveryStores,
    pub registrations: &'r Registrations,
    pub accounts: &'r Accounts,
    pub workspace: &'r str,
    pub now: Timestamp,
}

/// How an attempt to grant a request ends.
pub(super) enum Attempt {
    /// Its agent has a credential for this Cluster.
    Granted {
        cluster: Box<Cluster>,
        takeover: Takeover,
    },
    Refused(Refusal),
    /// It is tried again after this time. The name is that of the Cluster, once its agent is to have an account.
    Waits(Waiting, Option<String>, Duration),
}

impl Round<'_> {
    async fn run(&self) -> Result<Done, RegistrationError> {
        let requests = self.list(slim_request).await?;
        let tokens = self.list(slim_token).await?;
        let Some(policies) = self.context.stores.policies.of(self.workspace) else {
            return Ok(Done {
                requeue_after: Some(SOON),
                ..Done::UNTIL_CHANGE
            });
        };
        let workspace = Workspace {
            requests: &requests,
            tokens: &tokens,
            policies: &policies,
            now: self.now,
        };
        let (planned, again) = plan(&workspace);
        let mut due: Vec<_> = again.into_iter().collect();
        let mut errors = Vec::new();
        let mut refused = BTreeSet::new();
        for one in planned {
            match self.execute(one, &policies, &mut refused).await {
                Ok(wait) => due.extend(wait),
                Err(error) => errors.push(error),
            }
        }
        let credentials = Credentials::of(self);
        match credentials.collect(&requests).await {
            Ok(wait) => due.extend(wait),
            Err(error) => errors.push(error),
        }
        parts::done(errors, due.into_iter().min())
    }

    /// What `slim` keeps of all objects of a kind in the workspace, as the API server has them: the cache may not have the latest request of
    /// a client yet. Those that are being deleted are left out, however long that takes.
    async fn list<K>(&self, slim: fn(&mut Decoded<K>)) -> Result<Vec<Decoded<K>>, RegistrationError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Weight
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let api = &Api::<Decoded<K>>::namespaced(self.context.client.clone(), self.workspace);
        let pages = pages(ListParams::default().limit(PAGE), |params| async move {
            api.list(&params).await
        });
        pin_mut!(pages);
        let object = || format!("all {} of namespace {}", K::plural(&()), self.workspace);
        let (mut all, mut bytes) = (Vec::new(), 0);
        while let Some(page) = pages.try_next().await.map_err(CallError::of("list", object()))? {
            for mut object in page {
                if object.meta().deletion_timestamp.is_some() {
                    continue;
                }
                slim(&mut object);
                bytes += object.weight();
                all.push(object);
            }
            if all.len() > MAX_LISTED || bytes > MAX_BYTES {
                if WARNINGS.allow(Instant::now().into()).is_some() {
                    tracing::warn!(
                        listed = all.len(),
                        bytes,
                        "there are more {} than are read; delete old ones",
                        K::plural(&())
                    );
                }
                break;
            }
        }
        Ok(all)
    }

    /// `refused`: the clients of which no request that is newer is granted or waits.
    async fn execute<'p>(
        &self,
        one: Planned<'p>,
        policies: &Policies,
        refused: &mut BTreeSet<&'p str>,
    ) -> Result<Option<Duration>, RegistrationError> {
        let Planned { request, decision } = one;
        match decision {
            Decision::Supersede => {
                self.end_fleets_account(request).await?;
                self.delete(request).await?;
                tracing::info!(
                    registration = request.name_any(),
                    "deleted the registration: a newer one of its client is granted"
                );
                Ok(None)
            }
            Decision::Expire => {
                self.delete(request).await?;
                self.count(RegistrationResult::Expired);
                Ok(None)
            }
            Decision::Refuse(refusal) => self.refuse(request, &refusal).await,
            Decision::Wait(waiting) => {
                self.report(request, None, waits(&waiting)).await?;
                Ok((waiting == Waiting::Turn).then_some(TURN))
            }
            Decision::GrantInstead(_, newer) if !refused.contains(&*request.spec.client_id) => {
                self.report(request, None, waits(&Waiting::Newer(newer))).await?;
                Ok(None)
            }
            Decision::Grant(grant) | Decision::GrantInstead(grant, _) => {
                let client = &*request.spec.client_id;
                refused.remove(client);
                let (is_refused, wait) = self.try_grant(request, &grant, policies).await?;
                if is_refused {
                    refused.insert(client);
                }
                Ok(wait)
            }
        }
    }

    /// Returns whether it is refused, and when to try it again.
    async fn try_grant(
        &self,
        request: &ClusterRegistration,
        grant: &Grant,
        policies: &Policies,
    ) -> Result<(bool, Option<Duration>), RegistrationError> {
        // The owner and the mark are written on the way, so the status is based on what that has returned.
        let mut request = request.clone();
        let attempt = match self.grant(&mut request, grant, policies).await {
            // The content of the request is what an API server, a policy or a webhook rejects.
            Err(RegistrationError::Api(error)) if error.is_rejected() => {
                Attempt::Refused(Refusal::Rejected(error.to_string()))
            }
            attempt => attempt?,
        };
        match attempt {
            Attempt::Refused(refusal) => Ok((true, self.refuse(&request, &refusal).await?)),
            Attempt::Waits(waiting, cluster, wait) => {
                self.report(&request, cluster.as_deref(), waits(&waiting)).await?;
                Ok((false, Some(wait.max(pause(&request, self.now)))))
            }
            Attempt::Granted { cluster, takeover } => {
                let name = cluster.name_any();
                let message = format!("its agent has access to Cluster {name}");
                let state = ConditionState::TrueWithMessage(Reason::Registered, message);
                self.report(&request, Some(&name), state).await?;
                self.granted(&request, &cluster, takeover);
                Ok((false, None))
            }
        }
    }

    /// What makes a grant visible.
    fn granted(&self, request: &ClusterRegistration, cluster: &Cluster, takeover: Takeover) {
        let events = &self.context.events;
        let (name, own) = (cluster.name_any(), request.name_any());
        let Takeover::Allowed(last) = takeover else {
            tracing::info!(registration = own, cluster = name, "registered the cluster");
            return self.count(RegistrationResult::Granted);
        };
        let last = last.map_or_else(
            || "never reported".to_owned(),
            |last| format!("last reported at {}", timestamp(last)),
        );
        let note = format!(
            "ClusterRegistration {own} has taken this Cluster over; the agent that it had before, which {last}, has no access any more"
        );
        tracing::warn!(
            registration = own,
            cluster = name,
            last,
            "the cluster was taken over"
        );
        let event = Event {
            is_warning: true,
            reason: Reason::ClusterTakenOver.as_str().to_owned(),
            action: REGISTER,
            note: cut(note, MAX_NOTE),
        };
        events.publish(cluster, vec![event]);
        self.count(RegistrationResult::TakenOver);
    }

    async fn refuse(
        &self,
        request: &ClusterRegistration,
        refusal: &Refusal,
    ) -> Result<Option<Duration>, RegistrationError> {
        let state = ConditionState::False(Reason::RegistrationRefused, refusal.to_string());
        if self.report(request, None, state).await? {
            tracing::warn!(registration = request.name_any(), message = %refusal, "the registration is refused");
            self.count(RegistrationResult::Refused);
        }
        // The cause may be gone: a token, a Policy or a Cluster may have changed.
        Ok(Some(LATER * 6))
    }

    /// Writes the status, and returns whether it says something new.
    async fn report(
        &self,
        request: &ClusterRegistration,
        cluster: Option<&str>,
        state: ConditionState,
    ) -> Result<bool, RegistrationError> {
        let next = status(request, cluster, &state, &timestamp(self.now));
        let event = event_of(&request.status, &next);
        // Nothing decides on the cached status.
        let pending = PendingWrites::default();
        MANAGER
            .write_status(&self.context.client, &pending, request, &request.status, &next)
            .await?;
        let is_new = event.is_some();
        self.context.events.publish(request, event.into_iter().collect());
        Ok(is_new)
    }

    /// Deletes a request, with the finalizers that its author has given it: otherwise it would stay after its token.
    async fn delete(&self, request: &ClusterRegistration) -> Result<(), RegistrationError> {
        let api = Api::<ClusterRegistration>::namespaced(self.context.client.clone(), self.workspace);
        let (name, object) = (request.name_any(), NamespacedName::of(&request.metadata));
        let object = || format!("ClusterRegistration {object}");
        let left = match bounded(api.delete(&name, &delete_exactly(request))).await {
            Ok(deleted) => deleted.left(),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(CallError::of("delete", object())(error).into()),
        };
        if left.is_none_or(|left| left.finalizers().is_empty()) {
            return Ok(());
        }
        let change = Patch::Merge(json!({ "metadata": { "uid": request.uid(), "finalizers": null } }));
        match bounded(api.patch(&name, &MANAGER.patch(), &change)).await {
            Err(error) if !error.is_not_found() => Err(CallError::of("update", object())(error).into()),
            _ => Ok(()),
        }
    }

    /// Ends the account that Fleet's controller has created for an older registration; with it end all tokens of it.
    async fn end_fleets_account(&self, request: &ClusterRegistration) -> Result<(), RegistrationError> {
        let cluster = self
            .stores
            .clusters
            .all
            .get(&key(self.workspace, &request.status.cluster_name));
        let cluster = cluster.as_ref().and_then(|cluster| cluster.valid());
        let Some(namespace) = cluster.and_then(|cluster| self.stores.clusters.namespace_of(cluster).ok())
        else {
            return Ok(());
        };
        let registration = registration_of(request);
        let name = fleets_account(&registration.name.name, &registration.uid);
        let api = Api::<ServiceAccount>::namespaced(self.context.client.clone(), &namespace);
        let object = || format!("ServiceAccount {namespace}/{name}");
        let found = bounded(api.get_metadata_opt(&name)).await;
        let found = found.map_err(CallError::of("read", object()))?;
        let is_its = |metadata: &kube::api::ObjectMeta| {
            let annotation = |name: &str| helmops_api::labels::annotation(metadata, name);
            annotation(helmops_api::labels::REGISTRATION) == Some(&*registration.name.name)
                && annotation(helmops_api::labels::REGISTRATION_NAMESPACE) == Some(self.workspace)
        };
        let Some(found) = found.filter(|found| is_its(&found.metadata)) else {
            return Ok(());
        };
        match bounded(api.delete(&name, &delete_exactly(&found))).await {
            Err(error) if !error.is_not_found() => Err(CallError::of("delete", object())(error).into()),
            _ => Ok(()),
        }
    }

    /// The account of the agent of a request, when the loop of Clusters has created all of it.
    pub(super) fn account(&self, request: &ClusterRegistration, cluster: &NamespacedName) -> Option<String> {
        let registration = registration_of(request);
        let name = registered_account(&registration.uid);
        let all = self.accounts.select([], cluster);
        let is_its = |found: &ObservedObject| found.registration.as_ref() == Some(&registration);
        let own: Vec<_> = all.iter().filter(|(_, found)| is_its(found)).collect();
        let (_, account) = own
            .iter()
            .find(|(id, _)| id.kind == helmops_core::agents::Kind::ServiceAccount && id.name.name == name)?;
        (own.len() >= OBJECTS).then(|| account.uid.clone()).flatten()
    }

    pub(super) fn count(&self, result: RegistrationResult) {
        self.context.metrics.registered(result);
    }
}

/// The objects of an account.
const OBJECTS: usize = 4;

/// Keeps what decides.
fn slim_request(request: &mut Decoded<ClusterRegistration>) {
    store_budget::shorten(request);
    if let Decoded::Valid(request) = request {
        registration::shorten(Arc::make_mut(request));
    }
}

fn slim_token(token: &mut Decoded<ClusterRegistrationToken>) {
    store_budget::shorten(token);
    if let Decoded::Valid(token) = token {
        let metadata = &mut *Arc::make_mut(token).metadata;
        (metadata.labels, metadata.annotations) = (None, None);
        (metadata.managed_fields, metadata.finalizers) = (None, None);
    }
}

fn waits(waiting: &Waiting) -> ConditionState {
    ConditionState::False(waiting.reason(), waiting.to_string())
}
