//! What is written to the log: each state once, for whoever has to find out what happened.

use std::collections::BTreeSet;
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
    /// Watches that fail, and calls, with what they fail of.
    failing: BTreeSet<String>,
    /// What was told of the configurations.
    told: Each<Option<String>>,
    validity: Validity,
}

impl Telling {
    pub(crate) fn new(secret: String, configuration: String) -> Self {
        Self {
            secret,
            configuration,
            failing: BTreeSet::new(),
            told: Each::default(),
            validity: Validity::Valid,
        }
    }

    pub(crate) fn serves(&mut self, leaf: &Leaf) {
        let expires = leaf.pair.expires();
        tracing::info!(
            secret = self.secret, names = ?leaf.pair.names(), %expires, authority = %leaf.authority,
            "serving certificate loaded"
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
        self.mended(kind.as_str());
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
                tracing::info!("{kind_name} {name:?} is there; its caBundle is kept");
            }
            *told = obstacle;
        }
    }

    pub(crate) fn watch_fails(&mut self, what: &str, error: &watcher::Error) {
        let told = told_of_watch(error);
        if self.failing.insert(what.to_owned()) {
            tracing::warn!(
                secret = self.secret,
                configuration = self.configuration,
                "the watch of {what} failed and is begun anew; the certificate that is loaded is served meanwhile: {told}"
            );
        } else {
            tracing::debug!("the watch of {what} still fails: {told}");
        }
    }

    pub(crate) fn stepped(&mut self, action: Action, why: &str) {
        self.mended("the Secret");
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
            "somebody else was quicker; looking at what is there now"
        );
    }

    pub(crate) fn step_fails(&mut self, action: Action, why: &str, failure: &Failure) {
        let (secret, action) = (&self.secret, action.as_str());
        if self.failing.insert(format!("the Secret: {failure}")) {
            tracing::warn!(
                secret,
                action,
                "cannot change the Secret, although {why}; trying again, and what is loaded is served meanwhile: {failure}"
            );
        } else {
            tracing::debug!(secret, action, "still cannot change the Secret: {failure}");
        }
    }

    pub(crate) fn look_fails(&mut self, failure: &Failure) {
        tracing::debug!(secret = self.secret, "cannot read the Secret: {failure}");
    }

    pub(crate) fn injected(&mut self, kind: Kind) {
        self.mended(kind.as_str());
        tracing::info!(
            configuration = self.configuration,
            kind = kind.as_str(),
            "injected caBundle"
        );
    }

    pub(crate) fn injection_fails(&mut self, kind: Kind, failure: &Failure) {
        let (configuration, kind) = (&self.configuration, kind.as_str());
        if self.failing.insert(format!("{kind}: {failure}")) {
            tracing::warn!(
                configuration,
                kind,
                "cannot inject caBundle, and without it the API server does not trust this webhook; trying again: {failure}"
            );
        } else {
            tracing::debug!(configuration, kind, "still cannot inject caBundle: {failure}");
        }
    }

    /// What fails from now on is told again.
    fn mended(&mut self, what: &str) {
        self.failing.retain(|failing| !failing.starts_with(what));
    }
}
