//! Finds the pods of a workload, and what they show.
//!
//! ```text
//! Deployment ─► its newest ReplicaSet ─┐
//! StatefulSet, DaemonSet, Job ─────────┴─► pods with this owner ─► the worst cause ─► warnings, end of a log
//! ```

use std::{fmt::Write, time::Duration};

use bounded_text::cut;
use helmops_kube::path_segment;
use helmops_release::{
    health::{Detail, Evidence, PodCause, Severity, pod_cause},
    object::ObjectId,
};
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{Event, Pod},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::{PartialObjectMeta, Selector},
};
use tokio::time::timeout;

use super::{
    causes::{Cause, Look},
    log,
};
use crate::live::Objects;

/// Pods of a workload that are read.
const MAX_PODS: u32 = 200;
/// ReplicaSets of a Deployment that are read: it keeps ten by default.
const MAX_REPLICA_SETS: u32 = 50;
/// Events of an object that are read.
const MAX_EVENTS: u32 = 50;
/// How long a log is waited for: a node may not answer.
const LOG_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest text without the log, and with it, in bytes: it is a part of the messages of several objects.
const MAX_TEXT: usize = 300;
const MAX_TEXT_WITH_LOG: usize = 450;
/// The annotation with the number of the revision of a Deployment that a ReplicaSet belongs to.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The label that the pods of a ReplicaSet of a Deployment have, and those of others have not.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Why a workload is not ready. `known` is the cause that is known.
///
/// # Errors
/// If something cannot be read.
pub async fn cause(
    objects: Objects<'_>,
    id: &ObjectId,
    known: Option<&Cause>,
    shows_logs: bool,
) -> Result<Look, CallError> {
    let Some(workload) = objects.read(id).await? else {
        return Ok(Look::Nothing);
    };
    let reader = Reader {
        objects,
        namespace: &id.namespace,
        known,
        shows_logs,
    };
    if id.kind == "Pod" {
        let pod = serde_json::to_value(workload).and_then(serde_json::from_value);
        return Ok(reader.worst(pod.into_iter().collect(), false).await);
    }
    let selector = workload.data.pointer("/spec/selector").cloned();
    let selector = selector.and_then(|selector| serde_json::from_value::<LabelSelector>(selector).ok());
    let Some(selector) = selector.and_then(|selector| Selector::try_from(selector).ok()) else {
        return Ok(Look::Nothing);
    };
    let mut selector = selector.to_string();
    let mut owner = workload.metadata.uid.unwrap_or_default();
    if id.kind == "Deployment" {
        let Some(set) = reader.newest_replica_set(&selector, &owner).await? else {
            return Ok(Look::Nothing);
        };
        if let Some(hash) = set.labels().get(TEMPLATE_HASH) {
            selector = format!("{selector},{TEMPLATE_HASH}={hash}");
        }
        owner = set.metadata.uid.unwrap_or_default();
    }
    let (pods, are_all) = reader.pods(&selector, &owner).await?;
    if pods.is_empty() && are_all {
        return Ok(reader.without_pods(&owner).await);
    }
    Ok(reader.worst(pods, id.kind == "Job").await)
}

/// Whether objects of this kind have pods, or are one.
pub fn has_pods(id: &ObjectId) -> bool {
    matches!(
        (id.group(), &*id.kind),
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") | ("batch", "Job") | ("", "Pod")
    )
}

/// Reads in the namespace of a workload.
struct Reader<'r> {
    objects: Objects<'r>,
    namespace: &'r str,
    known: Option<&'r Cause>,
    shows_logs: bool,
}

