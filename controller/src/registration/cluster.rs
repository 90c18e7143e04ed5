//! The Cluster of a request, and the steps until its agent has a credential.

use std::time::{Duration, Instant};

use bounded_text::cut;
use helmops_api::{
    Cluster, ClusterRegistration, NamespacedName,
    kind::{GROUP, VERSION},
    labels,
    timestamp::timestamp,
};
use helmops_core::{
    agents::{ACCOUNT, Kind, ObjectId},
    policy::Policies,
    registration::{
        DroppedLabel, Grant, Refusal, Takeover, Waiting, check_labels, kept_labels, new_cluster, takeover,
    },
};
use helmops_fair::Rate;
use helmops_model::{
    event::{Event, MAX_NOTE},
    reason::Reason,
};
use helmops_runtime::{
    client::{CallError, bounded},
    writes::delete_uid,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, ResourceExt, api::Patch};
use serde_json::json;

use super::{
    RegistrationError,
    credential::{Credentials, Made},
    requests::{Attempt, LATER, Round, SOON},
};
use crate::writes::MANAGER;

/// New Clusters of a workspace: a hundred at a time, and then one in a few seconds. Everyone with a token can cause them.
const NEW_CLUSTERS: Rate = Rate {
    burst: 100,
    interval: Duration::from_secs(5),
};
/// The most labels that an Event names.
const MAX_NAMED: usize = 10;

/// The Cluster of a request.
pub(super) enum Found {
    Cluster(Box<Cluster>),
    Not(Attempt),
}

