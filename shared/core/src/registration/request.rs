//! What is done about each ClusterRegistration of a workspace.

use std::{collections::BTreeMap, time::Duration};

use bounded_text::{cut, excerpt};
use helmops_api::{
    ClusterRegistration, ClusterRegistrationToken, Condition, Decoded, NamespacedName,
    cluster_registration::ClusterRegistrationStatus, labels, limits, timestamp::until,
};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    event::{Event, MAX_NOTE},
    names,
    reason::Reason,
};
use k8s_openapi::jiff::{Span, Timestamp};
use thiserror::Error;

use super::token;
use crate::{agents::Registration, policy::Policies};

/// An agent waits for half an hour, and then makes another request. So nothing waits for an older one.
pub const EXPIRY: Duration = Duration::from_hours(1);
/// Requests of a workspace that are handled at a time; others wait. Each is granted within seconds. Besides these, so many that wait for the
/// agent of their Cluster are tried again, others in the next minute.
pub const MAX_HANDLED: usize = 100;
/// Older requests of a client that are tried when the newest one is refused.
const MAX_INSTEAD: usize = 10;
/// Longest text of a request that a message quotes, in bytes.
const MAX_SHOWN: usize = 120;
/// Owners of a request that are kept. It has one, unless its author has named others.
const MAX_OWNERS: usize = 4;
/// The action of Events.
const REGISTER: &str = "RegisterCluster";

/// Everything in a workspace that decides about its requests.
#[derive(Debug)]
pub struct Workspace<'w> {
    /// All ClusterRegistrations, as they were just read.
    pub requests: &'w [Decoded<ClusterRegistration>],
    /// All tokens, as they were just read.
    pub tokens: &'w [Decoded<ClusterRegistrationToken>],
    /// What labels are allowed.
    pub policies: &'w Policies,
    /// The time.
    pub now: Timestamp,
}

/// A request, and what is done about it.
#[derive(Debug)]
pub struct Planned<'w> {
    /// The request.
    pub request: &'w ClusterRegistration,
    /// What is done about it.
    pub decision: Decision,
}

/// What is done about a request. Of one that was granted before, nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A newer one of the same client was granted: its agent has no access any more.
    Supersede,
    /// No agent waits for it any more.
    Expire,
    /// It is not granted.
    Refuse(Refusal),
    /// It is not granted yet.
    Wait(Waiting),
    /// It is granted if its Cluster allows that.
    Grant(Grant),
    /// It is granted in place of the newer one of its client, with this name, if that is refused now. Otherwise it waits for that.
    GrantInstead(Grant, String),
}

/// How a request is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The ServiceAccounts of the workspace that may read the credential.
    pub readers: Vec<String>,
    /// Whether another request of its client is granted: that loses its access.
    pub replaces: bool,
}

/// Why a request is not granted. A text of the request is shown as far as it can be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// A text without which nothing can be decided.
    #[error("spec.{0} is empty; install the agent again")]
    Missing(&'static str),
    /// Fleet's CRD has no limits.
    #[error(
        "spec.{field} is longer than {max}; shorten it in the configuration of the agent (ConfigMap fleet-agent)"
    )]
    TooLong {
        /// The field.
        field: &'static str,
        /// The limit.
        max: usize,
    },
    /// The token has expired, or was deleted.
    #[error(
        "the ClusterRegistrationToken {0:?}, which the agent has used, does not exist in this namespace or has expired; create one with \
         kubectl helmop token create, and run the command that it prints on the cluster"
    )]
    NoToken(String),
    /// No agent can read what it is granted.
    #[error(
        "no ClusterRegistrationToken of this namespace is valid, so no agent could read its credential; create one with kubectl helmop token \
         create, and run the command that it prints on the cluster"
    )]
    NoTokens,
    /// Which labels are allowed is not known.
    #[error("{0}")]
    InvalidPolicy(String),
    /// Which Cluster is meant is not known.
    #[error(
        "Clusters {0} and {1} have the same spec.clientID as this request; delete or correct one of them"
    )]
    SeveralClusters(String, String),
    /// The name of the Cluster is that of another one.
    #[error(
        "Cluster {0}, as which the agent would be registered, has another spec.clientID; delete or correct it"
    )]
    OtherClient(String),
    /// The Secret belongs to another request, of which this one knows the texts by chance or not.
    #[error(
        "Secret {0}, whose name follows from spec.clientID and spec.clientRandom, belongs to another ClusterRegistration; delete this one, and \
         restart the agent: it makes another one. If that did not come from an agent of yours, delete the ClusterRegistrationTokens of this namespace"
    )]
    CredentialTaken(String),
    /// The API server rejects the Cluster or an object of its agent for its content.
    #[error("{0}")]
    Rejected(String),
}

