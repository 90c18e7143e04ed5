//! How many records a release keeps.

use helmops_release::history::History;

use crate::{error::AgentError, session::ReleaseSession};

/// Attempts without a deployed revision whose records are kept beside those of the policy.
const MAX_UNFINISHED: usize = 10;

/// Deletes records that nothing needs before Helm makes another one: also after failures, which may be many. Returns what is left, and how
/// many Helm keeps. Attempts that did not end with a deployed revision are kept beside those of the policy until one does: only their records have what
/// they have created.
///
/// # Errors
/// If a record cannot be deleted.
pub async fn make_room(
    session: &ReleaseSession<'_>,
    history: &History,
) -> Result<(History, u32), AgentError> {
    let unfinished = history.unfinished_before(u64::MAX).take(MAX_UNFINISHED).count();
    let unfinished = u32::try_from(unfinished).unwrap_or_default();
    let kept = session.policy.history.saturating_add(unfinished);
    keep(session, history, kept.saturating_sub(1)).await?;
    Ok((session.records.history().await?, kept))
}

/// Deletes records that nothing needs, so that no more than `kept` stay if failed ones are enough for that.
///
/// # Errors
/// If a record cannot be deleted.
pub async fn keep(session: &ReleaseSession<'_>, history: &History, kept: u32) -> Result<(), AgentError> {
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    for unneeded in history.unneeded(kept) {
        let records = &session.context.records;
        let deleted = records.delete(&session.release, unneeded.number, unneeded.status);
        session.records.changed_by(deleted).await?;
    }
    Ok(())
}
