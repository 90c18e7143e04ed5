//! Pushes: the HelmOps of the charts are polled.

use std::time::{Duration, Instant};

use bounded_text::{cut, listed};
use futures::{StreamExt, stream};
use helmops_api::{
    HelmOp, NamespacedName, Receiver, labels,
    notifications::{Push, ReceiverStatus},
    timestamp::timestamp,
};
use helmops_kube::name_of;
use helmops_model::{
    condition::{ConditionState, ConditionType, set as set_condition},
    reason::Reason,
};
use helmops_notify::push::{is_of_all, is_polled, pending, set_handled};
use helmops_process::lock;
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Api, api::Patch};
use serde_json::json;

use super::error::ReceiverError;
use crate::{
    context::{Context, MANAGER},
    work::ReceiverKey,
};

/// Time between two pushes of a Receiver that poll all of its HelmOps. Others are not delayed.
const BETWEEN_PUSHES_TO_ALL: Duration = Duration::from_secs(30);
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
    /// The HelmOps whose request failed for another reason.
    failed: Vec<(NamespacedName, CallError)>,
}

/// The pushes of a Receiver that are not handled.
struct Pending {
    /// Those that are handled now; at least one.
    now: Vec<Push>,
    /// The number of the last of them.
    last: i64,
    /// The pushes that wait for a later reconciliation.
    later: Vec<Push>,
}

impl Pending {
    /// `None` if there is nothing to handle now.
    fn of(status: &ReceiverStatus, wait_of_all: Duration) -> Option<Self> {
        let waits = |push: &Push| is_of_all(push) && !wait_of_all.is_zero();
        let (later, now): (Vec<_>, Vec<_>) = pending(status).cloned().partition(waits);
        let last = now.iter().map(|push| push.number).max()?;
        Some(Self { now, last, later })
    }
}

/// Requests the polls for the pushes of a Receiver that are not handled, and updates the status, which the caller writes. No HelmOp
/// delays another one. A push to all repositories waits if there was one a short time ago: it polls every HelmOp, and can be recorded
/// every second. Returns when to handle it.
///
/// # Errors
/// If polls were not requested and are to be requested again: the pushes are kept then.
pub async fn handle(
    context: &Context,
    key: &ReceiverKey,
    receiver: &Receiver,
    status: &mut ReceiverStatus,
) -> Result<Option<Duration>, ReceiverError> {
    let wait = wait_of_all(context, key);
    let Some(Pending {
        now: pushes,
        last,
        later,
    }) = Pending::of(status, wait)
    else {
        let handled = status.handled_push;
        status.pushes.retain(|push| push.number > handled);
        return Ok((!status.pushes.is_empty()).then_some(wait));
    };
    let helmops = helmops(context, &name_of(key), receiver, &pushes);
    // The same for each attempt, so a crash before the status is written polls no HelmOp twice.
    let uid = receiver.metadata.uid.as_deref().unwrap_or_default();
    let token = format!("push-{uid}-{last}");
    let mut requests = request_all(context, helmops, &token).await;
    let now = Timestamp::now();
    if !pushes.iter().all(|push| is_overdue(push, now)) && !requests.failed.is_empty() {
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
        pushes = pushes.len(),
        helmops = requested,
        rejected = rejected.len(),
        "requested polls"
    );
    context.metrics.handled(pushes.len(), requested);
    if pushes.iter().any(is_of_all) {
        lock(&context.polled_all).insert(key.clone(), Instant::now());
    }
    let requeue_after = (!later.is_empty()).then_some(wait);
    set_handled(status, last, later);
    status.last_push = timestamp(now);
    status.polled = i64::try_from(requested).unwrap_or(i64::MAX);
    report(status, &rejected, receiver.metadata.generation, now);
    Ok(requeue_after)
}

/// The time until a push to all repositories of a Receiver is handled.
fn wait_of_all(context: &Context, key: &ReceiverKey) -> Duration {
    let last = lock(&context.polled_all).get(key).copied();
    last.map_or(Duration::ZERO, |last| {
        BETWEEN_PUSHES_TO_ALL.saturating_sub(last.elapsed())
    })
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
    let names: Vec<_> = rejected.iter().map(|(name, _)| name).collect();
    let error = cut(error.to_string(), MAX_ERROR);
    let message = format!(
        "the last push did not poll {}: {error}; the other HelmOps were polled",
        listed(&names, MAX_NAMED)
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
    pushes: &[Push],
) -> Vec<NamespacedName> {
    let pushes: Vec<_> = pushes.iter().collect();
    let (spec, privileged) = (&receiver.spec, &context.privileged);
    context.stores.objects.helmops.read(|helmops, ()| {
        let polled = helmops.iter().filter(|(helmop, watched)| {
            let labels = &*watched.observed;
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
