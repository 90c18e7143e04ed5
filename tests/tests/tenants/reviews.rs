//! Requests to the webhook whose bodies never end.

use anyhow::Result;
use bytes::Bytes;
use futures::{StreamExt, stream};
use helmops_tests::probe;
use reqwest::StatusCode;
use tokio::task::JoinSet;

use crate::bed::Mode;
use crate::stage::{Stage, run};

const REQUESTS: usize = 40;
/// A little less than what is read of one request.
const CHUNKS: usize = 110;
const CHUNK: usize = 64 << 10;
/// What the webhook responds to a body that does not arrive in time, or that it has no memory for.
const REFUSALS: [StatusCode; 2] = [StatusCode::REQUEST_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE];

#[test]
fn reviews_that_never_end() {
    run(Mode::BesideFleet, "40 unfinished reviews", unfinished_reviews);
}

async fn unfinished_reviews(stage: &mut Stage<'_>) -> Result<()> {
    let url = format!("{}/validate", stage.bed.webhook.url);
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        // A client for each: one connection for each.
        let client = probe::client(Some(&stage.bed.webhook.ca))?;
        let chunks = stream::iter(std::iter::repeat_n(Bytes::from(vec![b' '; CHUNK]), CHUNKS));
        let body = chunks.chain(stream::pending()).map(Ok::<_, std::io::Error>);
        let request = client
            .post(&url)
            .header("content-type", "application/json")
            .body(reqwest::Body::wrap_stream(body));
        // It is refused or its connection is closed; meanwhile it takes memory.
        requests.spawn(async move { request.send().await.map(|response| response.status()) });
    }
    let outcomes = stage.neighbour_works_during(requests.join_all()).await;
    let refused = outcomes
        .iter()
        .flatten()
        .filter(|status| REFUSALS.contains(status));
    stage.check(
        refused.count() > 0,
        format!("no request was refused: {outcomes:?}"),
    );
    let not_read = outcomes.iter().find(|outcome| match outcome {
        Ok(status) => !REFUSALS.contains(status),
        Err(error) => error.is_connect(),
    });
    stage.check(not_read.is_none(), format!("a body was not read: {not_read:?}"));
    Ok(())
}
