//! Policies, kept by a watch.

use std::future::ready;

use futures::StreamExt;
use helmops_shared::runtime::kube_client::PolicyCache;
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Keeps Policies until it is told to stop.
pub async fn keep(client: Client, known: PolicyCache, stop: CancellationToken) {
    let changes = known.watch(&client).for_each(|_| ready(()));
    tokio::select! {
        () = changes => {}
        () = stop.cancelled() => {}
    }
}
