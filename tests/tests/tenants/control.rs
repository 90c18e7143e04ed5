//! How long a bare write takes, to tell a slow machine from a slow controller.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Result;
use helmops_tests::api::Api;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::neighbour::NAMESPACE;

/// What is written.
const NAME: &str = "control";
/// Seldom enough to be no load.
const PERIOD: Duration = Duration::from_millis(100);

/// Creates what is written.
pub async fn create(api: &Api) -> Result<()> {
    let path = format!("api/v1/namespaces/{NAMESPACE}/configmaps");
    let object = json!({ "metadata": { "name": NAME } });
    api.call(Method::POST, &path, object).await.map(drop)
}

/// Does `work`, and gives the longest time of a bare write meanwhile.
pub async fn beside<T>(api: &Api, work: impl Future<Output = T>) -> (T, Duration) {
    let slowest = Cell::new(Duration::ZERO);
    let begun = Cell::new(None::<Instant>);
    let end = || {
        let taken = begun.take().map(|begun| begun.elapsed());
        slowest.set(slowest.get().max(taken.unwrap_or_default()));
    };
    let writes = async {
        let mut number = 0;
        loop {
            number += 1;
            begun.set(Some(Instant::now()));
            // One that fails counts too.
            let _ = write(api, number).await;
            end();
            sleep(PERIOD).await;
        }
    };
    let value = tokio::select! {
        biased;
        value = work => value,
        never = writes => never,
    };
    // The last one may be under way.
    end();
    (value, slowest.get())
}

async fn write(api: &Api, number: u64) -> Result<()> {
    let path = format!("api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}");
    let change = json!({ "data": { "number": number.to_string() } });
    api.call(Method::PATCH, &path, change).await.map(drop)
}
