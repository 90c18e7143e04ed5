//! Brings a release to what its BundleDeployment wants.
//!
//! ```text
//! records ─► state ─► next step ─┬─► take over as it is (`adopt`)      ─┐
//!              ▲                 ├─► install, upgrade (`run`)          ─┤
//!              │                 ├─► roll back, uninstall (`remediate`) ─┤
//!              │                 └─► unlock, forget                  ─┤
//!              └──────────────────────────────────────────────────────┘ until nothing is to be done, or an attempt has failed and is remediated
//! ```

use std::convert::Infallible;

use helmops_core::{targeting::copies::SourceRef, validation::names};
use helmops_release::{
    action::Action,
    dependencies,
    history::{FailedAttempt, History},
    lifecycle::{self, Policy, Remediation, Remedy, Requested, Retry, Schedule, Situation, Step},
    names::ReleaseKey,
    record::{Acceptance, Attempt, Cause, Failure},
    state::{Applied, ReleaseState, Wanted},
};
use helmops_runtime::retry_state::RetryKey;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;

use super::{
    deployed::Deployed,
    deployment::{Deployment, Run, name},
    renamed::own_releases,
    wait::Watched,
};
use crate::{
    error::{AgentError, Lacking, NextAttempt},
    helm::FailureReason,
    inputs::{self, CopyChanges},
};

/// How many actions one reconciliation takes at most: unlock, finish an uninstallation, install, remediate, and some for changes in
/// between.
const MAX_ACTIONS: usize = 7;

/// Whether actions are needed.
pub enum Check {
    /// None: this is deployed. These copies and the namespace are kept as they should be.
    Settled(Deployed, Vec<SourceRef>),
    /// Some are, or may be, after the copies are what they should be.
    Due {
        /// What is deployed, if that is what is wanted.
        deployed: Option<Deployed>,
        /// What is to be done with the copies.
        copies: CopyChanges,
    },
}

/// Whether this reconciliation has had a failure, which the status does not show yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failures {
    Reported,
    New,
}

