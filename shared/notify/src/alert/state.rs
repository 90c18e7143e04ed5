//! The state of an object, from its status: what Alerts compare and report.

use bounded_text::{cut, excerpt, hex, printable};
use helmops_api::{
    Bundle, Cluster, Condition, HelmOp, Metadata, ObjectName, Unusable,
    status::{BundleSummary, ModifiedStatus, NonReadyResource, NonReadyStatus},
    weight::{Bytes, OVERHEAD, Weight},
};
use helmops_model::{
    chart::url::redacted_urls,
    condition::ConditionType,
    deployment_state::{DeploymentState, count},
    reason::Reason,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};

use crate::source::Labels;

/// How long objects of a release may be on their way to readiness without any change before that is a failure: as long as a Deployment
/// may take by default.
const SETTLING: SignedDuration = SignedDuration::from_mins(10);
/// The number of clusters that a message names.
const MAX_EXAMPLES: usize = 3;
/// The number of objects that a message names for each cluster.
const MAX_OBJECTS: usize = 2;
/// Maximum length of the texts about all clusters that a message names, in bytes: the fewer they are, the more is shown of each.
const MAX_EXAMPLES_TEXT: usize = 900;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 1_024;
/// Maximum length of a version, in bytes.
const MAX_VERSION: usize = 64;
/// Digits of the hash of a reported notice: enough to distinguish the versions of one chart.
const HASH_DIGITS: usize = 8;
/// Maximum length of a reason, in bytes: another controller can write any.
const MAX_REASON: usize = 64;

/// The labels that are kept of an object, in bytes: Kubernetes limits each label, but not their number. An object with more is selected
/// without labels only.
pub const MAX_LABELS: usize = 16 << 10;

/// What is kept of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
    /// Its labels; none if it has more than [`MAX_LABELS`].
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Whether it has more.
    pub lacks_labels: bool,
    /// Its state.
    pub state: State,
}

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its status is missing, or that of an earlier generation.
    Unknown,
    /// The process has no memory for it: neither its status nor its labels are known.
    NotStored,
    /// It is neither ready, nor does anything fail.
    Progressing,
    /// The object is ready.
    Ready {
        /// The version of its chart; empty for a Cluster.
        version: Box<str>,
        /// What polls have found about its chart.
        notices: Box<[Notice]>,
    },
    /// The object fails.
    Failing(Box<Failing>),
}

/// What a poll has found about a chart: no failure, and reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: Box<str>,
}

impl Notice {
    /// What is recorded once it is reported: another version has another message.
    pub fn key(&self) -> String {
        let mut hash = hex(digest(&SHA256, self.message.as_bytes()).as_ref());
        hash.truncate(HASH_DIGITS);
        format!("{} {hash}", self.reason)
    }
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The reason.
    pub reason: Box<str>,
    /// The version of its chart.
    pub version: Box<str>,
    /// What fails, with counts.
    pub message: Box<str>,
    /// Since when it fails, if its status has that.
    pub since: Option<Timestamp>,
    /// It counts from this time on: until then, it may resolve itself.
    pub from: Option<Timestamp>,
}

impl Observed {
    /// What is kept of a HelmOp.
    pub fn of_helmop(helmop: &HelmOp) -> Self {
        Self::new(&helmop.metadata, of_helmop(helmop))
    }

    /// What is kept of a Bundle.
    pub fn of_bundle(bundle: &Bundle) -> Self {
        Self::new(&bundle.metadata, of_bundle(bundle))
    }

    /// What is kept of a Cluster.
    pub fn of_cluster(cluster: &Cluster) -> Self {
        Self::new(&cluster.metadata, of_cluster(cluster))
    }