/// What a request waits for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Waiting {
    /// Others are handled first.
    #[error("{MAX_HANDLED} requests of this namespace are handled first")]
    Turn,
    /// The agent has made a newer one.
    #[error("ClusterRegistration {0} of the same client is newer, and is handled in place of this one")]
    Newer(String),
    /// The Cluster is being deleted.
    #[error("Cluster {0} is being deleted; the request is handled when it is gone")]
    ClusterDeleted(String),
    /// Nothing is known of the namespace of the Cluster.
    #[error("Cluster {0} has no namespace yet")]
    NoNamespace(String),
    /// The controller makes what the agent needs.
    #[error("the account of the agent is being created")]
    NoAccount,
    /// Kubernetes makes the token.
    #[error("Kubernetes has not made the token of the agent yet (Secret {0})")]
    NoCredential(String),
    /// Too many clusters register at a time.
    #[error(
        "too many clusters have registered in this namespace at a time; this one is next in a few seconds"
    )]
    RateLimited,
    /// The Cluster has an agent that may still work.
    #[error(
        "the agent of Cluster {cluster} last reported at {last}, and may still work. If this request comes from the same cluster, it is granted \
         when that agent has not reported for one interval; or now with: kubectl annotate clusters.fleet.cattle.io {cluster} --overwrite \
         {annotation}={request} --namespace {namespace}",
        annotation = labels::TAKEOVER_BY
    )]
    AgentReports {
        /// The Cluster.
        cluster: String,
        /// When its agent has reported last.
        last: String,
        /// The UID of the request: its author chooses the name, and may choose it again.
        request: String,
        /// Its namespace.
        namespace: String,
    },
}

/// Decides about all requests of a workspace, and when to decide again by itself.
///
/// Of several requests of one client, the newest valid one is granted; older ones end when it is, and not before. One that cannot be granted
/// supersedes nothing.
pub fn plan<'w>(workspace: &Workspace<'w>) -> (Vec<Planned<'w>>, Option<Duration>) {
    let mut own: Vec<_> = workspace
        .requests
        .iter()
        .filter_map(|request| request.valid())
        .collect();
    own.retain(|request| {
        request.metadata.deletion_timestamp.is_none()
            && labels::of(&request.metadata, labels::CLUSTER_MANAGEMENT).is_none()
    });
    own.sort_by_key(|request| order(request));
    let mut granted = BTreeMap::new();
    for request in own.iter().filter(|request| request.status.granted) {
        granted.insert(client(request), order(request));
    }
    let tokens: Vec<_> = token::valid(workspace.tokens, workspace.now).collect();
    let (mut planned, mut again) = (Vec::new(), None);
    let mut candidates: Vec<(&ClusterRegistration, Grant)> = Vec::new();
    for request in own {
        let newest = granted.get(client(request));
        let decision = if newest.is_some_and(|newest| is_superseded(request, *newest)) {
            Decision::Supersede
        } else if request.status.granted {
            continue;
        } else {
            let left = left(request, workspace.now);
            if left.is_zero() {
                Decision::Expire
            } else {
                again = again.into_iter().chain([left]).min();
                match check(request, &tokens, workspace.policies) {
                    Err(refusal) => Decision::Refuse(refusal),
                    Ok(readers) => {
                        let replaces = newest.is_some();
                        candidates.push((request, Grant { readers, replaces }));
                        continue;
                    }
                }
            }
        };
        planned.push(Planned { request, decision });
    }
    planned.extend(handled(candidates, workspace.now));
    (planned, again)
}

/// Whether a newer request of the same client is granted. Times have whole seconds: of two that are granted in one second, one is the newer
/// one; one that is not granted may be, so it is not deleted.
fn is_superseded(request: &ClusterRegistration, newest: (Option<Timestamp>, &str)) -> bool {
    if request.status.granted {
        order(request) < newest
    } else {
        created(request) < newest.0
    }
}