impl Deployment<'_> {
    /// Whether actions are needed. Only reads.
    ///
    /// # Errors
    /// If something is missing, or the next attempt is due later.
    pub async fn check(&self) -> Result<Check, AgentError> {
        let (context, release) = (self.context, &self.release);
        let options = &self.wanted.spec.options;
        if self.wanted.spec.helm_chart_options.is_none() {
            return Err(Lacking::Content.into());
        }
        if let Err(invalid) = names::namespace(&release.namespace) {
            return Err(Lacking::NamespaceName {
                namespace: release.namespace.clone(),
                invalid,
            }
            .into());
        }
        inputs::check_selector(&context.downstream, options, &release.namespace).await?;
        // The cache may be behind: it only shows that nothing is to be done.
        let cached = context.records.cached_history(release).await?;
        let Some(deployed) = self.current(&cached) else {
            self.check_backoff()?;
            self.check_dependencies()?;
            return Ok(Check::Due {
                deployed: None,
                copies: self.compare_copies().await?,
            });
        };
        let copies = match self.compare_copies().await {
            Ok(copies) => copies,
            Err(error) => return Err(not_copied(Some(deployed), error)),
        };
        if !self.requested(&cached).force && !self.is_repeated(copies.content, &cached).await? {
            return Ok(Check::Settled(deployed, copies.outdated));
        }
        Ok(Check::Due {
            deployed: Some(deployed),
            copies,
        })
    }

    /// Keeps what a deployed revision needs besides its objects as it should be: copies, and labels and annotations of its namespace.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub async fn maintain(
        &self,
        deployed: Deployed,
        outdated: Vec<SourceRef>,
    ) -> Result<Deployed, AgentError> {
        let written = self.write_copies(outdated).await;
        written.map_err(|error| not_copied(Some(deployed.clone()), error))?;
        self.restore_namespace(&deployed).await?;
        Ok(deployed)
    }

    /// Makes the copies what they should be before the actions. Those of a deployed revision follow their sources while its next attempt is
    /// delayed.
    ///
    /// # Errors
    /// If one cannot be written, or the next attempt is due later.
    pub async fn provide(
        &self,
        deployed: Option<Deployed>,
        outdated: Vec<SourceRef>,
    ) -> Result<(), AgentError> {
        let written = self.write_copies(outdated).await;
        let is_deployed = deployed.is_some();
        written.map_err(|error| not_copied(deployed, error))?;
        if is_deployed {
            self.check_backoff()?;
            self.check_dependencies()?;
        }
        Ok(())
    }

    /// Takes the actions that are needed, one after the other. `copies`: whether the content of copies was changed.
    ///
    /// # Errors
    /// If one of them fails, or something is missing.
    pub async fn deploy(&self, copies: bool) -> Result<Deployed, AgentError> {
        self.take_steps(copies, Failures::Reported).await
    }

    /// Whether an upgrade follows although what is wanted is deployed: with other copies than now, or before a release of another name.
    /// `copies`: whether copies were changed just now.
    async fn is_repeated(&self, copies: bool, history: &History) -> Result<bool, AgentError> {
        Ok(self.has_undeployed_copies(copies, history) || self.was_renamed_since(history).await?)
    }

    /// What is requested and was not handled yet: also if the agent was stopped before it could report that.
    fn requested(&self, history: &History) -> Requested {
        Requested {
            force: self.requested.force && !history.was_forced_by(self.force_request()),
            ..self.requested
        }
    }

    /// An attempt failed although Helm succeeded. The record gets the failure, and the remediation follows.
    ///
    /// # Errors
    /// Always: what is to be reported.
    pub async fn fail(&self, deployed: &Deployed, failure: Failure) -> Result<Infallible, AgentError> {
        tracing::warn!(release = %self.release, revision = deployed.id.number, cause = failure.cause(), "the deployment failed");
        let records = &self.context.records;
        let failed = records.fail(&self.release, deployed.id.number, &failure);
        self.records.changed_by(failed).await?;
        self.clear_repeated().await?;
        self.take_steps(false, Failures::New).await?;
        // Another client has deployed it meanwhile.
        Err(AgentError::Changed)
    }

    /// A revision that was not ready in time is ready now.
    ///
    /// # Errors
    /// If its record cannot be changed.
    pub async fn recover(&self, deployed: &Deployed) -> Result<(), AgentError> {
        tracing::info!(release = %self.release, revision = deployed.id.number, "the deployment is ready after all");
        let records = &self.context.records;
        let recovered = records.set_deployed(&self.release, deployed.id.number);
        self.records.changed_by(recovered).await?;
        Ok(())
    }

    /// Records that a revision was ready and passed its tests: one write for each revision that was awaited. What it has replaced under
    /// another name is removed then.
    ///
    /// # Errors
    /// If its record cannot be changed.
    pub async fn accept(&self, deployed: &Deployed, watched: &mut Watched) -> Result<(), AgentError> {
        let is_awaited = deployed.acceptance == Some(Acceptance::Awaited) && !deployed.is_rollback;
        if watched.is_accepted || !is_awaited {
            return Ok(());
        }
        let records = &self.context.records;
        let accepted = records.accept(&self.release, deployed.id.number);
        self.records.changed_by(accepted).await?;
        watched.is_accepted = true;
        let releases = own_releases(self.context, name(self.wanted)).await?;
        super::remove_renamed(self.context, self.wanted, &releases).await;
        Ok(())
    }

    async fn take_steps(&self, copies: bool, mut failures: Failures) -> Result<Deployed, AgentError> {
        let policy = self.policy_beside_others().await?;
        // A request has one effect. That of a failure which is not reported yet was the attempt that failed.
        let mut is_requested = failures == Failures::Reported;
        let mut last = None;
        let mut is_adopted = false;
        for _ in 0..MAX_ACTIONS {
            let history = self.records.history().await?;
            let requested = if is_requested {
                self.requested(&history)
            } else {
                Requested::default()
            };
            let mut step = self.next(&policy, &history, requested, failures);
            let is_settled = step == Step::Act(Action::None) && last.is_none() && !is_adopted;
            if is_settled && self.is_repeated(copies, &history).await? {
                step = Step::Act(Action::Upgrade { discard: None });
            }
            if failures == Failures::New && is_attempt(&step) {
                // Only the backoff of the reconciliation delays it.
                let error = last.unwrap_or_else(|| self.failure(&history));
                return Err(self.with_remedy(&policy, &history, error));
            }
            let run = match step {
                Step::Act(Action::Install { replaces }) => Run::Install { replaces },
                Step::Act(Action::Upgrade { discard }) => Run::Upgrade { discard },
                Step::Act(Action::TakeOver { revision }) => {
                    self.context.guard.remember_version().await?;
                    if !requested.force && self.adopt(revision).await? {
                        is_adopted = true;
                        continue;
                    }
                    Run::Upgrade { discard: None }
                }
                Step::Act(action) => match self.act(action, &history).await? {
                    Some(deployed) => return Ok(deployed),
                    None => continue,
                },
                Step::Rollback { to, failed } => {
                    if let Err(error) = self.roll_back(&history, to, failed).await {
                        self.record_deadline(&error).await?;
                        return Err(error);
                    }
                    self.end_of_fleet(failed, "rolled back", last.take())?;
                    continue;
                }
                Step::Uninstall { keeps_record, failed } => {
                    self.uninstall(&history, keeps_record, failed).await?;
                    self.end_of_fleet(failed, "uninstalled", last.take())?;
                    continue;
                }
                Step::Wait(retry) => return Err(self.next_attempt_of(&history, &retry)),
            };
            let attempt = self.attempt(&history, run, requested);
            let error = match self.run(run, attempt).await {
                Ok(deployed) => return Ok(deployed),
                Err(error) => error,
            };
            self.record_deadline(&error).await?;
            self.clear_repeated().await?;
            if !self.is_decided_by_records(&history, run).await? {
                return Err(error);
            }
            last = Some(error);
            failures = Failures::New;
            is_requested = false;
        }
        Err(AgentError::Changed)
    }

    /// A run of Helm that reaches its deadline has failed: in its record it looks like one that was interrupted, which neither
    /// counts nor is remediated.
    async fn record_deadline(&self, error: &AgentError) -> Result<(), AgentError> {
        if !matches!(error, AgentError::Helm(failure) if failure.reason == FailureReason::Deadline) {
            return Ok(());
        }
        let (records, release) = (&self.context.records, &self.release);
        let history = self.records.history().await?;
        if let Some(newest) = history.newest_of(name(self.wanted)) {
            let failed = records.fail_at_deadline(release, newest.number);
            self.records.changed_by(failed).await?;
        }
        Ok(())
    }

    /// Takes an action that is no attempt. Returns the deployed revision if nothing is to be done.
    async fn act(&self, action: Action, history: &History) -> Result<Option<Deployed>, AgentError> {
        let release = &self.release;
        match action {
            Action::None => {
                return self.current(history).map(Some).ok_or(AgentError::Changed);
            }
            Action::Wait(pending) => {
                let release = release.clone();
                return Err(AgentError::Busy { release, pending });
            }
            Action::Refuse(owner) => {
                let release = release.clone();
                return Err(AgentError::Foreign { release, owner });
            }
            Action::Unlock { revision } => {
                let unlocked = self.context.records.unlock(release, revision);
                self.records.changed_by(unlocked).await?;
            }
            Action::Uninstall | Action::Forget => self.complete_uninstallation(history).await?,
            Action::Install { .. } | Action::Upgrade { .. } | Action::TakeOver { .. } => {}
        }
        Ok(None)
    }

    /// Without a life cycle, the backoff of the reconciliation decides when the next attempt is made.
    fn end_of_fleet(
        &self,
        failed: FailedAttempt<'_>,
        what: &str,
        error: Option<AgentError>,
    ) -> Result<(), AgentError> {
        if self.policy.for_action(failed.attempt.action).schedule != Schedule::Backoff {
            return Ok(());
        }
        let cause = match &error {
            Some(AgentError::Helm(failure)) if failure.is_captured() => return error.map_or(Ok(()), Err),
            Some(error) => error.to_string(),
            None => failed.failure.cause(),
        };
        let error = format!(
            "release {} failed, and has been {what} due to rollback-on-failure being set (atomic): {cause}",
            self.release.name
        );
        Err(AgentError::NotReady(error))
    }

    /// Whether the next step follows from the record of a failure. Otherwise the error is retried with the backoff: Helm made no record,
    /// or the policy has no more to say.
    async fn is_decided_by_records(&self, before: &History, run: Run) -> Result<bool, AgentError> {
        let policy = self.policy.for_action(run.action());
        if policy.schedule == Schedule::Backoff && policy.remediation == Remediation::None {
            return Ok(false);
        }
        let after = self.records.history().await?;
        let failed = after.failed_attempt(&self.wanted.spec.deployment_id);
        Ok(failed.is_some() && after.newest() != before.newest())
    }

    /// The last attempt failed, as its record shows.
    fn failure(&self, history: &History) -> AgentError {
        let failed = history.failed_attempt(&self.wanted.spec.deployment_id);
        failed.map_or(AgentError::Changed, |failed| {
            let (release, cause) = (&self.release.name, failed.failure.cause());
            AgentError::NotReady(format!("release {release} failed: {cause}"))
        })
    }

    fn next<'h>(
        &'h self,
        policy: &'h Policy,
        history: &'h History,
        requested: Requested,
        failures: Failures,
    ) -> Step<'h> {
        lifecycle::next(Situation {
            state: self.state(history),
            history,
            policy,
            deployment_id: &self.wanted.spec.deployment_id,
            requested,
            is_reported: failures == Failures::Reported,
            now: Timestamp::now(),
        })
    }

    /// What is reported until the next attempt.
    fn next_attempt_of(&self, history: &History, retry: &Retry<'_>) -> AgentError {
        let running = retry.running();
        let deployed = running.map(|revision| self.deployed(history, revision));
        let deployment_id = running.and_then(|revision| history.get(revision)?.origin.deployment_id());
        let may_recover = lifecycle::may_recover(history, &self.wanted.spec.deployment_id);
        AgentError::Retry(Box::new(NextAttempt {
            text: retry.to_string(),
            at: retry.at,
            deployment_id: deployment_id.map(ToOwned::to_owned),
            exhausted: retry.is_first_slow().then_some(retry.failed.attempt.number),
            is_rolled_back: matches!(retry.remedy, Remedy::RolledBack { .. }),
            may_recover: may_recover.is_some() && may_recover == running,
            running: deployed,
        }))
    }

    /// The deployed revision, if it is what is wanted and no attempt is to follow.
    pub(super) fn current(&self, history: &History) -> Option<Deployed> {
        let id = &self.wanted.spec.deployment_id;
        let revision = lifecycle::completed(&self.state(history), history, id)?;
        Some(self.deployed(history, revision))
    }

    pub(super) fn state(&self, history: &History) -> ReleaseState {
        let (spec, status) = (&self.wanted.spec, &self.wanted.status);
        let applied = status.release.rsplit_once(':').and_then(|(release, revision)| {
            let is_this = ReleaseKey::parse(release).as_ref() == Some(&self.release);
            let revision = revision.parse().ok().filter(|_| is_this)?;
            Some(Applied {
                deployment_id: &status.applied_deployment_id,
                revision,
            })
        });
        let wanted = Wanted {
            bundle_deployment: name(self.wanted),
            deployment_id: &spec.deployment_id,
            applied,
            takes_ownership: spec.options.helm.as_ref().is_some_and(|helm| helm.take_ownership),
        };
        ReleaseState::of(&wanted, history)
    }

    /// The attempt that the next revision is.
    fn attempt(&self, history: &History, run: Run, requested: Requested) -> Attempt {
        let (spec, status) = (&self.wanted.spec, &self.wanted.status);
        let was_applied = status.applied_deployment_id == spec.deployment_id && !status.release.is_empty();
        let cause = if requested.force {
            Cause::Request
        } else if was_applied && history.newest().is_none() {
            Cause::Missing
        } else {
            Cause::Change
        };
        history.next_attempt(&spec.deployment_id, run.action(), cause, !requested.reset)
    }

    /// After a failure, the next attempt is due later, whatever else has changed meanwhile.
    pub(super) fn check_backoff(&self) -> Result<(), AgentError> {
        let key = ObjectRef::new(name(self.wanted))
            .within(self.wanted.metadata.namespace.as_deref().unwrap_or_default());
        let retry_key = RetryKey::of(&self.wanted.metadata, &[]);
        let crash = self
            .context
            .helm
            .crash(&self.release, &self.wanted.spec.deployment_id);
        if let Some(crash) = crash.filter(|crash| crash.until > Timestamp::now()) {
            return Err(AgentError::Crashed(crash));
        }
        let remaining = self.context.retries.remaining(&key, &retry_key);
        remaining.map_or(Ok(()), |wait| Err(AgentError::Postponed(wait)))
    }

    fn check_dependencies(&self) -> Result<(), AgentError> {
        let all = self.context.deployments.state();
        let all: Vec<_> = all.iter().filter_map(|deployment| deployment.valid()).collect();
        Ok(dependencies::check(self.wanted, &all)?)
    }
}

/// Copies cannot be read or written. What is deployed is observed and corrected all the same.
fn not_copied(deployed: Option<Deployed>, error: AgentError) -> AgentError {
    match deployed {
        Some(deployed) => AgentError::Copies {
            deployed: Box::new(deployed),
            error: Box::new(error),
        },
        None => error,
    }
}

/// Whether a step deploys something.
const fn is_attempt(step: &Step<'_>) -> bool {
    matches!(
        step,
        Step::Act(Action::Install { .. } | Action::Upgrade { .. } | Action::TakeOver { .. })
    )
}