    /// What is kept of an object that cannot be used. One that is not stored may be valid, so nothing is reported of it.
    pub fn unusable(metadata: &Metadata, error: &Unusable) -> Self {
        let state = match error {
            Unusable::Invalid(_) => {
                let message = format!("it {}", error.predicate());
                failing(Reason::DecodeError.as_str(), "", &message, "")
            }
            Unusable::NotStored(_) => State::NotStored,
        };
        Self::new(metadata, state)
    }

    fn new(metadata: &Metadata, state: State) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default().into_boxed_str();
        let labels = metadata.labels.iter().flatten();
        let bytes: usize = labels.clone().map(|(key, value)| key.len() + value.len()).sum();
        let lacks_labels = bytes > MAX_LABELS;
        Self {
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
            lacks_labels,
            labels: labels
                .filter(|_| !lacks_labels)
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect(),
            state,
        }
    }

    /// Whether another version of the object is the same for Alerts.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.labels, &self.state) == (&other.labels, &other.state)
    }
}

/// An object that is not stored may have any label. As long as it is selected, the end of its failure is not reported.
impl Labels for Observed {
    fn has(&self, key: &str, value: &str) -> bool {
        let mut labels = self.labels.iter();
        let found = labels.find(|(name, _)| **name == *key);
        found.is_some_and(|(_, found)| **found == *value) || self.state == State::NotStored
    }
}

impl Weight for Observed {
    fn bytes(&self) -> Bytes {
        let labels: usize = self
            .labels
            .iter()
            .map(|label| size_of_val(label) + label.0.len() + label.1.len())
            .sum();
        let state = match &self.state {
            State::Unknown | State::NotStored | State::Progressing => 0,
            State::Ready { version, notices } => {
                let bytes = |notice: &Notice| size_of_val(notice) + notice.message.len();
                version.len() + notices.iter().map(bytes).sum::<usize>()
            }
            State::Failing(failing) => {
                let Failing {
                    reason,
                    version,
                    message,
                    ..
                } = &**failing;
                size_of_val(&**failing) + reason.len() + version.len() + message.len()
            }
        };
        let versions = self.uid.len() + self.resource_version.len();
        (OVERHEAD + size_of_val(self) + versions + labels + state).into()
    }
}

/// What deployments are counted by.
#[derive(Clone, Copy)]
enum Counted {
    Clusters,
    Bundles,
}

impl Counted {
    const fn noun(self, number: i64) -> &'static str {
        match (self, number) {
            (Self::Clusters, 1) => "cluster",
            (Self::Clusters, _) => "clusters",
            (Self::Bundles, 1) => "Bundle",
            (Self::Bundles, _) => "Bundles",
        }
    }
}

fn of_helmop(helmop: &HelmOp) -> State {
    let Some(status) = &helmop.status else {
        return State::Unknown;
    };
    // Fleet's CRD does not have the field.
    if is_stale(helmop.metadata.generation, status.observed_generation) {
        return State::Unknown;
    }
    let conditions = &status.base.conditions;
    let version = &status.version;
    if let Some(accepted) =
        Condition::find(conditions, "Accepted").filter(|accepted| accepted.status == "False")
    {
        return failing(
            &accepted.reason,
            version,
            &accepted.message,
            &accepted.last_transition_time,
        );
    }
    let Some(ready) = Condition::find(conditions, "Ready") else {
        return State::Unknown;
    };
    if ready.status == "True" {
        return match Condition::find(conditions, "Polled").filter(|polled| polled.status == "False") {
            Some(polled) => {
                let message = format!("newer versions are not found: {}", polled.message);
                failing(&polled.reason, version, &message, &polled.last_transition_time)
            }
            None => State::Ready {
                version: excerpt(version, MAX_VERSION).into(),
                notices: notices(conditions),
            },
        };
    }
    of_condition(ready, status.base.summary.as_ref(), version, Counted::Clusters)
}

