//! The watch of Policies.

use std::future::ready;

use futures::StreamExt;
use helmops_kube::PolicyCache;
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Keeps the cache up to date until `stop`.
pub async fn watch(client: Client, cache: PolicyCache, stop: CancellationToken) {
    let changes = cache.watch(&client).for_each(|_| ready(()));
    tokio::select! {
        () = changes => {}
        () = stop.cancelled() => {}
    }
}