/// Of each client the newest one is handled, as far as there is room, and an older one only if that is refused: so the newer ones of a client
/// come first. Those that wait for an agent take no room from others.
fn handled(candidates: Vec<(&ClusterRegistration, Grant)>, now: Timestamp) -> Vec<Planned<'_>> {
    let mut clients: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for candidate in candidates {
        clients.entry(client(candidate.0)).or_default().push(candidate);
    }
    let mut clients: Vec<_> = clients.into_values().collect();
    clients.sort_by_key(|own| own.last().map(|(request, _)| order(request)));
    let waits = |own: &Vec<(&ClusterRegistration, Grant)>| {
        own.last().is_some_and(|(request, _)| waits_for_agent(request))
    };
    let (mut waiting, others): (Vec<_>, Vec<_>) = clients.into_iter().partition(waits);
    if !waiting.is_empty() {
        let minute = usize::try_from(now.as_second() / 60).unwrap_or_default();
        let first = minute.wrapping_mul(MAX_HANDLED) % waiting.len();
        waiting.rotate_left(first);
    }
    let mut planned = Vec::new();
    for clients in [others, waiting] {
        for (number, own) in clients.into_iter().enumerate() {
            planned.extend(of_client(own, number < MAX_HANDLED));
        }
    }
    planned
}

/// The requests of one client, the newest one first.
fn of_client(own: Vec<(&ClusterRegistration, Grant)>, has_room: bool) -> impl Iterator<Item = Planned<'_>> {
    let newest = own
        .last()
        .map(|(request, _)| name(request).to_owned())
        .unwrap_or_default();
    own.into_iter()
        .rev()
        .enumerate()
        .map(move |(number, (request, grant))| {
            let decision = match (number, has_room) {
                (0, true) => Decision::Grant(grant),
                (0, false) => Decision::Wait(Waiting::Turn),
                (1..=MAX_INSTEAD, true) => Decision::GrantInstead(grant, newest.clone()),
                _ => Decision::Wait(Waiting::Newer(newest.clone())),
            };
            Planned { request, decision }
        })
}

/// Whether it was tried before, and the agent of its Cluster reports.
fn waits_for_agent(request: &ClusterRegistration) -> bool {
    let granted = Condition::find(&request.status.conditions, ConditionType::Granted.as_str());
    granted.is_some_and(|granted| granted.reason == Reason::AgentReports.as_str())
}

/// The accounts that may read the credential, if the request is valid in itself.
fn check(
    request: &ClusterRegistration,
    tokens: &[&ClusterRegistrationToken],
    policies: &Policies,
) -> Result<Vec<String>, Refusal> {
    let spec = &request.spec;
    for (field, text) in [
        ("clientID", &spec.client_id),
        ("clientRandom", &spec.client_random),
    ] {
        if text.is_empty() {
            return Err(Refusal::Missing(field));
        }
        if text.len() > limits::NAME {
            let max = limits::NAME;
            return Err(Refusal::TooLong { field, max });
        }
    }
    check_labels(request)?;
    if let Some(invalid) = policies.undecoded() {
        return Err(Refusal::InvalidPolicy(invalid));
    }
    readers(request, tokens)
}

/// Checks the number of labels: those of a request of a list may not be known.
///
/// # Errors
/// If there are too many.
pub fn check_labels(request: &ClusterRegistration) -> Result<(), Refusal> {
    let max = limits::SHORT_LIST;
    if request.spec.cluster_labels.len() <= max {
        return Ok(());
    }
    Err(Refusal::TooLong {
        field: "clusterLabels",
        max,
    })
}

/// The shortest time until a request is tried again: the longer it waits, the longer. Each attempt reads all requests of the workspace.
pub fn pause(request: &ClusterRegistration, now: Timestamp) -> Duration {
    let age = created(request).map_or(Duration::ZERO, |created| until(created, now));
    if age < Duration::from_secs(30) {
        Duration::ZERO
    } else if age < Duration::from_mins(5) {
        Duration::from_secs(5)
    } else {
        Duration::from_secs(30)
    }
}