impl Round<'_> {
    /// Does all steps that can be done now. Each of them can be repeated.
    pub(super) async fn grant(
        &self,
        request: &mut ClusterRegistration,
        grant: &Grant,
        policies: &Policies,
    ) -> Result<Attempt, RegistrationError> {
        let cluster = match self.cluster(request, policies).await? {
            Found::Cluster(cluster) => cluster,
            Found::Not(attempt) => return Ok(attempt),
        };
        let name = NamespacedName::of(&cluster.metadata);
        if cluster.metadata.deletion_timestamp.is_some() {
            return Ok(Attempt::Waits(Waiting::ClusterDeleted(name.name), None, LATER));
        }
        let namespace = match self.stores.clusters.namespace_of(&cluster) {
            Ok(namespace) if cluster.status.namespace == namespace => namespace,
            Ok(_) => return Ok(Attempt::Waits(Waiting::NoNamespace(name.name), None, SOON)),
            Err(refused) => return Ok(Attempt::Refused(Refusal::Rejected(refused.to_string()))),
        };
        let takeover = takeover(&cluster, request, grant.replaces, self.stores.patience, self.now);
        if let Takeover::Wait(last, wait) = takeover {
            let waiting = Waiting::AgentReports {
                cluster: name.name,
                last: timestamp(last),
                request: request.uid().unwrap_or_default(),
                namespace: self.workspace.to_owned(),
            };
            return Ok(Attempt::Waits(waiting, None, wait));
        }
        let credentials = Credentials::of(self);
        // Before anything is done for it: one that cannot get its credential supersedes nothing.
        if credentials.is_taken(request).await? {
            let name = helmops_core::registration::credential_name(request);
            return Ok(Attempt::Refused(Refusal::CredentialTaken(name)));
        }
        self.mark(request, &cluster).await?;
        let waits = |waiting| Ok(Attempt::Waits(waiting, Some(name.name.clone()), SOON));
        let Some(account) = self.account(request, &name) else {
            return waits(Waiting::NoAccount);
        };
        match credentials
            .make(request, &name, &namespace, &account, &grant.readers)
            .await?
        {
            Made::Waits(waiting) => return waits(waiting),
            Made::Taken(secret) => return Ok(Attempt::Refused(Refusal::CredentialTaken(secret))),
            Made::Complete => {}
        }
        // One that is older than the request may have been joined by hand.
        let is_older = cluster.metadata.creation_timestamp < request.metadata.creation_timestamp;
        if is_older || matches!(takeover, Takeover::Allowed(_)) {
            self.renew_shared_account(&name, &namespace).await?;
        }
        Ok(Attempt::Granted { cluster, takeover })
    }

    /// The Cluster with the client ID of a request, which is created if there is none.
    async fn cluster(
        &self,
        request: &ClusterRegistration,
        policies: &Policies,
    ) -> Result<Found, RegistrationError> {
        let client = &request.spec.client_id;
        let names: Vec<_> = self.stores.clusters.all.read(|all, _| {
            let own = all.in_namespace(self.workspace);
            let own = own.filter(|(_, cluster)| {
                cluster
                    .valid()
                    .is_some_and(|cluster| cluster.spec.client_id == *client)
            });
            own.map(|(name, _)| name.name.clone()).take(2).collect()
        });
        match names.as_slice() {
            [] => self.create(request, policies).await,
            [name] => self.existing(request, name).await,
            [first, second, ..] => {
                let refusal = Refusal::SeveralClusters(first.clone(), second.clone());
                Ok(Found::Not(Attempt::Refused(refusal)))
            }
        }
    }

    async fn create(
        &self,
        request: &ClusterRegistration,
        policies: &Policies,
    ) -> Result<Found, RegistrationError> {
        let Some(complete) = self.complete(request).await? else {
            return Ok(Found::Not(Attempt::Waits(Waiting::NoAccount, None, LATER)));
        };
        if let Err(refusal) = check_labels(&complete) {
            return Ok(Found::Not(Attempt::Refused(refusal)));
        }
        let (kept, dropped) = kept_labels(&complete, policies);
        let cluster = new_cluster(request, kept);
        let name = cluster.name_any();
        if self.read(&name).await?.is_some() {
            return self.existing(request, &name).await;
        }
        let limit = &self.context.retries.new_clusters;
        if let Err(wait) = limit.take(self.workspace.to_owned(), NEW_CLUSTERS, Instant::now()) {
            return Ok(Found::Not(Attempt::Waits(Waiting::RateLimited, None, wait)));
        }
        match bounded(self.clusters().create(&MANAGER.post(), &cluster)).await {
            Ok(created) => {
                // Now: the next attempt finds the Cluster.
                self.context
                    .events
                    .publish(request, event(&dropped).into_iter().collect());
                Ok(Found::Cluster(Box::new(created)))
            }
            Err(error) if error.exists_already() => self.existing(request, &name).await,
            Err(error) => {
                let object = format_args!("Cluster {}", NamespacedName::of(&cluster.metadata));
                Err(CallError::of("create", object)(error).into())
            }
        }
    }

    /// A request with all its labels, unless it is gone.
    async fn complete(
        &self,
        request: &ClusterRegistration,
    ) -> Result<Option<ClusterRegistration>, RegistrationError> {
        let api = Api::<ClusterRegistration>::namespaced(self.context.client.clone(), self.workspace);
        let object = format!("ClusterRegistration {}", NamespacedName::of(&request.metadata));
        let found = bounded(api.get_opt(&request.name_any())).await;
        let found = found.map_err(CallError::of("read", object))?;
        Ok(found.filter(|found| found.uid() == request.uid()))
    }

    /// A Cluster as the API server has it.
    async fn existing(&self, request: &ClusterRegistration, name: &str) -> Result<Found, RegistrationError> {
        Ok(match self.read(name).await? {
            Some(cluster) if cluster.spec.client_id == request.spec.client_id => {
                Found::Cluster(Box::new(cluster))
            }
            Some(_) => Found::Not(Attempt::Refused(Refusal::OtherClient(name.to_owned()))),
            None => Found::Not(Attempt::Waits(
                Waiting::ClusterDeleted(name.to_owned()),
                None,
                SOON,
            )),
        })
    }

    async fn read(&self, name: &str) -> Result<Option<Cluster>, RegistrationError> {
        let found = bounded(self.clusters().get_opt(name)).await;
        Ok(found.map_err(CallError::of(
            "read",
            format_args!("Cluster {}/{name}", self.workspace),
        ))?)
    }

    fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.context.client.clone(), self.workspace)
    }

    /// Makes the Cluster the owner of the request, as Fleet does, and marks that this controller keeps the account of its agent.
    async fn mark(
        &self,
        request: &mut ClusterRegistration,
        cluster: &Cluster,
    ) -> Result<(), RegistrationError> {
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let owners = request.metadata.owner_references.iter().flatten();
        let is_marked = labels::annotation(&request.metadata, labels::REGISTERED) == Some("true");
        if is_marked && owners.clone().any(|owner| owner.uid == uid) {
            return Ok(());
        }
        let owner = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Cluster", "name": cluster.name_any(), "uid": uid,
        });
        let metadata = json!({
            "resourceVersion": request.resource_version(),
            "ownerReferences": [owner],
            "annotations": { labels::REGISTERED: "true" },
        });
        let api = Api::<ClusterRegistration>::namespaced(self.context.client.clone(), self.workspace);
        let change = Patch::Merge(json!({ "metadata": metadata }));
        let object =
            format_args!("ClusterRegistration {}", NamespacedName::of(&request.metadata)).to_string();
        *request = bounded(api.patch(&request.name_any(), &MANAGER.patch(), &change))
            .await
            .map_err(CallError::of("update", object))?;
        Ok(())
    }

    /// After a takeover, an agent that was joined by hand has no access any more: with its account end all tokens of it. The loop of Clusters
    /// creates it again.
    async fn renew_shared_account(
        &self,
        cluster: &NamespacedName,
        namespace: &str,
    ) -> Result<(), RegistrationError> {
        let id = ObjectId {
            kind: Kind::ServiceAccount,
            name: NamespacedName::new(namespace, ACCOUNT),
        };
        let Some(found) = self.accounts.select([id.clone()], cluster).remove(&id) else {
            return Ok(());
        };
        let api = Api::<ServiceAccount>::namespaced(self.context.client.clone(), namespace);
        match bounded(api.delete(ACCOUNT, &delete_uid(found.uid.clone()))).await {
            // Another one has its name already.
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                Err(CallError::of("delete", &id)(error).into())
            }
            _ => Ok(()),
        }
    }
}

/// What an Event says of the labels that a new Cluster does not get.
fn event(dropped: &[DroppedLabel]) -> Option<Event> {
    let named = dropped
        .iter()
        .take(MAX_NAMED)
        .map(|label| format!("{} ({})", label.key, label.why));
    let named: Vec<_> = named.collect();
    (!dropped.is_empty()).then(|| Event {
        is_warning: true,
        reason: Reason::LabelsDropped.as_str().to_owned(),
        action: "RegisterCluster",
        note: cut(
            format!(
                "the Cluster does not get {} of the labels that its agent requests: {}",
                dropped.len(),
                named.join("; ")
            ),
            MAX_NOTE,
        ),
    })
}
