//! The public keys of Google, which verify the requests of Pub/Sub. The exposed process has no connection to the internet, so they are
//! fetched here.

use std::{sync::Arc, time::Duration};

use helmops_notify::push::{GoogleKeys, ReceiverType};
use helmops_process::OnChange;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::context::Context;

/// How often the keys are fetched. Google publishes a key days before it is used.
const INTERVAL: Duration = Duration::from_hours(1);

/// After a failure.
const RETRY: Duration = Duration::from_mins(1);

/// How often to see whether a Receiver needs them.
const CHECK: Duration = Duration::from_secs(5);

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Keeps the keys up to date while a Receiver needs them and this replica is the leader, until `stop`.
pub async fn keep(context: Arc<Context>, url: Url, stop: CancellationToken) {
    let mut next = Instant::now();
    let mut logged = OnChange::default();
    while stop.run_until_cancelled(sleep(CHECK)).await.is_some() {
        let is_leader = context.leadership.remaining().is_some();
        if !is_leader || Instant::now() < next || !is_needed(&context) {
            continue;
        }
        let result = stop.run_until_cancelled(publish(&context, &url)).await;
        match result {
            None => return,
            Some(Ok(())) => {
                logged.record(None);
                next = Instant::now() + INTERVAL;
            }
            Some(Err(error)) => {
                next = Instant::now() + RETRY;
                if logged.record(Some(error.clone())) {
                    tracing::warn!(%url, error, "cannot publish the keys of Google; Receivers of type gcr refuse requests");
                }
            }
        }
    }
}

fn is_needed(context: &Context) -> bool {
    context.stores.receivers.read(|receivers, ()| {
        let mut receivers = receivers.iter().filter_map(|(_, receiver)| receiver.valid());
        receivers.any(|receiver| receiver.spec.r#type == ReceiverType::Gcr.as_str())
    })
}

async fn publish(context: &Context, url: &Url) -> Result<(), String> {
    let keys = context.poster.get(url.clone(), TIMEOUT).await;
    let keys = keys.map_err(|error| error.to_string())?;
    // Others would replace keys that work.
    GoogleKeys::parse(&keys).map_err(|error| error.to_string())?;
    let published = context.published.set_google_keys(&keys).await;
    published.map_err(|error| error.to_string())
}
