//! The life cycle of a release in the status: conditions, counts and the last attempts. Only a spec with `lifecycle` has it.

use bounded_text::excerpt;
use helmops_api::{
    Condition,
    bundle_deployment::{BundleDeploymentSpec, BundleDeploymentStatus},
    lifecycle::{LifecycleStatus, ReleaseAttempt, Requests},
    timestamp::timestamp,
};
use helmops_model::reason::Reason;
use jiff::Timestamp;

use super::{
    MAX_MESSAGE,
    conditions::{ConditionType, Conditions},
    outcome::DeployOutcome,
};
use crate::{
    gate::Held,
    history::{History, Revision},
    record::{AttemptAction, Failure, Status},
};

/// How many attempts a status lists: as in Flux.
const MAX_HISTORY: usize = 5;
/// Maximum length of the message of an attempt, in bytes.
const MAX_ATTEMPT_MESSAGE: usize = 1_024;

/// What the life cycle shows.
#[derive(Clone, Debug, Default)]
pub struct Progress<'a> {
    /// What is wanted: the deployment ID with the digest of values that references name; `None` for the ID alone.
    pub input: Option<&'a str>,
    /// The revisions of the release.
    pub history: Option<&'a History>,
    /// What failed last, what runs, and what comes next; with the time of the next attempt.
    pub retry: Option<(String, Timestamp)>,
    /// What the release waits for.
    pub waiting: Option<String>,
    /// The tests; `None` if they are not to run.
    pub tests: Option<TestResult>,
    /// The requests that were handled; `None` if that has not changed.
    pub handled: Option<&'a Requests>,
    /// Whether the deployment has failed before Helm could begin.
    pub without_attempt: bool,
}

impl<'a> Progress<'a> {
    /// What is wanted.
    pub fn input(&self, spec: &'a BundleDeploymentSpec) -> &'a str {
        self.input.unwrap_or(&spec.deployment_id)
    }
}

/// The result of the tests of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestResult {
    /// It has no tests.
    NoTests,
    /// They have not run yet.
    Pending,
    /// They succeeded.
    Succeeded {
        /// How many ran.
        tests: usize,
    },
    /// One of them failed, with the reason.
    Failed(String),
}

/// What is reported of a BundleDeployment that is held.
///
/// Helm does nothing now, so nothing is shown as being deployed any more. The result of an attempt stays.
pub fn hold(status: &mut BundleDeploymentStatus, held: Held, now: &str) {
    let is_deploying = |condition: &&Condition| {
        condition.status == "Unknown" && condition.reason == Reason::Progressing.as_str()
    };
    for r#type in [ConditionType::Deployed, ConditionType::Released] {
        let mut found = status.conditions.iter().filter(is_deploying);
        if found.any(|condition| condition.r#type == r#type.as_str()) {
            let mut conditions = Conditions::new(&mut status.conditions, now);
            progressing(&mut conditions, r#type, format!("waiting: {}", held.awaits()));
        }
    }
    if held == Held::Suspended {
        let own = status.lifecycle.get_or_insert_default();
        own.suspended = true;
        own.next_attempt.clear();
    } else if let Some(own) = &mut status.lifecycle {
        own.suspended = false;
    }
}

/// Applies the life cycle to the status.
pub fn apply(
    status: &mut BundleDeploymentStatus,
    spec: &BundleDeploymentSpec,
    outcome: &DeployOutcome,
    progress: &Progress<'_>,
    now: &str,
) {
    let none = History::default();
    let history = progress.history.unwrap_or(&none);
    if spec.lifecycle.is_none() {
        // Then no other field shows what runs.
        let is_captured = match outcome {
            DeployOutcome::Captured { .. } => true,
            DeployOutcome::Unchanged => status.release.is_empty(),
            _ => false,
        };
        let running = (is_captured && history.deployed().is_some()).then(|| {
            Box::new(LifecycleStatus {
                history: last_attempts(&[], history),
                ..LifecycleStatus::default()
            })
        });
        if std::mem::replace(&mut status.lifecycle, running).is_some() {
            let mut conditions = Conditions::new(&mut status.conditions, now);
            for own in [
                ConditionType::Released,
                ConditionType::TestSuccess,
                ConditionType::Remediated,
            ] {
                conditions.remove(own);
            }
        }
        return;
    }
    let own = status.lifecycle.get_or_insert_default();
    counts(own, spec, history, progress);
    let mut conditions = Conditions::new(&mut status.conditions, now);
    let is_released = released(&mut conditions, spec, outcome, history, progress);
    remediated(&mut conditions, progress.input(spec), history, is_released);
    tested(&mut conditions, progress);
}

