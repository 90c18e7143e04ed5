//! The deployment of a BundleDeployment: what is wanted of its release.

use helmops_api::{BundleDeployment, lifecycle::Requests};
use helmops_release::{
    drift::DriftMode,
    history::History,
    lifecycle::{Policy, Requested},
    names::ReleaseKey,
    record::AttemptAction,
};

use super::{deployed::Deployed, release_records::ReleaseRecords};
use crate::{context::Context, helm::request::HelmSettings, revision::RevisionId, running::Work};

/// What Helm does.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Install.
    Install {
        /// The name has records.
        replaces: bool,
    },
    /// Upgrade.
    Upgrade {
        /// The revision of a failed attempt whose record is deleted, once nothing that the upgrade needs is missing: until then
        /// it counts the attempts.
        discard: Option<u64>,
    },
}

/// The deployment of a BundleDeployment.
pub struct Deployment<'d> {
    pub(super) context: &'d Context,
    pub(super) wanted: &'d BundleDeployment,
    pub(super) release: ReleaseKey,
    pub(super) records: ReleaseRecords<'d>,
    pub(super) policy: Policy,
    pub(super) requested: Requested,
    /// What ends the work for it early.
    pub(super) running: &'d Work,
}

impl<'d> Deployment<'d> {
    /// `handled` are the requests that were handled already.
    pub fn new(
        context: &'d Context,
        deployment: &'d BundleDeployment,
        running: &'d Work,
        handled: &Requests,
    ) -> Self {
        let (options, lifecycle) = (&deployment.spec.options, deployment.spec.lifecycle.as_deref());
        let requests = lifecycle.and_then(|lifecycle| lifecycle.requests.as_ref());
        let release = ReleaseKey::of(name(deployment), options);
        Self {
            context,
            wanted: deployment,
            records: ReleaseRecords::new(&context.records, release.clone()),
            release,
            policy: Policy::of(options, lifecycle),
            requested: Requested::of(requests, handled),
            running,
        }
    }

    /// How Helm is run.
    pub(super) fn settings(&self) -> HelmSettings {
        let spec = &self.wanted.spec;
        let settings = HelmSettings::of(&spec.options, spec.lifecycle.as_deref());
        if DriftMode::overrides_managers(spec) {
            settings.overriding()
        } else {
            settings
        }
    }

    /// The last request of another deployment; empty if there is none.
    pub(super) fn force_request(&self) -> &str {
        let lifecycle = self.wanted.spec.lifecycle.as_ref();
        let requests = lifecycle.and_then(|lifecycle| lifecycle.requests.as_ref());
        requests.map_or("", |requests| &requests.force)
    }

    pub(super) fn deployed(&self, history: &History, revision: u64) -> Deployed {
        let previous = history
            .iter()
            .map(|one| one.number)
            .find(|number| *number < revision);
        let found = history.get(revision);
        Deployed {
            id: RevisionId {
                release: self.release.clone(),
                number: revision,
                made_at: found.and_then(|revision| revision.made_at),
            },
            acceptance: found.and_then(|revision| revision.acceptance),
            is_rollback: found.is_some_and(|revision| revision.is_rollback),
            previous,
        }
    }
}

impl Run {
    /// As in an attempt.
    pub const fn action(self) -> AttemptAction {
        match self {
            Self::Install { .. } => AttemptAction::Install,
            Self::Upgrade { .. } => AttemptAction::Upgrade,
        }
    }
}

pub(super) fn name(deployment: &BundleDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
}
