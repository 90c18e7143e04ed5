//! Objects that failed attempts have created, and that the revision which is deployed after them does not have.
//!
//! Helm compares a revision with the one that was deployed last, and an installation with none. So what only a failed attempt has created is
//! in no manifest that it looks at, and would stay without an owner.

use std::collections::BTreeSet;

use helmops_release::history::{History, Revision};

use super::{
    deployed::Deployed,
    deployment::{Deployment, name},
    prune::{Kept, prune},
    wait::Watched,
};
use crate::{error::AgentError, inputs::CopyId};

impl Deployment<'_> {
    /// Deletes what a settled release has no use for any more: what failed attempts have left, and copies.
    ///
    /// # Errors
    /// If something cannot be deleted. A repetition continues.
    pub(super) async fn clear(
        &self,
        deployed: &Deployed,
        watched: &mut Watched,
        copies: &mut Option<BTreeSet<CopyId>>,
    ) -> Result<(), AgentError> {
        self.clear_attempts(deployed, watched).await?;
        self.clear_copies(copies).await
    }

    /// Once for each deployed revision: deletes the objects that only unfinished attempts before it had, and the records that it replaces.
    ///
    /// # Errors
    /// If a record cannot be read or deleted, or an object cannot be deleted. A repetition continues.
    async fn clear_attempts(&self, deployed: &Deployed, watched: &mut Watched) -> Result<(), AgentError> {
        if !watched.is_cleared {
            let history = self.context.records.cached_history(&self.release).await?;
            self.clear_unfinished(&history, deployed.id.number, |_| true)
                .await?;
            self.keep(&history, self.policy.history).await?;
            watched.is_cleared = true;
        }
        Ok(())
    }

    /// Deletes the records of earlier installations that failed with the same input as the last one, and what only they have created: one
    /// record counts the attempts.
    ///
    /// # Errors
    /// As [`Self::clear_attempts`].
    pub(super) async fn clear_repeated(&self) -> Result<(), AgentError> {
        let history = self.records.history().await?;
        let newest = history.newest_of(name(self.wanted));
        let Some(newest) = newest.filter(|newest| newest.has_failed() && newest.is_replaceable()) else {
            return Ok(());
        };
        let id = newest.origin.deployment_id();
        let is_repeated =
            |earlier: &Revision| earlier.is_replaceable() && earlier.origin.deployment_id() == id;
        self.clear_unfinished(&history, newest.number, is_repeated).await
    }

    async fn clear_unfinished(
        &self,
        history: &History,
        number: u64,
        is_cleared: impl Fn(&Revision) -> bool,
    ) -> Result<(), AgentError> {
        let (context, release) = (self.context, &self.release);
        let unfinished: Vec<_> = history
            .unfinished_before(number)
            .filter(|attempt| is_cleared(attempt))
            .collect();
        let Some(present) = history.get(number).filter(|_| !unfinished.is_empty()) else {
            return Ok(());
        };
        let (set, kept) = (
            context.set_of(name(self.wanted)),
            Kept::of(context, release, present.number).await?,
        );
        let (_, deployer) = self.deployer().await?;
        for attempt in unfinished {
            prune(context, &deployer, &set, (release, attempt.number), &kept).await?;
            if attempt.is_replaceable() {
                let deleted = context.records.delete(release, attempt.number, attempt.status);
                self.records.changed_by(deleted).await?;
            }
        }
        Ok(())
    }
}