/// Keeps of a request what decides about it. Its author chooses how long the rest is; the labels are read again when a Cluster gets them.
pub fn shorten(request: &mut ClusterRegistration) {
    let metadata = &mut *request.metadata;
    metadata.managed_fields = None;
    metadata.finalizers = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, value| key == labels::REGISTERED && value == "true");
    }
    if let Some(all) = &mut metadata.labels {
        all.retain(|key, _| [labels::REGISTRATION_TOKEN, labels::CLUSTER_MANAGEMENT].contains(&key.as_str()));
    }
    if let Some(owners) = &mut metadata.owner_references {
        owners.retain(|owner| owner.kind == "Cluster");
        owners.truncate(MAX_OWNERS);
    }
    let spec = &mut request.spec;
    spec.cluster_labels.clear();
    for text in [&mut spec.client_id, &mut spec.client_random] {
        // Still longer than allowed.
        *text = cut(std::mem::take(text), limits::NAME + 20);
    }
}

/// The label says which token the agent has used: it narrows who may read the credential, and proves nothing. Agents before Fleet 0.16 set
/// none. Then all tokens of the workspace may read it, as in Fleet before: an agent needs its name, and cannot list.
fn readers(
    request: &ClusterRegistration,
    tokens: &[&ClusterRegistrationToken],
) -> Result<Vec<String>, Refusal> {
    let named = labels::of(&request.metadata, labels::REGISTRATION_TOKEN);
    let is_used = |token: &ClusterRegistrationToken| {
        named.is_none_or(|named| token.metadata.name.as_deref() == Some(named))
    };
    let used = tokens.iter().filter(|token| is_used(token));
    let accounts: Vec<_> = used.flat_map(|token| token::accounts(token)).collect();
    match named {
        _ if !accounts.is_empty() => Ok(accounts),
        Some(named) => Err(Refusal::NoToken(excerpt(named, MAX_SHOWN))),
        None => Err(Refusal::NoTokens),
    }
}

/// The time until no agent waits for a request any more.
fn left(request: &ClusterRegistration, now: Timestamp) -> Duration {
    let created = created(request).unwrap_or(now);
    let end = Span::try_from(EXPIRY)
        .ok()
        .and_then(|expiry| created.checked_add(expiry).ok());
    until(now, end.unwrap_or(Timestamp::MAX))
}

fn created(request: &ClusterRegistration) -> Option<Timestamp> {
    request.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// The order of requests: that of their creation, which has whole seconds only.
fn order(request: &ClusterRegistration) -> (Option<Timestamp>, &str) {
    (
        created(request),
        request.metadata.uid.as_deref().unwrap_or_default(),
    )
}

fn client(request: &ClusterRegistration) -> &str {
    &request.spec.client_id
}

fn name(request: &ClusterRegistration) -> &str {
    request.metadata.name.as_deref().unwrap_or_default()
}

/// Identifies a request, for what exists for it.
pub fn registration_of(request: &ClusterRegistration) -> Registration {
    Registration {
        name: NamespacedName::of(&request.metadata),
        uid: request.metadata.uid.clone().unwrap_or_default(),
    }
}

/// The next status. The name of the Cluster is set while its agent has an account, or is about to.
pub fn status(
    request: &ClusterRegistration,
    cluster: Option<&str>,
    state: &ConditionState,
    now: &str,
) -> ClusterRegistrationStatus {
    let mut status = request.status.clone();
    status.granted = matches!(
        state,
        ConditionState::True(_) | ConditionState::TrueWithMessage(..)
    );
    cluster.unwrap_or_default().clone_into(&mut status.cluster_name);
    let generation = request.metadata.generation;
    condition::set(
        &mut status.conditions,
        ConditionType::Granted,
        state,
        generation,
        now,
    );
    status
}

/// The Event for a change of the status; `None` if there is nothing new.
pub fn event_of(before: &ClusterRegistrationStatus, after: &ClusterRegistrationStatus) -> Option<Event> {
    let of = |status: &ClusterRegistrationStatus| {
        let found = Condition::find(&status.conditions, ConditionType::Granted.as_str());
        found.map(|one| (one.reason.clone(), one.message.clone()))
    };
    let (reason, message) = of(after)?;
    // That accounts and tokens are being made is over soon.
    let is_new =
        of(before) != Some((reason.clone(), message.clone())) && reason != Reason::Progressing.as_str();
    is_new.then(|| Event {
        is_warning: !after.granted,
        reason,
        action: REGISTER,
        note: cut(message, MAX_NOTE),
    })
}

impl Waiting {
    /// The reason of the condition: whether a person has to look.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::AgentReports { .. } => Reason::AgentReports,
            _ => Reason::Progressing,
        }
    }
}