fn of_bundle(bundle: &Bundle) -> State {
    let Some(status) = &bundle.status else {
        return State::Unknown;
    };
    if is_stale(bundle.metadata.generation, status.observed_generation) {
        return State::Unknown;
    }
    let helm = bundle.spec.options.helm.as_ref();
    let version = helm.map(|helm| &*helm.version).unwrap_or_default();
    match Condition::find(&status.conditions, "Ready") {
        None => State::Unknown,
        Some(ready) if ready.status == "True" => State::Ready {
            version: excerpt(version, MAX_VERSION).into(),
            notices: Box::default(),
        },
        Some(ready) => of_condition(ready, status.summary.as_ref(), version, Counted::Clusters),
    }
}

fn of_cluster(cluster: &Cluster) -> State {
    let status = &cluster.status;
    match Condition::find(&status.conditions, "Ready") {
        None => State::Unknown,
        Some(ready) if ready.status == "True" => State::Ready {
            version: "".into(),
            notices: Box::default(),
        },
        Some(ready) => of_condition(ready, status.summary.as_ref(), "", Counted::Bundles),
    }
}

fn notices(conditions: &[Condition]) -> Box<[Notice]> {
    let types = ConditionType::NOTICES.into_iter().map(ConditionType::as_str);
    let present = types.filter_map(|r#type| {
        let condition = Condition::find(conditions, r#type).filter(|condition| condition.status == "True")?;
        Some(Notice {
            reason: r#type,
            message: public(&condition.message),
        })
    });
    present.collect()
}

/// A message as it may leave the cluster.
fn public(message: &str) -> Box<str> {
    cut(redacted_urls(&printable(message)).into_owned(), MAX_MESSAGE).into()
}

fn is_stale(generation: Option<i64>, observed: Option<i64>) -> bool {
    observed.is_some() && observed != generation
}

fn failing(reason: &str, version: &str, message: &str, since: &str) -> State {
    State::Failing(Box::new(Failing {
        since: since.parse().ok(),
        reason: excerpt(reason, MAX_REASON).into(),
        version: excerpt(version, MAX_VERSION).into(),
        message: public(message),
        from: None,
    }))
}

/// The state of an object whose condition `Ready` is not true.
///
/// A failed deployment counts while others progress: a rollout may take hours. Objects that are on their way to readiness fail nothing
/// until they have been so for a while.
fn of_condition(
    ready: &Condition,
    summary: Option<&BundleSummary>,
    version: &str,
    counted: Counted,
) -> State {
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == ready.reason);
    let is_about_counts = matches!(reason, None | Some(Reason::NotReady | Reason::Progressing));
    let none = BundleSummary::default();
    let summary = summary.unwrap_or(&none);
    let since = &ready.last_transition_time;
    if !is_about_counts {
        return failing(&ready.reason, version, &ready.message, since);
    }
    let has_faults = has_faults(summary);
    let counts = [
        DeploymentState::ErrApplied,
        DeploymentState::Modified,
        DeploymentState::NotReady,
    ]
    .map(|state| (state, count(summary, state).max(0)))
    .map(|(state, number)| match state {
        DeploymentState::NotReady if !has_faults => (state, 0),
        _ => (state, number),
    });
    let number: i64 = counts.iter().map(|(_, number)| number).sum();
    if let Some((worst, _)) = counts.iter().find(|(_, number)| *number > 0) {
        let message = message(summary, number, &counts, counted);
        return failing(worst.as_str(), version, &message, since);
    }
    let is_waiting = [
        DeploymentState::WaitApplied,
        DeploymentState::WaitingForDependency,
        DeploymentState::Pending,
        DeploymentState::OutOfSync,
    ]
    .into_iter()
    .any(|state| count(summary, state) > 0);
    if is_waiting || reason == Some(&Reason::Progressing) {
        return State::Progressing;
    }
    if summary.not_ready <= 0 {
        // No count shows why it is not ready.
        return match reason {
            Some(_) => failing(&ready.reason, version, &ready.message, since),
            None => State::Progressing,
        };
    }
    let counts = [(DeploymentState::NotReady, summary.not_ready)];
    let mut state = failing(
        DeploymentState::NotReady.as_str(),
        version,
        &message(summary, summary.not_ready, &counts, counted),
        since,
    );
    if let State::Failing(failing) = &mut state {
        let last_change = [&ready.last_update_time, &ready.last_transition_time];
        let last_change = last_change.iter().find_map(|time| time.parse::<Timestamp>().ok());
        failing.from = last_change.and_then(|time| time.checked_add(SETTLING).ok());
    }
    state
}

