//! The state that a replica has observed, and since when.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::bundle::{self, CaCertificate};
use super::stored::{Leaf, Stored};

/// The two kinds of webhook configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConfigurationKind {
    /// `MutatingWebhookConfiguration`
    Mutating,
    /// `ValidatingWebhookConfiguration`
    Validating,
}

impl ConfigurationKind {
    pub(crate) const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    /// As `kubectl` and manifests name it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

/// One value for each kind of webhook configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerKind<T> {
    pub(crate) mutating: T,
    pub(crate) validating: T,
}

impl<T> PerKind<T> {
    pub(crate) fn of(&self, kind: ConfigurationKind) -> &T {
        match kind {
            ConfigurationKind::Mutating => &self.mutating,
            ConfigurationKind::Validating => &self.validating,
        }
    }

    pub(crate) fn of_mut(&mut self, kind: ConfigurationKind) -> &mut T {
        match kind {
            ConfigurationKind::Mutating => &mut self.mutating,
            ConfigurationKind::Validating => &mut self.validating,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.mutating, &self.validating].into_iter()
    }
}

/// A webhook of this project in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    /// Its `caBundle`: the CAs that the API server trusts, PEM.
    pub(crate) bundle: Vec<u8>,
}

/// A webhook configuration, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// The webhooks of this project; others stay unchanged.
    pub(crate) webhooks: Vec<Webhook>,
    /// The annotation by which another controller injects, if it is set.
    pub(crate) injector: Option<String>,
}

impl Configuration {
    /// Whether this project injects into it.
    pub(crate) fn is_ours(&self) -> bool {
        self.injector.is_none() && !self.webhooks.is_empty()
    }

    /// Whether every webhook has exactly this bundle.
    pub(crate) fn has_bundle(&self, bundle: &str) -> bool {
        self.webhooks
            .iter()
            .all(|webhook| webhook.bundle == bundle.as_bytes())
    }
}

/// What is known about an object.
#[derive(Clone, Debug, Default)]
pub(crate) enum ObjectState<T> {
    /// Not observed yet.
    #[default]
    Unknown,
    /// It does not exist.
    Absent,
    /// It exists, with this value.
    Present(T),
}

impl<T> ObjectState<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Unknown | Self::Absent => None,
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl<T> From<Option<T>> for ObjectState<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Present)
    }
}

/// The time on both clocks: the wall clock for the validity of certificates, and a monotonic one for durations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) wall: SystemTime,
    pub(crate) monotonic: Instant,
}

/// The state that a replica has observed.
///
/// The age of a state counts from the first time that this replica observed it, by its own clock: after a restart a replica
/// waits for the whole time again, and clocks of other nodes do not matter.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    secret: ObjectState<Arc<Stored>>,
    configurations: PerKind<ObjectState<Configuration>>,
    /// The CAs that every webhook configuration has trusted without interruption, and since when.
    trusted: Vec<(CaCertificate, Instant)>,
    /// The CA that signed the certificate in the Secret, and since when.
    signer: Option<(CaCertificate, Instant)>,
    /// The certificate that this replica serves.
    served: Option<Leaf>,
}

impl Observed {
    /// Records the state of the Secret; `None` if it does not exist.
    pub(crate) fn set_secret(&mut self, stored: Option<Arc<Stored>>, now: Instant) {
        let signer = stored.as_ref().and_then(|stored| stored.leaf.as_ref().ok());
        let signer = signer.map(|leaf| leaf.authority.clone());
        if self.signer.as_ref().map(|(one, _)| one) != signer.as_ref() {
            self.signer = signer.map(|authority| (authority, now));
        }
        self.secret = stored.into();
        self.update_trusted(now);
    }

    /// Records the state of a configuration; `None` if it does not exist.
    pub(crate) fn set_configuration(
        &mut self,
        kind: ConfigurationKind,
        configuration: Option<Configuration>,
        now: Instant,
    ) {
        *self.configurations.of_mut(kind) = configuration.into();
        self.update_trusted(now);
    }

    /// Records the certificate that is served from now on.
    pub(crate) fn set_served(&mut self, leaf: Leaf) {
        self.served = Some(leaf);
    }

    pub(crate) fn secret(&self) -> &ObjectState<Arc<Stored>> {
        &self.secret
    }

    pub(crate) fn configuration(&self, kind: ConfigurationKind) -> &ObjectState<Configuration> {
        self.configurations.of(kind)
    }

    pub(crate) fn served(&self) -> Option<&Leaf> {
        self.served.as_ref()
    }

    /// How long every webhook configuration has trusted this CA, as far as this replica knows.
    pub(crate) fn trusted_for(&self, authority: &CaCertificate, now: Instant) -> Option<Duration> {
        let (_, since) = self.trusted.iter().find(|(one, _)| one == authority)?;
        Some(now.saturating_duration_since(*since))
    }

    /// How long the certificate in the Secret has been signed by this CA.
    pub(crate) fn signing_for(&self, authority: &CaCertificate, now: Instant) -> Option<Duration> {
        let (_, since) = self.signer.as_ref().filter(|(one, _)| one == authority)?;
        Some(now.saturating_duration_since(*since))
    }

    /// The CAs in any `caBundle`, as far as this replica knows.
    pub(crate) fn injected_authorities(&self) -> Vec<CaCertificate> {
        let webhooks = self.ours().flat_map(|configuration| &configuration.webhooks);
        webhooks
            .flat_map(|webhook| bundle::read(&webhook.bundle))
            .collect()
    }

    /// The existing configurations that this project injects into.
    fn ours(&self) -> impl Iterator<Item = &Configuration> {
        self.configurations
            .iter()
            .filter_map(ObjectState::get)
            .filter(|configuration| configuration.is_ours())
    }

    /// Updates which CAs every webhook configuration trusts now. Without any configuration, all CAs count as trusted.
    fn update_trusted(&mut self, now: Instant) {
        if self.configurations.iter().any(ObjectState::is_unknown) {
            self.trusted.clear();
            return;
        }
        let webhooks = self.ours().flat_map(|configuration| &configuration.webhooks);
        let bundles: Vec<_> = webhooks.map(|webhook| bundle::read(&webhook.bundle)).collect();
        let stored = self.secret.get().map(|stored| stored.authorities.as_slice());
        let served = self.served.iter().map(|leaf| &leaf.authority);
        let candidates = stored.unwrap_or_default().iter().chain(served);
        let mut trusted: Vec<(CaCertificate, Instant)> = Vec::new();
        for authority in candidates {
            let is_new = trusted.iter().all(|(one, _)| one != authority);
            if is_new && bundles.iter().all(|bundle| bundle.contains(authority)) {
                let before = self.trusted.iter().find(|(one, _)| one == authority);
                trusted.push((authority.clone(), before.map_or(now, |(_, since)| *since)));
            }
        }
        self.trusted = trusted;
    }
}
