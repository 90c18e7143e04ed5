//! The watch of the Secret with the Receivers.

use std::sync::Arc;

use futures::StreamExt;
use helmops_kube::watch_one;
use helmops_notify::push::SECRET;
use helmops_process::Gate;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
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
    let mut secrets = watch_one(api, SECRET).boxed();
    while let Some(Some(secret)) = stop.run_until_cancelled(secrets.next()).await {
        replace(&table, secret);
        ready.open();
        let receivers = table.borrow().as_ref().map_or(0, |table| table.len());
        metrics.set_receivers(receivers);
        tracing::info!(receivers, "receivers loaded");
    }
}

fn replace(table: &SharedTable, secret: Option<Secret>) {
    // Without the Secret there are no Receivers: the notifier creates it with the first one.
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let previous = table.borrow().clone().unwrap_or_default();
    table.send_replace(Some(Arc::new(Table::of(&data, &previous))));
}
