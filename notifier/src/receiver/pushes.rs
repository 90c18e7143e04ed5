//! Pushes: the HelmOps of the charts are polled.

use futures::{StreamExt, TryStreamExt, stream};
use helmops_api::{
    HelmOp, NamespacedName, Receiver, labels, notifications::ReceiverStatus, timestamp::timestamp,
};
use helmops_notify::push::{is_polled, pending};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::Patch};
use serde_json::json;

use super::error::ReceiverError;
use crate::{context::Context, writes::MANAGER};

/// Concurrent patches for one Receiver.
const CONCURRENT: usize = 16;

/// Requests the polls for all pushes of a Receiver that are not handled, and updates the status, which the caller writes.
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
    let count = helmops.len();
    stream::iter(helmops)
        .map(|helmop| request_poll(context, helmop, token.clone()))
        .buffer_unordered(CONCURRENT)
        .try_collect::<()>()
        .await?;
    tracing::info!(pushes = status.pushes.len(), helmops = count, "requested polls");
    context.metrics.handled(pending(status).count(), count);
    status.pushes.clear();
    status.handled_push = last;
    status.last_push = timestamp(Timestamp::now());
    status.polled = i64::try_from(count).unwrap_or(i64::MAX);
    Ok(())
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
async fn request_poll(context: &Context, helmop: NamespacedName, token: String) -> Result<(), ReceiverError> {
    let api = Api::<HelmOp>::namespaced(context.client.clone(), &helmop.namespace);
    let change = Patch::Merge(json!({ "metadata": { "annotations": { labels::POLL_REQUESTED_AT: token } } }));
    match bounded(api.patch_metadata(&helmop.name, &MANAGER.patch(), &change)).await {
        Ok(_) => Ok(()),
        // Deleted since.
        Err(error) if ApiError::is_not_found(&error) => Ok(()),
        Err(error) => Err(CallError::of("request a poll of", format!("HelmOp {helmop}"))(error).into()),
    }
}
