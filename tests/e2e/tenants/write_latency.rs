//! How long a bare write takes, to distinguish a slow machine from a slow controller.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Result;
use helmops_bed::api::Api;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::neighbour::NAMESPACE;

/// The ConfigMap that is written.
const NAME: &str = "write-latency";
/// Rare enough to be no load.
const PERIOD: Duration = Duration::from_millis(100);

/// Creates the ConfigMap.
pub async fn create(api: &Api) -> Result<()> {
    let path = format!("api/v1/namespaces/{NAMESPACE}/configmaps");
    let object = json!({ "metadata": { "name": NAME } });
    api.call(Method::POST, &path, object).await.map(drop)
}

/// Runs `work`, and returns the longest time of a bare write meanwhile.
pub async fn measure_during<T>(api: &Api, work: impl Future<Output = T>) -> (T, Duration) {
    let slowest = Cell::new(Duration::ZERO);
    let started = Cell::new(None::<Instant>);
    let record = || {
        let taken = started.take().map(|start| start.elapsed());
        slowest.set(slowest.get().max(taken.unwrap_or_default()));
    };
    let writes = async {
        let mut number = 0;
        loop {
            number += 1;
            started.set(Some(Instant::now()));
            // A failed write counts too.
            let _ = write(api, number).await;
            record();
            sleep(PERIOD).await;
        }
    };
    let value = tokio::select! {
        biased;
        value = work => value,
        never = writes => never,
    };
    // The last write may still be running.
    record();
    (value, slowest.get())
}

async fn write(api: &Api, number: u64) -> Result<()> {
    let path = format!("api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}");
    let change = json!({ "data": { "number": number.to_string() } });
    api.call(Method::PATCH, &path, change).await.map(drop)
}