/// The Secret with the credential of a request.
pub fn credential_name(request: &ClusterRegistration) -> String {
    names::registration_credential(&request.spec.client_id, &request.spec.client_random)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    /// A request of the client `c` that was created at this minute of the last hour.
    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn request(name: &str, minute: u32, over: Value) -> Value {
        let mut object = json!({
            "metadata": {
                "namespace": "w", "name": name, "uid": format!("u-{name}"),
                "creationTimestamp": format!("2026-01-01T11:{minute:02}:00Z"),
            },
            "spec": { "clientID": "c", "clientRandom": format!("r-{name}") },
        });
        json_patch::merge(&mut object, &over);
        object
    }

    fn token(name: &str, ttl: &str) -> Value {
        json!({
            "metadata": {
                "namespace": "w", "name": name, "uid": format!("u-{name}"), "creationTimestamp": "2026-01-01T10:00:00Z",
            },
            "spec": { "ttl": ttl },
        })
    }

    fn decoded<K>(objects: &[Value]) -> Vec<Decoded<K>>
    where
        Decoded<K>: serde::de::DeserializeOwned,
    {
        let objects = objects.iter();
        objects
            .map(|object| serde_json::from_str(&object.to_string()).unwrap())
            .collect()
    }

    fn decide(requests: &[Value], tokens: &[Value]) -> Vec<(String, Decision)> {
        let policies = Policies::default();
        let (requests, tokens) = (decoded(requests), decoded(tokens));
        let workspace = Workspace {
            requests: &requests,
            tokens: &tokens,
            policies: &policies,
            now: NOW.parse().unwrap(),
        };
        let (planned, _) = plan(&workspace);
        let decisions = planned.into_iter();
        decisions
            .map(|one| (name(one.request).to_owned(), one.decision))
            .collect()
    }

    fn one(over: Value, tokens: &[Value]) -> Option<Decision> {
        let decided = decide(&[request("a", 50, over)], tokens);
        decided.into_iter().next().map(|(_, decision)| decision)
    }

    fn grant(names: &[&str]) -> Decision {
        let accounts = names
            .iter()
            .flat_map(|name| [format!("registration-u-{name}"), format!("{name}-u-{name}")]);
        Decision::Grant(Grant {
            readers: accounts.collect(),
            replaces: false,
        })
    }

    #[test]
    fn the_token_that_the_label_names_may_read_the_credential_or_all_of_them_without_one() {
        let tokens = [token("t", "3h"), token("u", ""), token("old", "1h")];
        let with = |name: &str| json!({ "metadata": { "labels": { labels::REGISTRATION_TOKEN: name } } });
        assert_eq!(one(with("t"), &tokens), Some(grant(&["t"])));
        // Agents and values of Fleet before 0.16.
        for older in [json!({}), with("")] {
            assert_eq!(one(older, &tokens), Some(grant(&["t", "u"])));
        }
        for gone in ["old", "x"] {
            let refused = Decision::Refuse(Refusal::NoToken(gone.to_owned()));
            assert_eq!(one(with(gone), &tokens), Some(refused));
        }
        assert_eq!(
            one(json!({}), &tokens[2..]),
            Some(Decision::Refuse(Refusal::NoTokens))
        );
    }

    #[test]
    fn an_incomplete_or_endless_request_is_refused() {
        let tokens = [token("t", "")];
        let refused = |spec: Value| match one(json!({ "spec": spec }), &tokens) {
            Some(Decision::Refuse(refusal)) => refusal.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(refused(json!({ "clientID": "" })).contains("spec.clientID is empty"));
        assert!(refused(json!({ "clientRandom": null })).contains("spec.clientRandom is empty"));
        assert!(refused(json!({ "clientID": "x".repeat(254) })).contains("spec.clientID is longer than 253"));
        let labels: serde_json::Map<_, _> = (0..257).map(|number| (number.to_string(), json!(""))).collect();
        assert!(
            refused(json!({ "clusterLabels": labels })).contains("spec.clusterLabels is longer than 256")
        );
    }

    #[test]
    fn what_others_handle_and_what_is_deleted_is_left_alone() {
        let tokens = [token("t", "")];
        for other in [
            json!({ "metadata": { "labels": { labels::CLUSTER_MANAGEMENT: "true" } } }),
            json!({ "metadata": { "deletionTimestamp": NOW } }),
            json!({ "status": { "granted": true, "clusterName": "c" } }),
        ] {
            assert_eq!(one(other.clone(), &tokens), None, "{other}");
        }
    }

    #[test]
    fn requests_that_no_agent_waits_for_expire() {
        let tokens = [token("t", "")];
        let at = |created: &str| one(json!({ "metadata": { "creationTimestamp": created } }), &tokens);
        assert_eq!(at("2026-01-01T11:00:00Z"), Some(Decision::Expire));
        assert_eq!(at("2026-01-01T11:00:01Z"), Some(grant(&["t"])));
        // A clock that is ahead.
        assert_eq!(at("2026-01-01T13:00:00Z"), Some(grant(&["t"])));
    }

    #[test]
    fn older_requests_of_a_client_end_when_a_newer_one_is_granted_and_not_before() {
        let tokens = [token("t", "")];
        let granted = json!({ "status": { "granted": true, "clusterName": "c" } });
        let instead = |newer: &str| match grant(&["t"]) {
            Decision::Grant(grant) => Decision::GrantInstead(grant, newer.to_owned()),
            other => other,
        };
        let replacing = || match grant(&["t"]) {
            Decision::Grant(Grant { readers, .. }) => Decision::Grant(Grant {
                readers,
                replaces: true,
            }),
            other => other,
        };
        let decisions = |requests: &[Value]| decide(requests, &tokens);
        let named = |name: &str, decision: Decision| (name.to_owned(), decision);

        // The older one is granted, and stays while the newer one is not.
        let both = [request("old", 10, granted.clone()), request("new", 20, json!({}))];
        assert_eq!(decisions(&both), [named("new", replacing())]);
        let invalid = [
            request("old", 10, granted.clone()),
            request("new", 20, json!({ "spec": { "clientRandom": "" } })),
        ];
        assert_eq!(
            decisions(&invalid),
            [named("new", Decision::Refuse(Refusal::Missing("clientRandom")))]
        );
        let both = [
            request("old", 10, granted.clone()),
            request("new", 20, granted.clone()),
        ];
        assert_eq!(decisions(&both), [named("old", Decision::Supersede)]);

        // One at a time.
        let both = [request("old", 10, json!({})), request("new", 20, json!({}))];
        assert_eq!(
            decisions(&both),
            [named("new", grant(&["t"])), named("old", instead("new"))]
        );
        // An invalid one does not hold a valid one up.
        let both = [
            request("old", 10, json!({})),
            request("new", 20, json!({ "spec": { "clientRandom": "" } })),
        ];
        assert!(decisions(&both).contains(&named("old", grant(&["t"]))));
        // In the same second, one of them is the newer one; one that is not granted may be.
        let both = [
            request("a", 10, granted.clone()),
            request("b", 10, granted.clone()),
        ];
        assert_eq!(decisions(&both), [named("a", Decision::Supersede)]);
        let both = [request("a", 10, json!({})), request("b", 10, granted.clone())];
        assert_eq!(decisions(&both), [named("a", replacing())]);
        // Of another client.
        let other = json!({ "spec": { "clientID": "d" }, "status": { "granted": true } });
        let both = [request("old", 10, granted), request("new", 20, other)];
        assert_eq!(decisions(&both), []);
    }

    #[test]
    fn so_many_requests_are_handled_at_a_time() {
        let requests: Vec<_> = (0..MAX_HANDLED + 3)
            .map(|number| {
                request(
                    &format!("r{number:03}"),
                    20,
                    json!({ "spec": { "clientID": number.to_string() } }),
                )
            })
            .collect();
        let decisions = decide(&requests, &[token("t", "")]);
        let waiting = decisions
            .iter()
            .filter(|(_, decision)| *decision == Decision::Wait(Waiting::Turn));
        assert_eq!((decisions.len(), waiting.count()), (MAX_HANDLED + 3, 3));
    }

    #[test]
    fn what_is_kept_of_a_request_is_bounded_and_decides_the_same() {
        let long = "x".repeat(100_000);
        let owners: Vec<_> = (0..100)
            .map(|number| json!({ "apiVersion": "v1", "kind": "Cluster", "name": "c", "uid": number.to_string() }))
            .collect();
        let over = json!({
            "metadata": {
                "annotations": { "a": long, labels::REGISTERED: "true" }, "ownerReferences": owners, "finalizers": [long],
                "labels": { "a": "b", labels::REGISTRATION_TOKEN: "t" },
            },
            "spec": { "clusterLabels": { "a": long } },
        });
        let shortened = |over: &Value| {
            let mut read: ClusterRegistration =
                serde_json::from_value(request("a", 50, over.clone())).unwrap();
            shorten(&mut read);
            serde_json::to_value(&read).unwrap()
        };
        let kept = shortened(&over);
        assert!(kept.to_string().len() < 1000, "{kept}");
        assert_eq!(
            kept["metadata"]["annotations"],
            json!({ labels::REGISTERED: "true" })
        );
        assert_eq!(
            decide(&[kept], &[token("t", ""), token("u", "")])[0].1,
            grant(&["t"])
        );
        let kept = shortened(&json!({ "spec": { "clientID": long } }));
        assert!(kept.to_string().len() < 1000, "{kept}");
        let decided = decide(&[kept], &[token("t", "")]);
        assert!(matches!(
            decided[0].1,
            Decision::Refuse(Refusal::TooLong {
                field: "clientID",
                ..
            })
        ));
    }

    #[test]
    fn the_longer_a_request_waits_the_less_often_it_is_tried() {
        let request: ClusterRegistration = serde_json::from_value(request("a", 0, json!({}))).unwrap();
        let after = |seconds| {
            let created = created(&request).unwrap();
            pause(&request, created + Duration::from_secs(seconds)).as_secs()
        };
        assert_eq!([0, 29, 30, 299, 300, 3599].map(after), [0, 0, 5, 5, 30, 30]);
    }

    /// Otherwise everyone who knows the client IDs of so many Clusters could stop registrations.
    #[test]
    fn requests_that_wait_for_an_agent_take_no_room_and_are_tried_in_turn() {
        let waiting = |number: usize| {
            let condition = json!({ "type": "Granted", "status": "False", "reason": "AgentReports" });
            json!({ "spec": { "clientID": format!("w{number}") }, "status": { "conditions": [condition] } })
        };
        let mut requests: Vec<_> = (0..MAX_HANDLED * 2)
            .map(|number| request(&format!("w{number:03}"), 10, waiting(number)))
            .collect();
        requests.push(request("new", 20, json!({})));
        let tried = |now: &str| {
            let tokens = decoded(&[token("t", "")]);
            let workspace = Workspace {
                requests: &decoded(&requests),
                tokens: &tokens,
                policies: &Policies::default(),
                now: now.parse().unwrap(),
            };
            let planned = plan(&workspace).0.into_iter();
            let tried = planned.filter(|one| matches!(one.decision, Decision::Grant(_)));
            tried
                .map(|one| name(one.request).to_owned())
                .collect::<std::collections::BTreeSet<_>>()
        };
        let (first, second) = (tried("2026-01-01T12:00:00Z"), tried("2026-01-01T12:01:00Z"));
        for tried in [&first, &second] {
            assert!(
                tried.contains("new") && tried.len() == MAX_HANDLED + 1,
                "{tried:?}"
            );
        }
        assert_eq!(first.union(&second).count(), requests.len());
    }

    #[test]
    fn the_status_names_the_cluster_and_an_event_reports_what_is_new() {
        let request: ClusterRegistration = serde_json::from_value(request("a", 10, json!({}))).unwrap();
        let waiting = ConditionState::False(Reason::Progressing, "soon".to_owned());
        let first = status(&request, Some("c"), &waiting, NOW);
        assert_eq!((&*first.cluster_name, first.granted), ("c", false));
        assert_eq!(event_of(&request.status, &first), None);
        let refused = ConditionState::False(Reason::RegistrationRefused, "no".to_owned());
        let second = status(&request, None, &refused, NOW);
        assert_eq!((&*second.cluster_name, second.granted), ("", false));
        let event = event_of(&first, &second).unwrap();
        assert!(event.is_warning && event.reason == "RegistrationRefused" && event.note == "no");
        assert_eq!(event_of(&second, &second), None);
        let granted = status(
            &request,
            Some("c"),
            &ConditionState::True(Reason::Registered),
            NOW,
        );
        assert!(granted.granted && !event_of(&second, &granted).unwrap().is_warning);
    }
}
