//! Pushes: the HelmOps of the charts are polled.

use bounded_text::cut;
use futures::{StreamExt, stream};
use helmops_api::{
    HelmOp, NamespacedName, Receiver, labels,
    notifications::{Push, ReceiverStatus},
    timestamp::timestamp,
};
use helmops_core::{
    reason::Reason,
    status::{ConditionState, ConditionType, set_condition},
};
use helmops_notify::push::{is_polled, pending};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Api, api::Patch};
use serde_json::json;

use super::error::ReceiverError;
use crate::{context::Context, writes::MANAGER};

/// Concurrent patches for one Receiver.
const CONCURRENT: usize = 16;
/// How long a push is kept for HelmOps whose poll cannot be requested because of errors that should end. The API server works again by
/// then, or it is a webhook of others that fails for these HelmOps only.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// The HelmOps that a message names.
const MAX_NAMED: usize = 3;
/// Maximum length of an error in a message, in bytes: a webhook of others can write any.
const MAX_ERROR: usize = 256;

/// The polls that were requested for the pushes of a Receiver.
#[derive(Default)]
struct Requests {
    requested: usize,
    /// The API server rejects these, however often they are repeated.
    rejected: Vec<(NamespacedName, CallError)>,
    /// These failed otherwise.
    failed: Vec<(NamespacedName, CallError)>,
}

/// Requests the polls for all pushes of a Receiver that are not handled, and updates the status, which the caller writes. No HelmOp
/// delays another one.
///
/// # Errors
/// If polls were not requested and are to be requested again: the pushes are kept then.
pub async fn handle(
    context: &Context,
    name: &NamespacedName,
    receiver: &Receiver,
    status: &mut ReceiverStatus,
) -> Result<(), ReceiverError> {
    let Some(last) = pending(status).map(|push| push.number).max() else {
        status.pushes.clear();
        return Ok(());
    };
    let helmops = helmops(context, name, receiver, status);
    // The same for each attempt, so a crash before the status is written polls no HelmOp twice.
    let uid = receiver.metadata.uid.as_deref().unwrap_or_default();
    let token = format!("push-{uid}-{last}");
    let mut requests = request_all(context, helmops, &token).await;
    let now = Timestamp::now();
    if !pending(status).all(|push| is_overdue(push, now)) && !requests.failed.is_empty() {
        let (_, error) = requests.failed.swap_remove(0);
        return Err(error.into());
    }
    let Requests {
        requested,
        mut rejected,
        failed,
    } = requests;
    rejected.extend(failed);
    rejected.sort_by(|(one, _), (other, _)| one.cmp(other));
    tracing::info!(
        pushes = status.pushes.len(),
        helmops = requested,
        rejected = rejected.len(),
        "requested polls"
    );
    context.metrics.handled(pending(status).count(), requested);
    status.pushes.clear();
    status.handled_push = last;
    status.last_push = timestamp(now);
    status.polled = i64::try_from(requested).unwrap_or(i64::MAX);
    report(status, &rejected, receiver.metadata.generation, now);
    Ok(())
}

/// Whether a push is not kept any longer.
fn is_overdue(push: &Push, now: Timestamp) -> bool {
    let time = push.time.parse::<Timestamp>();
    // One whose time another client has removed would be kept forever.
    time.map_or(true, |time| now.duration_since(time) > KEPT)
}

/// Patches all of them, whatever becomes of each.
async fn request_all(context: &Context, helmops: Vec<NamespacedName>, token: &str) -> Requests {
    let results = stream::iter(helmops).map(|helmop| async {
        let result = request_poll(context, &helmop, token).await;
        (helmop, result)
    });
    let mut results = results.buffer_unordered(CONCURRENT);
    let mut requests = Requests::default();
    while let Some((helmop, result)) = results.next().await {
        match result {
            Ok(()) => requests.requested += 1,
            Err(error) if error.is_rejected() => requests.rejected.push((helmop, error)),
            Err(error) => requests.failed.push((helmop, error)),
        }
    }
    requests
}

/// Sets or removes the condition about HelmOps that were not polled for the last push.
fn report(
    status: &mut ReceiverStatus,
    rejected: &[(NamespacedName, CallError)],
    generation: Option<i64>,
    now: Timestamp,
) {
    let Some((_, error)) = rejected.first() else {
        let polled = ConditionType::Polled.as_str();
        status.conditions.retain(|condition| condition.r#type != polled);
        return;
    };
    let names = rejected.iter().take(MAX_NAMED);
    let names: Vec<_> = names.map(|(name, _)| name.to_string()).collect();
    let more = match rejected.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let error = cut(error.to_string(), MAX_ERROR);
    let message = format!(
        "the last push did not poll {}{more}: {error}; the other HelmOps were polled",
        names.join(", ")
    );
    tracing::warn!("{message}");
    let state = ConditionState::False(Reason::PollNotRequested, message);
    set_condition(
        &mut status.conditions,
        ConditionType::Polled,
        &state,
        generation,
        &timestamp(now),
    );
}

/// The HelmOps of the pushed charts.
fn helmops(
    context: &Context,
    name: &NamespacedName,
    receiver: &Receiver,
    status: &ReceiverStatus,
) -> Vec<NamespacedName> {
    let pushes: Vec<_> = pending(status).collect();
    let (spec, privileged) = (&receiver.spec, &context.privileged);
    context.stores.objects.helmops.read(|helmops, ()| {
        let polled = helmops.iter().filter(|(helmop, watched)| {
            let labels = &*watched.observed.labels;
            is_polled(
                spec,
                &name.namespace,
                privileged,
                &pushes,
                (helmop, labels, &watched.followed),
            )
        });
        polled.map(|(helmop, _)| helmop.clone()).collect()
    })
}

/// Requests a poll with the annotation that users have for it.
async fn request_poll(context: &Context, helmop: &NamespacedName, token: &str) -> Result<(), CallError> {
    let api = Api::<HelmOp>::namespaced(context.client.clone(), &helmop.namespace);
    let change = Patch::Merge(json!({ "metadata": { "annotations": { labels::POLL_REQUESTED_AT: token } } }));
    match bounded(api.patch_metadata(&helmop.name, &MANAGER.patch(), &change)).await {
        Ok(_) => Ok(()),
        // Deleted since.
        Err(error) if ApiError::is_not_found(&error) => Ok(()),
        Err(error) => Err(CallError::of("request a poll of", format!("HelmOp {helmop}"))(
            error,
        )),
    }
}

#[cfg(test)]
mod tests;
