//! Requests to the webhook whose bodies never end.

use anyhow::Result;
use bytes::Bytes;
use futures::{StreamExt, stream};
use helmops_tests::probe;
use tokio::task::JoinSet;

use crate::bed::Mode;
use crate::stage::{Stage, run};

const REQUESTS: usize = 40;
/// A little less than what is read of one request.
const CHUNKS: usize = 110;
const CHUNK: usize = 64 << 10;

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
        requests.spawn(async move {
            // It is refused or times out; meanwhile it takes memory.
            let _ = request.send().await;
        });
    }
    stage
        .neighbour_works_during(async { while requests.join_next().await.is_some() {} })
        .await;
    Ok(())
}
