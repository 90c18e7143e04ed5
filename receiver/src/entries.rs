//! The watch of the Secret with the Receivers.

use std::sync::Arc;

use futures::StreamExt;
use helmops_notify::push::SECRET;
use helmops_process::{Gate, OnChange, exit::with_causes};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, watch_object},
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::Metrics,
    table::{SharedTable, Table},
};

/// Keeps the table up to date until `stop`. While the API server is not available, the last state counts.
pub async fn follow(
    client: Client,
    namespace: String,
    table: SharedTable,
    metrics: Metrics,
    ready: Gate,
    stop: CancellationToken,
) {
    let api = Api::<Secret>::namespaced(client, &namespace);
    let mut secrets = watch_object(api, SECRET).default_backoff().boxed();
    let mut logged = OnChange::default();
    while let Some(Some(observed)) = stop.run_until_cancelled(secrets.next()).await {
        if let Some(error) = observe(&table, observed) {
            if logged.record(Some(error.clone())) {
                tracing::warn!(error, "cannot watch the Secret {SECRET}; retrying");
            }
            continue;
        }
        logged.record(None);
        ready.open();
        let receivers = table.borrow().as_ref().map_or(0, |table| table.len());
        metrics.set_receivers(receivers);
        tracing::info!(receivers, "receivers loaded");
    }
}

/// Replaces the table. Returns the error, if it is one.
fn observe(table: &SharedTable, observed: watcher::Result<Option<Secret>>) -> Option<String> {
    let secret = match observed {
        Ok(secret) => secret,
        Err(error) => return Some(with_causes(&error)),
    };
    // Without the Secret there are no Receivers: the notifier creates it with the first one.
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let previous = table.borrow().clone().unwrap_or_default();
    table.send_replace(Some(Arc::new(Table::of(&data, &previous))));
    None
}