/// Whether an object that is not ready will not become so by itself, in any of the deployments that the summary names.
fn has_faults(summary: &BundleSummary) -> bool {
    let is_fault = |status: &NonReadyStatus| {
        let summary = status.summary.as_ref();
        summary.is_some_and(|summary| summary.error || !summary.transitioning)
    };
    let not_ready = summary
        .non_ready_resources
        .iter()
        .filter(|one| one.bundle_state == DeploymentState::NotReady.as_str());
    not_ready.flat_map(|one| &one.non_ready_status).any(is_fault)
}

/// `3 of 200 clusters fail: ErrApplied: fleet-default/c-1: …; …; and 1 more`.
fn message(
    summary: &BundleSummary,
    number: i64,
    counts: &[(DeploymentState, i64)],
    counted: Counted,
) -> String {
    let all = summary.desired_ready.unwrap_or_default().max(number);
    let verb = if number == 1 { "fails" } else { "fail" };
    let mut text = format!("{number} of {all} {} {verb}", counted.noun(all));
    let states = counts.iter().filter(|(_, number)| *number > 0);
    let examples: Vec<_> = states
        .clone()
        .flat_map(|(state, _)| {
            let resources = summary.non_ready_resources.iter();
            resources.filter(move |one| one.bundle_state == state.as_str())
        })
        .collect();
    let mut separator = ": ";
    let mut last = "";
    let length = MAX_EXAMPLES_TEXT / examples.len().clamp(1, MAX_EXAMPLES);
    for example in examples.iter().take(MAX_EXAMPLES) {
        text.push_str(separator);
        if example.bundle_state != last {
            text.push_str(&example.bundle_state);
            text.push_str(": ");
            last = &example.bundle_state;
        }
        text.push_str(&excerpt(&describe(example), length));
        separator = "; ";
    }
    let named = i64::try_from(examples.len().min(MAX_EXAMPLES)).unwrap_or(i64::MAX);
    if named == 0 {
        let states: Vec<_> = states.map(|(state, _)| state.as_str()).collect();
        return format!("{text}: {}", states.join(", "));
    }
    if named < number {
        text = format!("{text}; and {} more", number - named);
    }
    text
}

/// A cluster and its failure, without what was changed in an object: that may be a value of a user.
fn describe(example: &NonReadyResource) -> String {
    let modified = example.modified_status.iter().take(MAX_OBJECTS).map(changed);
    let not_ready = example
        .non_ready_status
        .iter()
        .take(MAX_OBJECTS)
        .map(ToString::to_string);
    let message = Some(example.message.clone()).filter(|message| !message.is_empty());
    let parts: Vec<_> = message.into_iter().chain(modified).chain(not_ready).collect();
    if parts.is_empty() {
        example.name.clone()
    } else {
        format!("{}: {}", example.name, parts.join(", "))
    }
}

fn changed(object: &ModifiedStatus) -> String {
    let name = ObjectName {
        api_version: &object.api_version,
        kind: &object.kind,
        namespace: &object.namespace,
        name: &object.name,
    };
    let how = match (object.missing, object.exist, object.delete) {
        (true, true, _) => "is not owned by the release",
        (true, false, _) => "is missing",
        (false, _, true) => "is extra",
        (false, _, false) => "was changed",
    };
    format!("{name} {how}")
}

#[cfg(test)]
mod tests;
