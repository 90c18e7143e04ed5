//! What is written to the log: each state once, for whoever has to find out what happened.

use std::collections::BTreeMap;
use std::time::SystemTime;

use kube::runtime::watcher;

use super::api::{Failure, told_of_watch};
use super::metrics::Action;
use super::sight::{Configuration, Each, Kind};
use super::stored::Leaf;
use crate::pair::Validity;
use crate::reload::tell_validity;

/// What was told last, so that nothing is told twice.
pub(crate) struct Telling {
    secret: String,
    configuration: String,
    /// What fails, and of what.
    failing: BTreeMap<Work, String>,
    /// What was told of the configurations.
    told: Each<Option<String>>,
    validity: Validity,
}

/// What can fail, and is told of again only when it fails of something else or has worked since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Watch(Watched),
    /// The change of the Secret that is due.
    Change,
    Inject(Kind),
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    Secret,
    Configuration(Kind),
}

impl Watched {
    fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "the Secret",
            Self::Configuration(kind) => kind.as_str(),
        }
    }
}

impl Telling {
    pub(crate) fn new(secret: String, configuration: String) -> Self {
        Self {
            secret,
            configuration,
            failing: BTreeMap::new(),
            told: Each::default(),
            validity: Validity::Valid,
        }
    }

    pub(crate) fn serves(&mut self, leaf: &Leaf) {
        let expires = leaf.pair.expires();
        tracing::info!(
            secret = self.secret, names = ?leaf.pair.names(), %expires, authority = %leaf.authority,
            "loaded serving certificate"
        );
        self.validity = Validity::Valid;
    }

    pub(crate) fn validity(&mut self, served: Option<&Leaf>, now: SystemTime) {
        if let Some(leaf) = served {
            self.validity = tell_validity(&leaf.pair, self.validity, now);
        }
    }

    /// Tells what keeps a configuration from being injected into, when that has changed.
    pub(crate) fn configuration(&mut self, kind: Kind, seen: Option<&Configuration>) {
        let (name, kind_name) = (&self.configuration, kind.as_str());
        let obstacle = match seen {
            None => Some(format!(
                "there is no {kind_name} {name:?}, so the API server does not ask this webhook; its caBundle is injected as \
                 soon as it is applied (manifests)"
            )),
            Some(seen) if seen.injector.is_some() => Some(format!(
                "{kind_name} {name:?} has the annotation {:?}: its caBundle is left to cert-manager, and does not trust the \
                 certificate served here; remove the annotation, or give --tls-source=files",
                seen.injector.as_deref().unwrap_or_default()
            )),
            Some(seen) if seen.hooks.is_empty() => Some(format!(
                "{kind_name} {name:?} has no webhook of helmops in it; nothing is injected"
            )),
            Some(_) => None,
        };
        let told = self.told.of_mut(kind);
        if *told != obstacle {
            if let Some(obstacle) = &obstacle {
                tracing::warn!("{obstacle}");
            } else {
                tracing::info!("found {kind_name} {name:?}; keeping its caBundle up to date");
            }
            *told = obstacle;
        }
    }

    pub(crate) fn watch_works(&mut self, what: Watched) {
        self.failing.remove(&Work::Watch(what));
    }

    pub(crate) fn watch_fails(&mut self, what: Watched, error: &watcher::Error) {
        let told = told_of_watch(error);
        let is_news = self.fails(Work::Watch(what), &told);
        let what = what.as_str();
        if is_news && !is_expired(error) {
            tracing::warn!(
                secret = self.secret,
                configuration = self.configuration,
                "watch of {what} failed; restarting; the loaded certificate is served meanwhile: {told}"
            );
        } else {
            tracing::debug!("watch of {what} still fails: {told}");
        }
    }

    pub(crate) fn stepped(&mut self, action: Action, why: &str) {
        let (secret, did) = (
            &self.secret,
            match action {
                Action::Anew => "issued a new CA and a certificate of it",
                Action::Renew => "renewed the serving certificate",
                Action::Prepare => {
                    "issued the next CA; its certificate follows when every caBundle trusts it"
                }
                Action::Switch => "issued a certificate of the next CA",
                Action::Retire => "retired the CA before",
                Action::Inject => "injected caBundle",
            },
        );
        tracing::info!(secret, action = action.as_str(), "{did}: {why}");
    }

    pub(crate) fn overtaken(&self, action: Action) {
        tracing::info!(
            secret = self.secret,
            action = action.as_str(),
            "another replica changed the Secret first; reading it again"
        );
    }

    pub(crate) fn step_fails(&mut self, action: Action, why: &str, failure: &Failure) {
        let is_news = self.fails(Work::Change, &failure.to_string());
        let (secret, action) = (&self.secret, action.as_str());
        if is_news {
            tracing::warn!(
                secret,
                action,
                "failed to update the Secret ({why}); retrying; the loaded certificate is served meanwhile: {failure}"
            );
        } else {
            tracing::debug!(secret, action, "still failing to update the Secret: {failure}");
        }
    }

    pub(crate) fn look_fails(&mut self, failure: &Failure) {
        tracing::debug!(secret = self.secret, "failed to read the Secret: {failure}");
    }

    pub(crate) fn injected(&self, kind: Kind) {
        tracing::info!(
            configuration = self.configuration,
            kind = kind.as_str(),
            "injected caBundle"
        );
    }

    pub(crate) fn injection_fails(&mut self, kind: Kind, failure: &Failure) {
        let is_news = self.fails(Work::Inject(kind), &failure.to_string());
        let (configuration, kind) = (&self.configuration, kind.as_str());
        if is_news {
            tracing::warn!(
                configuration,
                kind,
                "failed to inject caBundle, without which the API server does not trust this webhook; retrying: {failure}"
            );
        } else {
            tracing::debug!(configuration, kind, "still failing to inject caBundle: {failure}");
        }
    }

    /// What is to be done now. Whatever else failed has been done meanwhile, by this replica or another.
    pub(crate) fn due(&mut self, is_change: bool, injections: &[Kind]) {
        self.failing.retain(|work, _| match work {
            Work::Watch(_) => true,
            Work::Change => is_change,
            Work::Inject(kind) => injections.contains(kind),
        });
    }

    /// Notes a failure, and tells whether it is another one than before.
    fn fails(&mut self, work: Work, of: &str) -> bool {
        self.failing.insert(work, of.to_owned()).as_deref() != Some(of)
    }
}

/// Whether a watch has merely fallen behind, which long ones do.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_until_it_is_told_and_again_when_it_had_gone() {
        let mut telling = Telling::new("helmops-system/tls".to_owned(), "helmops".to_owned());
        let [mutating, validating] = Kind::ALL;
        assert!(telling.fails(Work::Change, "403"));
        assert!(!telling.fails(Work::Change, "403"));
        assert!(telling.fails(Work::Change, "500"), "another one");
        assert!(telling.fails(Work::Inject(mutating), "403"));
        assert!(telling.fails(Work::Inject(validating), "403"));
        telling.due(true, &[validating]);
        assert!(!telling.fails(Work::Change, "500"), "it is still due");
        assert!(telling.fails(Work::Inject(mutating), "403"));
        telling.due(false, &[]);
        assert!(telling.fails(Work::Change, "500"));
        assert!(telling.fails(Work::Watch(Watched::Secret), "timeout"));
        telling.due(false, &[]);
        assert!(!telling.fails(Work::Watch(Watched::Secret), "timeout"));
        telling.watch_works(Watched::Secret);
        assert!(telling.fails(Work::Watch(Watched::Secret), "timeout"));
    }
}
