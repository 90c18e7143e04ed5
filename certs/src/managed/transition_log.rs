//! Logs each state change once.

use std::collections::BTreeMap;
use std::time::SystemTime;

use helmops_process::OnChange;
use kube::runtime::watcher;

use super::api::{CallError, describe_watch_error};
use super::metrics::Action;
use super::observed::{Configuration, ConfigurationKind, PerKind};
use super::stored::Leaf;
use crate::pair::Validity;
use crate::reload::log_validity;

/// Logs changes of state. It keeps what was logged last, so that nothing is logged twice.
pub(crate) struct TransitionLog {
    secret: String,
    configuration: String,
    /// The last error of each operation that fails.
    failing: BTreeMap<Operation, OnChange<Option<String>>>,
    /// Why each configuration is not injected.
    obstacles: PerKind<OnChange<Option<String>>>,
    validity: Validity,
}

/// An operation that can fail. It is logged again only if it fails with another error, or has succeeded since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Watch(Watched),
    /// The update of the Secret that is due.
    UpdateSecret,
    Inject(ConfigurationKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    Secret,
    Configuration(ConfigurationKind),
}

impl Watched {
    fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "the Secret",
            Self::Configuration(kind) => kind.as_str(),
        }
    }
}

impl TransitionLog {
    pub(crate) fn new(secret: String, configuration: String) -> Self {
        Self {
            secret,
            configuration,
            failing: BTreeMap::new(),
            obstacles: PerKind::default(),
            validity: Validity::Valid,
        }
    }

    pub(crate) fn loaded(&mut self, leaf: &Leaf) {
        let expires = leaf.pair.expires();
        tracing::info!(
            secret = self.secret, names = ?leaf.pair.names(), %expires, ca = %leaf.authority,
            "loaded serving certificate"
        );
        self.validity = Validity::Valid;
    }

    pub(crate) fn validity(&mut self, served: Option<&Leaf>, now: SystemTime) {
        if let Some(leaf) = served {
            self.validity = log_validity(&leaf.pair, self.validity, now);
        }
    }

    /// Logs why `caBundle` of a configuration is not injected, if the reason has changed.
    pub(crate) fn configuration(&mut self, kind: ConfigurationKind, configuration: Option<&Configuration>) {
        let (name, kind_name) = (&self.configuration, kind.as_str());
        let obstacle = obstacle(kind, name, configuration);
        if self.obstacles.of_mut(kind).record(obstacle.clone()) {
            if let Some(obstacle) = obstacle {
                tracing::warn!("{obstacle}");
            } else {
                tracing::info!("found {kind_name} {name:?}; keeping its caBundle up to date");
            }
        }
    }

    pub(crate) fn watch_succeeded(&mut self, what: Watched) {
        self.failing.remove(&Operation::Watch(what));
    }

    pub(crate) fn watch_failed(&mut self, what: Watched, error: &watcher::Error) {
        let reason = describe_watch_error(error);
        let is_new = self.is_new_failure(Operation::Watch(what), &reason);
        let what = what.as_str();
        if is_new && !is_expired(error) {
            tracing::warn!(
                secret = self.secret,
                configuration = self.configuration,
                "watch of {what} failed; restarting; the loaded certificate is served meanwhile: {reason}"
            );
        } else {
            tracing::debug!("watch of {what} still fails: {reason}");
        }
    }

    pub(crate) fn step_succeeded(&mut self, action: Action, why: &str) {
        let (secret, done) = (
            &self.secret,
            match action {
                Action::IssueAll => "issued a new CA and a certificate from it",
                Action::Renew => "renewed the serving certificate",
                Action::Prepare => {
                    "issued the next CA; its certificate follows when every caBundle trusts it"
                }
                Action::Switch => "issued a certificate from the next CA",
                Action::Retire => "retired the previous CA",
                Action::Inject => "injected caBundle",
            },
        );
        tracing::info!(secret, action = action.as_str(), "{done}: {why}");
    }

    pub(crate) fn conflict(&self, action: Action) {
        tracing::info!(
            secret = self.secret,
            action = action.as_str(),
            "another replica changed the Secret first; reading it again"
        );
    }

