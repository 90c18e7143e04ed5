//! What a replica has seen, and since when.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::bundle::{self, CaCertificate};
use super::stored::{Leaf, Stored};

/// The two kinds of webhook configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `MutatingWebhookConfiguration`
    Mutating,
    /// `ValidatingWebhookConfiguration`
    Validating,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    /// As `kubectl` and manifests name it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

/// One of something for each kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Each<T> {
    pub(crate) mutating: T,
    pub(crate) validating: T,
}

impl<T> Each<T> {
    pub(crate) fn of(&self, kind: Kind) -> &T {
        match kind {
            Kind::Mutating => &self.mutating,
            Kind::Validating => &self.validating,
        }
    }

    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Mutating => &mut self.mutating,
            Kind::Validating => &mut self.validating,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.mutating, &self.validating].into_iter()
    }
}

/// A webhook of this project in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) name: String,
    /// Whom its caller trusts, PEM.
    pub(crate) bundle: Vec<u8>,
}

/// A webhook configuration, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// Those of this project; others are left alone.
    pub(crate) hooks: Vec<Hook>,
    /// Who else injects, by the annotation that says so.
    pub(crate) injector: Option<String>,
}

impl Configuration {
    /// Whether it is for this project to inject into.
    pub(crate) fn is_ours(&self) -> bool {
        self.injector.is_none() && !self.hooks.is_empty()
    }

    /// Whether every webhook has this very bundle.
    pub(crate) fn holds(&self, bundle: &str) -> bool {
        self.hooks.iter().all(|hook| hook.bundle == bundle.as_bytes())
    }
}

/// What is known of an object.
#[derive(Clone, Debug, Default)]
pub(crate) enum Known<T> {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It does not exist.
    Absent,
    /// It was like this.
    Is(T),
}

impl<T> Known<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Unknown | Self::Absent => None,
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl<T> From<Option<T>> for Known<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Is)
    }
}

/// Both clocks: one that certificates go by, and one that never leaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) wall: SystemTime,
    pub(crate) steady: Instant,
}

/// What a replica has seen.
///
/// How long something has been so counts from when this replica saw it first, by its own clock: whoever starts anew waits
/// anew, and clocks of other nodes do not matter.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    secret: Known<Arc<Stored>>,
    configurations: Each<Known<Configuration>>,
    /// The authorities that every caller has trusted without a break, and since when.
    trusted: Vec<(CaCertificate, Instant)>,
    /// The authority of the certificate in the Secret, and since when it is that.
    signer: Option<(CaCertificate, Instant)>,
    /// The certificate that this replica serves.
    served: Option<Leaf>,
}

impl Observed {
    /// The Secret is like this now, or not there.
    pub(crate) fn secret_is(&mut self, stored: Option<Arc<Stored>>, now: Instant) {
        let signer = stored.as_ref().and_then(|stored| stored.leaf.as_ref().ok());
        let signer = signer.map(|leaf| leaf.authority.clone());
        if self.signer.as_ref().map(|(one, _)| one) != signer.as_ref() {
            self.signer = signer.map(|authority| (authority, now));
        }
        self.secret = stored.into();
        self.trust(now);
    }

    /// A configuration is like this now, or not there.
    pub(crate) fn configuration_is(&mut self, kind: Kind, seen: Option<Configuration>, now: Instant) {
        *self.configurations.of_mut(kind) = seen.into();
        self.trust(now);
    }

    /// This is served from now on.
    pub(crate) fn serves(&mut self, leaf: Leaf) {
        self.served = Some(leaf);
    }

    pub(crate) fn secret(&self) -> &Known<Arc<Stored>> {
        &self.secret
    }

    pub(crate) fn configuration(&self, kind: Kind) -> &Known<Configuration> {
        self.configurations.of(kind)
    }

    pub(crate) fn served(&self) -> Option<&Leaf> {
        self.served.as_ref()
    }

    /// How long every caller has trusted this authority, as far as this replica knows.
    pub(crate) fn trusted_for(&self, authority: &CaCertificate, now: Instant) -> Option<Duration> {
        let (_, since) = self.trusted.iter().find(|(one, _)| one == authority)?;
        Some(now.saturating_duration_since(*since))
    }

    /// How long the certificate in the Secret has been one of this authority.
    pub(crate) fn signs_for(&self, authority: &CaCertificate, now: Instant) -> Option<Duration> {
        let (_, since) = self.signer.as_ref().filter(|(one, _)| one == authority)?;
        Some(now.saturating_duration_since(*since))
    }

    /// Whom any caller trusts, as far as this replica knows.
    pub(crate) fn injected(&self) -> Vec<CaCertificate> {
        let hooks = self.ours().flat_map(|configuration| &configuration.hooks);
        hooks.flat_map(|hook| bundle::read(&hook.bundle)).collect()
    }

    /// The configurations that are there for this project to inject into.
    fn ours(&self) -> impl Iterator<Item = &Configuration> {
        self.configurations
            .iter()
            .filter_map(Known::get)
            .filter(|configuration| configuration.is_ours())
    }

    /// Notes who is trusted by every caller now. Where nobody calls, nobody distrusts.
    fn trust(&mut self, now: Instant) {
        if self.configurations.iter().any(Known::is_unknown) {
            self.trusted.clear();
            return;
        }
        let hooks = self.ours().flat_map(|configuration| &configuration.hooks);
        let bundles: Vec<_> = hooks.map(|hook| bundle::read(&hook.bundle)).collect();
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