fn counts(
    own: &mut LifecycleStatus,
    spec: &BundleDeploymentSpec,
    history: &History,
    progress: &Progress<'_>,
) {
    let failed = history.failed_attempt(progress.input(spec));
    own.suspended = false;
    own.failures = failed.map_or(0, |failed| i64::from(failed.attempt.number));
    own.next_attempt = progress
        .retry
        .as_ref()
        .map(|(_, at)| timestamp(*at))
        .unwrap_or_default();
    own.history = last_attempts(&own.history, history);
    if let Some(handled) = progress.handled {
        own.handled = Some(handled.clone());
    }
}

/// The attempts of the records, and those that were listed before and have no record any more; newest first.
fn last_attempts(listed: &[ReleaseAttempt], history: &History) -> Vec<ReleaseAttempt> {
    let shortened = |revision| {
        let attempt = attempt(revision);
        let message = excerpt(&attempt.message, MAX_ATTEMPT_MESSAGE);
        ReleaseAttempt { message, ..attempt }
    };
    let mut all: Vec<_> = history.iter().map(shortened).collect();
    for old in listed {
        // A revision that was discarded gives its number to the next one.
        if all
            .iter()
            .any(|one| (one.revision, &one.time) == (old.revision, &old.time))
        {
            continue;
        }
        let mut old = old.clone();
        if old.outcome == Status::Deployed.as_str() {
            Status::Superseded.as_str().clone_into(&mut old.outcome);
        }
        all.push(old);
    }
    all.sort_by(|one, other| (&other.time, other.revision).cmp(&(&one.time, one.revision)));
    all.truncate(MAX_HISTORY);
    all
}

/// A revision as an attempt, with its whole message.
pub fn attempt(revision: &Revision) -> ReleaseAttempt {
    let action = match &revision.origin.attempt {
        _ if revision.is_rollback => "rollback",
        Some(attempt) => attempt.action.as_str(),
        None if revision.number == 1 => AttemptAction::Install.as_str(),
        None => AttemptAction::Upgrade.as_str(),
    };
    let message = revision.failure.as_ref().map(Failure::cause);
    // Helm supersedes what failed too.
    let outcome = match revision.status {
        Status::Superseded if revision.has_failed() => Status::Failed,
        status => status,
    };
    ReleaseAttempt {
        revision: i64::try_from(revision.number).unwrap_or(i64::MAX),
        action: action.to_owned(),
        chart: revision.chart.name.clone(),
        version: revision.chart.version.clone(),
        deployment_id: revision.origin.deployment_id().unwrap_or_default().to_owned(),
        outcome: outcome.to_string(),
        time: revision.made_at.map(timestamp).unwrap_or_default(),
        message: message.unwrap_or_default(),
    }
}

/// Sets `Released`, and returns whether the last attempt is over and succeeded.
fn released(
    conditions: &mut Conditions<'_>,
    spec: &BundleDeploymentSpec,
    outcome: &DeployOutcome,
    history: &History,
    progress: &Progress<'_>,
) -> bool {
    let Some(last) = history.last_attempt(progress.input(spec)) else {
        match &progress.waiting {
            Some(waiting) => progressing(conditions, ConditionType::Released, format!("waiting: {waiting}")),
            None => without_attempt(conditions, outcome, history),
        }
        return matches!(outcome, DeployOutcome::Deployed { .. });
    };
    let action = last.origin.attempt.as_ref().map(|attempt| attempt.action);
    let [succeeded, failed] = reasons(action.unwrap_or(AttemptAction::Upgrade));
    let chart = format!("revision {}: chart {}", last.number, last.chart);
    match (&last.failure, &progress.waiting) {
        (None, Some(waiting)) => {
            let message = format!("{chart}; waiting: {waiting}");
            progressing(conditions, ConditionType::Released, message);
            false
        }
        (None, None) if last.status == Status::Deployed || last.status == Status::Superseded => {
            write(conditions, ConditionType::Released, "True", succeeded, chart);
            true
        }
        (None, None) => {
            let message = format!("{chart} is {}", last.status);
            progressing(conditions, ConditionType::Released, message);
            false
        }
        (Some(Failure::Test(_)), _) => {
            write(conditions, ConditionType::Released, "True", succeeded, chart);
            false
        }
        (Some(failure), _) => {
            let retry = progress.retry.as_ref().map(|(text, _)| text.clone());
            let message = retry.unwrap_or_else(|| format!("{chart}: {}", failure.cause()));
            write(conditions, ConditionType::Released, "False", failed, message);
            false
        }
    }
}

