//! What happens with a release when its BundleDeployment is gone. It has to be known then, so it is a label of its records.

use helmops_release::{history::History, record::OnDelete};

use super::deployment::{Deployment, name};
use crate::{error::AgentError, owned::OwnedRelease};

impl Deployment<'_> {
    /// Reports that the release is suspended, or that it is no longer.
    pub(super) fn report_suspension(&self, is_suspended: bool) {
        let status = self.wanted.status.lifecycle.as_ref();
        let was = status.is_some_and(|lifecycle| lifecycle.suspended);
        let reports = &self.context.reports;
        reports.suspended(name(self.wanted), &self.release, is_suspended, was);
    }

    /// Remembers the release with what decides about its end: only what is remembered is uninstalled when the BundleDeployment is gone.
    ///
    /// # Errors
    /// If it cannot be remembered.
    pub(super) async fn remember(&self) -> Result<(), AgentError> {
        let owned = (name(self.wanted).to_owned(), OwnedRelease::of(self.wanted));
        Ok(self.context.owned.remember([owned]).await?)
    }

    /// What the label of a record says, if that is not the default. `keeps_objects`: the record itself says that the objects stay.
    pub(super) fn on_delete(&self, keeps_objects: bool) -> Option<OnDelete> {
        let keep_resources = self.wanted.spec.options.keep_resources && !keeps_objects;
        let on_delete = self.policy.on_delete.with_keep_resources(keep_resources);
        Some(on_delete).filter(|on_delete| !on_delete.is_default())
    }

    /// Sets the label on the newest record, if it differs: also if what is wanted was not deployed yet.
    ///
    /// # Errors
    /// If a record cannot be read or written.
    pub(super) async fn set_on_delete(&self) -> Result<(), AgentError> {
        let (records, release) = (&self.context.records, &self.release);
        let wanted = |history: &History| {
            let newest = history.newest_of(name(self.wanted))?;
            Some((newest.number, self.on_delete(newest.keeps_objects)))
        };
        let cached = records.cached_history(release).await?;
        if wanted(&cached).is_none_or(|(_, wanted)| records.on_delete(release) == wanted) {
            return Ok(());
        }
        let current = self.records.history().await?;
        let Some((newest, wanted)) = wanted(&current) else {
            return Ok(());
        };
        tracing::info!(%release, on_delete = wanted.map(tracing::field::display), "recording what happens at the end");
        let set = records.set_on_delete(release, newest, wanted.as_ref());
        self.records.changed_by(set).await?;
        Ok(())
    }
}