impl Reader<'_> {
    async fn newest_replica_set(
        &self,
        selector: &str,
        owner: &str,
    ) -> Result<Option<PartialObjectMeta<ReplicaSet>>, CallError> {
        let api = self.api::<ReplicaSet>();
        let params = ListParams::default().labels(selector).limit(MAX_REPLICA_SETS);
        let found = bounded(api.list_metadata(&params)).await;
        let found = found.map_err(CallError::of(
            "list",
            format_args!("ReplicaSets in {}", self.namespace),
        ))?;
        let revision =
            |set: &PartialObjectMeta<ReplicaSet>| set.annotations().get(REVISION)?.parse::<u64>().ok();
        let sets = found.items.into_iter().filter(|set| is_owned(set, owner));
        Ok(sets.max_by_key(revision))
    }

    /// The pods that an object owns, and whether these are all.
    async fn pods(&self, selector: &str, owner: &str) -> Result<(Vec<Pod>, bool), CallError> {
        let api = self.api::<Pod>();
        let params = ListParams::default().labels(selector).limit(MAX_PODS);
        let found = bounded(api.list(&params)).await;
        let found = found.map_err(CallError::of("list", format_args!("Pods in {}", self.namespace)))?;
        let are_all = found.metadata.continue_.as_deref().unwrap_or_default().is_empty();
        let pods = found.items.into_iter().filter(|pod| is_owned(pod, owner));
        Ok((pods.collect(), are_all))
    }

    /// A quota, an admission webhook, a ServiceAccount that does not exist: the controller of the owner cannot create pods.
    async fn without_pods(&self, owner: &str) -> Look {
        let Some(warning) = self.warning(owner, None, |_, _| true).await else {
            return Look::Nothing;
        };
        let head = format!("it has no Pod: {}", warning.reason);
        if self.known.is_some_and(|known| known.head == head) {
            return Look::Same;
        }
        Look::Found(Cause {
            text: cut(format!("{head}: {}", warning.message), MAX_TEXT),
            head,
            is_complete: true,
            is_crash: false,
        })
    }

    /// What the pod with the worst cause shows. Pods that have failed stay beside others: these count only for a Job, the newest first.
    async fn worst(&self, pods: Vec<Pod>, is_job: bool) -> Look {
        let now = Timestamp::now();
        let mut causes: Vec<_> = pods
            .iter()
            .filter_map(|pod| Some((pod, pod_cause(&serde_json::to_value(pod).ok()?, now)?)))
            .collect();
        if !is_job && causes.iter().any(|(pod, _)| !has_failed(pod)) {
            causes.retain(|(pod, _)| !has_failed(pod));
        }
        let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let worst = causes.into_iter().min_by(|(a, first), (b, second)| {
            let newest = if is_job {
                created(b).cmp(&created(a))
            } else {
                std::cmp::Ordering::Equal
            };
            // Of several that are as bad, always the same one, so that the text does not change.
            let by_name = || a.metadata.name.cmp(&b.metadata.name);
            second
                .severity
                .cmp(&first.severity)
                .then(newest)
                .then_with(by_name)
        });
        match worst {
            Some((pod, cause)) => self.shown(pod, &cause).await,
            None => Look::Nothing,
        }
    }

    /// The cause for people. One that just starts is not worth a text, unless there is a warning.
    async fn shown(&self, pod: &Pod, cause: &PodCause) -> Look {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let head = format!("Pod {name}: {}", cause.text);
        let detail = cause
            .detail
            .as_ref()
            .filter(|detail| self.shows_logs || !detail.is_output);
        let may_have_more = detail.is_some() || cause.evidence != Evidence::Status;
        let known = self.known.filter(|known| known.head == head);
        if known.is_some_and(|known| known.is_complete || !may_have_more) {
            return Look::Same;
        }
        let warning = match &cause.evidence {
            Evidence::Status => None,
            Evidence::Events(since) => self.warning(&uid, *since, |_, _| true).await,
            // Only these probes end a container.
            Evidence::Log { .. } => {
                let is_fatal = |reason: &str, message: &str| {
                    reason == "Unhealthy"
                        && (message.starts_with("Liveness") || message.starts_with("Startup"))
                };
                self.warning(&uid, cause.since, is_fatal).await
            }
        };
        if cause.severity == Severity::Starting && warning.is_none() {
            return Look::Nothing;
        }
        let mut text = head.clone();
        let warning = warning.map(|warning| self.text(&warning));
        for part in [detail.map(|detail| &detail.text), warning.as_ref()]
            .into_iter()
            .flatten()
        {
            let _ = write!(text, ": {part}");
        }
        text = cut(text, MAX_TEXT);
        if let Some(since) = cause.since {
            let _ = write!(text, " (since {})", helmops_api::timestamp::timestamp(since));
        }
        let log = match &cause.evidence {
            Evidence::Log {
                container,
                is_previous,
            } if self.shows_logs => self.log(&name, container, *is_previous).await,
            _ => None,
        };
        if let Some(log) = &log {
            let rest = MAX_TEXT_WITH_LOG.saturating_sub(text.len());
            let _ = write!(
                text,
                "; its log ends with \"{}\"",
                log::end(log, log::short(rest))
            );
        }
        Look::Found(Cause {
            head,
            text,
            is_complete: detail.is_some() || warning.is_some() || log.is_some(),
            is_crash: cause.severity == Severity::Crashed,
        })
    }

    /// The text of a warning. What a probe prints is as a log.
    fn text(&self, warning: &Warning) -> String {
        let Warning { reason, message } = warning;
        match message.split_once(':') {
            Some((probe, _)) if reason == "Unhealthy" && !self.shows_logs => probe.to_owned(),
            _ if reason == "Unhealthy" => message.clone(),
            _ => format!("{reason}: {message}"),
        }
    }

    /// The last warning about an object that is selected by its reason and its message. It may not be readable, and nothing depends on it.
    async fn warning(
        &self,
        uid: &str,
        since: Option<Timestamp>,
        is_selected: impl Fn(&str, &str) -> bool,
    ) -> Option<Warning> {
        let params = ListParams::default()
            .fields(&format!("involvedObject.uid={uid},type=Warning"))
            .limit(MAX_EVENTS);
        let found = bounded(self.api::<Event>().list(&params)).await;
        let found = found
            .inspect_err(|error| tracing::info!(namespace = self.namespace, %error, "cannot list Events"))
            .ok()?;
        let selected = found.items.into_iter().filter(|event| {
            let (reason, message) = (event.reason.as_deref(), event.message.as_deref());
            let reason = reason.unwrap_or_default();
            // The status of a container shows what this one is about, without numbers that change.
            reason != "BackOff"
                && is_selected(reason, message.unwrap_or_default())
                && since.is_none_or(|since| last_seen(event).is_none_or(|seen| seen >= since))
        });
        let last = selected.max_by_key(last_seen)?;
        let text =
            |text: Option<String>| Detail::of(&text.unwrap_or_default(), true).map(|detail| detail.text);
        Some(Warning {
            reason: text(last.reason).unwrap_or_default(),
            message: text(last.message).unwrap_or_default(),
        })
    }

    /// The end of the log of a container. It may be gone, and nothing depends on it.
    async fn log(&self, pod: &str, container: &str, is_previous: bool) -> Option<String> {
        let pods = self.api::<Pod>();
        let read = log::read(&pods, pod, Some(container), is_previous);
        match timeout(LOG_TIMEOUT, read).await {
            Ok(Ok(log)) => Some(log).filter(|log| !log.trim().is_empty()),
            Ok(Err(error)) => {
                tracing::info!(pod, container, %error, "cannot read the log");
                None
            }
            Err(_) => {
                tracing::info!(pod, container, "cannot read the log in time");
                None
            }
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.objects.client.clone(), &path_segment(self.namespace))
    }
}

/// A warning, as an Event has it.
struct Warning {
    reason: String,
    message: String,
}

/// Whether an object is controlled by the object with this UID.
fn is_owned(object: &impl ResourceExt, owner: &str) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|reference| reference.controller == Some(true) && reference.uid == owner)
}

fn has_failed(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Failed")
}

/// When an event happened last: a series of equal ones is one Event.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let time = event.event_time.as_ref().map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    series.map(|time| time.0).or(last).or(time)
}