    pub(crate) fn step_failed(&mut self, action: Action, why: &str, error: &CallError) {
        let is_new = self.is_new_failure(Operation::UpdateSecret, &error.to_string());
        let (secret, action) = (&self.secret, action.as_str());
        if is_new {
            tracing::warn!(
                secret,
                action,
                "failed to update the Secret ({why}); retrying; the loaded certificate is served meanwhile: {error}"
            );
        } else {
            tracing::debug!(secret, action, "still failing to update the Secret: {error}");
        }
    }

    pub(crate) fn read_failed(&mut self, error: &CallError) {
        tracing::debug!(secret = self.secret, "failed to read the Secret: {error}");
    }

    pub(crate) fn injected(&self, kind: ConfigurationKind) {
        tracing::info!(
            configuration = self.configuration,
            kind = kind.as_str(),
            "injected caBundle"
        );
    }

    pub(crate) fn injection_failed(&mut self, kind: ConfigurationKind, error: &CallError) {
        let is_new = self.is_new_failure(Operation::Inject(kind), &error.to_string());
        let (configuration, kind) = (&self.configuration, kind.as_str());
        if is_new {
            tracing::warn!(
                configuration,
                kind,
                "failed to inject caBundle; the API server does not trust this webhook without it; retrying: {error}"
            );
        } else {
            tracing::debug!(configuration, kind, "still failing to inject caBundle: {error}");
        }
    }

    /// Keeps the failures of operations that are due. All others have been done meanwhile, by this replica or another one.
    pub(crate) fn retain_due(&mut self, is_change: bool, injections: &[ConfigurationKind]) {
        self.failing.retain(|operation, _| match operation {
            Operation::Watch(_) => true,
            Operation::UpdateSecret => is_change,
            Operation::Inject(kind) => injections.contains(kind),
        });
    }

    /// Records a failure, and returns whether it differs from the last one of this operation.
    fn is_new_failure(&mut self, operation: Operation, error: &str) -> bool {
        let failing = self.failing.entry(operation).or_default();
        failing.record(Some(error.to_owned()))
    }
}

/// Why `caBundle` of a configuration is not injected; `None` if it is.
fn obstacle(kind: ConfigurationKind, name: &str, configuration: Option<&Configuration>) -> Option<String> {
    let kind = kind.as_str();
    let Some(configuration) = configuration else {
        return Some(format!(
            "there is no {kind} {name:?}, so the API server does not call this webhook; its caBundle is injected as \
             soon as it is applied (manifests)"
        ));
    };
    if let Some(annotation) = &configuration.injector {
        return Some(format!(
            "{kind} {name:?} has the annotation {annotation:?}: cert-manager manages its caBundle, which does not trust the \
             certificate served here; remove the annotation, or set --tls-source=files"
        ));
    }
    configuration
        .webhooks
        .is_empty()
        .then(|| format!("{kind} {name:?} contains no webhook of helmops; nothing is injected"))
}

/// Whether the resource version of a watch has expired, which is normal for long watches.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_new_once_and_again_after_a_success() {
        let mut log = TransitionLog::new("helmops-system/tls".to_owned(), "helmops".to_owned());
        let [mutating, validating] = ConfigurationKind::ALL;
        assert!(log.is_new_failure(Operation::UpdateSecret, "403"));
        assert!(!log.is_new_failure(Operation::UpdateSecret, "403"));
        assert!(log.is_new_failure(Operation::UpdateSecret, "500"), "another one");
        assert!(log.is_new_failure(Operation::Inject(mutating), "403"));
        assert!(log.is_new_failure(Operation::Inject(validating), "403"));
        log.retain_due(true, &[validating]);
        assert!(
            !log.is_new_failure(Operation::UpdateSecret, "500"),
            "it is still due"
        );
        assert!(log.is_new_failure(Operation::Inject(mutating), "403"));
        log.retain_due(false, &[]);
        assert!(log.is_new_failure(Operation::UpdateSecret, "500"));
        assert!(log.is_new_failure(Operation::Watch(Watched::Secret), "timeout"));
        log.retain_due(false, &[]);
        assert!(!log.is_new_failure(Operation::Watch(Watched::Secret), "timeout"));
        log.watch_succeeded(Watched::Secret);
        assert!(log.is_new_failure(Operation::Watch(Watched::Secret), "timeout"));
    }
}