/// Helm made no record for what is wanted: it failed before that, or another agent has deployed it.
fn without_attempt(conditions: &mut Conditions<'_>, outcome: &DeployOutcome, history: &History) {
    let is_install = history.base().is_none();
    let [succeeded, failed] = reasons(if is_install {
        AttemptAction::Install
    } else {
        AttemptAction::Upgrade
    });
    match outcome {
        DeployOutcome::Deployed { release } => {
            let message = format!("release {release}");
            write(conditions, ConditionType::Released, "True", succeeded, message);
        }
        DeployOutcome::Captured { error } | DeployOutcome::Failed { error } => {
            write(
                conditions,
                ConditionType::Released,
                "False",
                failed,
                error.clone(),
            );
        }
        DeployOutcome::Conflict(conflict) => {
            let message = conflict.to_string();
            write(conditions, ConditionType::Released, "False", failed, message);
        }
        _ => {}
    }
}

fn remediated(conditions: &mut Conditions<'_>, input: &str, history: &History, is_released: bool) {
    let failed = history.failed_attempt(input);
    let (Some(failed), Some(newest)) = (failed, history.newest()) else {
        if is_released {
            conditions.remove(ConditionType::Remediated);
        }
        return;
    };
    let r#type = ConditionType::Remediated;
    match (newest.is_rollback, newest.status, &newest.failure) {
        (true, Status::Deployed, _) => {
            let message = format!(
                "revision {} failed; revision {} restores chart {}",
                failed.revision.number, newest.number, newest.chart
            );
            write(conditions, r#type, "True", Reason::RollbackSucceeded, message);
        }
        (true, _, Some(failure)) => {
            write(
                conditions,
                r#type,
                "False",
                Reason::RollbackFailed,
                failure.cause(),
            );
        }
        (_, Status::Uninstalled, _) => {
            let message = format!("revision {} failed and was uninstalled", newest.number);
            write(conditions, r#type, "True", Reason::UninstallSucceeded, message);
        }
        _ => {}
    }
}

fn tested(conditions: &mut Conditions<'_>, progress: &Progress<'_>) {
    let r#type = ConditionType::TestSuccess;
    match &progress.tests {
        None => conditions.remove(r#type),
        Some(TestResult::Pending) => {
            let message = "the tests have not run yet";
            write(conditions, r#type, "Unknown", Reason::AwaitingTests, message);
        }
        Some(TestResult::NoTests) => {
            let message = "the chart has no tests that are to run";
            write(conditions, r#type, "True", Reason::NoTests, message);
        }
        Some(TestResult::Succeeded { tests }) => {
            write(
                conditions,
                r#type,
                "True",
                Reason::TestSucceeded,
                format!("{tests} succeeded"),
            );
        }
        Some(TestResult::Failed(reason)) => {
            write(conditions, r#type, "False", Reason::TestFailed, reason);
        }
    }
}

/// It is not known yet how it ends.
fn progressing(conditions: &mut Conditions<'_>, r#type: ConditionType, message: String) {
    write(conditions, r#type, "Unknown", Reason::Progressing, message);
}

fn write(
    conditions: &mut Conditions<'_>,
    r#type: ConditionType,
    status: &str,
    reason: Reason,
    message: impl AsRef<str>,
) {
    let message = excerpt(message.as_ref(), MAX_MESSAGE);
    conditions.write(r#type, status, reason.as_str(), message);
}

const fn reasons(action: AttemptAction) -> [Reason; 2] {
    match action {
        AttemptAction::Install => [Reason::InstallSucceeded, Reason::InstallFailed],
        AttemptAction::Upgrade => [Reason::UpgradeSucceeded, Reason::UpgradeFailed],
    }
}

#[cfg(test)]
mod tests;
