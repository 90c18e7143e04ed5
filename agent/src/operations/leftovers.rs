//! Objects that failed attempts have created, and that the revision which is deployed after them does not have.
//!
//! Helm compares a revision with the one that was deployed last, and an installation with none. So what only a failed attempt has created is
//! in no manifest that it looks at, and would stay without an owner.

use std::collections::BTreeSet;

use helmops_release::{
    deployed::Deployed,
    history::{History, Revision},
};

use super::{
    copies, history,
    prune::{Kept, prune},
};
use crate::{error::AgentError, inputs::CopyId, memory::WatchedRevision, session::ReleaseSession};

/// Deletes what a settled release has no use for any more: what failed attempts have left, and copies.
///
/// # Errors
/// If something cannot be deleted. A repetition continues.
pub async fn clear(
    session: &ReleaseSession<'_>,
    deployed: &Deployed,
    watched: &mut WatchedRevision,
    known_copies: &mut Option<BTreeSet<CopyId>>,
) -> Result<(), AgentError> {
    clear_attempts(session, deployed, watched).await?;
    copies::clear(session, known_copies).await
}

/// Once for each deployed revision: deletes the objects that only unfinished attempts before it had, and the records that it replaces.
///
/// # Errors
/// If a record cannot be read or deleted, or an object cannot be deleted. A repetition continues.
async fn clear_attempts(
    session: &ReleaseSession<'_>,
    deployed: &Deployed,
    watched: &mut WatchedRevision,
) -> Result<(), AgentError> {
    if !watched.is_cleared {
        let history = session.context.records.cached_history(&session.release).await?;
        clear_unfinished(session, &history, deployed.id.number, |_| true).await?;
        history::keep(session, &history, session.policy.history).await?;
        watched.is_cleared = true;
    }
    Ok(())
}

/// Deletes the records of earlier installations that failed with the same input as the last one, and what only they have created: one
/// record counts the attempts.
///
/// # Errors
/// As [`clear_attempts`].
pub async fn clear_repeated(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let history = session.records.history().await?;
    let newest = history.newest_of(session.name());
    let Some(newest) = newest.filter(|newest| newest.has_failed() && newest.is_replaceable()) else {
        return Ok(());
    };
    let input = newest.origin.input();
    let is_repeated = |earlier: &Revision| earlier.is_replaceable() && earlier.origin.input() == input;
    clear_unfinished(session, &history, newest.number, is_repeated).await
}

async fn clear_unfinished(
    session: &ReleaseSession<'_>,
    history: &History,
    number: u64,
    is_cleared: impl Fn(&Revision) -> bool,
) -> Result<(), AgentError> {
    let (context, release) = (session.context, &session.release);
    let unfinished: Vec<_> = history
        .unfinished_before(number)
        .filter(|attempt| is_cleared(attempt))
        .collect();
    let Some(present) = history.get(number).filter(|_| !unfinished.is_empty()) else {
        return Ok(());
    };
    let (set, kept) = (session.set(), Kept::of(context, release, present.number).await?);
    let (_, deployer) = session.deployer().await?;
    for attempt in unfinished {
        prune(context, &deployer, &set, (release, attempt.number), &kept).await?;
        if attempt.is_replaceable() {
            let deleted = context.records.delete(release, attempt.number, attempt.status);
            session.records.changed_by(deleted).await?;
        }
    }
    Ok(())
}
